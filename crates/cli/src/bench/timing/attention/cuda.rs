//! The same on a GPU: softmax attention in `bf16`, forward and backward, as a training step runs it.

use super::super::{median, quantile};
use rayon::prelude::*;
use roformer::ops::cuda::{Arithmetic, Cuda, Solo, SoloResults, SoloShape};
use roformer::{Error, Result};

/// Tokens of a batch, and features of all its heads.
const TOKENS: usize = 16_384;
const WIDTH: usize = 2048;
/// Tokens of a sequence.
pub const LENGTHS: [usize; 3] = [512, 2048, 8192];
/// Features of a head.
pub const HEAD_DIMS: [usize; 2] = [64, 128];
/// Rounds of which the median counts.
const ROUNDS: usize = 11;
/// Tokens whose results and gradients are checked, in two heads.
const CHECKED: usize = 5;
/// How far checked numbers may be off, of their norm: some units of rounding to 8 bits.
const BOUND: f64 = 1.5e-2;

/// What the benchmark reports, in this order.
#[derive(Clone, Debug)]
pub enum Line {
    /// The GPU, and what computes there.
    Device {
        /// Its name.
        name: String,
        /// Where its kernels come from.
        origin: String,
    },
    /// A measurement.
    Sample(Sample),
}

/// One shape.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was computed.
    pub shape: SoloShape,
    /// What computed it.
    pub by: String,
    /// Results, and gradients.
    pub ways: [Time; 2],
    /// Memory that it works in, in MB.
    pub workspace_mb: f64,
    /// How far results and gradients are from `f64`, of their norms: the larger.
    pub error: f64,
}

/// How long one way takes.
#[derive(Clone, Debug)]
pub struct Time {
    /// Microseconds: the median.
    pub us: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// Million million floating-point operations per second, of two products of every query and key that meet forward, and of
    /// five backward.
    pub tflops: f64,
}

/// Measures every shape on a GPU; `report` sees each line as it comes. A result that is wrong is an error.
pub fn run(number: usize, mut report: impl FnMut(Line)) -> Result<()> {
    let gpu = Cuda::new(number, Arithmetic::Bf16)?;
    let origin = format!("{}, {}", gpu.origin(), gpu.attention_origin());
    report(Line::Device { name: gpu.device().to_string(), origin });
    for is_causal in [false, true] {
        for head_dim in HEAD_DIMS {
            for length in LENGTHS {
                let heads = WIDTH / head_dim;
                let shape = SoloShape {
                    batch: TOKENS / length,
                    length,
                    heads,
                    key_heads: heads,
                    head_dim,
                    is_causal,
                };
                report(Line::Sample(measure(&gpu, shape)?));
            }
        }
    }
    Ok(())
}

fn measure(gpu: &Cuda, shape: SoloShape) -> Result<Sample> {
    let numbers = |seed: u32, count: usize| -> Vec<f32> {
        (0..count as u64).into_par_iter().map(|index| short(super::number(seed, index))).collect()
    };
    let (joined, slope) = (numbers(1, shape.joined()), numbers(2, shape.out()));
    let mut solo = Solo::new(gpu, shape, &joined, &slope)?;
    let error = Exact { shape, joined: &joined, slope: &slope }.error(&solo.results()?);
    if error.is_nan() || error > BOUND {
        let value = format!("off by {error:.1e} at {shape:?}");
        return Err(Error::input("a timed attention", value, format!("{BOUND:.1e} of the norm, at most")));
    }
    let pairs = match shape.is_causal {
        true => shape.length * (shape.length + 1) / 2,
        false => shape.length * shape.length,
    };
    let product = 2.0 * (shape.batch * shape.heads * shape.head_dim) as f64 * pairs as f64;
    let mut time = |is_backward: bool| -> Result<Time> {
        let times = solo.milliseconds(is_backward, ROUNDS)?;
        let (us, products) = (median(&times) * 1e3, if is_backward { 5.0 } else { 2.0 });
        let quartiles = (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3);
        Ok(Time { us, quartiles, tflops: products * product / us / 1e6 })
    };
    let ways = [time(false)?, time(true)?];
    Ok(Sample { shape, by: solo.origin(), ways, workspace_mb: solo.workspace() as f64 / 1e6, error })
}

