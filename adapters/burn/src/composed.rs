//! The rotation as burn's own tensor operations: for every backend whose memory is not the CPU's. Right and differentiable; burn fuses
//! them where it fuses operations.

use crate::Result;
use crate::rows::Rows;
use crate::turning::Order;
use burn::tensor::{DType, FloatDType, Tensor};
use rope::Pairing;

/// Rotates `x`, which is not empty and whose shape has been checked: the features that turn, between those that do not.
///
/// 16-bit numbers are rotated in `f32` and rounded once.
pub(crate) fn rotate(x: Tensor<4>, rows: &Rows, order: Order) -> Result<Tensor<4>> {
    let rope = rows.tables().rope();
    let (start, end) = (rope.rotary_offset(), rope.rotary_offset() + rope.rotary_dim());
    let (dims, dtype, (length, heads)) = (x.dims(), x.dtype(), order.axes());
    let (wide, kind) = match dtype {
        DType::F64 => (FloatDType::F64, DType::F64),
        _ => (FloatDType::F32, DType::F32),
    };
    let tables = rows.gathered([dims[0], dims[length]], &x.device(), kind)?;
    // An axis of size 1 where the tensor has heads.
    let [cos, sin] = tables.map(|table| table.unsqueeze_dim::<4>(heads));
    let features = |range| x.clone().slice_dim(3, range);
    let turned = features(start..end).cast(wide);
    let (a, b) = split(turned, rope.pairing() != Pairing::Half);
    let c = a.clone() * cos.clone() - b.clone() * sin.clone();
    let d = b * cos + a * sin;
    let turned = join(c, d, rope.pairing() == Pairing::Interleaved);
    let turned = match narrow(dtype) {
        Some(dtype) => turned.cast(dtype),
        None => turned,
    };
    let mut parts = Vec::new();
    if start > 0 {
        parts.push(features(0..start));
    }
    parts.push(turned);
    if end < dims[3] {
        parts.push(features(end..dims[3]));
    }
    Ok(if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 3) })
}

/// The type that results are rounded to, where it is not the one that is computed in.
fn narrow(dtype: DType) -> Option<FloatDType> {
    match dtype {
        DType::F16 => Some(FloatDType::F16),
        DType::BF16 => Some(FloatDType::BF16),
        DType::Flex32 => Some(FloatDType::Flex32),
        _ => None,
    }
}

/// The two features of every pair of `[…, 2 · pairs]`: both `[…, pairs]`.
fn split(x: Tensor<4>, interleaved: bool) -> (Tensor<4>, Tensor<4>) {
    let [batch, p, q, dim] = x.dims();
    let pairs = dim / 2;
    if !interleaved {
        return (x.clone().slice_dim(3, 0..pairs), x.slice_dim(3, pairs..dim));
    }
    let x = x.reshape([batch, p, q, pairs, 2]);
    let feature = |i: usize| x.clone().slice_dim(4, i..i + 1).reshape([batch, p, q, pairs]);
    (feature(0), feature(1))
}

