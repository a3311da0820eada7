//! Pairs as clocks: each is a vector in a plane, turned by the position times its own frequency.

use super::{Subject, within};
use crate::error::{Error, Result};
use lab::chart::{LOOKS, document, fixed, number, px, text};
use std::f64::consts::TAU;
use std::fmt::Write;

/// The furthest position.
const MAX_POSITION: u64 = 1 << 31;
/// The most pairs.
const MAX_PAIRS: usize = 16;
/// The most frames.
const MAX_FRAMES: usize = 500;
/// Positions that have left a dot: those before fade away.
const DOTS: u64 = 32;
/// Pictures of a position, where it is not said how many.
const STEPS: u64 = 3;

/// One clock for each of some pairs: where the vector was at position 0, where it is at a position, and where it has been.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// Whose frequencies.
    pub subject: Subject,
    /// Which pairs; without them four whose frequencies are far apart.
    pub pairs: Vec<usize>,
    /// The position; that of the last frame, for one that moves.
    pub position: u64,
    /// How many frames; without it three per position.
    pub frames: Option<usize>,
}

impl Rotation {
    /// The picture of its position.
    pub(super) fn draw(&self) -> Result<String> {
        self.check()?;
        Ok(self.at(self.position as f64))
    }

    /// Every picture from position 0 on.
    pub(super) fn frames(&self) -> Result<impl Iterator<Item = String> + Clone> {
        self.check()?;
        let count = self.count()?;
        let step = self.position as f64 / (count - 1) as f64;
        Ok((0..count).map(move |index| self.at(index as f64 * step)))
    }

    /// How many frames.
    pub(super) fn count(&self) -> Result<usize> {
        let default = self.position.saturating_mul(STEPS).saturating_add(1).clamp(2, MAX_FRAMES as u64);
        within("frames", self.frames.unwrap_or(default as usize), 2..=MAX_FRAMES)
    }

    fn check(&self) -> Result<()> {
        within("position", self.position, 0..=MAX_POSITION)?;
        within("the number of pairs shown", self.chosen().len(), 1..=MAX_PAIRS)?;
        let count = self.subject.rope.pairs();
        match self.pairs.iter().find(|&&pair| pair >= count) {
            Some(pair) => {
                Err(Error::new(format!("pair {pair} does not exist; expected pairs from 0 to {}", count - 1)))
            }
            None => Ok(()),
        }
    }

    /// The pairs that are shown: where none are named, four that are an eighth of all apart.
    fn chosen(&self) -> Vec<usize> {
        let count = self.subject.rope.pairs();
        match self.pairs.is_empty() {
            true => (0..4.min(count)).map(|index| index * (count / 8).max(1)).collect(),
            false => self.pairs.clone(),
        }
    }

    fn at(&self, position: f64) -> String {
        let (margin, gap, above, below) = (16.0, 16.0, 46.0, 42.0);
        let pairs = self.chosen();
        let theta = self.subject.theta(self.position + 1);
        let columns = pairs.len().min(4);
        // One clock is large; four stand beside each other.
        let size = if columns == 1 { 320.0 } else { 150.0 };
        let rows = pairs.len().div_ceil(columns);
        let width = (2.0 * margin + (size + gap) * columns as f64 - gap).max(360.0);
        let inset = (width - (size + gap) * columns as f64 + gap) / 2.0;
        let mut body = String::new();
        let whole = (position + 1e-9).floor();
        text(
            &mut body,
            "large",
            (inset, margin + 14.0),
            "start",
            &format!("position m = {}", fixed(whole, 0, false)),
        );
        text(
            &mut body,
            "note",
            (inset, margin + 31.0),
            "start",
            &format!("Each pair turns by m · θⱼ; {}", self.subject.name),
        );
        for (index, &pair) in pairs.iter().enumerate() {
            let left = inset + (size + gap) * (index % columns) as f64;
            let top = margin + above + (size + below + gap) * (index / columns) as f64;
            let clock = Clock { pair, theta: theta[pair], position, look: index % LOOKS };
            clock.draw(&mut body, (left + size / 2.0, top + size / 2.0), size / 2.0);
        }
        let height = 2.0 * margin + above + (size + below + gap) * rows as f64 - gap;
        let title = format!("Pairs turned by rotary embedding at position {whole}, {}", self.subject.name);
        document(&title, (width, height), &body, true)
    }
}

