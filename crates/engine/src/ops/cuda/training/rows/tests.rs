//! Rows on a GPU against those of the CPU.

use super::super::check::{Gpu, STORAGES, close, done, gpu, mask, numbers, words};
use super::*;
use crate::ops::pass;

fn kernels(gpu: &Gpu) -> &Kernels {
    &gpu.kernels().rows
}

/// Batch, length and width, odd and multiples of 16 bytes, in both storages.
fn cases() -> impl Iterator<Item = ([usize; 3], Arithmetic)> {
    let sizes = [[1, 1, 1], [3, 7, 5], [4, 130, 40], [20, 65, 64]];
    sizes.into_iter().flat_map(|sizes| STORAGES.map(|arithmetic| (sizes, arithmetic)))
}

#[test]
fn columns_and_rows_are_copied() {
    let Some(gpu) = gpu() else { return };
    let (kernels, launcher) = (kernels(gpu), &gpu.launcher());
    for ([batch, length, width], arithmetic) in cases() {
        let rows = batch * length;
        let (wide, narrow) = (numbers(arithmetic, 1, rows * 3 * width), numbers(arithmetic, 2, rows * width));
        let [from, to] = [&wide, &narrow].map(|list| gpu.store(arithmetic, list));
        let part = Columns { rows: from.span(), width: 3 * width, first: width };
        let whole = Columns { rows: to.span(), width, first: 0 };
        let what = format!("{batch} {length} {width}");
        let mut expected = vec![0.0; rows * width];
        pass::columns(&wide, 3 * width, width, &mut expected, width);
        done(copy_columns(kernels, launcher, arithmetic, &part, &whole, [rows, width], false));
        close(&what, arithmetic, &gpu.fetch(arithmetic, &to, rows * width), &expected, 0.0);
        let (columns, mut sums) = (expected, wide.clone());
        pass::columns_backward(&columns, width, width, &mut sums, 3 * width);
        done(copy_columns(kernels, launcher, arithmetic, &whole, &part, [rows, width], true));
        close(&what, arithmetic, &gpu.fetch(arithmetic, &from, sums.len()), &sums, 1.0);
        // Every length-th row.
        let every = Columns { rows: from.span(), width: length * 3 * width, first: (length - 1) * 3 * width };
        let few = Columns { rows: to.span(), width: 3 * width, first: 0 };
        let before = gpu.fetch(arithmetic, &from, sums.len());
        if batch * 3 <= rows {
            done(copy_columns(kernels, launcher, arithmetic, &every, &few, [batch, 3 * width], false));
            let rows = before.chunks(3 * width).skip(length - 1).step_by(length);
            let expected: Vec<f32> = rows.flatten().copied().collect();
            close(&what, arithmetic, &gpu.fetch(arithmetic, &to, expected.len()), &expected, 0.0);
        }
    }
}

#[test]
fn codes_are_added_to_every_text() {
    let Some(gpu) = gpu() else { return };
    let (kernels, launcher) = (kernels(gpu), &gpu.launcher());
    for ([batch, length, width], arithmetic) in cases() {
        let size = batch * length * width;
        let what = format!("{batch} {length} {width}");
        let (a, codes) = (numbers(arithmetic, 1, size), numbers(Arithmetic::F32, 2, length * width));
        let (a_there, codes_there) = (gpu.store(arithmetic, &a), gpu.put(&codes));
        let table = Codes { codes: codes_there.span(), rows: length, width };
        let out = gpu.store(arithmetic, &vec![9.0; 2 * size]);
        let beside = Columns { rows: out.span(), width: 2 * width, first: width };
        for (place, list) in [(Span::NOTHING, vec![0.0; size]), (a_there.span(), a)] {
            let mut expected = vec![0.0; size];
            pass::add(&list, &codes, &mut expected);
            done(add_codes(kernels, launcher, arithmetic, place, &table, &beside, batch));
            let got = gpu.fetch(arithmetic, &out, 2 * size);
            assert!(got.chunks(2 * width).all(|row| row[..width].iter().all(|&x| x == 9.0)));
            let got: Vec<f32> = got.chunks(2 * width).flat_map(|row| &row[width..]).copied().collect();
            close(&what, arithmetic, &got, &expected, 1.0);
        }
        let dy = gpu.fetch(arithmetic, &out, 2 * size);
        let part: Vec<f32> = dy.chunks(2 * width).flat_map(|row| &row[width..]).copied().collect();
        for accumulate in [true, false] {
            let mut expected = codes.clone();
            pass::add_backward(&part, &mut expected, accumulate);
            let sums = gpu.put(&codes);
            let table = Codes { codes: sums.span(), ..table };
            done(add_codes_backward(kernels, launcher, arithmetic, &beside, &table, batch, accumulate));
            close(&what, Arithmetic::F32, &gpu.get(&sums, codes.len()), &expected, 16.0);
        }
    }
}

#[test]
fn a_text_has_one_vector() {
    let Some(gpu) = gpu() else { return };
    let (kernels, launcher) = (kernels(gpu), &gpu.launcher());
    for ([batch, length, width], arithmetic) in cases() {
        let size = batch * length * width;
        let is_real = mask(batch, length);
        let bits = gpu.put(&words(&is_real, length));
        let texts = Texts { mask: bits.span(), batch, length, width };
        let (x, dy) = (numbers(arithmetic, 1, size), numbers(arithmetic, 2, batch * width));
        let before = numbers(arithmetic, 3, size);
        let [x_there, dy_there] = [&x, &dy].map(|list| gpu.store(arithmetic, list));
        let out = gpu.store(arithmetic, &dy);
        for kind in [Pool::Mean, Pool::Last] {
            let (mut expected, mut gradient) = (vec![0f32; batch * width], vec![0f32; size]);
            for text in 0..batch {
                let mut real = (text * length..(text + 1) * length).filter(|&token| is_real[token]);
                let tokens: Vec<usize> = match kind {
                    Pool::Mean => real.collect(),
                    Pool::Last => vec![real.next_back().unwrap_or((text + 1) * length - 1)],
                };
                let share = 1.0 / tokens.len().max(1) as f32;
                for (token, column) in tokens.iter().flat_map(|token| (0..width).map(move |c| (token, c))) {
                    expected[text * width + column] += share * x[token * width + column];
                    gradient[token * width + column] += share * dy[text * width + column];
                }
            }
            done(pool(kernels, launcher, arithmetic, kind, &texts, x_there.span(), out.span()));
            let what = format!("{batch} {length} {width}");
            close(&what, arithmetic, &gpu.fetch(arithmetic, &out, batch * width), &expected, 16.0);
            for accumulate in [false, true] {
                let dx = gpu.store(arithmetic, &before);
                let (from, to) = (dy_there.span(), dx.span());
                done(pool_backward(kernels, launcher, arithmetic, kind, &texts, from, to, accumulate));
                let sum = gradient.iter().zip(&before);
                let sum: Vec<f32> = sum.map(|(a, b)| if accumulate { a + b } else { *a }).collect();
                close(&what, arithmetic, &gpu.fetch(arithmetic, &dx, size), &sum, 2.0);
            }
        }
    }
}
