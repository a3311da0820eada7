//! Sizes and strides beyond 32 bits.

use crate::common::*;
use rope::cuda::{Device, Slice, SliceMut, Stream, Table, ViewMut};
use rope::{Pairing, Positions, Turn, bf16};

/// Rotates a view in which a few vectors are far apart, and compares those few.
fn far_apart(device: &Device, stream: &Stream, pairing: Pairing, shape: [usize; 4], strides: [usize; 3]) {
    let [batch, length, heads, head_dim] = shape;
    let rope = rope_of(0, head_dim / 2, 0, pairing, false);
    let host = rope.table::<f32>(0..length as i64, None).unwrap();
    let table = Table::new(device, &host).unwrap();
    let size = (batch - 1) * strides[0] + (length - 1) * strides[1] + (heads - 1) * strides[2] + head_dim;
    let mut buffer = match device.zeros::<bf16>(size) {
        Ok(buffer) => buffer,
        Err(error) => {
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("skipped: {error}\n"));
            return;
        }
    };
    let at = |b: usize, l: usize, h: usize| b * strides[0] + l * strides[1] + h * strides[2];
    // The corners, and a few between.
    let ends = |count: usize| [0, count / 2, count - 1];
    let all = ends(batch).into_iter().flat_map(|b| ends(length).map(|l| (b, l)));
    let mut places: Vec<_> = all.flat_map(|(b, l)| ends(heads).map(|h| (b, l, h))).collect();
    places.sort_unstable();
    places.dedup();
    let vectors: Vec<Vec<bf16>> = (0..places.len()).map(|seed| moderate(head_dim, seed as u64)).collect();
    for (&(b, l, h), vector) in places.iter().zip(&vectors) {
        let range = at(b, l, h)..at(b, l, h) + head_dim;
        let mut slice: SliceMut<bf16> = buffer.as_mut_slice().range(range).unwrap();
        slice.upload(stream, vector).unwrap();
    }
    let mut view = ViewMut::strided(&mut buffer, shape, strides).unwrap();
    table.at(Positions::From(0)).unwrap().rotate(stream, Turn::Forward, &mut view).unwrap();
    for (&(b, l, h), vector) in places.iter().zip(&vectors) {
        let mut expected = vector.clone();
        let mut view = rope::ViewMut::blhd(&mut expected, [1, 1, 1, head_dim]).unwrap();
        host.at(Positions::From(l as i64)).unwrap().rotate(Turn::Forward, &mut view).unwrap();
        let slice: Slice<bf16> = buffer.as_slice().range(at(b, l, h)..at(b, l, h) + head_dim).unwrap();
        same(&slice.download(stream).unwrap(), &expected, (shape, strides, b, l, h));
    }
}

#[test]
fn more_than_32_bits_of_elements() {
    let Some((device, stream)) = gpu() else { return };
    for pairing in [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf] {
        // 5.4 thousand million elements side by side, then few vectors in as many.
        far_apart(&device, &stream, pairing, [2, 209_715, 100, 128], [209_715 * 12_800, 12_800, 128]);
        far_apart(&device, &stream, pairing, [2, 3, 2, 128], [5 << 29, 1 << 29, 1 << 27]);
        far_apart(&device, &stream, pairing, [2, 3, 2, 126], [(5 << 29) + 1, (1 << 29) + 3, 1 << 27]);
    }
}
