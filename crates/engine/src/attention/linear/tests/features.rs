//! Feature maps: values, gradients, and what their shifts do to an attention.

use super::*;

fn maps(dim: usize) -> Vec<Map<f64>> {
    let favor = |eps| Map::Favor(Favor::new(dim, 10, eps, 3).unwrap());
    vec![Map::Elu1, Map::Softmax, Map::Exp, favor(0.0), favor(1e-2)]
}

fn mapped<T: Real>(map: &Map<T>, sizes: [usize; 3], x: &[T], shift: Shift<T>) -> Vec<T> {
    let rows: usize = sizes.iter().product();
    let mut out = vec![T::of(7.0); rows * map.features(x.len() / rows)];
    map.forward(sizes, x, shift, &mut out);
    out
}

#[test]
fn maps_are_their_formulas() {
    let x = [-2.0, 0.0, 0.5, 3.0];
    let e = |x: f64| x.exp();
    let sizes = [1, 2, 1];
    close(&mapped(&Map::Elu1, sizes, &x, Shift::None), &[e(-2.0), 1.0, 1.5, 4.0], 1e-15, "elu + 1");
    let (first, second) = (1.0 + e(-2.0), e(0.5) + e(3.0));
    let soft = [e(-2.0) / first, 1.0 / first, e(0.5) / second, e(3.0) / second];
    close(&mapped(&Map::Softmax, sizes, &x, Shift::None), &soft, 1e-15, "softmax");
    close(&mapped(&Map::Exp, sizes, &x, Shift::None), &x.map(e), 1e-15, "exp");
    let own = [e(-2.0), 1.0, e(-2.5), 1.0];
    close(&mapped(&Map::Exp, sizes, &x, Shift::Row), &own, 1e-15, "exp by row");
    let given = x.map(|x| e(x - 1.0));
    close(&mapped(&Map::Exp, sizes, &x, Shift::Head(&[1.0])), &given, 1e-15, "exp by head");
    let mut shifts = [7.0];
    let keys = Some(&[true, false][..]);
    let shift = Shift::Largest { keys, shifts: &mut shifts };
    close(&mapped(&Map::Exp, sizes, &x, shift), &[e(-2.0), 1.0, 0.0, 0.0], 1e-15, "exp of keys");
    assert_eq!(shifts, [0.0]);
}

#[test]
fn maps_are_the_same_in_single_precision() {
    for (wide, narrow) in [
        (Map::Elu1, Map::Elu1),
        (Map::Softmax, Map::Softmax),
        (Map::Exp, Map::Exp),
        (Map::Favor(Favor::new(8, 14, 1e-4, 5).unwrap()), Map::Favor(Favor::new(8, 14, 1e-4, 5).unwrap())),
    ] {
        let x = numbers(1, 3 * 50 * 2 * 8);
        let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let exact = mapped::<f64>(&wide, [3, 50, 2], &x, Shift::Row);
        close(&mapped::<f32>(&narrow, [3, 50, 2], &single, Shift::Row), &exact, 3e-6, "single precision");
    }
}

#[test]
fn gradients_of_maps_are_differences() {
    let (sizes, dim) = ([2, 5, 3], 4);
    let x: Vec<f64> = numbers(1, 30 * dim).iter().map(|x| 2.0 * x).collect();
    let shifts = numbers(3, 6);
    for map in maps(dim) {
        let y = mapped(&map, sizes, &x, Shift::Head(&shifts));
        let dy = numbers(2, y.len());
        let mut dx = vec![7.0; x.len()];
        map.backward(30, &x, &y, &mut dy.clone(), &mut dx);
        let loss = |x: &[f64]| -> f64 {
            mapped(&map, sizes, x, Shift::Head(&shifts)).iter().zip(&dy).map(|(y, dy)| y * dy).sum()
        };
        for index in 0..x.len() {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[index] += by;
                loss(&x)
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let bound = 1e-8 * (1.0 + difference.abs());
            assert!((dx[index] - difference).abs() < bound, "{map:?}: {}, not {difference}", dx[index]);
        }
    }
}

/// Attention of queries and keys `[batch, length, heads, dim]` by their maps, nothing rotated.
fn through(
    maps: [&Map<f64>; 2],
    shape: &Shape,
    [q, k, v]: [&[f64]; 3],
    shifts: bool,
    causal: bool,
) -> Vec<f64> {
    let sizes = [shape.batch, shape.length, shape.heads];
    let mut largest = vec![0.0; shape.batch * shape.heads];
    let (row, head) = match shifts {
        true => (Shift::Row, Shift::Largest { keys: None, shifts: &mut largest }),
        false => (Shift::None, Shift::None),
    };
    let (q, k) = (mapped(maps[0], sizes, q, row), mapped(maps[1], sizes, k, head));
    let lists = Lists { qn: q.clone(), kn: k.clone(), qd: q, kd: k, v: v.to_vec() };
    attended(shape, &lists, &Options { causal, keys: None, eps: 0.0 })
}

