//! The thread that runs a model's batches on one device.

use crate::batch::Shape;
use crate::metrics::Metrics;
use crate::queue::{Done, Queue};
use crate::replica::Replica;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How fast a model has been of late, in tokens per second.
#[derive(Default)]
pub struct Speed(AtomicU64);

impl Speed {
    fn learn(&self, tokens: usize, seconds: f64) {
        let now = tokens as f64 / seconds.max(1e-6);
        let before = self.0.load(Ordering::Relaxed);
        let mixed = if before == 0 { now } else { 0.9 * before as f64 + 0.1 * now };
        self.0.store((mixed as u64).max(1), Ordering::Relaxed);
    }

    /// How many seconds so many tokens take, from 1 to 60.
    pub fn seconds(&self, tokens: usize) -> u64 {
        let speed = self.0.load(Ordering::Relaxed).max(1);
        (tokens as u64 / speed).clamp(1, 60)
    }
}

/// Runs batches until the queue is closed and empty. Work that panics is an error of its batch, and the next goes on.
pub fn work(replica: &Arc<dyn Replica>, queue: &Queue, shape: Shape, speed: &Speed, metrics: &Metrics) {
    while let Some(jobs) = queue.next(shape) {
        let began = Instant::now();
        let tokens: usize = jobs.iter().map(|job| job.pending.tokens()).sum();
        metrics.batch(jobs.len(), tokens);
        let (texts, waiting): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.pending, (job.entered, job.reply))).unzip();
        let answers = catch_unwind(AssertUnwindSafe(|| replica.run(texts)));
        let ran = began.elapsed();
        speed.learn(tokens, ran.as_secs_f64());
        let mut answers = match answers {
            Ok(answers) => answers.into_iter(),
            Err(_) => {
                tracing::error!(tokens, "a batch failed: the model panicked");
                Vec::new().into_iter()
            }
        };
        for (entered, reply) in waiting {
            // Where there is no answer the channel closes, and whoever waits sees that.
            let Some(answer) = answers.next() else { continue };
            // Whoever has gone needs none.
            let _ = reply.send(Done { answer, queued: began - entered, ran });
        }
    }
}
