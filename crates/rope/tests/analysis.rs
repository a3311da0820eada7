//! The analysis functions, and the mathematics around a rotation: gradients, inverses, xPos and rerotation,
//! each against the definition.

mod common;

use common::{PAIRINGS, all_close, close, dot, rounding};
use rope::{
    AnglePrecision, Axes, Error, Llama3, LongRope, Pairing, Positions, Ramp, Result, Rope, Schedule, Turn,
    View, ViewMut, XPos, Yarn, analysis, reference,
};

/// Numbers in [−1, 1) from a seed (splitmix64).
fn random(seed: u64, size: usize) -> Vec<f64> {
    let number = |index: u64| {
        let mut z = seed.wrapping_mul(1 << 32).wrapping_add(index + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..size as u64).map(number).collect()
}

fn usual(head_dim: usize) -> Result<Vec<f64>> {
    Ok(Rope::builder(head_dim).build()?.frequencies(None).inv_freq().to_vec())
}

/// `[batch 2, length 5, heads 3, head_dim 12]`, of which 8 features from the third on turn.
const SHAPE: [usize; 4] = [2, 5, 3, 12];
const SIZE: usize = 2 * 5 * 3 * 12;

fn builder(pairing: Pairing) -> rope::RopeBuilder {
    Rope::builder(12).rotary_dim(8).rotary_offset(2).pairing(pairing)
}

/// YaRN with an attention factor of 1.2773: everything a schedule can bring along.
fn yarn() -> Schedule {
    Schedule::Yarn(Yarn { ramp: Ramp::Rotations, ..Yarn::new(16.0, 64) })
}

fn turned(rows: &rope::Rows<f64>, turn: Turn, x: &[f64]) -> Result<Vec<f64>> {
    let mut y = vec![0.0; x.len()];
    let shape = [x.len() / (SIZE / 2), 5, 3, 12];
    rows.rotate_to(turn, &View::blhd(x, shape)?, &mut ViewMut::blhd(&mut y, shape)?)?;
    Ok(y)
}

// Analysis.

#[test]
fn the_first_negative_distance_is_what_looking_at_each_gives() -> Result<()> {
    for (base, limit) in [(10_000.0, 5000), (27_000.0, 5000), (32_000.0, 5000), (100.0, 70)] {
        let frequencies = Rope::builder(128).base(base).build()?.frequencies(None);
        let theta = frequencies.inv_freq();
        let expected = (0..=limit).find(|&distance| analysis::cosine_sum(theta, distance as f64) < 0.0);
        assert_eq!(analysis::first_negative(theta, limit), expected, "base {base}");
        // The limit counts: one less and it is out of reach.
        if let Some(first) = expected {
            assert_eq!(analysis::first_negative(theta, first), expected);
            assert_eq!(analysis::first_negative(theta, first - 1), None);
        }
    }
    Ok(())
}

/// Distances that are passed over, and blocks that are summed one after another, hide nothing.
#[test]
fn the_first_negative_distance_is_found_far_out() -> Result<()> {
    let far = [
        Schedule::Linear { factor: 32.0 },
        Schedule::Linear { factor: 300.0 },
        Schedule::Proportional { fraction: 0.25, factor: 1.0 },
        Schedule::Proportional { fraction: 0.75, factor: 1.0 },
        Schedule::NtkAware { factor: 64.0 },
    ];
    for schedule in far {
        let frequencies = Rope::builder(64).schedule(schedule.clone()).build()?.frequencies(None);
        let theta = frequencies.inv_freq();
        let limit = 100_000;
        let expected = (0..=limit).find(|&distance| analysis::cosine_sum(theta, distance as f64) < 0.0);
        assert_eq!(analysis::first_negative(theta, limit), expected, "{schedule}");
    }
    Ok(())
}

/// A larger base does not always reach farther: 32,000 fails before 27,000 does.
#[test]
fn the_base_that_a_length_needs_is_not_monotonic() -> Result<()> {
    let first = |base: f64| -> Result<Option<u64>> {
        let frequencies = Rope::builder(128).base(base).build()?.frequencies(None);
        Ok(analysis::first_negative(frequencies.inv_freq(), 10_000))
    };
    assert_eq!((first(27_000.0)?, first(32_000.0)?), (Some(4079), Some(2818)));
    assert!(first(44_668.0)? > Some(4200));
    Ok(())
}

#[test]
fn the_first_negative_distance_exists_at_the_edges() {
    assert_eq!(analysis::first_negative(&[], 1000), None);
    assert_eq!(analysis::first_negative(&[0.0], 1000), None);
    assert_eq!(analysis::first_negative(&[1.0], 0), None);
    assert_eq!(analysis::first_negative(&[1.0], u64::MAX), Some(2));
    assert_eq!(analysis::first_negative(&[-1.0], 100), Some(2));
    assert_eq!(analysis::first_negative(&[std::f64::consts::PI / 128.0], 200), Some(65));
    assert_eq!(analysis::first_negative(&[f64::NAN], 200), None);
}

#[test]
fn the_bound_is_the_mean_of_partial_sums() -> Result<()> {
    let theta = usual(32)?;
    for distance in [0.0, 1.0, -1.0, 12.5, 999.0] {
        let partial = |pairs: usize| {
            let part = |f: fn(f64) -> f64| theta[..pairs].iter().map(|t| f(distance * t)).sum::<f64>();
            part(f64::cos).hypot(part(f64::sin))
        };
        let expected = (1..=16).map(partial).sum::<f64>() / 16.0;
        close(analysis::decay_bound(&theta, distance), expected, rounding(16.0));
    }
    assert_eq!((analysis::decay_bound(&[], 3.0), analysis::cosine_sum(&[], 3.0)), (0.0, 0.0));
    Ok(())
}

#[test]
fn pairs_report_wavelength_turns_and_coverage() -> Result<()> {
    let theta = usual(128)?;
    let reports = analysis::pairs(&theta, 4096);
    assert_eq!(reports.len(), 64);
    for (pair, report) in reports.iter().enumerate() {
        assert_eq!((report.pair, report.theta), (pair, theta[pair]));
        close(report.turns * report.wavelength, 4096.0, rounding(4096.0));
        assert_eq!(report.coverage, if report.turns < 1.0 { report.turns } else { 1.0 });
    }
    // 2π·10000^(j/64) passes 4096 between the pairs 45 and 46.
    assert!(reports[45].turns > 1.0 && reports[46].turns < 1.0);
    assert_eq!(analysis::never_turning(&theta, 4096), 64 - 46);
    assert_eq!(analysis::never_turning(&theta, 0), 64);

    let odd = analysis::pairs(&[0.0, -1.0], 10);
    assert_eq!((odd[0].wavelength, odd[0].turns, odd[0].coverage), (f64::INFINITY, 0.0, 0.0));
    assert_eq!((odd[1].wavelength, odd[1].coverage), (std::f64::consts::TAU, 1.0));
    Ok(())
}

/// The mean and the deviation of a score, against a sum over all signs of the noise.
#[test]
fn the_spread_of_a_random_score_does_not_depend_on_the_distance() -> Result<()> {
    let (theta, mean_q, mean_k) = ([1.0, 0.1], random(1, 4), random(2, 4));
    let (sigma_q, sigma_k) = (0.5, 0.75);
    // Noise of ±σ on each feature has exactly the variance σ²; there are 2^8 ways to draw it.
    let noisy = |mean: &[f64], sigma: f64, signs: u32| -> Vec<f64> {
        let noise = |i: usize| if signs >> i & 1 == 1 { sigma } else { -sigma };
        mean.iter().enumerate().map(|(i, mean)| mean + noise(i)).collect()
    };
    for pairing in PAIRINGS {
        for distance in [0.0, 3.0, -40.0] {
            let got =
                analysis::random_score((&mean_q, sigma_q), (&mean_k, sigma_k), &theta, distance, pairing)?;
            let scores: Vec<f64> = (0..256)
                .map(|signs| {
                    let (q, k) = (noisy(&mean_q, sigma_q, signs), noisy(&mean_k, sigma_k, signs >> 4));
                    analysis::score(&q, &k, &theta, distance, pairing)
                })
                .collect::<Result<_>>()?;
            let mean = scores.iter().sum::<f64>() / 256.0;
            let variance = scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / 256.0;
            close(got.mean, mean, rounding(4.0));
            close(got.deviation, variance.sqrt(), rounding(4.0));
        }
    }
    Ok(())
}

#[test]
fn vectors_that_do_not_fit_the_frequencies_are_errors() {
    let (two, four) = ([1.0; 2], [1.0; 4]);
    let flat = Pairing::Interleaved;
    for (q, k) in [(&two[..], &four[..]), (&four[..], &two[..]), (&four[..3], &four[..3]), (&[], &[])] {
        let score = analysis::score(q, k, &[1.0, 0.1], 1.0, flat);
        assert!(matches!(score, Err(Error::Shape { .. })), "{score:?}");
        assert!(analysis::random_score((q, 1.0), (k, 1.0), &[1.0, 0.1], 1.0, flat).is_err());
        assert!(analysis::receptive_field(q, k, &[1.0, 0.1], 0.5, 1.0, flat).is_err());
    }
    assert_eq!(analysis::score(&[], &[], &[], 1.0, flat), Ok(0.0));
}

// Gradients.

/// d/dx Σ w·y(x). The rotation is linear in x, so a central difference is exact for any step but for
/// rounding.
#[test]
fn backward_is_the_gradient_of_forward() -> Result<()> {
    let (x, w) = (random(3, SIZE), random(4, SIZE));
    for pairing in PAIRINGS {
        let rope = builder(pairing).schedule(yarn()).build()?;
        close(rope.schedule().attention_factor(), 1.2773, 5e-5);
        let table = rope.table::<f64>(-3..100, None)?;
        let ids = [90i64, -3, 0, 7, 41];
        let rows = table.at(Positions::ids(&ids))?;
        let loss = |x: &[f64]| -> Result<f64> { Ok(dot(&w, &turned(&rows, Turn::Forward, x)?)) };
        let gradient = turned(&rows, Turn::Backward, &w)?;
        for index in 0..SIZE {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[index] += by;
                loss(&x)
            };
            // Sums of SIZE terms of up to 1.3.
            close(gradient[index], (moved(1.0)? - moved(-1.0)?) / 2.0, SIZE as f64 * rounding(1.3));
        }
        let linear = dot(&turned(&rows, Turn::Forward, &x)?, &w);
        close(linear, dot(&x, &gradient), SIZE as f64 * rounding(1.3));
    }
    Ok(())
}

