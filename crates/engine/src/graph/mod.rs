//! A training step as a list of operations: built once for the shape of a batch, then run forward and backward any number of
//! times in the memory that was laid out then.
//!
//! A [`Value`] is what an operation computes, `[rows, width]` row by row; a [`Parameter`] is a range of the one flat buffer
//! that is trained. An operation reads values and parameters and writes one value; its backward half adds to the gradients
//! of what it read. Operations run in the order they were added, their backward halves in reverse.
//!
//! ```text
//! mod.rs         the graph: values, operations, running them
//! parameters.rs  the flat buffer: names, shapes, first values
//! compiled.rs    all operations, compiled once for both number types
//! batch.rs       what changes from step to step
//! gradients.rs   what comes back, and its memory
//! dense.rs       linear layers, sums, columns
//! lookup.rs      rows of tables
//! digits.rs      rows by the places of digits within numbers
//! pointwise.rs   norms, activations, dropout
//! rotate.rs      rotary embedding, with fixed or learned frequencies
//! attend.rs      softmax attention with its position terms
//! across.rs      softmax attention to what an encoder gave
//! linear.rs      linear attention and its feature maps
//! loss.rs        cross-entropy
//! log_bias.rs    a bias by the logarithm of the distance
//! power_bias.rs  one by a power of it
//! fire.rs        a bias by a small network of the places
//! forget.rs      sums of gates over the tokens so far
//! polar.rs       features as magnitudes at phases
//! angles.rs      angles that sum up over the tokens so far
//! turns.rs       heads that turn by given numbers
//! far.rs         where tokens stand for those that are far away
//! receptive.rs   frequencies with a receptive field
//! neighbours.rs  each token beside its neighbours
//! rows.rs        rows side by side, norms without parameters, one vector for each text
//! similarity.rs  losses of vectors that come in pairs
//! cuda/          the same on a GPU
//! ```

/// [`Operation::lower`] of an operation whose form for a GPU, `lower_to`, stands in `cuda/`.
macro_rules! lowered_in_cuda {
    () => {
        #[cfg(feature = "cuda")]
        fn lower(&self, lowering: &mut crate::graph::Lowering) -> crate::graph::Lowered {
            self.lower_to(lowering)
        }
    };
}

mod across;
mod angles;
mod attend;
mod batch;
mod compiled;
#[cfg(feature = "cuda")]
mod cuda;
mod dense;
mod digits;
mod far;
mod fire;
mod forget;
mod gradients;
mod linear;
mod log_bias;
mod lookup;
mod loss;
mod neighbours;
mod parameters;
mod pointwise;
mod polar;
mod power_bias;
mod receptive;
mod rotate;
mod rows;
mod similarity;
mod turns;

pub use across::Across;
pub use angles::Angles;
pub use attend::{Attend, PathTerm, PolarTerm, SegmentTerm, TableTerm, Terms, TurnTerm};
pub use batch::{Batch, IGNORE};
pub(crate) use compiled::Compiled;
use compiled::Compiles;
#[cfg(feature = "cuda")]
pub use cuda::{Backward, Lowered, Lowering, Part, Program};
pub use digits::Digits;
pub use far::Far;
pub use fire::FireWeights;
pub use forget::Gate;
pub use gradients::Gradients;
pub use linear::{FeatureMap, LinearForm};
pub use parameters::{Entry, Init, Parameter, Parameters, mix, normal};
pub use polar::Polar;
pub use rotate::{Columns, Rotation};
pub use turns::TurnedHeads;

use crate::error::{Error, Result};
use crate::ops::{Memory, Real, pass};

/// What an operation computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    index: usize,
    /// Rows.
    pub rows: usize,
    /// Numbers of a row.
    pub width: usize,
}

impl Value {
    /// Its numbers.
    pub fn size(self) -> usize {
        self.rows * self.width
    }
}

/// One operation, forward and backward.
pub trait Operation<T: Real>: Send {
    /// Computes its value from others.
    fn forward(&mut self, values: &mut Values<T>);
    /// Adds to the gradients of what it read, given that of its value.
    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>);

    /// The same as work on a GPU: adds that of the forward pass, and returns what adds that of the way back.
    #[cfg(feature = "cuda")]
    fn lower(&self, _lowering: &mut Lowering) -> Lowered {
        Err(Error::Device("an operation of this network has no form for a GPU; use the CPU".into()))
    }
}

