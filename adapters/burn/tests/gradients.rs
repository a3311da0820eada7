//! Gradients beside central differences, beside rope's own and beside those of burn's layer.
#![cfg(feature = "autodiff")]

mod common;

use burn::tensor::{DType, Device, Tensor, TensorData};
use common::{PAIRINGS, Random, devices, largest, numbers, rope, rounding};
use rope::{Pairing, Positions as At, Rope, Schedule, Turn, ViewMut, Yarn};
use rope_burn::rotary::Result;
use rope_burn::{Positions, RotaryEmbedding, RotaryEncodingConfig};

/// A device that keeps gradients, without and with checkpointing.
fn tracked(device: &Device) -> [Device; 2] {
    [device.clone().autodiff(), device.clone().autodiff().gradient_checkpointing()]
}

/// The same numbers as a leaf of a graph on another device.
fn leaf<const D: usize>(x: &Tensor<D>, device: &Device) -> Tensor<D> {
    Tensor::from_data(x.to_data(), (device, x.dtype())).require_grad()
}

/// d Σ(weights·f(x)) / dx by central differences: exact for what is linear in x, but for roundings.
fn differences<const D: usize>(
    x: &Tensor<D>,
    weights: &Tensor<4>,
    f: impl Fn(Tensor<D>) -> Result<Tensor<4>>,
) -> Result<Vec<f64>> {
    let list = numbers(x);
    let value = |list: &[f64]| -> Result<f64> {
        let x = Tensor::from_data(TensorData::new(list.to_vec(), x.dims()), (&x.device(), DType::F64));
        Ok((f(x)? * weights.clone()).sum().into_scalar::<f64>())
    };
    (0..list.len())
        .map(|i| {
            let mut list = list.clone();
            list[i] += 0.5;
            let above = value(&list)?;
            list[i] -= 1.0;
            Ok(above - value(&list)?)
        })
        .collect()
}

fn gradient<const D: usize>(y: Tensor<4>, weights: &Tensor<4>, x: &Tensor<D>) -> Vec<f64> {
    let weights = Tensor::from_data(weights.to_data(), (&y.device(), y.dtype()));
    numbers(&x.grad(&(y * weights).sum().backward()).expect("a gradient"))
}

/// In every layout: as it is, transposed, so that its gradient arrives transposed, and with features that are not side by side.
#[test]
fn by_central_differences() -> Result<()> {
    let mut random = Random(11);
    for (device, _) in devices() {
        for pairing in PAIRINGS {
            let rope = Rope::builder(6).rotary_dim(4).rotary_offset(1).pairing(pairing).build()?;
            let rows = RotaryEmbedding::new(&rope, 8, &device)?.at(Positions::From(2))?;
            let weights = random.tensor([2, 4, 3, 6], (&device, DType::F64));
            let plain = |x: Tensor<4>| rows.rotate(x);
            let swapped = |x: Tensor<4>| Ok(rows.rotate(x.swap_dims(1, 2))?.swap_dims(1, 2));
            let blhd = |x: Tensor<4>| rows.rotate_blhd(x);
            let turned = |x: Tensor<4>| rows.rotate(x.permute([1, 2, 3, 0]));
            type Function<'a> = &'a dyn Fn(Tensor<4>) -> Result<Tensor<4>>;
            let cases: [(Function, [usize; 4]); 4] = [
                (&plain, [2, 4, 3, 6]),
                (&swapped, [2, 4, 3, 6]),
                (&blhd, [2, 4, 3, 6]),
                (&turned, [6, 2, 4, 3]),
            ];
            for (index, (f, shape)) in cases.into_iter().enumerate() {
                let x = random.tensor(shape, (&device, DType::F64));
                let by_x = differences(&x, &weights, f)?;
                // A gradient that repeats one number: strides of 0.
                let ones = differences(&x, &weights.ones_like(), f)?;
                for device in tracked(&device) {
                    let x = leaf(&x, &device);
                    let worst = largest(&gradient(f(x.clone())?, &weights, &x), &by_x);
                    assert!(worst < 1e-13, "{pairing} {index}: {worst:e}");
                    let gradients = f(x.clone())?.sum().backward();
                    let worst = largest(&numbers(&x.grad(&gradients).expect("a gradient")), &ones);
                    assert!(worst < 1e-13, "{pairing} {index}, repeated: {worst:e}");
                }
            }
        }
    }
    Ok(())
}

