//! Products against sums written out in `f64`, on every instruction set and odd sizes.

use super::*;

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
        })
        .collect()
}

fn check<T: Real>(level: Level, rows: usize, inputs: usize, outputs: usize, epsilon: f64) {
    let cast = |list: &[f64]| list.iter().map(|&x| T::of(x)).collect::<Vec<T>>();
    let (x, weight) = (cast(&numbers(rows * inputs, 1)), cast(&numbers(outputs * inputs, 2)));
    let bias = cast(&numbers(outputs, 3));
    let mut matrix = Matrix::zeros_at(level, outputs, inputs).unwrap();
    matrix.set_rows(0, &weight);
    matrix.set_bias(0, &bias);
    let mut out = vec![T::of(7.0); rows * outputs];
    matrix.apply(&x, &mut out, Activation::Identity);
    for row in 0..rows {
        for output in 0..outputs {
            let terms =
                (0..inputs).map(|i| x[row * inputs + i].to_f64() * weight[output * inputs + i].to_f64());
            let exact = bias[output].to_f64() + terms.sum::<f64>();
            let got = out[row * outputs + output].to_f64();
            // A sum of n rounded terms below 1 is off by at most n half units of the largest partial sum.
            let bound = epsilon * (inputs as f64 + 1.0) * (inputs as f64 + 1.0).sqrt();
            assert!((got - exact).abs() <= bound, "{level:?} {rows}×{inputs}×{outputs}: {got} {exact}");
        }
    }
}

#[test]
fn products_are_sums() {
    for level in Level::available() {
        for (rows, inputs, outputs) in [
            (1, 1, 1),
            (1, 7, 3),
            (2, 5, 16),
            (3, 17, 17),
            (5, 64, 31),
            (7, 33, 33),
            (8, 48, 48),
            (9, 31, 49),
            (13, 20, 64),
            (17, 12, 65),
            (25, 3, 97),
            (6, 0, 5),
            (0, 6, 5),
            (31, 40, 144),
            (130, 9, 50),
        ] {
            check::<f32>(level, rows, inputs, outputs, f64::from(f32::EPSILON));
            check::<f64>(level, rows, inputs, outputs, f64::EPSILON);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads_or_rows() {
    let (rows, inputs, outputs) = (37, 65, 131);
    let x: Vec<f32> = numbers(rows * inputs, 5).iter().map(|&x| x as f32).collect();
    let weight: Vec<f32> = numbers(outputs * inputs, 6).iter().map(|&x| x as f32).collect();
    let mut matrix = Matrix::zeros(outputs, inputs).unwrap();
    matrix.set_rows(0, &weight);
    let run = |threads: usize, x: &[f32]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut out = vec![0.0f32; x.len() / inputs * outputs];
        pool.install(|| matrix.apply(x, &mut out, Activation::Gelu));
        out
    };
    let all = run(1, &x);
    assert_eq!(all, run(2, &x));
    assert_eq!(all, run(3, &x));
    assert_eq!(all[5 * outputs..6 * outputs], run(2, &x[5 * inputs..6 * inputs]));
}

#[test]
fn packed_columns_are_the_columns() {
    for level in Level::available() {
        for (inputs, columns, width) in
            [(1, 1, 16), (7, 3, 16), (16, 16, 16), (33, 40, 48), (40, 48, 48), (17, 63, 64), (64, 64, 64)]
        {
            let step = inputs + 3;
            let from: Vec<f32> = numbers(columns * step, 7).iter().map(|&x| x as f32).collect();
            let mut panel = vec![9.0; inputs * width + 1];
            let shape = Columns { inputs, step, columns, width };
            // No more than what is there: the last column ends where the memory does.
            f32::pack_columns(level, &from[..from.len() - 3], shape, 0.5, &mut panel);
            for (index, &packed) in panel[..inputs * width].iter().enumerate() {
                let (input, column) = (index / width, index % width);
                let wanted = if column < columns { 0.5 * from[column * step + input] } else { 0.0 };
                assert_eq!(packed, wanted, "{level:?} {inputs} × {columns} at {input}, {column}");
            }
            assert_eq!(panel[inputs * width], 9.0);
        }
    }
}

#[test]
fn runs_start_from_and_add_what_they_are_told() {
    let (rows, inputs) = (13, 5);
    for level in Level::available() {
        for columns in [1, 15, 16, 31, 48, 50] {
            let width = f32::width(level, columns);
            let columns = columns.min(width);
            let cast = |list: Vec<f64>| list.into_iter().map(|x| x as f32).collect::<Vec<f32>>();
            let (x, panel) = (cast(numbers(rows * inputs, 1)), cast(numbers(inputs * width, 2)));
            // Each no longer than it must be.
            let (bias, plus) = (cast(numbers(columns, 3)), cast(numbers(rows * columns, 4)));
            let before = cast(numbers(rows * columns, 5));
            let starts = [Start::Zero, Start::Bias(bias.as_ptr()), Start::Target];
            for (kind, start) in starts.into_iter().enumerate() {
                for plus_rows in [None, Some((plus.as_ptr(), columns))] {
                    let mut out = before.clone();
                    let run = Run {
                        x: x.as_ptr(),
                        x_step: inputs,
                        x_column: 1,
                        rows,
                        inputs,
                        panel: panel.as_ptr(),
                        width,
                        out: out.as_mut_ptr(),
                        out_step: columns,
                        columns,
                        start,
                        plus: plus_rows,
                        next: None,
                    };
                    // SAFETY: the lists have the sizes that a run asks for; the level is available.
                    unsafe { f32::run(level, &run) };
                    for (index, &out) in out.iter().enumerate() {
                        let (row, column) = (index / columns, index % columns);
                        let first = [0.0, bias[column], before[index]][kind];
                        let terms = (0..inputs).map(|i| x[row * inputs + i] * panel[i * width + column]);
                        let wanted = first + terms.sum::<f32>() + plus_rows.map_or(0.0, |_| plus[index]);
                        assert!((out - wanted).abs() < 2e-6, "{level:?} {columns} {kind} at {row}, {column}");
                    }
                }
            }
        }
    }
}

#[test]
fn columns_of_a_square_become_rows() {
    let square: [[f32; SIDE]; SIDE] =
        std::array::from_fn(|row| std::array::from_fn(|column| (100 * row + column) as f32));
    for level in Level::available() {
        for step in [SIDE, SIDE + 5, 48] {
            let mut rows = vec![-1.0; (SIDE - 1) * step + SIDE];
            turn(level, &square, &mut rows, step);
            for (index, &number) in rows.iter().enumerate() {
                let (column, row) = (index / step, index % step);
                let wanted = if row < SIDE { (100 * row + column) as f32 } else { -1.0 };
                assert_eq!(number, wanted, "{level:?}, {step} apart, number {index}");
            }
        }
    }
}
