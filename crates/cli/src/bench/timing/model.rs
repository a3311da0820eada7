//! `roformer bench model`: RoFormer-base's forward pass beside what the chip can do.

#[cfg(feature = "cuda")]
pub mod cuda;

use super::{median, quantile, seconds};
use rayon::prelude::*;
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Input, Model};
use roformer::ops::gemm;
use roformer::{Error, Result};

/// Batch and length of each line.
pub const SHAPES: [(usize, usize); 5] = [(1, 16), (1, 128), (8, 128), (2, 512), (1, 1024)];

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Texts.
    pub batch: usize,
    /// Tokens of a text.
    pub length: usize,
    /// Milliseconds of a forward pass: the median.
    pub ms: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// Thousand million multiplications and additions of the products per second.
    pub gflops: f64,
    /// The same of a loop that does nothing but multiply and add, on the same threads.
    pub peak_gflops: f64,
    /// Tokens per second.
    pub tokens_s: f64,
    /// The most memory the process has had, in MB, where the system tells.
    pub peak_mb: Option<f64>,
    /// What the weights take, in MB.
    pub weights_mb: f64,
}

/// Measures every shape on the current rayon pool; `report` sees each line as it comes. A result that differs between the
/// shapes' texts and one text alone is an error.
pub fn run(mut report: impl FnMut(Sample)) -> Result<()> {
    let blueprint = Blueprint::from_config(br#"{"model_type": "roformer", "vocab_size": 12000}"#)?;
    let (hidden, wide, layers) = (blueprint.width, blueprint.wide, blueprint.layers);
    let model = Model::<f32>::from_parameters(blueprint, &Hashed)?;
    let weights_mb = (model.layer_bytes() + 12_002 * hidden * 4) as f64 / 1e6;
    for (batch, length) in SHAPES {
        let ids: Vec<u32> = (0..batch * length).map(|i| (i * 7919 % 12_000) as u32).collect();
        let input = Input { ids: &ids, batch, token_types: None, mask: None };
        let first = model.forward(&input)?.last_hidden_state;
        if batch > 1 {
            let alone = Input { ids: &ids[..length], batch: 1, token_types: None, mask: None };
            if model.forward(&alone)?.last_hidden_state[..] != first[..length * hidden] {
                return Err(Error::input("a timed result", "not what its text gives alone", "the same bits"));
            }
        }
        let repeats = (4000 / (batch * length)).clamp(5, 31);
        let mut times = Vec::new();
        for _ in 0..repeats {
            let mut outcome = Ok(());
            times.push(seconds(|| outcome = model.forward(&input).map(drop)));
            outcome?;
        }
        let tokens = (batch * length) as f64;
        let products = 2.0 * tokens * (layers * (4 * hidden * hidden + 2 * hidden * wide)) as f64;
        let attention = 4.0 * tokens * (length * hidden * layers) as f64;
        let time = median(&times);
        report(Sample {
            batch,
            length,
            ms: time * 1e3,
            quartiles: (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3),
            gflops: (products + attention) / time / 1e9,
            peak_gflops: peak(),
            tokens_s: tokens / time,
            peak_mb: peak_memory(),
            weights_mb,
        });
    }
    Ok(())
}

/// What a loop of multiplications and additions reaches on all threads, in GFLOP/s: the median of a few runs.
fn peak() -> f64 {
    let rounds = 2_000_000;
    let threads = rayon::current_num_threads();
    let run = || {
        let time = seconds(|| {
            (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
                std::hint::black_box(gemm::peak_loop(rounds));
            });
        });
        (threads * gemm::PEAK_FLOPS * rounds) as f64 / time / 1e9
    };
    median(&[run(), run(), run(), run(), run()])
}

/// The largest resident size so far (VmHWM).
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib * 1024.0 / 1e6)
}