/// What is needed on the way back is not overwritten: each of these keeps its input or its output.
#[test]
fn through_operations_that_keep_their_numbers() -> Result<()> {
    let mut random = Random(12);
    for (device, _) in devices() {
        let rows = RotaryEmbedding::new(&rope(6, Pairing::Half), 8, &device)?.at(Positions::From(1))?;
        let weights = random.tensor([1, 2, 3, 6], (&device, DType::F64));
        // |y|⁴-like sums, so that differences of a small step are near the derivative.
        let f = |x: Tensor<4>| -> Result<Tensor<4>> {
            let y = rows.rotate(x.clone().exp())?; // keeps its output
            let z = rows.rotate(y.clone() * x.clone())?; // keeps its inputs
            let once = rows.rotate(z.clone().tanh())?;
            let twice = rows.rotate(once.clone())?;
            Ok(once * twice + y.powi_scalar(2) + z)
        };
        let x = random.tensor([1, 2, 3, 6], (&device, DType::F64));
        let step = 1e-5;
        let value = |list: Vec<f64>| -> Result<f64> {
            let x = Tensor::from_data(TensorData::new(list, x.dims()), (&device, DType::F64));
            Ok((f(x)? * weights.clone()).sum().into_scalar::<f64>())
        };
        let mut expected = Vec::new();
        for i in 0..36 {
            let moved = |by: f64| {
                let mut list = numbers(&x);
                list[i] += by;
                value(list)
            };
            expected.push((moved(step)? - moved(-step)?) / (2.0 * step));
        }
        for device in tracked(&device) {
            let x = leaf(&x, &device);
            let worst = largest(&gradient(f(x.clone())?, &weights, &x), &expected);
            // Error of the differences: step² times a third derivative of some 10², and roundings of sums to some 50 over the step.
            assert!(worst < 1e-7, "{device:?}: {worst:e}");
        }
    }
    Ok(())
}

/// An embedding with an attention factor that turns a part of each head, its gradient beside rope's own, bit by bit.
#[test]
fn as_ropes_own() -> Result<()> {
    let mut random = Random(13);
    for pairing in PAIRINGS {
        let builder = Rope::builder(16).rotary_dim(10).rotary_offset(4).pairing(pairing);
        let rope = builder.schedule(Schedule::Yarn(Yarn::new(4.0, 64))).build()?;
        for (device, dtypes) in devices() {
            let rows = RotaryEmbedding::new(&rope, 64, &device)?.at(Positions::From(5))?;
            for &dtype in dtypes {
                let x = random.tensor([2, 3, 7, 16], (&device, dtype));
                let weights = random.tensor([2, 3, 7, 16], (&device, dtype));
                let own = match dtype {
                    DType::F64 => own::<f64>(&rope, numbers(&weights))?,
                    _ => {
                        let list = numbers(&weights).into_iter().map(|x| x as f32).collect();
                        own::<f32>(&rope, list)?.into_iter().map(f64::from).collect()
                    }
                };
                // 16 bits: one rounding of what is the same in f32, of numbers to 1.2·√2.
                let bound =
                    if matches!(dtype, DType::F16 | DType::BF16) { 1.7 * rounding(dtype) } else { 0.0 };
                for device in tracked(&device) {
                    let x = leaf(&x, &device);
                    let got = gradient(rows.rotate(x.clone())?, &weights, &x);
                    assert!(largest(&got, &own) <= bound);
                }
            }
        }
    }
    Ok(())
}

/// rope's own way back of a gradient `[2, 3, 7, 16]`.
fn own<P: rope::Precision + rope::Element<Table = P>>(rope: &Rope, mut list: Vec<P>) -> Result<Vec<P>> {
    let mut view = ViewMut::bhld(&mut list, [2, 3, 7, 16])?;
    rope.table::<P>(0..64, None)?.at(At::From(5))?.rotate(Turn::Backward, &mut view)?;
    Ok(list)
}

/// Beside the gradients of burn's own layer, through a small attention.
#[test]
fn attention_as_burns_own() -> Result<()> {
    let mut random = Random(14);
    for (device, _) in devices() {
        for device in tracked(&device) {
            let [q, k] = [(); 2].map(|()| random.tensor([1, 2, 6, 8], (&device, DType::F32)).require_grad());
            let gradients = |rotate: &dyn Fn(Tensor<4>) -> Tensor<4>| {
                let scores = rotate(q.clone()).matmul(rotate(k.clone()).transpose());
                let weights = burn::tensor::activation::softmax(scores, 3);
                let gradients = weights.powi_scalar(2).sum().backward();
                [&q, &k].map(|x| numbers(&x.grad(&gradients).expect("a gradient")))
            };
            let theirs = burn::nn::RotaryEncodingConfig::new(16, 8).init(&device);
            let ours = RotaryEncodingConfig::new(16, 8).init(&device);
            let (theirs, ours) = (gradients(&|x| theirs.forward(x)), gradients(&|x| ours.forward(x)));
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(theirs.iter().any(|x| x.abs() > 1e-3));
                assert!(largest(ours, theirs) < 1e-6);
            }
        }
    }
    Ok(())
}

/// Tensors that keep no gradient stay so, and their rotation is the same.
#[test]
fn untracked_tensors() -> Result<()> {
    let device = Device::flex();
    let rows = RotaryEmbedding::new(&rope(8, Pairing::Half), 16, &device)?.at(Positions::From(0))?;
    let x = Random(15).tensor([1, 2, 4, 8], (&device, DType::F32));
    let constant = Tensor::<4>::from_data(x.to_data(), &device.clone().autodiff());
    let y = rows.rotate(constant)?;
    assert!(!y.is_require_grad());
    assert_eq!(numbers(&y), numbers(&rows.rotate(x)?));
    Ok(())
}