/// Rounds to `bf16`.
fn short(x: f64) -> f32 {
    let bits = (x as f32).to_bits();
    f32::from_bits(((u64::from(bits) + 0x7fff + u64::from(bits >> 16 & 1)) as u32) & 0xffff_0000)
}

/// The definition in `f64`.
struct Exact<'a> {
    shape: SoloShape,
    joined: &'a [f32],
    slope: &'a [f32],
}

/// What has been found and what is right, summed up.
#[derive(Default)]
struct Off {
    apart: f64,
    whole: f64,
}

impl Off {
    fn add(&mut self, got: &[f32], exact: &[f64]) {
        for (&got, &exact) in got.iter().zip(exact) {
            self.apart += (f64::from(got) - exact).powi(2);
            self.whole += exact.powi(2);
        }
    }

    fn part(&self) -> f64 {
        (self.apart / self.whole).sqrt()
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

impl Exact<'_> {
    /// Where the vector of a token is in the joined rows: of queries (0), keys (1) and values (2) of a head.
    fn place(&self, what: usize, token: usize, head: usize) -> std::ops::Range<usize> {
        let SoloShape { heads, head_dim, .. } = self.shape;
        let start = (token * 3 * heads + what * heads + head) * head_dim;
        start..start + head_dim
    }

    fn vector(&self, what: usize, token: usize, head: usize) -> &[f32] {
        &self.joined[self.place(what, token, head)]
    }

    /// A head of a token among results, and their gradient.
    fn row(&self, token: usize, head: usize) -> std::ops::Range<usize> {
        let SoloShape { heads, head_dim, .. } = self.shape;
        let start = (token * heads + head) * head_dim;
        start..start + head_dim
    }

    /// The larger part by which results, logarithms of sums and gradients of some tokens are off. Gradients of keys and values are
    /// sums over all queries: there the logarithms and the results are taken that were given, which are checked themselves.
    fn error(&self, got: &SoloResults) -> f64 {
        let SoloShape { batch, length, heads, head_dim, is_causal, .. } = self.shape;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let mut off: [Off; 5] = Default::default();
        for (text, head) in [(0, 0), (batch - 1, heads - 1)] {
            let first = text * length;
            for step in 0..CHECKED {
                let own = step * (length - 1) / (CHECKED - 1);
                let seen = if is_causal { own + 1 } else { length };
                let query = self.vector(0, first + own, head);
                let scores: Vec<f64> =
                    (0..seen).map(|key| scale * dot(query, self.vector(1, first + key, head))).collect();
                let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
                let lse = largest + total.ln();
                let (mut out, mut query_slope) = (vec![0.0; head_dim], vec![0.0; head_dim]);
                let slope = &self.slope[self.row(first + own, head)];
                let weights: Vec<f64> = scores.iter().map(|score| (score - lse).exp()).collect();
                let along = |key: usize| dot(slope, self.vector(2, first + key, head));
                for (key, &weight) in weights.iter().enumerate() {
                    let value = self.vector(2, first + key, head);
                    out.iter_mut().zip(value).for_each(|(out, &v)| *out += weight * f64::from(v));
                }
                let delta: f64 = out.iter().zip(slope).map(|(&o, &s)| o * f64::from(s)).sum();
                for (key, &weight) in weights.iter().enumerate() {
                    let factor = scale * weight * (along(key) - delta);
                    let vector = self.vector(1, first + key, head);
                    query_slope.iter_mut().zip(vector).for_each(|(to, &k)| *to += factor * f64::from(k));
                }
                off[0].add(&got.out[self.row(first + own, head)], &out);
                off[1].add(&[got.lse[(first + own) * heads + head]], &[lse]);
                off[2].add(&got.gradient[self.place(0, first + own, head)], &query_slope);

                let (mut key_slope, mut value_slope) = (vec![0.0; head_dim], vec![0.0; head_dim]);
                let (key, value) = (self.vector(1, first + own, head), self.vector(2, first + own, head));
                for other in first + if is_causal { own } else { 0 }..first + length {
                    let (query, row) = (self.vector(0, other, head), self.row(other, head));
                    let slope = &self.slope[row.clone()];
                    let lse = f64::from(got.lse[other * heads + head]);
                    let weight = (scale * dot(query, key) - lse).exp();
                    let factor = scale * weight * (dot(slope, value) - dot(slope, &got.out[row]));
                    key_slope.iter_mut().zip(query).for_each(|(to, &q)| *to += factor * f64::from(q));
                    value_slope.iter_mut().zip(slope).for_each(|(to, &s)| *to += weight * f64::from(s));
                }
                off[3].add(&got.gradient[self.place(1, first + own, head)], &key_slope);
                off[4].add(&got.gradient[self.place(2, first + own, head)], &value_slope);
            }
        }
        off.iter().map(Off::part).fold(0.0, |a, b| if b.is_nan() { b } else { b.max(a) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition applied to itself is not off, and something else is.
    #[test]
    fn the_check_tells_right_from_wrong() {
        let shape = SoloShape { batch: 2, length: 9, heads: 2, key_heads: 2, head_dim: 4, is_causal: true };
        let list = |seed: u32, len: usize| -> Vec<f32> {
            (0..len as u64).map(|index| short(super::super::number(seed, index))).collect()
        };
        let (joined, slope) = (list(1, shape.joined()), list(2, shape.out()));
        let right = naive(shape, &joined, &slope);
        let exact = Exact { shape, joined: &joined, slope: &slope };
        assert!(exact.error(&right) < 1e-5, "{}", exact.error(&right));
        for index in 0..3 {
            let mut wrong = right.clone();
            let list = [&mut wrong.out, &mut wrong.lse, &mut wrong.gradient].into_iter().nth(index);
            list.unwrap().iter_mut().for_each(|x| *x *= 1.05);
            assert!(exact.error(&wrong) > BOUND, "{index}");
        }
        assert_eq!([short(1.0), short(1.003), short(1.006)], [1.0, 1.0, 1.0078125]);
    }

    /// Everything by everything.
    fn naive(shape: SoloShape, joined: &[f32], slope: &[f32]) -> SoloResults {
        let exact = Exact { shape, joined, slope };
        let SoloShape { batch, length, heads, head_dim, .. } = shape;
        let scale = 1.0 / (head_dim as f64).sqrt();
        let mut out = vec![0.0; shape.out()];
        let (mut lse, mut gradient) = (vec![0.0; batch * length * heads], vec![0.0; shape.joined()]);
        for (text, head) in (0..batch).flat_map(|text| (0..heads).map(move |head| (text, head))) {
            for query in text * length..(text + 1) * length {
                let keys = text * length..=query;
                let score = |key| scale * dot(exact.vector(0, query, head), exact.vector(1, key, head));
                let total: f64 = keys.clone().map(|key| score(key).exp()).sum();
                lse[query * heads + head] = total.ln() as f32;
                let row = exact.row(query, head);
                for key in keys.clone() {
                    let weight = score(key).exp() / total;
                    for d in 0..head_dim {
                        out[row.start + d] += (weight * f64::from(exact.vector(2, key, head)[d])) as f32;
                    }
                }
                let slope = &slope[row.clone()];
                let delta = dot(slope, &out[row]);
                for key in keys {
                    let weight = score(key).exp() / total;
                    let factor = scale * weight * (dot(slope, exact.vector(2, key, head)) - delta);
                    let [q, k, v] =
                        [(0, query), (1, key), (2, key)].map(|(what, token)| exact.place(what, token, head));
                    for d in 0..head_dim {
                        gradient[q.start + d] += (factor * f64::from(joined[k.start + d])) as f32;
                        gradient[k.start + d] += (factor * f64::from(joined[q.start + d])) as f32;
                        gradient[v.start + d] += (weight * f64::from(slope[d])) as f32;
                    }
                }
            }
        }
        SoloResults { out, lse, gradient }
    }
}
