//! Rotation in linear attention: what Eq. 19 keeps and what it gives up.

use super::*;
use rope::{Positions, Rope, Turn, ViewMut};

/// x `[1, length, heads, dim]`, rotated to the positions from `first` on.
fn rotated(x: &[f64], length: usize, heads: usize, first: i64) -> Vec<f64> {
    let dim = x.len() / length / heads;
    let table = Rope::builder(dim).build().unwrap().table::<f64>(first..first + length as i64, None).unwrap();
    let mut x = x.to_vec();
    let mut view = ViewMut::strided(&mut x, [1, length, heads, dim], [0, heads * dim, dim]).unwrap();
    table.at(Positions::From(first)).unwrap().rotate(Turn::Forward, &mut view).unwrap();
    x
}

const SHAPE: Shape = Shape { batch: 1, length: 40, heads: 2, features: 8, value_dim: 5 };

fn mapped(x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    Map::Elu1.forward([1, 40, 2], x, Shift::None, &mut out);
    out
}

/// RoFormer's form, or rotate first and then φ, with positions from `first` on.
fn attended_at(first: i64, rotate_after: bool, causal: bool) -> Vec<f64> {
    let (q, k, v) = (numbers(1, 640), numbers(2, 640), numbers(3, 400));
    let turn = |x: &[f64]| rotated(x, 40, 2, first);
    let lists = if rotate_after {
        let (qd, kd) = (mapped(&q), mapped(&k));
        Lists { qn: turn(&qd), kn: turn(&kd), qd, kd, v }
    } else {
        let (q, k) = (mapped(&turn(&q)), mapped(&turn(&k)));
        Lists { qn: q.clone(), kn: k.clone(), qd: q, kd: k, v }
    };
    attended(&SHAPE, &lists, &Options { causal, ..Options::default() })
}

#[test]
fn only_rotation_after_the_map_depends_on_distances_alone() {
    for causal in [false, true] {
        let change = |rotate_after| {
            let (here, there) =
                (attended_at(0, rotate_after, causal), attended_at(1000, rotate_after, causal));
            here.iter().zip(&there).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
        };
        let (after, before) = (change(true), change(false));
        assert!(after < 1e-12, "rotation after φ: {after}");
        assert!(before > 1e-3, "rotation before φ: {before}");
    }
}

#[test]
fn a_rotated_denominator_could_be_negative() {
    // d = 2, so θ = 1; q = k = 0, so φ = (1, 1); the query at 0, keys at 0 to 4.
    let features = mapped_zeros(5);
    let turned = rotated(&features, 5, 1, 0);
    let scores = |keys: &[f64]| {
        keys.chunks_exact(2).map(|k| turned[0] * k[0] + turned[1] * k[1]).collect::<Vec<f64>>()
    };
    let rotated = scores(&turned);
    let plain: f64 = features.chunks_exact(2).map(|k| k[0] + k[1]).sum();
    // 2·(cos 0 + cos 1 + cos 2 + cos 3 + cos 4)
    let sum: f64 = rotated.iter().sum();
    assert!((sum - -1.039).abs() < 5e-4, "{sum}");
    assert_eq!(plain, 10.0);
    // So the weights of Eq. 19 do not sum to 1, and some are negative.
    let weights: Vec<f64> = rotated.iter().map(|score| score / plain).collect();
    assert!((weights.iter().sum::<f64>() - -0.1039).abs() < 5e-5);
    assert!(weights.iter().any(|&weight| weight < 0.0));
    // The attention gives these weights: values that pick out one key each.
    let shape = Shape { batch: 1, length: 5, heads: 1, features: 2, value_dim: 5 };
    let v = (0..25).map(|i| if i % 6 == 0 { 1.0 } else { 0.0 }).collect();
    let lists =
        Lists { qn: turned.clone(), kn: turned.clone(), qd: features.clone(), kd: features.clone(), v };
    let out = attended(&shape, &lists, &Options { eps: 0.0, ..Options::default() });
    close(&out[..5], &weights, 1e-15, "weights of the first query");
}

/// φ of `tokens` zero vectors of two numbers.
fn mapped_zeros(tokens: usize) -> Vec<f64> {
    let mut out = vec![0.0; 2 * tokens];
    Map::Elu1.forward([1, tokens, 1], &vec![0.0; 2 * tokens], Shift::None, &mut out);
    out
}
