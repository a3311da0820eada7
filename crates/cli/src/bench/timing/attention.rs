//! `roformer bench attention`: softmax attention beside linear attention, and the length from which the latter wins.

#[cfg(feature = "cuda")]
pub mod cuda;

use super::{median, quantile, seconds};
use ::rope::{Positions, Rope, Table, Turn, View, ViewMut};
use roformer::attention::linear::{self, Inputs, Map, Options, Shift};
use roformer::attention::softmax::{self, Heads, Mask, Reach};
use roformer::ops::{Memory, Real};
use roformer::{Error, Result};

/// Heads of the benchmark.
pub const HEADS: usize = 12;
/// Features of a head, of values too.
pub const HEAD_DIM: usize = 64;
/// Tokens of each line.
pub const LENGTHS: [usize; 10] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];
/// The longest that [`Kind::LinearBias`] is measured at.
pub const LONGEST_BIAS: usize = 1024;
/// Rounds of which the median counts, unless they take long.
pub const ROUNDS: usize = 9;
/// What takes longer than this many seconds is measured once.
pub const PATIENCE: f64 = 2.0;
/// Tokens of the check before the timing: no whole number of anyone's blocks.
const CHECKED: usize = 203;
const WIDTH: usize = HEADS * HEAD_DIM;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// softmax(q·kᵀ/√d)·v in blocks.
    Softmax,
    /// Linear attention with elu + 1 features, which are made within the time.
    Linear,
    /// The same with features that are rotated in the numerator, within the time too.
    LinearRotary,
    /// Linear attention with a bias on its scores, as T5 has it: every query against every key.
    LinearBias,
}

impl Kind {
    /// All, in the order of the output.
    pub const ALL: [Kind; 4] = [Kind::Softmax, Kind::Linear, Kind::LinearRotary, Kind::LinearBias];

    /// As in the output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Softmax => "softmax",
            Kind::Linear => "linear",
            Kind::LinearRotary => "linear+rotary",
            Kind::LinearBias => "linear+bias",
        }
    }

    /// Multiplications and additions that the definition asks for.
    fn operations(self, length: usize, causal: bool) -> f64 {
        let (length, dim) = (length as f64, HEAD_DIM as f64);
        let pairs = if causal { length * (length + 1.0) / 2.0 } else { length * length };
        HEADS as f64
            * match self {
                Kind::Softmax => 4.0 * pairs * dim,
                Kind::Linear | Kind::LinearRotary => 4.0 * length * dim * (dim + 1.0),
                Kind::LinearBias => 6.0 * pairs * dim,
            }
    }
}

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What was timed.
    pub kind: Kind,
    /// Whether a query sees the keys up to its own alone.
    pub causal: bool,
    /// Tokens.
    pub length: usize,
    /// Milliseconds: the median.
    pub ms: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// How often it was measured.
    pub rounds: usize,
    /// What the operation holds beside its inputs and its output, in MB: features, tables, biases and workspace.
    pub memory_mb: f64,
    /// Tokens per second.
    pub tokens_s: f64,
    /// Thousand million multiplications and additions that the definition asks for, a second.
    pub gflops: f64,
}

/// From where on linear attention is the faster one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossover {
    /// From the shortest length that was measured, or a shorter one.
    AtMost(usize),
    /// From about this length on.
    From(f64),
    /// At no length up to the longest that was measured.
    Never(usize),
}

impl Crossover {
    /// Of some lengths, ascending, with the times of softmax and of linear attention. Between two lengths the logarithm of
    /// the times' ratio is taken to be a line over the logarithm of the length.
    pub fn of(times: &[(usize, f64, f64)]) -> Self {
        let gain = |&(_, softmax, linear): &(usize, f64, f64)| (softmax / linear).ln();
        // NaN is no win.
        let wins = times.iter().rev().take_while(|&time| gain(time) > 0.0).count();
        let lost = times.len() - wins;
        match (times.get(lost.wrapping_sub(1)), times.get(lost)) {
            (_, None) => Crossover::Never(times.last().map_or(0, |&(length, ..)| length)),
            (None, Some(&(length, ..))) => Crossover::AtMost(length),
            (Some(before), Some(after)) => {
                let part = gain(before) / (gain(before) - gain(after));
                let ratio = after.0 as f64 / before.0 as f64;
                Crossover::From(before.0 as f64 * ratio.powf(part))
            }
        }
    }
}

