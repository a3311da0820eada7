//! The receptive field.

use super::*;

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
