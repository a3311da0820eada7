//! Attention for training in `bf16` on tensor cores, with biases by distance as its only position term: which kernels, their
//! arguments, their sizes.
//!
//! Scores, softmax and sums are `f32`; weights and gradients of scores are rounded to `bf16` for their products. All sums but
//! those of the biases' gradients have an order.

#[cfg(test)]
mod tests;

use super::super::Arithmetic;
use super::attention::{Attention, Gradients, narrow};
use super::{Launcher, Scalars};
use crate::error::Result;
use crate::ops::dropout;
use gpu::{Function, Module, Size};

/// Queries, or keys, of a tile; threads of a block.
const TILE: usize = 64;
const THREADS: usize = 128;

/// The kernels for heads of up to so many features. Pairs are without terms (biases, dropout) and with them.
struct Wide {
    width: usize,
    /// 64 queries a block.
    forward: [Function; 2],
    /// 128 queries a block, without terms.
    double: Option<Function>,
    /// dq of 64 queries.
    queries: [Function; 2],
    /// dk and dv of 64 keys.
    keys: [Function; 2],
    /// All three of up to 64 tokens, where no heads share keys.
    both: Option<[Function; 2]>,
}

/// All kernels.
pub(crate) struct Kernels {
    /// For heads of up to 32, 64 and 128 features.
    widths: [Wide; 3],
}

/// The arguments of the kernels, as `kernels/tensor.cu` has them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Work {
    joined: u64,
    out: u64,
    lse: u64,
    mask: u64,
    scalars: u64,
    bias: u64,
    index: u64,
    out_slope: u64,
    joined_slope: u64,
    bias_slope: u64,
    statistics: u64,
    site: u64,
    length: u32,
    heads: u32,
    key_heads: u32,
    head_dim: u32,
    words: u32,
    width: u32,
    rows: u32,
    blocks: u32,
    threshold: u32,
    is_causal: u32,
    scale: f32,
    kept: f32,
}

const _: () = assert!(size_of::<Work>() == 144);

/// Bytes of shared memory: tiles of 64 rows, numbers of 8 bytes for rows of tiles, and biases where there are terms.
fn shared(width: usize, tiles: usize, statistics: usize, biases: usize, has_terms: bool) -> usize {
    tiles * TILE * width * 2 + statistics * TILE * 8 + if has_terms { biases * 4 } else { 0 }
}

/// For 64 queries or twice as many, and two tiles of keys and values.
fn forward_shared(width: usize, multiple: usize, has_terms: bool) -> usize {
    shared(width, multiple + 4, 0, 2 * (multiple + 1) * TILE, has_terms)
}

/// For queries and the gradient of their results, and two tiles of keys and values.
fn queries_shared(width: usize, has_terms: bool) -> usize {
    shared(width, 6, 1, 4 * TILE, has_terms)
}

/// For keys and values, and two tiles of queries and the gradient of their results.
fn keys_shared(width: usize, has_terms: bool) -> usize {
    shared(width, 6, 2, 4 * TILE, has_terms)
}

/// For all four, and one more for results.
fn both_shared(width: usize, has_terms: bool) -> usize {
    shared(width, 5, 1, 2 * TILE, has_terms)
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let wide = |width: usize| -> gpu::Result<Wide> {
            let find = |name: &str| module.function(&format!("tensor_{name}"));
            let pair = |name: &str| -> gpu::Result<[Function; 2]> {
                Ok([find(&format!("{name}_{width}"))?, find(&format!("{name}_{width}_terms"))?])
            };
            let is_small = width <= 64;
            let double = if is_small { Some(find(&format!("forward_{width}_double"))?) } else { None };
            let both = if is_small { Some(pair("both")?) } else { None };
            let (forward, queries, keys) = (pair("forward")?, pair("queries")?, pair("keys")?);
            // More than 48 KB of shared memory must be asked for. What a chip has not, its launch reports.
            for (index, has_terms) in [false, true].into_iter().enumerate() {
                let _ = forward[index].allow_shared(forward_shared(width, 1, has_terms));
                let _ = queries[index].allow_shared(queries_shared(width, has_terms));
                let _ = keys[index].allow_shared(keys_shared(width, has_terms));
                if let Some(both) = &both {
                    let _ = both[index].allow_shared(both_shared(width, has_terms));
                }
            }
            if let Some(double) = &double {
                let _ = double.allow_shared(forward_shared(width, 2, false));
            }
            Ok(Wide { width, forward, double, queries, keys, both })
        };
        Ok(Kernels { widths: [wide(32)?, wide(64)?, wide(128)?] })
    }

    fn of(&self, head_dim: usize) -> &Wide {
        &self.widths[usize::from(head_dim > 32) + usize::from(head_dim > 64)]
    }
}

/// Whether these kernels compute an attention: in `bf16`, without vectors by distance or segment or a window, with rows at multiples of 16 bytes.
pub(crate) fn fits(attention: &Attention) -> bool {
    let Attention { head_dim, joined, out, content, position, query, key, value, segments, .. } = *attention;
    let has_others = !content.is_nothing()
        || !position.is_nothing()
        || query.is_some()
        || key.is_some()
        || value.is_some()
        || segments.is_some();
    attention.arithmetic == Arithmetic::Bf16
        && !has_others
        && attention.window.is_none()
        && head_dim.is_multiple_of(8)
        && (8..=128).contains(&head_dim)
        && [joined, out].iter().all(|span| span.is_aligned(16))
        // The largest product has to be the largest score.
        && attention.scale > 0.0
}

