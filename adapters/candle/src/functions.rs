//! candle-nn's functions, by its names and with its shapes, with gradients.

use crate::op::Given;
use crate::{Order, composed, cpu};
use candle_core::{D, DType, Result, Tensor, bail};
use rope::{Pairing, Turn};

/// Rotates `xs`, whose features j and j + head_dim/2 form a pair: GPT-NeoX, Llama, Qwen. As `candle_nn::rotary_emb::rope`, with a
/// gradient for `xs`, and for `cos` and `sin` where those are learned.
///
/// - `xs`: `[batch, heads, length, head_dim]`, `f32`, `f64`, `f16` or `bf16`, contiguous or not
/// - `cos`, `sin`: `[positions, head_dim / 2]`, of which the first `length` rows are taken, or
///   `[batch, positions, head_dim / 2]`. Of any floating type: leave them in `f32` when `xs` has 16 bits, and they are exact.
///
/// The result is contiguous, in the shape and type of `xs`. 16-bit numbers are rotated in `f32` and rounded once.
///
/// ```
/// use candle_core::{Device, Tensor, Var};
///
/// let device = Device::Cpu;
/// let (cos, sin) = (Tensor::new(&[[0f32]], &device)?, Tensor::new(&[[1f32]], &device)?); // a quarter of a turn
/// let x = Var::new(&[[[[3f32, 4.]]]], &device)?;
/// let y = rope_candle::rope(&x, &cos, &sin)?;
/// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [-4., 3.]);
/// assert!(y.sum_all()?.backward()?.get(&x).is_some());
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn rope(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotate(xs, cos, sin, Pairing::Half, Order::Bhld)
}

/// As [`rope`](rope()), where features 2j and 2j + 1 form a pair: RoFormer, GPT-J, GLM, Cohere.
pub fn rope_i(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotate(xs, cos, sin, Pairing::Interleaved, Order::Bhld)
}

/// As [`rope`](rope()), with `xs` as `[batch, length, heads, head_dim]`.
pub fn rope_thd(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    rotate(xs, cos, sin, Pairing::Half, Order::Blhd)
}

