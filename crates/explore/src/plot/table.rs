//! The table of cosines and sines that queries and keys are turned with.

use super::matrix::{ABOVE, BELOW, LEFT, Matrix, RIGHT, cell};
use super::{MAX_LENGTH, Subject, within};
use crate::error::Result;
use lab::chart::document;

/// cos(mθ_j) and sin(mθ_j) for every position m and every pair j, as models use them.
#[derive(Clone, Debug)]
pub struct Table {
    /// Whose table.
    pub subject: Subject,
    /// How many positions.
    pub length: usize,
}

impl Table {
    pub(super) fn draw(&self) -> Result<String> {
        let length = within("length", self.length, 2..=MAX_LENGTH)?;
        let table = self.subject.rope.table::<f64>(0..length as i64, None)?;
        let pairs = self.subject.rope.pairs();
        let most = table.frequencies().attention_factor().abs().max(f64::MIN_POSITIVE);
        let (wide, high) = (cell(pairs, 290.0), cell(length, 450.0));
        let size = (wide * pairs as f64, high * length as f64);
        let (margin, mut left) = (16.0, 16.0 + LEFT);
        let mut body = String::new();
        for (name, values) in [("cos", table.cos()), ("sin", table.sin())] {
            let matrix = Matrix {
                title: format!("{name}(m · θⱼ)"),
                note: if name == "cos" { self.subject.name.clone() } else { String::new() },
                down: "position m".into(),
                across: "pair j, fastest first".into(),
                columns: pairs,
                values: values.to_vec(),
                scale: (-most, most),
            };
            matrix.draw(&mut body, (left, margin + ABOVE), (wide, high));
            left += size.0 + RIGHT + LEFT;
        }
        let height = 2.0 * margin + ABOVE + size.1 + BELOW;
        let title = format!("Cosines and sines by position and pair, {}", self.subject.name);
        Ok(document(&title, (left - LEFT + margin, height), &body, true))
    }
}
