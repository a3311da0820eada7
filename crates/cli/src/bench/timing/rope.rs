//! `roformer bench rope`: the rotation beside an in-place multiply over the same bytes.

#[cfg(feature = "cuda")]
#[allow(unsafe_code, reason = "runs what it has recorded")]
pub mod cuda;

use super::{median, quantile, seconds};
use ::rope::{
    Element, Pairing, Positions, Precision, Result, Rope, Table, Turn, ViewMut, bf16, f16, reference,
};
use half::slice::HalfFloatSliceExt;
use rayon::prelude::*;

const HEAD_DIM: usize = 128;
const QUERY_HEADS: usize = 32;
const KEY_HEADS: usize = 8;
/// Tokens of the large case; one token is the other.
pub const LENGTH: usize = 8192;
/// Rounds of which the median counts.
pub const ROUNDS: usize = 15;

/// The order of axes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `[batch, length, heads, head_dim]`
    Blhd,
    /// `[batch, heads, length, head_dim]`
    Bhld,
}

impl Order {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Order::Blhd => "blhd",
            Order::Bhld => "bhld",
        }
    }
}

/// One line of the benchmark: q and k of Llama-3-8B's shape, rotated in place.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The element type.
    pub dtype: &'static str,
    /// The pairing.
    pub pairing: Pairing,
    /// The order of axes.
    pub order: Order,
    /// Tokens.
    pub length: usize,
    /// Microseconds of a rotation of q and k: the median.
    pub us: f64,
    /// The first and the third quartile of `us`.
    pub quartiles: (f64, f64),
    /// Bytes read and written per second, the table not counted.
    pub gb_s: f64,
    /// The same for the in-place multiply.
    pub roofline_gb_s: f64,
    /// The median of (time of the multiply) / (time of the rotation), round by round.
    pub fraction: f64,
}

/// How fast tables are built.
#[derive(Clone, Copy, Debug)]
pub struct TableSample {
    /// Rows.
    pub rows: usize,
    /// Pairs of a row.
    pub pairs: usize,
    /// Microseconds: the median.
    pub us: f64,
    /// Millions of (cos, sin) pairs per second.
    pub mpairs_s: f64,
}

/// A type the benchmark runs on.
trait Number: Element {
    const NAME: &'static str;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
    /// Half the distance from 1 to the next number.
    const ROUNDING: f64;
    /// Multiplies all elements of a chunk: the least that a pass over memory in place can do.
    fn multiply(chunk: &mut [Self]);
}

impl Number for f32 {
    const NAME: &'static str = "f32";
    const ROUNDING: f64 = 1.0 / (1u64 << 24) as f64;
    fn of(value: f64) -> Self {
        value as f32
    }
    fn value(self) -> f64 {
        self.into()
    }
    fn multiply(chunk: &mut [f32]) {
        chunk.iter_mut().for_each(|x| *x *= 1.000_000_1);
    }
}

macro_rules! half_number {
    ($type:ty, $bits:expr) => {
        impl Number for $type {
            const NAME: &'static str = stringify!($type);
            const ROUNDING: f64 = 1.0 / (1u64 << $bits) as f64;
            fn of(value: f64) -> Self {
                <$type>::from_f64(value)
            }
            fn value(self) -> f64 {
                self.to_f64()
            }
            fn multiply(chunk: &mut [$type]) {
                // On the bits: a multiply that needs no conversion, so that memory alone is measured.
                let words: &mut [u16] = chunk.reinterpret_cast_mut();
                words.iter_mut().for_each(|x| *x = x.wrapping_mul(3));
            }
        }
    };
}
half_number!(f16, 11);
half_number!(bf16, 8);

/// Measures every type, pairing and order at both lengths on the current rayon pool; `report` sees each line as it
/// comes. A result that is wrong is an error.
pub fn run(mut report: impl FnMut(Sample)) -> Result<()> {
    for length in [LENGTH, 1] {
        for pairing in [Pairing::Half, Pairing::Interleaved] {
            for order in [Order::Blhd, Order::Bhld] {
                report(measure::<f32>(pairing, order, length)?);
                report(measure::<f16>(pairing, order, length)?);
                report(measure::<bf16>(pairing, order, length)?);
            }
        }
    }
    Ok(())
}

