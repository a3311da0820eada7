//! Softmax attention as graphs of cuDNN's operations, forward and backward.
//!
//! The library has fused kernels for graphs of certain forms, and knows them by their operations and their order: what is here is
//! in that order. Scores are `f32`, weights and the gradients of scores `bf16` where they are factors, as in the kernels of this
//! crate. On the way back gradients of scores are kept in the work space and summed up in order, for the same bits each time;
//! else the library adds to the queries' gradients in whatever order its blocks come, which is faster for narrow heads.

use super::descriptor::{Mode, Numbers, Reduction};
use super::graph::{Four, Graph, Tensor};
use crate::error::Result;

/// An attention over queries, keys and values side by side, as cuDNN computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
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
    /// The bits of the factor of scores, an `f32`.
    pub scale: u32,
    /// Whether sequences end before their tokens do.
    pub is_padded: bool,
    /// Whether sums on the way back have an order.
    pub is_ordered: bool,
}

/// The names of tensors in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Queries = 1,
    Keys,
    Values,
    /// `[batch, length, heads · head_dim]`
    Out,
    /// The logarithms of sums, `f32` `[batch, length, heads]`.
    Lse,
    OutSlope,
    QueriesSlope,
    KeysSlope,
    ValuesSlope,
    /// Sums of result times gradient, `f32` `[batch, heads, length]`.
    Delta,
    /// How many queries there are, `i32` `[batch]`: all.
    QueryCounts,
    /// How many keys there are, `i32` `[batch]`, 1 at least.
    KeyCounts,
    /// The queries' gradients while they are summed up without an order, `f32` `[batch, heads, length, head_dim]`.
    QueriesSums,
}

/// Rows and columns the other way round.
fn turned([a, b, c, d]: Four) -> Four {
    [a, b, d, c]
}

/// Sizes and steps as the library counts them.
struct Sizes {
    batch: i64,
    length: i64,
    heads: i64,
    key_heads: i64,
    head_dim: i64,
    /// Numbers from token to token of the joined vectors.
    width: i64,
}

impl Sizes {
    fn of(shape: &Shape) -> Sizes {
        let [batch, length, heads, key_heads, head_dim] =
            [shape.batch, shape.length, shape.heads, shape.key_heads, shape.head_dim].map(|size| size as i64);
        Sizes { batch, length, heads, key_heads, head_dim, width: (heads + 2 * key_heads) * head_dim }
    }

    /// Vectors of so many of the joined heads.
    fn joined(&self, heads: i64) -> (Four, Four) {
        let steps = [self.length * self.width, self.head_dim, self.width, 1];
        ([self.batch, heads, self.length, self.head_dim], steps)
    }

    /// Vectors of results.
    fn out(&self) -> (Four, Four) {
        let token = self.heads * self.head_dim;
        ([self.batch, self.heads, self.length, self.head_dim], [self.length * token, self.head_dim, token, 1])
    }

    /// Vectors of query heads one after the other.
    fn apart(&self) -> (Four, Four) {
        let head = self.length * self.head_dim;
        ([self.batch, self.heads, self.length, self.head_dim], [self.heads * head, head, self.head_dim, 1])
    }

    /// A score of each query with each key.
    fn scores(&self) -> (Four, Four) {
        let head = self.length * self.length;
        ([self.batch, self.heads, self.length, self.length], [self.heads * head, head, self.length, 1])
    }

    /// A number of each query.
    fn column(&self) -> (Four, Four) {
        ([self.batch, self.heads, self.length, 1], [self.heads * self.length, self.length, 1, 1])
    }

    /// The same in the order of our kernels.
    fn lse(&self) -> (Four, Four) {
        ([self.batch, self.heads, self.length, 1], [self.heads * self.length, 1, self.heads, 1])
    }

    /// A number of each sequence.
    fn counts(&self) -> (Four, Four) {
        ([self.batch, 1, 1, 1], [1; 4])
    }
}

/// How many queries and keys there are in each sequence, where they are not all.
type Counts = Option<[Tensor; 2]>;

/// What both ways begin with.
struct Begun {
    sizes: Sizes,
    queries: Tensor,
    /// Their columns are the keys.
    keys: Tensor,
    out: Tensor,
    lse: Tensor,
    scale: Tensor,
    counts: Counts,
}

