//! Memory of a GPU: owned, borrowed in part, or someone else's.

use crate::device::Device;
use crate::driver::check;
use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::stream::Stream;
use cudarc::driver::sys;
use std::marker::PhantomData;
use std::ops::Range;

/// Elements in the memory of a GPU, freed when dropped: the GPU finishes its work first.
///
/// Work on a stream runs in the order it was given; between streams nothing is ordered unless the caller orders it.
#[derive(Debug)]
pub struct Buffer<T> {
    device: Device,
    pointer: u64,
    len: usize,
    elements: PhantomData<T>,
}

/// Elements of a [`Buffer`], or of foreign memory, from an address of the GPU on: a [`Slice`] or a [`SliceMut`], as `B` is a
/// borrow to read or to write.
#[derive(Clone, Copy)]
pub struct Elements<'a, B> {
    device: Option<&'a Device>,
    pointer: u64,
    len: usize,
    borrow: PhantomData<B>,
}

/// Elements to read.
pub type Slice<'a, T> = Elements<'a, &'a [T]>;

/// Elements to write.
pub type SliceMut<'a, T> = Elements<'a, &'a mut [T]>;

impl<T: Plain> Buffer<T> {
    pub(crate) fn uninitialised(device: &Device, len: usize) -> Result<Self> {
        let bytes = len as u128 * size_of::<T>() as u128;
        let fits = usize::try_from(bytes).ok().filter(|&bytes| bytes <= isize::MAX as usize);
        let Some(size) = fits else {
            return Err(Error::Memory { bytes, free: device.memory()?.0 });
        };
        Ok(Buffer { device: device.clone(), pointer: device.allocate(size)?, len, elements: PhantomData })
    }

    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self> {
        let mut buffer = Buffer::uninitialised(device, len)?;
        let stream = Stream::default_of(device);
        buffer.as_mut_slice().zero(&stream)?;
        stream.synchronise()?;
        Ok(buffer)
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The address in the GPU's memory, for other libraries.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }

    /// All elements, to read.
    pub fn as_slice(&self) -> Slice<'_, T> {
        Slice { device: Some(&self.device), pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// All elements, to write.
    pub fn as_mut_slice(&mut self) -> SliceMut<'_, T> {
        SliceMut { device: Some(&self.device), pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// A copy of all elements, once the stream's work so far is done.
    pub fn download(&self, stream: &Stream) -> Result<Vec<T>> {
        self.as_slice().download(stream)
    }

    /// Replaces all elements by as many of the CPU's, in the stream's order, and waits for it.
    pub fn upload(&mut self, stream: &Stream, data: &[T]) -> Result<()> {
        self.as_mut_slice().upload(stream, data)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // Kernels may still use it: the driver waits for them before it frees what `cuMemAlloc` gave. Waiting here as well, with
        // `cuCtxSynchronize`, ended in the driver (580) with an invalid address when other threads made or destroyed streams. Where
        // it cannot wait (this thread captures a stream), it refuses, and the memory is left alone.
        if let Ok(_current) = self.device.enter() {
            // SAFETY: allocated when the buffer was made, and freed once.
            let _ = unsafe { sys::cuMemFree_v2(self.pointer) };
        }
    }
}

impl<'a, B> Elements<'a, B> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The GPU, where that is known.
    pub fn device(&self) -> Option<&'a Device> {
        self.device
    }

    /// The address of the first element.
    pub fn pointer(&self) -> u64 {
        self.pointer
    }
}

impl<T: Plain> Slice<'_, T> {
    /// Foreign memory: `len` elements from an address of the GPU on.
    ///
    /// # Safety
    ///
    /// The address is aligned for `T`, on the GPU that the slice is used with, and the elements are valid for reads for
    /// as long as work that uses them runs.
    pub unsafe fn from_raw(pointer: u64, len: usize) -> Self {
        Slice { device: None, pointer, len, borrow: PhantomData }
    }

    /// Some of the elements.
    pub fn range(self, range: Range<usize>) -> Result<Self> {
        let pointer = offset::<T>(self.pointer, self.len, &range)?;
        Ok(Slice { pointer, len: range.len(), ..self })
    }

