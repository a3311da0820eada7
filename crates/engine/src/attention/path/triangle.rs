//! The triangle T = (I + D·U)⁻¹·D of a block, what is made of it, and the way back through that.
//!
//! N = (I + D·U)⁻¹ is found row by row from the last on, in `f64`: N_a = e_a − β_a·Σ_(b > a) U_ab·N_b. Of each entry there is a bound
//! that does not grow with the block, since every H is no longer than 1: |N_ab| ≤ 2.

use super::{BLOCK, Made};
use crate::attention::tile::{add_product, product};
use crate::ops::dispatch::vectorised;
use crate::ops::multiply::Strided;
use crate::ops::{Memory, Real};

/// Memory for a block; all matrices are `[BLOCK, BLOCK]`.
pub(super) struct Triangle<T> {
    /// β of its tokens.
    pub beta: [f64; BLOCK],
    u: Memory<T>,
    n: Memory<f64>,
    t: Memory<T>,
    a: Memory<T>,
    /// Gradients, and what they are made of.
    dt: Memory<T>,
    da: Memory<T>,
    x: Memory<T>,
    y: Memory<T>,
}

vectorised! {
    /// N, from what of W·Wᵀ is above the diagonal: as many rows as there are β.
    fn invert<T>(u: &[T], beta: &[f64], n: &mut [f64]) = invert_each
}

#[inline(always)]
fn invert_each<T: Real>(u: &[T], beta: &[f64], n: &mut [f64]) {
    let count = beta.len();
    for (a, beta) in beta.iter().enumerate().rev() {
        let (row, below) = n[a * BLOCK..].split_at_mut(BLOCK);
        row.fill(0.0);
        row[a] = 1.0;
        for (b, below) in (a + 1..count).zip(below.chunks_exact(BLOCK)) {
            let factor = beta * u[a * BLOCK + b].to_f64();
            for (x, &other) in row[b..count].iter_mut().zip(&below[b..count]) {
                *x -= factor * other;
            }
        }
    }
}

/// Sets all that is not above the diagonal to 0.
fn keep_above<T: Real>(matrix: &mut [T], count: usize) {
    for (row, numbers) in matrix.chunks_exact_mut(BLOCK).take(count).enumerate() {
        numbers[..=row].fill(T::ZERO);
    }
}

/// Of square matrices of a block.
fn square<T>(matrix: &[T]) -> Strided<'_, T> {
    Strided::rows(matrix, BLOCK)
}

impl<T: Real> Triangle<T> {
    pub fn new() -> Option<Self> {
        let empty = || Memory::zeros(0);
        Some(Triangle {
            beta: [0.0; BLOCK],
            u: empty()?,
            n: Memory::zeros(0)?,
            t: empty()?,
            a: empty()?,
            dt: empty()?,
            da: empty()?,
            x: empty()?,
            y: empty()?,
        })
    }

    pub fn fit(&mut self) -> bool {
        let Triangle { u, n, t, a, dt, da, x, y, .. } = self;
        n.fit(BLOCK * BLOCK) && [u, t, a, dt, da, x, y].into_iter().all(|memory| memory.fit(BLOCK * BLOCK))
    }

    pub fn bytes(&self) -> usize {
        self.n.len() * size_of::<f64>() + 7 * self.u.len() * size_of::<T>()
    }

    /// U, N and T of a block of so many tokens, whose β are there.
    pub fn find(&mut self, w: Strided<T>, count: usize, dim: usize) {
        let Triangle { beta, u, n, t, .. } = self;
        product((u, BLOCK), w, w.transposed(), [count, count, dim], 1.0);
        keep_above(u, count);
        invert(u, &beta[..count], n);
        for (row, n) in t.chunks_exact_mut(BLOCK).zip(n.chunks_exact(BLOCK)).take(count) {
            for ((t, n), beta) in row.iter_mut().zip(n).zip(&beta[..count]) {
                *t = T::of(n * beta);
            }
        }
    }

