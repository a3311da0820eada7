//! Feature maps: φ in the weight φ(q)·φ(k).

use super::Favor;
use super::rows::{self, dot};
use crate::ops::Real;
use crate::ops::dispatch::vectorised;
use rayon::prelude::*;

/// A feature map, row by row: `[batch, length, heads, head_dim]` → `[batch, length, heads, features]`. Queries and keys may
/// have different ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Map<T> {
    /// elu(x) + 1: x + 1 above 0, e^x below. Positive; what RoFormer and fast-transformers use.
    Elu1,
    /// e^x_f / Σ_f e^x_f over the features of a row; for queries. With [`Exp`](Map::Exp) keys it is RoFormer's second choice.
    /// The sum of a row cancels between numerator and denominator, so `Exp` for queries gives the same attention.
    Softmax,
    /// e^(x − shift); for keys. See [`Shift`].
    Exp,
    /// Random features whose inner products are e^(q·k/√head_dim) on average.
    Favor(Favor<T>),
}

/// What is subtracted from the exponents of [`Map::Exp`] and [`Map::Favor`], which overflow without: in `f32` beyond 88. The
/// other maps need none and ignore it.
///
/// A shift multiplies features by e^(−shift). That cancels between the numerator and the denominator of
/// an attention, as long as all keys of a head have the same one (a query may have its own) and `eps` is 0. So its
/// gradient is 0 and [`Map::backward`] takes it for a constant.
///
/// A maximum over all keys looks at keys that a causal query may not see. They change the rounding of its output, not its
/// value; where one key is larger than another by 88, the smaller has a feature of 0 in `f32`.
/// A decoder, which cannot know later keys, has `Head` with the maximum so far, and
/// [`State::rescale`](super::State::rescale) when a larger key comes.
#[derive(Debug)]
pub enum Shift<'a, T> {
    /// Nothing.
    None,
    /// The largest exponent of each row; for queries.
    Row,
    /// These, `[batch, heads]`.
    Head(&'a [T]),
    /// The largest exponent of each head over all keys that are there; for keys. Padding gets features of 0.
    Largest {
        /// `[batch, length]`: whether a key is there. All are if there is no mask.
        keys: Option<&'a [bool]>,
        /// Where the maxima go, `[batch, heads]`: a decoder goes on from there. 0 where no key is.
        shifts: &'a mut [T],
    },
}

/// Rows worked on at a time.
const BLOCK: usize = 128;

impl<T: Real> Map<T> {
    /// How many features it makes of a head.
    pub fn features(&self, head_dim: usize) -> usize {
        match self {
            Map::Favor(favor) => favor.features(),
            _ => head_dim,
        }
    }

    /// out = φ(x): x `[batch, length, heads, head_dim]`, out `[batch, length, heads, features]`. A row depends on itself alone
    /// and on its shift.
    pub fn forward(&self, sizes: [usize; 3], x: &[T], shift: Shift<T>, out: &mut [T]) {
        let rows: usize = sizes.iter().product();
        if rows == 0 {
            assert!(x.is_empty() && out.is_empty(), "the shape of a feature map");
            return;
        }
        let dim = x.len() / rows;
        let features = self.features(dim);
        assert!(dim > 0 && x.len() == rows * dim, "the input of a feature map");
        assert_eq!(out.len(), rows * features, "the output of a feature map");
        match self {
            Map::Elu1 => {
                let blocks = out.par_chunks_mut(BLOCK * dim).zip(x.par_chunks(BLOCK * dim));
                blocks.for_each(|(out, x)| elu1(x, out));
            }
            Map::Softmax => {
                let rows = out.par_chunks_exact_mut(dim).zip(x.par_chunks_exact(dim)).with_min_len(BLOCK);
                rows.for_each(|(out, x)| softmax(x, out));
            }
            Map::Exp => {
                out.copy_from_slice(x);
                exponentials(sizes, shift, out, (T::ONE, T::ZERO));
            }
            Map::Favor(favor) => {
                favor.exponents(x, out);
                exponentials(sizes, shift, out, (favor.scale(), favor.eps()));
            }
        }
    }

