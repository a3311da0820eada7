//! The gradient with respect to the frequencies, on a GPU.

use super::buffer::{Buffer, Slice};
use super::device::Device;
use super::launch::{Tensor, Work, launch, pointer};
use super::module::Number;
use super::stream::Stream;
use super::table::Rows;
use super::view::View;
use crate::error::{Error, Result};
use crate::position::Covered;
use crate::rope::Rope;
use crate::rotate::Turn;

/// Slices of the tokens that are summed side by side. The same on every chip, so that sums have the same order.
const SLICES: usize = 512;

/// Sums of dL/dθ, one a pair, in the memory of a GPU, with the room that summing takes.
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
        self.total.download(stream)
    }

    /// Sets the sums to 0, in the stream's order.
    pub fn zero(&mut self, stream: &Stream) -> Result<()> {
        self.total.as_mut_slice().zero(stream)
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
        let pairs = rope.pairs();
        if gradient.total.len() != pairs {
            let got = format!("a gradient of {}", gradient.total.len());
            return Err(Error::shape("frequency_gradient", got, format!("one value a pair: {pairs}")));
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
        let read = |x: &View<T>| Tensor {
            shape: x.shape,
            source: x.pointer,
            from: x.strides,
            target: 0,
            to: x.strides,
        };
        let work = Work::new::<T>(self, Turn::Forward, &read(y), Some(&read(dy)))?;
        let kernels = self.table.device.all_kernels();
        let slices = SLICES.min(tokens);
        let across = pairs.min(128);
        let (sums, total) = (gradient.sums.pointer(), gradient.total.pointer());
        let columns = pairs.div_ceil(across);
        let arguments = &mut [pointer(&work), pointer(&sums), pointer(&start)];
        let sum = kernels.gradient::<T>(rope.pairing().output());
        launch(stream, sum, [slices, columns, 1], [across, 1, 1], 0, arguments)?;
        let (slices, pairs) = (slices as u32, pairs as u32);
        let arguments = &mut [pointer(&sums), pointer(&total), pointer(&slices), pointer(&pairs)];
        launch(stream, kernels.gradient_total, [columns, 1, 1], [across, 1, 1], 0, arguments)
    }
}
