//! Values beside the reference in f64 and beside candle's own functions, in every type, layout and order of axes.

mod common;

use candle_core::{DType, Result, Tensor};
use common::{CPU, FLOATS, Random, bound, largest, numbers, oracle, rope, rounding};
use rope::Pairing;
use rope_candle::RotaryEmbedding;

type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// Ours, candle's, the pairing, and whether heads come after the length.
const FUNCTIONS: [(Function, Function, Pairing, bool); 3] = [
    (rope_candle::rope, candle_nn::rotary_emb::rope, Pairing::Half, false),
    (rope_candle::rope_i, candle_nn::rotary_emb::rope_i, Pairing::Interleaved, false),
    (rope_candle::rope_thd, candle_nn::rotary_emb::rope_thd, Pairing::Half, true),
];

#[test]
fn every_type_and_order_as_the_reference() -> Result<()> {
    let mut random = Random(1);
    for (ours, theirs, pairing, thd) in FUNCTIONS {
        for head_dim in [2, 6, 64, 130] {
            let embedding = RotaryEmbedding::new(&rope(head_dim, pairing), 40)?;
            let (cos, sin) = embedding.cos_sin(&CPU)?;
            for (batch, heads, length) in [(1, 1, 1), (2, 3, 5), (1, 5, 33), (3, 1, 1)] {
                for dtype in FLOATS {
                    let x = random.tensor((batch, heads, length, head_dim), dtype)?;
                    let exact = oracle(&x, embedding.rope(), |_, t| t as f64)?;
                    // Heads before the length or after it, in memory and in the shape.
                    let swapped = x.transpose(1, 2)?.contiguous()?;
                    let back = |y: Tensor| if thd { y.transpose(1, 2) } else { Ok(y) };
                    let inputs = match thd {
                        false => [x.clone(), swapped.transpose(1, 2)?],
                        true => [swapped.clone(), x.transpose(1, 2)?],
                    };
                    for input in inputs {
                        let y = back(ours(&input, &cos, &sin)?)?;
                        assert_eq!((y.dtype(), y.dims()), (dtype, x.dims()));
                        // Tables are f32 here, also beside f64 data.
                        let bound =
                            if dtype == DType::F64 { bound(DType::F32, 1.0) } else { bound(dtype, 1.0) };
                        let worst = largest(&numbers(&y)?, &exact);
                        assert!(worst <= bound, "{pairing} {dtype:?} {head_dim}: {worst:e} > {bound:e}");
                    }
                    // candle computes in the type itself: tables, both products and the sum are rounded.
                    let input = if thd { swapped } else { x.clone() };
                    let (cos, sin) = (cos.to_dtype(dtype)?, sin.to_dtype(dtype)?);
                    let theirs = back(theirs(&input, &cos, &sin)?)?;
                    let ours = back(ours(&input, &cos, &sin)?)?;
                    let bound = 2f64.sqrt() * 2.0 * 3.1 * rounding(dtype);
                    let worst = largest(&numbers(&ours)?, &numbers(&theirs)?);
                    assert!(worst <= bound, "candle {pairing} {dtype:?} {head_dim}: {worst:e} > {bound:e}");
                    if matches!(dtype, DType::F32 | DType::F64) {
                        assert_eq!(worst, 0.0, "the same products and sums, so the same bits");
                    }
                }
            }
        }
    }
    Ok(())
}

/// Tables for every sequence of a batch; longer than the tensor, which candle reads from the wrong rows; of two kinds at once.
#[test]
fn tables_of_a_batch() -> Result<()> {
    let mut random = Random(2);
    let (batch, heads, length, pairs) = (3, 2, 4, 5);
    let x = random.tensor((batch, heads, length, 2 * pairs), DType::F32)?;
    for positions in [length, length + 3] {
        let cos = random.tensor((batch, positions, pairs), DType::F32)?;
        let sin = random.tensor((batch, positions, pairs), DType::F32)?;
        let one = sin.get(0)?;
        for (ours, theirs, _, thd) in FUNCTIONS {
            let x = if thd { x.transpose(1, 2)?.contiguous()? } else { x.clone() };
            for sin in [&sin, &one] {
                let y = ours(&x, &cos, sin)?;
                for b in 0..batch {
                    let sequence = x.narrow(0, b, 1)?.contiguous()?;
                    let sin = if sin.rank() == 3 { sin.get(b)? } else { sin.clone() };
                    let expected = theirs(&sequence, &cos.get(b)?, &sin)?;
                    assert_eq!(numbers(&y.narrow(0, b, 1)?)?, numbers(&expected)?);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn in_place_is_the_same_bits() -> Result<()> {
    let mut random = Random(3);
    type InPlace = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;
    let functions: [(Function, InPlace); 3] = [
        (rope_candle::rope, rope_candle::rope_inplace),
        (rope_candle::rope_i, rope_candle::rope_i_inplace),
        (rope_candle::rope_thd, rope_candle::rope_thd_inplace),
    ];
    for (fresh, in_place) in functions {
        for dtype in FLOATS {
            let x = random.tensor((2, 5, 5, 12), dtype)?;
            let (cos, sin) = (random.tensor((7, 6), dtype)?, random.tensor((7, 6), dtype)?);
            let expected = fresh(&x, &cos, &sin)?;
            in_place(&x, &cos, &sin)?;
            assert_eq!(numbers(&x)?, numbers(&expected)?);
            // A part of a larger tensor, its axes swapped: the rest is left alone.
            let all = random.tensor((2, 5, 8, 12), dtype)?;
            let part = all.narrow(2, 1, 5)?.transpose(1, 2)?;
            let (before, expected) = (numbers(&all)?, fresh(&part, &cos, &sin)?);
            in_place(&part, &cos, &sin)?;
            assert_eq!(numbers(&part)?, numbers(&expected)?);
            let after = numbers(&all)?;
            for (i, (before, after)) in before.iter().zip(&after).enumerate() {
                assert!((1..6).contains(&(i / 12 % 8)) || before == after);
            }
        }
    }
    Ok(())
}
