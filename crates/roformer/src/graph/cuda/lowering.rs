//! From operations to work on a GPU: where every value and gradient lies, and what is launched in which order.

use super::feed::Feeds;
use super::layout::{Buffers, Layout};
use crate::error::Result;
use crate::graph::{Parameter, Value};
use crate::ops::cuda::memory::bytes;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::Launched;
use crate::ops::cuda::training::sums::Columns;
use crate::ops::cuda::{Arithmetic, Cuda};
use rope::cuda::Table;
use std::ops::Range;
use std::sync::Arc;

/// A piece of work: launches, in the order of the stream.
pub(crate) type Work = Box<dyn Fn(&Cuda) -> Launched + Send>;

/// The second half of an operation's lowering: called in reverse order, when all that reads its value has been lowered.
pub type Backward = Box<dyn FnOnce(&mut Lowering) -> Result<()>>;

/// What lowering an operation gives.
pub type Lowered = Result<Backward>;

/// The address to lower to where memory is only counted.
pub(super) const COUNTING: u64 = 1 << 40;

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
    pub address: u64,
    pub storage: Storage,
}

/// The gradient of a value.
#[derive(Clone, Copy)]
enum Gradient {
    /// Nothing has come back to the value yet.
    Nothing,
    Held(u64),
    /// That of a parameter, which is always there to be added to.
    Parameter(u64),
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
    fn take(&mut self, bytes: usize) -> u64 {
        let at = self.base + self.used as u64;
        self.used += bytes.next_multiple_of(ALIGNMENT);
        at
    }
}

/// Operations being turned into work on a GPU.
pub struct Lowering<'a> {
    pub(crate) gpu: &'a Cuda,
    arena: Arena,
    values: Vec<Slot>,
    layout: &'a Layout,
    buffers: Buffers,
    /// Gradients that were used: memory by its numbers of bytes.
    free: Vec<(usize, u64)>,
    forward: Vec<(When, Work)>,
    backward: Vec<Work>,
    pub(super) feeds: Feeds,
    constants: Vec<(u64, Vec<u8>)>,
    /// The scalars, then all that a batch brings.
    pub(super) inputs: u64,
    /// The loss (`f32`), then the norm of the gradients (`f64`), 8 bytes each.
    outputs: u64,
    /// Memory that an operation uses while it runs, and counters that are 0 between operations.
    shared: [u64; 2],
    needs: [usize; 2],
    pub(super) tables: Vec<Arc<Table>>,
}

/// What was lowered: a program's parts.
pub(super) struct Finished {
    pub forward: Vec<(When, Work)>,
    pub backward: Vec<Work>,
    pub feeds: Feeds,
    pub constants: Vec<(u64, Vec<u8>)>,
    pub places: Vec<Option<Place>>,
    pub inputs: u64,
    pub outputs: u64,
    pub buffers: Buffers,
    pub scratch: u64,
}

