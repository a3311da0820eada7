//! From operations to work on a GPU: where every value and gradient lies, and what is launched in which order.

use super::feed::Feeds;
use super::layout::{Buffers, Layout};
use super::sums::Sums;
use crate::error::Result;
use crate::graph::{Parameter, Value};
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::{Launcher, Scalars};
use crate::ops::cuda::{Arithmetic, Cuda};
use gpu::{Plain, Span};
use rope::cuda::Table;
use std::ops::Range;
use std::sync::Arc;

/// A piece of work: launches, in the order of the stream.
pub(crate) type Work = Box<dyn Fn(&Launcher) -> Result<()> + Send>;

/// The second half of an operation's lowering: called in reverse order, when all that reads its value has been lowered.
pub type Backward = Box<dyn FnOnce(&mut Lowering) -> Result<()>>;

/// What lowering an operation gives.
pub type Lowered = Result<Backward>;

/// The address to lower to where memory is only counted.
pub(super) const COUNTING: u64 = 1 << 40;
/// Bytes of memory whose size is not known while it is counted.
const ANY: usize = 1 << 50;

/// When a piece of the forward pass is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// In every pass.
    Always,
    /// In a pass that does not go back.
    Evaluating,
}

/// Bytes to which everything is aligned.
const ALIGNMENT: usize = 256;

/// Where a value lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub span: Span,
    pub storage: Storage,
}

/// The gradient of a value.
#[derive(Clone, Copy)]
enum Gradient {
    /// Nothing has come back to the value yet.
    Nothing,
    Held(Span),
    /// That of a parameter, which is always there to be added to.
    Parameter(Span),
    /// The value never changes.
    Constant,
}

struct Slot {
    place: Option<Place>,
    gradient: Gradient,
    numbers: usize,
}

/// Memory given out from one block: first only counted, then, with the same requests, really given.
struct Arena {
    base: u64,
    used: usize,
}

impl Arena {
    fn take(&mut self, bytes: usize) -> Span {
        let at = self.base + self.used as u64;
        self.used += bytes.next_multiple_of(ALIGNMENT);
        Span::new(at, bytes)
    }
}

/// Operations being turned into work on a GPU.
pub struct Lowering<'a> {
    pub(crate) gpu: &'a Cuda,
    arena: Arena,
    values: Vec<Slot>,
    layout: &'a Layout,
    buffers: Buffers,
    /// Memory of gradients that were used.
    free: Vec<Span>,
    forward: Vec<(When, Work)>,
    backward: Vec<Work>,
    pub(super) feeds: Feeds,
    constants: Vec<(Span, Vec<u8>)>,
    /// The scalars, then all that a batch brings.
    pub(super) inputs: Span,
    /// The loss (`f32`), then the norm of the gradients (`f64`), 8 bytes each.
    outputs: Span,
    /// Memory that an operation uses while it runs.
    shared: Span,
    needs: usize,
    pub(super) sums: Sums,
    /// The length of texts, where an attention asks how many of their tokens are real.
    pub(super) length: Option<usize>,
    pub(super) tables: Vec<Arc<Table>>,
}

/// What was lowered: a program's parts.
pub(super) struct Finished {
    pub forward: Vec<(When, Work)>,
    pub backward: Vec<Work>,
    pub feeds: Feeds,
    pub constants: Vec<(Span, Vec<u8>)>,
    pub places: Vec<Option<Place>>,
    pub inputs: Span,
    pub outputs: Span,
    pub buffers: Buffers,
    pub scratch: Span,
    pub length: Option<usize>,
}

/// What a lowering needs, found by lowering once without memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs {
    /// Of the block that everything lies in.
    pub bytes: usize,
    shared: usize,
    inputs: usize,
}

