//! The worked examples and the claims of the notes that this library began with, each under the name of what
//! it shows. Where a note is wrong, the test holds what is right and, if there is one, the wrong number
//! beside it.
//!
//! Tolerances are half a unit of the last printed digit where a number was printed, else a small multiple of
//! the rounding of the sums involved.

mod common;

use common::{PAIRINGS, all_close, close, dot, rounding};
use rope::reference::{self, rotate_by_complex, rotate_by_matrix};
use rope::{
    AnglePrecision, HeadLayout, Ids, Pairing, Positions, Result, Rope, Schedule, Turn, View, ViewMut,
    analysis, bf16, permute_projection,
};
use std::f64::consts::{FRAC_PI_2, PI, TAU};

/// Numbers in [−1, 1) from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    fn vector(&mut self, size: usize) -> Vec<f64> {
        (0..size).map(|_| self.next()).collect()
    }
}

/// A rope of given frequencies that turns all of a head.
fn given(theta: &[f64], pairing: Pairing) -> Result<Rope> {
    Rope::builder(2 * theta.len()).schedule(Schedule::Given(theta.to_vec())).pairing(pairing).build()
}

/// One vector of one head at one position, through the public interface with tables in `f64`.
fn turn(rope: &Rope, x: &[f64], position: f64) -> Result<Vec<f64>> {
    let table = rope.table_of::<f64>(&[position], None)?;
    let mut y = x.to_vec();
    let mut view = ViewMut::blhd(&mut y, [1, 1, 1, x.len()])?;
    table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
    Ok(y)
}

/// The score of q at m and k at n.
fn score(rope: &Rope, q: &[f64], m: f64, k: &[f64], n: f64) -> Result<f64> {
    Ok(dot(&turn(rope, q, m)?, &turn(rope, k, n)?))
}

fn usual(head_dim: usize) -> Result<Vec<f64>> {
    Ok(Rope::builder(head_dim).build()?.frequencies(None).inv_freq().to_vec())
}

// The plane.

#[test]
fn a_quarter_turn_takes_1_0_to_0_1() -> Result<()> {
    for pairing in PAIRINGS {
        let y = turn(&given(&[FRAC_PI_2], pairing)?, &[1.0, 0.0], 1.0)?;
        all_close(&y, &[0.0, 1.0], f64::EPSILON);
    }
    Ok(())
}

#[test]
fn the_score_of_1_2_and_3_4_one_apart_is_7_626() -> Result<()> {
    let (q, k) = ([1.0, 2.0], [3.0, 4.0]);
    for pairing in PAIRINGS {
        let rope = given(&[1.0], pairing)?;
        let table = rope.table::<f64>(0..3, None)?;
        let (mut q1, mut k2) = (q, k);
        table.at(Positions::From(1))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut q1, [1, 1, 1, 2])?)?;
        table.at(Positions::From(2))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut k2, [1, 1, 1, 2])?)?;
        close(dot(&q1, &k2), 7.62626733416533, rounding(11.0));
        close(score(&rope, &q, 1.0, &k, 2.0)?, 7.62626733416533, rounding(11.0));
        close(analysis::score(&q, &k, &[1.0], -1.0, pairing)?, 7.62626733416533, rounding(11.0));
    }
    Ok(())
}

/// Turning q by n − m, as one note has it, gives another number: it is k that turns by n − m, or q by m − n.
#[test]
fn turning_q_by_n_minus_m_is_wrong() -> Result<()> {
    let (q, k, rope) = ([1.0, 2.0], [3.0, 4.0], given(&[1.0], Pairing::Interleaved)?);
    let right = 7.62626733416533;
    close(dot(&q, &turn(&rope, &k, 1.0)?), right, rounding(11.0));
    close(dot(&turn(&rope, &q, -1.0)?, &k), right, rounding(11.0));
    close(dot(&turn(&rope, &q, 1.0)?, &k), 4.260, 5e-4);
    Ok(())
}

/// f(z) = ((a, −b), (b, a)) is |z| times a rotation by arg z, and keeps sums and products; its transpose is
/// that of the conjugate, and its determinant is |z|², not |z|.
#[test]
fn complex_numbers_are_2_by_2_matrices() -> Result<()> {
    type Matrix = [[f64; 2]; 2];
    let form = |(a, b): (f64, f64)| -> Result<Matrix> {
        let rope = given(&[1.0], Pairing::Interleaved)?;
        let column = |x: [f64; 2]| turn(&rope, &x, b.atan2(a));
        let (first, second, length) = (column([1.0, 0.0])?, column([0.0, 1.0])?, a.hypot(b));
        Ok([[length * first[0], length * second[0]], [length * first[1], length * second[1]]])
    };
    let same = |x: Matrix, y: Matrix| all_close(x.as_flattened(), y.as_flattened(), rounding(32.0));
    // z in the second quadrant, where arctan(b/a) would be half a turn off.
    let (z, w) = ((-1.5, 2.0), (0.25, -3.0));
    let (fz, fw) = (form(z)?, form(w)?);
    same(fz, [[z.0, -z.1], [z.1, z.0]]);
    let sum = [0, 1].map(|i| [0, 1].map(|j| fz[i][j] + fw[i][j]));
    same(form((z.0 + w.0, z.1 + w.1))?, sum);
    let product = [0, 1].map(|i| [0, 1].map(|j| fz[i][0] * fw[0][j] + fz[i][1] * fw[1][j]));
    same(form((z.0 * w.0 - z.1 * w.1, z.1 * w.0 + z.0 * w.1))?, product);
    same(form((z.0, -z.1))?, [[fz[0][0], fz[1][0]], [fz[0][1], fz[1][1]]]);
    let determinant = fz[0][0] * fz[1][1] - fz[0][1] * fz[1][0];
    close(determinant, 1.5 * 1.5 + 4.0, rounding(6.25));
    assert!((determinant - z.0.hypot(z.1)).abs() > 3.0);
    Ok(())
}

