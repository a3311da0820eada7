//! Tensors of queries or keys in a GPU's memory: an address, a shape and strides, as on the CPU.

use super::kernels::Number;
use crate::error::Result;
use crate::kernel::view::{Shape, Strides, bhld, blhd, disjoint, strided};
use gpu::{Device, Elements, Slice, SliceMut};
use std::marker::PhantomData;

/// Queries or keys in a GPU's memory: a [`View`] or a [`ViewMut`], as `B` is a borrow to read or to write.
#[derive(Clone, Copy)]
pub struct Tensor<'a, B> {
    pub(super) device: Option<&'a Device>,
    pub(super) pointer: u64,
    pub(super) shape: Shape,
    pub(super) strides: Strides,
    borrow: PhantomData<B>,
}

/// Queries or keys to read.
pub type View<'a, T> = Tensor<'a, &'a [T]>;

/// Queries or keys to rotate in place, or to write to. No two of its elements share memory.
pub type ViewMut<'a, T> = Tensor<'a, &'a mut [T]>;

impl<'a, B> Tensor<'a, B> {
    /// A tensor `[batch, length, heads, head_dim]` that fills the slice or buffer.
    pub fn blhd(data: impl Into<Elements<'a, B>>, shape: [usize; 4]) -> Result<Self> {
        let data = data.into();
        Ok(Tensor::new(&data, blhd(data.len(), shape)?))
    }

    /// A tensor `[batch, heads, length, head_dim]` that fills the slice or buffer.
    pub fn bhld(data: impl Into<Elements<'a, B>>, shape: [usize; 4]) -> Result<Self> {
        let data = data.into();
        Ok(Tensor::new(&data, bhld(data.len(), shape)?))
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn new(data: &Elements<'a, B>, (shape, strides): (Shape, Strides)) -> Self {
        Tensor { device: data.device(), pointer: data.pointer(), shape, strides, borrow: PhantomData }
    }
}

impl<'a, T: Number> View<'a, T> {
    /// A tensor of shape `[batch, length, heads, head_dim]` whose neighbours along batch, length and heads are
    /// `strides` elements apart. Elements may repeat (a stride of 0).
    pub fn strided(data: impl Into<Slice<'a, T>>, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let data = data.into();
        Ok(Tensor::new(&data, strided(data.len(), shape, strides)?))
    }

    /// As [`strided`](View::strided), from an address: for tensors of other libraries.
    ///
    /// # Safety
    ///
    /// The address is aligned for `T` and on the GPU that the view is used with, and every element that shape and strides
    /// reach is valid for reads, and not written to, for as long as work that uses the view runs.
    pub unsafe fn from_raw(pointer: u64, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let (shape, strides) = strided(isize::MAX as usize / size_of::<T>(), shape, strides)?;
        Ok(View { device: None, pointer, shape, strides, borrow: PhantomData })
    }
}

impl<'a, T: Number> ViewMut<'a, T> {
    /// A tensor of shape `[batch, length, heads, head_dim]` whose neighbours along batch, length and heads are
    /// `strides` elements apart, for example the q and k part of a fused QKV row. Vectors that overlap are an error.
    pub fn strided(data: impl Into<SliceMut<'a, T>>, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let data = data.into();
        Ok(Tensor::new(&data, disjoint(strided(data.len(), shape, strides)?)?))
    }

    /// As [`strided`](ViewMut::strided), from an address: for tensors of other libraries.
    ///
    /// # Safety
    ///
    /// The address is aligned for `T` and on the GPU that the view is used with, and every element that shape and strides
    /// reach is valid for reads and writes, by this view alone, for as long as work that uses the view runs.
    pub unsafe fn from_raw(pointer: u64, shape: [usize; 4], strides: [usize; 3]) -> Result<Self> {
        let limit = isize::MAX as usize / size_of::<T>();
        let (shape, strides) = disjoint(strided(limit, shape, strides)?)?;
        Ok(ViewMut { device: None, pointer, shape, strides, borrow: PhantomData })
    }

    /// The same tensor to read.
    pub fn as_view(&self) -> View<'_, T> {
        let ViewMut { device, pointer, shape, strides, .. } = *self;
        View { device, pointer, shape, strides, borrow: PhantomData }
    }
}
