//! Gradients beside central differences, beside rope's own and beside those of candle's composed operations.

mod common;

use candle_core::{DType, Result, Tensor, Var};
use common::{CPU, FLOATS, Random, largest, numbers, rope, rounding};
use rope::{Pairing, Positions as At, Schedule, Turn, ViewMut, Yarn};
use rope_candle::{Positions, RotaryEmbedding};

/// Takes x, cos and sin.
type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// d Σ(weights·f(x)) / dx by central differences: exact for what is linear in x, but for roundings.
fn differences(x: &Tensor, weights: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<f64>> {
    let list = numbers(x)?;
    let value = |list: &[f64]| -> Result<f64> {
        let x = Tensor::from_slice(list, x.shape(), &CPU)?;
        (f(&x)? * weights)?.sum_all()?.to_scalar()
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

fn gradient(y: &Tensor, weights: &Tensor, x: &Var) -> Result<Vec<f64>> {
    let gradients = (y * weights)?.sum_all()?.backward()?;
    numbers(gradients.get(x).expect("a gradient"))
}

#[test]
fn functions_by_central_differences() -> Result<()> {
    let mut random = Random(11);
    let functions: [Function; 3] = [rope_candle::rope, rope_candle::rope_i, rope_candle::rope_thd];
    for function in functions {
        for batched in [false, true] {
            let table = if batched { vec![2, 4, 3] } else { vec![4, 3] };
            let x = Var::from_tensor(&random.tensor((2, 3, 3, 6), DType::F64)?)?;
            let cos = Var::from_tensor(&random.tensor(table.clone(), DType::F64)?)?;
            let sin = Var::from_tensor(&random.tensor(table, DType::F64)?)?;
            let weights = random.tensor((2, 3, 3, 6), DType::F64)?;
            let y = function(&x, &cos, &sin)?;
            let by_x = differences(&x, &weights, |x| function(x, &cos, &sin))?;
            assert!(largest(&gradient(&y, &weights, &x)?, &by_x) < 1e-13);
            // Tables that are learned have gradients too.
            let by_cos = differences(&cos, &weights, |cos| function(&x, cos, &sin))?;
            assert!(largest(&gradient(&y, &weights, &cos)?, &by_cos) < 1e-13);
            let by_sin = differences(&sin, &weights, |sin| function(&x, &cos, sin))?;
            assert!(largest(&gradient(&y, &weights, &sin)?, &by_sin) < 1e-13);
        }
    }
    Ok(())
}

/// A transposed input, whose gradient arrives transposed, and one whose features are not side by side.
#[test]
fn through_other_layouts() -> Result<()> {
    let mut random = Random(12);
    let embedding = RotaryEmbedding::new(&rope(6, Pairing::Half), 8)?;
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    let (cos, sin) = (cos.to_dtype(DType::F64)?, sin.to_dtype(DType::F64)?);
    let weights = random.tensor((2, 4, 3, 6), DType::F64)?;
    let swap = |x: &Tensor| rope_candle::rope(&x.transpose(1, 2)?, &cos, &sin)?.transpose(1, 2);
    let x = Var::from_tensor(&random.tensor((2, 4, 3, 6), DType::F64)?)?;
    let by_x = differences(&x, &weights, swap)?;
    assert!(largest(&gradient(&swap(&x)?, &weights, &x)?, &by_x) < 1e-13);
    let turn = |x: &Tensor| rope_candle::rope(&x.transpose(1, 3)?, &cos, &sin);
    let x = Var::from_tensor(&random.tensor((2, 6, 3, 4), DType::F64)?)?;
    let weights = random.tensor((2, 4, 3, 6), DType::F64)?;
    let by_x = differences(&x, &weights, turn)?;
    assert!(largest(&gradient(&turn(&x)?, &weights, &x)?, &by_x) < 1e-13);
    // A gradient that repeats one number: strides of 0.
    let mean = differences(&x, &turn(&x)?.ones_like()?, turn)?;
    let gradients = turn(&x)?.sum_all()?.backward()?;
    assert!(largest(&numbers(gradients.get(&x).expect("a gradient"))?, &mean) < 1e-13);
    Ok(())
}

/// An embedding with an attention factor that turns a part of each head, its gradient beside rope's own, bit by bit.
#[test]
fn embedding_as_ropes_own() -> Result<()> {
    let mut random = Random(13);
    for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
        let builder = rope::Rope::builder(16).rotary_dim(10).rotary_offset(4).pairing(pairing);
        let rope = builder.schedule(Schedule::Yarn(Yarn::new(4.0, 64))).build().expect("a rope");
        let embedding = RotaryEmbedding::new(&rope, 64)?;
        let rows = embedding.at(Positions::From(5))?;
        for dtype in FLOATS {
            let x = Var::from_tensor(&random.tensor((2, 3, 7, 16), dtype)?)?;
            let weights = random.tensor((2, 3, 7, 16), dtype)?;
            let got = gradient(&rows.rotate(&x)?, &weights, &x)?;
            let mut own = weights.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
            if dtype == DType::F64 {
                let table = rope.table::<f64>(0..64, None).expect("a table");
                let mut view = ViewMut::bhld(&mut own, [2, 3, 7, 16]).expect("a view");
                table
                    .at(At::From(5))
                    .and_then(|rows| rows.rotate(Turn::Backward, &mut view))
                    .expect("rotated");
                assert_eq!(got, own);
                let by_x = differences(&x, &weights, |x| rows.rotate(x))?;
                assert!(largest(&got, &by_x) < 1e-13);
            } else {
                let mut own: Vec<f32> = own.iter().map(|&x| x as f32).collect();
                let table = rope.table::<f32>(0..64, None).expect("a table");
                let mut view = ViewMut::bhld(&mut own, [2, 3, 7, 16]).expect("a view");
                table
                    .at(At::From(5))
                    .and_then(|rows| rows.rotate(Turn::Backward, &mut view))
                    .expect("rotated");
                let own: Vec<f64> = own.into_iter().map(f64::from).collect();
                // 16 bits: one rounding of what is the same in f32, of numbers to 1.2·√2.
                let bound = if dtype == DType::F32 { 0.0 } else { 1.7 * rounding(dtype) };
                assert!(largest(&got, &own) <= bound);
            }
        }
    }
    Ok(())
}

/// Beside the gradients of candle's slow functions, through a small attention.
#[test]
fn attention_as_candles_slow_functions() -> Result<()> {
    let mut random = Random(14);
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 16)?;
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    let q = Var::from_tensor(&random.tensor((1, 2, 6, 8), DType::F32)?)?;
    let k = Var::from_tensor(&random.tensor((1, 2, 6, 8), DType::F32)?)?;
    let gradients = |rope: Function| -> Result<[Vec<f64>; 2]> {
        let scores = rope(&q, &cos, &sin)?.matmul(&rope(&k, &cos, &sin)?.t()?)?;
        let gradients = candle_nn::ops::softmax(&scores, 3)?.sqr()?.sum_all()?.backward()?;
        let numbers = |x: &Var| numbers(gradients.get(x).expect("a gradient"));
        Ok([numbers(&q)?, numbers(&k)?])
    };
    let (ours, slow) = (gradients(rope_candle::rope)?, gradients(candle_nn::rotary_emb::rope_slow)?);
    for (ours, slow) in ours.iter().zip(&slow) {
        assert!(slow.iter().any(|x| x.abs() > 1e-3));
        assert!(largest(ours, slow) < 1e-6);
    }
    Ok(())
}