// More than two features.

#[test]
fn frequencies_start_at_1_and_end_before_one_over_the_base() -> Result<()> {
    let theta = usual(128)?;
    assert_eq!((theta[0], theta.len()), (1.0, 64));
    close(theta[63], 10_000f64.powf(-126.0 / 128.0), rounding(0.0) * 1e-4);
    all_close(&usual(4)?, &[1.0, 0.01], f64::EPSILON);
    Ok(())
}

#[test]
fn position_2_turns_1_0_0_1_as_printed() -> Result<()> {
    let rope = |pairing| Rope::builder(4).pairing(pairing).build();
    let x = [1.0, 0.0, 0.0, 1.0];
    let halves = [-0.4161, -0.0200, 0.9093, 0.9998];
    all_close(&turn(&rope(Pairing::Interleaved)?, &x, 2.0)?, &[-0.4161, 0.9093, -0.02, 0.9998], 5e-5);
    all_close(&turn(&rope(Pairing::Half)?, &x, 2.0)?, &halves, 5e-5);
    all_close(&turn(&rope(Pairing::InterleavedToHalf)?, &x, 2.0)?, &halves, 5e-5);
    Ok(())
}

/// [1, 0, 0, 1] hides that the pairings differ, because the permutation leaves it alone. [1, 2, 3, 4] does
/// not.
#[test]
fn the_pairings_differ_on_1_2_3_4() -> Result<()> {
    let rope = |pairing| Rope::builder(4).pairing(pairing).build();
    let x = [1.0, 2.0, 3.0, 4.0];
    let interleaved = turn(&rope(Pairing::Interleaved)?, &x, 2.0)?;
    all_close(&interleaved, &[-2.2347, 0.0770, 2.9194, 4.0592], 5e-5);
    all_close(&turn(&rope(Pairing::Half)?, &x, 2.0)?, &[-3.1440, 1.9196, -0.3391, 4.0392], 5e-5);

    // With permuted features, and so with permuted weights, they agree bit for bit.
    let head = HeadLayout { heads: 1, head_dim: 4, rotary_dim: 4, rotary_offset: 0 };
    let permute = |x: &[f64]| -> Result<Vec<f64>> {
        let mut y = vec![0.0; 4];
        permute_projection(x, &mut y, 1, head, Pairing::Interleaved, Pairing::Half)?;
        Ok(y)
    };
    assert_eq!(permute(&x)?, [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(turn(&rope(Pairing::Half)?, &permute(&x)?, 2.0)?, permute(&interleaved)?);
    assert_eq!(turn(&rope(Pairing::InterleavedToHalf)?, &x, 2.0)?, permute(&interleaved)?);
    assert_eq!(permute(&[1.0, 0.0, 0.0, 1.0])?, [1.0, 0.0, 0.0, 1.0]);
    Ok(())
}

/// `rotate_half` is a quarter turn of every pair.
#[test]
fn rotate_half_is_a_quarter_turn() -> Result<()> {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    for (pairing, expected) in [
        (Pairing::Interleaved, [-2.0, 1.0, -4.0, 3.0, -6.0, 5.0]),
        (Pairing::Half, [-4.0, -5.0, -6.0, 1.0, 2.0, 3.0]),
        (Pairing::InterleavedToHalf, [-2.0, -4.0, -6.0, 1.0, 3.0, 5.0]),
    ] {
        all_close(&turn(&given(&[FRAC_PI_2; 3], pairing)?, &x, 1.0)?, &expected, rounding(6.0));
        all_close(&turn(&given(&[1.0; 3], pairing)?, &x, FRAC_PI_2)?, &expected, rounding(6.0));
    }
    Ok(())
}

#[test]
fn minimind_s_table_turns_1_2_3_4_as_printed() -> Result<()> {
    let expected = [-1.984111, 1.995999, 2.462378, 4.001998];
    let rope = Rope::builder(4).base(1e6).pairing(Pairing::Half).build()?;
    all_close(&turn(&rope, &[1.0, 2.0, 3.0, 4.0], 1.0)?, &expected, 5e-7);

    let table = rope.table::<f32>(0..32 * 1024, None)?;
    assert_eq!((table.rows(), table.cos().len()), (32_768, 32_768 * 2));
    let mut x = [1.0f32, 2.0, 3.0, 4.0];
    table.at(Positions::From(1))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, [1, 1, 1, 4])?)?;
    // Beside the printed digits: the table, two products and a sum are each rounded to f32.
    all_close(&x.map(f64::from), &expected, 5e-7 + 4.0 * 4.0 * f64::from(f32::EPSILON) / 2.0);
    Ok(())
}

