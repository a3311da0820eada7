//! Tensors of NdArray, burn's older CPU backend, rotated by rope's kernels.
#![allow(deprecated, reason = "burn has deprecated it; it is here for those who still use it")]

use crate::cpu::{Number, check_room};
use crate::turning::{Kernels, Turning};
use crate::{Result, refused};
use burn::backend::ndarray::{NdArrayTensor, SharedArray};
use burn::backend::{NdArray, TensorMetadata};
use burn::tensor::TensorData;

/// The backend, by a name that may be said elsewhere.
pub(crate) type Own = NdArray;

impl Kernels for NdArray {
    fn rotate(x: NdArrayTensor, turning: &Turning) -> Result<NdArrayTensor> {
        match x {
            NdArrayTensor::F32(x) => rotate(x.into_shared(), turning),
            NdArrayTensor::F64(x) => rotate(x.into_shared(), turning),
            x => Err(refused(x.dtype(), "f32 or f64")),
        }
    }
}

fn rotate<T: Number>(mut x: SharedArray<T>, turning: &Turning) -> Result<NdArrayTensor>
where
    NdArrayTensor: From<SharedArray<T>>,
{
    let geometry = |x: &SharedArray<T>| turning.order.geometry(x.shape(), x.strides());
    let (mut x, geometry) = match geometry(&x) {
        Some(geometry) if x.as_slice_memory_order().is_some() => (x, geometry),
        _ => {
            check_room::<T>(x.shape())?;
            x = x.as_standard_layout().into_owned().into_shared();
            let geometry = geometry(&x).ok_or_else(|| refused(x.shape(), "two axes or more"))?;
            (x, geometry)
        }
    };
    if x.is_unique()
        && let Some(memory) = x.as_slice_memory_order_mut()
        && turning.in_place(memory, geometry)?
    {
        return Ok(x.into());
    }
    let y = turning.fresh(x.as_slice_memory_order().unwrap_or_default(), geometry)?;
    Ok(NdArrayTensor::from_data(TensorData::new(y, x.shape())))
}
