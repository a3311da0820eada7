//! Other people's pointers and streams, graphs, and threads.

use crate::common::*;
use rope::cuda::{Buffer, Device, Event, Stream, Table, Trig, ViewMut};
use rope::{Pairing, Positions, Turn, bf16};

/// A table of 64 rows on the GPU, x `[1, 64, 2, 128]`, and what the CPU makes of it.
fn expected(device: &Device) -> (Table, Vec<bf16>, Vec<bf16>) {
    let x: Vec<bf16> = moderate(64 * 2 * 128, 8);
    let host = rope_of(0, 64, 0, Pairing::Half, false).table::<f32>(0..64, None).unwrap();
    let mut y = x.clone();
    let mut view = rope::ViewMut::blhd(&mut y, [1, 64, 2, 128]).unwrap();
    host.at(Positions::From(0)).unwrap().rotate(Turn::Forward, &mut view).unwrap();
    (Table::new(device, &host).unwrap(), x, y)
}

#[test]
fn small_foreign_pointer_and_stream() {
    let Some((device, own)) = gpu() else { return };
    let (table, x, y) = expected(&device);
    // SAFETY: a stream of this device that outlives the result; and null, the default stream.
    let streams = unsafe {
        [Stream::from_raw(&device, own.pointer()), Stream::from_raw(&device, std::ptr::null_mut())]
    };
    for stream in &streams {
        let buffer = device.upload(&x).unwrap();
        // SAFETY: all elements of a buffer that nothing else uses.
        let mut view =
            unsafe { ViewMut::<bf16>::from_raw(buffer.pointer(), [1, 64, 2, 128], [64 * 256, 256, 128]) }
                .unwrap();
        table.at(Positions::From(0)).unwrap().rotate(stream, Turn::Forward, &mut view).unwrap();
        same(&buffer.download(stream).unwrap(), &y, "foreign");
    }
}

#[test]
fn small_foreign_cosines_and_sines() {
    let Some((device, stream)) = gpu() else { return };
    let (table, x, y) = expected(&device);
    let numbers = table.rope().table::<f32>(0..64, None).unwrap();
    // In two places, with rows further apart than they are long: aligned for wide accesses, and not.
    for (stride, shift) in [(64, 0), (68, 0), (67, 0), (64, 1)] {
        let apart = |list: &[f32]| {
            let mut all = vec![f32::NAN; shift];
            for row in list.chunks(64) {
                all.extend(row);
                all.resize(all.len() + stride - 64, f32::NAN);
            }
            device.upload(&all).unwrap()
        };
        let (cos, sin) = (apart(numbers.cos()), apart(numbers.sin()));
        let address = |numbers: &Buffer<f32>| numbers.pointer() + 4 * shift as u64;
        let trig = Trig { cos: address(&cos), sin: address(&sin), stride };
        // SAFETY: 64 rows of both, in buffers that outlive the table.
        let lent = unsafe { Table::from_raw(&device, table.rope(), trig, 64, false) }.unwrap();
        let mut buffer = device.upload(&x).unwrap();
        let mut view = ViewMut::blhd(&mut buffer, [1, 64, 2, 128]).unwrap();
        lent.at(Positions::From(0)).unwrap().rotate(&stream, Turn::Forward, &mut view).unwrap();
        same(&buffer.download(&stream).unwrap(), &y, "somebody else's table");
    }
}

#[test]
fn recorded_work_runs_again() {
    let Some((device, stream)) = gpu() else { return };
    let (table, x, y) = expected(&device);
    let mut buffer = device.upload(&x).unwrap();
    let mut graph = {
        let mut view = ViewMut::blhd(&mut buffer, [1, 64, 2, 128]).unwrap();
        let mut record =
            || stream.capture(|| table.at(Positions::From(0))?.rotate(&stream, Turn::Forward, &mut view));
        // The driver gives a recording up when another thread asks for memory in the meantime, as other tests do.
        let mut tries = (0..1000).map(|_| record());
        tries.find_map(Result::ok).expect("a recording that nothing disturbs")
    };
    same(&buffer.download(&stream).unwrap(), &x, "recorded, not run");
    let (before, after) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
    stream.record(&before).unwrap();
    // SAFETY: the table and the buffer are there, and nothing else uses them.
    unsafe { graph.launch(&stream) }.unwrap();
    stream.record(&after).unwrap();
    same(&buffer.download(&stream).unwrap(), &y, "run");
    assert!(after.milliseconds_since(&before).unwrap() > 0.0);
    // Work that fails is not a graph, and the stream can be used again.
    let mut view = ViewMut::blhd(&mut buffer, [1, 64, 2, 128]).unwrap();
    assert!(
        stream.capture(|| table.at(Positions::From(9))?.rotate(&stream, Turn::Forward, &mut view)).is_err()
    );
    stream.synchronise().unwrap();
}

#[test]
fn many_threads_share_a_table() {
    let Some((device, _)) = gpu() else { return };
    let (table, x, y) = expected(&device);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                for _ in 0..50 {
                    let mut buffer = device.upload(&x).unwrap();
                    let mut view = ViewMut::blhd(&mut buffer, [1, 64, 2, 128]).unwrap();
                    table.at(Positions::From(0)).unwrap().rotate(&stream, Turn::Forward, &mut view).unwrap();
                    same(&buffer.download(&stream).unwrap(), &y, "a thread");
                }
            });
        }
    });
}