#[test]
fn matrix_complex_and_element_wise_forms_agree() -> Result<()> {
    let mut random = Random(1);
    let theta = usual(16)?;
    for pairing in PAIRINGS {
        let rope = Rope::builder(16).pairing(pairing).build()?;
        for position in [0.0, 1.0, -3.0, 0.5, 1000.0] {
            let x = random.vector(16);
            let expected = reference::rotate(&x, position, &theta, 1.0, pairing);
            // The reference rounds the angle to an f64, the library does not.
            let tolerance = rounding(1.0) + position.abs() * f64::EPSILON;
            all_close(&rotate_by_matrix(&x, position, &theta, pairing), &expected, tolerance);
            all_close(&rotate_by_complex(&x, position, &theta, pairing), &expected, tolerance);
            all_close(&turn(&rope, &x, position)?, &expected, tolerance);
            // x ⊗ cos + rotate_half(x) ⊗ sin, with a quarter turn as rotate_half; the same order as the
            // output.
            let still = turn(&given(&[0.0; 8], pairing)?, &x, 1.0)?;
            let quarter = turn(&given(&[FRAC_PI_2; 8], pairing)?, &x, 1.0)?;
            let angle = |feature: usize| match pairing {
                Pairing::Interleaved => position * theta[feature / 2],
                Pairing::Half | Pairing::InterleavedToHalf => position * theta[feature % 8],
            };
            let element_wise = |i: usize| still[i] * angle(i).cos() + quarter[i] * angle(i).sin();
            all_close(&(0..16).map(element_wise).collect::<Vec<_>>(), &expected, tolerance);
        }
    }
    Ok(())
}

#[test]
fn rotations_add_up_and_transpose_backwards() -> Result<()> {
    let mut random = Random(2);
    for pairing in [Pairing::Interleaved, Pairing::Half] {
        let rope = Rope::builder(8).pairing(pairing).build()?;
        for (a, b) in [(1.0, 2.0), (5.0, -5.0), (-3.0, 100.0), (0.25, 7.5)] {
            let (x, y) = (random.vector(8), random.vector(8));
            all_close(&turn(&rope, &turn(&rope, &x, b)?, a)?, &turn(&rope, &x, a + b)?, rounding(2.0));
            // ⟨R_a x, y⟩ = ⟨x, R_(−a) y⟩ says that the transpose of R_a is R_(−a).
            close(dot(&turn(&rope, &x, a)?, &y), dot(&x, &turn(&rope, &y, -a)?), rounding(8.0));
        }
    }
    Ok(())
}

#[test]
fn lengths_are_kept() -> Result<()> {
    let mut random = Random(3);
    let rope = Rope::builder(64).build()?;
    for position in [0.0, 1.0, 17.0, -4096.0, 1e9] {
        let x = random.vector(64);
        close(dot(&turn(&rope, &x, position)?, &turn(&rope, &x, position)?), dot(&x, &x), rounding(64.0));
    }
    Ok(())
}

#[test]
fn scores_depend_on_the_distance_alone() -> Result<()> {
    let mut random = Random(4);
    for pairing in PAIRINGS {
        let rope = Rope::builder(32).pairing(pairing).build()?;
        let (q, k) = (random.vector(32), random.vector(32));
        for distance in [-20.0, 0.0, 1.0, 300.0] {
            let expected = score(&rope, &q, distance, &k, 0.0)?;
            for n in [1.0, 1000.0, 1e6, 1e9] {
                close(score(&rope, &q, n + distance, &k, n)?, expected, rounding(32.0));
            }
        }
        let mirrored = score(&rope, &q, 0.0, &k, 300.0)?;
        assert!((mirrored - score(&rope, &q, 300.0, &k, 0.0)?).abs() > 1e-3, "the sign of m − n matters");
    }
    Ok(())
}

#[test]
fn a_score_is_a_sum_over_pairs() -> Result<()> {
    let mut random = Random(5);
    for pairing in PAIRINGS {
        let rope = Rope::builder(32).pairing(pairing).build()?;
        let (q, k, theta) = (random.vector(32), random.vector(32), usual(32)?);
        for (m, n) in [(0.0, 0.0), (7.0, 3.0), (3.0, 7.0), (-2.0, 500.0)] {
            let by_pairs = analysis::score(&q, &k, &theta, m - n, pairing)?;
            let tolerance = rounding(32.0) + 32.0 * (m - n).abs() * f64::EPSILON;
            close(by_pairs, score(&rope, &q, m, &k, n)?, tolerance);
            let turned = |x: &[f64], position| reference::rotate(x, position, &theta, 1.0, pairing);
            close(by_pairs, dot(&turned(&q, m), &turned(&k, n)), tolerance);
        }
    }
    Ok(())
}

