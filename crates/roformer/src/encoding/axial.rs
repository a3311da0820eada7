//! Axial rotary embedding: rotary embedding of rows and columns (Heo et al. 2024, arXiv 2403.13298, for images). Half of a head's pairs
//! turn by the row of a token and the other half by its column, each with frequencies of its own from 1 on, so that a score depends on how
//! many rows and how many columns lie between a query and a key.
//!
//! A text is read row by row, `side` tokens in each: the token at position p stands in row p / side and column p mod side. Where rows are
//! shorter, whoever knows them gives positions: row · side + column.

use super::{Encode, Sizes, Terms, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, TurnTerm};
use crate::ops::Real;
use rope::{Axes, Pairing, Rope};

/// Rotary embedding of rows and columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axial {
    /// Tokens of a row.
    pub side: usize,
    /// The base of the frequencies: less than a text's, because images have fewer rows than texts have tokens.
    pub base: f64,
}

impl Default for Axial {
    fn default() -> Self {
        Axial { side: 16, base: 100.0 }
    }
}

impl Axial {
    /// Positions of a square and one row below it: those that can be given.
    pub fn range(&self) -> usize {
        self.side.saturating_mul(self.side.saturating_add(1))
    }

    /// The rotary embedding of heads of so many features, with two axes.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        let builder = Rope::builder(head_dim).base(self.base).pairing(Pairing::Interleaved);
        Ok(builder.axes(Axes::Axial { axes: 2 }).build()?)
    }

    /// (cos, sin) of each pair of a head's features at the first so many positions, `[positions, head_dim]`.
    fn turns(&self, positions: usize, head_dim: usize) -> Result<Vec<f64>> {
        let side = self.side.max(1);
        let rows = (0..positions).map(|position| (position / side) as f64);
        let places: Vec<f64> = rows.chain((0..positions).map(|position| (position % side) as f64)).collect();
        let table = self.rope(head_dim)?.table_of::<f64>(&places, None)?;
        Ok(table.cos().iter().zip(table.sin()).flat_map(|(&cos, &sin)| [cos, sin]).collect())
    }
}

impl<T: Real> Encode<T> for Axial {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if self.side == 0 {
            return Err(Error::input("the side of the grid", self.side, "at least 1 token in each row"));
        }
        check_rows("the positions of the grid", self.range())?;
        self.rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, builder: &mut Builder<T>, _: usize, sizes: &Sizes) -> Terms {
        let rows = sizes.longest.max(sizes.length).max(self.range());
        let Ok(numbers) = self.turns(rows, sizes.head_dim) else { return Terms::default() };
        // Every head turns alike.
        let all: Vec<f64> =
            numbers.chunks(sizes.head_dim).flat_map(|row| row.repeat(sizes.key_heads)).collect();
        let table = builder.constant(rows, sizes.key_heads * sizes.head_dim, &all);
        let numbers =
            builder.position_rows(table, sizes.length, |position| [(position, 1.0), (0, 0.0), (0, 0.0)]);
        Terms { turns: Some(TurnTerm { numbers, is_fixed: true }), ..Terms::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// θ_t of each axis as the paper has them: 100^(−t/(d/4)).
    #[test]
    fn rows_and_columns_turn_alike() {
        let turns = Axial { side: 7, ..Axial::default() }.turns(40, 16).unwrap();
        for (place, turns) in turns.chunks(16).enumerate() {
            let (row, column) = ((place / 7) as f64, (place % 7) as f64);
            for (pair, turn) in turns.chunks(2).enumerate() {
                let theta = 100f64.powf(-((pair % 4) as f64) / 4.0);
                let angle = theta * if pair < 4 { row } else { column };
                let wanted = [angle.cos(), angle.sin()];
                assert!(
                    wanted.iter().zip(turn).all(|(wanted, got)| (wanted - got).abs() < 1e-15),
                    "{place} {pair}"
                );
            }
        }
    }
}