/// What the benchmark has to say.
#[derive(Clone, Debug)]
pub enum Line {
    /// What is measured next.
    Next {
        /// Whether causal.
        causal: bool,
        /// Tokens.
        length: usize,
    },
    /// A measurement.
    Sample(Sample),
    /// Where one kind of linear attention overtakes softmax attention.
    Crossover {
        /// The kind.
        kind: Kind,
        /// Whether causal.
        causal: bool,
        /// Where.
        at: Crossover,
    },
}

/// Checks all kinds, then measures every length on the current rayon pool; `report` sees each line as it comes. A result
/// that is wrong is an error.
pub fn run(mut report: impl FnMut(Line)) -> Result<()> {
    check()?;
    let mut bench = Bench::<f32>::new(LENGTHS[LENGTHS.len() - 1], LONGEST_BIAS)?;
    let mut crossovers = Vec::new();
    for causal in [false, true] {
        let mut times = Vec::new();
        for length in LENGTHS {
            report(Line::Next { causal, length });
            let samples = bench.measure(length, causal)?;
            times.push([Kind::Softmax, Kind::Linear, Kind::LinearRotary].map(|kind| {
                samples.iter().find(|sample| sample.kind == kind).map_or(f64::NAN, |sample| sample.ms)
            }));
            samples.into_iter().for_each(|sample| report(Line::Sample(sample)));
        }
        for (kind, index) in [(Kind::Linear, 1), (Kind::LinearRotary, 2)] {
            let times: Vec<_> = LENGTHS.iter().zip(&times).map(|(&l, t)| (l, t[0], t[index])).collect();
            crossovers.push(Line::Crossover { kind, causal, at: Crossover::of(&times) });
        }
    }
    crossovers.into_iter().for_each(report);
    Ok(())
}

/// Inputs `[1, length, heads, head_dim]` and all that the kinds hold. A shorter sequence is the beginning of the longest.
struct Bench<T> {
    q: Memory<T>,
    k: Memory<T>,
    v: Memory<T>,
    out: Memory<T>,
    /// φ(q) and φ(k).
    features: [Memory<T>; 2],
    /// The same, rotated.
    rotated: [Memory<T>; 2],
    table: Table<T>,
    /// `[heads, length, length]` of the longest length that has one.
    bias: Memory<T>,
    softmax: softmax::Workspace<T>,
    linear: linear::Workspace<T>,
}

impl<T: Real + ::rope::Element<Table = T>> Bench<T> {
    fn new(longest: usize, longest_bias: usize) -> Result<Self> {
        let no_memory = || Error::memory("the benchmark's inputs");
        let list = |seed: u32, len: usize| -> Result<Memory<T>> {
            let mut list = Memory::zeros(len).ok_or_else(no_memory)?;
            list.iter_mut().zip(0..).for_each(|(x, index)| *x = T::of(number(seed, index)));
            Ok(list)
        };
        let len = longest * WIDTH;
        let mut v = list(3, len)?;
        // Positive values, so that outputs are far from 0.
        v.iter_mut().for_each(|x| *x = x.abs());
        Ok(Bench {
            q: list(1, len)?,
            k: list(2, len)?,
            v,
            out: list(4, len)?,
            features: [list(5, len)?, list(6, len)?],
            rotated: [list(7, len)?, list(8, len)?],
            table: Rope::builder(HEAD_DIM).build()?.table(0..longest as i64, None)?,
            bias: list(9, HEADS * longest_bias * longest_bias)?,
            softmax: softmax::Workspace::new().ok_or_else(no_memory)?,
            linear: linear::Workspace::new().ok_or_else(no_memory)?,
        })
    }