/// ⟨q, k⟩cos Δθ + ⟨q⊥, k⟩sin Δθ with one θ is the score for two features; for four it is not, whichever θ is
/// taken.
#[test]
fn the_two_feature_formula_fails_for_four() -> Result<()> {
    let one = |q: &[f64], k: &[f64], angle: f64| {
        let across: Vec<f64> = q.chunks(2).flat_map(|q| [-q[1], q[0]]).collect();
        dot(q, k) * angle.cos() + dot(&across, k) * angle.sin()
    };
    let (q, k) = ([1.0, 2.0, 3.0, 4.0], [5.0, -6.0, 7.0, 8.0]);
    let (flat, theta) = (Pairing::Interleaved, usual(4)?);
    close(one(&q[..2], &k[..2], 2.0), analysis::score(&q[..2], &k[..2], &[1.0], 2.0, flat)?, rounding(22.0));
    let right = analysis::score(&q, &k, &theta, 2.0, flat)?;
    for theta in theta {
        assert!((one(&q, &k, 2.0 * theta) - right).abs() > 1.0);
    }
    Ok(())
}

// Sinusoidal codes.

fn sinusoidal(theta: &[f64], position: f64) -> Vec<f64> {
    theta.iter().flat_map(|theta| [(position * theta).sin(), (position * theta).cos()]).collect()
}

/// p_(k+Δ) = T(Δ)·p_k with a matrix of Δ alone. The pairs are (sin, cos), so T(Δ) is the rotation by −Δ.
#[test]
fn sinusoidal_codes_move_by_a_rotation() -> Result<()> {
    let rope = Rope::builder(64).pairing(Pairing::Interleaved).build()?;
    let theta = usual(64)?;
    for (k, delta) in [(0.0, 1.0), (10.0, 5.0), (1000.0, -300.0)] {
        let moved = turn(&rope, &sinusoidal(&theta, k), -delta)?;
        all_close(&moved, &sinusoidal(&theta, k + delta), rounding(1.0) + 1000.0 * f64::EPSILON);
    }
    Ok(())
}

/// Their inner product is Σ cos(Δθ_j). It does not tend to 0: far out it goes on swinging as 64 unrelated
/// cosines do.
#[test]
fn sinusoidal_codes_stay_correlated() -> Result<()> {
    let theta = usual(128)?;
    let product = dot(&sinusoidal(&theta, 700.0), &sinusoidal(&theta, 300.0));
    close(product, analysis::cosine_sum(&theta, 400.0), 64.0 * (rounding(1.0) + 700.0 * f64::EPSILON));
    let squares: Vec<f64> =
        (50_000..1_000_000).step_by(97).map(|r| analysis::cosine_sum(&theta, r as f64).powi(2)).collect();
    let mean_square = squares.iter().sum::<f64>() / squares.len() as f64;
    close(mean_square.sqrt(), 32f64.sqrt(), 0.2);
    Ok(())
}

// Long-term decay.

#[test]
fn three_frequencies_swing_as_printed() {
    let sum = |distance| analysis::cosine_sum(&[1.0, 0.3, 0.05], distance);
    for (distance, expected) in [(0.0, 3.0), (2.0, 1.4042), (20.0, 1.9086), (50.0, -0.5959)] {
        close(sum(distance), expected, 5e-5);
    }
    // "The farther the lower" fails in its own example.
    close(sum(126.0), 2.94, 5e-3);
    close(sum(377.0), 2.99996, 5e-6);
}

#[test]
fn the_bound_and_the_sum_of_cosines_fall_as_published() -> Result<()> {
    let theta = usual(128)?;
    assert_eq!(analysis::decay_bound(&theta, 0.0), 32.5);
    for (distance, expected) in [(10.0, 17.95), (50.0, 12.63), (100.0, 10.23), (250.0, 6.55), (1000.0, 4.47)]
    {
        close(analysis::decay_bound(&theta, distance), expected, 5e-3);
    }
    assert_eq!(analysis::cosine_sum(&theta, 0.0), 64.0);
    for (distance, expected) in [(10.0, 42.8), (100.0, 30.5), (1000.0, 10.2), (4096.0, -3.4)] {
        close(analysis::cosine_sum(&theta, distance), expected, 0.05);
    }
    Ok(())
}

