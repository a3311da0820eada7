//! candle's CPU memory as rope sees it: views of its storage, rotated by rope's kernels.

use crate::{Order, refused};
use candle_core::{CpuStorage, Layout, Result, bail};
use rope::{Element, Rows, Turn, View, ViewMut};

/// Rows of cosines and sines in the precision of the data: `f64` for `f64`, else `f32`.
pub(crate) enum AnyRows<'a> {
    Single(Rows<'a, f32>),
    Double(Rows<'a, f64>),
}

/// Rotates a tensor into new memory, contiguous in the order of its axes. Its features are next to each other.
pub(crate) fn rotate(
    x: &CpuStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    rows: &AnyRows,
) -> Result<CpuStorage> {
    match (x, rows) {
        (CpuStorage::F32(x), AnyRows::Single(rows)) => {
            fresh(x, layout, order, turn, rows).map(CpuStorage::F32)
        }
        (CpuStorage::F16(x), AnyRows::Single(rows)) => {
            fresh(x, layout, order, turn, rows).map(CpuStorage::F16)
        }
        (CpuStorage::BF16(x), AnyRows::Single(rows)) => {
            fresh(x, layout, order, turn, rows).map(CpuStorage::BF16)
        }
        (CpuStorage::F64(x), AnyRows::Double(rows)) => {
            fresh(x, layout, order, turn, rows).map(CpuStorage::F64)
        }
        _ => unsupported(),
    }
}

/// Rotates a tensor where it is.
pub(crate) fn rotate_inplace(
    x: &mut CpuStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    rows: &AnyRows,
) -> Result<()> {
    match (x, rows) {
        (CpuStorage::F32(x), AnyRows::Single(rows)) => inplace(x, layout, order, turn, rows),
        (CpuStorage::F16(x), AnyRows::Single(rows)) => inplace(x, layout, order, turn, rows),
        (CpuStorage::BF16(x), AnyRows::Single(rows)) => inplace(x, layout, order, turn, rows),
        (CpuStorage::F64(x), AnyRows::Double(rows)) => inplace(x, layout, order, turn, rows),
        _ => unsupported(),
    }
}

fn unsupported<T>() -> Result<T> {
    bail!("rope: a tensor of whole or packed numbers cannot be rotated; expected f32, f64, f16 or bf16")
}

fn fresh<T: Element>(
    x: &[T],
    layout: &Layout,
    order: Order,
    turn: Turn,
    rows: &Rows<T::Table>,
) -> Result<Vec<T>> {
    let (shape, strides) = geometry(layout, order)?;
    let x = x.get(layout.start_offset()..).unwrap_or_default();
    let x = View::strided(x, shape, strides).map_err(refused)?;
    match order {
        Order::Bhld => rows.rotated_bhld(turn, &x),
        Order::Blhd => rows.rotated_blhd(turn, &x),
    }
    .map_err(refused)
}

fn inplace<T: Element>(
    x: &mut [T],
    layout: &Layout,
    order: Order,
    turn: Turn,
    rows: &Rows<T::Table>,
) -> Result<()> {
    let (shape, strides) = geometry(layout, order)?;
    let x = x.get_mut(layout.start_offset()..).unwrap_or_default();
    let mut x = ViewMut::strided(x, shape, strides).map_err(refused)?;
    rows.rotate(turn, &mut x).map_err(refused)
}

/// Refuses shapes that have no room in memory: a tensor that repeats a few numbers may have any, and to copy it would end the process.
pub(crate) fn check_room(shape: &[usize], size: usize) -> Result<()> {
    let bytes = shape.iter().try_fold(size, |bytes, &size| bytes.checked_mul(size));
    // Below this the system does not say no.
    let fits = |&bytes: &usize| bytes < 1 << 30 || Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    match bytes.filter(fits) {
        Some(_) => Ok(()),
        None => no_room(shape),
    }
}

pub(crate) fn no_room<T>(shape: &[usize]) -> Result<T> {
    bail!("rope: a tensor of shape {shape:?} does not fit in memory")
}

/// `[batch, length, heads, head_dim]` of a tensor, and how far apart its neighbours along the first three are.
pub(crate) fn geometry(layout: &Layout, order: Order) -> Result<([usize; 4], [usize; 3])> {
    let (&[batch, a, b, head_dim], &[by_batch, by_a, by_b, by_feature]) = (layout.dims(), layout.stride())
    else {
        bail!("rope: got a tensor of shape {:?}; expected four axes", layout.dims())
    };
    if by_feature != 1 && head_dim > 1 {
        bail!(
            "rope: features are {by_feature} numbers apart in strides {:?}; expected features side by side: \
             call `contiguous` first",
            layout.stride()
        )
    }
    Ok(match order {
        Order::Bhld => ([batch, b, a, head_dim], [by_batch, by_b, by_a]),
        Order::Blhd => ([batch, a, b, head_dim], [by_batch, by_a, by_b]),
    })
}