/// What a lowering needs, found by lowering once without memory.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs {
    /// Of the block that everything lies in.
    pub bytes: usize,
    shared: [usize; 2],
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
        let inputs = arena.take(known.inputs);
        let shared = known.shared.map(|bytes| arena.take(bytes));
        let mut floats = || arena.take(layout.len * size_of::<f32>());
        let (parameters, gradients, first, second) = (floats(), floats(), floats(), floats());
        let is_short = gpu.arithmetic() == Arithmetic::Bf16;
        let copies = if is_short { arena.take(layout.len * 2) } else { 0 };
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
            needs: [0; 2],
            tables: Vec::new(),
        }
    }

    /// What has been asked for, by a lowering that did not know it.
    pub(super) fn needs(&self) -> Needs {
        let inputs = self.feeds.bytes();
        let shared = [inputs, self.needs[0], self.needs[1]];
        let shared: usize = shared.into_iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum();
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
            scratch: self.shared[0],
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
    pub(crate) fn make(&mut self, value: Value, storage: Storage) -> u64 {
        let address = self.arena.take(value.size() * storage.size());
        self.values[value.index].place = Some(Place { address, storage });
        address
    }

    /// A value that is a parameter: its numbers and its gradient are those of the parameter.
    pub(crate) fn alias(&mut self, value: Value, parameter: Parameter) {
        let address = self.parameter(parameter);
        let gradient = Gradient::Parameter(self.parameter_gradient(parameter));
        let place = Some(Place { address, storage: Storage::F32 });
        self.values[value.index] = Slot { place, gradient, numbers: value.size() };
    }

    /// A value that never changes, at an address.
    pub(crate) fn given(&mut self, value: Value, address: u64) {
        let place = Some(Place { address, storage: Storage::F32 });
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
    pub(crate) fn parameter(&self, parameter: Parameter) -> u64 {
        self.buffers.parameters + (self.layout.place(parameter) * size_of::<f32>()) as u64
    }

    /// A parameter as products read it.
    pub(crate) fn factor(&self, parameter: Parameter, storage: Storage) -> u64 {
        match storage {
            Storage::F32 => self.parameter(parameter),
            Storage::Bf16 => self.buffers.copies + (self.layout.place(parameter) * 2) as u64,
        }
    }

    /// The gradient of a parameter: always added to.
    pub(crate) fn parameter_gradient(&self, parameter: Parameter) -> u64 {
        self.buffers.gradients + (self.layout.place(parameter) * size_of::<f32>()) as u64
    }

    /// Memory of its own that is 0 at first.
    pub(crate) fn memory(&mut self, bytes: usize) -> u64 {
        self.arena.take(bytes)
    }

    /// Numbers that never change.
    pub(crate) fn constant<V: Copy>(&mut self, numbers: &[V]) -> u64 {
        let address = self.arena.take(size_of_val(numbers));
        self.constants.push((address, bytes(numbers).to_vec()));
        address
    }

    /// Memory that an operation may use while it runs; others use it too.
    pub(crate) fn scratch(&mut self, bytes: usize) -> u64 {
        self.share(0, bytes)
    }

    /// Memory of 0 that an operation may use while it runs, if it leaves 0 behind.
    pub(crate) fn counters(&mut self, bytes: usize) -> u64 {
        self.share(1, bytes)
    }

    fn share(&mut self, index: usize, bytes: usize) -> u64 {
        self.needs[index] = self.needs[index].max(bytes);
        self.shared[index]
    }

    /// Where the loss goes.
    pub(crate) fn loss(&self) -> u64 {
        self.outputs
    }

    /// The block of [`Scalars`](crate::ops::cuda::training::Scalars).
    pub(crate) fn scalars(&self) -> u64 {
        self.inputs
    }

    /// Work of the forward pass.
    pub(crate) fn forward(&mut self, work: impl Fn(&Cuda) -> Launched + Send + 'static) {
        self.forward.push((When::Always, Box::new(work)));
    }

    /// Work of a forward pass that does not go back.
    pub(crate) fn evaluate(&mut self, work: impl Fn(&Cuda) -> Launched + Send + 'static) {
        self.forward.push((When::Evaluating, Box::new(work)));
    }

    /// Work of the way back.
    pub(crate) fn backward(&mut self, work: impl Fn(&Cuda) -> Launched + Send + 'static) {
        self.backward.push(Box::new(work));
    }

    /// The gradient of a value, if anything has come back to it.
    pub(crate) fn slope(&self, value: Value) -> Option<u64> {
        match self.values[value.index].gradient {
            Gradient::Nothing | Gradient::Constant => None,
            Gradient::Held(address) | Gradient::Parameter(address) => Some(address),
        }
    }

    /// Where the gradient of a value goes, and whether it is to be added to (`true`) or set.
    pub(crate) fn contribute(&mut self, value: Value) -> (u64, bool) {
        if let Some(address) = self.slope(value) {
            return (address, true);
        }
        assert!(!self.is_constant(value), "what never changes has no gradient");
        let bytes = self.gradient_bytes(value.index);
        let fitting = self.free.iter().position(|(size, _)| *size == bytes);
        let address = match fitting {
            Some(index) => self.free.swap_remove(index).1,
            None => self.arena.take(bytes),
        };
        self.values[value.index].gradient = Gradient::Held(address);
        (address, false)
    }

    /// Where the gradient of a value goes that is only added to.
    pub(crate) fn add_to(&mut self, value: Value) -> u64 {
        let (address, is_there) = self.contribute(value);
        if !is_there {
            let bytes = self.gradient_bytes(value.index);
            self.backward(move |gpu| gpu.clear(address, bytes));
        }
        address
    }

    fn gradient_bytes(&self, index: usize) -> usize {
        let slot = &self.values[index];
        slot.numbers * slot.place.map_or(4, |place| place.storage.size())
    }

    /// Makes the gradient of one value that of another of the same size, or adds it. Afterwards the first has none.
    pub(crate) fn hand_over(&mut self, from: Value, to: Value) {
        let Gradient::Held(address) = self.values[from.index].gradient else { return };
        match self.slope(to) {
            None => {
                self.values[to.index].gradient = Gradient::Held(address);
                self.values[from.index].gradient = Gradient::Nothing;
            }
            Some(sum) => {
                let (storage, len) = (self.place(to).storage, to.size());
                self.backward(move |gpu| gpu.add(storage, sum, address, sum, len));
                self.release(from.index..from.index + 1);
            }
        }
    }

    /// Forgets the gradients of some values.
    pub(super) fn release(&mut self, values: Range<usize>) {
        for index in values {
            if let Gradient::Held(address) = self.values[index].gradient {
                self.free.push((self.gradient_bytes(index), address));
                self.values[index].gradient = Gradient::Nothing;
            }
        }
    }

    /// Work that adds the sums of the columns of x `[rows, width]` to out `[width]`, on the way back.
    pub(crate) fn sum_columns(&mut self, storage: Storage, x: u64, [rows, width]: [usize; 2], out: u64) {
        let mut work = Columns { storage, x, out, rows, width, scratch: 0, counters: 0 };
        work.scratch = self.scratch(work.scratch());
        work.counters = self.counters(work.counters());
        self.backward(move |gpu| gpu.sum_columns(&work));
    }
}