/// The bound oscillates on its way down, and the score need not go down at all.
#[test]
fn decay_is_a_bound_that_oscillates() -> Result<()> {
    let theta = usual(128)?;
    let bound: Vec<f64> = (0..=1000).map(|r| analysis::decay_bound(&theta, r as f64)).collect();
    assert!(bound.windows(2).any(|pair| pair[1] > pair[0]));
    // |Σ_j h_j·e^{iΔθ_j}| ≤ max|h_(j+1) − h_j|·Σ_j|S_j| with h past the end 0: Abel's summation.
    let mut random = Random(6);
    let (q, k) = (random.vector(128), random.vector(128));
    let mut h: Vec<(f64, f64)> = q
        .chunks(2)
        .zip(k.chunks(2))
        .map(|(q, k)| (q[0] * k[0] + q[1] * k[1], q[1] * k[0] - q[0] * k[1]))
        .collect();
    h.push((0.0, 0.0));
    let steps = h.windows(2).map(|h| (h[1].0 - h[0].0).hypot(h[1].1 - h[0].1));
    let largest = steps.fold(0.0, f64::max);
    for (distance, bound) in bound.iter().enumerate() {
        let score = analysis::score(&q, &k, &theta, distance as f64, Pairing::Interleaved)?;
        assert!(score.abs() <= largest * bound * 64.0 + rounding(64.0), "distance {distance}");
    }
    Ok(())
}

/// "∝ cos Δθ" holds for equal phases alone. q ahead of k by −1.5 rad at θ = 0.1 scores highest 15 positions
/// away.
#[test]
fn a_phase_moves_the_peak() -> Result<()> {
    let rope = given(&[0.1], Pairing::Half)?;
    let (q, k) = ([(-1.5f64).cos(), (-1.5f64).sin()], [1.0, 0.0]);
    let scores: Vec<f64> =
        (0..32).map(|distance| score(&rope, &q, distance as f64, &k, 0.0)).collect::<Result<_>>()?;
    let peak = (0..32).max_by(|&i, &j| scores[i].total_cmp(&scores[j]));
    assert_eq!(peak, Some(15));
    close(scores[15], 1.0, rounding(1.0));
    Ok(())
}

/// For q and k that have nothing in common the expected score is 0 near and far, and it spreads equally.
#[test]
fn random_queries_and_keys_score_0_at_every_distance() -> Result<()> {
    let (theta, zero, draws) = (usual(32)?, [0.0; 32], 20_000);
    for distance in [0.0, 1.0, 10.0, 1000.0] {
        // Uniform in [−1, 1): a variance of 1/3.
        let deviation = (1f64 / 3.0).sqrt();
        let sides = ((&zero[..], deviation), (&zero[..], deviation));
        let expected = analysis::random_score(sides.0, sides.1, &theta, distance, Pairing::Half)?;
        assert_eq!(expected.mean, 0.0);
        close(expected.deviation, (32.0f64 / 9.0).sqrt(), rounding(2.0));
        let mut random = Random(7);
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..draws {
            let (q, k) = (random.vector(32), random.vector(32));
            let score = analysis::score(&q, &k, &theta, distance, Pairing::Half)?;
            (sum, squares) = (sum + score, squares + score * score);
        }
        // Four standard errors: of a mean, and of a standard deviation (σ/√(2n) for a nearly normal score).
        let error = expected.deviation / f64::from(draws).sqrt();
        close(sum / f64::from(draws), 0.0, 4.0 * error);
        close((squares / f64::from(draws)).sqrt(), expected.deviation, 4.0 * error / 2f64.sqrt());
    }
    Ok(())
}

/// A larger θ is more local only while |Δ|·θ stays well under π: a full turn later the score is back.
#[test]
fn a_larger_frequency_is_more_local_only_within_half_a_turn() -> Result<()> {
    let near = |theta: f64, distance: f64| analysis::cosine_sum(&[theta], distance);
    assert!(near(1.0, 2.0) < near(0.1, 2.0));
    assert!(near(1.0, 44.0) > 0.999 && near(0.1, 44.0) < -0.3, "44 is close to seven turns");
    close(near(0.1, 1.0), 1.0 - 0.01 / 2.0, 1e-4 / 24.0);
    Ok(())
}

// The receptive field.

fn receptive(head_dim: usize, alpha: f64, rho: f64, pairing: Pairing) -> Result<Rope> {
    Rope::builder(head_dim).schedule(Schedule::ReceptiveField { alpha, rho }).pairing(pairing).build()
}

#[test]
fn the_receptive_field_score_is_a_modulated_pair() -> Result<()> {
    let mut random = Random(8);
    for pairing in PAIRINGS {
        for (alpha, rho) in [(0.0, 0.5), (0.3, 0.5), (0.9, 0.0), (1.0, 0.25), (1.5, 1.0), (-0.5, 0.5)] {
            let rope = receptive(32, alpha, rho, pairing)?;
            let phi = analysis::shared_frequency(alpha, rho);
            let theta = usual(32)?;
            for (new, theta) in rope.frequencies(None).inv_freq().iter().zip(&theta) {
                close(*new, phi + (1.0 - alpha) * theta, rounding(2.0));
            }
            let (q, k) = (random.vector(32), random.vector(32));
            for (m, n) in [(5.0, 5.0), (9.0, 2.0), (0.0, 33.0)] {
                let parts = analysis::receptive_field(&q, &k, &theta, alpha, m - n, pairing)?;
                let tolerance = 32.0 * rounding(2.0 + (m - n).abs());
                close(parts.score(phi, m - n), score(&rope, &q, m, &k, n)?, tolerance);
            }
        }
    }
    Ok(())
}

