//! The gradient with respect to the frequencies, for models that learn them.

use crate::element::{Element, Precision};
use crate::error::{Error, Result};
use crate::kernel::view::{Shape, View};
use crate::position::Covered;
use crate::rotate::Rows;

impl<P: Precision> Rows<'_, P> {
    /// Adds dL/dθ_j to `gradient[j]`, given the rotated vectors `y` and dL/dy.
    ///
    /// A pair (y₀, y₁) at position m moves by m·(−y₁, y₀) as θ grows, so each vector adds m·(y₀·dy₁ − y₁·dy₀); with the
    /// attention factor already in y. `y` and `dy` are as [`Turn::Forward`](crate::Turn::Forward) left them;
    /// `gradient` is `[pairs]`. The sum runs in `f64`, in the order of memory whatever the number of threads.
    ///
    /// Positions must be those of a range table: rows of listed positions may follow several axes.
    pub fn frequency_gradient<T: Element<Table = P>>(
        &self,
        y: &View<T>,
        dy: &View<T>,
        gradient: &mut [f64],
    ) -> Result<()> {
        self.check(y.shape())?;
        if y.shape() != dy.shape() {
            return Err(Error::shape("frequency_gradient", dy.shape().to_string(), y.shape().to_string()));
        }
        let pairs = self.rope.pairs();
        if gradient.len() != pairs {
            let got = format!("a gradient of {}", gradient.len());
            return Err(Error::shape("frequency_gradient", got, format!("one value per pair: {pairs}")));
        }
        let (covered, positions) = (self.covered, &self.positions);
        let Covered::Range { start, .. } = covered else {
            let expected = "those of a range table";
            return Err(Error::argument("positions", "listed one by one", expected));
        };
        if y.shape().is_empty() {
            return Ok(());
        }
        let Shape { batch, length, heads, .. } = y.shape();
        let (order, offset) = (self.rope.pairing().output(), self.rope.rotary_offset());
        for sequence in 0..batch {
            for token in 0..length {
                let row = covered.row(positions, sequence, token, length);
                let position = (start + row as i64) as f64;
                for head in 0..heads {
                    let y = &y.vector(sequence, token, head)[offset..];
                    let dy = &dy.vector(sequence, token, head)[offset..];
                    for (pair, sum) in gradient.iter_mut().enumerate() {
                        let (a, b) = order.features(pair, pairs);
                        let at = |list: &[T], index: usize| list[index].widen().to_f64();
                        *sum += position * (at(y, a) * at(dy, b) - at(y, b) * at(dy, a));
                    }
                }
            }
        }
        Ok(())
    }
}
