//! The rows of tables that the tokens of an input take, and the rotation by them.

use crate::positions::{Read, Taken};
use crate::tables::Tables;
use crate::turning::{Order, Turning};
use crate::{Result, refused};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use rope::{Turn, ViewMut};
use std::sync::{Arc, OnceLock};

/// The rows of a [`RotaryEmbedding`](crate::RotaryEmbedding) that the tokens of an input take. Cheap to clone.
///
/// A tensor is taken by value, as burn's own operations take it: on the CPU (Flex, NdArray) it is rotated in its own memory by rope's
/// kernels, unless somebody else holds that memory too; then into new memory. On other backends it is rotated by burn's own
/// operations, with the same tables. Both have gradients.
#[derive(Clone, Debug)]
pub struct Rows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tables: Arc<Tables>,
    read: Read,
    /// Cosines and sines of the tokens on another device than the CPU, from the first use on.
    gathered: OnceLock<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    device: Device,
    dtype: DType,
    size: [usize; 2],
    cos_sin: [Tensor<3>; 2],
}

impl Rows {
    pub(crate) fn new(tables: Arc<Tables>, read: Read) -> Result<Self> {
        // What can be told without a shape is told here.
        tables.single().at(read.positions())?;
        Ok(Rows(Arc::new(Inner { tables, read, gathered: OnceLock::new() })))
    }

    /// Rotates `x`, `[batch, heads, length, head_dim]` in `f32`, `f64`, `f16` or `bf16`, contiguous or not, into a tensor of the same
    /// shape and type. Any number of axes may stand between batch and length; `[batch, length, head_dim]` and `[length, head_dim]` are
    /// one head.
    pub fn rotate<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>> {
        let dims = x.dims();
        let (batch, [length, head_dim]) = match dims[..] {
            [batch, .., length, head_dim] if D > 2 => (batch, [length, head_dim]),
            [length, head_dim] => (1, [length, head_dim]),
            _ => return Err(refused(dims, "[batch, heads, length, head_dim]")),
        };
        self.check([batch, length, head_dim])?;
        self.turning(Order::Bhld).rotate(x)
    }

    /// As [`rotate`](Rows::rotate), for `[batch, length, heads, head_dim]`.
    pub fn rotate_blhd(&self, x: Tensor<4>) -> Result<Tensor<4>> {
        let [batch, length, _, head_dim] = x.dims();
        self.check([batch, length, head_dim])?;
        self.turning(Order::Blhd).rotate(x)
    }

    pub(crate) fn turning(&self, order: Order) -> Turning {
        Turning { rows: self.clone(), order, turn: Turn::Forward }
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.0.tables
    }

    pub(crate) fn positions(&self) -> rope::Positions<'_> {
        self.0.read.positions()
    }

    /// rope's own check of positions and features against a shape, on a tensor of no heads.
    fn check(&self, [batch, length, head_dim]: [usize; 3]) -> Result<()> {
        let mut none = ViewMut::<f32>::blhd(&mut [], [batch, length, 0, head_dim])?;
        self.tables().single().at(self.positions())?.rotate(Turn::Forward, &mut none)
    }

    /// Cosines and sines of the tokens of `[batch, length]` in `F32` or `F64` on a device: `[1, length, pairs]`, or
    /// `[batch, length, pairs]`. They passed the check.
    pub(crate) fn gathered(
        &self,
        size @ [batch, length]: [usize; 2],
        device: &Device,
        dtype: DType,
    ) -> Result<[Tensor<3>; 2]> {
        if let Some(found) = self.0.gathered.get()
            && (found.size, found.dtype, &found.device) == (size, dtype, device)
        {
            return Ok(found.cos_sin.clone());
        }
        let device = device.clone().without_autodiff();
        let (cos, sin) = self.tables().on(&device, dtype)?;
        let sequences = if self.0.read.is_batched() { batch } else { 1 };
        let count = sequences * length;
        let rows = match self.0.read.rows(self.tables().first()) {
            Taken::From(first) => [cos, sin].map(|table| table.slice_dim(0, first..first + count)),
            Taken::Listed(rows) => {
                let rows = TensorData::new(rows, [count]);
                let rows = Tensor::<1, Int>::from_data(rows, (&device, DType::I32));
                [cos, sin].map(|table| table.select(0, rows.clone()))
            }
        };
        let pairs = self.tables().rope().pairs();
        let cos_sin = rows.map(|table| table.reshape([sequences, length, pairs]));
        // Another shape's or device's are left as they are: a forward pass has one.
        let _ = self.0.gathered.set(Gathered { device, dtype, size, cos_sin: cos_sin.clone() });
        Ok(cos_sin)
    }
}
