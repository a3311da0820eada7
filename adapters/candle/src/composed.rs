//! The rotation as candle's own tensor operations: for tensors that are not on the CPU, and for the gradient of tables that
//! are learned. Right, differentiable and not fused.

use crate::Order;
use candle_core::{D, DType, Result, Tensor};
use rope::Pairing;

/// The two features of every pair of `x`, `[…, 2 · pairs]`: both `[…, pairs]`.
pub(crate) fn split(x: &Tensor, interleaved: bool) -> Result<(Tensor, Tensor)> {
    let pairs = x.dim(D::Minus1)? / 2;
    if !interleaved {
        return Ok((x.narrow(D::Minus1, 0, pairs)?, x.narrow(D::Minus1, pairs, pairs)?));
    }
    let mut dims = x.dims().to_vec();
    dims.pop();
    dims.extend([pairs, 2]);
    let x = x.reshape(dims)?;
    Ok((x.narrow(D::Minus1, 0, 1)?.squeeze(D::Minus1)?, x.narrow(D::Minus1, 1, 1)?.squeeze(D::Minus1)?))
}

fn join(a: &Tensor, b: &Tensor, interleaved: bool) -> Result<Tensor> {
    match interleaved {
        false => Tensor::cat(&[a, b], D::Minus1),
        true => Tensor::stack(&[a, b], D::Minus1)?.flatten_from(D::Minus2),
    }
}

/// Rotates all features of `x`. `cos` and `sin` are `[length, pairs]` or `[batch, length, pairs]`.
///
/// 16-bit numbers are rotated in `f32` and rounded once.
pub(crate) fn rotate(
    x: &Tensor,
    cos: &Tensor,
    sin: &Tensor,
    pairing: Pairing,
    order: Order,
) -> Result<Tensor> {
    let wide = wide(x.dtype());
    let (cos, sin) = (beside(&cos.to_dtype(wide)?, order)?, beside(&sin.to_dtype(wide)?, order)?);
    let (a, b) = split(&x.to_dtype(wide)?, pairing != Pairing::Half)?;
    let c = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    let d = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
    join(&c, &d, pairing == Pairing::Interleaved)?.to_dtype(x.dtype())
}

/// What a type is computed in.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// `[length, pairs]` or `[batch, length, pairs]` with axes of size 1 where the tensor has heads, and a batch.
fn beside(table: &Tensor, order: Order) -> Result<Tensor> {
    let table = if table.rank() == 2 { table.unsqueeze(0)? } else { table.clone() };
    table.unsqueeze(order.axes().1)
}
