//! A training step on a GPU: the same operations, lowered to launches, recorded once and run again.
//!
//! [`Operation::lower`](super::Operation::lower) turns an operation into work. All memory is one block, laid out beforehand; what
//! a batch brings is copied there at once, and a step (forward, backward, AdamW) needs nothing else from the CPU. So it
//! is run once as it is, which lets cuBLASLt make its plans, then recorded as a CUDA graph, and from then on one call runs all
//! of it. Batches whose masks are of another kind may take other kernels, and are recorded by themselves.
//!
//! Numbers of tokens are stored as the GPU's arithmetic says; parameters, all that depends on them alone (tables, biases,
//! frequencies) and their gradients are `f32`. With `bf16`, products read copies of the parameters that the optimizer rounds.
//!
//! ```text
//! mod.rs         the program: memory, running it
//! lowering.rs    where values and gradients lie; adding work
//! layout.rs      where parameters lie
//! feed.rs        what a batch brings
//! dense.rs       linear layers, sums, columns
//! lookup.rs      rows of tables
//! pointwise.rs   norms, activations, dropout
//! rotate.rs      rotary embedding, with fixed or learned frequencies
//! attend.rs      softmax attention with its position terms
//! linear.rs      linear attention and its feature maps
//! loss.rs        losses
//! rows.rs        rows side by side, one vector for each text
//! sums.rs        gradients of what all rows share
//! ```

#[allow(unsafe_code, reason = "promises that tables have the rows of their indices")]
mod attend;
mod dense;
mod feed;
mod layout;
mod linear;
#[allow(unsafe_code, reason = "promises that tables have the rows of the ids")]
mod lookup;
#[allow(unsafe_code, reason = "promises that targets are classes")]
mod loss;
mod lowering;
mod pointwise;
mod rotate;
mod rows;
#[allow(unsafe_code, reason = "promises that a table has the addresses of its parts")]
mod sums;
#[cfg(test)]
mod tests;

pub use lowering::{Backward, Lowered, Lowering};

use super::{Batch, Builder, IGNORE, Value};
use crate::error::{Error, Result};
use crate::ops::cuda::Cuda;
use crate::ops::cuda::memory::number;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::{Launcher, Masks, Scalars, optimizer};
use crate::ops::optimizer::AdamW;
use crate::ops::optimizer::Update;
use feed::Feeds;
use gpu::{Block, Graph, Pinned, Span};
use layout::{Buffers, Layout};
use lowering::{COUNTING, Finished, Needs, Place, When, Work};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Which of the batches of a step one is: gradients are cleared before the first, and the last is followed by the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its place among them, from 0 on.
    pub index: u64,
    /// How many there are.
    pub count: u64,
}

/// A training step on a GPU.
pub struct Program {
    /// What was recorded goes before the memory that it uses.
    recorded: Vec<Recorded>,
    forward: Vec<(When, Work)>,
    backward: Vec<Work>,
    feeds: Feeds,
    places: Vec<Option<Place>>,
    layout: Layout,
    buffers: Buffers,
    inputs: (Span, Pinned),
    /// The loss (`f32`) and the norm of the gradients (`f64`), 8 bytes each.
    outputs: (Span, Pinned),
    /// Memory for the optimizer while it runs.
    scratch: Span,
    /// The length of texts, where an attention asks how many of their tokens are real.
    length: Option<usize>,
    /// `None` once it is given back.
    memory: Option<Block>,
    gpu: Cuda,
}

/// What is run in one go, and which tokens of its batch are real.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    pass: Pass,
    masks: Masks,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pass {
    /// A pass that does not go back.
    Evaluation,
    /// A batch of a step, and the optimizer after the last.
    Batch { is_first: bool, last: Option<AdamW> },
}

/// A run that has been done once, and then recorded.
struct Recorded {
    run: Run,
    graph: Option<Graph>,
    /// How often it could not be recorded.
    failures: u32,
}

/// How often recording is tried.
const ATTEMPTS: u32 = 5;

