//! Products by cuBLASLt: one plan for each shape, kept.

use super::Arithmetic;
use super::choice::Choices;
use super::library::{Library, Opaque, Proposal};
use crate::error::{Error, Result};
use crate::ops::Real;
use gpu::{Block, Device, Queue};
use std::collections::HashMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that algorithms may use between their parts: what cuBLAS itself takes on the largest chips.
pub(super) const WORKSPACE: usize = 32 << 20;
/// Plans kept; beyond that all are made anew.
const PLANS: usize = 4096;
/// Bytes to which any algorithm wants addresses aligned.
const ALIGNED: u64 = 256;

// cuBLASLt's numbers for types, arithmetic and attributes.
const R_32F: i32 = 0;
const R_16BF: i32 = 14;
const COMPUTE_32F: i32 = 68;
const COMPUTE_32F_FAST_TF32: i32 = 77;
const DESCRIPTOR_TRANSPOSE_A: i32 = 3;
const DESCRIPTOR_TRANSPOSE_B: i32 = 4;
const DESCRIPTOR_EPILOGUE: i32 = 7;
const DESCRIPTOR_BIAS: i32 = 8;
const PREFERENCE_WORKSPACE: i32 = 1;
/// Of the first factor; those of the second, of what is added and of the result follow.
const PREFERENCE_ALIGNMENT: i32 = 5;

/// What is done to a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Epilogue {
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

/// How numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Storage {
    F32,
    Bf16,
}

impl Storage {
    /// Bytes of a number.
    pub fn size(self) -> usize {
        if self == Storage::Bf16 { 2 } else { 4 }
    }

    /// The arithmetic that stores numbers like this.
    pub fn arithmetic(self) -> Arithmetic {
        if self == Storage::Bf16 { Arithmetic::Bf16 } else { Arithmetic::F32 }
    }

    fn number(self) -> i32 {
        if self == Storage::Bf16 { R_16BF } else { R_32F }
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

/// out `[rows, columns]` = left · right + share · added, row by row, without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub rows: usize,
    pub columns: usize,
    /// What is summed over.
    pub depth: usize,
    /// Whether left is stored `[depth, rows]`, not `[rows, depth]`.
    pub is_left_transposed: bool,
    /// Whether right is stored `[columns, depth]`, not `[depth, columns]`.
    pub is_right_transposed: bool,
    pub factors: Storage,
    /// Of the result, of what is added and of the bias.
    pub result: Storage,
    pub epilogue: Epilogue,
}

impl Key {
    /// A linear layer: out `[rows, outputs]` = x `[rows, inputs]` · weightᵀ, weight `[outputs, inputs]`.
    pub fn of_layer(storage: Storage, [rows, inputs, outputs]: [usize; 3], epilogue: Epilogue) -> Self {
        Key {
            rows,
            columns: outputs,
            depth: inputs,
            is_left_transposed: false,
            is_right_transposed: true,
            factors: storage,
            result: storage,
            epilogue,
        }
    }
}

/// Where a product reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub left: u64,
    pub right: u64,
    /// `[columns]`, where the epilogue has one.
    pub bias: u64,
    /// `[rows, columns]`, perhaps the result itself.
    pub added: u64,
    /// What that is multiplied with: 0 to leave it alone.
    pub share: f32,
    pub out: u64,
}

/// Matrices in cuBLASLt's words, which go by columns: outᵀ = rightᵀ · leftᵀ, so the right factor is its first.
pub(super) struct Plan {
    pub descriptor: Opaque,
    pub right: Opaque,
    pub left: Opaque,
    pub out: Opaque,
    pub algorithm: Algorithm,
}

/// An algorithm in cuBLASLt's words, which mean the same to every process with the same version of it.
pub(super) type Algorithm = [u64; 8];

/// How an algorithm is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// It is cuBLASLt's first proposal.
    None,
    /// It is the fastest of several, which are timed: for products that run many times.
    Some,
}

/// Bytes to which the right and the left factor, what is added and the result are aligned.
pub(super) type Alignment = [u64; 4];

fn alignment(places: &Places) -> Alignment {
    let aligned = |place: u64| ALIGNED.min(1 << place.trailing_zeros().min(8));
    [places.right, places.left, places.added, places.out].map(aligned)
}

pub(crate) struct Products {
    pub(super) library: Arc<Handle>,
    pub(super) is_quick: bool,
    workspace: Block,
    /// `None` where cuBLASLt has no algorithm.
    plans: Mutex<HashMap<(Key, Alignment), Option<Plan>>>,
    pub(super) queue: Arc<Queue>,
}

/// The library, started. Streams share it.
pub(crate) struct Handle {
    pub(super) library: Library,
    pub(super) handle: Opaque,
    device: Device,
    /// The algorithms that were timed.
    pub(super) choices: Choices,
}

