//! Attention for training in `bf16` and in TF32 on tensor cores, with biases by distance as its only position term: which
//! kernels, their arguments, their sizes.
//!
//! Scores, softmax and sums are `f32`; weights and gradients of scores are rounded to `bf16` or TF32 for their products, and so
//! are queries, keys, values and gradients that are stored as `f32`. All sums but those of the biases' gradients have an order.

#[cfg(test)]
pub(super) mod tests;

use super::super::Arithmetic;
use super::attention::{Attention, Gradients, narrow};
use super::{Launcher, Scalars};
use crate::error::Result;
use crate::ops::dropout;
use gpu::{Function, Module, Size};

/// Queries, or keys, of a tile. A block has two threads for each.
const TILE: usize = 64;
/// Rows of a tile for sequences that are no longer.
const SHORT: usize = 48;

/// The kernels for heads of up to so many features. Pairs are without terms (biases, dropout) and with them.
struct Wide {
    width: usize,
    /// 64 queries a block.
    forward: [Function; 2],
    /// 128 queries a block, without terms.
    double: Option<Function>,
    /// dq of 64 queries.
    queries: [Function; 2],
    /// dq of 128 queries, without terms, where no tile is left out.
    queries_double: Option<Function>,
    /// dk and dv of 64 keys.
    keys: [Function; 2],
    /// All three of up to 64 tokens, where no heads share keys.
    both: Option<[Function; 2]>,
    /// Up to 48 queries, all that there are, without terms.
    short: Option<Function>,
}

/// All kernels of one arithmetic.
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

/// How tiles lie in shared memory.
#[derive(Clone, Copy)]
struct Tiles {
    /// Bytes of a tile of 64 rows.
    bytes: usize,
    /// Whether the rows that a block holds in registers come through the memory of those that pass by.
    is_shared: bool,
    /// Whether there are not the registers to hold keys and values.
    are_keys_kept: bool,
    has_terms: bool,
}

impl Tiles {
    fn new(arithmetic: Arithmetic, width: usize, has_terms: bool) -> Tiles {
        let row = width * arithmetic.size();
        let is_shared = arithmetic == Arithmetic::Tf32;
        Tiles { bytes: TILE * row, is_shared, are_keys_kept: row > 256, has_terms }
    }

    /// Bytes of shared memory: tiles, numbers of 8 bytes for rows of tiles, and biases where there are terms.
    fn shared(&self, tiles: usize, statistics: usize, biases: usize) -> usize {
        tiles * self.bytes + statistics * TILE * 8 + if self.has_terms { biases * 4 } else { 0 }
    }

    /// For 64 queries or twice as many, and two tiles of keys and values.
    fn forward(&self, multiple: usize) -> usize {
        let own = if self.is_shared { 0 } else { multiple };
        self.shared(own + 4, 0, 2 * (multiple + 1) * TILE)
    }

    /// For queries and the gradient of their results, and two tiles of keys and values.
    fn queries(&self, multiple: usize) -> usize {
        // What biases' gradients are summed in lies where queries were, or behind all else.
        let (own, sums) = if self.is_shared { (0, 4 * 16 * 16) } else { (2 * multiple, 0) };
        self.shared(own + 4, multiple, 2 * (multiple + 1) * TILE + sums)
    }

    /// For keys and values, and two tiles of queries and the gradient of their results.
    fn keys(&self) -> usize {
        let own = if self.is_shared && !self.are_keys_kept { 0 } else { 2 };
        self.shared(own + 4, 2, 4 * TILE)
    }

    /// For all four, and one more for results.
    fn both(&self) -> usize {
        self.shared(5, 1, 2 * TILE)
    }

    /// For queries, keys and values of a short sequence.
    fn short(&self) -> usize {
        3 * self.bytes / TILE * SHORT
    }
}

impl Kernels {
    /// Finds the kernels in a module that was compiled for this arithmetic.
    pub fn load(module: &Module, arithmetic: Arithmetic) -> gpu::Result<Kernels> {
        let wide = |width: usize| -> gpu::Result<Wide> {
            let find = |name: &str| module.function(&format!("tensor_{name}"));
            let pair = |name: &str| -> gpu::Result<[Function; 2]> {
                Ok([find(&format!("{name}_{width}"))?, find(&format!("{name}_{width}_terms"))?])
            };
            let is_small = width <= 64;
            let double = if is_small { Some(find(&format!("forward_{width}_double"))?) } else { None };
            let both = if is_small { Some(pair("both")?) } else { None };
            let short = if is_small { Some(find(&format!("forward_{width}_short"))?) } else { None };
            let is_double = is_small && arithmetic == Arithmetic::Tf32;
            let queries_double =
                if is_double { Some(find(&format!("queries_{width}_double"))?) } else { None };
            let (forward, queries, keys) = (pair("forward")?, pair("queries")?, pair("keys")?);
            // More than 48 KB of shared memory must be asked for. What a chip has not, its launch reports.
            for (index, has_terms) in [false, true].into_iter().enumerate() {
                let tiles = Tiles::new(arithmetic, width, has_terms);
                let _ = forward[index].allow_shared(tiles.forward(1));
                let _ = queries[index].allow_shared(tiles.queries(1));
                let _ = keys[index].allow_shared(tiles.keys());
                if let Some(both) = &both {
                    let _ = both[index].allow_shared(tiles.both());
                }
            }
            let tiles = Tiles::new(arithmetic, width, false);
            if let Some(double) = &double {
                let _ = double.allow_shared(tiles.forward(2));
            }
            if let Some(double) = &queries_double {
                let _ = double.allow_shared(tiles.queries(2));
            }
            if let Some(short) = &short {
                let _ = short.allow_shared(tiles.short());
            }
            Ok(Wide { width, forward, double, queries, queries_double, keys, both, short })
        };
        Ok(Kernels { widths: [wide(32)?, wide(64)?, wide(128)?] })
    }

