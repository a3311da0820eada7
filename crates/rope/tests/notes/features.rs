//! More than two features: pairs, their order, and what the score keeps.

use super::*;

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