    /// A copy of the elements, once the stream's work so far is done.
    pub fn download(&self, stream: &Stream) -> Result<Vec<T>> {
        let mut data = Vec::new();
        let bytes = self.len as u128 * size_of::<T>() as u128;
        data.try_reserve_exact(self.len).map_err(|_| Error::HostMemory { bytes })?;
        data.resize(self.len, T::default());
        let _current = stream.enter(self.device, "a slice")?;
        if !data.is_empty() {
            // SAFETY: as many bytes as both sides have; any bits are a `T`; waited for before the vector is looked at.
            let result = unsafe {
                sys::cuMemcpyDtoHAsync_v2(
                    data.as_mut_ptr().cast(),
                    self.pointer,
                    bytes as usize,
                    stream.raw(),
                )
            };
            check("copying from the GPU", result)?;
        }
        stream.synchronise()?;
        Ok(data)
    }
}

impl<T: Plain> SliceMut<'_, T> {
    /// Foreign memory: `len` elements from an address of the GPU on.
    ///
    /// # Safety
    ///
    /// The address is aligned for `T`, on the GPU that the slice is used with, and the elements are valid for reads and
    /// writes, by this slice alone, for as long as work that uses them runs.
    pub unsafe fn from_raw(pointer: u64, len: usize) -> Self {
        SliceMut { device: None, pointer, len, borrow: PhantomData }
    }

    /// Some of the elements.
    pub fn range(self, range: Range<usize>) -> Result<Self> {
        let pointer = offset::<T>(self.pointer, self.len, &range)?;
        Ok(SliceMut { pointer, len: range.len(), ..self })
    }

    /// The same elements, to read.
    pub fn as_slice(&self) -> Slice<'_, T> {
        Slice { device: self.device, pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// The elements before `middle`, and those from it on.
    pub fn split_at(self, middle: usize) -> Result<(Self, Self)> {
        let pointer = offset::<T>(self.pointer, self.len, &(middle..self.len))?;
        let SliceMut { device, len, borrow, .. } = self;
        Ok((SliceMut { len: middle, ..self }, SliceMut { device, pointer, len: len - middle, borrow }))
    }

    /// Replaces the elements by as many of the CPU's, in the stream's order, and waits for it.
    pub fn upload(&mut self, stream: &Stream, data: &[T]) -> Result<()> {
        self.fits("upload", data.len())?;
        let _current = stream.enter(self.device, "a slice")?;
        if !data.is_empty() {
            // SAFETY: as many bytes as both sides have, waited for before the borrow of `data` ends.
            let result = unsafe {
                sys::cuMemcpyHtoDAsync_v2(self.pointer, data.as_ptr().cast(), size_of_val(data), stream.raw())
            };
            check("copying to the GPU", result)?;
        }
        stream.synchronise()
    }

    /// Sets all elements to 0, in the stream's order.
    pub fn zero(&mut self, stream: &Stream) -> Result<()> {
        let _current = stream.enter(self.device, "a slice")?;
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: all bytes of the slice; bytes of 0 are a 0 of every plain type.
        let result =
            unsafe { sys::cuMemsetD8Async(self.pointer, 0, self.len * size_of::<T>(), stream.raw()) };
        check("setting memory to 0", result)
    }

    /// Replaces the elements by as many others of the GPU's, in the stream's order.
    pub fn copy_from(&mut self, stream: &Stream, source: &Slice<T>) -> Result<()> {
        self.fits("copy_from", source.len)?;
        let _current = stream.enter(self.device, "a slice")?;
        stream.enter(source.device, "a slice")?;
        if self.len == 0 {
            return Ok(());
        }
        // SAFETY: as many bytes as both sides have; they do not overlap, one being borrowed exclusively.
        let result = unsafe {
            sys::cuMemcpyDtoDAsync_v2(self.pointer, source.pointer, self.len * size_of::<T>(), stream.raw())
        };
        check("copying on the GPU", result)
    }

    fn fits(&self, what: &'static str, len: usize) -> Result<()> {
        match self.len == len {
            true => Ok(()),
            false => Err(Error::shape(what, format!("{len} elements"), format!("{}", self.len))),
        }
    }
}

impl<'a, T: Plain> From<&'a Buffer<T>> for Slice<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        buffer.as_slice()
    }
}

impl<'a, T: Plain> From<&'a mut Buffer<T>> for SliceMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        buffer.as_mut_slice()
    }
}

/// The address of a range's first element, if the range lies within `len`.
fn offset<T>(pointer: u64, len: usize, range: &Range<usize>) -> Result<u64> {
    if range.start > range.end || range.end > len {
        return Err(Error::argument("range", format!("{range:?}"), format!("one within 0..{len}")));
    }
    Ok(pointer + (range.start * size_of::<T>()) as u64)
}
