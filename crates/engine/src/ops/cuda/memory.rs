//! Numbers of models in the GPU's memory, stored as its arithmetic says.

use super::Cuda;
use crate::error::{Error, Result, WORK};
use crate::ops::Real;
use gpu::Block;
use half::bf16;
use rayon::prelude::*;
use std::any::{Any, TypeId};
use std::marker::PhantomData;
use std::sync::PoisonError;

/// Numbers that a thread copies or converts at a time.
const PIECE: usize = 1 << 16;

/// Numbers in a GPU's memory.
pub struct Buffer<T> {
    pub(super) block: Block,
    pub(super) len: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Buffer<T> {
    /// The address of a number.
    pub(super) fn at(&self, index: usize, size: usize) -> u64 {
        assert!(index <= self.len, "numbers within their buffer");
        self.block.pointer() + (index * size) as u64
    }
}

/// The same numbers as `f32`, which they are where this is called.
fn single<T: Real>(list: &[T]) -> &[f32] {
    assert_eq!(TypeId::of::<T>(), TypeId::of::<f32>(), "f32 on a GPU");
    // SAFETY: the same type.
    unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), list.len()) }
}

fn single_mut<T: Real>(list: &mut [T]) -> &mut [f32] {
    assert_eq!(TypeId::of::<T>(), TypeId::of::<f32>(), "f32 on a GPU");
    // SAFETY: the same type, borrowed exclusively.
    unsafe { std::slice::from_raw_parts_mut(list.as_mut_ptr().cast(), list.len()) }
}

impl Cuda {
    /// Bytes of that many numbers as they are stored.
    fn bytes_of(&self, len: usize) -> Result<usize> {
        let bytes = len as u128 * self.0.arithmetic.size() as u128;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes <= isize::MAX as usize => Ok(bytes),
            _ => Err(Error::DeviceMemory { what: WORK, bytes, free: self.0.queue.free()?, fits: None }),
        }
    }

    pub(super) fn zero_block(&self, len: usize) -> Result<Block> {
        Ok(Block::zeros(&self.0.queue, self.bytes_of(len)?)?)
    }

    pub(super) fn buffer<T: Real>(&self, len: usize) -> Result<Buffer<T>> {
        self.check_type::<T>()?;
        Ok(Buffer { block: self.zero_block(len)?, len, kind: PhantomData })
    }

    pub(super) fn refit<T: Real>(&self, buffer: &mut Buffer<T>, len: usize) -> Result<()> {
        let bytes = self.bytes_of(len)?;
        if bytes > buffer.block.bytes() {
            // The old memory first, so that both are not needed at once.
            (buffer.block, buffer.len) = (Block::new(&self.0.queue, 0)?, 0);
            buffer.block = Block::new(&self.0.queue, bytes)?;
        }
        buffer.len = len;
        Ok(())
    }

    /// Stores numbers from `first` on, in the form that this stores.
    pub(super) fn store<T: Real>(&self, block: &Block, first: usize, numbers: &[T]) -> Result<()> {
        let (size, numbers) = (self.0.arithmetic.size(), single(numbers));
        assert!((first + numbers.len()) * size <= block.bytes(), "numbers within their memory");
        let to = block.span().from(first * size);
        match size {
            2 => {
                let short: Vec<bf16> = numbers.par_iter().map(|&x| bf16::from_f32(x)).collect();
                block.upload(to, &short)?;
            }
            _ => block.upload(to, numbers)?,
        }
        Ok(())
    }

    /// Copies numbers back.
    pub(super) fn fetch<T: Real>(&self, from: &Buffer<T>, to: &mut [T]) -> Result<()> {
        assert_eq!(from.len, to.len(), "as many numbers");
        self.received(from, |numbers| single_mut(to).par_iter_mut().zip(numbers).for_each(|(to, x)| *to = x))
    }

    /// Copies numbers back into a new list. Its pages are first touched here, by all threads: zeros beforehand would cost more
    /// than the copy.
    pub(super) fn fetch_list<T: Real>(&self, from: &Buffer<T>, len: usize) -> Result<Vec<T>> {
        assert_eq!(from.len, len, "as many numbers");
        let mut list: Vec<f32> = Vec::new();
        list.try_reserve_exact(len).map_err(|_| Error::Memory { what: WORK })?;
        self.received(from, |numbers| numbers.collect_into_vec(&mut list))?;
        as_list(list)
    }

    /// Gives a buffer's numbers, once all work so far is done, to `take`.
    fn received<T: Real>(&self, from: &Buffer<T>, take: impl FnOnce(Numbers)) -> Result<()> {
        let size = self.0.arithmetic.size();
        let mut landing = self.0.landing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = landing.download(&from.block, from.block.span().first(from.len * size))?;
        take(bytes.par_chunks_exact(size).with_min_len(PIECE).map(number as fn(&[u8]) -> f32));
        Ok(())
    }
}

/// A list of `f32`, which is what is asked for where this is called.
pub(super) fn as_list<T: Real>(list: Vec<f32>) -> Result<Vec<T>> {
    let list: Box<dyn Any> = Box::new(list);
    list.downcast().map(|list| *list).map_err(|_| super::wrong_type())
}

/// A number of 2 bytes (`bf16`) or 4 (`f32`).
pub(crate) fn number(bytes: &[u8]) -> f32 {
    match *bytes {
        [low, high] => bf16::from_ne_bytes([low, high]).to_f32(),
        [a, b, c, d] => f32::from_ne_bytes([a, b, c, d]),
        _ => f32::NAN,
    }
}

/// Numbers as they come from the GPU.
type Numbers<'a> =
    rayon::iter::Map<rayon::iter::MinLen<rayon::slice::ChunksExact<'a, u8>>, fn(&'a [u8]) -> f32>;
