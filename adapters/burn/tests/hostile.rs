//! Twenty thousand tensors of random shapes, types and layouts: each is rotated rightly or refused, and nothing panics.

mod common;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use common::{PAIRINGS, Random, devices, largest, numbers, rounding};
use rope::{Axes, Rope, Schedule, Yarn};
use rope_burn::rotary::Result;
use rope_burn::{Positions, RotaryEmbedding, RotaryEmbeddingConfig, RotaryEncodingConfig, Rows};

/// A tensor of sizes 0 to 5 in any layout, its last axis mostly `head_dim`; rarely one that repeats itself into petabytes.
fn tensor<const D: usize>(
    random: &mut Random,
    head_dim: usize,
    (device, dtype): (&Device, DType),
) -> Tensor<D> {
    let mut shape = [0; D].map(|_| if random.below(12) == 0 { 0 } else { 1 + random.below(5) });
    if random.below(8) != 0 {
        shape[D - 1] = head_dim;
    }
    let (a, b) = (random.below(D), random.below(D));
    let kind = random.below(8);
    if shape.contains(&0) || kind > 4 {
        return random.tensor(shape, (device, dtype));
    }
    match kind {
        0 => {
            let mut stored = shape;
            stored.swap(a, b);
            random.tensor(stored, (device, dtype)).swap_dims(a, b)
        }
        1 => {
            let mut larger = shape;
            larger[a] += 2;
            random.tensor(larger, (device, dtype)).slice_dim(a, 1..1 + shape[a])
        }
        2 => random.tensor(shape, (device, dtype)).flip([a]),
        3 => {
            // Some axes repeat; on Flex, where nothing is copied for that, perhaps without end.
            let mut stored = shape;
            stored[a] = 1;
            stored[b] = 1;
            if random.below(4) == 0 && *device == Device::flex() {
                shape[a] = 1 << (48 + random.below(14));
            }
            random.tensor(stored, (device, dtype)).expand(shape)
        }
        _ => {
            let mut order: [usize; D] = std::array::from_fn(|i| i);
            order.swap(a, b);
            order.swap(random.below(D), random.below(D));
            let mut stored = shape;
            for (axis, &from) in order.iter().enumerate() {
                stored[from] = shape[axis];
            }
            random.tensor(stored, (device, dtype)).permute(order)
        }
    }
}

/// The same by the formula, number by number: `None` where it is to be refused. `first` is the position of the first of the tokens, of
/// which `length` have a row.
fn expected<const D: usize>(
    x: &Tensor<D>,
    rope: &Rope,
    first: usize,
    end: usize,
    blhd: bool,
) -> Option<Vec<f64>> {
    let dims = x.dims();
    let (length, heads) = match (D, blhd) {
        (0 | 1, _) => return None,
        (_, true) => (dims[1], dims[2]),
        (_, false) => (dims[D - 2], 1),
    };
    let fits = length == 0 || first.checked_add(length).is_some_and(|last| last <= end);
    if dims[D - 1] != rope.head_dim() || !fits || dims.iter().any(|&size| size >= 1 << 40) {
        return None;
    }
    let mut all = numbers(x);
    let (theta, offset) = (rope.frequencies(None), rope.rotary_offset());
    for (index, vector) in all.chunks_mut(rope.head_dim()).enumerate() {
        let token = if blhd { index / heads % length } else { index % length };
        let part = &mut vector[offset..offset + rope.rotary_dim()];
        let position = (first + token) as f64;
        let turned = rope::reference::rotate(part, position, theta.inv_freq(), 1.0, rope.pairing());
        part.copy_from_slice(&turned);
    }
    Some(all)
}

struct Case<'a> {
    rope: &'a Rope,
    rows: Rows,
    first: usize,
    end: usize,
}