/// d/dθ_j through `Schedule::Given`; the xPos tables show that a scale already in y is counted once.
#[test]
fn the_frequency_gradient_is_that_of_finite_differences() -> Result<()> {
    let (x, w) = (random(5, SIZE), random(6, SIZE));
    let theta = [1.0, 0.3, -0.05, 0.0];
    let ids = [6i64, -3, 0, 2, 5, 5, 1, -1, 4, 3];
    for (pairing, xpos) in PAIRINGS.into_iter().flat_map(|pairing| [(pairing, false), (pairing, true)]) {
        let table = |theta: &[f64]| {
            let given = builder(pairing).schedule(Schedule::Given(theta.to_vec()));
            match xpos {
                false => given.build()?.table::<f64>(-3..7, None),
                true => {
                    let xpos = XPos { reference: 1.0, scale_base: 8.0 };
                    Ok(given.xpos(xpos).build()?.xpos_tables::<f64>(-3..7, None)?.0)
                }
            }
        };
        let positions = Positions::batch_ids(&ids);
        let loss = |theta: &[f64]| -> Result<f64> {
            Ok(dot(&w, &turned(&table(theta)?.at(positions)?, Turn::Forward, &x)?))
        };
        let table = table(&theta)?;
        let rows = table.at(positions)?;
        let y = turned(&rows, Turn::Forward, &x)?;
        // It adds to what is there.
        let mut gradient = [100.0; 4];
        rows.frequency_gradient(&View::blhd(&y, SHAPE)?, &View::blhd(&w, SHAPE)?, &mut gradient)?;
        for (pair, gradient) in gradient.iter().enumerate() {
            let step = 1e-5;
            let moved = |by: f64| {
                let mut theta = theta;
                theta[pair] += by;
                loss(&theta)
            };
            let expected = (moved(step)? - moved(-step)?) / (2.0 * step);
            // The third derivative, m³ ≤ 6³ on 60 products of at most 2 (4 with xPos), and the rounding of
            // the loss.
            let size = 60.0 * 2.0 * if xpos { 2.0 } else { 1.0 };
            let tolerance = size * (216.0 * step * step / 6.0 + f64::EPSILON / step);
            close(gradient - 100.0, expected, tolerance);
            assert!(expected.abs() > 1e-2, "a gradient of nothing shows nothing");
        }
    }
    Ok(())
}