/// Held by who records, and shared by who asks for memory, gives it back or copies it: the driver gives up a recording where
/// another thread does so in the meantime.
static RECORDING: RwLock<()> = RwLock::new(());

fn not_while_recording() -> RwLockReadGuard<'static, ()> {
    RECORDING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the outputs.
const OUTPUTS: usize = 16;

impl Program {
    /// Lowers the operations and makes the memory that they need. `batch` is how many texts they are for. Its work has an order of
    /// its own: while it is recorded, nothing else may come in between.
    pub fn new(gpu: &Cuda, builder: &Builder<f32>, batch: usize) -> Result<Program> {
        gpu.training()?;
        let _held = not_while_recording();
        let gpu = &gpu.beside()?;
        let layout = Layout::new(&builder.parameters);
        let needs = lower(gpu, builder, &layout, COUNTING, Needs::default())?.needs();
        let memory = Block::zeros(gpu.queue(), needs.bytes).map_err(|error| match error {
            gpu::Error::Memory { bytes, free } => too_much(bytes, free, &layout, batch),
            error => error.into(),
        })?;
        let finished = lower(gpu, builder, &layout, memory.pointer(), needs)?.finish();
        let Finished {
            forward,
            backward,
            feeds,
            constants,
            places,
            inputs,
            outputs,
            buffers,
            scratch,
            length,
        } = finished;
        for (span, bytes) in &constants {
            memory.upload(*span, bytes)?;
        }
        memory.upload(buffers.decays, &layout.decays(&builder.parameters))?;
        let inputs = (inputs, Pinned::new(gpu.queue(), feeds.bytes())?);
        let outputs = (outputs.first(OUTPUTS), Pinned::new(gpu.queue(), OUTPUTS)?);
        let (recorded, gpu) = (Vec::new(), gpu.clone());
        Ok(Program {
            recorded,
            forward,
            backward,
            feeds,
            places,
            layout,
            buffers,
            inputs,
            outputs,
            scratch,
            length,
            memory: Some(memory),
            gpu,
        })
    }

    /// Runs all operations forward; returns the loss.
    pub fn evaluate(&mut self, batch: &Batch) -> Result<f64> {
        self.feed(batch, 1.0, None)?;
        self.run(Run { pass: Pass::Evaluation, masks: self.masks(batch) })?;
        Ok(self.results()?.0)
    }

    /// Runs a batch of a step forward and backward, and takes the step after the last, unless something is not finite: returns the
    /// mean loss of the batches so far and, after the last, the norm of their gradient.
    pub fn step(&mut self, batch: &Batch, part: Part, update: &Update) -> Result<(f64, f64)> {
        let is_last = part.index + 1 == part.count;
        self.feed(batch, 1.0 / part.count as f64, is_last.then_some(update))?;
        let pass = Pass::Batch { is_first: part.index == 0, last: is_last.then_some(update.adam) };
        self.run(Run { pass, masks: self.masks(batch) })?;
        self.results()
    }

    /// Which tokens of a batch are real, where anyone asks.
    fn masks(&self, batch: &Batch) -> Masks {
        self.length.map_or(Masks::Any, |length| Masks::of(&batch.mask, length))
    }

    /// Puts a batch and the scalars where the GPU can reach them.
    fn feed(&mut self, batch: &Batch, scale: f64, update: Option<&Update>) -> Result<()> {
        let counted = match batch.targets.is_empty() {
            // Pairs of texts count by themselves.
            true => 1,
            false => batch.targets.iter().filter(|&&target| target != IGNORE).count(),
        };
        let mut scalars = Scalars {
            seed: batch.seed,
            step: batch.step,
            is_training: u32::from(batch.is_training),
            counted: counted as u32,
            scale: scale as f32,
            ..Scalars::default()
        };
        if let Some(Update { adam, step, rate, clip }) = update {
            let numbers = adam.at(*step, *rate, *clip);
            (scalars.decay, scalars.rate) = (numbers.decay, numbers.rate);
            (scalars.root, scalars.clip) = (numbers.root, *clip);
        }
        let bytes = self.inputs.1.bytes()?;
        scalars.write(bytes);
        self.feeds.fill(batch, bytes);
        Ok(())
    }

