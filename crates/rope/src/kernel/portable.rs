//! The loop in plain Rust, for every machine: written so that the compiler can vectorise it. It also finishes the pairs
//! that do not fill a vector of the loops in `x86.rs`.

use super::Run;
use crate::element::Element;
use crate::pairing::Order;

/// Rotates a run.
///
/// # Safety
///
/// The run's invariants hold.
pub(super) unsafe fn run<T: Element>(run: &Run<T>) {
    for token in 0..run.tokens {
        for head in 0..run.heads {
            // SAFETY: all pairs of a vector of the run.
            unsafe { pairs(run, token, head, 0) };
        }
    }
}

/// Rotates the pairs of one vector of a run from `first` on.
///
/// # Safety
///
/// The run's invariants hold and it has this token and head.
#[inline(always)]
pub(super) unsafe fn pairs<T: Element>(run: &Run<T>, token: usize, head: usize, first: usize) {
    let Run { pairs, conjugate, .. } = *run;
    // SAFETY: all of it: a vector of the run; a pair's two features are below 2·pairs in either order.
    unsafe {
        let (source, target, cos, sin) = run.vector(token, head);
        let rotate = |pair: usize, (a, b): (usize, usize), (x, y): (usize, usize)| {
            let (c, s) = (*cos.add(pair), *sin.add(pair));
            let s = if conjugate { -s } else { s };
            let (p, q) = ((*source.add(a)).widen(), (*source.add(b)).widen());
            *target.add(x) = T::narrow(p * c - q * s);
            *target.add(y) = T::narrow(q * c + p * s);
        };
        // The order is a constant in each loop, so that each compiles to plain strided accesses.
        macro_rules! each {
            ($from:expr, $to:expr) => {
                for pair in first..pairs {
                    rotate(pair, $from.features(pair, pairs), $to.features(pair, pairs));
                }
            };
        }
        match (run.from, run.to) {
            (Order::Half, Order::Half) => each!(Order::Half, Order::Half),
            (Order::Interleaved, Order::Interleaved) => each!(Order::Interleaved, Order::Interleaved),
            (from, to) => each!(from, to),
        }
    }
}
