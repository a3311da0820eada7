//! Rotating torch's tensors on NVIDIA GPUs, in the order of torch's streams.

use crate::error::raised;
use crate::rotate::{Side, check_pair, check_read, rope_of};
use crate::tensor::{Kind, Tensor};
use crate::trig::Trig;
use half::{bf16, f16};
use pyo3::prelude::*;
use rope::cuda::{Device, Ids, Number, Positions, Rows, Slice, Stream, Table, View, ViewMut};
use rope::{Positions as Counted, Turn};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// Rotates `q` and `k` of a GPU, in place or into `to_q` and `to_k`, as [`rotate`](crate::rotate::rotate) does, in one launch on a
/// stream. Returns when the work is in the stream.
///
/// `table` is float32 numbers `[rows, 2, pairs]` on that GPU, of each row the cosines, then the sines, made from `cos` and `sin`: the
/// tensor, its rows, and whether each token has a row of its own. Without one, `cos` and `sin` must lie like that themselves; where
/// they do not, nothing is done and False returned. Ids are contiguous.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call from Python for one rotation")]
pub(crate) fn rotate_cuda(
    device: usize,
    stream: usize,
    table: Option<(Tensor, usize, bool)>,
    q: Tensor,
    k: Option<Tensor>,
    to_q: Option<Tensor>,
    to_k: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    offset: i64,
    position_ids: Option<Tensor>,
    cu_seqlens: Option<Tensor>,
    pairing: u8,
    inverse: bool,
    heads_first: bool,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
) -> PyResult<bool> {
    let features = *q.shape().last().unwrap_or(&0);
    let rope = rope_of(features, rotary_dim, rotary_offset, pairing)?;
    let first = Side::new("q", q, to_q, heads_first)?;
    let second = k.map(|k| Side::new("k", k, to_k, heads_first)).transpose()?;
    check_pair(&first, second.as_ref())?;
    check_read(&first, second.as_ref(), [Some(cos), Some(sin), position_ids, cu_seqlens])?;
    let [batch, length, ..] = first.shape;
    // For its checks: the shapes of tables and ids. What the ids are, the kernels check.
    let trig = Trig::new((cos, sin), rope.rotary_dim(), (batch, length), offset, position_ids, None)?;
    if batch * length == 0 {
        return Ok(true);
    }
    let Some((table, rows, is_listed)) = table
        .map(|(table, rows, is_listed)| (table.address, rows, is_listed))
        .or_else(|| side_by_side(&cos, &sin, rope.rotary_dim()))
    else {
        return Ok(false);
    };
    let device = device_of(device)?;
    // SAFETY: torch's current stream of this GPU, whose primary context torch uses too; it lives as long as the process.
    let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
    // SAFETY: torch made the table, of this size, on this GPU and for this stream: its memory is used for something else only after
    // what is launched here, in the order of the stream.
    let table = unsafe { Table::from_raw(&device, &rope, table as u64, rows, is_listed) }.map_err(raised)?;
    let positions = match (position_ids, cu_seqlens) {
        (None, None) if !is_listed => Positions::Host(Counted::From(offset)),
        (Some(ids), _) if !is_listed => {
            let by_batch = !trig.are_shared();
            let count = if by_batch { batch * length } else { length };
            let ids = ids_of(&ids, count);
            if by_batch { Positions::BatchIds(ids) } else { Positions::Ids(ids) }
        }
        (None, Some(ends)) => {
            if batch != 1 {
                return Err(raised(format!("got cu_seqlens with a batch of {batch}; expected a batch of 1")));
            }
            Positions::Packed { ends: ids_of(&ends, ends.shape().iter().product()) }
        }
        _ if rows == length && batch * length != length => Positions::Host(Counted::Rows),
        _ => Positions::Host(Counted::BatchRows),
    };
    let rows = table.at(positions).map_err(raised)?;
    let turn = if inverse { Turn::Backward } else { Turn::Forward };
    match first.from.kind {
        Kind::F32 => launch::<f32>(&rows, &stream, turn, &first, second.as_ref()),
        Kind::F16 => launch::<f16>(&rows, &stream, turn, &first, second.as_ref()),
        Kind::Bf16 => launch::<bf16>(&rows, &stream, turn, &first, second.as_ref()),
        kind => {
            Err(raised(format!("q has type {}; expected float32, float16 or bfloat16 on a GPU", kind.name())))
        }
    }?;
    Ok(true)
}

/// Cosines and sines that lie as the kernels read them, a row's sines after its cosines: the address, how many rows there are, and that
/// tokens have none of their own.
fn side_by_side(cos: &Tensor, sin: &Tensor, rotary_dim: usize) -> Option<(usize, usize, bool)> {
    let pairs = rotary_dim / 2;
    let lie = |table: &Tensor| {
        let axes = table.shape().len();
        // A batch of one is none.
        let is_batch = axes == 3 && table.shape()[0] == 1;
        table.kind == Kind::F32
            && (axes == 2 || is_batch)
            && table.shape()[axes - 1] == pairs
            && table.strides()[axes - 2..] == [rotary_dim, 1]
    };
    let fit = lie(cos)
        && lie(sin)
        && sin.address == cos.address + pairs * size_of::<f32>()
        && cos.address.is_multiple_of(16);
    fit.then(|| (cos.address, cos.shape()[cos.shape().len() - 2], false))
}

fn launch<T: Number>(rows: &Rows, stream: &Stream, turn: Turn, q: &Side, k: Option<&Side>) -> PyResult<()> {
    match k {
        None if q.is_in_place => rows.rotate(stream, turn, &mut view_mut::<T>(q)?),
        None => rows.rotate_to(stream, turn, &view::<T>(q)?, &mut view_mut(q)?),
        Some(k) if q.is_in_place => {
            rows.rotate_pair(stream, turn, &mut view_mut::<T>(q)?, &mut view_mut::<T>(k)?)
        }
        Some(k) => {
            let (from_q, from_k) = (view::<T>(q)?, view::<T>(k)?);
            rows.rotate_pair_to(stream, turn, (&from_q, &from_k), (&mut view_mut(q)?, &mut view_mut(k)?))
        }
    }
    .map_err(raised)
}

fn view<'a, T: Number>(side: &Side) -> PyResult<View<'a, T>> {
    // SAFETY: the tensor's memory, as torch describes it, which is used for something else only in the order of the stream.
    unsafe { View::from_raw(side.from.address as u64, side.shape, side.from_strides) }.map_err(raised)
}

fn view_mut<'a, T: Number>(side: &Side) -> PyResult<ViewMut<'a, T>> {
    // SAFETY: as above; Python's caller asked for it to be written, or the memory was made for the result.
    unsafe { ViewMut::from_raw(side.to.address as u64, side.shape, side.to_strides) }.map_err(raised)
}

/// Contiguous ids on the GPU.
fn ids_of<'a>(ids: &Tensor, count: usize) -> Ids<'a> {
    // SAFETY: so many numbers of this type are at the tensor's address: its shape was checked, and Python made it contiguous.
    unsafe {
        match ids.kind {
            Kind::I32 => Ids::I32(Slice::from_raw(ids.address as u64, count)),
            _ => Ids::I64(Slice::from_raw(ids.address as u64, count)),
        }
    }
}

/// The GPU with this number. Kept, with its kernels.
fn device_of(number: usize) -> PyResult<Device> {
    static DEVICES: Mutex<Option<HashMap<usize, Device>>> = Mutex::new(None);
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(&number) {
        return Ok(device.clone());
    }
    let device = Device::new(number).map_err(raised)?;
    devices.insert(number, device.clone());
    Ok(device)
}