fn join(a: Tensor<4>, b: Tensor<4>, interleaved: bool) -> Tensor<4> {
    if !interleaved {
        return Tensor::cat(vec![a, b], 3);
    }
    let [batch, p, q, pairs] = a.dims();
    Tensor::stack::<5>(vec![a, b], 4).reshape([batch, p, q, 2 * pairs])
}

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests {
    use crate::turning::Order;
    use crate::{Positions, Result, RotaryEmbedding, Rows};
    use burn::tensor::{DType, Device, Distribution, Int, Tensor};
    use rope::{Axes, Pairing, Rope};

    /// What other backends are given, run on the CPU beside rope's kernels: values and gradients.
    #[test]
    fn composed_operations_agree_with_the_kernels() -> Result<()> {
        let device = Device::flex();
        let batched = Tensor::<2, Int>::from_ints([[3, 0, 7, 1, 2], [4, 5, 6, 7, 8]], &device);
        let ids = Tensor::<1, Int>::from_ints([3, 0, 7, 1, 2], &device);
        let packed = Tensor::<1, Int>::from_ints([2, 5], &device);
        for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
            for (rotary, offset) in [(8, 4), (14, 0), (6, 0), (6, 8)] {
                let rope = Rope::builder(14).rotary_dim(rotary).rotary_offset(offset).pairing(pairing);
                let embedding = RotaryEmbedding::new(&rope.build()?, 16, &device)?;
                check(&embedding.at(Positions::From(2))?, 2)?;
                check(&embedding.at(Positions::Ids(&ids))?, 2)?;
                check(&embedding.at(Positions::BatchIds(&batched))?, 2)?;
                check(&embedding.at(Positions::Packed(&packed))?, 1)?;
            }
        }
        let rope = Rope::builder(14).rotary_dim(8).axes(Axes::Sections(vec![1, 2, 1])).build()?;
        let embedding = RotaryEmbedding::new(&rope, 0, &device)?;
        let grid = Tensor::<1, Int>::arange(0..30, &device).float().mul_scalar(0.7).reshape([3, 2, 5]);
        check(&embedding.at(Positions::BatchAxes(&grid))?, 2)?;
        check(&embedding.at(Positions::Axes(&grid.slice_dim(1, 0..1).reshape([3, 5])))?, 2)
    }

    /// Both ways, on `[batch, 3, 5, 14]` and `[batch, 5, 3, 14]`, and on other numbers of axes.
    fn check(rows: &Rows, batch: usize) -> Result<()> {
        // Products and sums to √2, each rounded; 16 bits are the same f32 rounded once, to neighbours at most.
        let bounds = [1e-15, 3e-7, 2f64.powi(-10), 2f64.powi(-7)];
        for (dtype, bound) in [DType::F64, DType::F32, DType::F16, DType::BF16].into_iter().zip(bounds) {
            for order in [Order::Bhld, Order::Blhd] {
                let shape = if order == Order::Bhld { [batch, 3, 5, 14] } else { [batch, 5, 3, 14] };
                both(rows, order, shape, dtype, bound)?;
            }
            both(rows, Order::Bhld, [batch, 5, 14], dtype, bound)?;
            both(rows, Order::Bhld, [batch, 2, 3, 5, 14], dtype, bound)?;
            if batch == 1 {
                both(rows, Order::Bhld, [5, 14], dtype, bound)?;
            }
        }
        Ok(())
    }

    fn both<const D: usize>(
        rows: &Rows,
        order: Order,
        shape: [usize; D],
        dtype: DType,
        bound: f64,
    ) -> Result<()> {
        let device = Device::flex().autodiff();
        let random = || Tensor::<D>::random(shape, Distribution::Uniform(-1.0, 1.0), (&device, dtype));
        let (x, weights, turning) = (random().require_grad(), random(), rows.turning(order));
        let fused = turning.rotate(x.clone())?;
        let composed = turning.composed(x.clone())?;
        assert_eq!((fused.dims(), fused.dtype()), (composed.dims(), composed.dtype()));
        let worst = largest(&fused, &composed);
        assert!(worst <= bound, "{dtype:?}: {worst:e}");
        let gradient = |y: Tensor<D>| {
            let gradients = (y * weights.clone()).sum().backward();
            x.grad(&gradients).expect("a gradient")
        };
        let worst = largest(&gradient(fused), &gradient(composed));
        assert!(worst <= bound, "the way back, {dtype:?}: {worst:e}");
        Ok(())
    }

    fn largest<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) -> f64 {
        let list = |x: &Tensor<D>| x.try_to_vec_as::<f64>().expect("numbers");
        // NaN stays NaN, which is within no bound.
        let larger = |worst: f64, x: f64| if worst.is_nan() || x <= worst { worst } else { x };
        list(a).iter().zip(list(b)).map(|(a, b)| (a - b).abs()).fold(0.0, larger)
    }
}