#[test]
fn the_frequency_gradient_says_what_it_cannot_do() -> Result<()> {
    let rope = Rope::builder(4).build()?;
    let x = [0.0f32; 4];
    let view = View::blhd(&x, [1, 1, 1, 4])?;
    let range = rope.table::<f32>(0..4, None)?;
    let rows = range.at(Positions::From(0))?;
    assert!(rows.frequency_gradient(&view, &view, &mut [0.0; 2]).is_ok());
    assert!(rows.frequency_gradient(&view, &view, &mut [0.0; 4]).is_err());
    let other = View::bhld(&x, [1, 2, 1, 2])?;
    assert!(rows.frequency_gradient(&view, &other, &mut [0.0; 2]).is_err());
    let listed = rope.table_of::<f32>(&[0.5], None)?;
    assert!(listed.at(Positions::Rows)?.frequency_gradient(&view, &view, &mut [0.0; 2]).is_err());
    Ok(())
}

// Inverses.

#[test]
fn inverse_gives_back_what_forward_was_given() -> Result<()> {
    let x = random(7, SIZE);
    let ids = [90i64, -3, 0, 7, 41];
    for pairing in PAIRINGS {
        let scaled = builder(pairing).schedule(yarn());
        let plain = scaled.clone().build()?.table::<f64>(-3..100, None)?;
        let xpos = XPos { reference: 10.0, scale_base: 64.0 };
        let (q, k) = scaled.xpos(xpos).build()?.xpos_tables::<f64>(-3..100, None)?;
        for table in [plain, q, k] {
            let rows = table.at(Positions::ids(&ids))?;
            let y = turned(&rows, Turn::Forward, &x)?;
            assert_ne!(y, x);
            all_close(&turned(&rows, Turn::Inverse, &y)?, &x, rounding(1.0));
            // It is the backward divided by the square of the scale: another thing wherever there is one.
            let backward = turned(&rows, Turn::Backward, &y)?;
            assert!(backward.iter().zip(&x).any(|(back, x)| (back - x).abs() > 0.1));
        }
    }
    Ok(())
}

