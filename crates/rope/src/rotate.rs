//! Rotating queries and keys: the safe interface over slices and views.

use crate::element::{Element, Precision};
use crate::error::{Error, Result};
use crate::kernel::fresh::{Axes, rotated};
use crate::kernel::view::{Shape, View, ViewMut};
use crate::kernel::{self, Level, Trig, Turning};
use crate::position::{Covered, Positions};
use crate::rope::Rope;

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

/// The rows of a [`Table`](crate::Table) that the tokens of an input take. Made by [`Table::at`](crate::Table::at), or from
/// cosines and sines that somebody else made by [`Rope::rows_of`].
///
/// `P` is `f32` for `f32`, `f16` and `bf16` data and `f64` for `f64` data.
#[derive(Clone, Copy)]
pub struct Rows<'a, P> {
    pub(crate) rope: &'a Rope,
    pub(crate) covered: Covered,
    pub(crate) cos_sin: CosSin<'a, P>,
    /// The same with the inverse scale, where there is one.
    pub(crate) undo: Option<CosSin<'a, P>>,
    pub(crate) positions: Positions<'a>,
}

/// Cosines and sines, `[rows, pairs]` both.
pub(crate) type CosSin<'a, P> = (&'a [P], &'a [P]);

impl Rope {
    /// Rows of cosines and sines that were made elsewhere, both `[rows, pairs]`: position p takes row p, or with
    /// [`Positions::Rows`] and [`Positions::BatchRows`] each token its own. This rope says which features turn, and in which order
    /// they are.
    ///
    /// The way back, [`Turn::Inverse`], is that of a rotation that keeps lengths: cos² + sin² = 1.
    ///
    /// ```
    /// use rope::{Positions, Rope, Turn, ViewMut};
    ///
    /// let (cos, sin) = ([1.0, 0.0], [0.0, 1.0]); // Position 1 is a quarter of a turn.
    /// let mut x = [3.0f32, 4.0, 3.0, 4.0];
    /// let rope = Rope::builder(2).build()?;
    /// let rows = rope.rows_of(&cos, &sin, Positions::From(0))?;
    /// rows.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, [1, 2, 1, 2])?)?;
    /// assert_eq!(x, [3.0, 4.0, -4.0, 3.0]);
    /// # Ok::<(), rope::Error>(())
    /// ```
    pub fn rows_of<'a, P: Precision>(
        &'a self,
        cos: &'a [P],
        sin: &'a [P],
        positions: Positions<'a>,
    ) -> Result<Rows<'a, P>> {
        let pairs = self.pairs();
        if cos.len() != sin.len() || !cos.len().is_multiple_of(pairs) {
            let got = format!("{} cosines and {} sines", cos.len(), sin.len());
            return Err(Error::shape("rows_of", got, format!("as many of both, a multiple of {pairs}")));
        }
        let rows = cos.len() / pairs;
        let covered = match positions {
            Positions::Rows | Positions::BatchRows => Covered::Listed { rows },
            _ => Covered::Range { start: 0, rows },
        };
        covered.check(&positions)?;
        Ok(Rows { rope: self, covered, cos_sin: (cos, sin), undo: None, positions })
    }
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

    /// Rotates every vector of `x` into new memory, `[batch, length, heads, head_dim]`. Features that do not turn are copied.
    ///
    /// Large results come on large pages, and nothing is written to new memory but the result.
    ///
    /// ```
    /// use rope::{Positions, Rope, Turn, View};
    ///
    /// let x = [3.0f32, 4.0];
    /// let table = Rope::builder(2).build()?.table(0..8, None)?;
    /// let rows = table.at(Positions::From(0))?;
    /// let y = rows.rotated_blhd(Turn::Forward, &View::blhd(&x, [1, 1, 1, 2])?)?;
    /// assert_eq!(y, [3.0, 4.0]); // Position 0 does not turn.
    /// # Ok::<(), rope::Error>(())
    /// ```
    pub fn rotated_blhd<T: Element<Table = P>>(&self, turn: Turn, x: &View<T>) -> Result<Vec<T>> {
        self.rotated(turn, x, Axes::Blhd)
    }

    /// As [`rotated_blhd`](Rows::rotated_blhd), into `[batch, heads, length, head_dim]`.
    pub fn rotated_bhld<T: Element<Table = P>>(&self, turn: Turn, x: &View<T>) -> Result<Vec<T>> {
        self.rotated(turn, x, Axes::Bhld)
    }

    fn rotated<T: Element<Table = P>>(&self, turn: Turn, x: &View<T>, axes: Axes) -> Result<Vec<T>> {
        self.check(x.shape())?;
        let (trig, turning) = self.turning(turn);
        rotated(Level::best(), &trig, turning, x, axes)
    }

    /// Rotates with the loops of one level.
    pub(crate) fn rotate_at<T: Element<Table = P>>(&self, level: Level, turn: Turn, x: &mut ViewMut<T>) {
        let (trig, turning) = self.turning(turn);
        kernel::rotate(level, &trig, turning, x);
    }

    /// The cosines and sines that a turn takes, and what it does with them.
    #[inline]
    pub(crate) fn turning(&self, turn: Turn) -> (Trig<'_, P>, Turning) {
        let Rows { rope, covered, positions, .. } = *self;
        let (input, output) = (rope.pairing().input(), rope.pairing().output());
        let offset = rope.rotary_offset();
        let (from, to) = if turn == Turn::Forward { (input, output) } else { (output, input) };
        let (cos, sin) = self.undo.filter(|_| turn == Turn::Inverse).unwrap_or(self.cos_sin);
        let trig = Trig { cos, sin, pairs: rope.pairs(), covered, positions };
        (trig, Turning { from, to, conjugate: turn != Turn::Forward, offset })
    }

    /// Checks an input's shape against the rope and the positions.
    #[inline]
    pub(crate) fn check(&self, shape: Shape) -> Result<()> {
        let head_dim = self.rope.head_dim();
        if shape.head_dim != head_dim {
            let expected = format!("head_dim {head_dim} as the rope has");
            return Err(Error::shape("rotation", shape.to_string(), expected));
        }
        self.covered.check_shape(&self.positions, shape.batch, shape.length)
    }
}
