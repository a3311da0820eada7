//! Rotating queries and keys: the safe interface over slices and views.

use crate::element::{Element, Precision};
use crate::error::{Error, Result};
use crate::kernel::view::{Shape, View, ViewMut};
use crate::kernel::{self, Level, Trig, Turning};
use crate::position::Positions;
use crate::table::Table;

/// What to do with a vector x at position m, with R the rotation and a the attention factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// y = a·R·x
    Forward,
    /// x = Rᵀ·y / a: gives back what `Forward` was given.
    Inverse,
    /// dx = a·Rᵀ·dy: the gradient with respect to what `Forward` was given.
    Backward,
}

/// The rows of a [`Table`](crate::Table) that the tokens of an input take. Made by [`Table::at`](crate::Table::at).
///
/// `P` is `f32` for `f32`, `f16` and `bf16` data and `f64` for `f64` data.
#[derive(Clone, Copy)]
pub struct Rows<'a, P> {
    pub(crate) table: &'a Table<P>,
    pub(crate) positions: Positions<'a>,
}

impl<P: Precision> Rows<'_, P> {
    /// Rotates every vector of `x` in place.
    pub fn rotate<T: Element<Table = P>>(&self, turn: Turn, x: &mut ViewMut<T>) -> Result<()> {
        self.check(x.shape())?;
        self.rotate_at(Level::best(), turn, x);
        Ok(())
    }

    /// Rotates queries and keys in place. They share positions, so batch and length agree; heads may differ.
    pub fn rotate_pair<T: Element<Table = P>>(
        &self,
        turn: Turn,
        q: &mut ViewMut<T>,
        k: &mut ViewMut<T>,
    ) -> Result<()> {
        // Both before either: an error leaves nothing half done.
        self.check(q.shape())?;
        self.check(k.shape())?;
        let (queries, keys) = (q.shape(), k.shape());
        if (queries.batch, queries.length) != (keys.batch, keys.length) {
            return Err(Error::shape(
                "keys beside queries",
                keys.to_string(),
                format!("batch and length of {queries}"),
            ));
        }
        let level = Level::best();
        self.rotate_at(level, turn, q);
        self.rotate_at(level, turn, k);
        Ok(())
    }

    /// Rotates every vector of `x` into `y`, which has the same shape. Features that do not turn are copied.
    pub fn rotate_to<T: Element<Table = P>>(
        &self,
        turn: Turn,
        x: &View<T>,
        y: &mut ViewMut<T>,
    ) -> Result<()> {
        self.check(x.shape())?;
        if x.shape() != y.shape() {
            return Err(Error::shape("rotate_to", y.shape().to_string(), x.shape().to_string()));
        }
        let (trig, turning) = self.turning(turn);
        kernel::rotate_to(Level::best(), &trig, turning, x, y);
        Ok(())
    }

    /// Rotates with the loops of one level.
    pub(crate) fn rotate_at<T: Element<Table = P>>(&self, level: Level, turn: Turn, x: &mut ViewMut<T>) {
        let (trig, turning) = self.turning(turn);
        kernel::rotate(level, &trig, turning, x);
    }

    /// The cosines and sines that a turn takes, and what it does with them.
    #[inline]
    pub(crate) fn turning(&self, turn: Turn) -> (Trig<'_, P>, Turning) {
        let (rope, positions) = (self.table.rope(), self.positions);
        let (input, output) = (rope.pairing().input(), rope.pairing().output());
        let offset = rope.rotary_offset();
        let (from, to) = if turn == Turn::Forward { (input, output) } else { (output, input) };
        let (cos, sin) = self.table.cos_sin(turn);
        let trig = Trig { cos, sin, pairs: rope.pairs(), covered: self.table.covered(), positions };
        (trig, Turning { from, to, conjugate: turn != Turn::Forward, offset })
    }

    /// Checks an input's shape against the rope and the positions.
    #[inline]
    pub(crate) fn check(&self, shape: Shape) -> Result<()> {
        let head_dim = self.table.rope().head_dim();
        if shape.head_dim != head_dim {
            let expected = format!("head_dim {head_dim} as the rope has");
            return Err(Error::shape("rotation", shape.to_string(), expected));
        }
        self.table.covered().check_shape(&self.positions, shape.batch, shape.length)
    }
}
