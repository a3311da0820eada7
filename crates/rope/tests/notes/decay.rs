//! Sinusoidal codes, and the long-term decay of scores.

use super::*;

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