/// Whether it was right; a panic if it is neither right nor refused.
fn check<const D: usize>(case: &Case, x: Tensor<D>, blhd: Option<Tensor<4>>) -> bool {
    let what = format!("{:?} {:?} for {:?} from {}", x.dtype(), x.dims(), case.rope, case.first);
    let dtype = x.dtype();
    let (got, exact) = match blhd {
        Some(x) => {
            let exact = expected(&x, case.rope, case.first, case.end, true);
            (case.rows.rotate_blhd(x).map(|y| numbers(&y)), exact)
        }
        None => {
            let exact = expected(&x, case.rope, case.first, case.end, false);
            let (shape, y) = (x.shape(), case.rows.rotate(x));
            if let Ok(y) = &y {
                assert_eq!((y.shape(), y.dtype()), (shape, dtype), "{what}");
            }
            // What repeats without end and has a size of 0 is empty.
            (y.map(|y| if y.dims().contains(&0) { Vec::new() } else { numbers(&y) }), exact)
        }
    };
    match (got, exact) {
        (Ok(got), Some(exact)) => {
            let inner = if dtype == DType::F64 { 64.0 * rounding(dtype) } else { rounding(DType::F32) };
            let worst = largest(&got, &exact);
            assert!(
                worst <= 2f64.sqrt() * (4.0 * inner + 1.01 * rounding(dtype)),
                "{what}: off by {worst:e}"
            );
            true
        }
        (Err(_), None) => false,
        (Ok(y), None) => panic!("{what} should be refused, and gave {} numbers", y.len()),
        (Err(error), Some(_)) => panic!("{what}: {error}"),
    }
}

#[test]
fn right_or_refused() -> Result<()> {
    let random = &mut Random(0x5eed);
    let (mut right, mut refused) = (0, 0);
    for (device, dtypes) in devices() {
        for _ in 0..10_000 {
            let head_dim = 2 + random.below(9);
            let rotary = 2 * (1 + random.below(head_dim / 2));
            let offset = random.below(head_dim - rotary + 1);
            let pairing = PAIRINGS[random.below(3)];
            let rope =
                Rope::builder(head_dim).rotary_dim(rotary).rotary_offset(offset).pairing(pairing).build()?;
            let end = 4 + random.below(12);
            let embedding = RotaryEmbedding::new(&rope, end, &device)?;
            let first = [0, 0, 0, 1, 2, 5, usize::MAX, 1 << 62][random.below(8)];
            let Ok(rows) = embedding.at(Positions::From(first)) else {
                refused += 1;
                continue;
            };
            let case = Case { rope: &rope, rows, first, end };
            let kind = (&device, dtypes[random.below(dtypes.len())]);
            let done = match random.below(16) {
                0 => check(&case, tensor::<1>(random, head_dim, kind), None),
                1 => check(&case, tensor::<2>(random, head_dim, kind), None),
                2 | 3 => check(&case, tensor::<3>(random, head_dim, kind), None),
                4 | 5 => check(&case, tensor::<5>(random, head_dim, kind), None),
                6..9 => {
                    let x = tensor::<4>(random, head_dim, kind);
                    check(&case, x.clone(), Some(x))
                }
                _ => check(&case, tensor::<4>(random, head_dim, kind), None),
            };
            *(if done { &mut right } else { &mut refused }) += 1;
        }
    }
    println!("{right} right, {refused} refused");
    assert!(right > 5000 && refused > 2000);
    Ok(())
}