/// Bytes that [`backward`] needs besides: lse and δ of every query, by heads.
pub(crate) fn scratch(attention: &Attention) -> usize {
    attention.batch * attention.heads * attention.length.next_multiple_of(TILE) * 8
}

fn has_terms(attention: &Attention) -> bool {
    attention.bias.is_some() || attention.dropout > 0.0
}

/// Bytes of queries, keys and values.
fn joined_bytes(attention: &Attention) -> usize {
    let Attention { batch, length, heads, key_heads, head_dim, .. } = *attention;
    batch * length * (heads + 2 * key_heads) * head_dim * 2
}

/// Bytes of results.
fn out_bytes(attention: &Attention) -> usize {
    attention.batch * attention.length * attention.heads * attention.head_dim * 2
}

/// The arguments, for blocks of so many queries or keys.
fn work(gpu: &Launcher, attention: &Attention, rows: usize) -> Result<Work> {
    let Attention { batch, length, heads, key_heads, head_dim, .. } = *attention;
    assert!(fits(attention), "an attention for tensor cores");
    assert!(key_heads > 0 && heads.is_multiple_of(key_heads), "heads share key heads evenly");
    let tokens = batch * length;
    let (bias, index) = match attention.bias {
        None => (0, 0),
        Some(bias) => (
            gpu.floats(bias.values, bias.rows * heads)?,
            gpu.at(bias.index, (2 * length).saturating_sub(1) * size_of::<u32>())?,
        ),
    };
    Ok(Work {
        joined: gpu.at(attention.joined, joined_bytes(attention))?,
        out: gpu.at(attention.out, out_bytes(attention))?,
        lse: gpu.floats(attention.lse, tokens * heads)?,
        mask: gpu.at(attention.mask, batch * length.div_ceil(64) * size_of::<u64>())?,
        scalars: gpu.at(attention.scalars, Scalars::DROPOUT)?,
        bias,
        index,
        site: attention.site,
        length: narrow(length)?,
        heads: narrow(heads)?,
        key_heads: narrow(key_heads)?,
        head_dim: narrow(head_dim)?,
        words: narrow(length.div_ceil(64))?,
        width: narrow((heads + 2 * key_heads) * head_dim)?,
        rows: narrow(attention.bias.map_or(0, |bias| bias.rows))?,
        blocks: narrow(length.div_ceil(rows))?,
        threshold: dropout::threshold(attention.dropout),
        is_causal: attention.is_causal.into(),
        scale: attention.scale,
        kept: (1.0 / (1.0 - attention.dropout)) as f32,
        ..Work::default()
    })
}

/// Results into [`Attention::out`], and [`Attention::lse`].
///
/// # Safety
///
/// The biases have the rows that their indices name.
pub(crate) unsafe fn forward(kernels: &Kernels, gpu: &Launcher, attention: &Attention) -> Result<()> {
    let (has_terms, wide) = (has_terms(attention), kernels.of(attention.head_dim));
    let (kernel, multiple) = match &wide.double {
        Some(double) if attention.length > TILE && !has_terms => (double, 2),
        _ => (&wide.forward[usize::from(has_terms)], 1),
    };
    let work = work(gpu, attention, multiple * TILE)?;
    let blocks = work.blocks as usize * attention.batch * attention.heads;
    let shared = forward_shared(wide.width, multiple, has_terms);
    // SAFETY: the kernel's arguments; memory of the shapes that the fields say, and indices as the caller promises.
    unsafe { gpu.launch(kernel, Size::new(blocks, [THREADS, 1]).shared(shared), (work,)) }
}

/// Gradients of queries, keys and values, set, and of the biases, added to, from that of the results and what the forward
/// gave.
///
/// # Safety
///
/// The biases have the rows that their indices name.
pub(crate) unsafe fn backward(
    kernels: &Kernels,
    gpu: &Launcher,
    attention: &Attention,
    gradients: &Gradients,
) -> Result<()> {
    let Attention { batch, length, heads, key_heads, .. } = *attention;
    let (has_terms, wide) = (has_terms(attention), kernels.of(attention.head_dim));
    let spans = [gradients.out, gradients.joined, gradients.scratch];
    assert!(spans.iter().all(|span| span.is_aligned(16)), "gradients at multiples of 16 bytes");
    let work = Work {
        out_slope: gpu.at(gradients.out, out_bytes(attention))?,
        joined_slope: gpu.at(gradients.joined, joined_bytes(attention))?,
        bias_slope: match attention.bias {
            Some(bias) => gpu.maybe(gradients.bias, bias.rows * heads * size_of::<f32>())?,
            None => 0,
        },
        statistics: gpu.at(gradients.scratch, scratch(attention))?,
        ..work(gpu, attention, TILE)?
    };
    let (index, blocks) = (usize::from(has_terms), work.blocks as usize);
    let run = |kernel: &Function, blocks: usize, shared: usize| {
        // SAFETY: the kernel's arguments; memory of the shapes that the fields say, and indices as the caller promises.
        unsafe { gpu.launch(kernel, Size::new(blocks, [THREADS, 1]).shared(shared), (work,)) }
    };
    match &wide.both {
        Some(both) if length <= TILE && heads == key_heads => {
            run(&both[index], batch * heads, both_shared(wide.width, has_terms))
        }
        _ => {
            run(&wide.queries[index], blocks * batch * heads, queries_shared(wide.width, has_terms))?;
            run(&wide.keys[index], blocks * batch * key_heads, keys_shared(wide.width, has_terms))
        }
    }
}