    /// Runs a kind on the first `length` tokens.
    fn attend(&mut self, kind: Kind, length: usize, causal: bool) -> Result<()> {
        let len = length * WIDTH;
        let (q, k, v) = (&self.q[..len], &self.k[..len], &self.v[..len]);
        let out = &mut self.out[..len];
        let done = if kind == Kind::Softmax {
            let shape = softmax::Shape {
                batch: 1,
                queries: length,
                keys: length,
                heads: HEADS,
                key_heads: HEADS,
                head_dim: HEAD_DIM,
            };
            let heads = |data| Heads { data, token: WIDTH, sequence: len };
            let reach = if causal { Reach::Causal } else { Reach::All };
            let mask = Mask { reach, ..Mask::default() };
            softmax::attend(&shape, (heads(q), heads(k), heads(v)), &mask, None, out, &self.softmax)
        } else {
            let [qd, kd] = &mut self.features;
            for (x, features) in [(q, &mut *qd), (k, &mut *kd)] {
                Map::Elu1.forward([1, length, HEADS], x, Shift::None, &mut features[..len]);
            }
            let (qd, kd) = (&qd[..len], &kd[..len]);
            let (mut qn, mut kn) = (qd, kd);
            if kind == Kind::LinearRotary {
                let rows = self.table.at(Positions::From(0))?;
                let shape = [1, length, HEADS, HEAD_DIM];
                for (x, rotated) in [qd, kd].into_iter().zip(&mut self.rotated) {
                    let mut rotated = ViewMut::blhd(&mut rotated[..len], shape)?;
                    rows.rotate_to(Turn::Forward, &View::blhd(x, shape)?, &mut rotated)?;
                }
                [qn, kn] = self.rotated.each_ref().map(|rotated| &rotated[..len]);
            }
            let shape =
                linear::Shape { batch: 1, length, heads: HEADS, features: HEAD_DIM, value_dim: HEAD_DIM };
            let inputs = Inputs { qn, kn, qd, kd, v };
            let options = Options { causal, ..Options::default() };
            if kind == Kind::LinearBias {
                let bias = &self.bias[..HEADS * length * length];
                linear::quadratic(&shape, &inputs, &options, Some(bias), out);
                true
            } else {
                linear::attend(&shape, &inputs, &options, out, &mut self.linear)
            }
        };
        if done { Ok(()) } else { Err(Error::memory("an attention")) }
    }

    /// Bytes that a kind holds beside inputs and output.
    fn bytes(&self, kind: Kind, length: usize) -> usize {
        let features = 2 * length * WIDTH;
        let numbers = match kind {
            Kind::Softmax => {
                rayon::current_num_threads().min(HEADS) * softmax::numbers_per_thread::<T>(length, HEAD_DIM)
            }
            Kind::Linear => features,
            Kind::LinearRotary => 2 * features + length * HEAD_DIM,
            Kind::LinearBias => features + HEADS * length * length,
        };
        let shape = linear::Shape { batch: 1, length, heads: HEADS, features: HEAD_DIM, value_dim: HEAD_DIM };
        let workspace = match kind {
            Kind::Linear | Kind::LinearRotary => linear::Workspace::<T>::bytes_for(&shape),
            _ => 0,
        };
        numbers * size_of::<T>() + workspace
    }