// SAFETY: cuBLASLt's handle may be used from any thread, and from several at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: made once, destroyed once; those who share it wait for their work before they let go.
            unsafe { (self.library.destroy)(self.handle) };
        }
    }
}

impl Handle {
    pub fn new(device: &Device) -> Result<Handle> {
        let _current = device.enter()?;
        let (library, handle) = Library::find()?;
        Ok(Handle { library, handle, device: device.clone(), choices: Choices::default() })
    }

    /// The version of CUDA that the library is of.
    pub fn cuda(&self) -> usize {
        self.library.cuda()
    }
}

// SAFETY: descriptors and layouts may be used from any thread; plans, which change, are behind a lock.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

impl Products {
    pub fn new(library: &Arc<Handle>, queue: &Arc<Queue>, arithmetic: Arithmetic) -> Result<Products> {
        let workspace = Block::new(queue, WORKSPACE)?;
        let is_quick = arithmetic == Arithmetic::Tf32;
        Ok(Products {
            library: library.clone(),
            is_quick,
            workspace,
            plans: Mutex::default(),
            queue: queue.clone(),
        })
    }

    /// What is shared with products of other streams.
    pub fn library(&self) -> &Arc<Handle> {
        &self.library
    }

    pub fn origin(&self) -> String {
        self.library.library.origin()
    }

    /// Gives a product to the stream; `false` if cuBLASLt has no algorithm for it.
    ///
    /// # Safety
    ///
    /// The places have memory for the matrices that the key describes, which is there until the work is done and that other
    /// streams do not write in the meantime. What is added is read where its share is not 0, the bias where the epilogue has one.
    pub unsafe fn multiply(&self, key: Key, places: Places) -> Result<bool> {
        // SAFETY: as the caller promises.
        unsafe { self.multiply_by(key, places, Patience::None) }
    }

    /// The same by the fastest of several algorithms, which are timed the first time: that asks for memory, and waits.
    ///
    /// # Safety
    ///
    /// As of [`Products::multiply`].
    pub unsafe fn multiply_often(&self, key: Key, places: Places) -> Result<bool> {
        // SAFETY: as the caller promises.
        unsafe { self.multiply_by(key, places, Patience::Some) }
    }

    unsafe fn multiply_by(&self, key: Key, places: Places, patience: Patience) -> Result<bool> {
        let _current = self.queue.device().enter()?;
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let known = (key, alignment(&places));
        if !plans.contains_key(&known) {
            if plans.len() >= PLANS {
                plans.drain().for_each(|(_, plan)| self.destroy(plan));
            }
            let plan = self.plan(key, places, patience)?;
            plans.insert(known, plan);
        }
        let Some(Some(plan)) = plans.get(&known) else { return Ok(false) };
        if key.epilogue.has_bias() {
            // SAFETY: the plan's descriptor, and an address.
            unsafe { self.set(plan.descriptor, DESCRIPTOR_BIAS, &places.bias)? };
        }
        // SAFETY: the plan was made for these sizes, which the caller promises memory for.
        let status = unsafe { self.launch(plan, &plan.algorithm, &places) };
        let Key { rows, columns, depth, .. } = key;
        let what = || format!("a product [{rows}, {depth}] · [{depth}, {columns}]");
        self.check(what, status).map(|()| true)
    }

    /// Gives a product to the stream, and returns cuBLASLt's status.
    ///
    /// # Safety
    ///
    /// The algorithm is for the plan, and the places are as the plan has them.
    pub(super) unsafe fn launch(&self, plan: &Plan, algorithm: &Algorithm, places: &Places) -> i32 {
        let one = 1f32;
        // SAFETY: as the caller promises; the workspace has as many bytes as any algorithm may use that was asked for, and the
        // stream's order keeps its users apart.
        unsafe {
            (self.library.library.multiply)(
                self.library.handle,
                plan.descriptor,
                (&raw const one).cast(),
                places.right,
                plan.right,
                places.left,
                plan.left,
                (&raw const places.share).cast(),
                places.added,
                plan.out,
                places.out,
                plan.out,
                algorithm.as_ptr(),
                self.workspace.pointer(),
                WORKSPACE,
                self.queue.stream().pointer(),
            )
        }
    }

