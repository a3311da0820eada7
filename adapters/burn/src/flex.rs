//! Tensors of Flex, burn's CPU backend, rotated by rope's kernels.

use crate::cpu::{Number, check_room};
use crate::turning::{Kernels, Turning};
use crate::{Result, refused};
use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{DType, TensorData, bf16, f16};

impl Kernels for Flex {
    fn rotate(x: FlexTensor, turning: &Turning) -> Result<FlexTensor> {
        match x.dtype() {
            DType::F32 => rotate::<f32>(x, turning),
            DType::F64 => rotate::<f64>(x, turning),
            DType::F16 => rotate::<f16>(x, turning),
            DType::BF16 => rotate::<bf16>(x, turning),
            dtype => Err(refused(dtype, "f32, f64, f16 or bf16")),
        }
    }
}

fn rotate<T: Number>(x: FlexTensor, turning: &Turning) -> Result<FlexTensor> {
    let geometry = |x: &FlexTensor| turning.order.geometry(x.layout().shape(), x.layout().strides());
    let (mut x, geometry) = match geometry(&x) {
        Some(geometry) => (x, geometry),
        None => {
            check_room::<T>(x.layout().shape())?;
            let x = x.to_contiguous();
            let geometry = geometry(&x).ok_or_else(|| refused(x.layout(), "two axes or more"))?;
            (x, geometry)
        }
    };
    let start = x.layout().start_offset();
    if let Some(memory) = x.try_storage_mut::<T>()
        && turning.in_place(memory.get_mut(start..).unwrap_or_default(), geometry)?
    {
        return Ok(x);
    }
    let y = turning.fresh(x.storage::<T>().get(start..).unwrap_or_default(), geometry)?;
    Ok(FlexTensor::from_data(TensorData::new(y, x.layout().shape().clone())))
}