// xPos.

/// Pair j of a score is ζ_j^(Δ/512) times what it is without xPos, ζ_j = (2j + 0.4·d)/(1.4·d).
#[test]
fn xpos_decays_each_pair_with_the_distance() -> Result<()> {
    let (pairs, q, k) = (4, random(8, 8), random(9, 8));
    let theta = usual(8)?;
    for pairing in PAIRINGS {
        for reference in [0.0, 100.0] {
            let xpos = XPos { reference, ..XPos::default() };
            let rope = Rope::builder(8).pairing(pairing).xpos(xpos).build()?;
            let (queries, keys) = rope.xpos_tables::<f64>(-10..2100, None)?;
            let turn = |table: &rope::Table<f64>, x: &[f64], position: i64| -> Result<Vec<f64>> {
                let mut x = x.to_vec();
                let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 8])?;
                table.at(Positions::From(position))?.rotate(Turn::Forward, &mut view)?;
                Ok(x)
            };
            for (m, n) in [(0, 0), (512, 0), (2000, 7), (7, 2000), (-10, 5)] {
                let got = dot(&turn(&queries, &q, m)?, &turn(&keys, &k, n)?);
                let distance = (m - n) as f64;
                let mut expected = 0.0;
                for pair in 0..pairs {
                    let zeta: f64 = (2.0 * pair as f64 + 0.4 * 8.0) / (1.4 * 8.0);
                    // One pair alone, by leaving out all others.
                    let mut alone = [0.0; 4];
                    alone[pair] = 1.0;
                    let only = |x: &[f64]| -> Vec<f64> {
                        let keep = |i: usize| match pairing {
                            Pairing::Half => alone[i % 4],
                            _ => alone[i / 2],
                        };
                        x.iter().enumerate().map(|(i, x)| x * keep(i)).collect()
                    };
                    let plain = analysis::score(&only(&q), &only(&k), &theta, distance, pairing)?;
                    expected += zeta.powf(distance / 512.0) * plain;
                }
                // The farther back, the larger: a key 2000 after its query is scaled by 0.29^-4 = 140.
                close(got, expected, 140.0 * 2000.0 * rounding(8.0));
            }
        }
    }
    Ok(())
}

