//! Attention for training in `f32` arithmetic, with all its position terms: which kernels, their arguments, their sizes.
//!
//! The formula is that of [`crate::attention::terms`], for queries and keys of the same tokens. Kernels work on tiles of
//! queries and keys; no matrix of scores is stored. Where a sequence is one tile the backward is one launch, else two.

#[cfg(test)]
mod tests;

use super::super::Arithmetic;
use super::{Launcher, Scalars, THREADS};
use crate::error::{Error, Result};
use crate::ops::dropout;
use gpu::{Function, Module, Size, Span};

/// Tiles that there are kernels for, narrow ones first: rows / 16, and features of a head.
type Tiles = &'static [(usize, usize)];

/// The forward's, without position terms and with them. A sequence is one tile or many, but of 48 rows it is one.
const FORWARD: [Tiles; 2] = [
    &[(2, 32), (3, 32), (4, 32), (2, 64), (4, 64), (2, 128)],
    &[(2, 32), (3, 32), (4, 32), (4, 64), (2, 128)],
];
/// The backward's of sequences of one tile.
const WHOLE: [Tiles; 2] =
    [&[(2, 32), (3, 32), (4, 32), (2, 64), (4, 64)], &[(2, 32), (3, 32), (4, 32), (4, 64)]];
/// The backward's of longer sequences.
const PARTS: [Tiles; 2] = [&[(4, 32), (4, 64), (2, 128)], &[(4, 64), (2, 128)]];

/// An attention: everything that its forward and its backward both take.
#[derive(Clone, Copy)]
pub(crate) struct Attention {
    /// How tokens' numbers are stored: `bf16` as such, else as `f32`, which TF32 rounds for products on tensor cores.
    pub arithmetic: Arithmetic,
    /// Sequences.
    pub batch: usize,
    /// Tokens of a sequence.
    pub length: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
    /// From how many places away on a token is not seen.
    pub window: Option<usize>,
    /// The factor of scores.
    pub scale: f32,
    /// Queries, keys and values side by side, `[batch · length, (heads + 2 · key_heads) · head_dim]`.
    pub joined: Span,
    /// The results, `[batch · length, heads · head_dim]`.
    pub out: Span,
    /// The logarithm of each sum of exponentials, `f32` `[batch · length, heads]`; −∞ where nothing is seen.
    pub lse: Span,
    /// `[batch, ⌈length / 64⌉]` words: a bit a key.
    pub mask: Span,
    /// Seed, step and whether this is training.
    pub scalars: Span,
    /// The chance that a weight is dropped in training.
    pub dropout: f64,
    /// Which of the model's dropouts this is.
    pub site: u64,
    /// u, `f32` `[heads, head_dim]`.
    pub content: Span,
    /// v, `f32` `[heads, head_dim]`.
    pub position: Span,
    /// b.
    pub bias: Option<Rows>,
    /// R.
    pub query: Option<Rows>,
    /// R′.
    pub key: Option<Rows>,
    /// V.
    pub value: Option<Rows>,
    /// E, with z and c.
    pub segments: Option<Segments>,
}

/// Vectors that queries meet by whether a key is of their segment.
#[derive(Clone, Copy)]
pub(crate) struct Segments {
    /// c, `u32` `[batch · length]`.
    pub ids: Span,
    /// z, `f32` `[heads, head_dim]`.
    pub query: Span,
    /// E, `f32` `[2, heads, head_dim]`.
    pub vectors: Span,
}

/// Vectors or numbers by distance.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// `f32` `[rows, heads, head_dim]`; of a bias `[heads, rows]`.
    pub values: Span,
    /// How many rows.
    pub rows: usize,
    /// All heads, or 1: all share the vectors.
    pub heads: usize,
    /// `u32` `[2 · length − 1]`: the row for each distance from query to key, from the most negative on.
    pub index: Span,
}

/// Where the gradients of an attention are, and go to. Those of terms are `f32` and added to; nothing: not wanted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gradients {
    /// Of the results, `[batch · length, heads · head_dim]`.
    pub out: Span,
    /// Of queries, keys and values, as they are: set.
    pub joined: Span,
    /// Of [`Attention::content`].
    pub content: Span,
    /// Of [`Attention::position`].
    pub position: Span,
    /// Of the bias.
    pub bias: Span,
    /// Of the query table.
    pub query: Span,
    /// Of the key table.
    pub key: Span,
    /// Of the value table.
    pub value: Span,
    /// Of [`Segments::query`].
    pub segment_query: Span,
    /// Of [`Segments::vectors`].
    pub segment_vectors: Span,
    /// As many bytes as [`scratch`] says.
    pub scratch: Span,
}

