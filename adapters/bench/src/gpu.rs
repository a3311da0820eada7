//! The rotation of queries and keys in candle on an NVIDIA GPU: its own, ours into new memory and in place, and rope's kernels by
//! themselves, in memory of their own.

use crate::exact::{HEAD_DIM, HEADS, check, wave};
use crate::{Job, Result, measure};
use candle_core::{DType, Device, Tensor, WithDType};
use rope::cuda::{Number, Table, View, ViewMut};
use rope::{Pairing, Rope, Turn, bf16, f16};
use rope_candle::{Positions, RotaryEmbedding};

const BATCH: usize = 4;
/// Calls before the GPU is waited for, so that the CPU's part is under way while the GPU works.
const CALLS: usize = 50;

pub fn run(length: usize) -> Result<()> {
    let gpu = Device::new_cuda(0)?;
    let device = rope::cuda::Device::new(0)?;
    println!(
        "\ncandle on {device}: q [{BATCH}, {}, {length}, {HEAD_DIM}] and k [{BATCH}, {}, {length}, {HEAD_DIM}], kernels from {}; medians of \
         {} alternating rounds of {CALLS} calls, µs\n",
        HEADS[0],
        HEADS[1],
        rope::cuda::kernels(&device)?,
        crate::ROUNDS
    );
    println!(
        "| type | axes | tokens | candle-nn | rope_candle::rope | Rows::rotate | kernel | in place | kernel |"
    );
    println!(
        "|------|------|-------:|----------:|------------------:|-------------:|-------:|---------:|-------:|"
    );
    for thd in [false, true] {
        one::<f32>(&gpu, &device, length, thd)?;
        one::<f16>(&gpu, &device, length, thd)?;
        one::<bf16>(&gpu, &device, length, thd)?;
    }
    // One token, where the CPU's part of a call counts.
    one::<bf16>(&gpu, &device, 1, false)
}

fn one<T: WithDType + Number>(
    gpu: &Device,
    device: &rope::cuda::Device,
    length: usize,
    thd: bool,
) -> Result<()> {
    let rope = Rope::builder(HEAD_DIM).pairing(Pairing::Half).build()?;
    let embedding = RotaryEmbedding::new(&rope, length)?;
    let rows = embedding.at(Positions::From(0))?;
    let (cos, sin) = embedding.cos_sin(gpu)?;
    let (narrow_cos, narrow_sin) = (cos.to_dtype(T::DTYPE)?, sin.to_dtype(T::DTYPE)?);
    let shape = |heads| if thd { [BATCH, length, heads, HEAD_DIM] } else { [BATCH, heads, length, HEAD_DIM] };
    let inputs = HEADS.map(|heads| -> Result<Tensor> {
        let numbers = wave(BATCH * heads * length * HEAD_DIM, 1);
        Ok(Tensor::from_vec(numbers, &shape(heads)[..], &Device::Cpu)?.to_dtype(T::DTYPE)?.to_device(gpu)?)
    });
    let [q, k] = inputs;
    let inputs = [q?, k?];
    let changed = [inputs[0].copy()?, inputs[1].copy()?];
    use candle_nn::rotary_emb::{rope as half, rope_thd as half_thd};
    let (theirs, ours) = if thd {
        (half_thd as fn(&_, &_, &_) -> _, rope_candle::rope_thd as fn(&_, &_, &_) -> _)
    } else {
        (half as _, rope_candle::rope as _)
    };
    let rotate = |x: &Tensor| if thd { rows.rotate_thd(x) } else { rows.rotate(x) };
    let in_place = |x: &Tensor| if thd { rows.rotate_thd_inplace(x) } else { rows.rotate_inplace(x) };

    let unit = if T::DTYPE == DType::F32 {
        2f64.powi(-24)
    } else if T::DTYPE == DType::F16 {
        2f64.powi(-11)
    } else {
        2f64.powi(-8)
    };
    for (x, (changed, heads)) in inputs.iter().zip(changed.iter().zip(HEADS)) {
        in_place(changed)?;
        for y in [&ours(x, &cos, &sin)?, &rotate(x)?, changed] {
            let numbers = |x: &Tensor| {
                x.get(1)?.to_device(&Device::Cpu)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()
            };
            check(&numbers(x)?, &numbers(y)?, Pairing::Half, (!thd).then_some(length), heads, |_, _| {
                4.0 * unit
            })?;
        }
    }

    let (stream, own) = (device.stream()?, Table::new(device, &rope.table(0..length as i64, None)?)?);
    let own = own.at(rope::Positions::From(0))?;
    let buffers = || -> Result<_> {
        let [q, k] = HEADS.map(|heads| device.zeros::<T>(BATCH * heads * length * HEAD_DIM));
        Ok([q?, k?])
    };
    let (from, mut to, mut kept) = (buffers()?, buffers()?, buffers()?);
    let at = |heads| shape(heads);
    let wait = || Ok(gpu.synchronize()?);
    let many = |call: &dyn Fn() -> candle_core::Result<()>| -> Result<()> {
        (0..CALLS).try_for_each(|_| call())?;
        wait()
    };
    let both = |rotate: &dyn Fn(&Tensor) -> candle_core::Result<Tensor>| {
        many(&|| {
            let _both = [rotate(&inputs[0])?, rotate(&inputs[1])?];
            Ok(())
        })
    };
    let mut jobs = [
        Job::new("candle", || both(&|x| theirs(x, &narrow_cos, &narrow_sin))),
        Job::new("rope", || both(&|x| ours(x, &cos, &sin))),
        Job::new("rows", || both(&rotate)),
        Job::new("kernel", || {
            for _ in 0..CALLS {
                for ((from, to), heads) in from.iter().zip(&mut to).zip(HEADS) {
                    let (x, mut y) = if thd {
                        (View::blhd(from, at(heads))?, ViewMut::blhd(to, at(heads))?)
                    } else {
                        (View::bhld(from, at(heads))?, ViewMut::bhld(to, at(heads))?)
                    };
                    own.rotate_to(&stream, Turn::Forward, &x, &mut y)?;
                }
            }
            Ok(stream.synchronise()?)
        }),
        Job::new("in place", || {
            many(&|| {
                in_place(&changed[0])?;
                in_place(&changed[1])
            })
        }),
        Job::new("kernel in place", || {
            for _ in 0..CALLS {
                for (x, heads) in kept.iter_mut().zip(HEADS) {
                    let mut x = if thd { ViewMut::blhd(x, at(heads))? } else { ViewMut::bhld(x, at(heads))? };
                    own.rotate(&stream, Turn::Forward, &mut x)?;
                }
            }
            Ok(stream.synchronise()?)
        }),
    ];
    let times: Vec<f64> = measure(&mut jobs)?.iter().map(|ms| ms * 1e3 / CALLS as f64).collect();
    println!(
        "| {:<4} | {} | {length:>6} | {:>9.1} | {:>17.1} | {:>12.1} | {:>6.1} | {:>8.1} | {:>6.1} |",
        T::DTYPE.as_str(),
        if thd { "blhd" } else { "bhld" },
        times[0],
        times[1],
        times[2],
        times[3],
        times[4],
        times[5]
    );
    Ok(())
}