#[test]
fn xpos_needs_its_own_tables() -> Result<()> {
    let rope = Rope::builder(8).xpos(XPos::default()).build()?;
    assert!(rope.table::<f32>(0..4, None).is_err() && rope.table_of::<f32>(&[0.0], None).is_err());
    assert!(Rope::builder(8).build()?.xpos_tables::<f32>(0..4, None).is_err());
    Ok(())
}

// Rerotation.

/// Keys turned by one rope and moved to other positions, another rule, or both, are the keys that the other
/// rope makes.
#[test]
fn rerotated_keys_are_those_of_the_other_rope() -> Result<()> {
    let keys = random(10, SIZE / 2);
    let (from, to) = ([0.0, 1.0, 2.5, 4000.0, -7.0], [3.0, 0.0, 2.5, 17.0, 123_456.0]);
    let long = LongRope {
        short: vec![1.0, 1.5, 2.0, 3.0],
        long: vec![1.0, 4.0, 16.0, 32.0],
        original_length: 4096,
        factor: 32.0,
        attention_factor: None,
    };
    let dynamic = Schedule::DynamicNtk { factor: 2.0, trained_length: 2048 };
    let cases = [
        (Schedule::Default, None, Schedule::Default, None),
        (Schedule::Default, None, yarn(), None),
        (yarn(), None, Schedule::Linear { factor: 4.0 }, None),
        (dynamic.clone(), Some(2048), dynamic, Some(8192)),
        (Schedule::LongRope(long.clone()), Some(4096), Schedule::LongRope(long), Some(4097)),
        (Schedule::Given(vec![1.0, 0.5, 0.0, -0.25]), None, yarn(), None),
    ];
    for (old, length, new, target_length) in cases {
        for pairing in PAIRINGS {
            let rope = builder(pairing).schedule(old.clone()).build()?;
            let target = builder(pairing).schedule(new.clone()).build()?;
            let rotated = |rope: &Rope, positions: &[f64], length| {
                turned(&rope.table_of::<f64>(positions, length)?.at(Positions::Rows)?, Turn::Forward, &keys)
            };
            let expected = rotated(&target, &to, target_length)?;
            let moves = rope.rerotation::<f64>(&from, length, &target, &to, target_length)?;
            let cached = rotated(&rope, &from, length)?;
            let moved = turned(&moves.at(Positions::Rows)?, Turn::Forward, &cached)?;
            all_close(&moved, &expected, rounding(2.0));
            assert!(moved.iter().zip(&cached).any(|(x, y)| (x - y).abs() > 0.1));
            // And back.
            all_close(&turned(&moves.at(Positions::Rows)?, Turn::Inverse, &moved)?, &cached, rounding(2.0));
        }
    }
    Ok(())
}

/// Keys cached in halves by an interleaved-to-half rope can be taken over by a half rope: their output order
/// agrees.
#[test]
fn rerotation_asks_for_the_same_output_order() -> Result<()> {
    let rope = |pairing| builder(pairing).build();
    let (half, mixed) = (rope(Pairing::Half)?, rope(Pairing::InterleavedToHalf)?);
    assert!(mixed.rerotation::<f64>(&[0.0], None, &half, &[1.0], None).is_ok());
    let interleaved = rope(Pairing::Interleaved)?;
    assert!(half.rerotation::<f64>(&[0.0], None, &interleaved, &[1.0], None).is_err());
    assert!(half.rerotation::<f64>(&[0.0], None, &half, &[1.0, 2.0], None).is_err());
    assert!(half.rerotation::<f64>(&[0.0], None, &half, &[f64::NAN], None).is_err());
    let whole = Rope::builder(12).build()?;
    assert!(half.rerotation::<f64>(&[0.0], None, &whole, &[1.0], None).is_err());
    Ok(())
}

