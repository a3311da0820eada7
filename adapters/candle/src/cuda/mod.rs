//! candle's memory on NVIDIA GPUs as rope sees it: views of its storage, rotated by rope's kernels on candle's stream.
//!
//! Unsafe, because rope is told addresses that candle vouches for.

mod kept;

pub(crate) use kept::{LastIds, Tables};

use crate::cpu::{geometry, no_room};
use crate::{Order, refused};
use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut, DeviceRepr};
use candle_core::cuda_backend::{CudaDType, CudaDevice, CudaStorage};
use candle_core::{DType, Layout, Result, bail};
use rope::cuda::{Number, Rows, Slice, SliceMut, Stream, Table, Trig, View, ViewMut};
use rope::{Positions, Rope, Turn, bf16, f16};

/// Whether the kernels rotate numbers of a type.
pub(crate) fn takes(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// candle's stream, on the GPU as rope knows it.
pub(crate) fn stream(device: &CudaDevice) -> Result<Stream> {
    let theirs = device.cuda_stream();
    let gpu = kept::gpu(theirs.context().ordinal())?;
    // SAFETY: candle uses the primary context, as rope does, and the device that the caller holds keeps its stream.
    Ok(unsafe { Stream::from_raw(&gpu, theirs.cu_stream().cast()) })
}

/// Rotates a tensor into new memory, contiguous in the order of its axes. Its features are next to each other.
pub(crate) fn rotate(
    x: &CudaStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    (stream, rows): (&Stream, &Rows),
) -> Result<CudaStorage> {
    match x.dtype() {
        DType::F32 => fresh::<f32>(x, layout, order, turn, stream, rows),
        DType::F16 => fresh::<f16>(x, layout, order, turn, stream, rows),
        DType::BF16 => fresh::<bf16>(x, layout, order, turn, stream, rows),
        dtype => unsupported(dtype),
    }
}

/// Rotates a tensor where it is.
pub(crate) fn rotate_inplace(
    x: &mut CudaStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    (stream, rows): (&Stream, &Rows),
) -> Result<()> {
    match x.dtype() {
        DType::F32 => inplace::<f32>(x, layout, order, turn, stream, rows),
        DType::F16 => inplace::<f16>(x, layout, order, turn, stream, rows),
        DType::BF16 => inplace::<bf16>(x, layout, order, turn, stream, rows),
        dtype => unsupported(dtype),
    }
}

fn unsupported<T>(dtype: DType) -> Result<T> {
    bail!("rope: a tensor of {dtype:?} on a GPU; expected f32, f16 or bf16")
}

fn fresh<T: Number + CudaDType + DeviceRepr>(
    x: &CudaStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    stream: &Stream,
    rows: &Rows,
) -> Result<CudaStorage> {
    let (shape, strides) = geometry(layout, order)?;
    let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size));
    // cudarc multiplies it by the size of a number.
    let Some(count) = count.filter(|&count| count <= isize::MAX as usize / size_of::<T>()) else {
        return no_room(&shape);
    };
    let (device, theirs) = (x.device(), x.device().cuda_stream());
    // SAFETY: the kernel writes every number before anybody reads one. Nothing is allocated for 0 bytes, which the driver refuses.
    let mut y = unsafe { device.alloc::<T>(count.max(1)) }?;
    let numbers = x.as_cuda_slice::<T>()?;
    {
        let (from, _read) = numbers.device_ptr(&theirs);
        let (to, _written) = y.device_ptr_mut(&theirs);
        // SAFETY: so many numbers of candle's storage, which is borrowed; it is freed in the order of the stream.
        let x = unsafe { Slice::<T>::from_raw(from, numbers.len()) };
        let start = layout.start_offset().min(numbers.len());
        let x = x.range(start..numbers.len()).map_err(failed)?;
        // SAFETY: so many numbers that were made above, and are freed in the order of the stream.
        let y = unsafe { SliceMut::<T>::from_raw(to, count) };
        let x = View::strided(x, shape, strides).map_err(refused)?;
        let [batch, length, heads, head_dim] = shape;
        let y = match order {
            Order::Bhld => ViewMut::bhld(y, [batch, heads, length, head_dim]),
            Order::Blhd => ViewMut::blhd(y, shape),
        };
        rows.rotate_to(stream, turn, &x, &mut y.map_err(refused)?).map_err(refused)?;
    }
    Ok(CudaStorage::wrap_cuda_slice(y, device.clone()))
}

fn inplace<T: Number + CudaDType + DeviceRepr>(
    x: &mut CudaStorage,
    layout: &Layout,
    order: Order,
    turn: Turn,
    stream: &Stream,
    rows: &Rows,
) -> Result<()> {
    let (shape, strides) = geometry(layout, order)?;
    let theirs = x.device().cuda_stream();
    let numbers = x.as_cuda_slice_mut::<T>()?;
    let len = numbers.len();
    let (address, _written) = numbers.device_ptr_mut(&theirs);
    // SAFETY: so many numbers of candle's storage, which is borrowed to be written; it is freed in the order of the stream.
    let x = unsafe { SliceMut::<T>::from_raw(address, len) };
    let x = x.range(layout.start_offset().min(len)..len).map_err(failed)?;
    let mut x = ViewMut::strided(x, shape, strides).map_err(refused)?;
    rows.rotate(stream, turn, &mut x).map_err(refused)
}

/// Calls `rotate` with the rows that `cos` and `sin` are: contiguous `f32`, `[length, pairs]` both or `[batch, length, pairs]` both.
pub(crate) fn with_rows<T>(
    rope: &Rope,
    [(cos, cos_layout), (sin, sin_layout)]: [(&CudaStorage, &Layout); 2],
    rotate: impl FnOnce((&Stream, &Rows)) -> Result<T>,
) -> Result<T> {
    let theirs = cos.device().cuda_stream();
    let stream = stream(cos.device())?;
    let (Some((cos_start, cos_end)), Some((sin_start, sin_end))) =
        (cos_layout.contiguous_offsets(), sin_layout.contiguous_offsets())
    else {
        bail!("rope: cosines and sines have to be contiguous")
    };
    let (cos, sin) = (cos.as_cuda_slice::<f32>()?, sin.as_cuda_slice::<f32>()?);
    let pairs = rope.pairs();
    if cos_end > cos.len() || sin_end > sin.len() || cos_end - cos_start != sin_end - sin_start {
        bail!("rope: cosines and sines of {:?} and {:?}; expected as many of both", cos_layout, sin_layout)
    }
    let rows = (cos_end - cos_start) / pairs;
    let (cos, _read_cos) = cos.device_ptr(&theirs);
    let (sin, _read_sin) = sin.device_ptr(&theirs);
    let at = |address: u64, start: usize| address + (start * size_of::<f32>()) as u64;
    let trig = Trig { cos: at(cos, cos_start), sin: at(sin, sin_start), stride: pairs };
    // SAFETY: so many rows of numbers of both, as checked above, in candle's storages, which are borrowed; they are freed in the order of
    // the stream, which all that uses the table goes to.
    let table = unsafe { Table::from_raw(stream.device(), rope, trig, rows, true) }.map_err(refused)?;
    let positions = if cos_layout.dims().len() == 3 { Positions::BatchRows } else { Positions::Rows };
    rotate((&stream, &table.at(positions).map_err(refused)?))
}

/// What rope's runtime for GPUs refuses, as candle says it.
fn failed(error: rope::cuda::Error) -> candle_core::Error {
    refused(error.into())
}
