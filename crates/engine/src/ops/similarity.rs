//! Losses of vectors of texts that come in pairs, and their gradients.

use super::loss::{IGNORE, mean_squared_error, softmax_cross_entropy};
use super::multiply::{Strided, Threads, multiply};
use super::real::Real;

/// What cosines are multiplied by before the softmax. Cosines differ by 2 at most: as they are, the likeliest of a hundred
/// could not have a probability of more than 7 %.
pub const SCALE: f64 = 20.0;

/// Vectors of length 1, two by two.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a, T> {
    /// `[2 · pairs, width]`: rows 2i and 2i + 1 are a pair.
    pub vectors: &'a [T],
    /// Numbers of a vector.
    pub width: usize,
    /// `[pairs]`: which of them count. The others may hold anything finite.
    pub counts: &'a [bool],
}

/// The numbers of scratch that the losses of so many rows need.
pub fn scratch(rows: usize) -> usize {
    2 * rows * rows
}

impl<T: Real> Pairs<'_, T> {
    /// The mean over all rows that count of −ln softmax(20 · cosine) at the row's partner, among all other rows that count;
    /// 0 if none does. With (dv, scale), dv `[2 · pairs, width]` becomes the gradient of `scale` times the loss.
    pub fn contrast(&self, scratch: &mut [T], gradient: Option<(&mut [T], f64)>) -> f64 {
        let (rows, width) = (2 * self.counts.len(), self.width);
        assert_eq!(self.vectors.len(), rows * width, "shapes of pairs");
        let (cosines, rest) = scratch.split_at_mut(rows * rows);
        let dcosines = &mut rest[..rows * rows];
        let vectors = Strided::rows(self.vectors, width);
        multiply(
            (cosines, rows),
            vectors,
            vectors.transposed(),
            [rows, rows, width],
            SCALE,
            false,
            Threads::All,
        );
        for (row, cosines) in cosines.chunks_mut(rows.max(1)).enumerate() {
            for (other, cosine) in cosines.iter_mut().enumerate() {
                if other == row || !self.counts[other / 2] {
                    *cosine = T::NEG_INFINITY;
                }
            }
        }
        let partner = |row: usize| if self.counts[row / 2] { row as u32 ^ 1 } else { IGNORE };
        let partners: Vec<u32> = (0..rows).map(partner).collect();
        let Some((dv, scale)) = gradient else {
            return softmax_cross_entropy(cosines, rows, &partners, None);
        };
        let loss = softmax_cross_entropy(cosines, rows, &partners, Some((dcosines, scale)));
        // A cosine is that of its row with its column, and of its column with its row.
        let dcosines = Strided::rows(dcosines, rows);
        for (dcosines, accumulate) in [(dcosines, false), (dcosines.transposed(), true)] {
            multiply((dv, width), dcosines, vectors, [rows, width, rows], SCALE, accumulate, Threads::All);
        }
        loss
    }

    /// The mean over the pairs that count of (cosine − score)², 0 if none does: scores `[pairs]`. With (dv, scale), dv
    /// `[2 · pairs, width]` becomes the gradient of `scale` times the loss.
    pub fn squared_error(&self, scores: &[f32], scratch: &mut [T], gradient: Option<(&mut [T], f64)>) -> f64 {
        let width = self.width;
        assert!(scores.len() == self.counts.len(), "shapes of pairs");
        assert_eq!(self.vectors.len(), 2 * scores.len() * width, "shapes of pairs");
        let counted = || (0..scores.len()).filter(|&pair| self.counts[pair]);
        let count = counted().count();
        let (cosines, rest) = scratch.split_at_mut(count);
        let (wanted, rest) = rest.split_at_mut(count);
        for ((cosine, wanted), pair) in cosines.iter_mut().zip(wanted.iter_mut()).zip(counted()) {
            let (a, b) = self.vectors[2 * pair * width..][..2 * width].split_at(width);
            *cosine = a.iter().zip(b).map(|(&a, &b)| a * b).sum();
            *wanted = T::of(f64::from(scores[pair]));
        }
        let Some((dv, scale)) = gradient else { return mean_squared_error(cosines, wanted, None) };
        let dcosines = &mut rest[..count];
        let loss = mean_squared_error(cosines, wanted, Some((dcosines, scale)));
        dv.fill(T::ZERO);
        for (pair, &dcosine) in counted().zip(&*dcosines) {
            let range = 2 * pair * width..2 * (pair + 1) * width;
            let (a, b) = self.vectors[range.clone()].split_at(width);
            dv[range].iter_mut().zip(b.iter().chain(a)).for_each(|(dv, &v)| *dv = dcosine * v);
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, gradient, list, on_any_threads};
    use super::*;

    /// Every fourth pair does not count.
    fn counts(pairs: usize) -> Vec<bool> {
        (0..pairs).map(|pair| pair % 4 != 2).collect()
    }

    /// Obviously right.
    fn naive(vectors: &[f64], width: usize, counts: &[bool], scores: Option<&[f32]>) -> f64 {
        let row = |row: usize| &vectors[row * width..][..width];
        let cosine = |a: usize, b: usize| row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum::<f64>();
        let counted: Vec<usize> = (0..2 * counts.len()).filter(|row| counts[row / 2]).collect();
        let losses: Vec<f64> = match scores {
            Some(scores) => {
                let firsts = counted.iter().filter(|row| *row % 2 == 0);
                firsts.map(|&row| (cosine(row, row + 1) - f64::from(scores[row / 2])).powi(2)).collect()
            }
            None => {
                let one = |&row: &usize| {
                    let others = counted.iter().filter(|&&other| other != row);
                    let total: f64 = others.map(|&other| (20.0 * cosine(row, other)).exp()).sum();
                    total.ln() - 20.0 * cosine(row, row ^ 1)
                };
                counted.iter().map(one).collect()
            }
        };
        losses.iter().sum::<f64>() / losses.len().max(1) as f64
    }

    /// Loss and gradient of half of it.
    fn run<T: Real>(pairs: usize, width: usize, is_scored: bool) -> Vec<T> {
        // Of the order of length 1, so that exponentials are those of cosines.
        let scale = T::of((width as f64).sqrt().recip());
        let vectors: Vec<T> = list::<T>(1, 2 * pairs * width).into_iter().map(|x| x * scale).collect();
        let (scores, counts) = (scores(pairs), counts(pairs));
        let all = Pairs { vectors: &vectors, width, counts: &counts };
        on_any_threads(|| {
            let mut scratch = vec![T::ONE; scratch(2 * pairs)];
            let mut dv = vec![T::ONE; vectors.len()];
            let mut loss = |gradient: Option<(&mut [T], f64)>| match is_scored {
                true => all.squared_error(&scores, &mut scratch, gradient),
                false => all.contrast(&mut scratch, gradient),
            };
            let with = loss(Some((&mut dv, 0.5)));
            assert_eq!(with, loss(None));
            [vec![T::of(with)], dv].concat()
        })
    }

    fn scores(pairs: usize) -> Vec<f32> {
        list::<f32>(2, pairs).into_iter().map(|x| x / 1.5).collect()
    }

    #[test]
    fn losses_of_pairs_and_their_gradients() {
        for (pairs, width, is_scored) in [(1, 3), (2, 1), (3, 5), (7, 33), (40, 70)]
            .into_iter()
            .flat_map(|(pairs, width)| [(pairs, width, true), (pairs, width, false)])
        {
            let out = run::<f64>(pairs, width, is_scored);
            let scale = (width as f64).sqrt().recip();
            let vectors: Vec<f64> =
                list::<f64>(1, 2 * pairs * width).into_iter().map(|x| x * scale).collect();
            let (scores, counts) = (scores(pairs), counts(pairs));
            let loss = |v: &[f64]| naive(v, width, &counts, is_scored.then_some(&scores[..]));
            let what = format!("{pairs} pairs of {width}, scores: {is_scored}");
            assert!((out[0] - loss(&vectors)).abs() < 1e-12, "{what}");
            let twice: Vec<f64> = out[1..].iter().map(|d| 2.0 * d).collect();
            gradient(&what, &vectors, &twice, loss);
            let single = run::<f32>(pairs, width, is_scored);
            // Cosines are rounded width times, and the softmax turns 20 of them into relative error.
            let units = 20.0 * (width as f64 + 4.0);
            close(&what, &single[..1], &out[..1], units);
            close(&what, &single[1..], &out[1..], units);
        }
    }

    #[test]
    fn without_pairs_that_count_all_is_zero() {
        let pairs = Pairs { vectors: &[0.5f32; 8], width: 2, counts: &[false; 2] };
        let (mut scratch, mut dv) = ([3.0; 32], [5.0; 8]);
        assert_eq!(pairs.contrast(&mut scratch, Some((&mut dv, 1.0))), 0.0);
        assert_eq!(dv, [0.0; 8]);
        dv.fill(5.0);
        assert_eq!(pairs.squared_error(&[1.0; 2], &mut scratch, Some((&mut dv, 1.0))), 0.0);
        assert_eq!(dv, [0.0; 8]);
    }
}
