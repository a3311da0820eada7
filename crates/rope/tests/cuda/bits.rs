//! The GPU gives the CPU's bits, on every shape, stride, pairing, turn, kind of position and number type.

use crate::common::*;
use proptest::prelude::*;
use proptest::sample::select;
use rope::cuda::{Device, Stream, Table, View as DeviceView, ViewMut as DeviceViewMut};
use rope::{Pairing, Positions, Turn, View, ViewMut, bf16, f16};

/// One rotation of queries and keys to try.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub batch: usize,
    pub length: usize,
    /// Of queries and of keys.
    pub heads: [usize; 2],
    pub pairs: usize,
    pub before: usize,
    pub after: usize,
    /// Elements before the first, and extra ones between neighbours along each axis.
    pub gaps: [usize; 4],
    /// Whether heads are the finer axis.
    pub heads_inside: bool,
    pub pairing: Pairing,
    pub turn: Turn,
    /// From, ids, ids of the batch, packed.
    pub positions: u8,
    pub scaled: bool,
}

/// Sizes that allow wide accesses as often as those that do not.
fn around() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), 0..4usize, Just(8usize), Just(16usize)]
}

fn gap() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0usize), 0..9usize, Just(8usize)]
}

prop_compose! {
    fn cases()(
        seed in any::<u64>(),
        (batch, length, heads) in (0..4usize, 0..9usize, [0..20usize, 0..6usize]),
        pairs in prop_oneof![1..70usize, (1..17usize).prop_map(|x| 8 * x), Just(64usize), 250..600usize],
        (before, after, gaps) in (around(), around(), [gap(), gap(), gap(), gap()]),
        (pairing, turn) in (select(&PAIRINGS[..]), select(&TURNS[..])),
        positions in 0..4u8,
        (heads_inside, scaled) in any::<(bool, bool)>(),
    ) -> Case {
        Case {
            seed, batch, length, heads, pairs, before, after,
            gaps, heads_inside, pairing, turn, positions, scaled,
        }
    }
}

impl Case {
    fn head_dim(&self) -> usize {
        self.before + 2 * self.pairs + self.after
    }

    /// Strides of queries or keys, with some gaps.
    fn strides(&self, heads: usize, gaps: &[usize]) -> [usize; 3] {
        let inner = self.head_dim() + gaps[0];
        let middle = inner * if self.heads_inside { heads } else { self.length } + gaps[1];
        let outer = middle * if self.heads_inside { self.length } else { heads } + gaps[2];
        if self.heads_inside { [outer, middle, inner] } else { [outer, inner, middle] }
    }
}

