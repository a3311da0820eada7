//! What the tests of the kernels share: a GPU, if there is one, and numbers to give it.

use super::Training;
use crate::ops::check::list;
use crate::ops::cuda::memory::{Block, Queue, bytes};
use crate::ops::cuda::{Arithmetic, Cuda, Fault};
use cudarc::driver::sys;
use half::bf16;
use std::io::Write;
use std::sync::{Arc, OnceLock};

/// A GPU with the kernels of training.
pub(super) struct Gpu {
    cuda: Cuda,
    pub queue: Arc<Queue>,
}

/// The first GPU; none, said aloud, where there is none.
pub(super) fn gpu() -> Option<&'static Gpu> {
    static FOUND: OnceLock<Result<Gpu, String>> = OnceLock::new();
    let find = || -> crate::error::Result<Gpu> {
        let cuda = Cuda::new(0, Arithmetic::F32)?;
        cuda.training()?;
        Ok(Gpu { queue: cuda.queue().clone(), cuda })
    };
    match FOUND.get_or_init(|| find().map_err(|error| error.to_string())) {
        Ok(gpu) => Some(gpu),
        Err(why) => {
            let test = std::thread::current().name().unwrap_or("a test").to_string();
            // Past the harness, which would show it only for tests that fail.
            let _ = writeln!(std::io::stderr(), "{test} skipped: {why}");
            None
        }
    }
}

/// The two storages.
pub(super) const STORAGES: [Arithmetic; 2] = [Arithmetic::F32, Arithmetic::Bf16];

/// Numbers in (−1.5, 1.5) without a pattern, that a GPU stores without rounding them.
pub(super) fn numbers(arithmetic: Arithmetic, seed: u64, len: usize) -> Vec<f32> {
    let round = |x: f32| if arithmetic == Arithmetic::Bf16 { bf16::from_f32(x).to_f32() } else { x };
    list::<f32>(seed, len).into_iter().map(round).collect()
}

impl Gpu {
    /// All kernels of training.
    pub fn kernels(&self) -> &Training {
        self.cuda.training().unwrap()
    }

    /// Memory with numbers of any type.
    pub fn put<N: Copy>(&self, numbers: &[N]) -> Block {
        let Ok(block) = Block::new(&self.queue, size_of_val(numbers).max(1)) else {
            panic!("memory of the GPU")
        };
        self.queue.upload(block.pointer(), bytes(numbers)).unwrap();
        block
    }

    /// Memory with tokens' numbers as they are stored.
    pub fn store(&self, arithmetic: Arithmetic, numbers: &[f32]) -> Block {
        match arithmetic {
            Arithmetic::Bf16 => self.put(&numbers.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>()),
            _ => self.put(numbers),
        }
    }

    /// What memory holds, once all work is done.
    pub fn get<N: Copy + Default>(&self, block: &Block, len: usize) -> Vec<N> {
        let mut list = vec![N::default(); len];
        self.queue.stream.synchronise().unwrap();
        let _current = self.queue.device.enter().unwrap();
        assert!(len * size_of::<N>() <= block.bytes());
        // SAFETY: the list has as many bytes as are copied.
        let result = unsafe {
            sys::cuMemcpyDtoH_v2(list.as_mut_ptr().cast(), block.pointer(), size_of_val(&list[..]))
        };
        assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
        list
    }

    /// Tokens' numbers that memory holds.
    pub fn fetch(&self, arithmetic: Arithmetic, block: &Block, len: usize) -> Vec<f32> {
        match arithmetic {
            Arithmetic::Bf16 => self.get::<bf16>(block, len).into_iter().map(bf16::to_f32).collect(),
            _ => self.get(block, len),
        }
    }
}

/// A launch that worked.
pub(super) fn done(outcome: Result<(), Fault>) {
    if let Err(fault) = outcome {
        panic!("{}", crate::Error::from(fault));
    }
}

/// Checks results against those of the processor: within `units` of rounding, of the largest number.
pub(super) fn close(what: &str, arithmetic: Arithmetic, got: &[f32], expected: &[f32], units: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0f32, |a, b| a.max(b.abs()));
    let rounding = if arithmetic == Arithmetic::Bf16 { 1.0 / 256.0 } else { 1.0 / (1 << 24) as f32 };
    let bound = units * rounding * largest.max(1e-6);
    for (index, (&a, &b)) in got.iter().zip(expected).enumerate() {
        let place = format!("{what} in {} at {index} of {}", arithmetic.name(), got.len());
        assert!((a - b).abs() <= bound, "{place}: {a} but {b}, bound {bound}");
    }
}

/// Words of a mask, a bit a token, from whether tokens are real `[batch, length]`.
pub(super) fn words(mask: &[bool], length: usize) -> Vec<u64> {
    let word = |tokens: &[bool]| {
        tokens.iter().enumerate().fold(0u64, |word, (bit, &real)| word | u64::from(real) << bit)
    };
    mask.chunks(length).flat_map(|text| text.chunks(64).map(word).collect::<Vec<_>>()).collect()
}

/// A mask of texts: all of the first, none of the second, every third missing of others.
pub(super) fn mask(batch: usize, length: usize) -> Vec<bool> {
    let real = |index: usize| match index / length {
        0 => true,
        1 => false,
        text => !(index + text).is_multiple_of(3),
    };
    (0..batch * length).map(real).collect()
}
