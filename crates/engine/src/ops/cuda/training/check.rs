//! What the tests of the kernels share: a GPU, if there is one, and numbers to give it.

use super::attention::Attention;
use super::{Launcher, Training};
use crate::error::Result;
use crate::ops::check::list;
use crate::ops::cuda::{Arithmetic, Cuda};
use gpu::{Block, Plain, Queue, Span};
use half::bf16;
use std::sync::{Arc, OnceLock};

/// A GPU with the kernels of training.
pub(super) struct Gpu {
    cuda: Cuda,
    pub queue: Arc<Queue>,
}

/// The first GPU; none, said aloud, where there is none, or a failure where one is required.
pub(super) fn gpu() -> Option<&'static Gpu> {
    static FOUND: OnceLock<Result<Gpu>> = OnceLock::new();
    let find = || -> Result<Gpu> {
        let cuda = Cuda::new(0, Arithmetic::F32)?;
        cuda.training()?;
        Ok(Gpu { queue: cuda.queue().clone(), cuda })
    };
    gpu::testing::or_skip(FOUND.get_or_init(find).as_ref())
}

/// The two storages.
pub(super) const STORAGES: [Arithmetic; 2] = [Arithmetic::F32, Arithmetic::Bf16];

/// Numbers in (−1.5, 1.5) without a pattern, that a GPU stores without rounding them.
pub(super) fn numbers(arithmetic: Arithmetic, seed: u64, len: usize) -> Vec<f32> {
    let round = |x: f32| if arithmetic == Arithmetic::Bf16 { bf16::from_f32(x).to_f32() } else { x };
    list::<f32>(seed, len).into_iter().map(round).collect()
}

impl Gpu {
    /// The GPU.
    pub fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    /// All kernels of training.
    pub fn kernels(&self) -> &Training {
        self.cuda.training().unwrap()
    }

    /// Where to launch: the blocks of a test live until their numbers have been fetched.
    pub fn launcher(&self) -> Launcher<'_> {
        // SAFETY: spans are made from blocks that tests hold, and what a test drops is given back in the stream's order.
        unsafe { Launcher::anywhere(&self.cuda) }
    }

    /// Memory with numbers of any type.
    pub fn put<N: Plain>(&self, numbers: &[N]) -> Block {
        let block = Block::new(&self.queue, size_of_val(numbers).max(1)).unwrap();
        block.upload(block.span(), numbers).unwrap();
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
    pub fn get<N: Plain>(&self, block: &Block, len: usize) -> Vec<N> {
        let mut list = vec![N::default(); len];
        block.download(block.span(), &mut list).unwrap();
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

/// Attention of one head over four tokens, without memory, mask or position terms: what a test does not mean to set.
pub(super) fn plain_attention(arithmetic: Arithmetic) -> Attention {
    Attention {
        arithmetic,
        batch: 1,
        length: 4,
        heads: 1,
        key_heads: 1,
        head_dim: 8,
        is_causal: false,
        window: None,
        scale: 1.0,
        joined: Span::NOTHING,
        out: Span::NOTHING,
        lse: Span::NOTHING,
        mask: Span::NOTHING,
        scalars: Span::NOTHING,
        dropout: 0.0,
        site: 0,
        content: Span::NOTHING,
        position: Span::NOTHING,
        bias: None,
        query: None,
        key: None,
        value: None,
        segments: None,
    }
}

/// A launch that worked.
#[track_caller]
pub(super) fn done(outcome: Result<()>) {
    outcome.unwrap();
}

/// Checks results against those of the CPU: within `units` of rounding, of the largest number.
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
