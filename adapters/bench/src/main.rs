//! rope inside burn and candle beside their own rotations, on this machine, in one run.
//!
//!     cargo run --release -p rope-adapters-bench [-- [--short] [burn|candle]]
//!     cargo run --release -p rope-adapters-bench --features cuda -- gpu
//!
//! The rotation of q and k of Llama-3-8B's shape in both, then a training step of a small Llama in candle. Everything that is timed is
//! checked in the same run. `--short` takes shorter sequences, to see that it runs. With `gpu` it is the rotation in candle on an NVIDIA
//! GPU instead.

mod exact;
mod flex;
mod forward;
#[cfg(feature = "cuda")]
mod gpu;
mod llama;
mod training;

use std::time::Instant;

/// What went wrong, whoever says it.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Rounds of which the median counts, and those before them that warm up caches, pages and threads.
const ROUNDS: usize = 11;
const WARM_UP: usize = 2;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (mut short, mut only) = (false, None);
    for word in &words {
        match word.as_str() {
            "--short" => short = true,
            "burn" | "candle" => only = Some(word.as_str()),
            #[cfg(feature = "cuda")]
            "gpu" => return gpu::run(if short { 256 } else { 4096 }),
            _ => return Err("usage: rope-adapters-bench [--short] [burn|candle|gpu]".into()),
        }
    }
    // The memory of shorter tensors is used again once they are dropped; for longer ones the system hands out new pages each time.
    let lengths: &[usize] = if short { &[256] } else { &[1024, 8192] };
    if only != Some("candle") {
        lengths.iter().try_for_each(|&length| flex::run(length))?;
    }
    if only != Some("burn") {
        lengths.iter().try_for_each(|&length| forward::run(length))?;
        training::run(if short { 32 } else { 512 })?;
    }
    Ok(())
}

/// What is timed, with its name.
struct Job<'a> {
    name: String,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Job<'a> {
    fn new(name: impl Into<String>, run: impl FnMut() -> Result<()> + 'a) -> Self {
        Job { name: name.into(), run: Box::new(run) }
    }
}

/// Median milliseconds of each job, over rounds in which they take turns.
fn measure(jobs: &mut [Job]) -> Result<Vec<f64>> {
    let mut times = vec![Vec::new(); jobs.len()];
    for round in 0..WARM_UP + ROUNDS {
        for (job, times) in jobs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            (job.run)()?;
            if round >= WARM_UP {
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    Ok(times
        .into_iter()
        .map(|mut times| {
            times.sort_unstable_by(f64::total_cmp);
            times[times.len() / 2]
        })
        .collect())
}
