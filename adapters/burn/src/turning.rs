//! Which way a tensor takes: rope's kernels where its memory is the CPU's, burn's own operations everywhere else.

use crate::rows::Rows;
use crate::{Result, composed, refused};
#[cfg(any(feature = "flex", feature = "ndarray"))]
use burn::backend::{Backend, tensor::FloatTensor};
use burn::backend::{BackendTensor, DispatchTensor, DispatchTensorKind as Kind};
use burn::tensor::{DType, Tensor};
use rope::Turn;

/// What is done to a tensor: by which rows, in which order of axes, forward or back.
#[derive(Clone, Debug)]
pub(crate) struct Turning {
    pub rows: Rows,
    pub order: Order,
    pub turn: Turn,
}

/// The order of a tensor's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[batch, heads, length, head_dim]`, with any number of axes, or none, between batch and length; `[length, head_dim]`.
    Bhld,
    /// `[batch, length, heads, head_dim]`
    Blhd,
}

impl Order {
    /// The axes of length and heads, of four.
    pub fn axes(self) -> (usize, usize) {
        match self {
            Order::Bhld => (2, 1),
            Order::Blhd => (1, 2),
        }
    }
}

/// A backend whose tensors lie in the CPU's memory, where rope's kernels rotate them.
#[cfg(any(feature = "flex", feature = "ndarray"))]
pub(crate) trait Kernels: Backend {
    /// Rotates a tensor that is not empty and whose shape has been checked, in its own memory if nobody else holds it.
    fn rotate(x: FloatTensor<Self>, turning: &Turning) -> Result<FloatTensor<Self>>;
}

impl Turning {
    /// Rotates `x`, whose shape has been checked.
    pub fn rotate<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>> {
        if !matches!(x.dtype(), DType::F64 | DType::F32 | DType::Flex32 | DType::F16 | DType::BF16) {
            return Err(refused(x.dtype(), "f32, f64, f16 or bf16: dequantize it first"));
        }
        // A product of sizes might overflow.
        if x.dims().contains(&0) {
            return Ok(x);
        }
        let DispatchTensor { kind, autodiff } = x.into_dispatch();
        let kind = match kind {
            #[cfg(feature = "flex")]
            Kind::Flex(BackendTensor::Float(x)) => {
                Kind::Flex(BackendTensor::Float(burn::backend::Flex::rotate(x, self)?))
            }
            #[cfg(feature = "ndarray")]
            Kind::NdArray(BackendTensor::Float(x)) => {
                Kind::NdArray(BackendTensor::Float(crate::ndarray::Own::rotate(x, self)?))
            }
            #[cfg(all(feature = "autodiff", any(feature = "flex", feature = "ndarray")))]
            Kind::Autodiff(inner) => Kind::Autodiff(Box::new(match *inner {
                #[cfg(feature = "flex")]
                Kind::Flex(BackendTensor::Autodiff(x)) => {
                    Kind::Flex(BackendTensor::Autodiff(crate::tracked::rotate(x, self, autodiff)?))
                }
                #[cfg(feature = "ndarray")]
                Kind::NdArray(BackendTensor::Autodiff(x)) => {
                    Kind::NdArray(BackendTensor::Autodiff(crate::tracked::rotate(x, self, autodiff)?))
                }
                #[allow(unreachable_patterns, reason = "which backends there are is the user's choice")]
                other => {
                    let kind = Kind::Autodiff(Box::new(other));
                    return self.composed(Tensor::from_dispatch(DispatchTensor { kind, autodiff }));
                }
            })),
            #[allow(unreachable_patterns, reason = "which backends there are is the user's choice")]
            kind => return self.composed(Tensor::from_dispatch(DispatchTensor { kind, autodiff })),
        };
        Ok(Tensor::from_dispatch(DispatchTensor { kind, autodiff }))
    }

    /// The same by burn's operations.
    pub fn composed<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>> {
        let dims = x.dims();
        let of_four = match dims[..] {
            [batch, .., length, head_dim] if D > 2 => {
                [batch, dims[1..D - 2].iter().product(), length, head_dim]
            }
            [length, head_dim] => [1, 1, length, head_dim],
            _ => return Err(refused(dims, "[batch, heads, length, head_dim]")),
        };
        if D == 4 {
            let y = composed::rotate(Tensor::from_dispatch(x.into_dispatch()), &self.rows, self.order)?;
            return Ok(Tensor::from_dispatch(y.into_dispatch()));
        }
        Ok(composed::rotate(x.reshape(of_four), &self.rows, self.order)?.reshape(dims))
    }

    /// The way back: the gradient with respect to what was rotated.
    #[cfg(all(feature = "autodiff", any(feature = "flex", feature = "ndarray")))]
    pub fn reversed(self) -> Self {
        let turn = if self.turn == Turn::Forward { Turn::Backward } else { Turn::Forward };
        Turning { turn, ..self }
    }
}