/// Under f32 angles too a moved key is where the target puts it, to the rounding of f32 tables.
#[test]
fn rerotation_moves_f32_angles_to_f32_angles() -> Result<()> {
    let rope = builder(Pairing::Half).angle_precision(AnglePrecision::F32).build()?;
    let (from, to) = ([10_000.0, 3.0, 777.0, 1.0, 0.0], [20_001.0, 99_999.0, 1.0, 2.0, 3.0]);
    let keys = random(11, SIZE / 2);
    let rotated = |positions: &[f64]| {
        turned(&rope.table_of::<f64>(positions, None)?.at(Positions::Rows)?, Turn::Forward, &keys)
    };
    let moves = rope.rerotation::<f64>(&from, None, &rope, &to, None)?;
    let moved = turned(&moves.at(Positions::Rows)?, Turn::Forward, &rotated(&from)?)?;
    // Tables under f32 angles hold cosines and sines rounded to f32.
    all_close(&moved, &rotated(&to)?, 4.0 * 2.0 * f64::from(f32::EPSILON) / 2.0);
    Ok(())
}

// Positions with several axes.

/// Each pair of M-RoPE and of an axial rope turns by the position of its own axis.
#[test]
fn each_pair_follows_its_axis() -> Result<()> {
    let (x, positions) = (random(12, 12), [5.0, 11.0, 300.0]);
    let usual = usual(12)?;
    let axial = Rope::builder(4).build()?.frequencies(None).inv_freq().repeat(3);
    for (axes, theta, axis) in [
        (Axes::Sections(vec![1, 2, 3]), &usual, [0, 1, 1, 2, 2, 2]),
        (Axes::Interleaved(vec![3, 2, 1]), &usual, [0, 1, 2, 0, 1, 0]),
        (Axes::Axial { axes: 3 }, &axial, [0, 0, 1, 1, 2, 2]),
    ] {
        for pairing in PAIRINGS {
            let rope = Rope::builder(12).axes(axes.clone()).pairing(pairing).build()?;
            assert_eq!(rope.axis_of_pairs(), axis);
            // Position 1 with a frequency of position·θ for each pair is the same rotation.
            let angles: Vec<f64> = theta.iter().zip(axis).map(|(theta, a)| positions[a] * theta).collect();
            let expected = reference::rotate(&x, 1.0, &angles, 1.0, pairing);
            let table = rope.table_of::<f64>(&positions, None)?;
            let mut y = x.clone();
            let mut view = ViewMut::blhd(&mut y, [1, 1, 1, 12])?;
            table.at(Positions::Rows)?.rotate(Turn::Forward, &mut view)?;
            all_close(&y, &expected, rounding(1.0) + 300.0 * f64::EPSILON);
        }
    }
    Ok(())
}

// Rules for longer contexts.