    /// All kinds at one length, round by round.
    fn measure(&mut self, length: usize, causal: bool) -> Result<Vec<Sample>> {
        let kinds = Kind::ALL.into_iter().filter(|&kind| kind != Kind::LinearBias || length <= LONGEST_BIAS);
        let mut kinds: Vec<(Kind, Vec<f64>)> = kinds.map(|kind| (kind, Vec::new())).collect();
        for round in 0..=ROUNDS {
            for (kind, times) in &mut kinds {
                // The first round warms up caches, pages and threads; if it takes long it is the measurement.
                if round > 0 && times[0] > PATIENCE {
                    continue;
                }
                let mut outcome = Ok(());
                let time = seconds(|| outcome = self.attend(*kind, length, causal));
                outcome?;
                if round == 1 {
                    times.clear();
                }
                times.push(time);
            }
        }
        let sample = |(kind, times): (Kind, Vec<f64>)| {
            let time = median(&times);
            Sample {
                kind,
                causal,
                length,
                ms: time * 1e3,
                quartiles: (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3),
                rounds: times.len(),
                memory_mb: self.bytes(kind, length) as f64 / 1e6,
                tokens_s: length as f64 / time,
                gflops: kind.operations(length, causal) / time / 1e9,
            }
        };
        Ok(kinds.into_iter().map(sample).collect())
    }
}

/// Compares all kinds in `f32` with their definitions in `f64` on a short sequence.
pub fn check() -> Result<()> {
    let mut narrow = Bench::<f32>::new(CHECKED, CHECKED)?;
    let wide = Bench::<f64>::new(CHECKED, CHECKED)?;
    for causal in [false, true] {
        for kind in Kind::ALL {
            narrow.attend(kind, CHECKED, causal)?;
            let exact = definition(&wide, kind, causal)?;
            compare(&narrow.out, &exact)?;
        }
    }
    Ok(())
}

/// An error unless all numbers agree as far as `f32` carries.
fn compare(got: &[f32], exact: &[f64]) -> Result<()> {
    let is_close = |(&got, &exact): (&f32, &f64)| (f64::from(got) - exact).abs() <= 1e-5;
    match got.iter().zip(exact).find(|&pair| !is_close(pair)) {
        None if got.len() == exact.len() => Ok(()),
        None => Err(Error::input("a timed attention", got.len(), format!("{} numbers", exact.len()))),
        Some((got, exact)) => Err(Error::input(
            "a timed attention",
            format!("{got} where {exact} is right"),
            "its definition's value",
        )),
    }
}

