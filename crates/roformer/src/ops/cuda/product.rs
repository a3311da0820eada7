//! Products by cuBLASLt: one plan for each shape, kept.

use super::library::{Library, Opaque, Proposal};
use super::memory::{Block, Queue};
use super::{Arithmetic, Fault};
use crate::error::Error;
use crate::ops::Real;
use std::collections::HashMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that algorithms may use between their parts: what cuBLAS itself takes on the largest chips.
const WORKSPACE: usize = 32 << 20;
/// Plans kept; beyond that all are made anew.
const PLANS: usize = 4096;

// cuBLASLt's numbers for types, arithmetic and attributes.
const R_32F: i32 = 0;
const R_16BF: i32 = 14;
const COMPUTE_32F: i32 = 68;
const COMPUTE_32F_FAST_TF32: i32 = 77;
const DESCRIPTOR_TRANSPOSE_A: i32 = 3;
const DESCRIPTOR_EPILOGUE: i32 = 7;
const DESCRIPTOR_BIAS: i32 = 8;
const PREFERENCE_WORKSPACE: i32 = 1;

/// What is done to a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Epilogue {
    Nothing = 1,
    Bias = 4,
    /// The approximation by a hyperbolic tangent: cuBLASLt has no other.
    GeluTanh = 32,
    BiasGeluTanh = 36,
}

impl Epilogue {
    pub fn has_bias(self) -> bool {
        matches!(self, Epilogue::Bias | Epilogue::BiasGeluTanh)
    }
}

