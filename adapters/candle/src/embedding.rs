//! A model's rotary embedding: exact tables from its `config.json`, and the rows that tokens take.

use crate::cpu::AnyRows;
use crate::functions::{check_type, has_kernels, may_change, side_by_side};
use crate::op::Tabled;
use crate::positions::{Positions, Read};
use crate::{Order, composed, refused};
use candle_core::{D, DType, Device, Result, Tensor, WithDType, bail};
use rope::{HfConfig, HfOptions, Precision, Rope, Table, Turn, ViewMut};
use std::sync::{Arc, OnceLock};
#[cfg(feature = "cuda")]
use {crate::cuda, candle_core::CudaDevice, candle_core::Layout};

/// The rotary embedding of a model: which features turn, in which pairs, and exact cosines and sines for a range of positions.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use rope_candle::{Positions, RotaryEmbedding};
///
/// let config = br#"{"model_type": "llama", "head_dim": 128, "rope_theta": 500000.0}"#; // a model's config.json
/// let rope = RotaryEmbedding::from_config(config, 8192)?;
///
/// let q = Tensor::zeros((1, 32, 10, 128), DType::BF16, &Device::Cpu)?; // [batch, heads, length, head_dim]
/// let k = Tensor::zeros((1, 8, 10, 128), DType::BF16, &Device::Cpu)?;
/// let rows = rope.at(Positions::From(0))?; // once for all layers of a forward pass
/// let (q, k) = (rows.rotate(&q)?, rows.rotate(&k)?);
/// # Ok::<(), candle_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RotaryEmbedding {
    tables: Arc<Tables>,
    /// How many positions.
    length: usize,
    sequence_length: Option<u64>,
}

/// One table in the two precisions that data may need.
#[derive(Debug)]
struct Tables {
    single: Table<f32>,
    /// For `f64` data alone, made when that is first seen.
    double: OnceLock<Table<f64>>,
    #[cfg(feature = "cuda")]
    gpus: cuda::Tables,
}

impl Tables {
    fn new(single: Table<f32>) -> Arc<Self> {
        Arc::new(Tables {
            single,
            double: OnceLock::new(),
            #[cfg(feature = "cuda")]
            gpus: cuda::Tables::default(),
        })
    }
}

impl RotaryEmbedding {
    /// Reads a model's `config.json` and makes tables for the positions `0..length`.
    ///
    /// All layers have to share one rotary embedding. Of a model with several (Gemma 3, ModernBERT), take each layer type's
    /// from [`rope::Rope::from_hf`] and call [`new`](RotaryEmbedding::new).
    pub fn from_config(config: &[u8], length: usize) -> Result<Self> {
        let config = HfConfig::read(config, &HfOptions::default()).map_err(refused)?;
        Self::new(config.ropes().map_err(refused)?.only().map_err(refused)?, length)
    }

    /// Tables of any rope for the positions `0..length`.
    pub fn new(rope: &Rope, length: usize) -> Result<Self> {
        Self::made(rope, length, None)
    }

    /// The same embedding as it is for sequences of so many tokens, for the rules that depend on the length (dynamic NTK, LongRoPE).
    /// Unless told, it is that of the length the model was trained at.
    pub fn with_sequence_length(&self, sequence_length: u64) -> Result<Self> {
        Self::made(self.rope(), self.length, Some(sequence_length))
    }

    fn made(rope: &Rope, length: usize, sequence_length: Option<u64>) -> Result<Self> {
        let table = rope.table(range(length)?, sequence_length).map_err(refused)?;
        Ok(RotaryEmbedding { tables: Tables::new(table), length, sequence_length })
    }

    /// What is rotated, and how fast.
    pub fn rope(&self) -> &Rope {
        self.tables.single.rope()
    }

    /// Cosines and sines `[length, pairs]` in `f32`, times the attention factor: what candle's models call `cos` and `sin`, exact.
    /// [`rope`](crate::rope()) takes them beside data of any type.
    pub fn cos_sin(&self, device: &Device) -> Result<(Tensor, Tensor)> {
        let (cos, sin) = tensors(&self.tables.single)?;
        Ok((cos.to_device(device)?, sin.to_device(device)?))
    }

