//! A network that learns, wherever that is: its parameters, the optimiser's moments, steps. `shared.rs` is a step of several processes.

mod shared;

use crate::Device;
use crate::error::{Error, Result};
use crate::graph::{Batch, Parameters, Value};
#[cfg(feature = "cuda")]
use crate::graph::{Part, Program};
use crate::network::{Laid, Network, Outline};
use crate::ops::Memory;
use crate::ops::optimizer::{State, Update, clip_coefficient, global_norm};
use rayon::prelude::*;
use std::ops::Range;

/// What a step gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepResult {
    /// The mean loss of its batches.
    pub loss: f64,
    /// The norm of all gradients, before clipping.
    pub norm: f64,
}

impl StepResult {
    /// Whether both are numbers. If not, the step was not taken.
    pub fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.norm.is_finite()
    }
}

/// A network laid out for batches of one shape, with all that it takes to train it.
///
/// ```
/// use roformer::Device;
/// use roformer::blueprint::{Blueprint, Dims};
/// use roformer::graph::Batch;
/// use roformer::network::{Network, Task};
/// use roformer::ops::optimizer::AdamW;
/// use roformer::train::{Learner, Update};
///
/// let blueprint = Blueprint::plain(Dims { vocabulary: 10, width: 16, layers: 1, heads: 2 });
/// let network = Network { blueprint, dropout: 0.0, task: Task::Language };
/// // One text of six tokens; each token's target is the next one.
/// let mut learner = Learner::new(&Device::default(), &network, [1, 6], 6)?;
/// let layout = learner.layout().clone();
/// layout.initialise(1, learner.parameters_mut()?);
/// let mut losses = Vec::new();
/// for step in 1..=5 {
///     let update = Update { adam: AdamW::default(), step, rate: 1e-3, clip: 1.0 };
///     let result = learner.step(&update, 1, |_, batch| {
///         *batch = Batch { ids: vec![1, 2, 3, 4, 5, 6], targets: vec![2, 3, 4, 5, 6, 7], ..Batch::default() };
///     })?;
///     losses.push(result.loss);
/// }
/// assert!(losses[4] < losses[0]);
/// # Ok::<(), roformer::Error>(())
/// ```
pub struct Learner {
    outline: Outline,
    layout: Parameters,
    /// The parameters that this process updates: all, unless it is one of several.
    part: Range<usize>,
    /// The tensors within that part, and whether they decay.
    ranges: Vec<(Range<usize>, bool)>,
    /// The moments of that part.
    first: Memory<f32>,
    second: Memory<f32>,
    /// The gradients of the batches of a step so far, where it has several; those of that part.
    sum: Memory<f32>,
    engine: Engine,
}

enum Engine {
    Cpu(Box<Laid<f32>>),
    #[cfg(feature = "cuda")]
    Cuda(Box<OnGpu>),
}

/// A program, and what the CPU has of its numbers.
#[cfg(feature = "cuda")]
struct OnGpu {
    program: Program,
    batch: Batch,
    parameters: Vec<f32>,
    /// Which of parameters and moments are newer, each: the GPU's or the CPU's.
    newer: [Newer; 2],
    /// The value that was copied back last.
    value: Vec<f32>,
}

#[cfg(feature = "cuda")]
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newer {
    Neither,
    Gpu,
    Processor,
}

