//! `roformer bench rope --device cuda`: the rotation on a GPU beside a copy of the same bytes.

use super::super::{median, quantile, seconds};
use super::{HEAD_DIM, KEY_HEADS, Number, QUERY_HEADS, check_vector, wave};
use ::rope::cuda::{self, Buffer, Device, Event, Stream, Table, ViewMut};
use ::rope::{Pairing, Positions, Result, Rope, Turn, bf16, f16};

/// `[batch, length]` of the large cases.
pub const SHAPES: [[usize; 2]; 2] = [[4, 4096], [1, 131_072]];
/// Rounds of which the median counts.
pub const ROUNDS: usize = 21;
/// Rotations, and copies, of every buffer in a round.
const TIMES: usize = 4;
/// Rows of the table that one token is rotated by.
const CACHE: i64 = 8192;
/// Launches that are recorded as one, and calls of which one waits.
const LAUNCHES: usize = 100;
const CALLS: usize = 1000;

/// One line: q `[batch, length, 32, 128]` and k `[batch, length, 8, 128]`, rotated in place in one launch.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The element type.
    pub dtype: &'static str,
    /// The pairing.
    pub pairing: Pairing,
    /// Sequences.
    pub batch: usize,
    /// Tokens of each.
    pub length: usize,
    /// Microseconds of a rotation of q and k: the median.
    pub us: f64,
    /// The first and the third quartile of `us`.
    pub quartiles: (f64, f64),
    /// Bytes read and written per second, the table not counted.
    pub gb_s: f64,
    /// The same for a copy of q and k to elsewhere on the GPU.
    pub copy_gb_s: f64,
    /// The median of (time of the copy) / (time of the rotation), round by round.
    pub fraction: f64,
}

/// One token of each, at the end of a cache.
#[derive(Clone, Debug)]
pub struct Token {
    /// The element type.
    pub dtype: &'static str,
    /// The pairing.
    pub pairing: Pairing,
    /// Microseconds of the kernel: a graph of 100 launches, by the GPU's clock.
    pub kernel_us: f64,
    /// Microseconds of a call: 1000 of them and one wait at the end, by the CPU's clock.
    pub call_us: f64,
}

/// What the benchmark reports, in this order.
#[derive(Clone, Debug)]
pub enum Line {
    /// The GPU, and where its kernels come from.
    Device {
        /// Its name.
        name: String,
        /// Where its kernels come from.
        kernels: String,
    },
    /// A large case.
    Sample(Sample),
    /// One token.
    Token(Token),
}

/// Measures `f32`, `f16` and `bf16` with both pairings on the first GPU; `report` sees each line as it comes. A result
/// that is wrong is an error.
pub fn run(mut report: impl FnMut(Line)) -> Result<()> {
    let device = Device::new(0)?;
    report(Line::Device { name: device.name().to_string(), kernels: cuda::kernels(&device)? });
    let stream = device.stream()?;
    for pairing in [Pairing::Half, Pairing::Interleaved] {
        for [batch, length] in SHAPES {
            report(Line::Sample(measure::<f32>(&stream, pairing, batch, length)?));
            report(Line::Sample(measure::<f16>(&stream, pairing, batch, length)?));
            report(Line::Sample(measure::<bf16>(&stream, pairing, batch, length)?));
        }
        report(Line::Token(one_token::<f32>(&stream, pairing)?));
        report(Line::Token(one_token::<f16>(&stream, pairing)?));
        report(Line::Token(one_token::<bf16>(&stream, pairing)?));
    }
    Ok(())
}

fn rope_of(pairing: Pairing) -> Result<Rope> {
    Rope::builder(HEAD_DIM).base(500_000.0).pairing(pairing).build()
}

/// Queries and keys side by side in one buffer: all queries, then all keys.
fn views<'a, T: cuda::Number>(
    buffer: &'a mut Buffer<T>,
    batch: usize,
    length: usize,
) -> Result<(ViewMut<'a, T>, ViewMut<'a, T>)> {
    let (q, k) = buffer.as_mut_slice().split_at(batch * length * QUERY_HEADS * HEAD_DIM)?;
    let view = |data, heads| ViewMut::blhd(data, [batch, length, heads, HEAD_DIM]);
    Ok((view(q, QUERY_HEADS)?, view(k, KEY_HEADS)?))
}