/// Rotates on both and compares every element, those around the vectors too.
pub fn check<T: Bits>(device: &Device, stream: &Stream, case: &Case) {
    let Case { batch, length, heads, .. } = *case;
    let rope = rope_of(case.before, case.pairs, case.after, case.pairing, case.scaled);
    let host = rope.table::<f32>(-3..40, None).unwrap();
    let table = Table::new(device, &host).unwrap();
    let mut random = Random(case.seed);
    let ids: Vec<i32> = (0..batch * length).map(|_| (random.next() % 43) as i32 - 3).collect();
    let ends: Vec<u32> = [0, length / 3, length / 3, length].map(|end| end as u32).to_vec();
    let positions = match case.positions {
        0 => Positions::From(5),
        1 => Positions::ids(&ids[..length.min(ids.len())]),
        2 => Positions::batch_ids(&ids),
        _ => Positions::packed(&ends),
    };
    let (cpu, gpu) = (host.at(positions).unwrap(), table.at(positions).unwrap());

    let first = case.gaps[3];
    let shapes = heads.map(|heads| [batch, length, heads, case.head_dim()]);
    let strides = heads.map(|heads| case.strides(heads, &case.gaps));
    let other = heads.map(|heads| case.strides(heads, &[case.gaps[2], case.gaps[0], case.gaps[1]]));
    let size = |strides: [usize; 3]| first + strides[0] * batch + 8;
    let mut fill = |size: usize| -> Vec<T> { (0..size).map(|_| element(&mut random)).collect() };
    let inputs = strides.map(|strides| fill(size(strides)));
    let backgrounds = other.map(|strides| fill(size(strides)));

    // In place.
    let [mut q, mut k] = inputs.clone();
    let expected = cpu.rotate_pair(
        case.turn,
        &mut ViewMut::strided(&mut q[first..], shapes[0], strides[0]).unwrap(),
        &mut ViewMut::strided(&mut k[first..], shapes[1], strides[1]).unwrap(),
    );
    let [mut gpu_q, mut gpu_k] = inputs.clone().map(|input| device.upload(&input).unwrap());
    let got = {
        let (q, k) = (gpu_q.as_mut_slice(), gpu_k.as_mut_slice());
        let (q, k) = (q.split_at(first).unwrap().1, k.split_at(first).unwrap().1);
        let mut q = DeviceViewMut::strided(q, shapes[0], strides[0]).unwrap();
        let mut k = DeviceViewMut::strided(k, shapes[1], strides[1]).unwrap();
        gpu.rotate_pair(stream, case.turn, &mut q, &mut k)
    };
    assert_eq!(got.is_ok(), expected.is_ok(), "{got:?} and {expected:?}: {case:?}");
    same(&gpu_q.download(stream).unwrap(), &q, case);
    same(&gpu_k.download(stream).unwrap(), &k, case);
    if got.is_err() {
        return;
    }

    // Out of place, to other strides.
    let [mut q, mut k] = backgrounds.clone();
    for (index, target) in [&mut q, &mut k].into_iter().enumerate() {
        let source = View::strided(&inputs[index][first..], shapes[index], strides[index]).unwrap();
        let mut target = ViewMut::strided(&mut target[first..], shapes[index], other[index]).unwrap();
        cpu.rotate_to(case.turn, &source, &mut target).unwrap();
    }
    let sources = inputs.map(|input| device.upload(&input).unwrap());
    let [mut gpu_q, mut gpu_k] = backgrounds.map(|background| device.upload(&background).unwrap());
    {
        let source = |index: usize| {
            let slice = sources[index].as_slice();
            let slice = slice.range(first..slice.len()).unwrap();
            DeviceView::strided(slice, shapes[index], strides[index]).unwrap()
        };
        let (q, k) = (gpu_q.as_mut_slice(), gpu_k.as_mut_slice());
        let (q, k) = (q.split_at(first).unwrap().1, k.split_at(first).unwrap().1);
        let mut q = DeviceViewMut::strided(q, shapes[0], other[0]).unwrap();
        let mut k = DeviceViewMut::strided(k, shapes[1], other[1]).unwrap();
        if case.seed.is_multiple_of(2) {
            let to = (&mut q, &mut k);
            gpu.rotate_pair_to(stream, case.turn, (&source(0), &source(1)), to).unwrap();
        } else {
            gpu.rotate_to(stream, case.turn, &source(0), &mut q).unwrap();
            gpu.rotate_to(stream, case.turn, &source(1), &mut k).unwrap();
        }
    }
    same(&gpu_q.download(stream).unwrap(), &q, ("to", case));
    same(&gpu_k.download(stream).unwrap(), &k, ("to", case));
}

fn every<T: Bits>(count: u32) {
    let Some((device, stream)) = gpu() else { return };
    let config = ProptestConfig { cases: count, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| check::<T>(&device, &stream, &case));
}

#[test]
fn f32_bits() {
    every::<f32>(800);
}

#[test]
fn f16_bits() {
    every::<f16>(800);
}

#[test]
fn bf16_bits() {
    every::<bf16>(800);
}

/// Every 16-bit pattern beside 0 comes out of a rotation by 0 as it went in.
#[test]
fn every_16_bit_pattern_survives_the_identity() {
    fn every<T: Bits>(device: &Device, stream: &Stream) {
        for pairing in [Pairing::Half, Pairing::Interleaved] {
            let rope = rope_of(0, 32, 0, pairing, false);
            let table = Table::new(device, &rope.table(0..1, None).unwrap()).unwrap();
            // 32 patterns a vector, each with a 0 for its partner.
            let pattern = |index: usize| match pairing {
                Pairing::Half => (index % 64 < 32).then_some(index / 64 * 32 + index % 64),
                _ => index.is_multiple_of(2).then_some(index / 2),
            };
            let of = |index: usize| pattern(index).map_or(T::of_bits(0), |bits| T::of_bits(bits as u64));
            let x: Vec<T> = (0..1 << 17).map(of).collect();
            let mut buffer = device.upload(&x).unwrap();
            let mut view = DeviceViewMut::blhd(&mut buffer, [1, 1, 1 << 11, 64]).unwrap();
            table.at(Positions::From(0)).unwrap().rotate(stream, Turn::Forward, &mut view).unwrap();
            let y = buffer.download(stream).unwrap();
            for index in (0..1 << 17).filter(|&index| pattern(index).is_some()) {
                let same = y[index].bits() == x[index].bits();
                assert!(same || (y[index].value().is_nan() && x[index].value().is_nan()), "{:?}", x[index]);
            }
        }
    }
    let Some((device, stream)) = gpu() else { return };
    every::<f16>(&device, &stream);
    every::<bf16>(&device, &stream);
}