impl Learner {
    /// Lays a network out on a device for batches `[batch, length]`, with learned tables for texts of `longest` tokens. Parameters
    /// are zero until they are set.
    pub fn new(
        device: &Device,
        network: &Network,
        [batch, length]: [usize; 2],
        longest: usize,
    ) -> Result<Self> {
        match device {
            Device::Cpu(_) => {
                let laid = network.build::<f32>(batch, length, longest)?;
                let (outline, layout) = (laid.outline().clone(), laid.graph.layout().clone());
                Self::with(outline, layout, Engine::Cpu(Box::new(laid)))
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => {
                // Values are the GPU's; parameters are the CPU's too.
                network.check_memory(0, length, longest)?;
                let (builder, outline) = network.compose::<f32>(batch, length, longest)?;
                let program = Program::new(gpu, &builder, batch)?;
                let (layout, value) = (builder.layout().clone(), Vec::new());
                let (parameters, newer) = (vec![0.0; layout.len()], [Newer::Processor, Newer::Neither]);
                let gpu = OnGpu { program, batch: Batch::default(), parameters, newer, value };
                Self::with(outline, layout, Engine::Cuda(Box::new(gpu)))
            }
        }
    }

    fn with(outline: Outline, layout: Parameters, engine: Engine) -> Result<Self> {
        let moments = || Memory::zeros(layout.len()).ok_or(Error::memory("the optimiser"));
        let (first, second, ranges) = (moments()?, moments()?, layout.decaying());
        let sum = Memory::zeros(0).ok_or(Error::memory("gradients"))?;
        let part = 0..layout.len();
        Ok(Learner { outline, layout, part, ranges, first, second, sum, engine })
    }

    /// The network and the values that can be read of it.
    pub fn outline(&self) -> &Outline {
        &self.outline
    }

    /// The names, shapes and places of the parameters.
    pub fn layout(&self) -> &Parameters {
        &self.layout
    }

    /// Takes a step: the gradient of the mean loss of `parts` batches, then AdamW. `fill` is given the number of each batch and
    /// the batch before, to be written over. Where the loss or its gradient is not finite nothing changes.
    ///
    /// Each batch's gradient is computed by itself and added to the sum of those before it: several processes keep to that order.
    pub fn step(
        &mut self,
        update: &Update,
        parts: u64,
        mut fill: impl FnMut(u64, &mut Batch),
    ) -> Result<StepResult> {
        if parts > 1 && self.sum.len() < self.layout.len() {
            self.sum = Memory::zeros(self.layout.len()).ok_or(Error::memory("gradients"))?;
        }
        let Learner { outline, ranges, first, second, sum, engine, .. } = self;
        match engine {
            Engine::Cpu(laid) => {
                let mut loss = 0.0;
                for part in 0..parts {
                    laid.graph.clear();
                    fill(part, laid.graph.batch());
                    outline.check(laid.graph.batch())?;
                    loss += laid.graph.step(1.0 / parts as f64);
                    if part > 0 {
                        add(sum, laid.graph.both_mut().1);
                    }
                    if part + 1 < parts {
                        sum.copy_from_slice(laid.graph.gradients());
                    }
                }
                let (parameters, gradients) = laid.graph.both_mut();
                let result = StepResult { loss: loss / parts as f64, norm: global_norm(gradients) };
                if result.is_finite() {
                    apply(update, result.norm, State { parameters, gradients, first, second }, ranges);
                }
                Ok(result)
            }
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => {
                gpu.send([first, second])?;
                let mut result = StepResult { loss: 0.0, norm: 0.0 };
                for index in 0..parts {
                    fill(index, &mut gpu.batch);
                    outline.check(&gpu.batch)?;
                    let part = Part { index, count: parts };
                    (result.loss, result.norm) = gpu.program.step(&gpu.batch, part, update)?;
                }
                gpu.newer = [Newer::Gpu; 2];
                Ok(result)
            }
        }
    }

    /// The loss of a batch, without a step. `fill` writes it over the batch before.
    pub fn evaluate(&mut self, fill: impl FnOnce(&mut Batch)) -> Result<f64> {
        match &mut self.engine {
            Engine::Cpu(laid) => {
                fill(laid.graph.batch());
                self.outline.check(laid.graph.batch())?;
                Ok(laid.graph.forward())
            }
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => {
                gpu.send([&self.first, &self.second])?;
                fill(&mut gpu.batch);
                self.outline.check(&gpu.batch)?;
                Ok(gpu.program.evaluate(&gpu.batch)?)
            }
        }
    }

    /// The batch that was run last.
    pub fn batch(&self) -> &Batch {
        match &self.engine {
            Engine::Cpu(laid) => laid.graph.last_batch(),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => &gpu.batch,
        }
    }

    /// A value as the last run left it.
    pub fn value(&mut self, value: Value) -> Result<&[f32]> {
        match &mut self.engine {
            Engine::Cpu(laid) => Ok(laid.graph.value(value)),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => {
                gpu.value = gpu.program.value(value)?;
                Ok(&gpu.value)
            }
        }
    }

    /// The gradients of the last step, before clipping; of several processes, those of this one's last batch.
    pub fn gradients(&mut self) -> Result<Vec<f32>> {
        match &mut self.engine {
            Engine::Cpu(laid) => Ok(laid.graph.gradients().to_vec()),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => {
                let mut out = vec![0.0; self.layout.len()];
                gpu.program.gradients(&mut out)?;
                Ok(out)
            }
        }
    }

    /// Brings parameters and moments that a GPU has changed back to the CPU, to be read.
    pub fn fetch(&mut self) -> Result<()> {
        match &mut self.engine {
            Engine::Cpu(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => gpu.receive([&mut self.first, &mut self.second]),
        }
    }

    /// All parameters, as of the last [`fetch`](Learner::fetch).
    pub fn parameters(&self) -> &[f32] {
        match &self.engine {
            Engine::Cpu(laid) => laid.graph.parameters(),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => &gpu.parameters,
        }
    }

    /// All parameters, to change.
    pub fn parameters_mut(&mut self) -> Result<&mut [f32]> {
        self.fetch()?;
        Ok(match &mut self.engine {
            Engine::Cpu(laid) => laid.graph.parameters_mut(),
            #[cfg(feature = "cuda")]
            Engine::Cuda(gpu) => {
                gpu.newer[0] = Newer::Processor;
                &mut gpu.parameters
            }
        })
    }

    /// The optimizer's moments, as of the last [`fetch`](Learner::fetch); of several processes, those of this one's part.
    pub fn moments(&self) -> [&[f32]; 2] {
        [&self.first, &self.second]
    }

    /// The optimizer's moments, to change.
    pub fn moments_mut(&mut self) -> Result<[&mut [f32]; 2]> {
        self.fetch()?;
        #[cfg(feature = "cuda")]
        if let Engine::Cuda(gpu) = &mut self.engine {
            gpu.newer[1] = Newer::Processor;
        }
        Ok([&mut self.first, &mut self.second])
    }
}

/// AdamW, with gradients of this norm clipped.
fn apply(update: &Update, norm: f64, mut state: State<f32>, ranges: &[(Range<usize>, bool)]) {
    let Update { adam, step, rate, clip } = *update;
    let clip = if clip > 0.0 { clip_coefficient(norm, clip) } else { 1.0 };
    adam.apply(&adam.at(step, rate, clip), &mut state, ranges);
}

/// sum into gradients: the sum is that of earlier batches. It does not matter which of the two is written first.
fn add(sum: &[f32], gradients: &mut [f32]) {
    const BLOCK: usize = 1 << 14;
    let blocks = gradients.par_chunks_mut(BLOCK).zip(sum.par_chunks(BLOCK));
    blocks.for_each(|(gradients, sum)| gradients.iter_mut().zip(sum).for_each(|(own, sum)| *own += sum));
}

#[cfg(feature = "cuda")]
impl OnGpu {
    /// Gives the GPU what the CPU has changed.
    fn send(&mut self, moments: [&[f32]; 2]) -> Result<()> {
        if self.newer[0] == Newer::Processor {
            self.program.set_parameters(&self.parameters)?;
            self.newer[0] = Newer::Neither;
        }
        if self.newer[1] == Newer::Processor {
            self.program.set_moments(moments)?;
            self.newer[1] = Newer::Neither;
        }
        Ok(())
    }

    /// The opposite.
    fn receive(&mut self, moments: [&mut [f32]; 2]) -> Result<()> {
        if self.newer[0] == Newer::Gpu {
            self.program.parameters(&mut self.parameters)?;
            self.newer[0] = Newer::Neither;
        }
        if self.newer[1] == Newer::Gpu {
            self.program.moments(moments)?;
            self.newer[1] = Newer::Neither;
        }
        Ok(())
    }
}
