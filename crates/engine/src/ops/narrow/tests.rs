use super::*;
use crate::ops::check::list;

fn singles(count: usize, seed: u64) -> Vec<f32> {
    list(seed, count)
}

const SIZES: [(usize, usize, usize); 16] = [
    (1, 1, 1),
    (1, 7, 3),
    (2, 5, 16),
    (3, 17, 17),
    (5, 64, 31),
    (7, 33, 33),
    (8, 48, 48),
    (9, 31, 49),
    (13, 20, 64),
    (17, 129, 65),
    (25, 3, 97),
    (6, 0, 5),
    (0, 6, 5),
    (31, 40, 144),
    (33, 64, 32),
    (130, 9, 50),
];

/// A product with random numbers: x, the weight, the bias and what came out.
fn product<N: Narrow>(
    level: Level,
    (rows, inputs, outputs): (usize, usize, usize),
) -> (Vec<f32>, Vec<f32>, Vec<f32>, Vec<f32>) {
    let (x, weight) = (singles(rows * inputs, 1), singles(outputs * inputs, 2));
    let bias = singles(outputs, 3);
    let mut matrix = NarrowMatrix::<N>::zeros_at(level, outputs, inputs).unwrap();
    matrix.set_rows(0, &weight);
    matrix.set_bias(0, &bias);
    let mut out = vec![7.0; rows * outputs];
    assert!(matrix.apply(&x, &mut out, Activation::Identity));
    (x, weight, bias, out)
}

#[test]
fn sums_of_16_bits_are_exact_to_32() {
    for level in Level::available() {
        for (rows, inputs, outputs) in SIZES {
            let (x, weight, bias, out) = product::<Bf16>(level, (rows, inputs, outputs));
            let wide = |x: f32| f64::from(Bf16::of(x).wide());
            for row in 0..rows {
                for output in 0..outputs {
                    let term = |i: usize| wide(x[row * inputs + i]) * wide(weight[output * inputs + i]);
                    let exact = f64::from(bias[output]) + (0..inputs).map(term).sum::<f64>();
                    // Each of so many additions rounds a partial sum that is no larger than all terms together; products of 16
                    // bits are exact in 32.
                    let largest =
                        f64::from(bias[output]).abs() + (0..inputs).map(|i| term(i).abs()).sum::<f64>();
                    let bound = 0.5 * f64::from(f32::EPSILON) * (inputs as f64 + 2.0) * largest;
                    let got = f64::from(out[row * outputs + output]);
                    assert!(
                        (got - exact).abs() <= bound,
                        "{level:?} {rows}×{inputs}×{outputs}: {got} {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn sums_of_8_bits_are_the_same_everywhere() {
    for level in Level::available() {
        for (rows, inputs, outputs) in SIZES {
            let (x, weight, bias, out) = product::<i8>(level, (rows, inputs, outputs));
            let quantised = |list: &[f32]| -> (Vec<i64>, f32) {
                let largest = list.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
                let scale = f32::from_bits((largest / 127.0).to_bits().div_ceil(128) * 128);
                let factor = if largest > 0.0 { 1.0 / scale } else { 0.0 };
                (list.iter().map(|x| (x * factor).round_ties_even() as i64).collect(), scale)
            };
            for row in 0..rows {
                let (x, x_scale) = quantised(&x[row * inputs..][..inputs]);
                for output in 0..outputs {
                    let (weight, scale) = quantised(&weight[output * inputs..][..inputs]);
                    let sum: i64 = x.iter().zip(&weight).map(|(x, weight)| x * weight).sum();
                    let wanted = sum as f32 * (x_scale * scale) + bias[output];
                    assert_eq!(out[row * outputs + output], wanted, "{level:?} {rows}×{inputs}×{outputs}");
                }
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads_or_rows() {
    fn check<N: Narrow>() {
        let (rows, inputs, outputs) = (77, 65, 131);
        let (x, weight) = (singles(rows * inputs, 5), singles(outputs * inputs, 6));
        for level in Level::available() {
            let mut matrix = NarrowMatrix::<N>::zeros_at(level, outputs, inputs).unwrap();
            matrix.set_rows(0, &weight);
            let run = |threads: usize, x: &[f32]| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                let mut out = vec![0.0f32; x.len() / inputs * outputs];
                assert!(pool.install(|| matrix.apply(x, &mut out, Activation::Gelu)));
                out
            };
            let all = run(1, &x);
            assert_eq!(all, run(2, &x));
            assert_eq!(all, run(3, &x));
            for row in [0, 5, 33, 76] {
                let alone = run(2, &x[row * inputs..][..inputs]);
                assert_eq!(all[row * outputs..][..outputs], alone, "{level:?}, row {row}");
            }
        }
    }
    check::<Bf16>();
    check::<i8>();
}

#[test]
fn numbers_are_rounded_to_the_nearest() {
    let mut bits = 1u32;
    for _ in 0..1_000_000 {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let x = f32::from_bits(bits);
        let (ours, known) = (Bf16::of(x), half::bf16::from_f32(x));
        assert!(ours.0 == known.to_bits() || (x.is_nan() && ours.wide().is_nan()), "{x} {bits:#x}");
    }
}

#[test]
fn what_is_not_finite_shows() {
    fn check<N: Narrow>(level: Level, bad: f32) {
        let mut matrix = NarrowMatrix::<N>::zeros_at(level, 5, 40).unwrap();
        matrix.set_rows(0, &singles(5 * 40, 1));
        let mut x = singles(3 * 40, 2);
        x[40 + 7] = bad;
        let mut out = vec![0.0; 15];
        assert!(matrix.apply(&x, &mut out, Activation::Identity));
        assert!(out[5..10].iter().all(|x| !x.is_finite()), "{level:?}: {out:?}");
        // The rows beside it are as they are.
        assert!(out[..5].iter().chain(&out[10..]).all(|x| x.is_finite()), "{level:?}: {out:?}");
    }
    for level in Level::available() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            check::<Bf16>(level, bad);
            check::<i8>(level, bad);
        }
    }
}

#[test]
fn rows_of_nothing_give_the_bias() {
    for level in Level::available() {
        for tiny in [0.0, -0.0, 1e-40] {
            let mut matrix = NarrowMatrix::<i8>::zeros_at(level, 3, 10).unwrap();
            matrix.set_rows(0, &singles(30, 1));
            matrix.set_bias(0, &[1.0, 2.0, 3.0]);
            let mut out = vec![0.0; 6];
            assert!(matrix.apply(&[tiny; 20], &mut out, Activation::Identity));
            assert_eq!(out, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], "{level:?}");
        }
    }
}

#[test]
fn what_was_quantised_is_quantised_to_the_same_again() {
    for seed in 0..200 {
        let row: Vec<f32> = singles(50, seed).iter().map(|x| x * (seed as f32 - 99.5).exp2()).collect();
        let (mut once, mut twice) = ([0i8; 50], [0i8; 50]);
        let scale = <i8 as Narrow>::weight(Level::Portable, &row, &mut once);
        let back: Vec<f32> = once.iter().map(|&x| f32::from(x) * scale).collect();
        assert_eq!(<i8 as Narrow>::weight(Level::Portable, &back, &mut twice), scale);
        assert_eq!(once, twice);
        assert!(once.contains(&127) || once.contains(&-127));
    }
}
