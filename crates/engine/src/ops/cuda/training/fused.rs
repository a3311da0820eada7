//! Attention for training by cuDNN, where it takes it and is the faster one: which, in how much memory, and its work.
//!
//! It has no position terms and no dropout, and knows which keys are real as the count of a text's first ones. The logarithms of its
//! sums are those of the crate's kernels, in their order.

#[cfg(test)]
mod tests;

use super::super::Arithmetic;
use super::super::cudnn::{Name, Shape, Way};
use super::attention::{Attention, Gradients};
use super::{Launcher, Masks};
use crate::error::Result;
use crate::ops::cuda::Cuda;
use gpu::Span;

/// The chips that it was measured on: Hopper's.
const CHIPS: std::ops::Range<i32> = 90..100;
/// Tokens, and features of a head, from which on it is used: where there are fewer the crate's kernels are as fast or faster, and
/// making plans takes half a second each.
const LEAST: [usize; 2] = [128, 40];
/// The part of the GPU's memory that its work space may take.
const PART: u64 = 8;
/// Bytes to which the parts of memory that is shared are aligned.
const ALIGNED: usize = 256;

/// An attention that cuDNN computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fused {
    shape: Shape,
    /// How many queries and keys each text has, `i32` `[batch]`.
    counts: [Span; 2],
    /// Whether it goes back too: else other kernels do, from what it gave.
    goes_back: bool,
}

/// The shape of an attention that cuDNN could compute.
fn shape(attention: &Attention) -> Option<Shape> {
    let Attention { batch, length, heads, key_heads, head_dim, is_causal, window, scale, .. } = *attention;
    let takes = attention.arithmetic == Arithmetic::Bf16
        && !attention.has_terms()
        && attention.position.is_nothing()
        && attention.dropout == 0.0
        && head_dim.is_multiple_of(8)
        && (8..=256).contains(&head_dim)
        && batch > 0
        && key_heads > 0
        && heads.is_multiple_of(key_heads)
        && window != Some(0)
        && [attention.joined, attention.out, attention.lse].iter().all(|span| span.is_aligned(16));
    takes.then_some(Shape {
        batch,
        length,
        heads,
        key_heads,
        head_dim,
        is_causal,
        window,
        scale: scale.to_bits(),
        is_padded: false,
        is_ordered: true,
    })
}

/// Bytes of the sums of results times gradients.
fn delta_bytes(shape: &Shape) -> usize {
    (shape.batch * shape.heads * shape.length * size_of::<f32>()).next_multiple_of(ALIGNED)
}

/// Bytes of the queries' gradients while they are summed up, where that is without an order.
fn sums_bytes(shape: &Shape) -> usize {
    let Shape { batch, length, heads, head_dim, is_ordered, .. } = *shape;
    if is_ordered {
        0
    } else {
        (batch * length * heads * head_dim * size_of::<f32>()).next_multiple_of(ALIGNED)
    }
}

impl Fused {
    /// How cuDNN computes an attention, if it does, and is used for it. `counts` makes the counts of queries and of keys.
    pub fn find(
        gpu: &Cuda,
        attention: &Attention,
        counts: impl FnOnce() -> [Span; 2],
    ) -> Result<Option<Fused>> {
        let is_short = attention.length < LEAST[0] || attention.head_dim < LEAST[1];
        if is_short || !CHIPS.contains(&gpu.device().chip()) {
            return Ok(None);
        }
        let Some(shape) = shape(attention) else { return Ok(None) };
        let shape = Shape { is_ordered: gpu.cudnn().is_ordered(), ..shape };
        let most = usize::try_from(gpu.device().memory()?.1 / PART).unwrap_or(usize::MAX);
        let [goes_forth, goes_back] = [Way::Forward, Way::Backward]
            .map(|way| gpu.cudnn().workspace(shape, way).is_some_and(|bytes| bytes <= most));
        Ok(goes_forth.then(|| Fused { shape, counts: counts(), goes_back }))
    }

    /// The same, but however short the texts are and whatever memory it takes.
    #[cfg(test)]
    pub fn whatever_length(gpu: &Cuda, attention: &Attention, counts: [Span; 2]) -> Option<Fused> {
        let shape = shape(attention)?;
        let has = |way| gpu.cudnn().workspace(shape, way).is_some();
        [Way::Forward, Way::Backward].into_iter().all(has).then_some(Fused { shape, counts, goes_back: true })
    }

