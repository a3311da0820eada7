//! A GIF of a drawing that moves: one palette, and of every frame only what has changed.

use super::outline::outline;
use super::raster::{broken, pixels, size};
use super::rotation::Rotation;
use super::sheet::Sheet;
use super::within;
use crate::error::Result;
use gif::{DisposalMethod, Encoder, Frame, Repeat};
use std::collections::HashMap;

/// The widest, in pixels.
const WIDEST: u32 = 1600;
/// How long a frame is shown, in hundredths of a second. Browsers slow down anything faster than two.
const DELAY: u16 = 5;
/// How long the last one is.
const REST: u16 = 120;
/// The index of what stays as it was; colours come before it.
const SAME: u8 = 255;

/// A colour.
type Colour = [u8; 3];

/// The frames of a rotation, for ever.
pub fn gif(rotation: &Rotation, sheet: &Sheet, width: Option<u32>) -> Result<Vec<u8>> {
    let count = rotation.count()?;
    let natural = size(&rotation.draw()?)?.0;
    let width = f64::from(within("width", width.unwrap_or(natural as u32), 64..=WIDEST)?);
    let colours = |svg: String| -> Result<Vec<Colour>> {
        let pixels = pixels(&outline(&svg, sheet, natural)?, width)?;
        // The paper has no holes, so nothing shines through.
        Ok(pixels.pixels().iter().map(|pixel| [pixel.red(), pixel.green(), pixel.blue()]).collect())
    };
    let frames = rotation.frames()?;
    // Colours are the same throughout: a few frames have them all.
    let mut palette = Palette::default();
    for svg in frames.clone().step_by(count.div_ceil(8)) {
        palette.count(&colours(svg)?);
    }
    palette.choose();

    let mut bytes = Vec::new();
    let mut before: Vec<u8> = Vec::new();
    let height = colours(rotation.draw()?)?.len() / width as usize;
    let (across, down) = (width as u16, height as u16);
    let mut encoder = Encoder::new(&mut bytes, across, down, &palette.bytes()).map_err(broken)?;
    encoder.set_repeat(Repeat::Infinite).map_err(broken)?;
    for (index, svg) in frames.enumerate() {
        let now: Vec<u8> = colours(svg)?.into_iter().map(|colour| palette.index(colour)).collect();
        let mut frame = changed(&before, &now, across);
        frame.delay = if index + 1 == count { REST } else { DELAY };
        encoder.write_frame(&frame).map_err(broken)?;
        before = now;
    }
    drop(encoder);
    Ok(bytes)
}

/// The least rectangle that holds all that has changed, with what has not left as it was.
fn changed(before: &[u8], now: &[u8], across: u16) -> Frame<'static> {
    let wide = usize::from(across);
    let is_new = |index: usize| before.get(index) != Some(&now[index]);
    let places = || (0..now.len()).filter(|&index| is_new(index)).map(|index| (index % wide, index / wide));
    // A frame must have a pixel, also where nothing has changed.
    let (left, right) = places().fold((wide, 0), |(low, high), (x, _)| (low.min(x), high.max(x)));
    let (top, bottom) = places().fold((usize::MAX, 0), |(low, high), (_, y)| (low.min(y), high.max(y)));
    let (left, top) = (left.min(right), top.min(bottom));
    let rows = (top..=bottom).flat_map(|y| (left..=right).map(move |x| y * wide + x));
    let buffer: Vec<u8> = rows.map(|index| if is_new(index) { now[index] } else { SAME }).collect();
    Frame {
        left: left as u16,
        top: top as u16,
        width: (right - left + 1) as u16,
        height: (bottom - top + 1) as u16,
        dispose: DisposalMethod::Keep,
        transparent: Some(SAME),
        buffer: buffer.into(),
        ..Frame::default()
    }
}

/// The colours of all frames: those that are seen most.
#[derive(Default)]
struct Palette {
    counts: HashMap<Colour, u64>,
    colours: Vec<Colour>,
    known: HashMap<Colour, u8>,
}

impl Palette {
    fn count(&mut self, pixels: &[Colour]) {
        pixels.iter().for_each(|&colour| *self.counts.entry(colour).or_default() += 1);
    }

    /// Of colours that nobody can tell apart (the same but for their lowest bits) the commonest is taken.
    fn choose(&mut self) {
        let mut found: Vec<(Colour, u64)> = self.counts.drain().collect();
        found.sort_by_key(|&(colour, count)| (std::cmp::Reverse(count), colour));
        let mut groups: HashMap<Colour, usize> = HashMap::new();
        let mut chosen: Vec<(Colour, u64)> = Vec::new();
        for (colour, count) in found {
            let group = *groups.entry(colour.map(|channel| channel >> 3)).or_insert(chosen.len());
            match chosen.get_mut(group) {
                Some(one) => one.1 += count,
                None => chosen.push((colour, count)),
            }
        }
        chosen.sort_by_key(|&(colour, count)| (std::cmp::Reverse(count), colour));
        self.colours = chosen.into_iter().map(|(colour, _)| colour).take(usize::from(SAME)).collect();
    }

    /// The nearest colour.
    fn index(&mut self, colour: Colour) -> u8 {
        let colours = &self.colours;
        *self.known.entry(colour).or_insert_with(|| {
            let distance = |other: &Colour| -> u32 {
                colour.iter().zip(other).map(|(&a, &b)| u32::from(a.abs_diff(b)).pow(2)).sum()
            };
            (0..colours.len()).min_by_key(|&index| distance(&colours[index])).unwrap_or(0) as u8
        })
    }

    /// All 256 of them, as the format wants them.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.colours.concat();
        bytes.resize(256 * 3, 0);
        bytes
    }
}
