//! How alike the position codes of the original Transformer are.

use super::matrix::{ABOVE, BELOW, LEFT, Matrix, RIGHT, cell};
use super::{MAX_LENGTH, within};
use crate::error::{Error, Result};
use lab::chart::document;
use roformer::encoding::sinusoid;

/// The inner products of all sinusoidal position codes with all, divided by that of a code with itself. They depend on the
/// distance alone, and are what rotary embedding makes of a query and a key that are alike.
#[derive(Clone, Debug)]
pub struct Similarity {
    /// How many features a code has.
    pub dim: usize,
    /// How many positions.
    pub length: usize,
}

impl Similarity {
    pub(super) fn draw(&self) -> Result<String> {
        let (dim, length) =
            (within("dim", self.dim, 2..=4096)?, within("length", self.length, 2..=MAX_LENGTH)?);
        if dim % 2 == 1 {
            return Err(Error::new(format!(
                "dim is {dim}; expected an even number: codes are sines and cosines"
            )));
        }
        let code = |position: usize| -> Vec<f64> {
            (0..dim).map(|feature| sinusoid(position as f64, feature, dim)).collect()
        };
        let codes: Vec<Vec<f64>> = (0..length).map(code).collect();
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let pairs = dim as f64 / 2.0;
        let values: Vec<f64> =
            codes.iter().flat_map(|a| codes.iter().map(move |b| product(a, b) / pairs)).collect();
        let matrix = Matrix {
            title: format!("Inner products of sinusoidal position codes, d = {dim}"),
            note: format!(
                "Divided by {pairs}, that of a code with itself. They depend on the distance alone."
            ),
            down: "position m".into(),
            across: "position n".into(),
            columns: length,
            values,
            scale: (-1.0, 1.0),
        };
        let side = cell(length, 520.0);
        let (margin, size) = (16.0, side * length as f64);
        let mut body = String::new();
        matrix.draw(&mut body, (margin + LEFT, margin + ABOVE), (side, side));
        let width = (2.0 * margin + LEFT + size + RIGHT).max(520.0);
        let height = 2.0 * margin + ABOVE + size + BELOW;
        Ok(document(&matrix.title, (width, height), &body, true))
    }
}