fn measure<T: Number + cuda::Number>(
    stream: &Stream,
    pairing: Pairing,
    batch: usize,
    length: usize,
) -> Result<Sample> {
    let device = stream.device();
    let rope = rope_of(pairing)?;
    let table = Table::new(device, &rope.table(0..length as i64, None)?)?;
    let rows = table.at(Positions::From(0))?;
    let elements = batch * length * (QUERY_HEADS + KEY_HEADS) * HEAD_DIM;
    let bytes = elements * size_of::<T>();
    // Together several times the cache, so that every rotation finds its data in memory.
    let count = (4 * device.l2_bytes()).div_ceil(bytes).max(3);
    let data = pattern::<T>();
    let mut buffers = Vec::with_capacity(count);
    for _ in 0..count {
        buffers.push(filled(stream, &data, elements)?);
    }
    for buffer in &mut buffers {
        let (mut q, mut k) = views(buffer, batch, length)?;
        rows.rotate_pair(stream, Turn::Forward, &mut q, &mut k)?;
    }
    check(stream, &rope, &data, &buffers[count - 1], batch, length)?;

    let (start, end) = (Event::new(device)?, Event::new(device)?);
    let (mut rotations, mut copies) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 2 {
        stream.record(&start)?;
        for index in 0..TIMES * count {
            let (mut q, mut k) = views(&mut buffers[index % count], batch, length)?;
            rows.rotate_pair(stream, Turn::Forward, &mut q, &mut k)?;
        }
        stream.record(&end)?;
        let rotation = f64::from(end.milliseconds_since(&start)?) * 1e-3;
        stream.record(&start)?;
        for index in 0..TIMES * count {
            let (first, second) = buffers.split_at_mut(1 + index % (count - 1));
            let source = &first[first.len() - 1];
            second[0].as_mut_slice().copy_from(stream, &source.as_slice())?;
        }
        stream.record(&end)?;
        let copy = f64::from(end.milliseconds_since(&start)?) * 1e-3;
        // The first two rounds warm up.
        if round >= 2 {
            rotations.push(rotation / (TIMES * count) as f64);
            copies.push(copy / (TIMES * count) as f64);
        }
    }
    let moved = 2.0 * bytes as f64;
    let fractions: Vec<f64> = copies.iter().zip(&rotations).map(|(copy, rotation)| copy / rotation).collect();
    Ok(Sample {
        dtype: T::NAME,
        pairing,
        batch,
        length,
        us: median(&rotations) * 1e6,
        quartiles: (quantile(&rotations, 0.25) * 1e6, quantile(&rotations, 0.75) * 1e6),
        gb_s: moved / median(&rotations) / 1e9,
        copy_gb_s: moved / median(&copies) / 1e9,
        fraction: median(&fractions),
    })
}

fn one_token<T: Number + cuda::Number>(stream: &Stream, pairing: Pairing) -> Result<Token> {
    let device = stream.device();
    let rope = rope_of(pairing)?;
    let table = Table::new(device, &rope.table(0..CACHE, None)?)?;
    let elements = (QUERY_HEADS + KEY_HEADS) * HEAD_DIM;
    let data = pattern::<T>();
    let mut buffer = filled(stream, &data, elements)?;
    let mut rotate = |position: i64| {
        let (mut q, mut k) = views(&mut buffer, 1, 1)?;
        table.at(Positions::From(position))?.rotate_pair(stream, Turn::Forward, &mut q, &mut k)
    };
    rotate(0)?;
    let mut graph = stream.capture(|| (0..LAUNCHES).try_for_each(|_| rotate(CACHE - 1)))?;
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    let (mut kernels, mut calls) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + 2 {
        stream.record(&start)?;
        // SAFETY: the table and the buffer are there, and nothing else uses them.
        unsafe { graph.launch(stream) }?;
        stream.record(&end)?;
        let kernel = f64::from(end.milliseconds_since(&start)?) * 1e3 / LAUNCHES as f64;
        let mut outcome = Ok(());
        let call = seconds(|| {
            outcome = (0..CALLS).try_for_each(|_| rotate(CACHE - 1)).and_then(|()| Ok(stream.synchronise()?));
        });
        outcome?;
        if round >= 2 {
            kernels.push(kernel);
            calls.push(call * 1e6 / CALLS as f64);
        }
    }
    let mut buffer = filled(stream, &data, elements)?;
    let (mut q, mut k) = views(&mut buffer, 1, 1)?;
    table.at(Positions::From(CACHE - 1))?.rotate_pair(stream, Turn::Forward, &mut q, &mut k)?;
    let (theta, rotated) = (rope.frequencies(None), buffer.download(stream)?);
    for (before, after) in data.chunks(HEAD_DIM).zip(rotated.chunks(HEAD_DIM)) {
        check_vector(before, after, (CACHE - 1) as f64, theta.inv_freq(), pairing)?;
    }
    Ok(Token { dtype: T::NAME, pairing, kernel_us: median(&kernels), call_us: median(&calls) })
}

/// Numbers for the first elements of a buffer; the others repeat them.
fn pattern<T: Number>() -> Vec<T> {
    (0..8191 * HEAD_DIM).map(|index| T::of(wave(index))).collect()
}

/// A buffer that repeats a pattern.
fn filled<T: cuda::Number>(stream: &Stream, data: &[T], elements: usize) -> Result<Buffer<T>> {
    let mut buffer = stream.device().zeros::<T>(elements)?;
    let mut done = data.len().min(elements);
    buffer.as_mut_slice().range(0..done)?.upload(stream, &data[..done])?;
    while done < elements {
        let (source, target) = buffer.as_mut_slice().split_at(done)?;
        // Whole patterns, so that element i stays pattern i mod its length.
        let count = done.min(elements - done);
        target.range(0..count)?.copy_from(stream, &source.range(0..count)?.as_slice())?;
        done += count;
    }
    Ok(buffer)
}

/// Compares tokens throughout a rotated buffer with the f64 reference.
fn check<T: Number + cuda::Number>(
    stream: &Stream,
    rope: &Rope,
    data: &[T],
    buffer: &Buffer<T>,
    batch: usize,
    length: usize,
) -> Result<()> {
    let theta = rope.frequencies(None);
    let keys = batch * length * QUERY_HEADS * HEAD_DIM;
    for (start, heads) in [(0, QUERY_HEADS), (keys, KEY_HEADS)] {
        for token in (0..batch * length).step_by(509).chain([batch * length - 1]) {
            let at = start + token * heads * HEAD_DIM;
            let after = buffer.as_slice().range(at..at + heads * HEAD_DIM)?.download(stream)?;
            for (head, after) in after.chunks(HEAD_DIM).enumerate() {
                let from = (at + head * HEAD_DIM) % data.len();
                let before = &data[from..from + HEAD_DIM];
                check_vector(before, after, (token % length) as f64, theta.inv_freq(), rope.pairing())?;
            }
        }
    }
    Ok(())
}