/// A weight `[outputs, inputs]` and its bias on a GPU.
pub struct Matrix<T> {
    pub(super) weight: Block,
    pub(super) bias: Block,
    pub(super) has_bias: bool,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T: Real> Matrix<T> {
    pub(super) fn bytes(&self) -> usize {
        self.weight.bytes() + self.bias.bytes()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub rows: usize,
    pub outputs: usize,
    pub inputs: usize,
    pub epilogue: Epilogue,
}

/// Where a product reads and writes.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub weight: u64,
    pub bias: u64,
    pub x: u64,
    pub out: u64,
}

/// Matrices in cuBLASLt's words, which go by columns: out (outputs × rows) = weightᵀ (inputs × outputs) · x (inputs × rows).
struct Plan {
    descriptor: Opaque,
    weight: Opaque,
    x: Opaque,
    out: Opaque,
    algorithm: [u64; 8],
}

pub(super) struct Products {
    library: Library,
    handle: Opaque,
    arithmetic: Arithmetic,
    workspace: Block,
    /// `None` where cuBLASLt has no algorithm.
    plans: Mutex<HashMap<Key, Option<Plan>>>,
    queue: Arc<Queue>,
}

// SAFETY: handles, descriptors and layouts may be used from any thread; plans, which change, are behind a lock.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    pub fn new(queue: &Arc<Queue>, arithmetic: Arithmetic) -> Result<Products, Error> {
        let _current = queue.device.enter()?;
        let (library, handle) = Library::find()?;
        let workspace = Block::new(queue, WORKSPACE)?;
        Ok(Products { library, handle, arithmetic, workspace, plans: Mutex::default(), queue: queue.clone() })
    }

    pub fn origin(&self) -> String {
        self.library.origin()
    }

    /// Gives a product to the stream; `false` if cuBLASLt has no algorithm for it.
    pub fn multiply(&self, key: Key, places: Places) -> Result<bool, Fault> {
        let _current = self.queue.device.enter()?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if !plans.contains_key(&key) {
            if plans.len() >= PLANS {
                plans.drain().for_each(|(_, plan)| self.destroy(plan));
            }
            let plan = self.plan(key, places)?;
            plans.insert(key, plan);
        }
        let Some(Some(plan)) = plans.get(&key) else { return Ok(false) };
        if key.epilogue.has_bias() {
            self.set(plan.descriptor, DESCRIPTOR_BIAS, &places.bias)?;
        }
        let (one, zero) = (1f32, 0f32);
        // SAFETY: the plan was made for these sizes, which the caller checked against the memory at these addresses; the
        // workspace has as many bytes as the plan may use, and the stream's order keeps its users apart.
        let status = unsafe {
            (self.library.multiply)(
                self.handle,
                plan.descriptor,
                (&raw const one).cast(),
                places.weight,
                plan.weight,
                places.x,
                plan.x,
                (&raw const zero).cast(),
                places.out,
                plan.out,
                places.out,
                plan.out,
                plan.algorithm.as_ptr(),
                self.workspace.pointer(),
                WORKSPACE,
                self.queue.stream.pointer(),
            )
        };
        self.check("a product", status).map(|()| true)
    }

    fn plan(&self, key: Key, places: Places) -> Result<Option<Plan>, Fault> {
        let Key { rows, outputs, inputs, epilogue } = key;
        let number = if self.arithmetic == Arithmetic::Bf16 { R_16BF } else { R_32F };
        let compute = match self.arithmetic {
            Arithmetic::Tf32 => COMPUTE_32F_FAST_TF32,
            _ => COMPUTE_32F,
        };
        let none = std::ptr::null_mut();
        let mut plan = Plan { descriptor: none, weight: none, x: none, out: none, algorithm: [0; 8] };
        let library = &self.library;
        let layout = |to: &mut Opaque, rows: usize, columns: usize| {
            // SAFETY: sets the pointer.
            let status =
                unsafe { (library.layout_create)(to, number, rows as u64, columns as u64, rows as i64) };
            self.check("describing a matrix", status)
        };
        let mut prepare = || {
            // SAFETY: sets the pointer.
            let status = unsafe { (library.descriptor_create)(&mut plan.descriptor, compute, R_32F) };
            self.check("describing a product", status)?;
            self.set(plan.descriptor, DESCRIPTOR_TRANSPOSE_A, &1i32)?;
            self.set(plan.descriptor, DESCRIPTOR_EPILOGUE, &(epilogue as i32))?;
            if epilogue.has_bias() {
                self.set(plan.descriptor, DESCRIPTOR_BIAS, &places.bias)?;
            }
            layout(&mut plan.weight, inputs, outputs)?;
            layout(&mut plan.x, inputs, rows)?;
            layout(&mut plan.out, outputs, rows)?;
            self.choose(&plan)
        };
        let algorithm = prepare();
        match algorithm {
            Ok(Some(algorithm)) => Ok(Some(Plan { algorithm, ..plan })),
            other => {
                self.destroy(Some(plan));
                other.map(|_| None)
            }
        }
    }

    /// The algorithm that cuBLASLt thinks best, if it has one.
    fn choose(&self, plan: &Plan) -> Result<Option<[u64; 8]>, Fault> {
        let mut preference = std::ptr::null_mut();
        // SAFETY: sets the pointer.
        let status = unsafe { (self.library.preference_create)(&mut preference) };
        self.check("choosing an algorithm", status)?;
        let (mut proposal, mut found) = (Proposal::default(), 0);
        // SAFETY: the preference, the descriptor and the layouts were just made; there is room for one proposal.
        let status = unsafe {
            let bytes = WORKSPACE as u64;
            (self.library.preference_set)(preference, PREFERENCE_WORKSPACE, (&raw const bytes).cast(), 8);
            let status = (self.library.heuristic)(
                self.handle,
                plan.descriptor,
                plan.weight,
                plan.x,
                plan.out,
                plan.out,
                preference,
                1,
                &mut proposal,
                &mut found,
            );
            (self.library.preference_destroy)(preference);
            status
        };
        Ok((status == 0 && found > 0 && proposal.state == 0).then_some(proposal.algorithm))
    }

    fn set<V>(&self, descriptor: Opaque, attribute: i32, value: &V) -> Result<(), Fault> {
        let value = std::ptr::from_ref(value).cast::<c_void>();
        // SAFETY: the descriptor lives, and the callers give a value of the attribute's size, which is copied.
        let status = unsafe { (self.library.descriptor_set)(descriptor, attribute, value, size_of::<V>()) };
        self.check("describing a product", status)
    }

    fn check(&self, what: &'static str, status: i32) -> Result<(), Fault> {
        match status {
            0 => Ok(()),
            _ => Err(Fault::Other(Error::Device(format!(
                "{what} failed in cuBLASLt: {}",
                self.library.words(status)
            )))),
        }
    }

    fn destroy(&self, plan: Option<Plan>) {
        let Some(plan) = plan else { return };
        // SAFETY: each was made by the library and is destroyed once; it is not needed by work in the stream.
        unsafe {
            for layout in [plan.weight, plan.x, plan.out].into_iter().filter(|layout| !layout.is_null()) {
                (self.library.layout_destroy)(layout);
            }
            if !plan.descriptor.is_null() {
                (self.library.descriptor_destroy)(plan.descriptor);
            }
        }
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        let plans = std::mem::take(&mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner));
        plans.into_values().for_each(|plan| self.destroy(plan));
        if let Ok(_current) = self.queue.device.enter() {
            let _ = self.queue.stream.synchronise();
            // SAFETY: made once, destroyed once, and no work of it is left.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}
