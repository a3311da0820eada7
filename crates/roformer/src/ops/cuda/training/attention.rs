//! Attention for training in `f32` arithmetic, with all its position terms: which kernels, their arguments, their sizes.
//!
//! The formula is that of [`crate::attention::terms`], for queries and keys of the same tokens. Kernels work on tiles of
//! queries and keys; no matrix of scores is stored. Where a sequence is one tile the backward is one launch, else two.

#[cfg(test)]
mod tests;

use super::super::kernels::{Size, launch};
use super::super::memory::Queue;
use super::super::{Arithmetic, Fault};
use crate::error::Error;
use crate::ops::dropout;
use rope::cuda::{Device, Function, Module};

/// Threads of a block.
const THREADS: usize = 256;

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

/// An attention: everything that its forward and its backward both take. Addresses are 0 where there is nothing.
#[derive(Clone, Copy)]
pub(crate) struct Attention {
    /// How tokens' numbers are stored: `bf16` as such, else as `f32`.
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
    /// The factor of scores.
    pub scale: f32,
    /// Queries, keys and values side by side, `[batch · length, (heads + 2 · key_heads) · head_dim]`.
    pub joined: u64,
    /// The results, `[batch · length, heads · head_dim]`.
    pub out: u64,
    /// The logarithm of each sum of exponentials, `f32` `[batch · length, heads]`; −∞ where nothing is seen.
    pub lse: u64,
    /// `[batch, ⌈length / 64⌉]` words: a bit a key.
    pub mask: u64,
    /// Seed, step and whether this is training.
    pub scalars: u64,
    /// The chance that a weight is dropped in training.
    pub dropout: f64,
    /// Which of the model's dropouts this is.
    pub site: u64,
    /// u, `f32` `[heads, head_dim]`.
    pub content: u64,
    /// v, `f32` `[heads, head_dim]`.
    pub position: u64,
    /// b.
    pub bias: Option<Rows>,
    /// R.
    pub query: Option<Rows>,
    /// R′.
    pub key: Option<Rows>,
    /// V.
    pub value: Option<Rows>,
}

/// Vectors or numbers by distance.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    /// `f32` `[rows, heads, head_dim]`; of a bias `[heads, rows]`.
    pub values: u64,
    /// How many rows.
    pub rows: usize,
    /// All heads, or 1: all share the vectors.
    pub heads: usize,
    /// `u32` `[2 · length − 1]`: the row for each distance from query to key, from the most negative on.
    pub index: u64,
}

/// Where the gradients of an attention are, and go to. Those of terms are `f32` and added to; 0: not wanted.
#[derive(Clone, Copy, Default)]
pub(crate) struct Gradients {
    /// Of the results, `[batch · length, heads · head_dim]`.
    pub out: u64,
    /// Of queries, keys and values, as they are: set.
    pub joined: u64,
    /// Of [`Attention::content`].
    pub content: u64,
    /// Of [`Attention::position`].
    pub position: u64,
    /// Of the bias.
    pub bias: u64,
    /// Of the query table.
    pub query: u64,
    /// Of the key table.
    pub key: u64,
    /// Of the value table.
    pub value: u64,
    /// As many bytes as [`scratch`] says.
    pub scratch: u64,
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
    pub fn load(module: &Module, device: &Device, has_terms: bool) -> rope::Result<Kernels> {
        let (terms, end) = if has_terms { (Terms::Tables, "_terms") } else { (Terms::None, "") };
        let some = |name: &str, tiles: [Tiles; 2], stored: (usize, usize)| {
            let one = |&(count, width): &(usize, usize)| {
                let kernel = module.function(&format!("attention_{name}_{count}_{width}{end}"))?;
                let tiled = Tiled { kernel, rows: 16 * count, width, stored };
                // More than 48 KB must be asked for. What a chip has not, its launch reports.
                let _ = kernel.allow_shared(device, tiled.shared(terms));
                Ok(tiled)
            };
            tiles[usize::from(has_terms)].iter().map(one).collect::<rope::Result<Vec<Tiled>>>()
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
            Terms::Numbers => rows + 2 * slots,
            Terms::Tables => rows + 2 * slots + slots * step,
        };
        (vectors * rows * step + scores * rows * (rows + 4) + more) * size_of::<f32>()
    }
}

/// The kernel for which a sequence is one tile, if there is one.
fn whole<'a>(list: &'a [Tiled], work: &Attention) -> Option<&'a Tiled> {
    list.iter().find(|tiled| work.head_dim <= tiled.width && work.length <= tiled.rows)
}