    /// dx `[.., head_dim]`, from x, y = φ(x) as [`forward`](Map::forward) gave it, and dy `[.., features]`, which is used up: what
    /// is in it afterwards is of no use. `rows` is how many vectors there are, batch · length · heads.
    pub fn backward(&self, rows: usize, x: &[T], y: &[T], dy: &mut [T], dx: &mut [T]) {
        assert!(dx.len() == x.len() && dy.len() == y.len(), "the gradients of a feature map");
        if rows == 0 || x.is_empty() {
            return;
        }
        let dim = x.len() / rows;
        assert!(x.len() == rows * dim, "the input of a feature map");
        assert_eq!(y.len(), rows * self.features(dim), "the output of a feature map");
        if let Map::Favor(favor) = self {
            return favor.backward(x, y, dy, dx);
        }
        let rows = dx.par_chunks_exact_mut(dim).zip(x.par_chunks_exact(dim));
        let rows = rows.zip(y.par_chunks_exact(dim).zip(dy.par_chunks_exact(dim)));
        rows.with_min_len(BLOCK).for_each(|((dx, x), (y, dy))| {
            let mean = if matches!(self, Map::Softmax) { dot(y, dy) } else { T::ZERO };
            for (((dx, &x), &y), &dy) in dx.iter_mut().zip(x).zip(y).zip(dy) {
                // elu + 1 is e^x = y below 0.
                let derivative = if matches!(self, Map::Elu1) && x > T::ZERO { T::ONE } else { y };
                *dx = derivative * (dy - mean);
            }
        });
    }
}

/// x ← scale·(e^(x − shift) + eps), x `[batch, length, heads, features]`.
fn exponentials<T: Real>(
    [batch, length, heads]: [usize; 3],
    shift: Shift<T>,
    x: &mut [T],
    (scale, eps): (T, T),
) {
    let features = x.len() / (batch * length * heads);
    let (mut given, mut padding): (Option<&[T]>, Option<&[bool]>) = (None, None);
    let own = matches!(shift, Shift::Row);
    match shift {
        Shift::None | Shift::Row => {}
        Shift::Head(shifts) => given = Some(shifts),
        Shift::Largest { keys, shifts } => {
            assert!(keys.is_none_or(|keys| keys.len() == batch * length), "an entry for every key");
            assert_eq!(shifts.len(), batch * heads, "a shift for every head");
            let x = &*x;
            shifts.par_iter_mut().enumerate().for_each(|(task, shift)| {
                let (sequence, head) = (task / heads, task % heads);
                let tokens = sequence * length..(sequence + 1) * length;
                let real = tokens.filter(|&token| keys.is_none_or(|keys| keys[token]));
                let rows = real.map(|token| &x[(token * heads + head) * features..][..features]);
                let most = rows.fold(T::NEG_INFINITY, |most, row| largest(row).maximum(most));
                *shift = if most == T::NEG_INFINITY { T::ZERO } else { most };
            });
            (given, padding) = (Some(&*shifts), keys);
        }
    }
    assert!(given.is_none_or(|shifts| shifts.len() == batch * heads), "a shift for every head");
    x.par_chunks_exact_mut(features).with_min_len(BLOCK).enumerate().for_each(|(row, x)| {
        let (token, head) = (row / heads, row % heads);
        if padding.is_some_and(|keys| !keys[token]) {
            return x.fill(T::ZERO);
        }
        let shift = match given {
            Some(shifts) => shifts[token / length * heads + head],
            None if own => largest(x),
            None => T::ZERO,
        };
        rows::exponentials(x, shift, scale, eps);
    });
}

vectorised! { fn elu1<T>(x: &[T], out: &mut [T]) = elu1_all }
vectorised! { fn softmax<T>(x: &[T], out: &mut [T]) = softmax_row }

/// out = elu(x) + 1
#[inline(always)]
fn elu1_all<T: Real>(x: &[T], out: &mut [T]) {
    for (out, &x) in out.iter_mut().zip(x) {
        let below = x.exp();
        *out = if x > T::ZERO { x + T::ONE } else { below };
    }
}

/// out = e^x / Σ e^x
#[inline(always)]
fn softmax_row<T: Real>(x: &[T], out: &mut [T]) {
    let largest = largest(x);
    for (out, &x) in out.iter_mut().zip(x) {
        *out = (x - largest).exp();
    }
    let total: T = out.iter().copied().sum();
    out.iter_mut().for_each(|x| *x = *x / total);
}

/// The largest of some numbers.
#[inline(always)]
fn largest<T: Real>(x: &[T]) -> T {
    x.iter().fold(T::NEG_INFINITY, |largest, &x| x.maximum(largest))
}
