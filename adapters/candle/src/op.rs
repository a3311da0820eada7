//! The rotation as operations of candle's graph: forward, backward, in place.

use crate::cpu::{self, AnyRows};
use crate::embedding::Rows;
use crate::functions::side_by_side;
use crate::{Order, composed, refused};
use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp3, D, DType, InplaceOp1, InplaceOp3, Layout, Result, Shape, Tensor, bail,
};
use rope::{Pairing, Positions, Precision, Rope, Schedule, Turn};
use std::borrow::Cow;
#[cfg(feature = "cuda")]
use {crate::cuda, candle_core::CudaStorage};

/// Rotates by cosines and sines that come as tensors, all features of a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub pairing: Pairing,
    pub order: Order,
    pub turn: Turn,
}

/// Cosines or sines as one operation is given them.
type Trig<'a> = (&'a CpuStorage, &'a Layout);

impl Given {
    /// How features pair. The frequencies are in the tables that were given.
    fn rope(&self, pairs: usize) -> Result<Rope> {
        let rope = Rope::builder(pairs.saturating_mul(2)).pairing(self.pairing);
        rope.schedule(Schedule::Given(vec![0.0; pairs])).build().map_err(refused)
    }

    /// Calls `rotate` with the rows that `cos` and `sin` are: contiguous, `[length, pairs]` both or `[batch, length, pairs]` both.
    fn with_rows<T>(
        &self,
        dtype: DType,
        (cos, cos_layout): Trig,
        (sin, sin_layout): Trig,
        rotate: impl FnOnce(&AnyRows) -> Result<T>,
    ) -> Result<T> {
        let rope = self.rope(cos_layout.dim(D::Minus1)?)?;
        let positions = if cos_layout.dims().len() == 3 { Positions::BatchRows } else { Positions::Rows };
        if dtype == DType::F64 {
            let (cos, sin) = (numbers::<f64>(cos, cos_layout)?, numbers::<f64>(sin, sin_layout)?);
            rotate(&AnyRows::Double(rope.rows_of(&cos, &sin, positions).map_err(refused)?))
        } else {
            let (cos, sin) = (numbers::<f32>(cos, cos_layout)?, numbers::<f32>(sin, sin_layout)?);
            rotate(&AnyRows::Single(rope.rows_of(&cos, &sin, positions).map_err(refused)?))
        }
    }
}