    /// The loss and the norm.
    fn results(&mut self) -> Result<(f64, f64)> {
        let bytes = self.outputs.1.bytes()?;
        let [a, b, c, d, ..] = *bytes else { return Ok((f64::NAN, f64::NAN)) };
        let norm = bytes[8..16].try_into().map_or(f64::NAN, f64::from_ne_bytes);
        Ok((f64::from(f32::from_ne_bytes([a, b, c, d])), norm))
    }

    /// Does a run and waits for it: also where some of it could not be launched, because what was launched before reads and writes
    /// memory of the CPU's.
    fn run(&mut self, run: Run) -> Result<()> {
        let launched = self.give(run);
        let waited = self.gpu.queue().wait();
        launched?;
        Ok(waited?)
    }

    /// Gives a run to the stream, the first time as it is, from the second on as it was recorded.
    fn give(&mut self, run: Run) -> Result<()> {
        let Some(index) = self.recorded.iter().position(|recorded| recorded.run == run) else {
            // Algorithms of products are timed, which asks for memory.
            let _held = not_while_recording();
            self.launch(run)?;
            self.recorded.push(Recorded { run, graph: None, failures: 0 });
            return Ok(());
        };
        if self.recorded[index].graph.is_none() && self.recorded[index].failures < ATTEMPTS {
            // What cannot be recorded, for example because another part of the process disturbs it, is run as it is.
            let graph = self.record(run).ok();
            self.recorded[index].failures += u32::from(graph.is_none());
            self.recorded[index].graph = graph;
        }
        match &mut self.recorded[index].graph {
            Some(graph) => replay(graph, &self.gpu),
            None => self.launch(run),
        }
    }

    fn record(&self, run: Run) -> Result<Graph> {
        let _held = RECORDING.write().unwrap_or_else(PoisonError::into_inner);
        self.gpu.queue().stream().capture(|| self.launch(run))
    }

    /// The block that everything lies in.
    fn memory(&self) -> Result<&Block> {
        self.memory.as_ref().ok_or_else(|| Error::Device("a step after its memory was given back".into()))
    }

    /// Gives the work of a run to the stream.
    fn launch(&self, run: Run) -> Result<()> {
        let (memory, Buffers { parameters, copies, gradients, first, second, decays }) =
            (self.memory()?, self.buffers);
        let Run { pass, masks } = run;
        let gpu = &Launcher::new(&self.gpu, memory).with_masks(masks);
        self.inputs.1.send(memory, self.inputs.0)?;
        let begins = !matches!(pass, Pass::Batch { is_first: false, .. });
        if begins {
            gpu.clear(self.outputs.0)?;
        }
        if let Pass::Batch { is_first: true, .. } = pass {
            gpu.clear(gradients)?;
        }
        let is_evaluation = pass == Pass::Evaluation;
        for (when, work) in &self.forward {
            if *when == When::Always || is_evaluation {
                work(gpu)?;
            }
        }
        if !is_evaluation {
            self.backward.iter().try_for_each(|work| work(gpu))?;
        }
        if let Pass::Batch { last: Some(adam), .. } = pass {
            let len = self.layout.len;
            let buffers = optimizer::Buffers { parameters, gradients, first, second, copies, decays, len };
            let spans = [self.inputs.0, self.outputs.0, self.outputs.0.from(8), self.scratch];
            gpu.update(&buffers, &adam, spans)?;
        }
        Ok(self.outputs.1.receive(memory, self.outputs.0)?)
    }

    /// Takes parameters.
    pub fn set_parameters(&mut self, numbers: &[f32]) -> Result<()> {
        self.put(self.buffers.parameters, numbers)?;
        if !self.buffers.copies.is_nothing() {
            let gpu = Launcher::new(&self.gpu, self.memory()?);
            gpu.shorten(self.buffers.parameters, self.buffers.copies, self.layout.len)?;
        }
        Ok(())
    }