#[test]
fn shifts_cancel_in_values_and_gradients() {
    let dim = 4;
    let favor = Map::Favor(Favor::new(dim, 6, 0.0, 3).unwrap());
    for (map_q, map_k) in [(&Map::Softmax, &Map::Exp), (&Map::Exp, &Map::Exp), (&favor, &favor)] {
        for causal in [false, true] {
            let features = map_q.features(dim);
            let shape = Shape { batch: 2, length: 9, heads: 2, features, value_dim: 3 };
            let (q, k, v) = (numbers(1, 36 * dim), numbers(2, 36 * dim), numbers(3, 36 * 3));
            let run = |q: &[f64], shifts| through([map_q, map_k], &shape, [q, &k, &v], shifts, causal);
            close(&run(&q, true), &run(&q, false), 1e-13, "shifts cancel");
            // Queries and keys through their maps and back, with shifts that move along: the gradient of one input each.
            let sizes = [2, 9, 2];
            let mut largest = vec![0.0; 4];
            let y = mapped(map_q, sizes, &q, Shift::Row);
            let z = mapped(map_k, sizes, &k, Shift::Largest { keys: None, shifts: &mut largest });
            let lists = Lists { qn: y.clone(), kn: z.clone(), qd: y.clone(), kd: z.clone(), v: v.clone() };
            let dout = numbers(4, v.len());
            let mut d = Lists::zeros(&shape);
            let options = Options { causal, keys: None, eps: 0.0 };
            let mut workspace = Workspace::new().unwrap();
            let written = d.gradients();
            assert!(attend_backward(&shape, &lists.inputs(), &options, &dout, written, &mut workspace));
            let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<f64>>();
            let (mut dq, mut dk) = (vec![0.0; q.len()], vec![0.0; k.len()]);
            map_q.backward(36, &q, &y, &mut sum(&d.qn, &d.qd), &mut dq);
            map_k.backward(36, &k, &z, &mut sum(&d.kn, &d.kd), &mut dk);
            for index in 0..q.len() {
                let moved = |by: f64| {
                    let (mut q, mut k) = (q.clone(), k.clone());
                    q[index] += by;
                    let of_q = through([map_q, map_k], &shape, [&q, &k, &v], true, causal);
                    q[index] -= by;
                    k[index] += by;
                    let of_k = through([map_q, map_k], &shape, [&q, &k, &v], true, causal);
                    [of_q, of_k].map(|out| out.iter().zip(&dout).map(|(a, b)| a * b).sum::<f64>())
                };
                let (up, down) = (moved(1e-5), moved(-1e-5));
                for (got, (up, down)) in [dq[index], dk[index]].into_iter().zip(up.into_iter().zip(down)) {
                    let difference = (up - down) / 2e-5;
                    assert!((got - difference).abs() < 1e-8, "{got}, not {difference}");
                }
            }
        }
    }
}

#[test]
fn large_keys_do_not_overflow() {
    let x: Vec<f32> = numbers(1, 40).iter().map(|&x| 500.0 * x as f32).collect();
    let mut shifts = [0.0; 2];
    let y = mapped(&Map::Exp, [1, 5, 2], &x, Shift::Largest { keys: None, shifts: &mut shifts });
    assert!(y.iter().all(|y| (0.0..=1.0).contains(y)));
    assert!(mapped(&Map::Softmax, [1, 5, 2], &x, Shift::None).iter().all(|y| (0.0..=1.0).contains(y)));
}

#[test]
fn random_features_estimate_softmax_without_bias() {
    let dim = 16;
    let (q, k) = (numbers(1, dim), numbers(2, dim));
    let product: f64 = q.iter().zip(&k).map(|(q, k)| q * k).sum();
    let exact = (product / 4.0).exp();
    let estimate = |features: usize, seed: u64| -> f64 {
        let map = Map::Favor(Favor::new(dim, features, 0.0, seed).unwrap());
        let (q, k) = (mapped(&map, [1; 3], &q, Shift::None), mapped(&map, [1; 3], &k, Shift::None));
        q.iter().zip(&k).map(|(q, k)| q * k).sum()
    };
    let spread = |features: usize| {
        let draws: Vec<f64> = (0..600).map(|seed| estimate(features, seed)).collect();
        let mean = draws.iter().sum::<f64>() / 600.0;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 599.0;
        (mean, (variance / 600.0).sqrt())
    };
    let ((mean, error), (_, few)) = (spread(64), spread(16));
    assert!((mean - exact).abs() < 3.0 * error, "{mean} ± {error}, not {exact}");
    assert!(
        error < 0.02 * exact && error < 0.7 * few,
        "four times the features, half the error: {error} {few}"
    );
    let many = estimate(8192, 1);
    assert!((many / exact - 1.0).abs() < 0.05, "{many}, not {exact}");
}

#[test]
fn projections_are_orthogonal_within_blocks_and_as_long_as_normal_rows() {
    let favor = Favor::<f64>::new(12, 12 * 60 + 2, 0.0, 7).unwrap();
    let rows: Vec<&[f64]> = favor.projections().chunks_exact(12).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for block in rows.chunks(12) {
        for (index, a) in block.iter().enumerate() {
            assert!(block[..index].iter().all(|b| product(a, b).abs() < 1e-12));
        }
    }
    // ‖w‖² has mean d and variance 2d.
    let mean = rows.iter().map(|row| product(row, row)).sum::<f64>() / rows.len() as f64;
    assert!((mean - 12.0).abs() < 3.0 * (24.0 / rows.len() as f64).sqrt(), "{mean}");
    assert!(favor == Favor::new(12, 722, 0.0, 7).unwrap() && favor != Favor::new(12, 722, 0.0, 8).unwrap());
    for (dim, features, eps) in [(0, 2, 0.0), (4, 0, 0.0), (4, 7, 0.0), (4, 8, -1.0), (4, 8, f64::NAN)] {
        assert!(Favor::<f64>::new(dim, features, eps, 1).is_err());
    }
}
