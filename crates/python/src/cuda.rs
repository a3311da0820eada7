//! Rotating torch's tensors on NVIDIA GPUs, in the order of torch's streams.

use crate::error::raised;
use crate::rotate::{Side, check_pair, check_read, rope_of};
use crate::tensor::{Kind, Tensor};
use crate::trig::Trig;
use half::{bf16, f16};
use pyo3::prelude::*;
use rope::cuda::{
    Device, Ids, Number, Positions, Rows, Slice, Stream, Table, Trig as Numbers, View, ViewMut,
};
use rope::{Positions as Counted, Turn};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// Rotates `q` and `k` of a GPU, in place or into `to_q` and `to_k`, as [`rotate`](crate::rotate::rotate) does, in one launch on a
/// stream. Returns when the work is in the stream.
///
/// `table` is what was made of `cos` and `sin` where the kernels cannot read them as they are, cosines and sines `[rows, pairs]` in
/// float32, and whether each token has a row of its own. Without one, where they cannot be read, nothing is done and False returned. Ids
/// are contiguous.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call from Python for one rotation")]
pub(crate) fn rotate_cuda(
    device: usize,
    stream: usize,
    table: Option<(Tensor, Tensor, bool)>,
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
    let read = match &table {
        Some((cos, sin, is_listed)) => {
            trig_of(cos, sin, rope.pairs()).map(|(trig, rows, _)| (trig, rows, *is_listed))
        }
        None => trig_of(&cos, &sin, rope.pairs()),
    };
    let Some((numbers, rows, is_listed)) = read else {
        return match table {
            None => Ok(false),
            Some(_) => Err(raised("cosines and sines were made in a form that the kernels cannot read")),
        };
    };
    let device = device_of(device)?;
    // SAFETY: torch's current stream of this GPU, whose primary context torch uses too; it lives as long as the process.
    let stream = unsafe { Stream::from_raw(&device, stream as *mut c_void) };
    // SAFETY: torch made the table, of this size, on this GPU and for this stream: its memory is used for something else only after
    // what is launched here, in the order of the stream.
    let table = unsafe { Table::from_raw(&device, &rope, numbers, rows, is_listed) }.map_err(raised)?;
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

/// Cosines and sines as the kernels read them, where they can: float32, side by side in a row, both with rows equally far apart. Also how
/// many rows there are, and whether each token has one of its own.
fn trig_of(cos: &Tensor, sin: &Tensor, pairs: usize) -> Option<(Numbers, usize, bool)> {
    // Axes of one have strides that mean nothing.
    let axes = |table: &Tensor| {
        let all = table.shape().iter().zip(table.strides()).rev().skip(1);
        all.filter(|(size, _)| **size != 1).map(|(size, stride)| (*size, *stride)).collect::<Vec<_>>()
    };
    let (outer, column) = (axes(cos), *cos.strides().last()?);
    let fit = cos.kind == Kind::F32
        && sin.kind == Kind::F32
        && outer == axes(sin)
        && (pairs == 1 || column == 1 && sin.strides().last() == Some(&1));
    let stride = match *outer {
        [] => Some(0),
        [(_, stride)] => Some(stride),
        [(rows, stride), (_, sequence)] => (sequence == rows * stride).then_some(stride),
        _ => None,
    }?;
    let rows = outer.iter().map(|(size, _)| size).product();
    let is_listed = cos.shape().len() == 3 && cos.shape()[0] != 1;
    fit.then_some((Numbers { cos: cos.address as u64, sin: sin.address as u64, stride }, rows, is_listed))
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
