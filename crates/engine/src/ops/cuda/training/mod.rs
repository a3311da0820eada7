//! Kernels of training, one file a part: what the operations of a [`Graph`](crate::graph::Graph) run on a GPU.
//!
//! Functions here only launch: they ask for no memory and wait for nothing, so that a step can be recorded once and run again.
//! What they are given are spans of memory; the [`Launcher`] turns those into addresses, and refuses what does not lie in the
//! step's block or is too short. What it cannot see, numbers in that memory that name rows of other memory, is `unsafe`.
//! Numbers of tokens are stored as the GPU's arithmetic says, `f32` or `bf16`; parameters, what depends on them alone, and all
//! their gradients are `f32`. What changes from step to step is read from memory ([`Scalars`]).
//!
//! The kernels are in `kernels/`; `modules.rs` has them compiled for the GPU that is there, each group when it is first needed.

#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod attention;
#[cfg(test)]
#[allow(unsafe_code, reason = "promises that the memory of tests is there")]
mod check;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod embedding;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod features;
#[allow(unsafe_code, reason = "gives work to cuDNN")]
pub(crate) mod fused;
#[allow(unsafe_code, reason = "multiplies what it has checked")]
mod launcher;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod linear;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod loss;
mod modules;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod norm;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod optimizer;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod pairs;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod pointwise;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod positions;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod rotation;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod rows;
#[allow(unsafe_code, reason = "promises that its memory is there")]
pub(crate) mod solo;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod sums;
#[allow(unsafe_code, reason = "launches kernels")]
pub(crate) mod tensor;

pub(crate) use launcher::{Launcher, Spans};
pub(crate) use modules::Training;

use super::kernels::narrow;
use super::product::Storage;
use gpu::{Function, Module, Span};

/// Threads of a block of most kernels.
const THREADS: usize = 256;

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

/// Which tokens of a batch's texts are real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Masks {
    /// All.
    All,
    /// The first ones of each text, and one at least.
    First,
    /// Any.
    Any,
}

impl Masks {
    /// What a mask of texts of this length is; an empty one has all tokens.
    pub fn of(mask: &[bool], length: usize) -> Masks {
        let is_first = |text: &[bool]| text[0] && text.is_sorted_by(|before, after| before >= after);
        if mask.iter().all(|&is_real| is_real) {
            Masks::All
        } else if mask.chunks(length.max(1)).all(is_first) {
            Masks::First
        } else {
            Masks::Any
        }
    }
}

impl Scalars {
    /// Bytes of seed, step and whether this is training: all that dropout reads.
    pub const DROPOUT: usize = 20;

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
    pub fn load(find: impl Fn(&str) -> gpu::Result<K>) -> gpu::Result<Self> {
        Ok(Stored { f32: find("f32")?, bf16: find("bf16")? })
    }

    pub fn of(&self, storage: Storage) -> &K {
        if storage == Storage::Bf16 { &self.bf16 } else { &self.f32 }
    }
}

/// A kernel for numbers one by one, and for 16 bytes at a time.
pub(super) type Either = [Function; 2];

/// Finds both.
pub(super) fn either(module: &Module, name: &str) -> gpu::Result<Either> {
    Ok([module.function(name)?, module.function(&format!("{name}_wide"))?])
}

/// How many numbers a thread takes: 16 bytes where rows of so many begin at multiples of that, as these addresses do, else 1.
pub(super) fn chunk(storage: Storage, row: usize, places: &[Span]) -> usize {
    let count = 16 / storage.size();
    let is_wide = row.is_multiple_of(count) && places.iter().all(|place| place.is_aligned(16));
    if is_wide { count } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_told_apart() {
        let of = |mask: &[u8]| Masks::of(&mask.iter().map(|&bit| bit == 1).collect::<Vec<_>>(), 3);
        assert_eq!([of(&[]), of(&[1; 6])], [Masks::All; 2]);
        assert_eq!([of(&[1, 1, 0, 1, 0, 0]), of(&[1, 1, 1, 1, 1, 0])], [Masks::First; 2]);
        assert_eq!(
            [of(&[1, 0, 1, 1, 1, 1]), of(&[0, 1, 1, 1, 1, 1]), of(&[1, 1, 0, 0, 0, 0])],
            [Masks::Any; 3]
        );
    }

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