/// The kernel for sequences of many tiles.
fn parts<'a>(list: &'a [Tiled], work: &Attention) -> Result<&'a Tiled, Fault> {
    let width = list.iter().map(|tiled| tiled.width).find(|&width| work.head_dim <= width);
    list.iter().rfind(|tiled| Some(tiled.width) == width).ok_or_else(|| {
        let most = list.iter().map(|tiled| tiled.width).max().unwrap_or(0);
        let dim = work.head_dim;
        let why = format!("heads of {dim} features: training on a GPU takes up to {most}; use the CPU");
        Fault::Other(Error::Device(why))
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
        } else if work.content != 0 || work.bias.is_some() {
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
    scale: f32,
    keep: f32,
}

const _: () = assert!(size_of::<RowArguments>() == 32 && size_of::<Arguments>() == 280);

/// A size that attention's kernels take.
pub(super) fn narrow(value: usize) -> Result<u32, Fault> {
    // Twice the length, and a tile, has to be a number of 32 bits with its sign.
    let fits = u32::try_from(value).ok().filter(|&value| value < 1 << 30);
    fits.ok_or_else(|| Error::Device(format!("an attention of {value} is too long for a GPU")).into())
}

/// The arguments but for the number of tiles; without gradients those of the forward.
fn arguments(work: &Attention, gradients: Option<&Gradients>) -> Result<Arguments, Fault> {
    let rows = |rows: &Option<Rows>, gradient: u64| -> Result<RowArguments, Fault> {
        let Some(Rows { values, rows, heads, index }) = *rows else { return Ok(RowArguments::default()) };
        Ok(RowArguments { values, gradient, index, rows: narrow(rows)?, heads: narrow(heads)? })
    };
    let to = gradients.copied().unwrap_or_default();
    let tables = [work.query, work.key, work.value].map(|table| table.map_or(0, |table| table.values));
    // Within a tile, places are numbers of 32 bits.
    let width = (work.heads + 2 * work.key_heads) * work.head_dim;
    if width >= 1 << 24 {
        let why = format!("{width} numbers for a token: an attention on a GPU takes less than 2^24");
        return Err(Fault::Other(Error::Device(why)));
    }
    let vectors = [work.joined, work.out, to.out, to.joined, tables[0], tables[1], tables[2]];
    let is_wide = work.head_dim.is_multiple_of(4) && vectors.iter().all(|address| address.is_multiple_of(16));
    Ok(Arguments {
        joined: work.joined,
        out: work.out,
        lse: work.lse,
        mask: work.mask,
        scalars: work.scalars,
        content: work.content,
        position: work.position,
        bias: rows(&work.bias, to.bias)?,
        query: rows(&work.query, to.query)?,
        key: rows(&work.key, to.key)?,
        value: rows(&work.value, to.value)?,
        slope: to.out,
        given: to.joined,
        content_gradient: if work.content == 0 { 0 } else { to.content },
        // Without a table nothing meets v.
        position_gradient: if work.position == 0 || work.query.is_none() { 0 } else { to.position },
        delta: to.scratch,
        site: work.site,
        length: narrow(work.length)?,
        heads: narrow(work.heads)?,
        key_heads: narrow(work.key_heads)?,
        head_dim: narrow(work.head_dim)?,
        tiles: 0,
        is_causal: work.is_causal.into(),
        is_bf16: (work.arithmetic == Arithmetic::Bf16).into(),
        is_wide: is_wide.into(),
        is_dropping: (work.dropout > 0.0).into(),
        threshold: dropout::threshold(work.dropout),
        scale: work.scale,
        keep: (1.0 / (1.0 - work.dropout)) as f32,
    })
}

/// Launches a kernel, with blocks for each of so many heads.
fn run(
    queue: &Queue,
    tiled: &Tiled,
    work: &Attention,
    heads: usize,
    arguments: &Arguments,
) -> Result<(), Fault> {
    let tiles = work.length.div_ceil(tiled.rows);
    let arguments = Arguments { tiles: narrow(tiles)?, ..*arguments };
    let blocks = work.batch.saturating_mul(heads).saturating_mul(tiles);
    let size = Size { blocks, threads: [THREADS, 1], shared: tiled.shared(Terms::of(work)) };
    // SAFETY: the caller's addresses lead to memory of the shapes that the fields have.
    unsafe { launch(queue, tiled.kernel, size, &arguments) }
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
pub(crate) fn forward(kernels: &Kernels, queue: &Queue, work: &Attention) -> Result<(), Fault> {
    if work.is_empty() {
        return Ok(());
    }
    let list = &kernels.forward;
    let tiled = whole(list, work).map_or_else(|| parts(list, work), Ok)?;
    run(queue, tiled, work, work.heads, &arguments(work, None)?)
}

/// Bytes of memory that [`backward`] needs for itself.
pub(crate) fn scratch(work: &Attention) -> usize {
    work.batch * work.length * work.heads * size_of::<f32>()
}

/// Launches the backward, after the forward of the same.
pub(crate) fn backward(
    kernels: &Kernels,
    queue: &Queue,
    work: &Attention,
    gradients: &Gradients,
) -> Result<(), Fault> {
    if work.is_empty() {
        return Ok(());
    }
    let arguments = arguments(work, Some(gradients))?;
    if let Some(tiled) = whole(&kernels.backward, work) {
        return run(queue, tiled, work, work.key_heads, &arguments);
    }
    // By queries first: it leaves the sums of result times gradient to the other.
    run(queue, parts(&kernels.by_queries, work)?, work, work.heads, &arguments)?;
    run(queue, parts(&kernels.by_keys, work)?, work, work.key_heads, &arguments)
}