fn measure<T: Number>(pairing: Pairing, order: Order, length: usize) -> Result<Sample> {
    let rope = Rope::builder(HEAD_DIM).base(500_000.0).pairing(pairing).build()?;
    // One token is rotated at the end of a cache, as in decoding.
    let first = if length == 1 { LENGTH as i64 - 1 } else { 0 };
    let table: Table<T::Table> = rope.table(0..LENGTH as i64, None)?;
    let fresh = |heads: usize, seed: usize| -> Vec<T> {
        (0..length * heads * HEAD_DIM).map(|i| T::of(wave(i + seed))).collect()
    };
    let (q0, k0) = (fresh(QUERY_HEADS, 1), fresh(KEY_HEADS, 7));
    let (mut q, mut k) = (q0.clone(), k0.clone());
    // A decode step is far shorter than the clock's reading: many calls make one measurement.
    let calls = if length == 1 { 1000 } else { 1 };
    let rotate = |q: &mut [T], k: &mut [T]| -> Result<()> {
        let (mut q, mut k) = (view(order, q, length, QUERY_HEADS)?, view(order, k, length, KEY_HEADS)?);
        table.at(Positions::From(first))?.rotate_pair(Turn::Forward, &mut q, &mut k)
    };
    let (mut rotations, mut multiplies) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 2 {
        q.copy_from_slice(&q0);
        k.copy_from_slice(&k0);
        rotate(&mut q, &mut k)?;
        check(&rope, order, first, length, (&q0, &q), QUERY_HEADS)?;
        check(&rope, order, first, length, (&k0, &k), KEY_HEADS)?;
        let mut outcome = Ok(());
        let rotation = seconds(|| {
            for _ in 0..calls {
                outcome = rotate(std::hint::black_box(&mut q), std::hint::black_box(&mut k));
            }
        });
        outcome?;
        let multiply = seconds(|| {
            for _ in 0..calls {
                multiply(std::hint::black_box(&mut q));
                multiply(std::hint::black_box(&mut k));
            }
        });
        // The first two rounds warm up caches, pages and threads.
        if round >= 2 {
            rotations.push(rotation / calls as f64);
            multiplies.push(multiply / calls as f64);
        }
    }
    let bytes = 2.0 * (size_of_val(&q[..]) + size_of_val(&k[..])) as f64;
    let fractions: Vec<f64> = multiplies.iter().zip(&rotations).map(|(m, r)| m / r).collect();
    Ok(Sample {
        dtype: T::NAME,
        pairing,
        order,
        length,
        us: median(&rotations) * 1e6,
        quartiles: (quantile(&rotations, 0.25) * 1e6, quantile(&rotations, 0.75) * 1e6),
        gb_s: bytes / median(&rotations) / 1e9,
        roofline_gb_s: bytes / median(&multiplies) / 1e9,
        fraction: median(&fractions),
    })
}

fn view<T: Number>(order: Order, data: &mut [T], length: usize, heads: usize) -> Result<ViewMut<'_, T>> {
    match order {
        Order::Blhd => ViewMut::blhd(data, [1, length, heads, HEAD_DIM]),
        Order::Bhld => ViewMut::bhld(data, [1, heads, length, HEAD_DIM]),
    }
}

/// Multiplies the buffer in place, in as many pieces on as many threads as the rotation takes for a large one.
fn multiply<T: Number>(data: &mut [T]) {
    let threads = rayon::current_num_threads();
    if threads == 1 || size_of_val(data) < 1 << 20 {
        return T::multiply(data);
    }
    data.par_chunks_mut(data.len().div_ceil(threads * 16)).for_each(T::multiply);
}

/// Compares tokens throughout the buffer with the f64 reference.
fn check<T: Number>(
    rope: &Rope,
    order: Order,
    first: i64,
    length: usize,
    (before, after): (&[T], &[T]),
    heads: usize,
) -> Result<()> {
    let theta = rope.frequencies(None);
    for token in (0..length).step_by(509) {
        for head in 0..heads {
            let at = match order {
                Order::Blhd => (token * heads + head) * HEAD_DIM,
                Order::Bhld => (head * length + token) * HEAD_DIM,
            };
            let position = (first + token as i64) as f64;
            let (before, after) = (&before[at..at + HEAD_DIM], &after[at..at + HEAD_DIM]);
            check_vector(before, after, position, theta.inv_freq(), rope.pairing())?;
        }
    }
    Ok(())
}

/// Compares one rotated vector with the f64 reference.
fn check_vector<T: Number>(
    before: &[T],
    after: &[T],
    position: f64,
    theta: &[f64],
    pairing: Pairing,
) -> Result<()> {
    let x: Vec<f64> = before.iter().map(|x| x.value()).collect();
    let exact = reference::rotate(&x, position, theta, 1.0, pairing);
    for (exact, got) in exact.iter().zip(after) {
        // Inputs are below 2, so a pair is below 2√2; the table and both products add an f32 rounding each.
        let bound = 2.83 * (T::ROUNDING + 4.0 * f32::ROUNDING);
        let error = (exact - got.value()).abs();
        if error > bound || error.is_nan() {
            let value = format!("{} where {exact} is right", got.value());
            return Err(::rope::Error::Argument {
                name: "a timed rotation",
                value,
                expected: "the f64 reference's value".into(),
            });
        }
    }
    Ok(())
}

/// How fast a table of many rows is built, checked against the platform's f64 cosine.
pub fn table() -> Result<TableSample> {
    let rope = Rope::builder(HEAD_DIM).base(500_000.0).build()?;
    let rows = 32_768;
    let mut table = rope.table::<f32>(0..rows as i64, None)?;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let mut outcome = Ok(());
        times.push(seconds(|| outcome = table.refill(0..rows as i64, None)));
        outcome?;
    }
    let theta = rope.frequencies(None);
    for row in (0..rows).step_by(127) {
        for (pair, theta) in theta.inv_freq().iter().enumerate() {
            let exact = (row as f64 * theta).cos();
            let got = table.cos()[row * rope.pairs() + pair].to_f64();
            if (exact - got).abs() > 0.51 * f32::ROUNDING {
                return Err(::rope::Error::Argument {
                    name: "a timed table",
                    value: format!("{got} where {exact} is right"),
                    expected: "the nearest f32".into(),
                });
            }
        }
    }
    let pairs = rope.pairs();
    let seconds = median(&times);
    Ok(TableSample { rows, pairs, us: seconds * 1e6, mpairs_s: (rows * pairs) as f64 / seconds / 1e6 })
}

/// Numbers between −2 and 2 that differ everywhere.
fn wave(index: usize) -> f64 {
    let mixed = (index as u32).wrapping_mul(0x9E37_79B9) ^ (index as u32 >> 7);
    f64::from(mixed >> 8) / f64::from(1 << 22) - 2.0
}