    fn plan(&self, key: Key, places: Places, patience: Patience) -> Result<Option<Plan>> {
        let Key { rows, columns, depth, is_left_transposed, is_right_transposed, factors, result, epilogue } =
            key;
        let compute = match (self.is_quick, factors) {
            (true, Storage::F32) => COMPUTE_32F_FAST_TF32,
            _ => COMPUTE_32F,
        };
        let none = std::ptr::null_mut();
        let mut plan = Plan { descriptor: none, right: none, left: none, out: none, algorithm: [0; 8] };
        let library = &self.library.library;
        // Columns of cuBLASLt's are our rows.
        let layout = |to: &mut Opaque, storage: Storage, width: usize, rows: usize| {
            // SAFETY: sets the pointer.
            let status = unsafe {
                (library.layout_create)(to, storage.number(), width as u64, rows as u64, width as i64)
            };
            self.check(|| "describing a matrix", status)
        };
        let either = |is_transposed: bool, sizes: (usize, usize)| {
            if is_transposed { (sizes.1, sizes.0) } else { sizes }
        };
        let mut prepare = || {
            // SAFETY: sets the pointer.
            let status = unsafe { (library.descriptor_create)(&mut plan.descriptor, compute, R_32F) };
            self.check(|| "describing a product", status)?;
            // SAFETY: the descriptor was just made; these are numbers of 32 bits, and an address.
            unsafe {
                self.set(plan.descriptor, DESCRIPTOR_TRANSPOSE_A, &i32::from(is_right_transposed))?;
                self.set(plan.descriptor, DESCRIPTOR_TRANSPOSE_B, &i32::from(is_left_transposed))?;
                self.set(plan.descriptor, DESCRIPTOR_EPILOGUE, &(epilogue as i32))?;
                if epilogue.has_bias() {
                    self.set(plan.descriptor, DESCRIPTOR_BIAS, &places.bias)?;
                }
            }
            let (width, count) = either(is_right_transposed, (columns, depth));
            layout(&mut plan.right, factors, width, count)?;
            let (width, count) = either(is_left_transposed, (depth, rows));
            layout(&mut plan.left, factors, width, count)?;
            layout(&mut plan.out, result, columns, rows)?;
            match patience {
                Patience::None => {
                    Ok(self.proposals(&plan, alignment(&places), 1)?.first().map(|own| own.algorithm))
                }
                Patience::Some => self.fastest(&plan, key, alignment(&places), &places),
            }
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

    /// So many algorithms at most, those first that cuBLASLt thinks best.
    pub(super) fn proposals(&self, plan: &Plan, alignment: Alignment, most: usize) -> Result<Vec<Proposal>> {
        let library = &self.library.library;
        let mut preference = std::ptr::null_mut();
        // SAFETY: sets the pointer.
        let status = unsafe { (library.preference_create)(&mut preference) };
        self.check(|| "choosing an algorithm", status)?;
        let (mut proposals, mut found) = (vec![Proposal::default(); most], 0);
        // SAFETY: the preference, the descriptor and the layouts were just made; there is room for so many proposals.
        let status = unsafe {
            let bytes = WORKSPACE as u64;
            (library.preference_set)(preference, PREFERENCE_WORKSPACE, (&raw const bytes).cast(), 8);
            for (index, bytes) in alignment.into_iter().enumerate() {
                let (attribute, bytes) = (PREFERENCE_ALIGNMENT + index as i32, bytes as u32);
                (library.preference_set)(preference, attribute, (&raw const bytes).cast(), 4);
            }
            let status = (library.heuristic)(
                self.library.handle,
                plan.descriptor,
                plan.right,
                plan.left,
                plan.out,
                plan.out,
                preference,
                most as i32,
                proposals.as_mut_ptr(),
                &mut found,
            );
            (library.preference_destroy)(preference);
            status
        };
        proposals.truncate(if status == 0 { found.max(0) as usize } else { 0 });
        proposals.retain(|proposal| proposal.state == 0);
        Ok(proposals)
    }

    /// # Safety
    ///
    /// The descriptor lives, and the value is of the attribute's type.
    unsafe fn set<V>(&self, descriptor: Opaque, attribute: i32, value: &V) -> Result<()> {
        let value = std::ptr::from_ref(value).cast::<c_void>();
        let set = self.library.library.descriptor_set;
        // SAFETY: as the caller promises; the value is copied.
        let status = unsafe { set(descriptor, attribute, value, size_of::<V>()) };
        self.check(|| "describing a product", status)
    }

    fn check<W: ToString>(&self, what: impl FnOnce() -> W, status: i32) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => Err(Error::Device(format!(
                "{} failed in cuBLASLt: {}",
                what().to_string(),
                self.library.library.words(status)
            ))),
        }
    }

    fn destroy(&self, plan: Option<Plan>) {
        let Some(plan) = plan else { return };
        let library = &self.library.library;
        // SAFETY: each was made by the library and is destroyed once; it is not needed by work in the stream.
        unsafe {
            for layout in [plan.right, plan.left, plan.out].into_iter().filter(|layout| !layout.is_null()) {
                (library.layout_destroy)(layout);
            }
            if !plan.descriptor.is_null() {
                (library.descriptor_destroy)(plan.descriptor);
            }
        }
    }
}

impl Drop for Products {
    fn drop(&mut self) {
        let plans = std::mem::take(&mut *self.plans.lock().unwrap_or_else(PoisonError::into_inner));
        plans.into_values().for_each(|plan| self.destroy(plan));
        let _ = self.queue.stream().synchronise();
    }
}
