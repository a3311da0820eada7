//! Products of matrices that change from call to call, as training has them: the `gemm` crate behind bounds checks.
//!
//! (Products with a model's fixed weights are in `gemm/`, which packs them once.)

use super::Real;
use gemm::Parallelism;

/// A matrix in memory: element (r, c) is `data[r · row + c · column]`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a, T> {
    /// The numbers, from element (0, 0) on.
    pub data: &'a [T],
    /// From row to row.
    pub row: usize,
    /// From column to column.
    pub column: usize,
}

impl<'a, T> Strided<'a, T> {
    /// Row by row, `row` numbers from one to the next.
    pub fn rows(data: &'a [T], row: usize) -> Self {
        Strided { data, row, column: 1 }
    }

    /// The transpose.
    pub fn transposed(self) -> Self {
        Strided { data: self.data, row: self.column, column: self.row }
    }
}

/// Who does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The thread that calls.
    One,
    /// All threads of the current pool; the result has the same bits.
    All,
}

/// out = scale·a·b, or out += scale·a·b where `accumulate`: out `[m, n]` row by row with `row` numbers from one to the next,
/// a `[m, k]`, b `[k, n]`.
pub fn multiply<T: Real>(
    (out, row): (&mut [T], usize),
    a: Strided<T>,
    b: Strided<T>,
    [m, n, k]: [usize; 3],
    scale: f64,
    accumulate: bool,
    threads: Threads,
) {
    let reach = |rows: usize, columns: usize, row: usize, column: usize| {
        if rows == 0 || columns == 0 { 0 } else { (rows - 1) * row + (columns - 1) * column + 1 }
    };
    assert!(n <= row || m <= 1, "rows of a product overlap");
    assert!(out.len() >= reach(m, n, row, 1), "the output of a product");
    assert!(a.data.len() >= reach(m, k, a.row, a.column), "the left side of a product");
    assert!(b.data.len() >= reach(k, n, b.row, b.column), "the right side of a product");
    let parallelism = match threads {
        Threads::One => Parallelism::None,
        Threads::All => Parallelism::Rayon(0),
    };
    // SAFETY: the assertions above cover every element that is read or written, the rows of `out` do not overlap, and `out`
    // is borrowed alone.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            row as isize,
            accumulate,
            a.data.as_ptr(),
            a.column as isize,
            a.row as isize,
            b.data.as_ptr(),
            b.column as isize,
            b.row as isize,
            T::ONE,
            T::of(scale),
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: [usize; 3], accumulate: bool) {
        let [m, n, k] = sizes;
        let list = |len: usize, seed: usize| -> Vec<f64> {
            (0..len).map(|i| ((i * 37 + seed * 11) % 23) as f64 / 8.0 - 1.2).collect()
        };
        let (a, b, start) = (list(m * k, 1), list(k * n, 2), list(m * (n + 3), 3));
        let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let run = |threads: usize, a: Strided<f64>, b: Strided<f64>| {
            let mut out = start.clone();
            let product = || multiply((&mut out, n + 3), a, b, sizes, 0.5, accumulate, Threads::All);
            pool(threads).install(product);
            out
        };
        let (at, bt): (Vec<f64>, Vec<f64>) = (
            (0..m * k).map(|i| a[i % m * k + i / m]).collect(),
            (0..k * n).map(|i| b[i % k * n + i / k]).collect(),
        );
        let plain = run(1, Strided::rows(&a, k), Strided::rows(&b, n));
        assert!(plain == run(2, Strided::rows(&a, k), Strided::rows(&b, n)), "threads change bits");
        let turned = run(2, Strided::rows(&at, m).transposed(), Strided::rows(&bt, k).transposed());
        for row in 0..m {
            for column in 0..n + 3 {
                let index = row * (n + 3) + column;
                let sum: f64 = (0..k).map(|i| a[row * k + i] * b[(i * n + column).min(b.len() - 1)]).sum();
                let wanted = match column < n {
                    true => 0.5 * sum + if accumulate { start[index] } else { 0.0 },
                    false => start[index],
                };
                assert!((plain[index] - wanted).abs() < 1e-12 * k as f64, "{sizes:?} at {row}, {column}");
                assert!(
                    (turned[index] - wanted).abs() < 1e-12 * k as f64,
                    "{sizes:?} turned, at {row}, {column}"
                );
            }
        }
    }

    #[test]
    fn products_are_sums_of_products_with_the_same_bits_on_any_threads() {
        for sizes in [[1, 1, 1], [3, 5, 7], [64, 64, 64], [65, 33, 130], [200, 300, 257], [1, 70, 9]] {
            check(sizes, false);
            check(sizes, true);
        }
    }
}
