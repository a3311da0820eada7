//! Attention: which kernel, how many blocks, and its arguments.

use super::arguments::{Attend, Sizes, Vectors};
use super::{Arithmetic, Buffer, Cuda, check_mask};
use crate::attention::softmax::{Mask, Reach, Shape};
use crate::error::{Error, Result};
use crate::ops::{Part, Real};
use gpu::{Function, Size};

/// Bytes for queries, and for two tiles of 64 keys and values; in TF32 they share the memory, one after the other.
pub(super) fn tensor_shared(arithmetic: Arithmetic, queries: usize, width: usize) -> usize {
    let own = if arithmetic == Arithmetic::Tf32 { 0 } else { queries };
    (own + 4 * 64) * width * arithmetic.size()
}

/// Queries of a block, and the features of a head that there are kernels for on tensor cores.
pub(super) const TENSOR: [(usize, usize); 3] = [(128, 32), (128, 64), (64, 128)];

/// Bytes for 64 queries, 64 keys or values, and their weights, in rows of `f32` with 4 numbers between them.
pub(super) fn plain_shared(width: usize) -> usize {
    (2 * 64 * (width + 4) + 64 * (64 + 4)) * 4
}

/// A kernel with what it takes.
struct Choice<'a> {
    kernel: &'a Function,
    queries: usize,
    threads: usize,
    shared: usize,
}

/// A size of an attention, whose kernels count in 31 bits.
fn narrow(value: usize) -> Result<u32> {
    let fits = u32::try_from(value).ok().filter(|&value| value <= i32::MAX as u32);
    fits.ok_or_else(|| Error::Device(format!("an attention of {value} is too long for a GPU")))
}

impl Sizes {
    /// Those of a shape, and how far queries see.
    pub fn new(shape: &Shape, reach: u32, window: Option<usize>) -> Result<Sizes> {
        // One that is wider than the text is none.
        let window = window.filter(|&window| window < shape.keys + shape.queries).unwrap_or(0);
        Ok(Sizes {
            queries: narrow(shape.queries)?,
            keys: narrow(shape.keys)?,
            heads: narrow(shape.heads)?,
            key_heads: narrow(shape.key_heads)?,
            head_dim: narrow(shape.head_dim)?,
            words: narrow(shape.keys.div_ceil(64))?,
            reach,
            window: narrow(window)?,
        })
    }
}

/// From token to token and from sequence to sequence, of queries, keys and values.
pub(super) fn steps<T: Real>(parts: [&Part<'_, Buffer<T>>; 3]) -> [[u64; 2]; 3] {
    parts.map(|part| [part.token as u64, part.sequence as u64])
}

impl Cuda {
    pub(super) fn attend_parts<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [Part<'_, Buffer<T>>; 3],
        mask: &Mask,
        scale: Option<f64>,
        out: &Buffer<T>,
    ) -> Result<()> {
        let Shape { batch, queries, keys, heads, head_dim, .. } = *shape;
        check_mask(mask, keys)?;
        let window = mask.window;
        let places = self.places(shape, [&q, &k, &v], mask, out);
        if out.len == 0 {
            return Ok(());
        }
        let steps = steps([&q, &k, &v]);
        let each = 16 / self.0.arithmetic.size();
        let is_aligned = head_dim.is_multiple_of(each)
            && steps.iter().flatten().all(|step| step.is_multiple_of(each as u64))
            && places.iter().all(|place| place.is_multiple_of(16));
        let choice = self.choose(head_dim, is_aligned)?;
        let blocks = queries.div_ceil(choice.queries);
        // The mask's memory is shared: no other pass may put its own before this launch.
        let mut state = self.state();
        let (mask, prefixes, reach) = state.mask(mask, keys)?;
        let [q, k, v] = places;
        let work = Attend {
            vectors: Vectors { q, k, v, out: out.at(0, self.0.arithmetic.size()), steps, mask, prefixes },
            sizes: Sizes::new(shape, reach, window)?,
            blocks: narrow(blocks)?,
            scale: scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt()) as f32,
        };
        let blocks = blocks.saturating_mul(batch * heads);
        let size = Size::new(blocks, [choice.threads, 1]).shared(choice.shared);
        // SAFETY: all vectors were checked to lie within their buffers, the mask and the prefixes have the shape's sizes.
        Ok(unsafe { choice.kernel.launch(self.0.queue.stream(), size, (work,)) }?)
    }

    /// The addresses of queries, keys and values, which are checked to lie within their buffers; so are mask and results.
    pub(super) fn places<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [&Part<'_, Buffer<T>>; 3],
        mask: &Mask,
        out: &Buffer<T>,
    ) -> [u64; 3] {
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = *shape;
        assert_eq!(out.len, batch * queries * heads * head_dim, "the shape of an attention");
        assert!(key_heads > 0 && heads.is_multiple_of(key_heads), "heads share key heads evenly");
        assert!(mask.keys.is_none_or(|mask| mask.len() == batch * keys), "a mask has an entry for every key");
        if let Reach::Prefix(prefixes) = mask.reach {
            assert_eq!(prefixes.len(), batch, "a prefix for every sequence");
        }
        let size = self.0.arithmetic.size();
        let place = |part: &Part<'_, Buffer<T>>, tokens: usize, heads: usize| {
            let last = batch.saturating_sub(1) * part.sequence + tokens.saturating_sub(1) * part.token;
            let end = part.offset + last + heads * head_dim;
            assert!(batch * tokens == 0 || end <= part.buffer.len, "vectors within their memory");
            if batch * tokens == 0 { 0 } else { part.buffer.at(part.offset, size) }
        };
        [place(q, queries, heads), place(k, keys, key_heads), place(v, keys, key_heads)]
    }

    /// Tensor cores for bf16 and TF32 where rows begin at multiples of 16 bytes and the chip has the memory, else f32 arithmetic.
    fn choose(&self, head_dim: usize, is_aligned: bool) -> Result<Choice<'_>> {
        let (arithmetic, most) = (self.0.arithmetic, self.device().shared_bytes());
        let found = TENSOR.iter().zip(self.0.kernels.tensor(arithmetic).into_iter().flatten()).find_map(
            |(&(queries, width), kernel)| {
                let shared = tensor_shared(arithmetic, queries, width);
                let fits = is_aligned && head_dim <= width && shared <= most;
                fits.then_some(Choice { kernel, queries, threads: 128, shared })
            },
        );
        let choice = if let Some(choice) = found {
            choice
        } else {
            let (index, width) = match head_dim {
                0..=64 => (0, 64),
                65..=128 => (1, 128),
                129..=256 => (2, 256),
                _ => {
                    let why = format!("heads of {head_dim} features: a GPU takes up to 256; use the CPU");
                    return Err(Error::Device(why));
                }
            };
            Choice {
                kernel: &self.set().attend[index],
                queries: 64,
                threads: 256,
                shared: plain_shared(width),
            }
        };
        Ok(choice)
    }
}