    fn of(&self, head_dim: usize) -> &Wide {
        &self.widths[usize::from(head_dim > 32) + usize::from(head_dim > 64)]
    }
}

/// Whether these kernels compute an attention: in `bf16` or TF32, without vectors by distance or segment or a window, with rows at
/// multiples of 16 bytes, and with so much shared memory for a block.
pub(crate) fn fits(attention: &Attention, shared: usize) -> bool {
    let Attention { head_dim, joined, out, content, position, query, key, value, segments, .. } = *attention;
    let has_others = !content.is_nothing()
        || !position.is_nothing()
        || query.is_some()
        || key.is_some()
        || value.is_some()
        || segments.is_some();
    let width = [32, 64, 128].into_iter().find(|&width| head_dim <= width);
    let needs = |width| {
        let tiles = Tiles::new(attention.arithmetic, width, has_terms(attention));
        tiles.forward(1).max(tiles.queries(1)).max(tiles.keys()).max(tiles.both())
    };
    matches!(attention.arithmetic, Arithmetic::Bf16 | Arithmetic::Tf32)
        && !has_others
        && attention.window.is_none()
        && head_dim > 0
        && (head_dim * attention.arithmetic.size()).is_multiple_of(16)
        && width.is_some_and(|width| needs(width) <= shared)
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
    batch * length * (heads + 2 * key_heads) * head_dim * attention.arithmetic.size()
}

/// Bytes of results.
fn out_bytes(attention: &Attention) -> usize {
    attention.batch * attention.length * attention.heads * attention.head_dim * attention.arithmetic.size()
}

/// The arguments, for blocks of so many queries or keys.
fn work(gpu: &Launcher, attention: &Attention, rows: usize) -> Result<Work> {
    let Attention { batch, length, heads, key_heads, head_dim, .. } = *attention;
    assert!(fits(attention, usize::MAX), "an attention for tensor cores");
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
    let tiles = Tiles::new(attention.arithmetic, wide.width, has_terms);
    let length = attention.length;
    // The kernel, the queries of a block, and the rows of a tile.
    let (kernel, queries, rows, shared) = match (&wide.short, &wide.double) {
        (Some(short), _) if length <= SHORT && !has_terms => (short, TILE, SHORT, tiles.short()),
        (_, Some(double)) if length > TILE && !has_terms => (double, 2 * TILE, TILE, tiles.forward(2)),
        _ => (&wide.forward[usize::from(has_terms)], TILE, TILE, tiles.forward(1)),
    };
    let work = work(gpu, attention, queries)?;
    let blocks = work.blocks as usize * attention.batch * attention.heads;
    // SAFETY: the kernel's arguments; memory of the shapes that the fields say, and indices as the caller promises.
    unsafe { gpu.launch(kernel, Size::new(blocks, [2 * rows, 1]).shared(shared), (work,)) }
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
    let tiles = Tiles::new(attention.arithmetic, wide.width, has_terms);
    let run = |kernel: &Function, work: Work, blocks: usize, shared: usize| {
        // SAFETY: the kernel's arguments; memory of the shapes that the fields say, and indices as the caller promises.
        unsafe { gpu.launch(kernel, Size::new(blocks, [2 * TILE, 1]).shared(shared), (work,)) }
    };
    if let Some(both) = &wide.both
        && length <= TILE
        && heads == key_heads
    {
        return run(&both[index], work, batch * heads, tiles.both());
    }
    let (queries, multiple) = match &wide.queries_double {
        Some(double) if length > TILE && !has_terms && !attention.is_causal => (double, 2),
        _ => (&wide.queries[index], 1),
    };
    let query_blocks = length.div_ceil(multiple * TILE);
    let by_queries = Work { blocks: narrow(query_blocks)?, ..work };
    run(queries, by_queries, query_blocks * batch * heads, tiles.queries(multiple))?;
    run(&wide.keys[index], work, blocks * batch * key_heads, tiles.keys())
}