impl CustomOp3 for Given {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let y = self.with_rows(dtype(x), (cos, cos_layout), (sin, sin_layout), |rows| {
            cpu::rotate(x, x_layout, self.order, self.turn, rows)
        })?;
        Ok((y, x_layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &CudaStorage,
        x_layout: &Layout,
        cos: &CudaStorage,
        cos_layout: &Layout,
        sin: &CudaStorage,
        sin_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let rope = self.rope(cos_layout.dim(D::Minus1)?)?;
        let y = cuda::with_rows(&rope, [(cos, cos_layout), (sin, sin_layout)], |rows| {
            cuda::rotate(x, x_layout, self.order, self.turn, rows)
        })?;
        Ok((y, x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        cos: &Tensor,
        sin: &Tensor,
        _y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let turn = if self.turn == Turn::Forward { Turn::Backward } else { Turn::Forward };
        let dx = side_by_side(dy)?.apply_op3(cos, sin, Given { turn, ..*self })?;
        if !cos.track_op() && !sin.track_op() {
            return Ok((Some(dx), None, None));
        }
        // y₀ = x₀·cos − x₁·sin and y₁ = x₁·cos + x₀·sin; the way back has −sin.
        let wide = composed::wide(x.dtype());
        let interleaved = self.pairing == Pairing::Interleaved;
        let (x0, x1) = composed::split(&x.to_dtype(wide)?, interleaved)?;
        let (dy0, dy1) = composed::split(&dy.to_dtype(wide)?, interleaved)?;
        let total = |products: Tensor, table: &Tensor| {
            let over_heads = products.sum(self.order.axes().1)?;
            let total = if table.rank() == 2 { over_heads.sum(0)? } else { over_heads };
            total.to_dtype(table.dtype())
        };
        let dcos = total(((&x0 * &dy0)? + (&x1 * &dy1)?)?, cos)?;
        let dsin = ((&x0 * &dy1)? - (&x1 * &dy0)?)?;
        let dsin = total(if self.turn == Turn::Forward { dsin } else { dsin.neg()? }, sin)?;
        Ok((Some(dx), Some(dcos), Some(dsin)))
    }
}

impl InplaceOp3 for Given {
    fn name(&self) -> &'static str {
        "rope-in-place"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        x_layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<()> {
        self.with_rows(dtype(x), (cos, cos_layout), (sin, sin_layout), |rows| {
            cpu::rotate_inplace(x, x_layout, self.order, self.turn, rows)
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        x: &mut CudaStorage,
        x_layout: &Layout,
        cos: &CudaStorage,
        cos_layout: &Layout,
        sin: &CudaStorage,
        sin_layout: &Layout,
    ) -> Result<()> {
        let rope = self.rope(cos_layout.dim(D::Minus1)?)?;
        cuda::with_rows(&rope, [(cos, cos_layout), (sin, sin_layout)], |rows| {
            cuda::rotate_inplace(x, x_layout, self.order, self.turn, rows)
        })
    }
}

/// Rotates by rows of a table that rope made.
#[derive(Clone, Debug)]
pub(crate) struct Tabled {
    pub rows: Rows,
    pub order: Order,
    pub turn: Turn,
}

impl CustomOp1 for Tabled {
    fn name(&self) -> &'static str {
        "rotary-embedding"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let rows = self.rows.of(dtype(x))?;
        Ok((cpu::rotate(x, layout, self.order, self.turn, &rows)?, layout.shape().clone()))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let y = self.rows.on(x.device(), layout, self.order, |rows| {
            cuda::rotate(x, layout, self.order, self.turn, rows)
        })?;
        Ok((y, layout.shape().clone()))
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let turn = if self.turn == Turn::Forward { Turn::Backward } else { Turn::Forward };
        Ok(Some(side_by_side(dy)?.apply_op1(Tabled { turn, ..self.clone() })?))
    }
}

impl InplaceOp1 for Tabled {
    fn name(&self) -> &'static str {
        "rotary-embedding-in-place"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let rows = self.rows.of(dtype(x))?;
        cpu::rotate_inplace(x, layout, self.order, self.turn, &rows)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &mut CudaStorage, layout: &Layout) -> Result<()> {
        let device = x.device().clone();
        self.rows.on(&device, layout, self.order, |rows| {
            cuda::rotate_inplace(x, layout, self.order, self.turn, rows)
        })
    }
}

fn dtype(storage: &CpuStorage) -> DType {
    storage.dtype()
}

/// A contiguous tensor's numbers in the precision that is rotated in: borrowed where they have it already.
fn numbers<'a, P: Precision + Converted>(storage: &'a CpuStorage, layout: &Layout) -> Result<Cow<'a, [P]>> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("rope: cosines and sines have to be contiguous")
    };
    P::converted(storage, start, end)
}

trait Converted: Sized + Clone {
    fn converted(storage: &CpuStorage, start: usize, end: usize) -> Result<Cow<'_, [Self]>>;
}

macro_rules! converted {
    ($type:ty, $own:ident, $($other:ident $convert:expr),*) => {
        impl Converted for $type {
            fn converted(storage: &CpuStorage, start: usize, end: usize) -> Result<Cow<'_, [Self]>> {
                Ok(match storage {
                    CpuStorage::$own(list) => Cow::Borrowed(list.get(start..end).unwrap_or_default()),
                    $(CpuStorage::$other(list) => {
                        list.get(start..end).unwrap_or_default().iter().map($convert).collect()
                    })*
                    _ => bail!("rope: cosines and sines have to be floating-point numbers"),
                })
            }
        }
    };
}
converted!(f32, F32, F64 | &x | x as f32, F16 | x | x.to_f32(), BF16 | x | x.to_f32());
converted!(f64, F64, F32 | &x | x.into(), F16 | x | x.to_f64(), BF16 | x | x.to_f64());