/// A kernel for tiles of one size.
struct Tiled {
    kernel: Function,
    /// Queries, and keys, of a tile.
    rows: usize,
    /// Features of a head, at most.
    width: usize,
    /// Tiles of vectors and of scores in shared memory.
    stored: (usize, usize),
}

/// The kernels without position terms, or those with them.
pub(crate) struct Kernels {
    forward: Vec<Tiled>,
    backward: Vec<Tiled>,
    by_queries: Vec<Tiled>,
    by_keys: Vec<Tiled>,
}

impl Kernels {
    /// Finds the kernels in a module that was compiled for position terms, or for none.
    pub fn load(module: &Module, has_terms: bool) -> gpu::Result<Kernels> {
        let (terms, end) = if has_terms { (Terms::Tables, "_terms") } else { (Terms::None, "") };
        let some = |name: &str, tiles: [Tiles; 2], stored: (usize, usize)| {
            let one = |&(count, width): &(usize, usize)| {
                let kernel = module.function(&format!("attention_{name}_{count}_{width}{end}"))?;
                let tiled = Tiled { kernel, rows: 16 * count, width, stored };
                // More than 48 KB must be asked for. What a chip has not, its launch reports.
                let _ = tiled.kernel.allow_shared(tiled.shared(terms));
                Ok(tiled)
            };
            tiles[usize::from(has_terms)].iter().map(one).collect::<gpu::Result<Vec<Tiled>>>()
        };
        Ok(Kernels {
            forward: some("forward", FORWARD, (3, 1))?,
            backward: some("backward", WHOLE, (4, 2))?,
            by_queries: some("by_queries", PARTS, (4, 1))?,
            by_keys: some("by_keys", PARTS, (4, 2))?,
        })
    }
}

impl Tiled {
    /// Bytes of shared memory, as the kernels divide it.
    fn shared(&self, terms: Terms) -> usize {
        let Tiled { rows, width, stored: (vectors, scores), .. } = *self;
        let (step, slots) = (width + 4, 2 * rows);
        let more = match terms {
            Terms::None => 0,
            Terms::Numbers => 3 * rows + 2 * slots,
            Terms::Tables => 3 * rows + 2 * slots + slots * step,
        };
        (vectors * rows * step + scores * rows * (rows + 4) + more) * size_of::<f32>()
    }
}

/// The kernel for which a sequence is one tile, if there is one.
fn whole<'a>(list: &'a [Tiled], work: &Attention) -> Option<&'a Tiled> {
    list.iter().find(|tiled| work.head_dim <= tiled.width && work.length <= tiled.rows)
}

/// The kernel for sequences of many tiles.
fn parts<'a>(list: &'a [Tiled], work: &Attention) -> Result<&'a Tiled> {
    let width = list.iter().map(|tiled| tiled.width).find(|&width| work.head_dim <= width);
    list.iter().rfind(|tiled| Some(tiled.width) == width).ok_or_else(|| {
        let most = list.iter().map(|tiled| tiled.width).max().unwrap_or(0);
        let dim = work.head_dim;
        let why = format!("heads of {dim} features: training on a GPU takes up to {most}; use the CPU");
        Error::Device(why)
    })
}

/// What position terms take in a kernel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Terms {
    None,
    /// Only numbers that are added.
    Numbers,
    Tables,
}

impl Terms {
    fn of(work: &Attention) -> Terms {
        if work.query.is_some() || work.key.is_some() || work.value.is_some() {
            Terms::Tables
        } else if !work.content.is_nothing() || work.bias.is_some() || work.segments.is_some() {
            Terms::Numbers
        } else {
            Terms::None
        }
    }
}

/// As `Rows` in kernels/attention.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RowArguments {
    values: u64,
    gradient: u64,
    index: u64,
    rows: u32,
    heads: u32,
}

