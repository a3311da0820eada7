//! Borrowed tensors of queries or keys: a pointer, a shape and strides, checked once when they are made.

use crate::element::Element;
use crate::error::{Error, Result};
use std::fmt;
use std::marker::PhantomData;

/// The shape of a tensor of queries or keys, whatever the order of its axes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of a sequence.
    pub length: usize,
    /// Heads of a token.
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { batch, length, heads, head_dim } = self;
        write!(f, "batch {batch}, length {length}, heads {heads}, head_dim {head_dim}")
    }
}

impl Shape {
    pub(crate) fn is_empty(&self) -> bool {
        self.batch == 0 || self.length == 0 || self.heads == 0 || self.head_dim == 0
    }
}

/// Elements between neighbours along batch, length and heads. Features are always next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strides {
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
}

/// Queries or keys to read.
#[derive(Clone, Copy)]
pub struct View<'a, T> {
    pointer: *const T,
    shape: Shape,
    strides: Strides,
    borrow: PhantomData<&'a [T]>,
}

/// Queries or keys to rotate in place, or to write to. No two of its elements share memory.
pub struct ViewMut<'a, T> {
    pointer: *mut T,
    shape: Shape,
    strides: Strides,
    borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a view is a shared borrow of its elements, and those may be shared between threads.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for View<'_, T> {}
// SAFETY: a mutable view is an exclusive borrow of its elements, and those may be sent to another thread.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: a shared borrow of a mutable view gives read access alone.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

impl<'a, T: Element> View<'a, T> {
    /// A tensor `[batch, length, heads, head_dim]` that fills the slice.
    pub fn blhd(data: &'a [T], shape: [usize; 4]) -> Result<Self> {
        let (shape, strides) = blhd(data.len(), shape)?;
        Ok(View { pointer: data.as_ptr(), shape, strides, borrow: PhantomData })
    }

    /// A tensor `[batch, heads, length, head_dim]` that fills the slice.
    pub fn bhld(data: &'a [T], shape: [usize; 4]) -> Result<Self> {
        let (shape, strides) = bhld(data.len(), shape)?;
        Ok(View { pointer: data.as_ptr(), shape, strides, borrow: PhantomData })
    }

    /// A tensor of shape `[batch, length, heads, head_dim]` whose neighbours along batch, length and heads are
    /// `strides` elements apart. Elements may repeat (a stride of 0).
    pub fn strided(data: &'a [T], shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let (shape, strides) = strided(data.len(), shape, strides)?;
        Ok(View { pointer: data.as_ptr(), shape, strides, borrow: PhantomData })
    }

    /// As [`strided`](View::strided), from a pointer: for tensors of other libraries.
    ///
    /// # Safety
    ///
    /// `pointer` is aligned for `T`, and every element that shape and strides reach is valid for reads and not written
    /// to for the lifetime `'a`.
    pub unsafe fn from_raw(pointer: *const T, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let (shape, strides) = strided(isize::MAX as usize / size_of::<T>(), shape, strides)?;
        Ok(View { pointer, shape, strides, borrow: PhantomData })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn parts(&self) -> (*const T, Strides) {
        (self.pointer, self.strides)
    }

    /// The features of one head of one token.
    pub(crate) fn vector(&self, batch: usize, token: usize, head: usize) -> &'a [T] {
        let Shape { batch: batches, length, heads, head_dim } = self.shape;
        assert!(batch < batches && token < length && head < heads, "index out of {}", self.shape);
        let Strides { batch: b, length: l, heads: h } = self.strides;
        // SAFETY: the indices are within the shape, all of whose elements are valid for reads for 'a: from a slice the
        // constructors checked that they lie within it, from a pointer the caller promised it.
        unsafe { std::slice::from_raw_parts(self.pointer.add(batch * b + token * l + head * h), head_dim) }
    }
}

impl<'a, T: Element> ViewMut<'a, T> {
    /// A tensor `[batch, length, heads, head_dim]` that fills the slice: what a fused projection writes.
    pub fn blhd(data: &'a mut [T], shape: [usize; 4]) -> Result<Self> {
        let (shape, strides) = blhd(data.len(), shape)?;
        Ok(ViewMut { pointer: data.as_mut_ptr(), shape, strides, borrow: PhantomData })
    }

    /// A tensor `[batch, heads, length, head_dim]` that fills the slice: what attention reads.
    pub fn bhld(data: &'a mut [T], shape: [usize; 4]) -> Result<Self> {
        let (shape, strides) = bhld(data.len(), shape)?;
        Ok(ViewMut { pointer: data.as_mut_ptr(), shape, strides, borrow: PhantomData })
    }