    /// The rows that the tokens of an input take: made once for all layers of a forward pass.
    pub fn at(&self, positions: Positions) -> Result<Rows> {
        let read = positions.read(self.rope().axis_count())?;
        let tables = match read.listed(self.rope(), self.sequence_length) {
            Some(table) => Tables::new(table?),
            None => self.tables.clone(),
        };
        // What can be told without a shape is told here.
        tables.single.at(read.positions()).map_err(refused)?;
        Ok(Rows(Arc::new(Inner {
            tables,
            length: self.length,
            sequence_length: self.sequence_length,
            read,
            gathered: OnceLock::new(),
            #[cfg(feature = "cuda")]
            ids: cuda::LastIds::default(),
        })))
    }

    /// Queries and keys of the tokens from a position on, as candle's models call it: `[batch, heads, length, head_dim]` both.
    pub fn apply(&self, q: &Tensor, k: &Tensor, position: usize) -> Result<(Tensor, Tensor)> {
        let rows = self.at(Positions::From(position))?;
        Ok((rows.rotate(q)?, rows.rotate(k)?))
    }
}

fn range(length: usize) -> Result<std::ops::Range<i64>> {
    // Rows are counted in 32 bits where another device gathers them.
    match u32::try_from(length) {
        Ok(length) => Ok(0..length.into()),
        Err(_) => bail!("rope: a table of {length} positions; expected at most 2^32 - 1"),
    }
}

/// The rows of a [`RotaryEmbedding`] that the tokens of an input take. Cheap to clone.
///
/// Tensors on the CPU, and with the feature `cuda` on NVIDIA GPUs, are rotated by rope's kernels; those elsewhere by candle's own
/// operations, with the same tables. Both have gradients.
#[derive(Clone, Debug)]
pub struct Rows(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tables: Arc<Tables>,
    length: usize,
    sequence_length: Option<u64>,
    read: Read,
    /// Cosines and sines of the tokens on another device than the CPU, from the first use on.
    gathered: OnceLock<Gathered>,
    #[cfg(feature = "cuda")]
    ids: cuda::LastIds,
}

#[derive(Debug)]
struct Gathered {
    batch: usize,
    length: usize,
    cos: Tensor,
    sin: Tensor,
}

