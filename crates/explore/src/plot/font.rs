//! Letters as outlines: a drawing then looks the same everywhere, whatever fonts a reader has.

use std::fmt::Write;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// DejaVu Sans Condensed: its widths are near those that charts expect, and it has the letters of mathematics.
pub struct Font(Face<'static>);

impl Font {
    /// The font, from inside the program.
    pub fn new() -> Self {
        let bytes = dejavu::sans_condensed::regular();
        Font(Face::parse(bytes, 0).expect("the font in the program is whole"))
    }

    /// How wide a text is at a size.
    pub fn width(&self, text: &str, size: f64) -> f64 {
        let units: f64 = text.chars().map(|c| self.advance(self.glyph(c))).sum();
        units * self.scale(size)
    }

    /// The outlines of a text that begins at a place on its base line, as the `d` of a path.
    pub fn outline(&self, text: &str, (x, y): (f64, f64), size: f64) -> String {
        let mut pen = Pen { origin: (x, y), scale: self.scale(size), at: (0, 0), path: String::new() };
        for c in text.chars() {
            let glyph = self.glyph(c);
            self.0.outline_glyph(glyph, &mut pen);
            pen.origin.0 += self.advance(glyph) * pen.scale;
        }
        pen.path
    }

    fn scale(&self, size: f64) -> f64 {
        size / f64::from(self.0.units_per_em())
    }

    /// The glyph of a letter; of one that the font has not, its empty box.
    fn glyph(&self, c: char) -> GlyphId {
        self.0.glyph_index(c).unwrap_or_default()
    }

    fn advance(&self, glyph: GlyphId) -> f64 {
        f64::from(self.0.glyph_hor_advance(glyph).unwrap_or(0))
    }
}

/// Writes a path in hundredths of a pixel: every point relative to the one before, as it was rounded, so that errors do not
/// add up.
struct Pen {
    origin: (f64, f64),
    scale: f64,
    at: (i64, i64),
    path: String,
}

impl Pen {
    fn place(&self, x: f32, y: f32) -> (i64, i64) {
        let hundredths = |value: f64| (value * 100.0).round() as i64;
        let (x, y) = (f64::from(x) * self.scale, f64::from(y) * self.scale);
        (hundredths(self.origin.0 + x), hundredths(self.origin.1 - y))
    }

    fn command(&mut self, letter: char, points: &[(i64, i64)]) {
        self.path.push(letter);
        let from = if letter == 'M' { (0, 0) } else { self.at };
        let numbers = points.iter().flat_map(|point| [point.0 - from.0, point.1 - from.1]);
        for (index, number) in numbers.enumerate() {
            if index > 0 && number >= 0 {
                self.path.push(' ');
            }
            self.push(number);
        }
        self.at = points.last().copied().unwrap_or(self.at);
    }

    /// A number of hundredths, in as few letters as can be.
    fn push(&mut self, hundredths: i64) {
        let sign = if hundredths < 0 { "-" } else { "" };
        let (whole, rest) = (hundredths.abs() / 100, hundredths.abs() % 100);
        let _ = match (whole, rest) {
            (_, 0) => write!(self.path, "{sign}{whole}"),
            (0, _) if rest % 10 == 0 => write!(self.path, "{sign}.{}", rest / 10),
            (0, _) => write!(self.path, "{sign}.{rest:02}"),
            _ if rest % 10 == 0 => write!(self.path, "{sign}{whole}.{}", rest / 10),
            _ => write!(self.path, "{sign}{whole}.{rest:02}"),
        };
    }
}

impl OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.command('M', &[self.place(x, y)]);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.command('l', &[self.place(x, y)]);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.command('q', &[self.place(x1, y1), self.place(x, y)]);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.command('c', &[self.place(x1, y1), self.place(x2, y2), self.place(x, y)]);
    }

    fn close(&mut self) {
        self.path.push('z');
    }
}
