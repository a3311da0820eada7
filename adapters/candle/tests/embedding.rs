//! `RotaryEmbedding`: every schedule, partial rotary, position ids, packed sequences, several axes, a cache.

mod common;

use candle_core::{DType, Result, Tensor};
use common::{CPU, FLOATS, Random, bound, largest, numbers, oracle, rope};
use rope::{Axes, Llama3, LongRope, Pairing, Rope, Schedule, Yarn};
use rope_candle::{Positions, RotaryEmbedding};

/// Every schedule, both pairings, a part of the head, in every type.
#[test]
fn every_schedule() -> Result<()> {
    let pairs = 5;
    let given: Vec<f64> = (1..=pairs).map(|j| 1.0 / j as f64).collect();
    let long = LongRope {
        short: vec![1.0; pairs],
        long: given.iter().map(|x| 1.0 / x).collect(),
        original_length: 32,
        factor: 4.0,
        attention_factor: None,
    };
    let llama = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 64 };
    let schedules = [
        Schedule::Default,
        Schedule::Linear { factor: 2.5 },
        Schedule::NtkAware { factor: 4.0 },
        Schedule::DynamicNtk { factor: 2.0, trained_length: 32 },
        Schedule::Yarn(Yarn::new(4.0, 32)),
        Schedule::LongRope(long),
        Schedule::Llama3(llama),
        Schedule::Proportional { fraction: 0.5, factor: 1.0 },
        Schedule::ReceptiveField { alpha: 0.5, rho: 1.0 },
        Schedule::Given(given),
    ];
    let mut random = Random(21);
    for schedule in schedules {
        for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
            let builder = Rope::builder(16).rotary_dim(2 * pairs).rotary_offset(3).pairing(pairing);
            let rope = builder.schedule(schedule.clone()).build().expect("a rope");
            let embedding = RotaryEmbedding::new(&rope, 90)?;
            let factor = rope.frequencies(None).attention_factor();
            for dtype in FLOATS {
                let x = random.tensor((2, 3, 9, 16), dtype)?;
                let exact = oracle(&x, &rope, |_, t| (80 + t) as f64)?;
                let y = embedding.at(Positions::From(80))?.rotate(&x)?;
                let worst = largest(&numbers(&y)?, &exact);
                assert!(worst <= bound(dtype, factor), "{schedule} {pairing} {dtype:?}: {worst:e}");
                let swapped = x.transpose(1, 2)?.contiguous()?;
                let thd = embedding.at(Positions::From(80))?.rotate_thd(&swapped)?.transpose(1, 2)?;
                assert_eq!(numbers(&thd)?, numbers(&y)?);
                embedding.at(Positions::From(80))?.rotate_thd_inplace(&swapped)?;
                assert_eq!(numbers(&swapped.transpose(1, 2)?)?, numbers(&y)?);
                embedding.at(Positions::From(80))?.rotate_inplace(&x)?;
                assert_eq!(numbers(&x)?, numbers(&y)?);
            }
        }
    }
    Ok(())
}

/// Beyond the trained length the rules that depend on it give other frequencies, and only when told.
#[test]
fn sequence_length_is_said() -> Result<()> {
    let schedule = Schedule::DynamicNtk { factor: 2.0, trained_length: 32 };
    let rope = Rope::builder(8).schedule(schedule).build().expect("a rope");
    let embedding = RotaryEmbedding::new(&rope, 64)?;
    let longer = embedding.with_sequence_length(64)?;
    let table = |embedding: &RotaryEmbedding| numbers(&embedding.cos_sin(&CPU)?.0);
    assert_ne!(table(&embedding)?, table(&longer)?);
    let own = rope.table::<f32>(0..64, 64).expect("a table");
    assert_eq!(table(&longer)?, own.cos().iter().map(|&x| x.into()).collect::<Vec<f64>>());
    // Doubles follow.
    let x = Random(2).tensor((1, 1, 64, 8), DType::F64)?;
    let (f64s, f32s) = (longer.at(Positions::From(0))?.rotate(&x)?, longer.at(Positions::From(0))?);
    let f32s = f32s.rotate(&x.to_dtype(DType::F32)?)?;
    assert!(largest(&numbers(&f64s)?, &numbers(&f32s)?) < 1e-6);
    Ok(())
}