/// As [`rope`](rope()), in the memory of `xs`: all tensors that share it change. For inference, on the CPU and with the feature `cuda` on
/// NVIDIA GPUs; a tensor that takes part in a gradient is refused, because its gradient would be wrong. So is one whose features are not side by side in memory, or that repeats
/// numbers; nothing has changed then.
///
/// ```
/// use candle_core::{Device, Tensor};
///
/// let device = Device::Cpu;
/// let (cos, sin) = (Tensor::new(&[[0f32]], &device)?, Tensor::new(&[[1f32]], &device)?); // a quarter of a turn
/// let x = Tensor::new(&[[[[3f32, 4.]]]], &device)?; // [batch, heads, length, head_dim]
/// rope_candle::rope_inplace(&x, &cos, &sin)?;
/// assert_eq!(x.flatten_all()?.to_vec1::<f32>()?, [-4., 3.]);
/// # Ok::<(), candle_core::Error>(())
/// ```
pub fn rope_inplace(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<()> {
    rotate_inplace(xs, cos, sin, Pairing::Half, Order::Bhld)
}

/// As [`rope_i`], in the memory of `xs`. See [`rope_inplace`].
pub fn rope_i_inplace(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<()> {
    rotate_inplace(xs, cos, sin, Pairing::Interleaved, Order::Bhld)
}

/// As [`rope_thd`], in the memory of `xs`. See [`rope_inplace`].
pub fn rope_thd_inplace(xs: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<()> {
    rotate_inplace(xs, cos, sin, Pairing::Half, Order::Blhd)
}

fn rotate(xs: &Tensor, cos: &Tensor, sin: &Tensor, pairing: Pairing, order: Order) -> Result<Tensor> {
    let (cos, sin) = tables(xs, cos, sin, order)?;
    if !has_kernels(xs) {
        return composed::rotate(xs, &cos, &sin, pairing, order);
    }
    side_by_side(xs)?.apply_op3(&cos, &sin, Given { pairing, order, turn: Turn::Forward })
}

fn rotate_inplace(xs: &Tensor, cos: &Tensor, sin: &Tensor, pairing: Pairing, order: Order) -> Result<()> {
    let (cos, sin) = tables(xs, cos, sin, order)?;
    may_change(xs)?;
    xs.inplace_op3(&cos, &sin, &Given { pairing, order, turn: Turn::Forward })
}

/// The rows of both tables that the tokens of `xs` take: `[length, pairs]` both, or `[batch, length, pairs]` both.
fn tables(xs: &Tensor, cos: &Tensor, sin: &Tensor, order: Order) -> Result<(Tensor, Tensor)> {
    check_type(xs)?;
    let Ok([batch, .., head_dim]) = <[usize; 4]>::try_from(xs.dims()) else {
        bail!("rope: got a tensor of shape {:?}; expected four axes", xs.dims())
    };
    let length = xs.dim(order.axes().0)?;
    let batched = cos.rank() == 3 || sin.rank() == 3;
    let rows = |table: &Tensor, name: &str| {
        let fits = match *table.dims() {
            [positions, pairs] => positions >= length && pairs.checked_mul(2) == Some(head_dim),
            [b, positions, pairs] => {
                b == batch && positions >= length && pairs.checked_mul(2) == Some(head_dim)
            }
            _ => false,
        };
        if !fits || !is_float(table.dtype()) {
            bail!(
                "rope: {name} is {:?} of shape {:?} for a tensor of shape {:?}; expected floating-point \
                 [positions, head_dim / 2] or [batch, positions, head_dim / 2] with at least {length} positions",
                table.dtype(),
                table.dims(),
                xs.dims(),
            )
        }
        let rows = table.narrow(D::Minus2, 0, length)?;
        let rows = if batched && rows.rank() == 2 {
            rows.broadcast_as((batch, length, head_dim / 2))?
        } else {
            rows
        };
        // The kernels of GPUs read cosines and sines in f32 alone.
        let rows = if xs.device().is_cuda() && has_kernels(xs) { rows.to_dtype(DType::F32)? } else { rows };
        contiguous(&rows)
    };
    Ok((rows(cos, "cos")?, rows(sin, "sin")?))
}

fn is_float(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}

/// Whether rope's kernels rotate a tensor of this device and type. Others are rotated by candle's own operations.
pub(crate) fn has_kernels(xs: &Tensor) -> bool {
    #[cfg(feature = "cuda")]
    if xs.device().is_cuda() {
        return crate::cuda::takes(xs.dtype());
    }
    xs.device().is_cpu()
}

/// Refuses tensors of types that cannot be rotated.
pub(crate) fn check_type(xs: &Tensor) -> Result<()> {
    match is_float(xs.dtype()) {
        true => Ok(()),
        false => bail!("rope: got a tensor of {:?}; expected f32, f64, f16 or bf16", xs.dtype()),
    }
}

/// The tensor with its features side by side in memory; other axes may stand as they like.
pub(crate) fn side_by_side(xs: &Tensor) -> Result<Tensor> {
    match xs.stride().last() {
        Some(1) => Ok(xs.clone()),
        _ => contiguous(xs),
    }
}

/// The tensor in memory of its own, if it is not contiguous.
pub(crate) fn contiguous(x: &Tensor) -> Result<Tensor> {
    // candle's CPU ends the process where there is no room; its GPUs say so.
    if x.device().is_cpu() {
        cpu::check_room(x.dims(), x.dtype().size_in_bytes())?;
    }
    x.contiguous()
}

/// Refuses what cannot be changed in place without harm.
pub(crate) fn may_change(xs: &Tensor) -> Result<()> {
    if xs.track_op() {
        bail!(
            "rope: in place on a tensor that takes part in a gradient, which would be wrong; expected one that does \
             not: rotate into a new tensor, or `detach` it"
        )
    }
    if !has_kernels(xs) {
        let expected = if cfg!(feature = "cuda") { ", or f32, f16 or bf16 on an NVIDIA GPU" } else { "" };
        let (dtype, device) = (xs.dtype(), xs.device().location());
        bail!("rope: in place on {dtype:?} on {device:?}; expected a tensor on the CPU{expected}")
    }
    Ok(())
}
