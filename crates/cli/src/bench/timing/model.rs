//! `roformer bench model`: the forward pass of a model of a family's usual size beside what the chip can do.

#[cfg(feature = "cuda")]
pub mod cuda;

use super::{median, quantile, seconds};
use rayon::prelude::*;
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Input, Model};
use roformer::ops::{Cpu, Precision, gemm};
use roformer::{Error, Result};

/// A model that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Timed {
    /// RoFormer-base with a vocabulary of 12,000
    Roformer,
    /// BERT-base, with positions for the longest text
    Bert,
    /// ModernBERT-base
    Modernbert,
    /// Qwen3-Embedding of 0.6 thousand million parameters
    Qwen3Embedding,
}

impl Timed {
    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Timed::Roformer => "RoFormer-base",
            Timed::Bert => "BERT-base",
            Timed::Modernbert => "ModernBERT-base",
            Timed::Qwen3Embedding => "Qwen3-Embedding-0.6B",
        }
    }

    /// Its configuration.
    pub fn config(self) -> &'static str {
        match self {
            Timed::Roformer => r#"{"model_type": "roformer", "vocab_size": 12000}"#,
            Timed::Bert => {
                r#"{"model_type": "bert", "max_position_embeddings": 4096, "architectures": ["BertModel"]}"#
            }
            Timed::Modernbert => r#"{"model_type": "modernbert", "architectures": ["ModernBertModel"]}"#,
            Timed::Qwen3Embedding => {
                r#"{"model_type": "qwen3", "architectures": ["Qwen3Model"], "vocab_size": 151669, "hidden_size": 1024,
                    "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                    "intermediate_size": 3072, "rope_theta": 1000000, "tie_word_embeddings": true}"#
            }
        }
    }

    /// What it is.
    pub fn blueprint(self) -> Result<Blueprint> {
        Blueprint::from_config(self.config().as_bytes())
    }

    /// Batch and length of each line.
    pub fn shapes(self) -> &'static [(usize, usize)] {
        match self {
            Timed::Roformer => &SHAPES[..5],
            Timed::Bert | Timed::Modernbert => &SHAPES,
            Timed::Qwen3Embedding => &SHAPES[..3],
        }
    }
}

/// Batches and lengths; the last shows what windows save.
const SHAPES: [(usize, usize); 6] = [(1, 16), (1, 128), (8, 128), (2, 512), (1, 1024), (1, 4096)];

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What it computes in.
    pub precision: Precision,
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
    /// How far the vectors of the first text are from those in f32: the length of the difference over theirs.
    pub error: f64,
}

/// Measures every shape on the current rayon pool; `report` sees each line as it comes. A result that differs between the
/// shapes' texts and one text alone is an error.
pub fn run(timed: Timed, precision: Precision, mut report: impl FnMut(Sample)) -> Result<()> {
    let blueprint = timed.blueprint()?;
    let known = match precision {
        Precision::F32 => vec![None; timed.shapes().len()],
        _ => known(&blueprint, timed.shapes())?,
    };
    forget_peak_memory();
    let loaded = Loaded::new(blueprint, precision)?;
    for (&(batch, length), known) in timed.shapes().iter().zip(&known) {
        let repeats = (4000 / (batch * length)).clamp(5, 31);
        let Passes { first, times } = loaded.pass(batch, length, repeats)?;
        let time = median(&times);
        report(Sample {
            precision,
            batch,
            length,
            ms: time * 1e3,
            quartiles: (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3),
            gflops: loaded.gflops(batch, length, time),
            peak_gflops: peak(),
            tokens_s: (batch * length) as f64 / time,
            peak_mb: peak_memory(),
            weights_mb: loaded.weights_mb(),
            error: known.as_ref().map_or(0.0, |known| distance(known, &first)),
        });
    }
    Ok(())
}

/// What one turn of a benchmark of several programs gives.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Milliseconds of a forward pass: the median.
    pub ms: f64,
    /// Thousand million multiplications and additions of the products per second.
    pub gflops: f64,
    /// The same of a loop that does nothing but multiply and add, on the same threads.
    pub peak_gflops: f64,
}

/// A model with its weights, ready to be timed.
pub struct Loaded(Model<f32>);

