//! A vector of two features before and after a turn: what rotary embedding does to one pair.

use super::rotation::hand;
use super::within;
use crate::error::{Error, Result};
use lab::chart::{document, fixed, number, px, text};
use rope::{Pairing, reference};
use std::f64::consts::TAU;
use std::fmt::Write;

/// The largest feature, angle or frequency.
const MOST: f64 = 1e6;
/// Pixels from the middle of the plane to its edge.
const HALF: f64 = 200.0;
/// How much of that the vector takes.
const PART: f64 = 0.72;

/// A vector in the plane, and the same turned by an angle about the origin.
#[derive(Clone, Debug)]
pub struct Vector {
    /// The two features.
    pub vector: [f64; 2],
    /// What it is turned by.
    pub angle: Angle,
}

/// What a vector is turned by, counter-clockwise.
#[derive(Clone, Copy, Debug)]
pub enum Angle {
    /// An angle in degrees.
    Degrees(f64),
    /// m·θ, as rotary embedding turns a pair of frequency θ at position m.
    Position {
        /// m.
        position: u64,
        /// θ, in radians.
        theta: f64,
    },
}

impl Vector {
    /// The vector after the turn.
    pub(super) fn turned(&self) -> [f64; 2] {
        let (position, theta) = match self.angle {
            Angle::Degrees(degrees) => (1.0, degrees.to_radians()),
            Angle::Position { position, theta } => (position as f64, theta),
        };
        let turned = reference::rotate(&self.vector, position, &[theta], 1.0, Pairing::Interleaved);
        [turned[0], turned[1]]
    }

    pub(super) fn draw(&self) -> Result<String> {
        for feature in self.vector {
            within("a feature of the vector", feature, -MOST..=MOST)?;
        }
        let length = self.vector[0].hypot(self.vector[1]);
        if length < 1.0 / MOST {
            return Err(Error::new(format!(
                "the vector has the length {length}; expected one that can be seen to turn"
            )));
        }
        let (radians, how) = match self.angle {
            Angle::Degrees(degrees) => (within("angle", degrees, -MOST..=MOST)?.to_radians(), String::new()),
            Angle::Position { position, theta } => {
                within("position", position, 0..=1 << 31)?;
                within("theta", theta, -MOST..=MOST)?;
                let radians = position as f64 * theta;
                (
                    radians,
                    format!(
                        "m · θ = {} · {} = {} rad",
                        number(position as f64),
                        number(theta),
                        number(radians)
                    ),
                )
            }
        };
        let degrees = format!("{}°", fixed(radians.to_degrees(), 1, true));
        let point = |[x, y]: [f64; 2]| format!("({}, {})", short(x, length), short(y, length));
        let (before, after) = (point(self.vector), point(self.turned()));
        let title = format!("{before} turned by {degrees} is {after}");

        let (margin, above) = (16.0, 46.0);
        let (x, y) = (margin + HALF, margin + above + HALF);
        let mut body = String::new();
        text(&mut body, "large", (margin, margin + 14.0), "start", &title);
        let stays = format!("its length stays {}", short(length, length));
        let note = if how.is_empty() { stays } else { format!("{how}; {stays}") };
        text(&mut body, "note", (margin, margin + 31.0), "start", &note);
        plane(&mut body, (x, y));

        let (reach, first) = (HALF * PART, self.vector[1].atan2(self.vector[0]));
        let at = |angle: f64, radius: f64| (x + radius * angle.cos(), y - radius * angle.sin());
        let place = |angle: f64, radius: f64| {
            let (x, y) = at(angle, radius);
            format!("{} {}", px(x), px(y))
        };
        // What it has turned by since its last full turn, the way it went.
        let part = radians % TAU;
        let (arc, large, way) = (px(0.42 * reach), u8::from(part.abs() > TAU / 2.0), u8::from(part < 0.0));
        let centre = format!("{} {}", px(x), px(y));
        let (from, to) = (place(first, 0.42 * reach), place(first + part, 0.42 * reach));
        let _ = writeln!(
            body,
            "<g class=\"s1\"><path class=\"swept\" d=\"M{centre}L{from}A{arc} {arc} 0 {large} {way} {to}Z\"/></g>"
        );
        // Two names side by side would touch: the second goes a line further the way that its arrow went.
        let is_close = (part / 2.0).sin().abs() * 2.0 * reach < 24.0 && before != after;
        let line = if is_close { -15.0 * part.signum() * first.cos().signum() } else { 0.0 };
        for (look, angle, name, shift) in [(0, first, &before, 0.0), (1, first + part, &after, line)] {
            let _ = writeln!(body, "<g class=\"s{look}\">");
            hand(&mut body, (x, y), reach, angle);
            body.push_str("</g>\n");
            // Beside the tip, away from the middle.
            let tip = at(angle, reach + 12.0);
            let anchor = match angle.cos() {
                ..-0.3 => "end",
                0.3.. => "start",
                _ => "middle",
            };
            text(&mut body, "name", (tip.0, tip.1 + 4.0 - 6.0 * angle.sin() + shift), anchor, name);
        }
        let size = (2.0 * (margin + HALF), 2.0 * (margin + HALF) + above);
        Ok(document(&title, size, &body, true))
    }
}

/// A number with digits as fit the length of the vector.
fn short(value: f64, length: f64) -> String {
    let decimals = (3.0 - length.log10().floor()).clamp(0.0, 9.0);
    fixed(value, decimals as usize, true)
}

/// The plane around a point: its edge, its axes, and the circle that the tip moves along.
fn plane(out: &mut String, (x, y): (f64, f64)) {
    let (left, top, all) = (px(x - HALF), px(y - HALF), px(2.0 * HALF));
    let _ = writeln!(out, "<rect class=\"face\" x=\"{left}\" y=\"{top}\" width=\"{all}\" height=\"{all}\"/>");
    let _ = writeln!(out, "<path class=\"cross\" d=\"M{left} {}h{all}M{} {top}v{all}\"/>", px(y), px(x));
    let (x, y, radius) = (px(x), px(y), px(HALF * PART));
    let _ = writeln!(out, "<circle class=\"start\" fill=\"none\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>");
}
