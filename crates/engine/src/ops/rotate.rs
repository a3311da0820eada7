//! Rotations of heads inside larger rows, and their gradients with respect to vectors and frequencies.

use super::real::Real;
use rope::{Rows, Turn, View, ViewMut};

/// Where heads stand in a buffer: `[batch, length, heads, head_dim]` from `offset` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// The first number: where the queries of a row `[q, k, v]` begin, or its keys.
    pub offset: usize,
    /// Batch, length, heads, head_dim.
    pub shape: [usize; 4],
    /// Numbers from one sequence to the next, from one token to the next, from one head to the next.
    pub steps: [usize; 3],
}

/// Rotates heads in place; every other number stays.
pub fn forward<T: Real>(rows: &Rows<T>, x: &mut [T], heads: &Heads) -> rope::Result<()> {
    rows.rotate(Turn::Forward, &mut ViewMut::strided(&mut x[heads.offset..], heads.shape, heads.steps)?)
}

/// Turns the gradient of rotated heads into that of the heads before, in place.
///
/// With learned frequencies, `frequencies` is (y, dθ): the heads as [`forward`] left them, in a buffer laid out as dy, and
/// what dL/dθ `[pairs]` is added to. Its sum runs in the order of memory, whatever the number of threads.
pub fn backward<T: Real>(
    rows: &Rows<T>,
    dy: &mut [T],
    heads: &Heads,
    frequencies: Option<(&[T], &mut [f64])>,
) -> rope::Result<()> {
    if let Some((y, gradient)) = frequencies {
        let y = View::strided(&y[heads.offset..], heads.shape, heads.steps)?;
        let dy = View::strided(&dy[heads.offset..], heads.shape, heads.steps)?;
        rows.frequency_gradient(&y, &dy, gradient)?;
    }
    rows.rotate(Turn::Backward, &mut ViewMut::strided(&mut dy[heads.offset..], heads.shape, heads.steps)?)
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, dot, gradient, list, on_any_threads};
    use super::*;
    use rope::{Pairing, Positions, Rope, Schedule};

    /// Queries (or keys) of rows `[q, k, v]`.
    fn heads([batch, length, heads, head_dim]: [usize; 4], part: usize) -> Heads {
        let row = 3 * heads * head_dim;
        let steps = [length * row, row, head_dim];
        Heads { offset: part * heads * head_dim, shape: [batch, length, heads, head_dim], steps }
    }

    fn rope(theta: &[f64], pairing: Pairing) -> Rope {
        let rope = Rope::builder(2 * theta.len()).pairing(pairing);
        rope.schedule(Schedule::Given(theta.to_vec())).build().unwrap()
    }

    /// The rotated rows, the gradient of the rows, that of the frequencies.
    fn run(x: &[f64], dy: &[f64], theta: &[f64], heads: &Heads, pairing: Pairing) -> [Vec<f64>; 3] {
        let table = rope(theta, pairing).table::<f64>(0..heads.shape[1] as i64 + 3, None).unwrap();
        let rows = table.at(Positions::From(3)).unwrap();
        let (mut y, mut dx, mut dtheta) = (x.to_vec(), dy.to_vec(), vec![1.0; theta.len()]);
        forward(&rows, &mut y, heads).unwrap();
        backward(&rows, &mut dx, heads, Some((&y, &mut dtheta))).unwrap();
        dtheta.iter_mut().for_each(|d| *d -= 1.0);
        [y, dx, dtheta]
    }

    #[test]
    fn gradients_are_those_of_the_rotation() {
        let pairings = [Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf];
        for (shape, pairing) in [[1, 1, 1, 2], [2, 3, 2, 6], [1, 5, 3, 10], [3, 80, 2, 32]]
            .into_iter()
            .flat_map(|shape| pairings.map(|pairing| (shape, pairing)))
        {
            let len = 3 * shape.iter().product::<usize>();
            let (x, dy) = (list::<f64>(1, len), list::<f64>(2, len));
            let theta: Vec<f64> = list::<f64>(3, shape[3] / 2).iter().map(|x| 0.4 + 0.2 * x).collect();
            for heads in [heads(shape, 0), heads(shape, 1)] {
                let [_, dx, dtheta] = run(&x, &dy, &theta, &heads, pairing);
                let loss = |x: &[f64], theta: &[f64]| dot(&run(x, &dy, theta, &heads, pairing)[0], &dy);
                gradient(&format!("{shape:?} {pairing:?} x"), &x, &dx, |x| loss(x, &theta));
                // Angles of up to 80 positions move 80 times as fast as frequencies, so scale those by the length.
                let length = (shape[1] + 3) as f64;
                let angles: Vec<f64> = theta.iter().map(|theta| theta * length).collect();
                let dangles: Vec<f64> = dtheta.iter().map(|d| d / length).collect();
                gradient(&format!("{shape:?} {pairing:?} θ"), &angles, &dangles, |angles| {
                    loss(&x, &angles.iter().map(|angle| angle / length).collect::<Vec<_>>())
                });
            }
        }
    }

    #[test]
    fn single_precision_is_near_on_any_threads() {
        let shape = [3, 80, 2, 32];
        let (len, heads) = (3 * shape.iter().product::<usize>(), heads(shape, 1));
        let theta: Vec<f64> = list(3, 16);
        let double = run(&list::<f64>(1, len), &list::<f64>(2, len), &theta, &heads, Pairing::Half);
        let table = rope(&theta, Pairing::Half).table::<f32>(0..100, None).unwrap();
        let single = on_any_threads(|| {
            let rows = table.at(Positions::From(3)).unwrap();
            let (mut y, mut dx, mut dtheta) = (list::<f32>(1, len), list::<f32>(2, len), vec![0.0; 16]);
            forward(&rows, &mut y, &heads).unwrap();
            backward(&rows, &mut dx, &heads, Some((&y, &mut dtheta))).unwrap();
            [y, dx, dtheta.iter().map(|&d| d as f32).collect()].concat()
        });
        let (vectors, frequencies) = single.split_at(2 * len);
        close("vectors", vectors, &[&double[0][..], &double[1]].concat(), 4.0);
        close("frequencies", frequencies, &double[2], 64.0);
    }
}
