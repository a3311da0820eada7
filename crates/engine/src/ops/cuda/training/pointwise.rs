//! Number by number: activations, gates, dropout, sums.

use super::sums::Division;
use super::{Either, Launcher, Scalars, Storage, Stored, chunk, either, narrow};
use crate::error::Result;
use crate::ops::cuda::kernels::activation_number;
use crate::ops::{Activation, dropout};
use gpu::{Function, Module, Size, Span};

/// Blocks of a launch that also sums columns, about: as many as run at a time on the largest chips.
const BLOCKS: usize = 396;

pub(crate) struct Kernels {
    activation: Stored<Either>,
    slope_and_sums: Stored<Function>,
    gate: Stored<Either>,
    dropout: Stored<Either>,
    times: Stored<Either>,
    sum: Stored<Either>,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let find = |name: &str| Stored::load(|kind| either(module, &format!("{kind}_{name}")));
        Ok(Kernels {
            activation: find("activation")?,
            slope_and_sums: Stored::load(|kind| module.function(&format!("{kind}_slope_and_sums")))?,
            gate: find("gate")?,
            dropout: find("dropout")?,
            times: find("times")?,
            sum: find("sum")?,
        })
    }
}

/// The way back through an activation, where the columns of what it gives are summed too.
#[derive(Clone, Copy)]
pub(crate) struct Slope {
    pub storage: Storage,
    pub activation: Activation,
    /// `[rows, width]`, what the activation was given.
    pub x: Span,
    /// `[rows, width]`, the gradient of what it made, and then of x.
    pub dy: Span,
    pub rows: usize,
    pub width: usize,
}

impl Slope {
    /// How columns are divided; `None` where the kernel is not for such rows.
    pub fn division(&self) -> Option<Division> {
        let chunk = chunk(self.storage, self.width, &[self.x, self.dy]);
        (chunk > 1).then(|| Division::new(self.rows, self.width, chunk, BLOCKS))
    }
}

impl Launcher<'_> {
    /// dy ·= f′(x), and parts `[splits, width]` of the sums of the columns of that.
    pub(crate) fn slope_and_sums(&self, work: &Slope, division: Division, partials: Span) -> Result<()> {
        let Slope { storage, activation, x, dy, rows, width } = *work;
        let Division { tiles, splits, .. } = division;
        let kernel = self.training()?.pointwise.slope_and_sums.of(storage);
        let list = (
            self.numbers(x, storage, rows * width)?,
            self.numbers(dy, storage, rows * width)?,
            self.floats(partials, splits * width)?,
            narrow(rows)?,
            narrow(width)?,
            narrow(splits)?,
            activation_number(activation),
        );
        // SAFETY: both have these rows, and there is a part for each split.
        unsafe { self.launch(kernel, Size::new(tiles * splits, [32, 8]), list) }
    }

    /// y = f(x), or y ·= f′(x) where `is_derivative`: both of `len` numbers.
    pub(crate) fn activate(
        &self,
        storage: Storage,
        activation: Activation,
        x: Span,
        y: Span,
        len: usize,
        is_derivative: bool,
    ) -> Result<()> {
        let count = chunk(storage, len, &[x, y]);
        let kernel = &self.training()?.pointwise.activation.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let (x, y) = (self.numbers(x, storage, len)?, self.numbers(y, storage, len)?);
        let list = (x, y, chunks as u64, activation_number(activation), u32::from(is_derivative));
        // SAFETY: both have `len` numbers.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }

    /// out `[rows, width]` = activation(gate)·up, x `[rows, 2, width]` being both; `len` is that of out.
    pub(crate) fn gate(
        &self,
        storage: Storage,
        activation: Activation,
        [x, out]: [Span; 2],
        len: usize,
        width: usize,
    ) -> Result<()> {
        self.gate_both(storage, activation, [x, out, Span::NOTHING, Span::NOTHING], len, width)
    }

    /// dx `[rows, 2, width]` from x and dy `[rows, width]`.
    pub(crate) fn gate_back(
        &self,
        storage: Storage,
        activation: Activation,
        [x, dy, dx]: [Span; 3],
        len: usize,
        width: usize,
    ) -> Result<()> {
        self.gate_both(storage, activation, [x, Span::NOTHING, dy, dx], len, width)
    }

    fn gate_both(
        &self,
        storage: Storage,
        activation: Activation,
        [x, out, dy, dx]: [Span; 4],
        len: usize,
        width: usize,
    ) -> Result<()> {
        let count = chunk(storage, width, &[x, out, dy, dx]);
        let kernel = &self.training()?.pointwise.gate.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let (one, two) = (len * storage.size(), 2 * len * storage.size());
        let (x, out) = (self.at(x, two)?, self.maybe(out, one)?);
        let (dy, dx) = (self.maybe(dy, one)?, self.maybe(dx, two)?);
        let list = (x, out, dy, dx, chunks as u64, narrow(width / count)?, activation_number(activation));
        // SAFETY: x and dx have 2·len numbers, out and dy `len`.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }

    /// Drops numbers of x in place, where the scalars say that it is training: as [`dropout::apply`].
    pub(crate) fn drop_some(
        &self,
        storage: Storage,
        x: Span,
        len: usize,
        probability: f64,
        site: u64,
        scalars: Span,
    ) -> Result<()> {
        let count = chunk(storage, len, &[x]);
        let kernel = &self.training()?.pointwise.dropout.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let scale = (1.0 / (1.0 - probability)) as f32;
        let (x, scalars) = (self.numbers(x, storage, len)?, self.at(scalars, Scalars::DROPOUT)?);
        let list = (x, chunks as u64, scalars, site, dropout::threshold(probability), scale);
        // SAFETY: x has `len` numbers.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }

    /// x ·= factor, `len` numbers.
    pub(crate) fn times(&self, storage: Storage, x: Span, len: usize, factor: f64) -> Result<()> {
        let count = chunk(storage, len, &[x]);
        let kernel = &self.training()?.pointwise.times.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let list = (self.numbers(x, storage, len)?, chunks as u64, factor as f32);
        // SAFETY: x has `len` numbers.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }

    /// out = a + b, each of `len` numbers; out may be one of them.
    pub(crate) fn add(&self, storage: Storage, a: Span, b: Span, out: Span, len: usize) -> Result<()> {
        let count = chunk(storage, len, &[a, b, out]);
        let kernel = &self.training()?.pointwise.sum.of(storage)[usize::from(count > 1)];
        let chunks = len / count;
        let place = |span| self.numbers(span, storage, len);
        let list = (place(a)?, place(b)?, place(out)?, chunks as u64);
        // SAFETY: all have `len` numbers.
        unsafe { self.launch(kernel, Size::each(chunks), list) }
    }
}