struct Clock {
    pair: usize,
    theta: f64,
    position: f64,
    look: usize,
}

impl Clock {
    fn draw(&self, out: &mut String, (x, y): (f64, f64), radius: f64) {
        let place =
            |angle: f64, part: f64| (x + radius * part * angle.cos(), y - radius * part * angle.sin());
        let at = |angle: f64, part: f64| {
            let (x, y) = place(angle, part);
            format!("{} {}", px(x), px(y))
        };
        let (centre, angle) = (format!("{} {}", px(x), px(y)), self.position * self.theta);
        let _ = writeln!(out, "<g class=\"series s{}\">", self.look);
        let _ =
            writeln!(out, "<circle class=\"face\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", px(x), px(y), px(radius));
        let (left, top, all) = (px(x - radius), px(y - radius), px(2.0 * radius));
        let _ = writeln!(out, "<path class=\"cross\" d=\"M{left} {}h{all}M{} {top}v{all}\"/>", px(y), px(x));
        // What it has turned by since its last full turn.
        let part = angle.rem_euclid(TAU);
        let (reach, large) = (0.42, u8::from(part > TAU / 2.0));
        let arc = px(radius * reach);
        let _ = writeln!(
            out,
            "<path class=\"swept\" d=\"M{centre}L{}A{arc} {arc} 0 {large} 0 {}Z\"/>",
            at(0.0, reach),
            at(part, reach)
        );
        let _ = writeln!(out, "<path class=\"start\" d=\"M{centre}L{}\"/>", at(0.0, 0.88));
        let last = (self.position + 1e-9).floor() as u64;
        for position in last.saturating_sub(DOTS)..=last {
            let (cx, cy) = place(position as f64 * self.theta, 0.93);
            let age = (last - position) as f64 / (DOTS + 1) as f64;
            let opacity = (1.0 - age).powi(2) * 0.9;
            let (cx, cy, size) = (px(cx), px(cy), px(1.6 + radius / 75.0));
            let _ = writeln!(
                out,
                "<circle class=\"before\" cx=\"{cx}\" cy=\"{cy}\" r=\"{size}\" fill-opacity=\"{opacity:.2}\"/>"
            );
        }
        hand(out, (x, y), 0.88 * radius, angle);
        let name = format!("pair {}: θ = {}", self.pair, number(self.theta));
        text(out, "name", (x, y + radius + 20.0), "middle", &name);
        let turns = format!("{} rad, {} turns", fixed(angle, 2, false), fixed(angle / TAU, 2, false));
        text(out, "note", (x, y + radius + 37.0), "middle", &turns);
        out.push_str("</g>\n");
    }
}

/// An arrow from a point, so long and at such an angle.
pub(super) fn hand(out: &mut String, (x, y): (f64, f64), length: f64, angle: f64) {
    let radius = length / 0.88;
    let at = |angle: f64, part: f64| {
        format!("{} {}", px(x + radius * part * angle.cos()), px(y - radius * part * angle.sin()))
    };
    let _ = writeln!(out, "<path class=\"hand\" d=\"M{} {}L{}\"/>", px(x), px(y), at(angle, 0.76));
    let wide = 0.085 + 2.0 / radius;
    let _ = writeln!(
        out,
        "<path class=\"head\" d=\"M{}L{}L{}Z\"/>",
        at(angle, 0.88),
        at(angle + wide / 0.72, 0.72),
        at(angle - wide / 0.72, 0.72)
    );
}