/// What a kind is to give, every query against every key.
fn definition(bench: &Bench<f64>, kind: Kind, causal: bool) -> Result<Vec<f64>> {
    let (q, k, v) = (&bench.q[..], &bench.k[..], &bench.v[..]);
    let elu1 = |x: f64| if x > 0.0 { x + 1.0 } else { x.exp() };
    let theta = bench.table.rope().frequencies(None);
    let row =
        |x: &[f64], token: usize, head: usize| x[token * WIDTH + head * HEAD_DIM..][..HEAD_DIM].to_vec();
    let features = |x: &[f64], token, head| row(x, token, head).into_iter().map(elu1).collect::<Vec<f64>>();
    let turned = |x: &[f64], token: usize| {
        let pairing = bench.table.rope().pairing();
        ::rope::reference::rotate(x, token as f64, theta.inv_freq(), 1.0, pairing)
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut out = vec![0.0; CHECKED * WIDTH];
    for head in 0..HEADS {
        let (fq, fk): (Vec<_>, Vec<_>) =
            (0..CHECKED).map(|token| (features(q, token, head), features(k, token, head))).unzip();
        let turn = |x: &[Vec<f64>]| x.iter().zip(0..).map(|(x, token)| turned(x, token)).collect::<Vec<_>>();
        let (rq, rk) = (turn(&fq), turn(&fk));
        for i in 0..CHECKED {
            let out = &mut out[i * WIDTH + head * HEAD_DIM..][..HEAD_DIM];
            let mut total = if kind == Kind::Softmax { 0.0 } else { Options::default().eps };
            for j in 0..if causal { i + 1 } else { CHECKED } {
                let plain = dot(&fq[i], &fk[j]);
                let (weight, part) = match kind {
                    Kind::Softmax => {
                        let scale = (HEAD_DIM as f64).sqrt();
                        let weight = (dot(&row(q, i, head), &row(k, j, head)) / scale).exp();
                        (weight, weight)
                    }
                    Kind::Linear => (plain, plain),
                    Kind::LinearRotary => (dot(&rq[i], &rk[j]), plain),
                    Kind::LinearBias => {
                        let factor = bench.bias[(head * CHECKED + i) * CHECKED + j].exp();
                        (factor * plain, factor * plain)
                    }
                };
                total += part;
                out.iter_mut().zip(row(v, j, head)).for_each(|(out, v)| *out += weight * v);
            }
            out.iter_mut().for_each(|x| *x /= total);
        }
    }
    Ok(out)
}

/// Numbers between −2 and 2 that differ everywhere, the same in `f32` and `f64`.
fn number(seed: u32, index: u64) -> f64 {
    let mut z = (u64::from(seed) << 40 ^ index).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z >> 40) as f64 / f64::from(1 << 22) - 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_what_their_definitions_say() {
        check().unwrap();
    }

    #[test]
    fn a_wrong_result_is_refused() {
        let exact = [0.5, 0.25, 0.125];
        assert!(compare(&[0.5, 0.25, 0.125], &exact).is_ok());
        assert!(compare(&[0.5, 0.250_005, 0.125], &exact).is_ok());
        let wrong = [&[0.5, 0.2501, 0.125][..], &[0.5, f32::NAN, 0.125], &[0.5, 0.25]];
        assert!(wrong.iter().all(|got| compare(got, &exact).is_err()));
        // A definition of something else is told from the right one.
        let mut bench = Bench::<f32>::new(CHECKED, CHECKED).unwrap();
        let wide = Bench::<f64>::new(CHECKED, CHECKED).unwrap();
        bench.attend(Kind::Linear, CHECKED, true).unwrap();
        for (kind, causal) in [(Kind::Linear, false), (Kind::LinearRotary, true), (Kind::Softmax, true)] {
            assert!(compare(&bench.out, &definition(&wide, kind, causal).unwrap()).is_err());
        }
    }

    #[test]
    fn crossovers_lie_where_the_times_cross() {
        // x² and 1000·x meet at 1000; logarithms of powers are lines, so that the interpolation is exact.
        let times = |lengths: &[usize]| -> Vec<(usize, f64, f64)> {
            lengths.iter().map(|&l| (l, (l * l) as f64, 1000.0 * l as f64)).collect()
        };
        let Crossover::From(length) = Crossover::of(&times(&[256, 512, 1024, 2048])) else {
            panic!("no crossing")
        };
        assert!((length - 1000.0).abs() < 1e-6, "{length}");
        assert_eq!(Crossover::of(&times(&[1024, 2048])), Crossover::AtMost(1024));
        assert_eq!(Crossover::of(&times(&[256, 512])), Crossover::Never(512));
        assert_eq!(Crossover::of(&times(&[1000])), Crossover::Never(1000));
        assert_eq!(Crossover::of(&[]), Crossover::Never(0));
        // Only the last crossing counts: from there on linear attention wins.
        let back = [(1, 2.0, 1.0), (2, 1.0, 2.0), (4, 4.0, 2.0)];
        let Crossover::From(length) = Crossover::of(&back) else { panic!("no crossing") };
        assert!((length - 8f64.sqrt()).abs() < 1e-12, "{length}");
        assert_eq!(Crossover::of(&[(1, 2.0, 1.0), (2, f64::NAN, 1.0)]), Crossover::Never(2));
    }

    #[test]
    fn memory_grows_with_the_length() {
        let bench = Bench::<f32>::new(1, 1).unwrap();
        for kind in [Kind::Softmax, Kind::Linear, Kind::LinearRotary] {
            let grown = bench.bytes(kind, 32_768) as f64 / bench.bytes(kind, 16_384) as f64;
            assert!((1.8..=2.0).contains(&grown), "{kind:?}: {grown}");
        }
        assert_eq!(bench.bytes(Kind::LinearBias, 512) - 2 * 512 * 768 * 4, 12 * 512 * 512 * 4);
    }
}
