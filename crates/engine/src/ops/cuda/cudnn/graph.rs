//! A graph of cuDNN's operations, and the plan that the library makes of it.

use super::descriptor::{Address, Choice, Descriptor, Handle, Kind, Mode, Numbers, Reduction};
use super::library::{Library, Opaque};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Bytes to which all memory is aligned.
const ALIGNED: i64 = 16;

// cuDNN's numbers for attributes (`cudnnBackendAttributeName_t`).
const POINTWISE_MODE: i32 = 0;
const POINTWISE_PRECISION: i32 = 1;
const POINTWISE_AXIS: i32 = 9;
const HEURISTICS_MODE: i32 = 200;
const HEURISTICS_GRAPH: i32 = 201;
const HEURISTICS_RESULTS: i32 = 202;
const PLAN_HANDLE: i32 = 400;
const PLAN_CONFIGURATION: i32 = 401;
const PLAN_WORKSPACE: i32 = 402;
const OPERATION_POINTWISE: i32 = 750;
const OPERATION_POINTWISE_X: i32 = 751;
const OPERATION_POINTWISE_B: i32 = 752;
const OPERATION_POINTWISE_Y: i32 = 753;
const OPERATION_POINTWISE_T: i32 = 758;
const GRAPH_HANDLE: i32 = 800;
const GRAPH_OPERATIONS: i32 = 801;
const TENSOR_ALIGNMENT: i32 = 900;
const TENSOR_NUMBERS: i32 = 901;
const TENSOR_SIZES: i32 = 902;
const TENSOR_STEPS: i32 = 903;
const TENSOR_NAME: i32 = 906;
const TENSOR_IS_INNER: i32 = 907;
const TENSOR_IS_VALUE: i32 = 908;
const PACK_NAMES: i32 = 1000;
const PACK_ADDRESSES: i32 = 1001;
const PACK_WORKSPACE: i32 = 1003;
const PRODUCT_PRECISION: i32 = 1500;
const OPERATION_PRODUCT_A: i32 = 1520;
const OPERATION_PRODUCT_B: i32 = 1521;
const OPERATION_PRODUCT_C: i32 = 1522;
const OPERATION_PRODUCT: i32 = 1523;
/// Of the rows of the result; of its columns and of what is summed over follow.
const OPERATION_PRODUCT_SIZES: i32 = 1525;
const REDUCTION_OPERATOR: i32 = 1600;
const REDUCTION_PRECISION: i32 = 1601;
const OPERATION_REDUCTION_X: i32 = 1610;
const OPERATION_REDUCTION_Y: i32 = 1611;
const OPERATION_REDUCTION: i32 = 1612;
const OPERATION_RESHAPE_X: i32 = 2200;
const OPERATION_RESHAPE_Y: i32 = 2201;

/// Names of tensors that a graph makes for itself; those of callers are smaller.
const OWN_NAMES: i64 = 1000;

/// Sizes or steps of a tensor of cuDNN's: batch, heads, rows, columns.
pub(super) type Four = [i64; 4];

/// A tensor of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    index: usize,
    pub sizes: Four,
    pub steps: Four,
}

/// Operations that are being put together.
pub(super) struct Graph {
    library: Arc<Library>,
    tensors: Vec<Descriptor>,
    operations: Vec<Descriptor>,
    /// What operations refer to.
    others: Vec<Descriptor>,
    /// The names of numbers that go with the work, and their bits.
    values: Vec<(i64, Box<u32>)>,
}

impl Graph {
    pub fn new(library: &Arc<Library>) -> Graph {
        Graph {
            library: library.clone(),
            tensors: Vec::new(),
            operations: Vec::new(),
            others: Vec::new(),
            values: Vec::new(),
        }
    }

    fn describe(&self, kind: Kind) -> Result<Descriptor> {
        Descriptor::new(&self.library, kind)
    }

    fn tensor(
        &mut self,
        name: i64,
        sizes: Four,
        steps: Four,
        numbers: Numbers,
        role: Option<i32>,
    ) -> Result<Tensor> {
        let mut tensor = self
            .describe(Kind::Tensor)?
            .with(TENSOR_NUMBERS, numbers)?
            .with_all(TENSOR_SIZES, &sizes)?
            .with_all(TENSOR_STEPS, &steps)?
            .with(TENSOR_NAME, name)?
            .with(TENSOR_ALIGNMENT, ALIGNED)?;
        if let Some(role) = role {
            tensor = tensor.with(role, true)?;
        }
        self.tensors.push(tensor.finished()?);
        Ok(Tensor { index: self.tensors.len() - 1, sizes, steps })
    }

    fn name(&self) -> i64 {
        OWN_NAMES + self.tensors.len() as i64
    }

