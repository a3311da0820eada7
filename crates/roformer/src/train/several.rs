//! Several models side by side: each on one thread of its own, so that small ones fill all cores.
//!
//! A step of a small model is too short to be shared between threads; whole runs are not. No sum depends on the number of
//! threads, so a model trained beside others has the bits that it has alone.

use std::sync::Mutex;

/// Does every job, on as many threads as the current pool has, each job from its beginning to its end on one of them;
/// returns what they gave, in their order. Long jobs should come first.
///
/// ```
/// use roformer::train::{Data, Settings, Trainer, side_by_side};
///
/// let settings = |seed| Settings { layers: 1, width: 16, heads: 1, block: 8, batch: 2, seed, ..Settings::default() };
/// let losses = side_by_side(vec![1, 2, 3], |seed| {
///     let mut trainer = Trainer::new(&settings(seed), Data::from_text(&"to be or not to be ".repeat(20))?)?;
///     Ok::<f64, roformer::Error>(trainer.step()?.loss)
/// });
/// assert_eq!(losses.len(), 3);
/// ```
pub fn side_by_side<J: Send, R: Send>(jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let workers = rayon::current_num_threads().min(jobs.len()).max(1);
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let queue = Mutex::new(jobs.into_iter().zip(&mut results));
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let worker = || {
        // A pool of one, so that what a job shares out comes back to its own thread.
        let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build();
        while let Some((job, result)) = next() {
            *result = Some(match &alone {
                Ok(pool) => pool.install(|| work(job)),
                Err(_) => work(job),
            });
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(worker);
        }
    });
    results.into_iter().flatten().collect()
}
