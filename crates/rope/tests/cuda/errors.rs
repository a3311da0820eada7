//! Errors: each one line, with the value; and the GPU works on.

use crate::common::*;
use rope::cuda::Error;
use rope::cuda::{Buffer, Device, FrequencyGradient, Ids, Positions, Table, View, ViewMut};
use rope::{Pairing, Positions as HostPositions, Turn, bf16};

#[track_caller]
fn refused<T, E: std::fmt::Display>(result: Result<T, E>, words: &[&str]) {
    let message = match result {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    assert!(
        !message.contains('\n') && words.iter().all(|word| message.contains(word)),
        "{words:?}: {message}"
    );
}

/// Where there is no GPU, that is one clear line, and the CPU works.
#[test]
fn no_gpu_is_one_line() {
    if let Err(error) = Device::new(0) {
        let message = error.to_string();
        assert!(matches!(error, Error::NoDevice(_)), "{message}");
        assert!(message.starts_with("no NVIDIA GPU can be used: ") && !message.contains('\n'), "{message}");
        assert_eq!(Device::new(0).err(), Some(error));
        assert!(Device::count().is_err());
    }
    rope_of(0, 2, 0, Pairing::Half, false).table::<f32>(0..4, None).unwrap();
}

#[test]
fn a_gpu_that_is_not_there() {
    let Some((_, _)) = gpu() else { return };
    let count = Device::count().unwrap();
    refused(Device::new(count), &["device", &count.to_string()]);
    refused(Device::new(usize::MAX), &["device"]);
}

#[test]
fn more_memory_than_there_is() {
    let Some((device, stream)) = gpu() else { return };
    let (free, total) = device.memory().unwrap();
    assert!(free <= total && total > 0);
    for len in [total as usize, usize::MAX / 2, usize::MAX] {
        let bytes = len as u128 * 4;
        let error = device.zeros::<f32>(len).err().unwrap();
        assert!(matches!(error, Error::Memory { bytes: asked, .. } if asked == bytes), "{error}");
        refused(Err::<(), _>(error), &[&bytes.to_string(), "free"]);
    }
    // It works on.
    let buffer = device.upload(&[1.0f32, 2.0]).unwrap();
    assert_eq!(buffer.download(&stream).unwrap(), [1.0, 2.0]);
}

#[test]
fn views_that_do_not_fit() {
    let Some((device, stream)) = gpu() else { return };
    let rope = rope_of(0, 2, 0, Pairing::Half, false);
    let host = rope.table::<f32>(0..4, None).unwrap();
    let table = Table::new(&device, &host).unwrap();
    let zeros = |shape: [usize; 4]| -> Buffer<bf16> { device.zeros(shape.iter().product()).unwrap() };
    let good = [1, 4, 2, 4];
    let rows = table.at(HostPositions::From(0)).unwrap();
    for other in [[1, 4, 2, 6], [1, 5, 2, 4], [1, 3, 1, 4], [2, 4, 2, 4], [0, 4, 1, 4], [1, 0, 1, 4]] {
        let (mut q, mut k) = (zeros(good), zeros(other));
        let (mut q, mut k) = (ViewMut::blhd(&mut q, good).unwrap(), ViewMut::blhd(&mut k, other).unwrap());
        let word = if other[1] == 5 { "position 4" } else { "head_dim" };
        refused(rows.rotate_pair(&stream, Turn::Forward, &mut q, &mut k), &[word]);
        assert!(rows.rotate_to(&stream, Turn::Forward, &q.as_view(), &mut k).is_err());
    }
    let mut x = zeros([1, 4, 1, 4]);
    refused(ViewMut::blhd(&mut x, [1, 4, 2, 4]), &["16 elements", "32"]);
    refused(ViewMut::strided(&mut x, [1, 4, 2, 4], [0, 3, 2]), &["strides"]);
    refused(View::strided(&x, [1, 5, 1, 4], [0, 4, 4]), &["at least 20"]);
    refused(x.as_mut_slice().range(3..17).map(|_| ()), &["3..17", "0..16"]);
    refused(x.upload(&stream, &[bf16::ONE; 3]), &["3 elements", "16"]);

    // Ids that are too few, and ids for a table of listed positions.
    let ids = device.upload(&[0i32, 1, 2]).unwrap();
    let rows = table.at(Positions::Ids(Ids::from(&ids))).unwrap();
    let mut view = ViewMut::blhd(&mut x, [1, 4, 1, 4]).unwrap();
    refused(rows.rotate(&stream, Turn::Forward, &mut view), &["position ids", "3", "4 ([length])"]);
    let rows = table.at(Positions::Packed { ends: Ids::from(&ids) }).unwrap();
    let mut view = ViewMut::blhd(&mut x, [2, 2, 1, 4]).unwrap();
    refused(rows.rotate(&stream, Turn::Forward, &mut view), &["packed", "batch 2"]);
    let listed = Table::new(&device, &rope.table_of(&[0.0, 1.0], None).unwrap()).unwrap();
    refused(listed.at(Positions::Ids(Ids::from(&ids))), &["listed"]);
    refused(listed.at(HostPositions::From(0)), &["listed"]);

    // Gradients, and tables of another size.
    let other = rope_of(0, 3, 0, Pairing::Half, false);
    let mut gradient = FrequencyGradient::new(&device, &other).unwrap();
    let y = View::blhd(&x, [1, 4, 1, 4]).unwrap();
    let rows = table.at(HostPositions::From(0)).unwrap();
    refused(rows.frequency_gradient(&stream, &y, &y, &mut gradient), &["one value per pair: 2"]);
    let mut table = Table::new(&device, &host).unwrap();
    refused(table.refill(&stream, &rope.table(0..5, None).unwrap()), &["5 rows", "4 rows"]);
    table.refill(&stream, &rope.table(2..6, None).unwrap()).unwrap();
    refused(rotate_at(&table, &stream, &mut x, 0), &["position 0", "2..6"]);
    rotate_at(&table, &stream, &mut x, 2).unwrap();
}

fn rotate_at(
    table: &Table,
    stream: &rope::cuda::Stream,
    x: &mut Buffer<bf16>,
    first: i64,
) -> rope::Result<()> {
    let mut view = ViewMut::blhd(x, [1, 4, 1, 4])?;
    table.at(HostPositions::From(first))?.rotate(stream, Turn::Forward, &mut view)
}

#[test]
fn nothing_to_rotate_is_nothing_wrong() {
    let Some((device, stream)) = gpu() else { return };
    let rope = rope_of(0, 2, 0, Pairing::Half, false);
    let table = Table::new(&device, &rope.table(0..4, None).unwrap()).unwrap();
    for shape in [[0, 4, 2, 4], [1, 0, 2, 4], [1, 4, 0, 4], [0, 0, 0, 4]] {
        let (mut q, mut k): (Buffer<f32>, Buffer<f32>) = (device.zeros(0).unwrap(), device.zeros(0).unwrap());
        let (mut q, mut k) = (ViewMut::blhd(&mut q, shape).unwrap(), ViewMut::blhd(&mut k, shape).unwrap());
        let rows = table.at(HostPositions::From(0)).unwrap();
        rows.rotate(&stream, Turn::Forward, &mut q).unwrap();
        rows.rotate_pair(&stream, Turn::Inverse, &mut q, &mut k).unwrap();
        rows.rotate_to(&stream, Turn::Backward, &k.as_view(), &mut q).unwrap();
        let mut gradient = FrequencyGradient::new(&device, &rope).unwrap();
        rows.frequency_gradient(&stream, &k.as_view(), &q.as_view(), &mut gradient).unwrap();
    }
    stream.synchronise().unwrap();
}