impl Rows {
    /// Rotates `x`, `[batch, heads, length, head_dim]` in `f32`, `f64`, `f16` or `bf16`, contiguous or not, into a new contiguous
    /// tensor.
    pub fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        self.turned(x, Order::Bhld)
    }

    /// As [`rotate`](Rows::rotate), for `[batch, length, heads, head_dim]`.
    pub fn rotate_thd(&self, x: &Tensor) -> Result<Tensor> {
        self.turned(x, Order::Blhd)
    }

    /// As [`rotate`](Rows::rotate), in the memory of `x`: all tensors that share it change. For inference, on the CPU and with the feature
    /// `cuda` on NVIDIA GPUs; a tensor that takes part in a gradient is refused.
    pub fn rotate_inplace(&self, x: &Tensor) -> Result<()> {
        self.turned_inplace(x, Order::Bhld)
    }

    /// As [`rotate_inplace`](Rows::rotate_inplace), for `[batch, length, heads, head_dim]`.
    pub fn rotate_thd_inplace(&self, x: &Tensor) -> Result<()> {
        self.turned_inplace(x, Order::Blhd)
    }

    fn turned(&self, x: &Tensor, order: Order) -> Result<Tensor> {
        check_type(x)?;
        if !has_kernels(x) {
            return self.composed(x, order);
        }
        side_by_side(x)?.apply_op1(Tabled { rows: self.clone(), order, turn: Turn::Forward })
    }

    fn turned_inplace(&self, x: &Tensor, order: Order) -> Result<()> {
        check_type(x)?;
        may_change(x)?;
        x.inplace_op1(&Tabled { rows: self.clone(), order, turn: Turn::Forward })
    }

    /// The rows for data of a type.
    pub(crate) fn of(&self, dtype: DType) -> Result<AnyRows<'_>> {
        let positions = self.0.read.positions();
        Ok(match dtype {
            DType::F64 => AnyRows::Double(self.double()?.at(positions).map_err(refused)?),
            _ => AnyRows::Single(self.0.tables.single.at(positions).map_err(refused)?),
        })
    }

    /// The table for `f64` data.
    fn double(&self) -> Result<&Table<f64>> {
        let Inner { tables, length, sequence_length, read, .. } = &*self.0;
        if let Some(table) = tables.double.get() {
            return Ok(table);
        }
        let rope = tables.single.rope();
        let table = match read.listed(rope, *sequence_length) {
            Some(table) => table?,
            None => rope.table(range(*length)?, *sequence_length).map_err(refused)?,
        };
        Ok(tables.double.get_or_init(|| table))
    }

    /// The rotation by candle's own operations, on any device: the features that turn, between those that do not.
    pub(crate) fn composed(&self, x: &Tensor, order: Order) -> Result<Tensor> {
        let rope = self.0.tables.single.rope();
        let Ok([batch, .., head_dim]) = <[usize; 4]>::try_from(x.dims()) else {
            bail!("rope: got a tensor of shape {:?}; expected four axes", x.dims())
        };
        if head_dim != rope.head_dim() {
            bail!("rope: got a tensor of shape {:?}; expected head_dim {}", x.dims(), rope.head_dim())
        }
        let (cos, sin) = self.gathered(batch, x.dim(order.axes().0)?, x)?;
        let (offset, rotary) = (rope.rotary_offset(), rope.rotary_dim());
        let turned = x.narrow(D::Minus1, offset, rotary)?;
        let turned = composed::rotate(&turned, &cos, &sin, rope.pairing(), order)?;
        let end = offset + rotary;
        let parts = [x.narrow(D::Minus1, 0, offset)?, turned, x.narrow(D::Minus1, end, head_dim - end)?];
        let parts: Vec<_> = parts.iter().filter(|part| part.dims()[3] > 0).collect();
        Tensor::cat(&parts, D::Minus1)
    }

    /// rope's own check of positions against a shape, on a tensor of no heads.
    fn check_shape(&self, batch: usize, length: usize) -> Result<()> {
        let table = &self.0.tables.single;
        let shape = [batch, length, 0, table.rope().head_dim()];
        let mut none = ViewMut::<f32>::blhd(&mut [], shape).map_err(refused)?;
        let rows = table.at(self.0.read.positions()).map_err(refused)?;
        rows.rotate(Turn::Forward, &mut none).map_err(refused)
    }

    /// Calls `rotate` with candle's stream and the rows for a tensor of this layout, on its GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn on<T>(
        &self,
        device: &CudaDevice,
        layout: &Layout,
        order: Order,
        rotate: impl FnOnce((&rope::cuda::Stream, &rope::cuda::Rows)) -> Result<T>,
    ) -> Result<T> {
        let ([batch, length, ..], _) = crate::cpu::geometry(layout, order)?;
        let Inner { tables, read, ids, .. } = &*self.0;
        let stream = cuda::stream(device)?;
        let table = tables.gpus.on(&stream, &tables.single)?;
        let ids = ids.of(device, read, (batch, length), || self.check_shape(batch, length))?;
        ids.with(device, read, |positions| rotate((&stream, &table.at(positions).map_err(refused)?)))
    }

    /// Cosines and sines of the tokens on a device, in the precision of the data: `[length, pairs]`, or `[batch, length, pairs]`.
    fn gathered(&self, batch: usize, length: usize, x: &Tensor) -> Result<(Tensor, Tensor)> {
        let (device, dtype) = (x.device(), composed::wide(x.dtype()));
        if let Some(found) = self.0.gathered.get()
            && (found.batch, found.length, found.cos.dtype()) == (batch, length, dtype)
            && found.cos.device().same_device(device)
        {
            return Ok((found.cos.clone(), found.sin.clone()));
        }
        self.check_shape(batch, length)?;
        let Inner { tables, read, .. } = &*self.0;
        let rows = read.rows(batch, length);
        let shape = (if read.is_batched() { batch } else { 1 }, length, tables.single.rope().pairs());
        let gather = |table: Tensor| {
            let rows = Tensor::from_slice(&rows, rows.len(), &Device::Cpu)?;
            table.index_select(&rows, 0)?.reshape(shape)?.to_device(device)
        };
        let (cos, sin) = match self.of(dtype)? {
            AnyRows::Single(_) => tensors(&tables.single)?,
            AnyRows::Double(_) => tensors(self.double()?)?,
        };
        let (cos, sin) = (gather(cos)?, gather(sin)?);
        // Another shape's or device's are left as they are: a forward pass has one.
        let _ = self.0.gathered.set(Gathered { batch, length, cos: cos.clone(), sin: sin.clone() });
        Ok((cos, sin))
    }
}