/// As `Work` in kernels/attention.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    joined: u64,
    out: u64,
    lse: u64,
    mask: u64,
    scalars: u64,
    content: u64,
    position: u64,
    bias: RowArguments,
    query: RowArguments,
    key: RowArguments,
    value: RowArguments,
    slope: u64,
    given: u64,
    content_gradient: u64,
    position_gradient: u64,
    delta: u64,
    segments: u64,
    segment_query: u64,
    segment_vectors: u64,
    segment_query_gradient: u64,
    segment_vectors_gradient: u64,
    site: u64,
    length: u32,
    heads: u32,
    key_heads: u32,
    head_dim: u32,
    tiles: u32,
    is_causal: u32,
    is_bf16: u32,
    is_wide: u32,
    is_dropping: u32,
    threshold: u32,
    window: u32,
    scale: f32,
    keep: f32,
}

const _: () = assert!(size_of::<RowArguments>() == 32 && size_of::<Arguments>() == 328);

/// A size that attention's kernels take.
pub(super) fn narrow(value: usize) -> Result<u32> {
    // Twice the length, and a tile, has to be a number of 32 bits with its sign.
    let fits = u32::try_from(value).ok().filter(|&value| value < 1 << 30);
    fits.ok_or_else(|| Error::Device(format!("an attention of {value} is too long for a GPU")))
}

/// The arguments but for the number of tiles; without gradients those of the forward.
fn arguments(gpu: &Launcher, work: &Attention, gradients: Option<&Gradients>) -> Result<Arguments> {
    let floats = |count: usize| count * size_of::<f32>();
    let table = |rows: &Option<Rows>, gradient: Span, width: usize| -> Result<RowArguments> {
        let Some(Rows { values, rows, heads, index }) = *rows else { return Ok(RowArguments::default()) };
        let numbers = rows * heads * width;
        Ok(RowArguments {
            values: gpu.floats(values, numbers)?,
            gradient: gpu.maybe(gradient, floats(numbers))?,
            index: gpu.at(index, (2 * work.length).saturating_sub(1) * size_of::<u32>())?,
            rows: narrow(rows)?,
            heads: narrow(heads)?,
        })
    };
    let vectors = |rows: &Option<Rows>, gradient: Span| table(rows, gradient, work.head_dim);
    let to = gradients.copied().unwrap_or_default();
    // Within a tile, places are numbers of 32 bits.
    let width = (work.heads + 2 * work.key_heads) * work.head_dim;
    if width >= 1 << 24 {
        let why = format!("{width} numbers for a token: an attention on a GPU takes less than 2^24");
        return Err(Error::Device(why));
    }
    let Attention { batch, length, heads, head_dim, .. } = *work;
    let (tokens, size) = (batch * length, work.arithmetic.size());
    let head = floats(heads * head_dim);
    let has_segments = work.segments.is_some();
    let none = Segments { ids: Span::NOTHING, query: Span::NOTHING, vectors: Span::NOTHING };
    let segments = work.segments.unwrap_or(none);
    let all = Arguments {
        joined: gpu.at(work.joined, tokens * width * size)?,
        out: gpu.at(work.out, tokens * heads * head_dim * size)?,
        lse: gpu.floats(work.lse, tokens * heads)?,
        mask: gpu.at(work.mask, batch * length.div_ceil(64) * size_of::<u64>())?,
        scalars: gpu.at(work.scalars, Scalars::DROPOUT)?,
        content: gpu.maybe(work.content, head)?,
        position: gpu.maybe(work.position, head)?,
        bias: table(&work.bias, to.bias, 1)?,
        query: vectors(&work.query, to.query)?,
        key: vectors(&work.key, to.key)?,
        value: vectors(&work.value, to.value)?,
        slope: gpu.maybe(to.out, tokens * heads * head_dim * size)?,
        given: gpu.maybe(to.joined, tokens * width * size)?,
        content_gradient: if work.content.is_nothing() { 0 } else { gpu.maybe(to.content, head)? },
        // Without a table nothing meets v.
        position_gradient: match work.position.is_nothing() || work.query.is_none() {
            true => 0,
            false => gpu.maybe(to.position, head)?,
        },
        delta: gpu.maybe(to.scratch, scratch(work))?,
        segments: gpu.maybe(segments.ids, tokens * size_of::<u32>())?,
        segment_query: gpu.maybe(segments.query, head)?,
        segment_vectors: gpu.maybe(segments.vectors, 2 * head)?,
        segment_query_gradient: if has_segments { gpu.maybe(to.segment_query, head)? } else { 0 },
        segment_vectors_gradient: if has_segments { gpu.maybe(to.segment_vectors, 2 * head)? } else { 0 },
        site: work.site,
        length: narrow(work.length)?,
        heads: narrow(work.heads)?,
        key_heads: narrow(work.key_heads)?,
        head_dim: narrow(work.head_dim)?,
        tiles: 0,
        is_causal: work.is_causal.into(),
        is_bf16: (work.arithmetic == Arithmetic::Bf16).into(),
        is_wide: 0,
        is_dropping: (work.dropout > 0.0).into(),
        threshold: dropout::threshold(work.dropout),
        // One that is wider than the text is none.
        window: narrow(work.window.filter(|&window| window < length).unwrap_or(0))?,
        scale: work.scale,
        keep: (1.0 / (1.0 - work.dropout)) as f32,
    };
    let places =
        [all.joined, all.out, all.slope, all.given, all.query.values, all.key.values, all.value.values];
    let is_wide = head_dim.is_multiple_of(4) && places.iter().all(|place| place.is_multiple_of(16));
    Ok(Arguments { is_wide: is_wide.into(), ..all })
}