/// The Hilbert transform of a signal of one period: every e^{iωt} with ω > 0 turned by −i, with ω < 0 by i,
/// the constant dropped. By plain Fourier sums.
fn hilbert_transform(signal: &[f64]) -> Vec<f64> {
    let size = signal.len();
    let angle = |k: usize, t: usize| TAU * ((k * t) % size) as f64 / size as f64;
    let mut out = vec![0.0; size];
    for k in 1..size.div_ceil(2) {
        let (mut cosine, mut sine) = (0.0, 0.0);
        for (t, x) in signal.iter().enumerate() {
            cosine += x * angle(k, t).cos() * 2.0 / size as f64;
            sine += x * angle(k, t).sin() * 2.0 / size as f64;
        }
        // cos becomes sin and sin becomes −cos.
        for (t, y) in out.iter_mut().enumerate() {
            *y += cosine * angle(k, t).sin() - sine * angle(k, t).cos();
        }
    }
    out
}

#[test]
fn a_and_b_are_a_hilbert_pair_for_alpha_below_1() -> Result<()> {
    const N: usize = 96;
    // Frequencies that are whole multiples of 2π/N for every α below, and under π, so that N positions are a
    // whole period.
    let theta: Vec<f64> = [30.0, 22.0, 10.0, 4.0, 2.0].iter().map(|turns| turns * TAU / N as f64).collect();
    let mut random = Random(9);
    let (q, k) = (random.vector(10), random.vector(10));
    let parts = |alpha: f64| -> Result<(Vec<f64>, Vec<f64>)> {
        (0..N)
            .map(|distance| {
                let distance = distance as f64;
                analysis::receptive_field(&q, &k, &theta, alpha, distance, Pairing::Interleaved)
            })
            .map(|pair| pair.map(|pair| (pair.a, pair.b)))
            .collect()
    };
    // 10 products, N of them summed, at angles up to 1.5·N·30·2π/N.
    let tolerance = 10.0 * rounding(45.0 * TAU);
    let negative = |b: &[f64]| b.iter().map(|b| -b).collect::<Vec<f64>>();
    for alpha in [0.0, 0.5, -0.5] {
        let (a, b) = parts(alpha)?;
        all_close(&hilbert_transform(&a), &b, tolerance);
    }
    // Above 1 the frequencies are negative and the transform has the other sign.
    let (a, b) = parts(1.5)?;
    all_close(&hilbert_transform(&a), &negative(&b), tolerance);
    assert!(b.iter().any(|b| b.abs() > 0.1));
    // At 1 both are constants; the transform of a constant is 0, and b is not.
    let (a, b) = parts(1.0)?;
    assert!(a.iter().all(|value| *value == a[0]) && b.iter().all(|value| *value == b[0]));
    all_close(&hilbert_transform(&a), &[0.0; N], tolerance);
    assert!(b[0].abs() > 0.1);
    Ok(())
}

#[test]
fn alpha_0_is_plain_rope_and_1_is_one_frequency() -> Result<()> {
    let plain = Rope::builder(16).build()?.frequencies(None);
    assert_eq!(receptive(16, 0.0, 0.5, Pairing::Half)?.frequencies(None), plain);
    let one = receptive(16, 1.0, 0.5, Pairing::Half)?.frequencies(None);
    all_close(one.inv_freq(), &[0.01; 8], rounding(0.0) * 0.01);
    Ok(())
}

/// α scales frequencies, not influence: with φ → 0 the rule is position interpolation by 1/(1−α).
#[test]
fn without_the_shared_frequency_it_is_linear_interpolation() -> Result<()> {
    let linear = Rope::builder(16).schedule(Schedule::Linear { factor: 4.0 }).build()?.frequencies(None);
    for rho in [60.0, 1e3] {
        let field = receptive(16, 0.75, rho, Pairing::Half)?.frequencies(None);
        assert_eq!(field.inv_freq(), linear.inv_freq());
    }
    // φ depends on α as well as on ρ.
    assert_eq!(analysis::shared_frequency(0.5, 0.0), 0.5);
    Ok(())
}

/// It is RoPE with other frequencies: the same scores from a rope that is given them.
#[test]
fn the_receptive_field_adds_no_expressive_power() -> Result<()> {
    let field = receptive(8, 0.3, 0.5, Pairing::Half)?;
    let other = given(field.frequencies(None).inv_freq(), Pairing::Half)?;
    let mut random = Random(10);
    let (q, k) = (random.vector(8), random.vector(8));
    close(score(&field, &q, 9.0, &k, 4.0)?, score(&other, &q, 9.0, &k, 4.0)?, rounding(8.0));
    Ok(())
}

// Linear attention.

