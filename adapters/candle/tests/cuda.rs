//! The GPU beside the CPU, bit by bit: values, gradients, what is refused. Without a GPU every test says that it was skipped, and why.
//!
//! The executable needs no files.

mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use common::{CPU, Random, largest, numbers, rope};
use rope::{Axes, Pairing, Rope, Schedule, Yarn};
use rope_candle::{Positions, RotaryEmbedding, Rows};

type Function = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;
type InPlace = fn(&Tensor, &Tensor, &Tensor) -> Result<()>;

/// Into new memory, in place, and whether heads come after the length.
const FUNCTIONS: [(Function, InPlace, bool); 3] = [
    (rope_candle::rope, rope_candle::rope_inplace, false),
    (rope_candle::rope_i, rope_candle::rope_i_inplace, false),
    (rope_candle::rope_thd, rope_candle::rope_thd_inplace, true),
];
/// What the kernels take.
const TYPES: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// The first GPU. Where `ROFORMER_CUDA` is `required`, a test fails without one.
fn gpu() -> Option<Device> {
    match Device::new_cuda(0) {
        Ok(device) => Some(device),
        Err(why) => {
            let is_required = std::env::var_os("ROFORMER_CUDA").is_some_and(|value| value == "required");
            assert!(!is_required, "ROFORMER_CUDA=required, and {why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// The bits of all numbers, through f64, which holds those of every smaller type.
fn bits(x: &Tensor) -> Result<Vec<u64>> {
    Ok(numbers(&x.to_device(&CPU)?)?.into_iter().map(f64::to_bits).collect())
}

/// A part of a larger tensor with its middle axes swapped, in another device's memory as in the CPU's.
fn part(all: &Tensor, length: usize) -> Result<Tensor> {
    all.narrow(1, 1, length)?.transpose(1, 2)
}

#[test]
fn functions_to_the_bit() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let mut random = Random(31);
    for (function, in_place, thd) in FUNCTIONS {
        for dim in [2, 6, 64, 128] {
            for (batch, heads, length) in [(1, 1, 1), (2, 3, 5), (1, 5, 33), (3, 32, 1)] {
                for dtype in TYPES {
                    for table in [DType::F32, dtype, DType::F64] {
                        let batched = random.below(2) == 0;
                        let rows = if batched { vec![batch, length + 2] } else { vec![length + 2] };
                        let shape = [rows, vec![dim / 2]].concat();
                        let (cos, sin) = (random.tensor(shape.clone(), table)?, random.tensor(shape, table)?);
                        let (a, b) = if thd { (length, heads) } else { (heads, length) };
                        let x = random.tensor((batch, a, b, dim), dtype)?;
                        let all = random.tensor((batch, b + 2, a, dim), dtype)?;
                        let there = |x: &Tensor| x.to_device(&gpu);
                        let (cos_there, sin_there) = (there(&cos)?, there(&sin)?);
                        let all_there = there(&all)?;
                        let pairs = [(x.clone(), there(&x)?), (part(&all, b)?, part(&all_there, b)?)];
                        for (x, x_there) in pairs {
                            let y = function(&x_there, &cos_there, &sin_there)?;
                            assert!(y.is_contiguous() && y.device().is_cuda());
                            let expected = bits(&function(&x, &cos, &sin)?)?;
                            assert_eq!(bits(&y)?, expected, "{dtype:?} {table:?} {dim}");
                            in_place(&x_there, &cos_there, &sin_there)?;
                            in_place(&x, &cos, &sin)?;
                            assert_eq!(bits(&x_there)?, expected);
                        }
                        // What is beside the part is as it was.
                        assert_eq!(bits(&all_there)?, bits(&all)?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Every pairing, a part of the head, and every kind of positions, of rows that are used again and from several threads.
#[test]
fn embeddings_to_the_bit() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let mut random = Random(32);
    let ids = Tensor::new(&[[7i64, 0, 49, 3, 9], [1, 2, 3, 4, 5]], &CPU)?;
    let row = ids.get(0)?;
    let ends = Tensor::new(&[3u32, 3, 5], &CPU)?;
    for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
        for (dim, rotary, offset) in [(16, 10, 4), (128, 128, 0), (64, 32, 0)] {
            let rope = Rope::builder(dim).rotary_dim(rotary).rotary_offset(offset).pairing(pairing);
            let rope = rope.schedule(Schedule::Yarn(Yarn::new(4.0, 64))).build().expect("a rope");
            let embedding = RotaryEmbedding::new(&rope, 64)?;
            for (positions, batch) in [
                (Positions::From(7), 2),
                (Positions::Ids(&row), 2),
                (Positions::Ids(&ids), 2),
                (Positions::Packed(&ends), 1),
            ] {
                let rows = embedding.at(positions)?;
                same(&rows, &mut random, &gpu, (batch, dim))?;
            }
            let grid = Tensor::new(&[[0.5f64, -3.25, 10.0, 7.75, 2.0]], &CPU)?;
            same(&embedding.at(Positions::Axes(&grid))?, &mut random, &gpu, (2, dim))?;
        }
    }
    let sections = Rope::builder(8).axes(Axes::Sections(vec![1, 2, 1])).build().expect("a rope");
    let axes = random.tensor((3, 2, 5), DType::F64)?;
    let rows = RotaryEmbedding::new(&sections, 0)?.at(Positions::Axes(&axes))?;
    same(&rows, &mut random, &gpu, (2, 8))
}

/// `[batch, 3, 5, dim]` and `[batch, 5, 3, dim]` in every type, from this thread and three others.
fn same(rows: &Rows, random: &mut Random, gpu: &Device, (batch, dim): (usize, usize)) -> Result<()> {
    for dtype in TYPES {
        let x = random.tensor((batch, 3, 5, dim), dtype)?;
        let expected = bits(&rows.rotate(&x)?)?;
        let swapped = x.transpose(1, 2)?.contiguous()?;
        let check = || -> Result<()> {
            let (x, swapped) = (x.to_device(gpu)?, swapped.to_device(gpu)?);
            assert_eq!(bits(&rows.rotate(&x)?)?, expected);
            assert_eq!(bits(&rows.rotate_thd(&swapped)?.transpose(1, 2)?)?, expected);
            rows.rotate_inplace(&x)?;
            rows.rotate_thd_inplace(&swapped)?;
            assert_eq!(bits(&x)?, expected);
            assert_eq!(bits(&swapped.transpose(1, 2)?)?, expected);
            Ok(())
        };
        check()?;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(check)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
    }
    Ok(())
}

#[test]
fn gradients_as_on_the_cpu() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let mut random = Random(33);
    let embedding = RotaryEmbedding::new(&rope(12, Pairing::Half), 16)?;
    let rows = embedding.at(Positions::From(3))?;
    for dtype in TYPES {
        for (function, _, thd) in FUNCTIONS {
            let x = random.tensor((2, 5, 5, 12), dtype)?;
            let (cos, sin) = (random.tensor((5, 6), DType::F32)?, random.tensor((5, 6), DType::F32)?);
            let weights = random.tensor((2, 5, 5, 12), dtype)?;
            let of = |device: &Device| -> Result<[Tensor; 4]> {
                let var = |x: &Tensor| Var::from_tensor(&x.to_device(device)?);
                let (x, cos, sin, weights) = (var(&x)?, var(&cos)?, var(&sin)?, weights.to_device(device)?);
                let total = |y: Tensor| (y * &weights)?.sum_all()?.backward();
                let gradients = total(function(&x, &cos, &sin)?)?;
                let get = |x: &Var| gradients.get(x).expect("a gradient").to_device(&CPU);
                let embedded = total(if thd { rows.rotate_thd(&x)? } else { rows.rotate(&x)? })?;
                let embedded = embedded.get(&x).expect("a gradient").to_device(&CPU)?;
                Ok([get(&x)?, embedded, get(&cos)?, get(&sin)?])
            };
            let (here, there) = (of(&CPU)?, of(&gpu)?);
            assert_eq!(bits(&here[0])?, bits(&there[0])?);
            assert_eq!(bits(&here[1])?, bits(&there[1])?);
            // Sums of 10 products of numbers below 2, in f32, in candle's order on either device.
            for (here, there) in here[2..].iter().zip(&there[2..]) {
                assert!(numbers(here)?.iter().any(|x| x.abs() > 0.1));
                assert!(largest(&numbers(here)?, &numbers(there)?) < 40.0 * 2f64.powi(-22));
            }
        }
    }
    Ok(())
}

/// A device with a stream of its own, and f64, which candle's operations rotate.
#[test]
fn other_streams_and_f64() -> Result<()> {
    if gpu().is_none() {
        return Ok(());
    }
    let gpu = Device::new_cuda_with_stream(0)?;
    let mut random = Random(34);
    let embedding = RotaryEmbedding::new(&rope(64, Pairing::Half), 4096)?;
    let rows = embedding.at(Positions::From(0))?;
    let x = random.tensor((1, 8, 4096, 64), DType::F32)?;
    // Each call reads what the one before wrote, in the order of the stream.
    let (mut here, mut there) = (x.clone(), x.to_device(&gpu)?);
    for _ in 0..5 {
        (here, there) = (rows.rotate(&here)?, rows.rotate(&there)?);
        rows.rotate_inplace(&here)?;
        rows.rotate_inplace(&there)?;
    }
    assert_eq!(bits(&there)?, bits(&here)?);
    let x = random.tensor((2, 3, 5, 64), DType::F64)?;
    let y = rows.rotate(&x.to_device(&gpu)?)?.to_device(&CPU)?;
    assert!(largest(&numbers(&y)?, &numbers(&rows.rotate(&x)?)?) < 1e-15);
    Ok(())
}

/// Random shapes, layouts and positions: the bits of the CPU, or refused as it refuses.
#[test]
fn right_or_refused() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let random = &mut Random(35);
    let (mut right, mut refused) = (0, 0);
    for _ in 0..3000 {
        let dtype = [DType::F32, DType::F16, DType::BF16, DType::U32][random.below(13) / 4];
        let dim = [4, 6, 8, 0, 5][random.below(7) % 5];
        let sizes = [1 + random.below(3), 1 + random.below(4), 1 + random.below(4), dim.max(1)];
        let rank = if random.below(10) == 0 { 3 } else { 4 };
        let x = random.tensor(sizes[4 - rank..].to_vec(), dtype)?;
        let length = x.dim(if rank == 4 { 2 } else { 1 })?;
        let pairs = (dim / 2 + random.below(12) / 11).max(1);
        let positions = length + random.below(3) - random.below(8) / 7;
        let cos = random.tensor((positions, pairs), DType::F32)?;
        let way = random.below(6);
        let layout = |x: Tensor| match way {
            0 if rank == 4 => x.transpose(1, 2),
            1 if rank == 4 => x.transpose(1, 3),
            2 => x.narrow(0, 0, 0),
            3 => x.narrow(1, x.dims()[1] - 1, 1)?.broadcast_as(x.shape()),
            _ => Ok(x),
        };
        let embedding = RotaryEmbedding::new(&rope(2 * pairs, Pairing::Interleaved), 8)?;
        let ids = random.tensor(length, DType::F64)?.affine(5.0, 5.0)?.to_dtype(DType::I64)?;
        let rows = embedding.at(if way == 4 { Positions::Ids(&ids) } else { Positions::From(way) });
        let (function, in_place, _) = FUNCTIONS[random.below(3)];
        let on = |device: &Device| -> [Result<Tensor>; 4] {
            let all = || -> Result<(Tensor, Tensor)> {
                let copy = |x: &Tensor| if device.is_cuda() { x.to_device(device) } else { x.copy() };
                Ok((layout(copy(&x)?)?, copy(&cos)?))
            };
            let (x, cos) = all().expect("tensors");
            [
                function(&x, &cos, &cos),
                rows.as_ref().map_err(candle_core::Error::msg).and_then(|rows| rows.rotate(&x)),
                in_place(&x, &cos, &cos).map(|()| x.clone()),
                rows.as_ref()
                    .map_err(candle_core::Error::msg)
                    .and_then(|rows| rows.rotate_inplace(&x).map(|()| x.clone())),
            ]
        };
        for (here, there) in on(&CPU).into_iter().zip(on(&gpu)) {
            match (here, there) {
                (Ok(here), Ok(there)) => {
                    assert_eq!(here.dims(), there.dims());
                    assert_eq!(bits(&here)?, bits(&there)?);
                    right += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                (here, there) => panic!("{:?}: {here:?} on the CPU, {there:?} on the GPU", x.shape()),
            }
        }
    }
    println!("{right} right, {refused} refused");
    assert!(right > 2000 && refused > 2000);
    Ok(())
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let Some(gpu) = gpu() else { return Ok(()) };
    let embedding = RotaryEmbedding::new(&rope(8, Pairing::Half), 16)?;
    let x = Random(36).tensor((1, 2, 4, 8), DType::F32)?.to_device(&gpu)?;
    let says = |result: Result<()>, words: &str| {
        let error = result.expect_err(words).to_string();
        assert!(error.contains(words), "`{error}` does not say `{words}`");
    };
    let from = |start| embedding.at(Positions::From(start));
    says(from(13)?.rotate(&x).map(|_| ()), "position 16 is not in the table");
    let ids = Tensor::new(&[0u32, 1], &gpu)?;
    says(embedding.at(Positions::Ids(&ids))?.rotate(&x).map(|_| ()), "position ids: got 2; expected 4");
    says(from(0)?.rotate(&x.narrow(3, 0, 6)?).map(|_| ()), "expected head_dim 8");
    says(from(0)?.rotate_inplace(&x.to_dtype(DType::F64)?), "f32, f16 or bf16 on an NVIDIA GPU");
    let variable = Var::from_tensor(&x)?;
    says(from(0)?.rotate_inplace(&variable), "takes part in a gradient");
    says(from(0)?.rotate_inplace(&x.t()?), "call `contiguous` first");
    let repeated = x.narrow(2, 0, 1)?.broadcast_as(x.shape())?;
    says(from(0)?.rotate_inplace(&repeated), "repeated");
    let endless = x.narrow(0, 0, 1)?.broadcast_as((1 << 40, 2, 4, 8))?;
    says(from(0)?.rotate(&endless).map(|_| ()), "");
    // Tables of another device.
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    says(rope_candle::rope(&x, &cos, &sin).map(|_| ()), "device");
    Ok(())
}
