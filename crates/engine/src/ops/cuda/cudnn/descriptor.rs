//! One of cuDNN's descriptors: what it describes, its attributes, and that it is finished.

use super::library::{Library, Opaque};
use crate::error::Result;
use std::sync::Arc;

/// What a descriptor describes (`cudnnBackendDescriptorType_t`).
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Pointwise = 0,
    Configuration = 3,
    Heuristics = 4,
    Plan = 5,
    PointwiseOperation = 13,
    OperationGraph = 15,
    VariantPack = 16,
    Tensor = 17,
    Product = 18,
    ProductOperation = 19,
    Reduction = 21,
    ReductionOperation = 22,
    Reshape = 31,
}

/// How cuDNN's numbers are stored (`cudnnDataType_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Numbers {
    F32 = 0,
    I32 = 4,
    Bf16 = 9,
    Boolean = 11,
}

/// An operation on numbers one by one (`cudnnPointwiseMode_t`).
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Mode {
    Add = 0,
    Multiply = 1,
    Divide = 6,
    Subtract = 9,
    Exponential = 13,
    Logarithm = 15,
    Identity = 21,
    IsGreater = 302,
    IsGreaterOrEqual = 303,
    IsLess = 304,
    And = 400,
    Index = 501,
    Select = 601,
}

/// What a row is reduced to (`cudnnReduceTensorOp_t`).
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Reduction {
    Sum = 0,
    Largest = 3,
}

/// How an engine is chosen (`cudnnBackendHeurMode_t`): by what its makers measured.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub(super) enum Choice {
    Measured = 3,
}

/// An address on the GPU, or of a number that is read when work is given to the stream.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Address(pub u64);

/// The library's handle.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(super) struct Handle(pub Opaque);

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Raw(Opaque);

/// What attributes are.
///
/// # Safety
///
/// Laid out as cuDNN's type of this number.
pub(super) unsafe trait Attribute: Copy {
    const TYPE: i32;
}

// SAFETY: an enum of 32 bits with cuDNN's values.
unsafe impl Attribute for Numbers {
    const TYPE: i32 = 1;
}
// SAFETY: both are a byte of 0 or 1.
unsafe impl Attribute for bool {
    const TYPE: i32 = 2;
}
// SAFETY: a number of 64 bits with its sign.
unsafe impl Attribute for i64 {
    const TYPE: i32 = 3;
}
// SAFETY: an enum of 32 bits with cuDNN's values.
unsafe impl Attribute for Choice {
    const TYPE: i32 = 8;
}
// SAFETY: an enum of 32 bits with cuDNN's values.
unsafe impl Attribute for Mode {
    const TYPE: i32 = 14;
}
// SAFETY: an enum of 32 bits with cuDNN's values.
unsafe impl Attribute for Reduction {
    const TYPE: i32 = 18;
}
// SAFETY: pointers have 64 bits where there are GPUs.
unsafe impl Attribute for Address {
    const TYPE: i32 = 6;
}
// SAFETY: a pointer.
unsafe impl Attribute for Handle {
    const TYPE: i32 = 0;
}
// SAFETY: a pointer.
unsafe impl Attribute for Raw {
    const TYPE: i32 = 15;
}

/// A descriptor, destroyed with its owner.
pub(super) struct Descriptor {
    raw: Opaque,
    kind: Kind,
    library: Arc<Library>,
}

// SAFETY: cuDNN's descriptors are bound to no thread.
unsafe impl Send for Descriptor {}
// SAFETY: what is shared is finished, and is only read.
unsafe impl Sync for Descriptor {}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; work that was given to a stream does not need it.
        unsafe { (self.library.descriptor_destroy)(self.raw) };
    }
}

impl Descriptor {
    pub fn new(library: &Arc<Library>, kind: Kind) -> Result<Descriptor> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: sets the pointer.
        let status = unsafe { (library.descriptor_create)(kind as i32, &mut raw) };
        library.check("describing an attention", status)?;
        Ok(Descriptor { raw, kind, library: library.clone() })
    }

    /// For the library's functions.
    pub fn raw(&self) -> Opaque {
        self.raw
    }

    /// With an attribute of several values.
    pub fn with_all<A: Attribute>(self, name: i32, values: &[A]) -> Result<Descriptor> {
        let set = self.library.descriptor_set;
        // SAFETY: as many values as are said, of the type that is said: the library refuses others than the attribute's, and
        // copies them.
        let status = unsafe { set(self.raw, name, A::TYPE, values.len() as i64, values.as_ptr().cast()) };
        self.library.check(&format!("attribute {name} of {:?}", self.kind), status)?;
        Ok(self)
    }

    /// With an attribute of one value.
    pub fn with<A: Attribute>(self, name: i32, value: A) -> Result<Descriptor> {
        self.with_all(name, &[value])
    }

    /// With an attribute that is other descriptors, which live as long as this one is used.
    pub fn with_parts<'a>(
        self,
        name: i32,
        parts: impl IntoIterator<Item = &'a Descriptor>,
    ) -> Result<Descriptor> {
        let parts: Vec<Raw> = parts.into_iter().map(|part| Raw(part.raw)).collect();
        self.with_all(name, &parts)
    }

    /// With all attributes set.
    pub fn finished(self) -> Result<Descriptor> {
        // SAFETY: the descriptor lives.
        let status = unsafe { (self.library.descriptor_finish)(self.raw) };
        self.library.check(&format!("finishing {:?}", self.kind), status)?;
        Ok(self)
    }

    /// A number that the library gives.
    pub fn number(&self, name: i32) -> Result<i64> {
        let (mut count, mut number) = (0, 0i64);
        // SAFETY: there is room for one number of 64 bits, which the type says.
        let status = unsafe {
            let to = (&raw mut number).cast();
            (self.library.descriptor_get)(self.raw, name, i64::TYPE, 1, &mut count, to)
        };
        self.library.check(&format!("attribute {name} of {:?}", self.kind), status)?;
        Ok(number)
    }

    /// Descriptors of a kind that the library fills, as many as it has.
    pub fn parts(&self, name: i32, kind: Kind) -> Result<Vec<Descriptor>> {
        let (get, mut count) = (self.library.descriptor_get, 0);
        let what = format!("attribute {name} of {:?}", self.kind);
        // SAFETY: nothing is asked for but how many there are.
        let status = unsafe { get(self.raw, name, Raw::TYPE, 0, &mut count, std::ptr::null_mut()) };
        self.library.check(&what, status)?;
        let asked = usize::try_from(count).unwrap_or(0);
        let mut parts =
            (0..asked).map(|_| Descriptor::new(&self.library, kind)).collect::<Result<Vec<_>>>()?;
        let mut raw: Vec<Raw> = parts.iter().map(|part| Raw(part.raw)).collect();
        // SAFETY: as many descriptors of the kind as are said, which the library fills.
        let status =
            unsafe { get(self.raw, name, Raw::TYPE, asked as i64, &mut count, raw.as_mut_ptr().cast()) };
        self.library.check(&what, status)?;
        parts.truncate(usize::try_from(count).unwrap_or(0));
        Ok(parts)
    }
}
