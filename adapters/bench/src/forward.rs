//! The rotation of queries and keys in candle: its own, ours into new memory and ours in place.

use crate::exact::{HEAD_DIM, HEADS, check, wave};
use crate::{Job, Result, measure};
use candle_core::{DType, Device, Tensor, WithDType};
use rope::{Pairing, Rope, bf16};
use rope_candle::{Positions, RotaryEmbedding, Rows};

/// candle-nn's functions and ours take x, cos and sin.
type Function = fn(&Tensor, &Tensor, &Tensor) -> candle_core::Result<Tensor>;

pub fn run(length: usize) -> Result<()> {
    println!(
        "\ncandle: q [1, {}, {length}, {HEAD_DIM}] and k [1, {}, {length}, {HEAD_DIM}], {} threads; medians of {} alternating rounds, ms\n",
        HEADS[0],
        HEADS[1],
        rayon::current_num_threads(),
        crate::ROUNDS
    );
    println!("| type | pairing     | axes | theirs | into new memory | times | in place | times |");
    println!("|------|-------------|------|-------:|----------------:|------:|---------:|------:|");
    use candle_nn::rotary_emb::{rope, rope_i, rope_thd};
    for (theirs, ours, pairing, thd) in [
        (rope as Function, rope_candle::rope as Function, Pairing::Half, false),
        (rope_i, rope_candle::rope_i, Pairing::Interleaved, false),
        (rope_thd, rope_candle::rope_thd, Pairing::Half, true),
    ] {
        candle::<f32>(theirs, ours, pairing, thd, length)?;
        candle::<bf16>(theirs, ours, pairing, thd, length)?;
    }
    Ok(())
}

fn line(dtype: &str, pairing: Pairing, axes: &str, [theirs, new, in_place]: [f64; 3]) {
    println!(
        "| {dtype:<4} | {:<11} | {axes} | {theirs:>6.1} | {new:>15.1} | {:>5.1} | {in_place:>8.1} | {:>5.1} |",
        pairing.name(),
        theirs / new,
        theirs / in_place
    );
}

fn candle<T: WithDType>(
    theirs: Function,
    ours: Function,
    pairing: Pairing,
    thd: bool,
    length: usize,
) -> Result<()> {
    let rope = RotaryEmbedding::new(&Rope::builder(HEAD_DIM).pairing(pairing).build()?, length)?;
    let (cos, sin) = rope.cos_sin(&Device::Cpu)?;
    // candle takes tables of the data's type alone.
    let (narrow_cos, narrow_sin) = (cos.to_dtype(T::DTYPE)?, sin.to_dtype(T::DTYPE)?);
    let tensor = |heads: usize, seed| {
        let shape = if thd { [1, length, heads, HEAD_DIM] } else { [1, heads, length, HEAD_DIM] };
        Tensor::from_vec(wave(heads * length * HEAD_DIM, seed), &shape[..], &Device::Cpu)?.to_dtype(T::DTYPE)
    };
    let inputs = [tensor(HEADS[0], 1)?, tensor(HEADS[1], 7)?];
    let changed = [tensor(HEADS[0], 1)?, tensor(HEADS[1], 7)?];
    let rows: Rows = rope.at(Positions::From(0))?;
    let in_place = |x: &Tensor| if thd { rows.rotate_thd_inplace(x) } else { rows.rotate_inplace(x) };

    let unit = if T::DTYPE == DType::F32 { 2f64.powi(-24) } else { 2f64.powi(-8) };
    for (index, x) in inputs.iter().enumerate() {
        let check = |y: &Tensor| {
            let numbers = |x: &Tensor| x.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
            check(&numbers(x)?, &numbers(y)?, pairing, (!thd).then_some(length), HEADS[index], |_, _| {
                4.0 * unit
            })
        };
        check(&theirs(x, &narrow_cos, &narrow_sin)?)?;
        check(&ours(x, &cos, &sin)?)?;
        in_place(&changed[index])?;
        check(&changed[index])?;
    }

    let mut jobs = [
        Job::new("candle", || {
            let _both = [
                theirs(&inputs[0], &narrow_cos, &narrow_sin)?,
                theirs(&inputs[1], &narrow_cos, &narrow_sin)?,
            ];
            Ok(())
        }),
        Job::new("new", || {
            let _both = [ours(&inputs[0], &cos, &sin)?, ours(&inputs[1], &cos, &sin)?];
            Ok(())
        }),
        Job::new("in place", || {
            in_place(&changed[0])?;
            Ok(in_place(&changed[1])?)
        }),
    ];
    let times = measure(&mut jobs)?;
    let axes = if thd { "blhd" } else { "bhld" };
    line(T::DTYPE.as_str(), pairing, axes, [times[0], times[1], times[2]]);
    Ok(())
}