impl Loaded {
    /// With made-up weights.
    pub fn new(blueprint: Blueprint, precision: Precision) -> Result<Loaded> {
        Ok(Loaded(Model::on(Cpu { precision }, blueprint, &Hashed)?))
    }

    /// Times a shape, as [`run`] does.
    pub fn turn(&self, batch: usize, length: usize, repeats: usize) -> Result<Turn> {
        let time = median(&self.pass(batch, length, repeats)?.times);
        Ok(Turn { ms: time * 1e3, gflops: self.gflops(batch, length, time), peak_gflops: peak() })
    }

    /// Runs a shape once, checks it, and runs it `repeats` times more.
    fn pass(&self, batch: usize, length: usize, repeats: usize) -> Result<Passes> {
        let ids = ids(batch * length);
        let input = Input { ids: &ids, batch, token_types: None, mask: None };
        let mut first = self.0.forward(&input)?.last_hidden_state;
        first.truncate(length * self.0.blueprint().width);
        if batch > 1 {
            let alone = Input { ids: &ids[..length], batch: 1, token_types: None, mask: None };
            if self.0.forward(&alone)?.last_hidden_state[..] != first[..] {
                return Err(Error::input("a timed result", "not what its text gives alone", "the same bits"));
            }
        }
        let mut times = Vec::new();
        for _ in 0..repeats {
            let mut outcome = Ok(());
            times.push(seconds(|| outcome = self.0.forward(&input).map(drop)));
            outcome?;
        }
        Ok(Passes { first, times })
    }

    fn gflops(&self, batch: usize, length: usize, time: f64) -> f64 {
        operations(self.0.blueprint(), batch, length) / time / 1e9
    }

    /// What the weights take, in MB.
    fn weights_mb(&self) -> f64 {
        let blueprint = self.0.blueprint();
        let tables = blueprint.vocabulary + blueprint.types;
        (self.0.layer_bytes() + tables * blueprint.width * 4) as f64 / 1e6
    }
}

/// What passes of one shape gave: the first text's hidden states `[length, width]`, and seconds.
struct Passes {
    first: Vec<f32>,
    times: Vec<f64>,
}

/// Begins anew with the most memory that the process has had: the model in f32 is gone.
fn forget_peak_memory() {
    // Where that is not possible, the figure is too large.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Ids of a text, the same in every run.
fn ids(count: usize) -> Vec<u32> {
    (0..count).map(|i| (i * 7919 % 12_000) as u32).collect()
}

/// The hidden states of the first text of each shape, in f32.
fn known(blueprint: &Blueprint, shapes: &[(usize, usize)]) -> Result<Vec<Option<Vec<f32>>>> {
    let model = Model::<f32>::from_parameters(blueprint.clone(), &Hashed)?;
    let run = |&(_, length): &(usize, usize)| {
        let input = Input { ids: &ids(length), batch: 1, token_types: None, mask: None };
        Ok(Some(model.forward(&input)?.last_hidden_state))
    };
    shapes.iter().map(run).collect()
}

/// The length of the difference over that of what is known.
fn distance(known: &[f32], got: &[f32]) -> f64 {
    let length = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let differences = &mut known.iter().zip(got).map(|(known, got)| f64::from(known - got));
    length(differences) / length(&mut known.iter().map(|&x| f64::from(x)))
}

/// Multiplications and additions of all products of a forward pass. Of a layer with a window, those of the keys within it.
fn operations(blueprint: &Blueprint, batch: usize, length: usize) -> f64 {
    let (query, key) = (blueprint.heads * blueprint.head_dim, blueprint.key_heads * blueprint.head_dim);
    let wide = blueprint.wide * if blueprint.is_gated { 3 } else { 2 };
    let products = blueprint.layers * blueprint.width * (2 * query + 2 * key + wide);
    let seen = |layer: usize| {
        let local = blueprint.local.as_ref().filter(|local| local.layers[layer]);
        local.and_then(|local| local.window).map_or(length, |window| length.min(2 * window - 1))
    };
    let pairs: usize = (0..blueprint.layers).map(seen).sum();
    (batch * length) as f64 * (2 * products + 4 * pairs * query) as f64
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
