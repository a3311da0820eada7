//! Ten thousand tensors of random shapes, types and layouts: each is rotated rightly or refused, and nothing panics.

mod common;

use candle_core::{DType, Result, Tensor};
use common::{FLOATS, Random, largest, numbers, rounding};
use rope::{Pairing, Rope};
use rope_candle::{
    Positions, RotaryEmbedding, rope, rope_i, rope_i_inplace, rope_inplace, rope_thd, rope_thd_inplace,
};

const OTHERS: [DType; 4] = [DType::U8, DType::U32, DType::I64, DType::F8E4M3];

/// A tensor of up to so many axes, of sizes 0 to 6, in any layout; rarely one that repeats itself into petabytes.
fn tensor(random: &mut Random, axes: usize, dtype: DType) -> Result<Tensor> {
    let sizes = |random: &mut Random, axes: usize| (0..axes).map(|_| random.below(7)).collect::<Vec<_>>();
    let shape = sizes(random, axes);
    let x = random.tensor(shape.clone(), dtype)?;
    Ok(match random.below(8) {
        0 if axes > 1 => x.transpose(random.below(axes), random.below(axes))?,
        1 if axes > 0 => {
            let axis = random.below(axes);
            let start = random.below(shape[axis] + 1);
            x.narrow(axis, start, random.below(shape[axis] - start + 1))?
        }
        2 if axes > 0 => {
            // One number, repeated along every axis.
            let mut shape = sizes(random, axes);
            if random.below(4) == 0 {
                shape[0] = 1 << (50 + random.below(14));
            }
            random.tensor(vec![1; axes], dtype)?.broadcast_as(shape)?
        }
        3 if axes > 1 => {
            let mut order: Vec<usize> = (0..axes).collect();
            order.swap(random.below(axes), random.below(axes));
            order.swap(random.below(axes), random.below(axes));
            x.permute(order)?
        }
        _ => x,
    })
}

/// Whether it could not be held in memory, unless it is empty.
fn is_huge(x: &Tensor) -> bool {
    x.dims().iter().any(|&size| size >= 1 << 50)
}

/// The same by the formula, number by number: `None` where it is to be refused.
fn expected(x: &Tensor, cos: &Tensor, sin: &Tensor, pairing: Pairing, thd: bool) -> Result<Option<Vec<f64>>> {
    let float = |x: &Tensor| FLOATS.contains(&x.dtype());
    let Ok((batch, a, b, dim)) = x.dims4() else { return Ok(None) };
    let (heads, length) = if thd { (b, a) } else { (a, b) };
    let fits = |table: &Tensor| match *table.dims() {
        [positions, pairs] => positions >= length && 2 * pairs == dim,
        [rows, positions, pairs] => rows == batch && positions >= length && 2 * pairs == dim,
        _ => false,
    };
    if ![x, cos, sin].into_iter().all(float) || !fits(cos) || !fits(sin) || dim == 0 || is_huge(x) {
        return Ok(None);
    }
    let wide = if x.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
    let table = |table: &Tensor, b: usize, t: usize| -> Result<Vec<f64>> {
        let rows = if table.rank() == 3 { table.get(b)? } else { table.clone() };
        numbers(&rows.get(t)?.to_dtype(wide)?)
    };
    let (x, pairs) = (numbers(x)?, dim / 2);
    let mut y = x.clone();
    for b in 0..batch {
        for t in 0..length {
            let (cos, sin) = (table(cos, b, t)?, table(sin, b, t)?);
            for h in 0..heads {
                let vector =
                    if thd { (b * length + t) * heads + h } else { (b * heads + h) * length + t } * dim;
                for j in 0..pairs {
                    let (p, q) = pairing.features(j, pairs);
                    let (p, q) = (vector + p, vector + q);
                    y[p] = x[p] * cos[j] - x[q] * sin[j];
                    y[q] = x[q] * cos[j] + x[p] * sin[j];
                }
            }
        }
    }
    Ok(Some(y))
}