/// The cosines and sines of a table on the CPU, `[rows, pairs]`.
fn tensors<P: Precision + WithDType>(table: &Table<P>) -> Result<(Tensor, Tensor)> {
    let shape = (table.rows(), table.rope().pairs());
    let tensor = |list: &[P]| Tensor::from_slice(list, shape, &Device::Cpu);
    Ok((tensor(table.cos())?, tensor(table.sin())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rope::{Axes, Pairing};

    /// What other devices are given, run on the CPU beside rope's kernels: values and gradients.
    #[test]
    fn composed_operations_agree_with_the_kernels() -> Result<()> {
        let ids = Tensor::new(&[[3u32, 0, 7, 1, 2], [4, 5, 6, 7, 8]], &Device::Cpu)?;
        let packed = Tensor::new(&[2u32, 5], &Device::Cpu)?;
        for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
            let rope =
                Rope::builder(14).rotary_dim(8).rotary_offset(4).pairing(pairing).build().map_err(refused)?;
            let rope = RotaryEmbedding::new(&rope, 16)?;
            for (positions, batch) in
                [(Positions::From(2), 2), (Positions::Ids(&ids), 2), (Positions::Packed(&packed), 1)]
            {
                check(&rope.at(positions)?, batch)?;
            }
        }
        let rope =
            Rope::builder(14).rotary_dim(8).axes(Axes::Sections(vec![1, 2, 1])).build().map_err(refused)?;
        let grid: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 11) * 0.5).collect();
        let rope = RotaryEmbedding::new(&rope, 0)?;
        let axes = Tensor::from_vec(grid, (3, 2, 5), &Device::Cpu)?;
        check(&rope.at(Positions::Axes(&axes))?, 2)
    }

    /// Both ways, on `[batch, 3, 5, 14]` and `[batch, 5, 3, 14]`, in f64 and f32.
    fn check(rows: &Rows, batch: usize) -> Result<()> {
        for (dtype, bound) in [(DType::F64, 1e-15), (DType::F32, 1e-6)] {
            for order in [Order::Bhld, Order::Blhd] {
                let shape = if order == Order::Bhld { (batch, 3, 5, 14) } else { (batch, 5, 3, 14) };
                let x = Tensor::rand(-1.0, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)?;
                let x = candle_core::Var::from_tensor(&x)?;
                let weights = Tensor::rand(-1.0, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)?;
                let (fused, composed) = (rows.turned(&x, order)?, rows.composed(&x, order)?);
                assert!(largest(&fused, &composed)? <= bound);
                let gradient = |y: &Tensor| -> Result<Tensor> {
                    Ok((y * &weights)?.sum_all()?.backward()?.get(&x).expect("a gradient").clone())
                };
                assert!(largest(&gradient(&fused)?, &gradient(&composed)?)? <= bound);
            }
        }
        Ok(())
    }

    fn largest(a: &Tensor, b: &Tensor) -> Result<f64> {
        let differences = (a - b)?.abs()?.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?;
        // NaN stays NaN, which is within no bound.
        let larger = |worst: f64, x: f64| if worst.is_nan() || x <= worst { worst } else { x };
        Ok(differences.into_iter().fold(0.0, larger))
    }
}
