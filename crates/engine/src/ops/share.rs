//! Work in many small units, shared out among threads.

use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does the units 0 to `units` over the threads of the pool. Each thread has its part of them, the same in every operation, so that it finds
/// what it has just written; it takes half of what is left of it at a time, and when nothing is left, half of what is left to another:
/// all threads end together even where one is slower or began later.
pub(crate) fn share(units: usize, work: impl Fn(Range<usize>) + Sync) {
    let threads = rayon::current_num_threads();
    let begin = |part: usize| part * units / threads;
    let parts: Vec<AtomicUsize> = (0..threads).map(|part| AtomicUsize::new(begin(part))).collect();
    (0..threads).into_par_iter().with_max_len(1).for_each(|first| {
        for part in (first..threads).chain(0..first) {
            let end = begin(part + 1);
            let taken = |from: usize| from + (end - from).div_ceil(2);
            let take = || {
                let some = |from: usize| (from < end).then(|| taken(from));
                parts[part].fetch_update(Ordering::Relaxed, Ordering::Relaxed, some)
            };
            while let Ok(from) = take() {
                work(from..taken(from));
            }
        }
    });
}

/// As [`share`], for `blocks` of `units` each, which are done block by block: work is given a block and some of its units.
pub(crate) fn share_blocks(blocks: usize, units: usize, work: impl Fn(usize, Range<usize>) + Sync) {
    share(blocks * units, |mut run| {
        while !run.is_empty() {
            let (block, first) = (run.start / units, run.start % units);
            let count = run.len().min(units - first);
            work(block, first..first + count);
            run.start += count;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_unit_is_done_once() {
        for threads in [1, 2, 3, 16] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for units in [0, 1, 2, 7, 100, 1001] {
                let done: Vec<AtomicU32> = (0..units).map(|_| AtomicU32::new(0)).collect();
                pool.install(|| {
                    share(units, |run| {
                        assert!(!run.is_empty());
                        run.for_each(|unit| _ = done[unit].fetch_add(1, Ordering::Relaxed));
                    });
                });
                assert!(
                    done.iter().all(|done| done.load(Ordering::Relaxed) == 1),
                    "{units} units, {threads} threads"
                );
            }
        }
    }
}
