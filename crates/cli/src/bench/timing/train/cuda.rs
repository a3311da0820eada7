//! The same on a GPU: a step is one recorded graph, and its first loss and gradient are checked against the CPU's.

use super::super::{median, quantile, seconds};
use super::network;
use roformer::Device;
use roformer::graph::{Batch, mix};
use roformer::network::Network;
use roformer::ops::cuda::{Arithmetic, Cuda};
use roformer::ops::optimizer::AdamW;
use roformer::train::{Learner, Update};
use roformer::{Error, Result};

/// Batch, length, width, layers, vocabulary and features of a head of the line that is as large as RoFormer-base.
pub const BASE: [usize; 6] = [32, 512, 768, 12, 12_000, 64];
/// The same of each line: those of `bench/peers/gpu_train.py`.
pub const SHAPES: [[usize; 6]; 3] = [[256, 40, 256, 4, 64, 32], BASE, [2, 8192, 768, 12, 12_000, 64]];

/// Steps that are timed, after five that are not.
const ROUNDS: usize = 31;

/// Floating-point operations up to which the CPU computes a step too.
const CHECKED: f64 = 1e12;

/// What the benchmark reports, in this order.
#[derive(Clone, Debug)]
pub enum Line {
    /// The GPU, and what computes there.
    Device {
        /// Its name.
        name: String,
        /// Where kernels and products come from.
        origin: String,
    },
    /// A shape.
    Sample(Sample),
}

/// One shape.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What it was computed in.
    pub arithmetic: Arithmetic,
    /// Batch, length, width, layers, vocabulary and features of a head.
    pub shape: [usize; 6],
    /// Milliseconds of a step, from a batch in the CPU's memory to the loss there: the median.
    pub ms: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// Million million floating-point operations per second, of the matrix products.
    pub tflops: f64,
    /// Tokens per second.
    pub tokens_s: f64,
    /// How far the first loss and the norm of its gradient are from the CPU's, relatively; `None` where a step takes
    /// the CPU too long.
    pub error: Option<f64>,
}

/// Measures shapes on a GPU in the arithmetics that are asked for; `report` sees each line as it comes. A loss that does not
/// fall, or that is not the CPU's up to rounding, is an error.
pub fn run(
    number: usize,
    arithmetics: &[Arithmetic],
    shapes: &[[usize; 6]],
    mut report: impl FnMut(Line),
) -> Result<()> {
    for (index, &arithmetic) in arithmetics.iter().enumerate() {
        let gpu = Cuda::new(number, arithmetic)?;
        if index == 0 {
            let attention = arithmetics.contains(&Arithmetic::Bf16).then(|| gpu.attention_origin());
            let origin = [gpu.origin()].into_iter().chain(attention).collect::<Vec<_>>().join(", ");
            report(Line::Device { name: gpu.device().to_string(), origin });
        }
        for &shape in shapes {
            report(Line::Sample(measure(&gpu, shape)?));
        }
    }
    Ok(())
}

fn measure(gpu: &Cuda, shape: [usize; 6]) -> Result<Sample> {
    let [batch, length, width, layers, vocabulary, head_dim] = shape;
    let plain = network([batch, length, width, layers, vocabulary]);
    let heads = width / head_dim;
    let network = plain.with(|own| (own.heads, own.key_heads, own.head_dim) = (heads, heads, head_dim));
    let tokens = (batch * length) as f64;
    let flops = flops(shape);

    let mut trainer = Trainer::new(&Device::Cuda(gpu.clone()), &network, shape)?;
    let first = trainer.step()?;
    let error = if flops <= CHECKED {
        let known = Trainer::new(&Device::default(), &network, shape)?.step()?;
        let off = |a: f64, b: f64| (a - b).abs() / b.abs();
        let error = off(first.0, known.0).max(off(first.1, known.1));
        let bound = match gpu.arithmetic() {
            Arithmetic::F32 => 1e-4,
            Arithmetic::Tf32 => 1e-2,
            Arithmetic::Bf16 => 5e-2,
        };
        if error.is_nan() || error > bound {
            let value = format!("{first:?}, on the CPU {known:?}");
            return Err(Error::input(
                "the loss and the norm of a timed model",
                value,
                "the same up to rounding",
            ));
        }
        Some(error)
    } else {
        None
    };
    let mut warm = first.0;
    for _ in 0..5 {
        warm = trainer.step()?.0;
    }
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut outcome = Ok((0.0, 0.0));
        times.push(seconds(|| outcome = trainer.step()));
        outcome?;
    }
    let last = trainer.step()?.0;
    if !(last < warm && warm < first.0) {
        let value = format!("{}, then {warm}, then {last}", first.0);
        return Err(Error::input("the loss of a timed model", value, "one that falls from step to step"));
    }
    let time = median(&times);
    Ok(Sample {
        arithmetic: gpu.arithmetic(),
        shape,
        ms: time * 1e3,
        quartiles: (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3),
        tflops: flops / time / 1e12,
        tokens_s: tokens / time,
        error,
    })
}

/// Floating-point operations of the matrix products of a step: three times those of the forward pass, and attention's seven.
fn flops([batch, length, width, layers, vocabulary, _]: [usize; 6]) -> f64 {
    let [batch, length, width, layers, vocabulary] =
        [batch, length, width, layers, vocabulary].map(|size| size as f64);
    let weights = 12.0 * layers * width * width + vocabulary * width;
    batch * length * (6.0 * weights + 14.0 * layers * length * width)
}

/// A model that trains on one batch.
struct Trainer {
    learner: Learner,
    batch: Batch,
    steps: u64,
}

impl Trainer {
    fn new(device: &Device, network: &Network, [batch, length, ..]: [usize; 6]) -> Result<Self> {
        let mut learner = Learner::new(device, network, [batch, length], length)?;
        let layout = learner.layout().clone();
        layout.initialise(1, learner.parameters_mut()?);
        let tokens = batch * length;
        let vocabulary = network.blueprint.vocabulary as u64;
        let ids =
            |seed: u64| (0..tokens as u64).map(|index| (mix(seed ^ index) % vocabulary) as u32).collect();
        let batch = Batch { ids: ids(1 << 32), targets: ids(2 << 32), ..Batch::default() };
        Ok(Trainer { learner, batch, steps: 0 })
    }

    /// The loss, and the norm of its gradient.
    fn step(&mut self) -> Result<(f64, f64)> {
        self.steps += 1;
        let update = Update { adam: AdamW::default(), step: self.steps, rate: 1e-4, clip: 0.0 };
        let found = self.learner.step(&update, 1, |_, given| given.clone_from(&self.batch))?;
        Ok((found.loss, found.norm))
    }
}