#[test]
fn right_or_refused() -> Result<()> {
    type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;
    type InPlace = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;
    let functions: [(Function, InPlace, Pairing, bool); 3] = [
        (rope, rope_inplace, Pairing::Half, false),
        (rope_i, rope_i_inplace, Pairing::Interleaved, false),
        (rope_thd, rope_thd_inplace, Pairing::Half, true),
    ];
    let random = &mut Random(0x5eed);
    let dtype = |random: &mut Random, like: DType| match random.below(12) {
        0 => OTHERS[random.below(OTHERS.len())],
        1..4 => FLOATS[random.below(FLOATS.len())],
        _ => like,
    };
    let (mut right, mut refused, mut changed) = (0, 0, 0);
    for _ in 0..10_000 {
        let own = FLOATS[random.below(FLOATS.len())];
        let x_type = dtype(random, own);
        let axes = if random.below(8) == 0 { random.below(7) } else { 4 };
        let x = tensor(random, axes, x_type)?;
        // Mostly tables that fit.
        let (function, in_place, pairing, thd) = functions[random.below(3)];
        let mut table = || {
            let table_type = dtype(random, own);
            if x.rank() != 4 || random.below(8) == 0 {
                let axes = random.below(5);
                return tensor(random, axes, table_type);
            }
            let shape = [x.dims()[if thd { 1 } else { 2 }].min(9) + random.below(3), x.dims()[3] / 2];
            let batch = x.dims()[0].min(9);
            match random.below(3) {
                0 => random.tensor((batch, shape[0], shape[1]), table_type),
                1 => random.tensor((shape[1], shape[0]), table_type)?.t(),
                _ => random.tensor((shape[0], shape[1]), table_type),
            }
        };
        let (cos, sin) = (table()?, table()?);
        let what =
            || format!("{:?} {:?} with {:?} and {:?}", x.dtype(), x.layout(), cos.layout(), sin.layout());
        let exact = expected(&x, &cos, &sin, pairing, thd)?;
        match (function(&x, &cos, &sin), &exact) {
            (Ok(y), Some(exact)) => {
                assert_eq!((y.shape(), y.dtype()), (x.shape(), x.dtype()));
                let wide = if own == DType::F64 { rounding(DType::F64) } else { rounding(DType::F32) };
                let bound = 2.0 * (4.0 * wide.max(rounding(DType::F32)) + 1.01 * rounding(x.dtype()));
                let worst = largest(&numbers(&y)?, exact);
                assert!(worst <= bound, "{}: off by {worst:e}", what());
                right += 1;
            }
            (Err(_), None) => refused += 1,
            (Ok(y), None) if is_huge(&x) => assert!(y.dims().contains(&0)),
            (Ok(_), None) => panic!("{} should be refused", what()),
            (Err(error), Some(_)) => panic!("{}: {error}", what()),
        }
        // In place there are more reasons to refuse; what is done is right, and a refusal leaves all as it was.
        if exact.is_some() {
            let before = numbers(&x)?;
            let y = function(&x, &cos, &sin)?;
            let done = in_place(&x, &cos, &sin).is_ok();
            assert_eq!(numbers(&x)?, if done { numbers(&y)? } else { before }, "{}", what());
            changed += usize::from(done);
        }
    }
    println!("{right} right, {refused} refused, {changed} in place");
    assert!(right > 1500 && refused > 2000 && changed > 1000);
    Ok(())
}

#[test]
fn embedding_right_or_refused() -> Result<()> {
    let random = &mut Random(0xacce55);
    let (mut right, mut refused) = (0, 0);
    for _ in 0..10_000 {
        // Mostly what is possible.
        let head_dim = random.below(12);
        let (dim, offset) = match random.below(8) {
            0 => (random.below(9), random.below(3)),
            _ => (2 * (1 + random.below(head_dim / 2 + 1)), 0),
        };
        let pairing = [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf][random.below(3)];
        let rope = Rope::builder(head_dim).rotary_dim(dim).rotary_offset(offset).pairing(pairing).build();
        let Ok(rope) = rope else {
            refused += 1;
            continue;
        };
        let embedding = RotaryEmbedding::new(&rope, 4 + random.below(12))?;
        let dtype = if random.below(8) == 0 { OTHERS[random.below(4)] } else { FLOATS[random.below(4)] };
        let axes = if random.below(8) == 0 { random.below(7) } else { 4 };
        let mut x = tensor(random, axes, dtype)?;
        if random.below(6) != 0 {
            let shape: Vec<usize> = (0..3).map(|_| random.below(4)).chain([head_dim]).collect();
            x = random.tensor(shape, dtype)?;
        }
        let axes = random.below(4);
        let kind = [DType::U32, DType::I64, DType::F32][random.below(3)];
        let ids = tensor(random, axes, kind)?;
        let positions = match random.below(8) {
            0 => Positions::Ids(&ids),
            1 => Positions::Packed(&ids),
            2 => Positions::Axes(&ids),
            _ => Positions::From([0, 1, 2, 5, usize::MAX, 1 << 62][random.below(6)]),
        };
        let Ok(rows) = embedding.at(positions) else {
            refused += 1;
            continue;
        };
        match rows.rotate(&x) {
            Err(_) => refused += 1,
            // Lengths of vectors are kept.
            Ok(y) => {
                assert_eq!((y.shape(), y.dtype()), (x.shape(), x.dtype()));
                let norm = |x: &Tensor| -> Result<f64> { Ok(numbers(x)?.iter().map(|x| x * x).sum()) };
                let (a, b) = (norm(&x)?, norm(&y)?);
                assert!((a - b).abs() <= a * 4.0 * rounding(dtype).max(rounding(DType::F32)));
                assert_eq!(embedding.rope().head_dim(), x.dims()[3]);
                right += 1;
            }
        }
    }
    println!("{right} right, {refused} refused");
    assert!(right > 1000 && refused > 3000);
    Ok(())
}
