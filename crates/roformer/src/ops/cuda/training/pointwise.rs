//! Number by number: activations, gates, dropout, sums.

use super::{Either, Launched, Storage, Stored, arguments, chunk, either, launch_list, narrow};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::kernels::Size;
use crate::ops::{Activation, dropout};
use rope::cuda::Module;

pub(crate) struct Kernels {
    activation: Stored<Either>,
    gate: Stored<Either>,
    dropout: Stored<Either>,
    sum: Stored<Either>,
}

impl Kernels {
    pub fn load(module: &Module) -> rope::Result<Kernels> {
        let find = |name: &str| Stored::load(|kind| either(module, &format!("{kind}_{name}")));
        Ok(Kernels {
            activation: find("activation")?,
            gate: find("gate")?,
            dropout: find("dropout")?,
            sum: find("sum")?,
        })
    }
}

/// The kernels' number of an activation.
fn number(activation: Activation) -> u32 {
    match activation {
        Activation::Identity => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
        Activation::Silu => 4,
        Activation::Tanh => 5,
    }
}

impl Cuda {
    /// y = f(x), or y ·= f′(x) where `is_slope`: both of `len` numbers.
    pub(crate) fn activate(
        &self,
        storage: Storage,
        activation: Activation,
        x: u64,
        y: u64,
        len: usize,
        is_slope: bool,
    ) -> Launched {
        let count = chunk(storage, len, &[x, y]);
        let kernel = self.training()?.pointwise.activation.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let list = arguments![x, y, chunks as u64, number(activation), u32::from(is_slope)];
        // SAFETY: both have `len` numbers.
        unsafe { launch_list(&self.0.queue, kernel, Size::each(chunks), list) }
    }

    /// out `[rows, width]` = silu(gate)·up, x `[rows, 2, width]` being both; `len` is that of out.
    pub(crate) fn gate(&self, storage: Storage, x: u64, out: u64, len: usize, width: usize) -> Launched {
        self.gate_both(storage, [x, out, 0, 0], len, width)
    }

    /// dx `[rows, 2, width]` from x and dy `[rows, width]`.
    pub(crate) fn gate_back(
        &self,
        storage: Storage,
        [x, dy, dx]: [u64; 3],
        len: usize,
        width: usize,
    ) -> Launched {
        self.gate_both(storage, [x, 0, dy, dx], len, width)
    }

    fn gate_both(&self, storage: Storage, [x, out, dy, dx]: [u64; 4], len: usize, width: usize) -> Launched {
        let count = chunk(storage, width, &[x, out, dy, dx]);
        let kernel = self.training()?.pointwise.gate.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let list = arguments![x, out, dy, dx, chunks as u64, narrow(width / count)?];
        // SAFETY: x and dx have 2·len numbers, out and dy `len`.
        unsafe { launch_list(&self.0.queue, kernel, Size::each(chunks), list) }
    }

    /// Drops numbers of x in place, where the scalars say that it is training: as [`dropout::apply`].
    pub(crate) fn drop_some(
        &self,
        storage: Storage,
        x: u64,
        len: usize,
        probability: f64,
        site: u64,
        scalars: u64,
    ) -> Launched {
        let count = chunk(storage, len, &[x]);
        let kernel = self.training()?.pointwise.dropout.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let scale = (1.0 / (1.0 - probability)) as f32;
        let list = arguments![x, chunks as u64, scalars, site, dropout::threshold(probability), scale];
        // SAFETY: x has `len` numbers.
        unsafe { launch_list(&self.0.queue, kernel, Size::each(chunks), list) }
    }

    /// out = a + b, each of `len` numbers; out may be one of them.
    pub(crate) fn add(&self, storage: Storage, a: u64, b: u64, out: u64, len: usize) -> Launched {
        let count = chunk(storage, len, &[a, b, out]);
        let kernel = self.training()?.pointwise.sum.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        // SAFETY: all have `len` numbers.
        unsafe {
            launch_list(&self.0.queue, kernel, Size::each(chunks), arguments![a, b, out, chunks as u64])
        }
    }
}