/// Numbers for every value, and the flat buffer of parameters.
struct Store<T> {
    values: Vec<Option<Memory<T>>>,
    parameters: Memory<T>,
}

impl<T: Real> Store<T> {
    fn get(&self, value: Value) -> &[T] {
        self.values[value.index].as_deref().expect("a value is not read by the operation that writes it")
    }

    /// Lends a value for writing; others can be read meanwhile.
    fn lend(&mut self, value: Value) -> Memory<T> {
        self.values[value.index].take().expect("a value is written by one operation at a time")
    }
}

/// The values of a step, and what changes from step to step.
pub struct Values<T: Real> {
    store: Store<T>,
    /// Ids, targets, masks and counters of this step.
    pub batch: Batch,
    /// Whether a backward pass follows, which computes the loss.
    is_going_back: bool,
}

impl<T: Real> Values<T> {
    /// A value, row by row.
    pub fn get(&self, value: Value) -> &[T] {
        self.store.get(value)
    }

    /// A parameter, row by row.
    pub fn parameter(&self, parameter: Parameter) -> &[T] {
        &self.store.parameters[parameter.range()]
    }

    /// Writes a value; `write` can read all others.
    pub fn write(&mut self, value: Value, write: impl FnOnce(&Self, &mut [T])) {
        let mut out = self.store.lend(value);
        write(self, &mut out);
        self.store.values[value.index] = Some(out);
    }
}

/// Operations in the making: values are added one by one, each computed from earlier ones.
pub struct Builder<T: Real> {
    operations: Vec<Box<dyn Operation<T>>>,
    sizes: Vec<usize>,
    /// For each operation its first value: values are made for the operation that is added next.
    first_values: Vec<usize>,
    /// The operation that was added last, if it is a linear layer.
    last_linear: Option<dense::Linear>,
    parameters: Parameters,
    /// Places where chance decides, counted so that each has numbers of its own.
    sites: u64,
    /// Whether tokens and attention are those of the batch's source.
    is_of_source: bool,
    loss: Option<Value>,
}

impl<T: Real> Default for Builder<T> {
    fn default() -> Self {
        Builder {
            operations: Vec::new(),
            sizes: Vec::new(),
            first_values: vec![0],
            last_linear: None,
            parameters: Parameters::default(),
            sites: 0,
            is_of_source: false,
            loss: None,
        }
    }
}

impl<T: Real> Builder<T> {
    /// A value that the operation which is added next will write.
    pub fn value(&mut self, rows: usize, width: usize) -> Value {
        self.sizes.push(rows * width);
        Value { index: self.sizes.len() - 1, rows, width }
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: impl Operation<T> + 'static) {
        self.push_boxed(Box::new(operation));
    }

    /// Adds an operation of this crate.
    fn add<O>(&mut self, operation: O)
    where
        T: Compiles<O>,
    {
        self.push_boxed(T::boxed(operation));
    }

    fn push_boxed(&mut self, operation: Box<dyn Operation<T>>) {
        self.operations.push(operation);
        self.first_values.push(self.sizes.len());
        self.last_linear = None;
    }

    /// Puts another operation in the place of the one that was added last.
    fn replace_last(&mut self, operation: dense::Linear) {
        self.operations.pop();
        self.first_values.pop();
        self.add(operation);
    }

    /// The parameters, to add some or to look one up.
    pub fn parameters(&mut self) -> &mut Parameters {
        &mut self.parameters
    }

    /// The parameters so far.
    pub fn layout(&self) -> &Parameters {
        &self.parameters
    }

    /// A number of its own for a place where chance decides.
    pub fn site(&mut self) -> u64 {
        self.sites += 1;
        self.sites
    }

    /// What `build` adds reads the batch's source in place of its own texts: [`tokens`](Builder::tokens) and
    /// [`attend`](Builder::attend). An encoder is built so, before the decoder whose layers attend to it.
    pub fn of_source<R>(&mut self, build: impl FnOnce(&mut Self) -> R) -> R {
        self.is_of_source = true;
        let built = build(self);
        self.is_of_source = false;
        built
    }

