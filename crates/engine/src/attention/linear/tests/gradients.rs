//! Gradients of the attention, against differences and against sums over all pairs.

use super::*;

/// Gradients by their definition, over all pairs.
fn naive(shape: &Shape, lists: &Lists<f64>, options: &Options, dout: &[f64]) -> Lists<f64> {
    let Shape { batch, length, heads, features: m, value_dim: e } = *shape;
    let mut d = Lists::zeros(shape);
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for (sequence, head) in (0..batch).flat_map(|sequence| (0..heads).map(move |head| (sequence, head))) {
        let f = |token: usize| {
            let at = ((sequence * length + token) * heads + head) * m;
            at..at + m
        };
        let g = |token: usize| {
            let at = ((sequence * length + token) * heads + head) * e;
            at..at + e
        };
        for i in 0..length {
            let sees = |j: &usize| {
                options.keys.is_none_or(|keys| keys[sequence * length + j]) && (!options.causal || *j <= i)
            };
            let dout = &dout[g(i)];
            let (mut total, mut up) = (options.eps, 0.0);
            for j in (0..length).filter(sees) {
                total += product(&lists.qd[f(i)], &lists.kd[f(j)]);
                up += product(&lists.qn[f(i)], &lists.kn[f(j)]) * product(dout, &lists.v[g(j)]);
            }
            if total == 0.0 {
                continue;
            }
            for j in (0..length).filter(sees) {
                // out_i = Σ_j a_ij v_j / Σ_j b_ij: the gradients of a_ij and b_ij.
                let a = product(dout, &lists.v[g(j)]) / total;
                let b = -up / (total * total);
                let weight = product(&lists.qn[f(i)], &lists.kn[f(j)]) / total;
                for x in 0..m {
                    d.qn[f(i).start + x] += a * lists.kn[f(j).start + x];
                    d.kn[f(j).start + x] += a * lists.qn[f(i).start + x];
                    d.qd[f(i).start + x] += b * lists.kd[f(j).start + x];
                    d.kd[f(j).start + x] += b * lists.qd[f(i).start + x];
                }
                for (dv, dout) in d.v[g(j)].iter_mut().zip(dout) {
                    *dv += weight * dout;
                }
            }
        }
    }
    d
}

fn backward<T: Real>(shape: &Shape, lists: &Lists<T>, options: &Options, dout: &[T]) -> Lists<T> {
    let mut d = Lists::zeros(shape);
    for list in [&mut d.qn, &mut d.kn, &mut d.qd, &mut d.kd, &mut d.v] {
        list.fill(T::of(7.0));
    }
    let mut workspace = Workspace::new().unwrap();
    assert!(attend_backward(shape, &lists.inputs(), options, dout, d.gradients(), &mut workspace));
    d
}

#[test]
fn gradients_are_those_of_all_pairs() {
    for shape in shapes() {
        let (wide, narrow) = (Lists::<f64>::new(&shape), Lists::<f32>::new(&shape));
        let dout = numbers(9, wide.v.len());
        let dout_narrow: Vec<f32> = dout.iter().map(|&x| x as f32).collect();
        let mask = padding(&shape);
        for options in options(&mask) {
            let wanted = naive(&shape, &wide, &options, &dout);
            let got = backward(&shape, &wide, &options, &dout);
            let single = backward(&shape, &narrow, &options, &dout_narrow);
            for ((name, wanted), ((_, got), (_, single))) in
                wanted.all().into_iter().zip(got.all().into_iter().zip(single.all()))
            {
                let what = format!("{name} of {shape:?} causal {}", options.causal);
                close(got, wanted, 1e-11, &what);
                // Sums of many products that cancel: relative to the largest.
                let largest = wanted.iter().fold(1.0f64, |most, x| most.max(x.abs()));
                close(single, wanted, 2e-5 * largest, &what);
            }
        }
    }
}

#[test]
fn gradients_are_differences() {
    let shape = Shape { batch: 2, length: 67, heads: 1, features: 3, value_dim: 2 };
    let lists = Lists::<f64>::new(&shape);
    let dout = numbers(9, lists.v.len());
    let mask = padding(&shape);
    for options in options(&mask) {
        let loss = |lists: &Lists<f64>| -> f64 {
            attended(&shape, lists, &options).iter().zip(&dout).map(|(out, dout)| out * dout).sum()
        };
        let gradients = backward(&shape, &lists, &options, &dout);
        for kind in 0..5 {
            let (name, gradient) = gradients.all()[kind];
            for index in (0..gradient.len()).step_by(7) {
                let moved = |by: f64| {
                    let mut lists = lists.clone();
                    let all = [&mut lists.qn, &mut lists.kn, &mut lists.qd, &mut lists.kd, &mut lists.v];
                    all.into_iter().nth(kind).unwrap()[index] += by;
                    loss(&lists)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let bound = 1e-7 * (1.0 + difference.abs());
                let got = gradient[index];
                assert!((got - difference).abs() < bound, "{name} {index}: {got}, not {difference}");
            }
        }
    }
}