    /// G, M and K̃.
    pub fn make(&mut self, (w, k): (Strided<T>, Strided<T>), count: usize, [g, m, turned]: [&mut [T]; 3]) {
        let dim = m.len() / BLOCK;
        self.find_a(w, k, count, dim);
        product((g, BLOCK), square(&self.a), square(&self.t), [count, count, count], 1.0);
        product((m, dim), square(&self.t).transposed(), w, [count, dim, count], 1.0);
        for (row, out) in turned.chunks_exact_mut(dim).take(count).enumerate() {
            out.copy_from_slice(&k.data[row * k.row..][..dim]);
        }
        add_product((turned, dim), square(g), w, [count, dim, count], -1.0);
    }

    fn find_a(&mut self, w: Strided<T>, k: Strided<T>, count: usize, dim: usize) {
        product((&mut self.a, BLOCK), k, w.transposed(), [count, count, dim], 1.0);
        keep_above(&mut self.a, count);
    }

    /// The way back through a block: from the gradients of G, M and K̃ to those of K and W `[count, head_dim]`, which are added to,
    /// and of z, which are set. T must be that of the block.
    pub fn back(
        &mut self,
        (w, k): (Strided<T>, Strided<T>),
        made: &Made<T>,
        [dg, dm, dturned]: [&mut [T]; 3],
        (dk, dw, dz): (&mut [T], &mut [T], &mut [T]),
    ) {
        let (dim, count) = (dm.len() / BLOCK, dz.len());
        let (all, rows) = ([count, count, count], [count, dim, count]);
        self.find_a(w, k, count, dim);
        let Triangle { beta, u, n, t, a, dt, da, x, y } = self;
        let (t, a, wide) = (square(t), square(a), [count, count, dim]);
        // K̃ = K − G·W
        dk.iter_mut().zip(&*dturned).for_each(|(sum, &x)| *sum += x);
        add_product((dg, BLOCK), Strided::rows(dturned, dim), w.transposed(), wide, -1.0);
        add_product((dw, dim), square(made.g).transposed(), Strided::rows(dturned, dim), rows, -1.0);
        // M = Tᵀ·W
        let given = Strided::rows(dm, dim);
        product((dt, BLOCK), w, given.transposed(), wide, 1.0);
        add_product((dw, dim), t, given, rows, 1.0);
        // G = A·T
        add_product((dt, BLOCK), a.transposed(), square(dg), all, 1.0);
        product((da, BLOCK), square(dg), t.transposed(), all, 1.0);
        // A = K·Wᵀ above the diagonal
        keep_above(da, count);
        add_product((dk, dim), square(da), w, rows, 1.0);
        add_product((dw, dim), square(da).transposed(), k, rows, 1.0);
        // T = N·D: y = Nᵀ·dT, and x = I − U·T.
        for (x, &n) in x.iter_mut().zip(&**n).take(count * BLOCK) {
            *x = T::of(n);
        }
        product((y, BLOCK), square(x).transposed(), square(dt), all, 1.0);
        product((x, BLOCK), square(u), t, all, -1.0);
        for (token, ((x, y), dz)) in
            x.chunks_exact_mut(BLOCK).zip(y.chunks_exact_mut(BLOCK)).zip(dz).enumerate()
        {
            x[token] += T::ONE;
            let dbeta: T = x[..count].iter().zip(&y[..count]).map(|(&x, &y)| x * y).sum();
            let beta = beta[token];
            *dz = T::of(dbeta.to_f64() * beta * (1.0 - beta / 2.0));
            // Tᵀ·dT = D·Nᵀ·dT
            y[..count].iter_mut().for_each(|y| *y *= T::of(beta));
        }
        // U = W·Wᵀ above the diagonal: dU = −Tᵀ·dT·Tᵀ.
        product((da, BLOCK), square(y), t.transposed(), all, -1.0);
        keep_above(da, count);
        add_product((dw, dim), square(da), w, rows, 1.0);
        add_product((dw, dim), square(da).transposed(), w, rows, 1.0);
    }
}