/// With the numerator turned and the denominator not, the weights of linear attention no longer add up to 1,
/// and some are negative.
#[test]
fn a_turned_numerator_gives_weights_that_are_not_a_distribution() -> Result<()> {
    let feature =
        |x: Vec<f64>| x.iter().map(|&x| if x > 0.0 { x + 1.0 } else { x.exp() }).collect::<Vec<_>>();
    let mut random = Random(11);
    let rope = Rope::builder(4).build()?;
    let q = feature(random.vector(4));
    let keys: Vec<Vec<f64>> = (0..16).map(|_| feature(random.vector(4))).collect();
    let denominator: f64 = keys.iter().map(|k| dot(&q, k)).sum();
    let weights = |turned: bool| -> Result<Vec<f64>> {
        let weight = |(n, k): (usize, &Vec<f64>)| {
            let n = if turned { n as f64 } else { 15.0 };
            Ok(score(&rope, &q, 15.0, k, n)? / denominator)
        };
        keys.iter().enumerate().map(weight).collect()
    };
    close(weights(false)?.iter().sum(), 1.0, rounding(16.0));
    let turned = weights(true)?;
    assert!((turned.iter().sum::<f64>() - 1.0).abs() > 0.1);
    assert!(turned.iter().any(|&weight| weight < 0.0));
    Ok(())
}

// Weights.

/// A random q or k projection `[heads · head_dim, columns]` with its bias.
#[derive(Clone, PartialEq, Debug)]
struct Projection {
    head: HeadLayout,
    weight: Vec<f64>,
    bias: Vec<f64>,
}

const COLUMNS: usize = 12;

impl Projection {
    fn random(random: &mut Random, head: HeadLayout) -> Self {
        let rows = head.heads * head.head_dim;
        Projection { head, weight: random.vector(rows * COLUMNS), bias: random.vector(rows) }
    }

    fn permuted(&self, from: Pairing, to: Pairing) -> Result<Self> {
        let mut other = self.clone();
        permute_projection(&self.weight, &mut other.weight, COLUMNS, self.head, from, to)?;
        permute_projection(&self.bias, &mut other.bias, 1, self.head, from, to)?;
        Ok(other)
    }

    /// Tokens `[length, columns]` to rotated vectors `[length, heads, head_dim]`.
    fn apply(&self, tokens: &[f64], rope: &Rope) -> Result<Vec<f64>> {
        let row = |token: &[f64], row: usize| {
            dot(token, &self.weight[row * COLUMNS..(row + 1) * COLUMNS]) + self.bias[row]
        };
        let rows = 0..self.bias.len();
        let mut x: Vec<f64> =
            tokens.chunks(COLUMNS).flat_map(|token| rows.clone().map(move |r| row(token, r))).collect();
        let length = tokens.len() / COLUMNS;
        let table = rope.table::<f64>(0..length as i64, None)?;
        let shape = [1, length, self.head.heads, self.head.head_dim];
        table.at(Positions::From(0))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, shape)?)?;
        Ok(x)
    }
}

/// All scores `[length, heads of q, length]`; each key head serves heads_q / heads_k query heads.
fn scores(q: &Projection, k: &Projection, tokens: &[f64], rope: &Rope) -> Result<Vec<f64>> {
    let (queries, keys) = (q.apply(tokens, rope)?, k.apply(tokens, rope)?);
    let (dim, group) = (q.head.head_dim, q.head.heads / k.head.heads);
    let mut scores = Vec::new();
    for (index, query) in queries.chunks(dim).enumerate() {
        let key_head = index % q.head.heads / group;
        scores.extend(keys.chunks(dim).skip(key_head).step_by(k.head.heads).map(|key| dot(query, key)));
    }
    Ok(scores)
}

/// The two pairings are one model once the q and k projections are permuted, biases too: with grouped heads,
/// and with heads that turn in part.
#[test]
fn permuted_weights_make_the_pairings_equal() -> Result<()> {
    let mut random = Random(12);
    for (rotary_dim, rotary_offset) in [(16, 0), (8, 0), (8, 8), (12, 3)] {
        let head = |heads| HeadLayout { heads, head_dim: 16, rotary_dim, rotary_offset };
        let (q, k) = (Projection::random(&mut random, head(6)), Projection::random(&mut random, head(2)));
        let tokens = random.vector(5 * COLUMNS);
        let rope = |pairing| {
            Rope::builder(16).rotary_dim(rotary_dim).rotary_offset(rotary_offset).pairing(pairing).build()
        };
        let (interleaved, half) = (rope(Pairing::Interleaved)?, rope(Pairing::Half)?);
        let before = scores(&q, &k, &tokens, &interleaved)?;
        assert_eq!(before.len(), 5 * 6 * 5);
        // 16 features of up to 13 each, summed in another order.
        let tolerance = 16.0 * rounding(13.0 * 13.0);

        let to_half = |p: &Projection| p.permuted(Pairing::Interleaved, Pairing::Half);
        let (q_half, k_half) = (to_half(&q)?, to_half(&k)?);
        all_close(&scores(&q_half, &k_half, &tokens, &half)?, &before, tolerance);
        // Without the permutation, or with one of two, it is another model.
        let farthest =
            |scores: Vec<f64>| scores.iter().zip(&before).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
        assert!(farthest(scores(&q, &k, &tokens, &half)?) > 0.1);
        assert!(farthest(scores(&q_half, &k, &tokens, &half)?) > 0.1);
        // Back again: to the bit.
        assert_eq!(q_half.permuted(Pairing::Half, Pairing::Interleaved)?, q);
        assert_eq!(k_half.permuted(Pairing::Half, Pairing::Interleaved)?, k);
        // Read interleaved and written in halves: the weights of the one, the scores of either.
        assert_eq!(q.permuted(Pairing::Interleaved, Pairing::InterleavedToHalf)?, q);
        all_close(&scores(&q, &k, &tokens, &rope(Pairing::InterleavedToHalf)?)?, &before, tolerance);
    }
    Ok(())
}

