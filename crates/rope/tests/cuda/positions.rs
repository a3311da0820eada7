//! Positions: ids in the GPU's memory, packed sequences, listed positions, and ids without a row.

use crate::common::*;
use rope::cuda::{Ids, Positions, Slice, Table, ViewMut};
use rope::{Axes, Pairing, Positions as HostPositions, Rope, Turn, bf16};

/// Rotates `[batch, length, 3, 128]` by positions on the GPU and by the CPU's, and demands the same bits.
fn agree(
    batch: usize,
    length: usize,
    range: std::ops::Range<i64>,
    gpu_positions: Positions,
    host: HostPositions,
) {
    let Some((device, stream)) = gpu() else { return };
    let rope = rope_of(0, 64, 0, Pairing::Half, true);
    let table = rope.table::<f32>(range, None).unwrap();
    let x: Vec<bf16> = moderate(batch * length * 3 * 128, 1);
    let mut expected = x.clone();
    let mut view = rope::ViewMut::blhd(&mut expected, [batch, length, 3, 128]).unwrap();
    table.at(host).unwrap().rotate(Turn::Forward, &mut view).unwrap();
    let table = Table::new(&device, &table).unwrap();
    for positions in [gpu_positions, Positions::Host(host)] {
        let mut buffer = device.upload(&x).unwrap();
        let mut view = ViewMut::blhd(&mut buffer, [batch, length, 3, 128]).unwrap();
        table.at(positions).unwrap().rotate(&stream, Turn::Forward, &mut view).unwrap();
        same(&buffer.download(&stream).unwrap(), &expected, (batch, length));
    }
}

#[test]
fn small_ids_of_every_type() {
    let Some((device, _)) = gpu() else { return };
    let ids = [7, 0, 99, 3, 3, 98, 50, 1];
    let (small, large, unsigned) = (ids.map(|id| id - 20), ids.map(i64::from), ids.map(|id| id as u32));
    let (a, b, c) = (device.upload(&small), device.upload(&large), device.upload(&unsigned));
    let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
    let host = HostPositions::ids(&small);
    agree(2, 8, -20..80, Positions::Ids(Ids::from(&a)), host);
    agree(1, 8, 0..100, Positions::Ids(Ids::from(&b)), HostPositions::ids(&large));
    agree(2, 4, 0..100, Positions::BatchIds(Ids::from(&b)), HostPositions::batch_ids(&large));
    agree(4, 2, 0..100, Positions::BatchIds(Ids::from(&c)), HostPositions::batch_ids(&unsigned));
    // Someone else's pointer, in the middle of a buffer.
    // SAFETY: elements 2..6 of a buffer that lives.
    let foreign = unsafe { Slice::<i64>::from_raw(b.pointer() + 16, 4) };
    agree(1, 4, 0..100, Positions::Ids(foreign.into()), HostPositions::ids(&large[2..6]));
}

#[test]
fn small_packed_sequences() {
    let Some((device, _)) = gpu() else { return };
    for ends in
        [vec![9], vec![0, 9], vec![0, 1, 1, 5, 9], vec![4, 4, 9, 9], vec![0, 0, 2, 3, 4, 5, 6, 7, 8, 9]]
    {
        let (on_gpu, unsigned) = (device.upload(&ends).unwrap(), ends.iter().map(|&end: &i32| end as u32));
        let unsigned: Vec<u32> = unsigned.collect();
        agree(1, 9, 0..9, Positions::Packed { ends: Ids::from(&on_gpu) }, HostPositions::packed(&ends));
        agree(1, 9, 0..9, Positions::Packed { ends: Ids::from(&on_gpu) }, HostPositions::packed(&unsigned));
    }
}

#[test]
fn small_several_axes() {
    let Some((device, stream)) = gpu() else { return };
    let axes = Axes::Sections(vec![16, 24, 24]);
    let rope = Rope::builder(128).pairing(Pairing::Half).axes(axes).build().unwrap();
    let positions: Vec<f64> = (0..3 * 10).map(|i| f64::from(i * i % 37) + 0.5).collect();
    let host = rope.table_of::<f32>(&positions, None).unwrap();
    let table = Table::new(&device, &host).unwrap();
    for (batch, length, rows) in [(2, 10, HostPositions::Rows), (2, 5, HostPositions::BatchRows)] {
        let x: Vec<f32> = moderate(batch * length * 4 * 128, 2);
        let (mut expected, mut buffer) = (x.clone(), device.upload(&x).unwrap());
        let shape = [batch, length, 4, 128];
        let mut view = rope::ViewMut::blhd(&mut expected, shape).unwrap();
        host.at(rows).unwrap().rotate(Turn::Forward, &mut view).unwrap();
        let mut view = ViewMut::blhd(&mut buffer, shape).unwrap();
        table.at(rows).unwrap().rotate(&stream, Turn::Forward, &mut view).unwrap();
        same(&buffer.download(&stream).unwrap(), &expected, rows);
    }
}

/// An id on the GPU that the table has no row for makes NaN of its own vectors and of no others.
#[test]
fn small_ids_without_a_row_give_nan() {
    let Some((device, stream)) = gpu() else { return };
    let rope = rope_of(8, 64, 8, Pairing::Half, false);
    let host = rope.table::<f32>(-2..10, None).unwrap();
    let table = Table::new(&device, &host).unwrap();
    let ids = [3, -3, 10, i64::MAX, i64::MIN, -2, 9, 1 << 40];
    let legal = ids.map(|id| (-2..10).contains(&id));
    let on_gpu = device.upload(&ids).unwrap();
    let x: Vec<f32> = moderate(8 * 2 * 144, 4);
    let mut buffer = device.upload(&x).unwrap();
    let mut view = ViewMut::blhd(&mut buffer, [1, 8, 2, 144]).unwrap();
    let rows = table.at(Positions::Ids(Ids::from(&on_gpu))).unwrap();
    rows.rotate(&stream, Turn::Forward, &mut view).unwrap();
    let y = buffer.download(&stream).unwrap();
    for (index, (x, y)) in x.iter().zip(&y).enumerate() {
        let (token, rotary) = (index / 288, (8..136).contains(&(index % 144)));
        assert_eq!(y.is_nan(), rotary && !legal[token], "token {token}, feature {}", index % 144);
        assert!(rotary || x == y);
    }
    // The CPU's ids are refused.
    let message = table.at(HostPositions::ids(&ids)).err().unwrap().to_string();
    assert!(message.contains("position -9223372036854775808"), "{message}");
    // Packed sequences that end before the tokens do.
    let ends = device.upload(&[0, 3, 5]).unwrap();
    let mut buffer = device.upload(&x).unwrap();
    let mut view = ViewMut::blhd(&mut buffer, [1, 8, 2, 144]).unwrap();
    let rows = table.at(Positions::Packed { ends: Ids::from(&ends) }).unwrap();
    rows.rotate(&stream, Turn::Forward, &mut view).unwrap();
    let y = buffer.download(&stream).unwrap();
    for (index, y) in y.iter().enumerate() {
        assert_eq!(y.is_nan(), (8..136).contains(&(index % 144)) && index / 288 >= 5, "at {index}");
    }
}