#[test]
fn ids_packed_and_axes() -> Result<()> {
    let mut random = Random(22);
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 50)?;
    let x = random.tensor((2, 3, 4, 8), DType::F32)?;
    let list = [[7i64, 0, 49, 3], [1, 2, 3, 4]];
    let check = |y: Tensor, position: &dyn Fn(usize, usize) -> f64, x: &Tensor| -> Result<()> {
        let exact = oracle(x, embedding.rope(), position)?;
        assert!(largest(&numbers(&y)?, &exact) <= bound(DType::F32, 1.0));
        Ok(())
    };
    for dtype in [DType::U8, DType::U32, DType::I16, DType::I32, DType::I64] {
        let ids = Tensor::new(&list, &CPU)?.to_dtype(dtype)?;
        let y = embedding.at(Positions::Ids(&ids))?.rotate(&x)?;
        check(y, &|b, t| list[b][t] as f64, &x)?;
        let y = embedding.at(Positions::Ids(&ids.get(0)?))?.rotate(&x)?;
        check(y, &|_, t| list[0][t] as f64, &x)?;
    }
    // Three sequences of 3, 0 and 2 tokens in one row, with and without the leading 0.
    let packed = random.tensor((1, 2, 5, 8), DType::F32)?;
    for ends in [vec![0u32, 3, 3, 5], vec![3, 3, 5]] {
        let ends = Tensor::new(ends, &CPU)?;
        let y = embedding.at(Positions::Packed(&ends))?.rotate(&packed)?;
        check(y, &|_, t| [0.0, 1.0, 2.0, 0.0, 1.0][t], &packed)?;
    }
    // Fractional and negative positions on one axis.
    let given = [[0.5f64, -3.25, 10.0, 7.75], [1e3, 0.0, 0.125, -0.5]];
    let positions = Tensor::new(&given, &CPU)?.unsqueeze(0)?;
    let y = embedding.at(Positions::Axes(&positions))?.rotate(&x)?;
    check(y, &|b, t| given[b][t], &x)?;
    let y = embedding.at(Positions::Axes(&positions.narrow(1, 1, 1)?.squeeze(1)?))?.rotate(&x)?;
    check(y, &|_, t| given[1][t], &x)?;
    // M-RoPE: each pair follows its axis.
    let sections = Rope::builder(8).axes(Axes::Sections(vec![1, 2, 1])).build().expect("a rope");
    let axes = sections.axis_of_pairs();
    let grid = [[0.0f64, 1.0, 2.0, 3.0], [5.0, 6.0, 7.0, 8.0], [9.0, 7.0, 5.0, 3.0]];
    let y =
        RotaryEmbedding::new(&sections, 0)?.at(Positions::Axes(&Tensor::new(&grid, &CPU)?))?.rotate(&x)?;
    let theta = sections.frequencies(None);
    let (x, y) = (numbers(&x)?, numbers(&y)?);
    for (vector, (x, y)) in x.chunks(8).zip(y.chunks(8)).enumerate() {
        for pair in 0..4 {
            let angle = grid[axes[pair]][vector % 4] * theta.inv_freq()[pair];
            let exact = x[pair] * angle.cos() - x[pair + 4] * angle.sin();
            assert!((y[pair] - exact).abs() <= bound(DType::F32, 1.0));
        }
    }
    Ok(())
}

/// A prompt and then one token at a time gives the bits of the whole sequence at once.
#[test]
fn decoding_with_a_cache() -> Result<()> {
    let config = include_bytes!("../examples/llama-3.1-8b.json");
    let embedding = RotaryEmbedding::from_config(config, 64)?;
    let k = Random(23).tensor((1, 8, 20, 128), DType::BF16)?;
    let (_, whole) = embedding.apply(&k, &k, 0)?;
    let mut cache = vec![embedding.apply(&k, &k.narrow(2, 0, 12)?, 0)?.1];
    for token in 12..20 {
        cache.push(embedding.apply(&k, &k.narrow(2, token, 1)?, token)?.1);
    }
    assert_eq!(numbers(&Tensor::cat(&cache, 2)?)?, numbers(&whole)?);
    Ok(())
}

/// What is wrong is said, with the value.
#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 16)?;
    let x = Random(24).tensor((1, 2, 4, 8), DType::F32)?;
    let says = |result: Result<()>, words: &str| {
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "`{error}` does not say `{words}`");
    };
    let at = |positions| embedding.at(positions);
    says(at(Positions::From(13))?.rotate(&x).map(|_| ()), "position 16 is not in the table");
    let ids = Tensor::new(&[0i64, 1, 2, -1], &CPU)?;
    says(at(Positions::Ids(&ids)).map(|_| ()), "position -1 is not in the table");
    let ids = Tensor::new(&[0f32, 1.0], &CPU)?;
    says(at(Positions::Ids(&ids)).map(|_| ()), "ids are F32; expected whole numbers");
    let ids = Tensor::new(&[0u32, 1], &CPU)?;
    says(at(Positions::Ids(&ids))?.rotate(&x).map(|_| ()), "position ids: got 2; expected 4");
    says(at(Positions::Axes(&ids)).map(|_| ()), "expected [1, length] or [1, batch, length]");
    says(at(Positions::From(0))?.rotate(&x.to_dtype(DType::U32)?).map(|_| ()), "got a tensor of U32");
    says(at(Positions::From(0))?.rotate(&x.squeeze(0)?).map(|_| ()), "expected four axes");
    says(at(Positions::From(0))?.rotate(&x.narrow(3, 0, 6)?).map(|_| ()), "expected head_dim 8");
    let variable = candle_core::Var::from_tensor(&x)?;
    says(at(Positions::From(0))?.rotate_inplace(&variable), "takes part in a gradient");
    says(at(Positions::From(0))?.rotate_inplace(&x.t()?), "call `contiguous` first");
    // Tables in the memory that would change.
    let shared = Random(25).tensor((1, 1, 8, 8), DType::F32)?;
    let table = shared.reshape((16, 4))?;
    says(rope_candle::rope_inplace(&shared, &table, &table), "shares storage");
    let endless = Tensor::new(&[1u8], &CPU)?.broadcast_as(1 << 60)?;
    says(at(Positions::Ids(&endless)).map(|_| ()), "does not fit in memory");
    let xpos = Rope::builder(8).xpos(rope::XPos::default()).build().expect("a rope");
    says(RotaryEmbedding::new(&xpos, 4).map(|_| ()), "one with xPos scaling");
    says(RotaryEmbedding::from_config(br#"{"head_dim": 8}"#, 4).map(|_| ()), "model_type");
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    says(rope_candle::rope(&x, &cos, &sin.narrow(0, 0, 3)?).map(|_| ()), "sin is F32 of shape [3, 4]");
    let tables = (cos.to_dtype(DType::U32)?, sin);
    says(rope_candle::rope(&x, &tables.0, &tables.1).map(|_| ()), "cos is U32");
    Ok(())
}