    /// Copies the parameters back.
    pub fn parameters(&self, out: &mut [f32]) -> Result<()> {
        self.take(self.buffers.parameters, out)
    }

    /// Copies the gradients of the last step back, as they were before clipping.
    pub fn gradients(&self, out: &mut [f32]) -> Result<()> {
        self.take(self.buffers.gradients, out)
    }

    /// Takes the optimizer's moments.
    pub fn set_moments(&mut self, [first, second]: [&[f32]; 2]) -> Result<()> {
        self.put(self.buffers.first, first)?;
        self.put(self.buffers.second, second)
    }

    /// Copies the optimizer's moments back.
    pub fn moments(&self, [first, second]: [&mut [f32]; 2]) -> Result<()> {
        self.take(self.buffers.first, first)?;
        self.take(self.buffers.second, second)
    }

    fn put(&self, span: Span, numbers: &[f32]) -> Result<()> {
        let _held = not_while_recording();
        Ok(self.memory()?.upload(span, &self.layout.spread(numbers))?)
    }

    fn take(&self, span: Span, out: &mut [f32]) -> Result<()> {
        let numbers = self.numbers(span, Storage::F32, self.layout.len)?;
        self.layout.gather(&numbers, out);
        Ok(())
    }

    fn numbers(&self, span: Span, storage: Storage, len: usize) -> Result<Vec<f32>> {
        let _held = not_while_recording();
        let mut bytes = vec![0u8; len * storage.size()];
        self.memory()?.download(span, &mut bytes)?;
        Ok(bytes.chunks_exact(storage.size()).map(number).collect())
    }

    /// Copies a value back, as the last run left it.
    pub fn value(&self, value: Value) -> Result<Vec<f32>> {
        let place = self.places[value.index];
        let Place { span, storage } =
            place.ok_or_else(|| Error::Device("a value that is not computed on a GPU".into()))?;
        self.numbers(span, storage, value.size())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What is recorded must not run on when its memory goes.
        let _ = self.gpu.queue().wait();
        // Here, and not after this, so that nobody records meanwhile.
        let _held = not_while_recording();
        self.recorded.clear();
        self.forward.clear();
        self.backward.clear();
        self.memory = None;
    }
}

/// Runs what was recorded.
#[allow(unsafe_code, reason = "promises that the memory of what was recorded is there")]
fn replay(graph: &mut Graph, gpu: &Cuda) -> Result<()> {
    // SAFETY: all memory is the program's, which is borrowed exclusively until the work has been waited for.
    Ok(unsafe { graph.launch(gpu.queue().stream()) }?)
}

/// All operations as work on a GPU, in a block of memory.
fn lower<'a>(
    gpu: &'a Cuda,
    builder: &Builder<f32>,
    layout: &'a Layout,
    base: u64,
    needs: Needs,
) -> Result<Lowering<'a>> {
    let mut lowering = Lowering::new(gpu, layout, &builder.sizes, base, needs);
    lowering.scratch(optimizer::SCRATCH);
    let lowered = builder.operations.iter().map(|operation| operation.lower(&mut lowering));
    let backward = lowered.collect::<Result<Vec<_>>>()?;
    for (index, backward) in backward.into_iter().enumerate().rev() {
        backward(&mut lowering)?;
        // Nothing before it reads what it wrote.
        lowering.release(builder.first_values[index]..builder.first_values[index + 1]);
    }
    lowering.sum_parts();
    Ok(lowering)
}

/// What to say where a step does not fit.
fn too_much(bytes: u128, free: u64, layout: &Layout, batch: usize) -> Error {
    // Parameters, their gradients, two moments and copies do not depend on the batch.
    let fixed = layout.len as u128 * 18;
    let of_a_text = (bytes.saturating_sub(fixed) / batch.max(1) as u128).max(1);
    let fits = u128::from(free).saturating_sub(fixed) / of_a_text;
    let fits = Some((fits as usize).min(batch.saturating_sub(1)));
    Error::DeviceMemory { what: "a training step", bytes, free, fits }
}
