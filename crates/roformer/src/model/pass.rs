//! What all layers of a forward pass share.

use super::positions::{Distant, Tables, Turning};
use crate::attention::softmax::Mask;
use crate::blueprint::Blueprint;
use crate::ops::{Backend, Real};
use rope::Table;
use std::ops::Range;

/// What all layers of a forward pass share.
pub(super) struct Pass<'a, T: Real, B: Backend> {
    pub device: &'a B,
    pub blueprint: &'a Blueprint,
    pub batch: usize,
    pub length: usize,
    /// The rows of each text, where they lie one behind the other; else each has `length`.
    pub texts: Option<&'a [Range<usize>]>,
    /// Tokens before these, in the cache.
    pub past: usize,
    pub tables: &'a Tables<T, B>,
    pub turnings: &'a [Turning<T>],
    /// Tables for what is far away, where it stands elsewhere.
    pub distant: Option<&'a Distant<T>>,
    /// By what queries of layers without positions grow.
    pub temperature: Option<&'a Table<T>>,
    /// `[batch, past + length]`
    pub mask: Mask<'a>,
    /// The segments of tokens, `[batch, length]`, where scores compare them; then there is no past.
    pub segments: Option<&'a [u32]>,
    /// `[batch]`: the first token of each text that is real.
    pub starts: &'a [usize],
    /// Which of these tokens are real, `[batch, length]`.
    pub real: Option<&'a [bool]>,
    pub encoded: Option<Other<'a, T, B>>,
}

impl<T: Real, B: Backend> Pass<'_, T, B> {
    /// Rows of all texts together.
    pub fn rows(&self) -> usize {
        self.texts.map_or(self.batch * self.length, |texts| texts.last().map_or(0, |last| last.end))
    }
}

/// Another model's output, `[batch, length, width]`.
pub(super) struct Other<'a, T: Real, B: Backend> {
    pub hidden: B::Buffer<T>,
    pub length: usize,
    pub mask: Option<&'a [bool]>,
}