    /// A tensor in memory, by a name below 1000 that its address is given under.
    pub fn given(&mut self, name: i64, sizes: Four, steps: Four, numbers: Numbers) -> Result<Tensor> {
        self.tensor(name, sizes, steps, numbers, None)
    }

    /// A tensor that is never in memory.
    pub fn inner(&mut self, sizes: Four, steps: Four, numbers: Numbers) -> Result<Tensor> {
        self.tensor(self.name(), sizes, steps, numbers, Some(TENSOR_IS_INNER))
    }

    /// A number that goes with the work.
    pub fn value(&mut self, bits: u32, numbers: Numbers) -> Result<Tensor> {
        let name = self.name();
        self.values.push((name, Box::new(bits)));
        self.tensor(name, [1; 4], [1; 4], numbers, Some(TENSOR_IS_VALUE))
    }

    /// y = an operation on the numbers of one to three tensors, computed in some numbers.
    pub fn pointwise_to(
        &mut self,
        y: Tensor,
        mode: Mode,
        inputs: &[Tensor],
        precision: Numbers,
    ) -> Result<Tensor> {
        self.add_pointwise(y, mode, inputs, precision, None)
    }

    fn add_pointwise(
        &mut self,
        y: Tensor,
        mode: Mode,
        inputs: &[Tensor],
        precision: Numbers,
        axis: Option<i64>,
    ) -> Result<Tensor> {
        let mut what = self
            .describe(Kind::Pointwise)?
            .with(POINTWISE_MODE, mode)?
            .with(POINTWISE_PRECISION, precision)?;
        if let Some(axis) = axis {
            what = what.with(POINTWISE_AXIS, axis)?;
        }
        let what = what.finished()?;
        let mut operation =
            self.describe(Kind::PointwiseOperation)?.with_parts(OPERATION_POINTWISE, [&what])?;
        let names = [OPERATION_POINTWISE_X, OPERATION_POINTWISE_B, OPERATION_POINTWISE_T];
        for (name, input) in names.into_iter().zip(inputs) {
            operation = operation.with_parts(name, [&self.tensors[input.index]])?;
        }
        let operation = operation.with_parts(OPERATION_POINTWISE_Y, [&self.tensors[y.index]])?;
        self.operations.push(operation.finished()?);
        self.others.push(what);
        Ok(y)
    }

    /// An operation in `f32` whose result is never in memory and has the first tensor's shape.
    pub fn pointwise(&mut self, mode: Mode, inputs: &[Tensor]) -> Result<Tensor> {
        self.pointwise_in(mode, inputs, Numbers::F32)
    }

    /// The same in other numbers.
    pub fn pointwise_in(&mut self, mode: Mode, inputs: &[Tensor], numbers: Numbers) -> Result<Tensor> {
        let y = self.inner(inputs[0].sizes, inputs[0].steps, numbers)?;
        self.pointwise_to(y, mode, inputs, numbers)
    }

    /// The place of each number of a tensor along an axis, found in some numbers.
    pub fn places(&mut self, of: Tensor, axis: i64, precision: Numbers) -> Result<Tensor> {
        let y = self.inner(of.sizes, of.steps, Numbers::I32)?;
        self.add_pointwise(y, Mode::Index, &[of], precision, Some(axis))
    }

    /// c = a·b for the rows, columns and sums that there are: `sizes` says how many of each in each text, if not all.
    pub fn multiply(
        &mut self,
        a: Tensor,
        b: Tensor,
        c: Tensor,
        sizes: [Option<Tensor>; 3],
    ) -> Result<Tensor> {
        let what = self.describe(Kind::Product)?.with(PRODUCT_PRECISION, Numbers::F32)?.finished()?;
        let mut operation = self
            .describe(Kind::ProductOperation)?
            .with_parts(OPERATION_PRODUCT_A, [&self.tensors[a.index]])?
            .with_parts(OPERATION_PRODUCT_B, [&self.tensors[b.index]])?
            .with_parts(OPERATION_PRODUCT_C, [&self.tensors[c.index]])?
            .with_parts(OPERATION_PRODUCT, [&what])?;
        for (name, size) in (OPERATION_PRODUCT_SIZES..).zip(sizes) {
            if let Some(size) = size {
                operation = operation.with_parts(name, [&self.tensors[size.index]])?;
            }
        }
        self.operations.push(operation.finished()?);
        self.others.push(what);
        Ok(c)
    }