    /// Takes a value of one number as the loss: where the backward pass begins.
    pub fn minimise(&mut self, loss: Value) {
        self.loss = Some(loss);
    }

    /// How many numbers all values are, and the largest of them.
    pub fn numbers(&self) -> [u64; 2] {
        let sizes = || self.sizes.iter().map(|&size| size as u64);
        [sizes().sum(), sizes().max().unwrap_or(0)]
    }

    /// Makes the memory that the operations need.
    pub fn build(self) -> Result<Graph<T>> {
        let numbers: u128 =
            self.sizes.iter().map(|&size| size as u128).sum::<u128>() + self.parameters.len() as u128;
        if !crate::ops::memory::is_available(2 * numbers * size_of::<T>() as u128) {
            return Err(Error::Memory { what: "a training step" });
        }
        let memory = |size: usize| Memory::zeros(size).ok_or(Error::Memory { what: "a training step" });
        let values = self.sizes.iter().map(|&size| memory(size).map(Some)).collect::<Result<_>>()?;
        let store = Store { values, parameters: memory(self.parameters.len())? };
        Ok(Graph {
            values: Values { store, batch: Batch::default(), is_going_back: false },
            gradients: Gradients::new(&self.sizes, self.parameters.len())?,
            first_values: self.first_values,
            operations: self.operations,
            parameters: self.parameters,
            loss: self.loss,
        })
    }
}

/// A training step: operations and the memory they work in.
pub struct Graph<T: Real> {
    operations: Vec<Box<dyn Operation<T>>>,
    /// For each operation, and after the last, its first value.
    first_values: Vec<usize>,
    values: Values<T>,
    gradients: Gradients<T>,
    parameters: Parameters,
    loss: Option<Value>,
}

impl<T: Real> Graph<T> {
    /// What the next step works on.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.values.batch
    }

    /// What the last step worked on.
    pub fn last_batch(&self) -> &Batch {
        &self.values.batch
    }

    /// The names, shapes and places of the parameters.
    pub fn layout(&self) -> &Parameters {
        &self.parameters
    }

    /// All parameters.
    pub fn parameters(&self) -> &[T] {
        &self.values.store.parameters
    }

    /// All parameters, to change.
    pub fn parameters_mut(&mut self) -> &mut [T] {
        &mut self.values.store.parameters
    }

    /// The gradients of all parameters.
    pub fn gradients(&self) -> &[T] {
        &self.gradients.parameters
    }

    /// Parameters and their gradients, both to change: for an optimiser.
    pub fn both_mut(&mut self) -> (&mut [T], &mut [T]) {
        (&mut self.values.store.parameters, &mut self.gradients.parameters)
    }

    /// A value as the last forward pass left it.
    pub fn value(&self, value: Value) -> &[T] {
        self.values.get(value)
    }

    /// Runs all operations; returns the loss, 0 if there is none.
    pub fn forward(&mut self) -> f64 {
        self.run();
        self.loss.map_or(0.0, |loss| self.values.get(loss)[0].to_f64())
    }

    /// Runs all operations forward and backward: adds `scale` times the gradient of the loss to the gradients of the
    /// parameters; returns the loss.
    pub fn step(&mut self, scale: f64) -> f64 {
        self.values.is_going_back = true;
        self.run();
        self.values.is_going_back = false;
        self.backward(scale);
        self.gradients.loss
    }

    fn run(&mut self) {
        for operation in &mut self.operations {
            operation.forward(&mut self.values);
        }
    }

    fn backward(&mut self, scale: f64) {
        if let Some(loss) = self.loss {
            self.gradients.contribute(loss, |_, gradient, _| gradient[0] = T::of(scale));
        }
        for (index, operation) in self.operations.iter_mut().enumerate().rev() {
            operation.backward(&self.values, &mut self.gradients);
            // Nothing before it reads what it wrote.
            self.gradients.release(self.first_values[index]..self.first_values[index + 1]);
        }
    }

    /// Sets the gradients of the parameters to zero, before the first backward pass of a step.
    pub fn clear(&mut self) {
        pass::clear(&mut self.gradients.parameters);
    }
}