/// Every rule as its formula says, in plain `f64`: θ_j from j, the usual θ_j, d, the base and the length.
#[test]
fn every_rule_is_its_formula() -> Result<()> {
    let (dim, base, trained) = (128.0f64, 10_000.0f64, 4096.0);
    let usual = |j: f64| base.powf(-2.0 * j / dim);
    let with_base = |base: f64, j: f64| base.powf(-2.0 * j / dim);
    let turns = |j: f64| trained * usual(j) / std::f64::consts::TAU;
    let blend = |j: f64, kept: f64, s: f64| kept * usual(j) + (1.0 - kept) * usual(j) / s;
    let long = LongRope {
        short: (0..64).map(|j| 1.0 + f64::from(j)).collect(),
        long: (0..64).map(|j| 2.0 + f64::from(j)).collect(),
        original_length: 4096,
        factor: 32.0,
        attention_factor: None,
    };
    let llama = Llama3 { factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0, original_length: 4096 };
    let paper = Yarn { ramp: Ramp::Rotations, ..Yarn::new(16.0, 4096) };
    let (dynamic, proportional) = (
        Schedule::DynamicNtk { factor: 2.0, trained_length: 4096 },
        Schedule::Proportional { fraction: 0.75, factor: 2.0 },
    );
    let grown = |growth: f64| base * growth.powf(dim / (dim - 2.0));
    type Formula<'a> = Box<dyn Fn(f64) -> f64 + 'a>;
    let cases: Vec<(Schedule, u64, Formula)> = vec![
        (Schedule::Default, 1, Box::new(usual)),
        (Schedule::Linear { factor: 8.0 }, 1, Box::new(|j| usual(j) / 8.0)),
        (Schedule::NtkAware { factor: 8.0 }, 1, Box::new(|j| with_base(grown(8.0), j))),
        (dynamic.clone(), 4096, Box::new(usual)),
        (dynamic, 16_384, Box::new(|j| with_base(grown(2.0 * 4.0 - 1.0), j))),
        // The ends of the ramp at d = 128, base 10000, length 4096: pairs 20 and 46.
        (Schedule::Yarn(Yarn::new(16.0, 4096)), 1, {
            Box::new(|j| blend(j, 1.0 - ((j - 20.0) / 26.0).clamp(0.0, 1.0), 16.0))
        }),
        (Schedule::Yarn(paper), 1, {
            Box::new(|j| blend(j, ((turns(j) - 1.0) / 31.0).clamp(0.0, 1.0), 16.0))
        }),
        (Schedule::LongRope(long.clone()), 4096, Box::new(|j| usual(j) / (1.0 + j))),
        (Schedule::LongRope(long), 4097, Box::new(|j| usual(j) / (2.0 + j))),
        (Schedule::Llama3(llama), 1, {
            Box::new(|j| blend(j, ((turns(j) - 1.0) / 3.0).clamp(0.0, 1.0), 8.0))
        }),
        (proportional, 1, Box::new(|j| if j < 48.0 { usual(j) / 2.0 } else { 0.0 })),
        (Schedule::ReceptiveField { alpha: 0.3, rho: 0.5 }, 1, Box::new(|j| 0.003 + 0.7 * usual(j))),
    ];
    for (schedule, length, formula) in cases {
        let frequencies = Rope::builder(128).schedule(schedule.clone()).build()?.frequencies(length);
        for (j, &theta) in frequencies.inv_freq().iter().enumerate() {
            let expected = formula(j as f64);
            // A power with an exponent of up to 11 in base e is right to some 11 roundings.
            assert!((theta - expected).abs() <= 32.0 * f64::EPSILON * expected, "{schedule}, pair {j}");
        }
    }
    Ok(())
}

#[test]
fn attention_factors_are_their_formulas() {
    let factor = |s| Schedule::Yarn(Yarn::new(s, 4096)).attention_factor();
    for (s, expected) in [(1.0, 1.0), (4.0, 1.1386), (16.0, 1.2773), (32.0, 1.3466)] {
        close(factor(s), expected, 5e-5);
    }
    let scaled = Yarn { mscale: Some(0.707), mscale_all_dim: Some(1.0), ..Yarn::new(40.0, 4096) };
    let m = |x: f64| 0.1 * x * 40f64.ln() + 1.0;
    close(scaled.attention_factor(), m(0.707) / m(1.0), rounding(1.0));
    let list = vec![1.0; 4];
    let long = LongRope {
        short: list.clone(),
        long: list,
        original_length: 4096,
        factor: 32.0,
        attention_factor: None,
    };
    close(long.attention_factor(), (1.0 + 32f64.ln() / 4096f64.ln()).sqrt(), rounding(1.0));
    assert_eq!(Schedule::Linear { factor: 8.0 }.attention_factor(), 1.0);
}

/// NTK-aware leaves the fastest pair alone and interpolates the slowest by the whole factor.
#[test]
fn ntk_aware_reaches_from_1_to_the_factor() -> Result<()> {
    let plain = usual(128)?;
    let ntk = Rope::builder(128).schedule(Schedule::NtkAware { factor: 8.0 }).build()?.frequencies(None);
    assert_eq!(ntk.inv_freq()[0], 1.0);
    close(plain[63] / ntk.inv_freq()[63], 8.0, rounding(8.0));
    Ok(())
}