/// Launches a kernel, with blocks for each of so many heads.
///
/// # Safety
///
/// The tables of positions have the rows that their indices name.
unsafe fn run(
    gpu: &Launcher,
    tiled: &Tiled,
    work: &Attention,
    heads: usize,
    arguments: &Arguments,
) -> Result<()> {
    let tiles = work.length.div_ceil(tiled.rows);
    let arguments = Arguments { tiles: narrow(tiles)?, ..*arguments };
    let blocks = work.batch.saturating_mul(heads).saturating_mul(tiles);
    let size = Size::new(blocks, [THREADS, 1]).shared(tiled.shared(Terms::of(work)));
    // SAFETY: memory of the shapes that the fields have, and indices as the caller promises.
    unsafe { gpu.launch(&tiled.kernel, size, (arguments,)) }
}

impl Attention {
    fn is_empty(&self) -> bool {
        self.batch == 0 || self.length == 0 || self.heads == 0 || self.head_dim == 0
    }

    /// Whether it takes the kernels with position terms.
    pub fn has_terms(&self) -> bool {
        Terms::of(self) != Terms::None
    }
}

/// Launches the forward: results and `lse`.
///
/// # Safety
///
/// The tables of positions have the rows that their indices name.
pub(crate) unsafe fn forward(kernels: &Kernels, gpu: &Launcher, work: &Attention) -> Result<()> {
    if work.is_empty() {
        return Ok(());
    }
    let list = &kernels.forward;
    let tiled = whole(list, work).map_or_else(|| parts(list, work), Ok)?;
    // SAFETY: as the caller promises.
    unsafe { run(gpu, tiled, work, work.heads, &arguments(gpu, work, None)?) }
}

/// Bytes of memory that [`backward`] needs for itself.
pub(crate) fn scratch(work: &Attention) -> usize {
    work.batch * work.length * work.heads * size_of::<f32>()
}

/// Launches the backward, after the forward of the same.
///
/// # Safety
///
/// The tables of positions have the rows that their indices name.
pub(crate) unsafe fn backward(
    kernels: &Kernels,
    gpu: &Launcher,
    work: &Attention,
    gradients: &Gradients,
) -> Result<()> {
    if work.is_empty() {
        return Ok(());
    }
    let arguments = || arguments(gpu, work, Some(gradients));
    if let Some(tiled) = whole(&kernels.backward, work) {
        // SAFETY: as the caller promises.
        return unsafe { run(gpu, tiled, work, work.key_heads, &arguments()?) };
    }
    let (by_queries, by_keys) = (parts(&kernels.by_queries, work)?, parts(&kernels.by_keys, work)?);
    let arguments = arguments()?;
    // SAFETY: as the caller promises.
    unsafe {
        // By queries first: it leaves the sums of result times gradient to the other.
        run(gpu, by_queries, work, work.heads, &arguments)?;
        run(gpu, by_keys, work, work.key_heads, &arguments)
    }
}