    /// A tensor of shape `[batch, length, heads, head_dim]` whose neighbours along batch, length and heads are
    /// `strides` elements apart, for example the q and k part of a fused QKV row. Vectors that overlap are an error.
    pub fn strided(data: &'a mut [T], shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let (shape, strides) = disjoint(strided(data.len(), shape, strides)?)?;
        Ok(ViewMut { pointer: data.as_mut_ptr(), shape, strides, borrow: PhantomData })
    }

    /// As [`strided`](ViewMut::strided), from a pointer: for tensors of other libraries.
    ///
    /// # Safety
    ///
    /// `pointer` is aligned for `T`, and every element that shape and strides reach is valid for reads and writes, by
    /// this view alone, for the lifetime `'a`.
    pub unsafe fn from_raw(pointer: *mut T, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let limit = isize::MAX as usize / size_of::<T>();
        let (shape, strides) = disjoint(strided(limit, shape, strides)?)?;
        Ok(ViewMut { pointer, shape, strides, borrow: PhantomData })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The same tensor to read.
    pub fn as_view(&self) -> View<'_, T> {
        View { pointer: self.pointer, shape: self.shape, strides: self.strides, borrow: PhantomData }
    }

    pub(crate) fn parts(&mut self) -> (*mut T, Strides) {
        (self.pointer, self.strides)
    }
}

pub(crate) fn blhd(len: usize, [batch, length, heads, head_dim]: [usize; 4]) -> Result<(Shape, Strides)> {
    let shape = Shape { batch, length, heads, head_dim };
    fills("[batch, length, heads, head_dim]", len, shape)?;
    Ok((shape, Strides { batch: length * heads * head_dim, length: heads * head_dim, heads: head_dim }))
}

pub(crate) fn bhld(len: usize, [batch, heads, length, head_dim]: [usize; 4]) -> Result<(Shape, Strides)> {
    let shape = Shape { batch, length, heads, head_dim };
    fills("[batch, heads, length, head_dim]", len, shape)?;
    Ok((shape, Strides { batch: length * heads * head_dim, length: head_dim, heads: length * head_dim }))
}

/// Checks that a tensor of this shape has exactly `len` elements, and that no product of its sizes overflows.
fn fills(what: &'static str, len: usize, shape: Shape) -> Result<()> {
    let Shape { batch, length, heads, head_dim } = shape;
    // Non-empty sizes first, so that a 0 elsewhere does not hide an overflow in a stride.
    let product =
        [length, heads, head_dim].iter().try_fold(1usize, |all, &size| all.checked_mul(size.max(1)));
    let inner = product.and_then(|product| product.checked_mul(batch.max(1)));
    let size = if shape.is_empty() { inner.map(|_| 0) } else { inner };
    match size {
        Some(size) if size == len => Ok(()),
        Some(size) => Err(Error::shape(what, format!("{len} elements"), format!("{size} for {shape}"))),
        None => Err(Error::shape(what, format!("{shape}"), "a shape whose size does not overflow")),
    }
}

/// Checks that the last element that shape and strides reach is within `len`.
pub(crate) fn strided(len: usize, shape: [usize; 4], strides: [usize; 3]) -> Result<(Shape, Strides)> {
    let [batch, length, heads, head_dim] = shape;
    let shape = Shape { batch, length, heads, head_dim };
    let strides = Strides { batch: strides[0], length: strides[1], heads: strides[2] };
    let reach = |size: usize, stride: usize| (size.max(1) - 1).checked_mul(stride);
    let end = reach(batch, strides.batch)
        .and_then(|end| end.checked_add(reach(length, strides.length)?))
        .and_then(|end| end.checked_add(reach(heads, strides.heads)?))
        .and_then(|end| end.checked_add(head_dim));
    match end {
        _ if shape.is_empty() => Ok((shape, strides)),
        Some(end) if end <= len => Ok((shape, strides)),
        end => Err(Error::shape(
            "strided view",
            format!("{len} elements"),
            match end {
                Some(end) => format!("at least {end} for {shape} with {strides:?}"),
                None => format!("strides that do not overflow for {shape}"),
            },
        )),
    }
}

/// Checks that no two vectors share an element: each axis must step over all that the finer axes reach.
pub(crate) fn disjoint((shape, strides): (Shape, Strides)) -> Result<(Shape, Strides)> {
    let mut axes =
        [(strides.batch, shape.batch), (strides.length, shape.length), (strides.heads, shape.heads)];
    axes.sort_unstable();
    let mut reach = shape.head_dim;
    for (stride, size) in axes {
        if size > 1 && !shape.is_empty() {
            if stride < reach {
                return Err(Error::shape(
                    "mutable view",
                    format!("{strides:?} for {shape}"),
                    "strides under which no two vectors overlap",
                ));
            }
            reach += (size - 1) * stride;
        }
    }
    Ok((shape, strides))
}
