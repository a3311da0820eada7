//! The gradient with respect to the frequencies, on a GPU.

use super::kernels::Number;
use super::launch::{self, Sums, Tensor};
use super::table::Rows;
use super::view::View;
use crate::error::{Error, Result};
use crate::position::Covered;
use crate::rope::Rope;
use gpu::{Buffer, Device, Slice, Stream};

/// Slices of the tokens that are summed side by side. The same on every chip, so that sums have the same order.
const SLICES: usize = 512;

/// Sums of dL/dθ, one per pair, in the memory of a GPU, with the room that summing takes.
#[derive(Debug)]
pub struct FrequencyGradient {
    /// `[pairs]`
    total: Buffer<f64>,
    /// `[SLICES, pairs]`
    sums: Buffer<f64>,
}

impl FrequencyGradient {
    /// Zeros for the pairs of a rope.
    pub fn new(device: &Device, rope: &Rope) -> Result<FrequencyGradient> {
        let pairs = rope.pairs();
        Ok(FrequencyGradient { total: device.zeros(pairs)?, sums: device.zeros(SLICES * pairs)? })
    }

    /// The sums `[pairs]`.
    pub fn total(&self) -> Slice<'_, f64> {
        self.total.as_slice()
    }

    /// The sums `[pairs]`, copied once the stream's work so far is done.
    pub fn download(&self, stream: &Stream) -> Result<Vec<f64>> {
        Ok(self.total.download(stream)?)
    }

    /// Sets the sums to 0, in the stream's order.
    pub fn zero(&mut self, stream: &Stream) -> Result<()> {
        Ok(self.total.as_mut_slice().zero(stream)?)
    }
}

impl Rows<'_> {
    /// Adds dL/dθ_j to the sum of pair j, given the rotated vectors `y` and dL/dy: as
    /// [`frequency_gradient`](crate::Rows::frequency_gradient) on the CPU, in `f64`, in an order of its own that is the
    /// same in every run and on every chip.
    pub fn frequency_gradient<T: Number>(
        &self,
        stream: &Stream,
        y: &View<T>,
        dy: &View<T>,
        gradient: &mut FrequencyGradient,
    ) -> Result<()> {
        self.check(y.shape)?;
        if y.shape != dy.shape {
            return Err(Error::shape("frequency_gradient", dy.shape.to_string(), y.shape.to_string()));
        }
        let rope = self.table.rope();
        if gradient.total.len() != rope.pairs() {
            let got = format!("a gradient of {}", gradient.total.len());
            let expected = format!("one value per pair: {}", rope.pairs());
            return Err(Error::shape("frequency_gradient", got, expected));
        }
        let Covered::Range { start, .. } = self.table.covered() else {
            return Err(Error::argument("positions", "listed one by one", "those of a range table"));
        };
        self.on(stream, [y.device, dy.device, Some(gradient.total.device()), None])?;
        let tokens = y.shape.batch * y.shape.length;
        if y.shape.is_empty() {
            return Ok(());
        }
        // The kernel reads y as queries and dy as keys, and writes neither.
        let read = [Tensor::read(y), Tensor::read(dy)];
        let FrequencyGradient { total, sums } = gradient;
        let mut sums = Sums { slices: sums.as_mut_slice(), total: total.as_mut_slice() };
        launch::gradient::<T>(self, stream, read, start, SLICES.min(tokens), &mut sums)
    }
}