    /// y = x reduced along the axes in which y has one number.
    pub fn reduce(&mut self, operator: Reduction, x: Tensor, y: Tensor) -> Result<Tensor> {
        let what = self
            .describe(Kind::Reduction)?
            .with(REDUCTION_OPERATOR, operator)?
            .with(REDUCTION_PRECISION, Numbers::F32)?
            .finished()?;
        let operation = self
            .describe(Kind::ReductionOperation)?
            .with_parts(OPERATION_REDUCTION_X, [&self.tensors[x.index]])?
            .with_parts(OPERATION_REDUCTION_Y, [&self.tensors[y.index]])?
            .with_parts(OPERATION_REDUCTION, [&what])?;
        self.operations.push(operation.finished()?);
        self.others.push(what);
        Ok(y)
    }

    /// The numbers of a tensor under other sizes and steps, never in memory.
    pub fn reshape(&mut self, x: Tensor, sizes: Four, steps: Four, numbers: Numbers) -> Result<Tensor> {
        let y = self.inner(sizes, steps, numbers)?;
        let operation = self
            .describe(Kind::Reshape)?
            .with_parts(OPERATION_RESHAPE_X, [&self.tensors[x.index]])?
            .with_parts(OPERATION_RESHAPE_Y, [&self.tensors[y.index]])?;
        self.operations.push(operation.finished()?);
        Ok(y)
    }

    /// All operations as one descriptor. With a handle it can be planned for that handle's GPU.
    fn whole(&self, handle: Option<Handle>) -> Result<Descriptor> {
        let whole = self.describe(Kind::OperationGraph)?.with_parts(GRAPH_OPERATIONS, &self.operations)?;
        match handle {
            Some(handle) => whole.with(GRAPH_HANDLE, handle)?.finished(),
            None => whole.finished(),
        }
    }

    /// Whether the library takes the operations for a graph, whatever there is to run it on.
    #[cfg(test)]
    pub fn check(&self) -> Result<()> {
        self.whole(None).map(drop)
    }

    /// The first plan, of those that the library thinks best, that it can make.
    pub fn plan(self, handle: Opaque) -> Result<Plan> {
        let handle = Handle(handle);
        let whole = self.whole(Some(handle))?;
        let heuristics = self
            .describe(Kind::Heuristics)?
            .with_parts(HEURISTICS_GRAPH, [&whole])?
            .with(HEURISTICS_MODE, Choice::Measured)?
            .finished()?;
        let mut refused = None;
        for configuration in heuristics.parts(HEURISTICS_RESULTS, Kind::Configuration)? {
            let made = self
                .describe(Kind::Plan)?
                .with_parts(PLAN_CONFIGURATION, [&configuration])?
                .with(PLAN_HANDLE, handle)?
                .finished();
            match made {
                Ok(plan) => {
                    let workspace = usize::try_from(plan.number(PLAN_WORKSPACE)?).unwrap_or(0);
                    let kept = [whole, heuristics, configuration].into_iter();
                    let kept = kept.chain(self.operations).chain(self.others).chain(self.tensors).collect();
                    return Ok(Plan {
                        plan,
                        workspace,
                        values: self.values,
                        library: self.library,
                        _kept: kept,
                    });
                }
                Err(error) => _ = refused.get_or_insert(error),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Device("cuDNN has no plan for an attention".into())))
    }
}

/// Kernels that compute a graph.
pub(super) struct Plan {
    plan: Descriptor,
    /// Bytes that it works in.
    pub workspace: usize,
    values: Vec<(i64, Box<u32>)>,
    library: Arc<Library>,
    /// What the plan was made of.
    _kept: Vec<Descriptor>,
}

impl Plan {
    /// Gives the work to a handle's stream.
    ///
    /// # Safety
    ///
    /// The handle is the one that the plan was made with, and nobody else uses it. Each name of a tensor in memory has an address,
    /// at a multiple of 16 bytes, with memory of the tensor's sizes and steps; there are [`workspace`](Plan::workspace) bytes of
    /// work space; all of that is there until the work is done.
    pub unsafe fn run(&self, handle: Opaque, places: &[(i64, u64)], workspace: u64) -> Result<()> {
        let values =
            self.values.iter().map(|(name, bits)| (*name, std::ptr::from_ref::<u32>(bits).addr() as u64));
        let (names, addresses): (Vec<i64>, Vec<Address>) =
            places.iter().copied().chain(values).map(|(name, address)| (name, Address(address))).unzip();
        let pack = Descriptor::new(&self.library, Kind::VariantPack)?
            .with_all(PACK_NAMES, &names)?
            .with_all(PACK_ADDRESSES, &addresses)?
            .with(PACK_WORKSPACE, Address(workspace))?
            .finished()?;
        // SAFETY: as the caller promises; values are read before this returns.
        let status = unsafe { (self.library.execute)(handle, self.plan.raw(), pack.raw()) };
        self.library.check("an attention", status)
    }
}