fn begin(graph: &mut Graph, shape: &Shape) -> Result<Begun> {
    let sizes = Sizes::of(shape);
    let mut given =
        |name: Name, (sizes, steps): (Four, Four), numbers| graph.given(name as i64, sizes, steps, numbers);
    let queries = given(Name::Queries, sizes.joined(sizes.heads), Numbers::Bf16)?;
    let (keys, steps) = sizes.joined(sizes.key_heads);
    let keys = given(Name::Keys, (turned(keys), turned(steps)), Numbers::Bf16)?;
    let out = given(Name::Out, sizes.out(), Numbers::Bf16)?;
    let lse = given(Name::Lse, sizes.lse(), Numbers::F32)?;
    let counts = match shape.is_padded {
        false => None,
        true => {
            let queries = given(Name::QueryCounts, sizes.counts(), Numbers::I32)?;
            Some([queries, given(Name::KeyCounts, sizes.counts(), Numbers::I32)?])
        }
    };
    let scale = graph.value(shape.scale, Numbers::F32)?;
    Ok(Begun { sizes, queries, keys, out, lse, scale, counts })
}

impl Begun {
    /// The sizes of a product by what its rows, its columns and its sums are: queries (0), keys (1) or features.
    fn counted(&self, what: [Option<usize>; 3]) -> [Option<Tensor>; 3] {
        what.map(|what| Some(self.counts?[what?]))
    }
}

/// Queries by keys.
const SCORES: [Option<usize>; 3] = [Some(0), Some(1), None];
/// Queries by features, over keys.
const BY_QUERY: [Option<usize>; 3] = [Some(0), None, Some(1)];
/// Keys by features, over queries.
const BY_KEY: [Option<usize>; 3] = [Some(1), None, Some(0)];

/// queries · keys, scaled.
fn scores(graph: &mut Graph, begun: &Begun) -> Result<Tensor> {
    let (sizes, steps) = begun.sizes.scores();
    let scores = graph.inner(sizes, steps, Numbers::F32)?;
    let scores = graph.multiply(begun.queries, begun.keys, scores, begun.counted(SCORES))?;
    graph.pointwise(Mode::Multiply, &[scores, begun.scale])
}

/// Scores where a condition holds, −∞ elsewhere.
fn keep(graph: &mut Graph, scores: Tensor, condition: Tensor) -> Result<Tensor> {
    let nothing = graph.value(f32::NEG_INFINITY.to_bits(), Numbers::F32)?;
    graph.pointwise(Mode::Select, &[scores, nothing, condition])
}

/// Scores of the queries and the keys that are there.
fn within(graph: &mut Graph, scores: Tensor, counts: Counts) -> Result<Tensor> {
    let Some([queries, keys]) = counts else { return Ok(scores) };
    let row = graph.places(scores, 2, Numbers::I32)?;
    let column = graph.places(scores, 3, Numbers::I32)?;
    let row = graph.pointwise_in(Mode::IsLess, &[row, queries], Numbers::Boolean)?;
    let column = graph.pointwise_in(Mode::IsLess, &[column, keys], Numbers::Boolean)?;
    let both = graph.pointwise_in(Mode::And, &[row, column], Numbers::Boolean)?;
    keep(graph, scores, both)
}

/// Scores of the keys that a query sees: none behind it where the attention is causal, none from the window on.
fn seen(graph: &mut Graph, mut scores: Tensor, shape: &Shape) -> Result<Tensor> {
    let ahead = if shape.is_causal { Some(0) } else { shape.window.map(|window| window - 1) };
    if let Some(ahead) = ahead {
        let mut row = graph.places(scores, 2, Numbers::F32)?;
        let column = graph.places(scores, 3, Numbers::F32)?;
        if ahead > 0 {
            let ahead = graph.value(ahead as u32, Numbers::I32)?;
            row = graph.pointwise_in(Mode::Add, &[row, ahead], Numbers::I32)?;
        }
        let is_seen = graph.pointwise_in(Mode::IsGreaterOrEqual, &[row, column], Numbers::Boolean)?;
        scores = keep(graph, scores, is_seen)?;
    }
    if let Some(window) = shape.window {
        let row = graph.places(scores, 2, Numbers::F32)?;
        let column = graph.places(scores, 3, Numbers::F32)?;
        let window = graph.value((window as f32).to_bits(), Numbers::F32)?;
        let column = graph.pointwise(Mode::Add, &[column, window])?;
        let is_seen = graph.pointwise_in(Mode::IsGreater, &[column, row], Numbers::Boolean)?;
        scores = keep(graph, scores, is_seen)?;
    }
    Ok(scores)
}