impl<'a> Lowering<'a> {
    /// A lowering into a block at `base`, whose needs are known; the first time, with any address, they are not.
    pub(super) fn new(
        gpu: &'a Cuda,
        layout: &'a Layout,
        sizes: &[usize],
        base: u64,
        known: Needs,
    ) -> Lowering<'a> {
        let mut arena = Arena { base, used: 0 };
        let outputs = arena.take(ALIGNMENT);
        // What is not known yet is as long as anyone asks for.
        let mut known_or_any = |bytes: usize| {
            let span = arena.take(bytes);
            if base == COUNTING { Span::new(span.address(), ANY) } else { span }
        };
        let inputs = known_or_any(known.inputs);
        let shared = known_or_any(known.shared);
        let mut floats = || arena.take(layout.len * size_of::<f32>());
        let (parameters, gradients, first, second) = (floats(), floats(), floats(), floats());
        let is_short = gpu.arithmetic() == Arithmetic::Bf16;
        let copies = if is_short { arena.take(layout.len * 2) } else { Span::NOTHING };
        let decays = arena.take(layout.len.div_ceil(8));
        let buffers = Buffers { parameters, copies, gradients, first, second, decays };
        let slot = |&numbers: &usize| Slot { place: None, gradient: Gradient::Nothing, numbers };
        Lowering {
            gpu,
            arena,
            values: sizes.iter().map(slot).collect(),
            layout,
            buffers,
            free: Vec::new(),
            forward: Vec::new(),
            backward: Vec::new(),
            feeds: Feeds::new(),
            constants: Vec::new(),
            inputs,
            outputs,
            shared,
            needs: 0,
            sums: Sums::default(),
            length: None,
            tables: Vec::new(),
        }
    }

    /// What has been asked for, by a lowering that did not know it.
    pub(super) fn needs(&self) -> Needs {
        let inputs = self.feeds.bytes();
        let shared: usize =
            [inputs, self.needs].into_iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum();
        Needs { bytes: self.arena.used + shared, shared: self.needs, inputs }
    }

    /// Whether memory is only counted, and nothing will be launched.
    pub(crate) fn is_counting(&self) -> bool {
        self.arena.base == COUNTING
    }

    /// What was lowered.
    pub(super) fn finish(self) -> Finished {
        Finished {
            places: self.values.iter().map(|slot| slot.place).collect(),
            scratch: self.shared,
            length: self.length,
            forward: self.forward,
            backward: self.backward,
            feeds: self.feeds,
            constants: self.constants,
            inputs: self.inputs,
            outputs: self.outputs,
            buffers: self.buffers,
        }
    }

    /// How tokens' numbers are stored.
    pub(crate) fn storage(&self) -> Storage {
        if self.gpu.arithmetic() == Arithmetic::Bf16 { Storage::Bf16 } else { Storage::F32 }
    }

    /// Memory of its own for a value.
    pub(crate) fn make(&mut self, value: Value, storage: Storage) -> Span {
        let span = self.arena.take(value.size() * storage.size());
        self.values[value.index].place = Some(Place { span, storage });
        span
    }

    /// A value that is a parameter: its numbers and its gradient are those of the parameter.
    pub(crate) fn alias(&mut self, value: Value, parameter: Parameter) {
        let span = self.parameter(parameter);
        let gradient = Gradient::Parameter(self.parameter_gradient(parameter));
        let place = Some(Place { span, storage: Storage::F32 });
        self.values[value.index] = Slot { place, gradient, numbers: value.size() };
    }

    /// A value that never changes.
    pub(crate) fn given(&mut self, value: Value, span: Span) {
        let place = Some(Place { span, storage: Storage::F32 });
        self.values[value.index] = Slot { place, gradient: Gradient::Constant, numbers: value.size() };
    }

    /// Whether a value never changes, and has no gradient.
    pub(crate) fn is_constant(&self, value: Value) -> bool {
        matches!(self.values[value.index].gradient, Gradient::Constant)
    }

    /// Where a value lies that has been made.
    pub(crate) fn place(&self, value: Value) -> Place {
        self.values[value.index].place.expect("a value is made before it is read")
    }

    /// A parameter in `f32`.
    pub(crate) fn parameter(&self, parameter: Parameter) -> Span {
        self.part(self.buffers.parameters, parameter, size_of::<f32>())
    }

    /// The numbers of a parameter in a buffer of all of them.
    fn part(&self, buffer: Span, parameter: Parameter, size: usize) -> Span {
        buffer.from(self.layout.place(parameter) * size).first(parameter.range().len() * size)
    }

    /// A parameter as products read it.
    pub(crate) fn factor(&self, parameter: Parameter, storage: Storage) -> Span {
        match storage {
            Storage::F32 => self.parameter(parameter),
            Storage::Bf16 => self.part(self.buffers.copies, parameter, 2),
        }
    }

    /// The gradient of a parameter: always added to.
    pub(crate) fn parameter_gradient(&self, parameter: Parameter) -> Span {
        self.part(self.buffers.gradients, parameter, size_of::<f32>())
    }

    /// Memory of its own that is 0 at first.
    pub(crate) fn memory(&mut self, bytes: usize) -> Span {
        self.arena.take(bytes)
    }

    /// Numbers that never change.
    pub(crate) fn constant<V: Plain>(&mut self, numbers: &[V]) -> Span {
        let span = self.arena.take(size_of_val(numbers));
        self.constants.push((span, gpu::bytes(numbers).to_vec()));
        span
    }

    /// Memory that an operation may use while it runs; others use it too.
    pub(crate) fn scratch(&mut self, bytes: usize) -> Span {
        self.needs = self.needs.max(bytes);
        self.shared.first(bytes)
    }

    /// Where the loss goes.
    pub(crate) fn loss(&self) -> Span {
        self.outputs
    }

    /// The [`Scalars`].
    pub(crate) fn scalars(&self) -> Span {
        self.inputs.first(size_of::<Scalars>())
    }

    /// Work of the forward pass.
    pub(crate) fn forward(&mut self, work: impl Fn(&Launcher) -> Result<()> + Send + 'static) {
        self.forward.push((When::Always, Box::new(work)));
    }

    /// Work of a forward pass that does not go back.
    pub(crate) fn evaluate(&mut self, work: impl Fn(&Launcher) -> Result<()> + Send + 'static) {
        self.forward.push((When::Evaluating, Box::new(work)));
    }

    /// Work of the way back.
    pub(crate) fn backward(&mut self, work: impl Fn(&Launcher) -> Result<()> + Send + 'static) {
        self.backward.push(Box::new(work));
    }

    /// The gradient of a value, if anything has come back to it.
    pub(crate) fn gradient(&self, value: Value) -> Option<Span> {
        match self.values[value.index].gradient {
            Gradient::Nothing | Gradient::Constant => None,
            Gradient::Held(span) | Gradient::Parameter(span) => Some(span),
        }
    }

    /// Where the gradient of a value goes, and whether it is to be added to (`true`) or set.
    pub(crate) fn contribute(&mut self, value: Value) -> (Span, bool) {
        if let Some(span) = self.gradient(value) {
            return (span, true);
        }
        assert!(!self.is_constant(value), "what never changes has no gradient");
        let bytes = self.gradient_bytes(value.index);
        let fitting = self.free.iter().position(|span| span.bytes() == bytes);
        let span = match fitting {
            Some(index) => self.free.swap_remove(index),
            None => self.arena.take(bytes),
        };
        self.values[value.index].gradient = Gradient::Held(span);
        (span, false)
    }

    /// Where the gradient of a value goes that is only added to.
    pub(crate) fn add_to(&mut self, value: Value) -> Span {
        let (span, is_there) = self.contribute(value);
        if !is_there {
            self.backward(move |gpu| gpu.clear(span));
        }
        span
    }

    /// Adds work of the way back that sets the gradient of a value. Where something has come back to the value already, it is set
    /// beside that, and then added.
    pub(crate) fn set_gradient(&mut self, value: Value, work: impl FnOnce(&mut Self, Span)) {
        let (sum, is_there) = self.contribute(value);
        if !is_there {
            return work(self, sum);
        }
        let (storage, len) = (self.place(value).storage, value.size());
        let beside = self.memory(len * storage.size());
        work(self, beside);
        self.backward(move |gpu| gpu.add(storage, sum, beside, sum, len));
    }

    fn gradient_bytes(&self, index: usize) -> usize {
        let slot = &self.values[index];
        slot.numbers * slot.place.map_or(4, |place| place.storage.size())
    }

    /// Makes the gradient of one value that of another of the same size, or adds it. Afterwards the first has none.
    pub(crate) fn hand_over(&mut self, from: Value, to: Value) {
        let Gradient::Held(span) = self.values[from.index].gradient else { return };
        match self.gradient(to) {
            None => {
                self.values[to.index].gradient = Gradient::Held(span);
                self.values[from.index].gradient = Gradient::Nothing;
            }
            Some(sum) => {
                let (storage, len) = (self.place(to).storage, to.size());
                self.backward(move |gpu| gpu.add(storage, sum, span, sum, len));
                self.release(from.index..from.index + 1);
            }
        }
    }

    /// Forgets the gradients of some values.
    pub(super) fn release(&mut self, values: Range<usize>) {
        for index in values {
            if let Gradient::Held(span) = self.values[index].gradient {
                self.free.push(span);
                self.values[index].gradient = Gradient::Nothing;
            }
        }
    }

    /// How many pieces of work the way back has so far.
    pub(super) fn backward_len(&self) -> usize {
        self.backward.len()
    }

    /// Puts another piece of work in the place of the last one of the way back.
    pub(super) fn replace_last_backward(&mut self, work: impl Fn(&Launcher) -> Result<()> + Send + 'static) {
        self.backward.pop();
        self.backward(work);
    }
}