/// Ids, packed sequences and axes of any shape and content.
#[test]
fn positions_right_or_refused() -> Result<()> {
    let random = &mut Random(0xacce55);
    let device = Device::flex();
    let (mut right, mut refused) = (0, 0);
    for _ in 0..10_000 {
        let embedding = RotaryEmbedding::new(&Rope::builder(4).build()?, 12, &device)?;
        let (batch, length) = (random.below(3), random.below(6));
        let list = |random: &mut Random, count: usize| -> Vec<i64> {
            let mut list: Vec<i64> = (0..count).map(|_| random.below(12) as i64).collect();
            if random.below(3) == 0 && count > 0 {
                list[random.below(count)] = [-1, 12, i64::MAX, i64::MIN, 1 << 40][random.below(5)];
            }
            list
        };
        let ints = |random: &mut Random, count: usize| {
            let list = list(random, count);
            Tensor::<1, Int>::from_data(TensorData::new(list, [count]), (&device, DType::I64))
        };
        let kind = random.below(5);
        let extra = usize::from(random.below(6) == 0);
        let rows = match kind {
            0 => embedding.at(Positions::Ids(&ints(random, length + extra))),
            1 => {
                let shape = [batch, length + extra];
                // burn's `reshape` takes a size of 0 as that of another shape.
                let ids = TensorData::new(list(random, shape[0] * shape[1]), shape);
                let ids = Tensor::from_data(ids, (&device, DType::I64));
                embedding.at(Positions::BatchIds(&ids))
            }
            2 => {
                let sequences = 1 + random.below(3);
                let mut ends = list(random, sequences);
                ends.sort_unstable();
                if extra == 0 && length > 0 {
                    ends.push(length as i64);
                }
                let count = ends.len();
                let ends = TensorData::new(ends, [count]);
                embedding.at(Positions::Packed(&Tensor::from_data(ends, (&device, DType::I64))))
            }
            3 => {
                let mut positions = random.tensor([1 + extra, length], (&device, DType::F64)) * 1e3;
                if random.below(4) == 0 {
                    positions = positions * f64::INFINITY;
                }
                embedding.at(Positions::Axes(&positions))
            }
            _ => {
                let positions = random.tensor([1, batch, length + extra], (&device, DType::F64));
                embedding.at(Positions::BatchAxes(&positions))
            }
        };
        let x = random.tensor([if kind == 2 { 1 } else { batch }, 2, length, 4], (&device, DType::F32));
        match rows.and_then(|rows| rows.rotate(x.clone())) {
            Err(_) => refused += 1,
            // Lengths of vectors are kept.
            Ok(y) => {
                let norm = |x: &Tensor<4>| numbers(x).iter().map(|x| x * x).sum::<f64>();
                let (a, b) = (norm(&x), norm(&y));
                assert!((a - b).abs() <= a * 4.0 * rounding(DType::F32));
                right += 1;
            }
        }
    }
    println!("{right} right, {refused} refused");
    assert!(right > 3000 && refused > 2000);
    Ok(())
}

/// Settings of any kind are a layer or an error.
#[test]
fn settings() {
    let random = &mut Random(77);
    let device = Device::flex();
    for _ in 0..2000 {
        let sizes = [0, 1, 2, 3, 8, 8192, 8194, usize::MAX, usize::MAX - 1, 1 << 31];
        let (length, d_model) = (sizes[random.below(10)], sizes[random.below(10)]);
        let theta =
            [0.0, -1.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, f32::MAX, 1.0, 1e4][random.below(8)];
        let _ = RotaryEncodingConfig::new(length, d_model).with_theta(theta).try_init(&device);
        let mut size = || sizes[random.below(10)];
        let axes =
            [Axes::Sections(vec![size(), size()]), Axes::Interleaved(vec![]), Axes::Axial { axes: size() }];
        let (rotary, offset, trained) = (size(), size(), size() as u64);
        let factor = f64::from(theta);
        let schedules = [
            Schedule::DynamicNtk { factor, trained_length: trained },
            Schedule::Yarn(Yarn::new(factor, trained)),
            Schedule::Proportional { fraction: factor, factor },
            Schedule::Given(vec![factor; 4]),
        ];
        let config = RotaryEmbeddingConfig::new(length.min(9), d_model)
            .with_base(1.0 / factor)
            .with_rotary_dim(Some(rotary))
            .with_rotary_offset(offset)
            .with_sequence_length(Some(trained))
            .with_schedule(schedules[random.below(4)].clone());
        let _ = config.init(&device);
        let _ = config.with_axes(axes[random.below(3)].clone()).init(&device);
    }
}
