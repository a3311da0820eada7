//! Kernels of training, one file a part: what the operations of a [`Graph`](crate::graph::Graph) run on a GPU.
//!
//! Functions here only launch: they ask for no memory and wait for nothing, so that a step can be recorded once and run again.
//! Numbers of tokens are stored as the GPU's arithmetic says, `f32` or `bf16`; parameters, what depends on them alone, and all
//! their gradients are `f32`. What changes from step to step is read from memory ([`Scalars`]).
//!
//! The kernels are in `kernels/`; `modules.rs` has them compiled for the GPU that is there, each group when it is first needed.

pub(crate) mod attention;
#[cfg(test)]
mod check;
pub(crate) mod embedding;
pub(crate) mod features;
pub(crate) mod linear;
pub(crate) mod loss;
mod modules;
pub(crate) mod norm;
pub(crate) mod optimizer;
pub(crate) mod pairs;
pub(crate) mod pointwise;
pub(crate) mod rotation;
pub(crate) mod rows;
pub(crate) mod sums;
pub(crate) mod tensor;

pub(crate) use modules::Training;

use super::kernels::{Size, launch_with, narrow};
use super::memory::Queue;
use super::product::Storage;
use super::{Cuda, Fault};
use rope::cuda::{Function, Module};
use std::ffi::c_void;

/// Whether something could be launched.
pub(crate) type Launched = Result<(), Fault>;

/// What changes from step to step, where kernels read it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scalars {
    pub seed: u64,
    pub step: u64,
    pub is_training: u32,
    /// Targets that count.
    pub counted: u32,
    /// What the gradient of the loss begins with.
    pub scale: f32,
    pub unused: u32,
    /// The optimizer's numbers, as in [`Step`](crate::ops::optimizer::Step); `clip` is the largest norm, 0 for any.
    pub decay: f64,
    pub rate: f64,
    pub root: f64,
    pub clip: f64,
}

const _: () = assert!(size_of::<Scalars>() == 64);

impl Scalars {
    /// Writes its bytes to the beginning of some.
    pub fn write(&self, out: &mut [u8]) {
        let Scalars { seed, step, is_training, counted, scale, unused, decay, rate, root, clip } = *self;
        let words = [is_training, counted, scale.to_bits(), unused].map(u32::to_ne_bytes);
        let bytes = [seed, step].map(u64::to_ne_bytes).concat().into_iter();
        let bytes = bytes.chain(words.concat());
        let bytes = bytes.chain([decay, rate, root, clip].map(f64::to_ne_bytes).concat());
        out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = byte);
    }
}

/// A kernel for both ways of storing numbers.
pub(super) struct Stored<K> {
    f32: K,
    bf16: K,
}

impl<K> Stored<K> {
    /// Finds both, by their names: `f32_` and `bf16_` before what `find` is given.
    pub fn load(find: impl Fn(&str) -> rope::Result<K>) -> rope::Result<Self> {
        Ok(Stored { f32: find("f32")?, bf16: find("bf16")? })
    }

    pub fn of(&self, storage: Storage) -> &K {
        if storage == Storage::Bf16 { &self.bf16 } else { &self.f32 }
    }
}

/// A kernel for numbers one by one, and for 16 bytes at a time.
pub(super) type Either = [Function; 2];

/// Finds both.
pub(super) fn either(module: &Module, name: &str) -> rope::Result<Either> {
    Ok([module.function(name)?, module.function(&format!("{name}_wide"))?])
}

/// An argument of a kernel.
pub(super) trait Argument {
    /// Its bytes, in those of a number of 64 bits.
    fn bits(self) -> u64;
}

impl Argument for u64 {
    fn bits(self) -> u64 {
        self
    }
}
impl Argument for u32 {
    fn bits(self) -> u64 {
        u64::from(self)
    }
}
impl Argument for f32 {
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}

/// Launches a kernel with these arguments, each of up to 8 bytes.
///
/// # Safety
///
/// The arguments are the kernel's, and all memory that they lead to lies within buffers that are there.
pub(super) unsafe fn launch_list<const N: usize>(
    queue: &Queue,
    kernel: Function,
    size: Size,
    arguments: [u64; N],
) -> Launched {
    let mut pointers = arguments.each_ref().map(|bits| std::ptr::from_ref(bits).cast_mut().cast::<c_void>());
    // SAFETY: as the caller promises; the low bytes of each number are the argument, as on every processor with such a GPU.
    unsafe { launch_with(queue, kernel, size, &mut pointers) }
}

/// The arguments of a kernel as a list.
macro_rules! arguments {
    ($($argument:expr),* $(,)?) => { [$($crate::ops::cuda::training::Argument::bits($argument)),*] };
}
pub(super) use arguments;

/// How many numbers a thread takes: 16 bytes where rows of so many begin at multiples of that, as these addresses do, else 1.
pub(super) fn chunk(storage: Storage, row: usize, places: &[u64]) -> usize {
    let count = 16 / storage.size();
    let is_wide = row.is_multiple_of(count) && places.iter().all(|place| place.is_multiple_of(16));
    if is_wide { count } else { 1 }
}

impl Cuda {
    /// Sets bytes to 0, in the order of the stream.
    pub(crate) fn clear(&self, place: u64, bytes: usize) -> Launched {
        Ok(self.0.queue.clear(place, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kernels read the fields where the struct has them.
    #[test]
    fn scalars_are_written_where_they_lie() {
        let scalars = Scalars {
            seed: 0x0102_0304_0506_0708,
            step: 9,
            is_training: 1,
            counted: 77,
            scale: 0.25,
            unused: 0,
            decay: 1.5,
            rate: -2.5,
            root: 3.5,
            clip: 4.5,
        };
        let mut bytes = [0xaa; size_of::<Scalars>() + 4];
        scalars.write(&mut bytes);
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([word(0), word(8)], [scalars.seed, scalars.step]);
        assert_eq!([half(16), half(20), half(24)], [1, 77, 0.25f32.to_bits()]);
        assert_eq!([32, 40, 48, 56].map(|at| f64::from_bits(word(at))), [1.5, -2.5, 3.5, 4.5]);
        assert_eq!(bytes[size_of::<Scalars>()..], [0xaa; 4]);
    }
}