/// Results and logarithms of sums from queries, keys and values.
pub(super) fn forward(graph: &mut Graph, shape: &Shape) -> Result<()> {
    let begun = begin(graph, shape)?;
    let (sizes, steps) = begun.sizes.joined(begun.sizes.key_heads);
    let values = graph.given(Name::Values as i64, sizes, steps, Numbers::Bf16)?;
    let scores = scores(graph, &begun)?;
    let scores = within(graph, scores, begun.counts)?;
    let scores = seen(graph, scores, shape)?;

    let (sizes, steps) = begun.sizes.column();
    let largest = graph.inner(sizes, steps, Numbers::F32)?;
    let largest = graph.reduce(Reduction::Largest, scores, largest)?;
    let less = graph.pointwise(Mode::Subtract, &[scores, largest])?;
    let powers = graph.pointwise(Mode::Exponential, &[less])?;
    let sums = graph.inner(sizes, steps, Numbers::F32)?;
    let sums = graph.reduce(Reduction::Sum, powers, sums)?;
    let logarithms = graph.pointwise(Mode::Logarithm, &[sums])?;
    graph.pointwise_to(begun.lse, Mode::Add, &[largest, logarithms], Numbers::F32)?;
    let weights = graph.inner(scores.sizes, scores.steps, Numbers::Bf16)?;
    let weights = graph.pointwise_to(weights, Mode::Divide, &[powers, sums], Numbers::F32)?;
    graph.multiply(weights, values, begun.out, begun.counted(BY_QUERY))?;
    Ok(())
}

/// Gradients of queries, keys and values from that of the results and what the forward gave.
pub(super) fn backward(graph: &mut Graph, shape: &Shape) -> Result<()> {
    let begun = begin(graph, shape)?;
    let own = &begun.sizes;
    let mut given =
        |name: Name, (sizes, steps): (Four, Four), numbers| graph.given(name as i64, sizes, steps, numbers);
    let (values, steps) = own.joined(own.key_heads);
    let values = given(Name::Values, (turned(values), turned(steps)), Numbers::Bf16)?;
    let out_slope = given(Name::OutSlope, own.out(), Numbers::Bf16)?;
    let queries_slope = given(Name::QueriesSlope, own.joined(own.heads), Numbers::Bf16)?;
    let keys_slope = given(Name::KeysSlope, own.joined(own.key_heads), Numbers::Bf16)?;
    let values_slope = given(Name::ValuesSlope, own.joined(own.key_heads), Numbers::Bf16)?;
    let delta = given(Name::Delta, own.column(), Numbers::F32)?;

    let (sizes, steps) = own.apart();
    let products = graph.inner(sizes, steps, Numbers::F32)?;
    let products = graph.pointwise_to(products, Mode::Multiply, &[out_slope, begun.out], Numbers::F32)?;
    let sums = graph.inner(delta.sizes, delta.steps, Numbers::F32)?;
    let sums = graph.reduce(Reduction::Sum, products, sums)?;
    let one = graph.value(1f32.to_bits(), Numbers::F32)?;
    graph.pointwise_to(delta, Mode::Multiply, &[sums, one], Numbers::F32)?;

    let scores = scores(graph, &begun)?;
    let scores = within(graph, scores, begun.counts)?;
    let scores = graph.pointwise(Mode::Subtract, &[scores, begun.lse])?;
    let scores = seen(graph, scores, shape)?;
    let weights = graph.pointwise(Mode::Exponential, &[scores])?;
    by_keys(graph, &begun, weights, out_slope, values_slope)?;

    let (sizes, steps) = own.scores();
    let slopes = graph.inner(sizes, steps, Numbers::F32)?;
    let slopes = graph.multiply(out_slope, values, slopes, begun.counted(SCORES))?;
    let slopes = graph.pointwise(Mode::Subtract, &[slopes, delta])?;
    let slopes = graph.pointwise(Mode::Multiply, &[slopes, weights])?;
    let slopes = graph.pointwise(Mode::Multiply, &[slopes, begun.scale])?;
    by_keys(graph, &begun, slopes, begun.queries, keys_slope)?;

    let (sizes, steps) = own.joined(own.key_heads);
    let keys = graph.reshape(begun.keys, sizes, steps, Numbers::Bf16)?;
    let counts = begun.counted(BY_QUERY);
    if shape.is_ordered {
        graph.multiply(slopes, keys, queries_slope, counts)?;
    } else {
        let (sizes, steps) = own.apart();
        let sums = graph.given(Name::QueriesSums as i64, sizes, steps, Numbers::F32)?;
        let sums = graph.multiply(slopes, keys, sums, counts)?;
        graph.pointwise_to(queries_slope, Mode::Identity, &[sums], Numbers::F32)?;
    }
    Ok(())
}

/// Sums over queries, by the numbers that a key has with each of them; of all heads that share the key's.
fn by_keys(graph: &mut Graph, begun: &Begun, scores: Tensor, vectors: Tensor, to: Tensor) -> Result<()> {
    let (own, counts) = (&begun.sizes, begun.counted(BY_KEY));
    let turned = graph.reshape(scores, turned(scores.sizes), turned(scores.steps), Numbers::Bf16)?;
    if own.heads == own.key_heads {
        graph.multiply(turned, vectors, to, counts)?;
        return Ok(());
    }
    let (sizes, steps) = own.apart();
    let apart = graph.inner(sizes, steps, Numbers::Bf16)?;
    let apart = graph.multiply(turned, vectors, apart, counts)?;
    graph.reduce(Reduction::Sum, apart, to)?;
    Ok(())
}