    /// The same with sums on the way back that have no order.
    #[cfg(test)]
    pub fn unordered(self) -> Fused {
        Fused { shape: Shape { is_ordered: false, ..self.shape }, ..self }
    }

    /// The same where other kernels go back.
    #[cfg(test)]
    pub fn without_backward(self) -> Fused {
        Fused { goes_back: false, ..self }
    }

    /// Whether it goes back too.
    pub fn goes_back(self) -> bool {
        self.goes_back
    }

    /// Bytes that its ways need besides.
    pub fn scratch(&self, gpu: &Cuda) -> usize {
        let bytes = |way| gpu.cudnn().workspace(self.shape, way).unwrap_or(0);
        if !self.goes_back {
            return bytes(Way::Forward);
        }
        bytes(Way::Forward).max(delta_bytes(&self.shape) + sums_bytes(&self.shape) + bytes(Way::Backward))
    }

    /// Results and logarithms of sums; `false` if the batch's masks are not for cuDNN.
    pub fn forward(&self, gpu: &Launcher, attention: &Attention, scratch: Span) -> Result<bool> {
        self.run(gpu, attention, None, scratch)
    }

    /// Gradients of queries, keys and values, set, from what either forward gave; `false` if the batch's masks are not for cuDNN, or it does not go
    /// back.
    pub fn backward(&self, gpu: &Launcher, attention: &Attention, gradients: &Gradients) -> Result<bool> {
        Ok(self.goes_back && self.run(gpu, attention, Some(gradients), gradients.scratch)?)
    }

    fn run(
        &self,
        gpu: &Launcher,
        attention: &Attention,
        gradients: Option<&Gradients>,
        scratch: Span,
    ) -> Result<bool> {
        let is_padded = match gpu.masks() {
            Masks::All => false,
            Masks::First => true,
            Masks::Any => return Ok(false),
        };
        let shape = Shape { is_padded, ..self.shape };
        let Shape { batch, length, heads, key_heads, head_dim, .. } = shape;
        let size = Arithmetic::Bf16.size();
        let (tokens, width) = (batch * length, (heads + 2 * key_heads) * head_dim);
        let parts = |span: Span| -> Result<[u64; 3]> {
            let joined = gpu.at(span, tokens * width * size)?;
            Ok([0, heads, heads + key_heads].map(|head| joined + (head * head_dim * size) as u64))
        };
        let [queries, keys, values] = parts(attention.joined)?;
        let out_bytes = tokens * heads * head_dim * size;
        let mut places = vec![
            (Name::Queries, queries),
            (Name::Keys, keys),
            (Name::Values, values),
            (Name::Out, gpu.at(attention.out, out_bytes)?),
            (Name::Lse, gpu.floats(attention.lse, tokens * heads)?),
        ];
        if is_padded {
            let [queries, keys] = self.counts;
            let bytes = batch * size_of::<i32>();
            places.extend([
                (Name::QueryCounts, gpu.at(queries, bytes)?),
                (Name::KeyCounts, gpu.at(keys, bytes)?),
            ]);
        }
        let (way, space) = match gradients {
            None => (Way::Forward, scratch),
            Some(gradients) => {
                let (delta, sums) = (delta_bytes(&shape), sums_bytes(&shape));
                let [queries, keys, values] = parts(gradients.joined)?;
                places.extend([
                    (Name::OutSlope, gpu.at(gradients.out, out_bytes)?),
                    (Name::QueriesSlope, queries),
                    (Name::KeysSlope, keys),
                    (Name::ValuesSlope, values),
                    (Name::Delta, gpu.at(scratch, delta)?),
                ]);
                if sums > 0 {
                    places.push((Name::QueriesSums, gpu.at(scratch.from(delta), sums)?));
                }
                (Way::Backward, scratch.from(delta + sums))
            }
        };
        let space = (gpu.at(space, space.bytes())?, space.bytes());
        assert!(places.iter().all(|(_, place)| place.is_multiple_of(16)), "vectors at multiples of 16 bytes");
        // SAFETY: all tensors were just checked to have memory, in a block that is given back in the stream's order.
        unsafe { gpu.cudnn().run(shape, way, &places, space, gpu.stream()) }
    }
}
