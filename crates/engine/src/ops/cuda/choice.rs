//! Which algorithm of cuBLASLt: for products that run many times, the fastest of several, timed once for each shape and kept on disk.
//!
//! Algorithms sum in different orders, so another choice gives other bits, and timings are never the same twice. Therefore a choice
//! is made once: it is used only if it could be kept (in the cache folder, beside the kernels), by the GPU's name and the versions
//! of driver and library; the first process to keep one makes it for all. Where nothing can be kept, and for products too small to
//! matter, it is cuBLASLt's first proposal, as it is with `ROFORMER_ALGORITHMS=first`.

use super::library::Proposal;
use super::product::{Algorithm, Alignment, Key, Places, Plan, Products, WORKSPACE};
use crate::error::Result;
use gpu::{Block, Event};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Algorithms that are timed.
const PROPOSALS: usize = 16;
/// Floating-point operations of the smallest product whose algorithm is timed: some microseconds of a large chip.
const LEAST: usize = 1 << 28;
/// How often each algorithm is timed; its time is the least.
const ROUNDS: usize = 5;
/// What is faster than the first proposal by less is not preferred to it.
const MARGIN: f32 = 0.98;

/// The algorithms that were chosen, by all that they depend on within a process. Held while one is timed.
#[derive(Default)]
pub(super) struct Choices(Mutex<HashMap<(Key, Alignment, bool), Algorithm>>);

impl Products {
    /// The algorithm for a product that runs many times, if there is one. The descriptor of the plan is ready.
    pub(super) fn fastest(
        &self,
        plan: &Plan,
        key: Key,
        alignment: Alignment,
        places: &Places,
    ) -> Result<Option<Algorithm>> {
        let is_small = 2 * key.rows * key.columns * key.depth < LEAST;
        let first = |own: Vec<Proposal>| own.first().map(|own| own.algorithm);
        if is_small || std::env::var_os("ROFORMER_ALGORITHMS").is_some_and(|value| value == "first") {
            return self.proposals(plan, alignment, 1).map(first);
        }
        let mut chosen = self.library.choices.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (key, alignment, self.is_quick);
        if let Some(algorithm) = chosen.get(&known) {
            return Ok(Some(*algorithm));
        }
        let name = self.name(key, alignment);
        let kept = gpu::chosen(&name).and_then(|bytes| from_bytes(&bytes));
        let algorithm = match kept.filter(|algorithm| self.fits(plan, algorithm)) {
            Some(algorithm) => Some(algorithm),
            None => {
                let proposals = self.proposals(plan, alignment, PROPOSALS)?;
                let own = self.time(plan, key, places, &proposals)?;
                // Another process may have been first.
                let kept = own.and_then(|own| from_bytes(&gpu::choose(&name, &to_bytes(&own))?));
                kept.filter(|algorithm| self.fits(plan, algorithm)).or_else(|| first(proposals))
            }
        };
        if let Some(algorithm) = algorithm {
            chosen.insert(known, algorithm);
        }
        Ok(algorithm)
    }

    /// The fastest of some algorithms. What they give goes to memory of its own.
    fn time(
        &self,
        plan: &Plan,
        key: Key,
        places: &Places,
        proposals: &[Proposal],
    ) -> Result<Option<Algorithm>> {
        let [first, _, ..] = proposals else { return Ok(proposals.first().map(|own| own.algorithm)) };
        let (size, device) = (key.rows * key.columns * key.result.size(), self.queue.device());
        // Where there is no room to try others, it is the first.
        let Ok(out) = Block::new(&self.queue, size) else { return Ok(Some(first.algorithm)) };
        let places = Places { out: out.pointer(), ..*places };
        let (begin, end) = (Event::new(device)?, Event::new(device)?);
        // SAFETY: the plan's algorithms, factors that the caller has memory for, and as much memory as the result needs.
        let run = |algorithm: &Algorithm| unsafe { self.launch(plan, algorithm, &places) } == 0;
        let repeats = (200_000_000_000 / (2 * key.rows * key.columns * key.depth)).clamp(2, 20);
        let stream = self.queue.stream();
        let mut times = vec![f32::INFINITY; proposals.len()];
        for round in 0..=ROUNDS {
            for (proposal, time) in proposals.iter().zip(&mut times) {
                let mut works = run(&proposal.algorithm);
                stream.record(&begin)?;
                works &= (0..repeats).all(|_| run(&proposal.algorithm));
                stream.record(&end)?;
                let found = end.milliseconds_since(&begin)?;
                // The first round warms up.
                if works && round > 0 {
                    *time = time.min(found);
                }
            }
        }
        let best = (0..times.len()).min_by(|&a, &b| times[a].total_cmp(&times[b])).unwrap_or(0);
        let index = if times[best] < MARGIN * times[0] { best } else { 0 };
        Ok(Some(proposals[index].algorithm))
    }

    /// Whether the library can run an algorithm that was kept.
    fn fits(&self, plan: &Plan, algorithm: &Algorithm) -> bool {
        let mut found = Proposal::default();
        let (library, handle) = (&self.library.library, self.library.handle);
        let Plan { descriptor, right, left, out, .. } = *plan;
        // SAFETY: the plan's descriptor and layouts live; the algorithm is only read.
        let status = unsafe {
            (library.check)(handle, descriptor, right, left, out, out, algorithm.as_ptr(), &mut found)
        };
        status == 0 && found.workspace <= WORKSPACE
    }

    /// The name of a choice: all that it depends on.
    fn name(&self, key: Key, alignment: Alignment) -> String {
        let (device, library) = (self.queue.device(), self.library.library.origin());
        let (chip, driver) = device.versions();
        let all = format!("{key:?} {alignment:?} {} {device} {library}", self.is_quick);
        format!("product-{:016x}-sm_{chip}-driver_{driver}.choice", gpu::fnv(all.as_bytes()))
    }
}

fn to_bytes(algorithm: &Algorithm) -> Vec<u8> {
    algorithm.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn from_bytes(bytes: &[u8]) -> Option<Algorithm> {
    let mut algorithm = Algorithm::default();
    if bytes.len() != size_of_val(&algorithm) {
        return None;
    }
    for (word, bytes) in algorithm.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_comes_back_from_its_bytes() {
        let algorithm = [1, 2, 3, u64::MAX, 5, 6, 7, 8];
        assert_eq!(from_bytes(&to_bytes(&algorithm)), Some(algorithm));
        assert_eq!(from_bytes(&to_bytes(&algorithm)[1..]), None);
    }
}