// What the classes in the notes get wrong, and the types here do not allow.

/// A cached table that reads position −1 from its last row, or a position past the end from anywhere.
#[test]
fn positions_outside_the_table_are_errors() -> Result<()> {
    let table = Rope::builder(4).build()?.table::<f32>(0..8, None)?;
    for ids in [[-1i64, 0], [0, 8]] {
        assert!(table.at(Positions::ids(&ids)).is_err());
    }
    let mut x = [0.0f32; 8];
    let mut view = ViewMut::blhd(&mut x, [1, 2, 1, 4])?;
    for first in [-1, 7, i64::MAX] {
        assert!(table.at(Positions::From(first))?.rotate(Turn::Forward, &mut view).is_err());
    }
    Ok(())
}

/// Ids follow tokens, never heads, also where there are as many heads as tokens.
#[test]
fn ids_follow_tokens_where_heads_equal_length() -> Result<()> {
    let (ids, mut random) = ([5i32, 0, 2], Random(13));
    let rope = Rope::builder(4).build()?;
    let table = rope.table::<f64>(0..8, None)?;
    let rows = table.at(Positions::Ids(Ids::I32(&ids)))?;
    let x = random.vector(3 * 3 * 4);
    let mut y = vec![0.0; x.len()];
    rows.rotate_to(Turn::Forward, &View::blhd(&x, [1, 3, 3, 4])?, &mut ViewMut::blhd(&mut y, [1, 3, 3, 4])?)?;
    for (index, (x, y)) in x.chunks(4).zip(y.chunks(4)).enumerate() {
        all_close(y, &turn(&rope, x, f64::from(ids[index / 3]))?, rounding(1.0));
    }
    let mut y = vec![0.0; x.len()];
    rows.rotate_to(Turn::Forward, &View::bhld(&x, [1, 3, 3, 4])?, &mut ViewMut::bhld(&mut y, [1, 3, 3, 4])?)?;
    for (index, (x, y)) in x.chunks(4).zip(y.chunks(4)).enumerate() {
        all_close(y, &turn(&rope, x, f64::from(ids[index % 3]))?, rounding(1.0));
    }
    Ok(())
}

/// bf16 in, bf16 out, turned in f32 and rounded once; and the position is never a bf16, which has no 257.
#[test]
fn sixteen_bits_keep_their_type_and_their_position() -> Result<()> {
    assert_eq!(bf16::from_f32(257.0), bf16::from_f32(256.0));
    let rope = Rope::builder(2).build()?;
    let table = rope.table::<f32>(256..258, None)?;
    let mut x = [bf16::ONE, bf16::ZERO, bf16::ONE, bf16::ZERO];
    table.at(Positions::From(256))?.rotate(Turn::Forward, &mut ViewMut::blhd(&mut x, [1, 2, 1, 2])?)?;
    for (x, position) in x.chunks(2).zip([256f64, 257.0]) {
        // Half a unit of eight bits at most, beside the f32.
        close(x[0].to_f64(), position.cos(), 1.01 / 512.0);
        close(x[1].to_f64(), position.sin(), 1.01 / 512.0);
    }
    Ok(())
}

/// An f32 angle is off by hundredths of a radian at position 1,000,000; the table's is not.
#[test]
fn far_positions_keep_their_angle() -> Result<()> {
    let exact = Rope::builder(128).build()?;
    let single = exact.clone().with_angle_precision(AnglePrecision::F32);
    let (far, theta) = (999_983i64, usual(128)?);
    let rows = |rope: &Rope| rope.table::<f32>(far..far + 1, None);
    let (exact, single) = (rows(&exact)?, rows(&single)?);
    let mut worst = 0.0f64;
    for (pair, theta) in theta.iter().enumerate() {
        let angle = far as f64 * theta;
        // The product in f64 is off by up to half a unit of 2^20.
        let tolerance = 0.51 / 16_777_216.0 + 1e6 * f64::EPSILON;
        close(f64::from(exact.cos()[pair]), angle.cos(), tolerance);
        close(f64::from(exact.sin()[pair]), angle.sin(), tolerance);
        let difference = f64::from(single.sin()[pair]).atan2(f64::from(single.cos()[pair])) - angle;
        worst = worst.max((difference - TAU * (difference / TAU).round()).abs());
    }
    assert!((1e-3..PI / 32.0).contains(&worst), "{worst}");
    Ok(())
}
