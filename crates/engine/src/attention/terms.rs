//! What an attention for training works on: its inputs, its position terms, and where its gradients go.
//!
//! Query i of `queries` stands at position i + keys − queries, key j at position j; r is the distance from key to query. The
//! score of query i and key j of head h, and the result, are
//!
//! ```text
//! s_ij  = scale·[(q_i + u_h)·k_j + (q_i + v_h)·R_h[f(r)] + k_j·R′_h[f′(r)] + (q_i + z_h)·E_h[c_i ≠ c_j]]
//!         + b_h[g(r)] + B_h[i, j] + g_hi − g_hj + q_i·C(p_ij)
//! out_i = Σ_j dropout(softmax_j(cap(s_ij)))·(v_j + V_h[w(r)])
//! ```
//!
//! over the keys j that the mask lets i see, where cap(s) is c·tanh(s/c), or s where there is no cap. f, f′, g and w are lists of rows, one
//! entry for each distance; c are the segments of tokens, B a number for each place of a query and of a key, and g sums over the tokens so
//! far. p_ij = Σ_t σ(scale·(q_i + u_h)·k_t), over the keys from j on that i sees, at most the last row of C; between two rows C(p) is the
//! mean of both, by how near they are: what is counted comes before a cap. Where tokens have maps, q_i·k_j above is the product along a path
//! of them ([`Path`]). Rotations and what is added to embeddings happen before.

use super::Dropout;
use super::path::{Path, PathGradients};
use super::softmax::{Heads, Mask, Shape, check_inputs};
use crate::ops::Real;

/// Vectors by distance.
#[derive(Clone, Copy)]
pub struct Table<'a, T> {
    /// `[rows, heads, head_dim]`
    pub values: &'a [T],
    /// The query heads of the attention, or 1: all heads share the vectors.
    pub heads: usize,
    /// `[queries + keys − 1]`: the row for each distance, from the most negative on. Query i and key j have entry
    /// i + keys − 1 − j, which is r + queries − 1.
    pub index: &'a [u32],
}

/// Numbers by distance.
#[derive(Clone, Copy)]
pub struct Bias<'a, T> {
    /// `[heads, rows]`
    pub values: &'a [T],
    /// As for [`Table::index`].
    pub index: &'a [u32],
}

/// Numbers by the places of a query and of a key.
#[derive(Clone, Copy)]
pub struct Pairs<'a, T> {
    /// B `[heads, places, places]`: of the places of queries first. Query i stands at place i + keys − queries.
    pub values: &'a [T],
    /// At least as many as there are keys.
    pub places: usize,
}

/// Vectors that queries meet by whether a key is of their segment (XLNet).
#[derive(Clone, Copy)]
pub struct Segments<'a, T> {
    /// z `[heads, head_dim]`, added to queries where they meet the vectors.
    pub query: &'a [T],
    /// E `[2, heads, head_dim]`: for keys of the query's own segment, and for those of another.
    pub vectors: &'a [T],
    /// c `[batch, keys]`: the segment of each token. Query i is token i + keys − queries.
    pub ids: &'a [u32],
}

/// The position terms of an attention, and that of segments. The default has none.
#[derive(Clone, Copy)]
pub struct Terms<'a, T> {
    /// The factor of scores; 1/√head_dim if there is none.
    pub scale: Option<f64>,
    /// c: scores become c·tanh(s/c), so that none is larger (Gemma 2).
    pub cap: Option<f64>,
    /// u `[heads, head_dim]`, added to queries where they meet keys (XLNet).
    pub content: Option<&'a [T]>,
    /// v `[heads, head_dim]`, added to queries where they meet the query table (XLNet). Nothing without that table.
    pub position: Option<&'a [T]>,
    /// b: added to scores (T5, ALiBi).
    pub bias: Option<Bias<'a, T>>,
    /// R: what queries meet (Shaw, XLNet, DeBERTa).
    pub query: Option<Table<'a, T>>,
    /// R′: what keys meet (DeBERTa).
    pub key: Option<Table<'a, T>>,
    /// V: added to values (Shaw).
    pub value: Option<Table<'a, T>>,
    /// E, with z and c (XLNet).
    pub segments: Option<Segments<'a, T>>,
    /// B: added to scores (FIRE).
    pub pairs: Option<Pairs<'a, T>>,
    /// g, one number for each token and head, `[batch, keys, heads]`: a query's own less a key's is added to their score (the
    /// Forgetting Transformer).
    pub gate: Option<Heads<'a, T>>,
    /// C `[rows, head_dim]`: what queries meet by what they count from a key on (CoPE).
    pub counted: Option<&'a [T]>,
    /// The maps of tokens that queries are taken through on their way to a key (PaTH).
    pub path: Option<Path<'a, T>>,
}

impl<T> Default for Terms<'_, T> {
    fn default() -> Self {
        Terms {
            scale: None,
            cap: None,
            content: None,
            position: None,
            bias: None,
            query: None,
            key: None,
            value: None,
            segments: None,
            pairs: None,
            gate: None,
            counted: None,
            path: None,
        }
    }
}

/// An attention: everything that its forward and its backward both read.
#[derive(Clone, Copy)]
pub struct Attention<'a, T> {
    /// The sizes.
    pub shape: Shape,
    /// Queries `[batch, queries, heads, head_dim]`.
    pub q: Heads<'a, T>,
    /// Keys `[batch, keys, key_heads, head_dim]`.
    pub k: Heads<'a, T>,
    /// Values `[batch, keys, key_heads, head_dim]`.
    pub v: Heads<'a, T>,
    /// Which keys a query sees.
    pub mask: Mask<'a>,
    /// The position terms.
    pub terms: Terms<'a, T>,
    /// Dropout of the weights, if any.
    pub dropout: Option<Dropout>,
}

/// Where in which buffer `[batch, tokens, heads, head_dim]` lies. Tokens do not overlap, sequences come one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which of the buffers.
    pub buffer: usize,
    /// Where the first head of the first token begins.
    pub offset: usize,
    /// Numbers from one token to the next.
    pub token: usize,
    /// Numbers from one sequence to the next.
    pub sequence: usize,
}

/// Where the gradients of an attention go.
pub struct Gradients<'a, 'b, T> {
    /// The memory of the gradients of q, k and v: all three in one buffer side by side, or each in its own.
    pub buffers: &'a mut [&'b mut [T]],
    /// Whether those of q, k and v are added to what is there, rather than set. Without any results nothing is given.
    pub accumulate: bool,
    /// Of queries `[batch, queries, heads, head_dim]`.
    pub q: Place,
    /// Of keys `[batch, keys, key_heads, head_dim]`.
    pub k: Place,
    /// Of values `[batch, keys, key_heads, head_dim]`.
    pub v: Place,
    /// Of the position terms: added to.
    pub terms: TermGradients<'a, T>,
}

/// Gradients of terms, each of the shape of its term. Those that are not asked for are not computed.
pub struct TermGradients<'a, T> {
    /// Of [`Terms::content`].
    pub content: Option<&'a mut [T]>,
    /// Of [`Terms::position`].
    pub position: Option<&'a mut [T]>,
    /// Of [`Bias::values`].
    pub bias: Option<&'a mut [T]>,
    /// Of the query table's [`Table::values`].
    pub query: Option<&'a mut [T]>,
    /// Of the key table's [`Table::values`].
    pub key: Option<&'a mut [T]>,
    /// Of the value table's [`Table::values`].
    pub value: Option<&'a mut [T]>,
    /// Of [`Segments::query`].
    pub segment_query: Option<&'a mut [T]>,
    /// Of [`Segments::vectors`].
    pub segment_vectors: Option<&'a mut [T]>,
    /// Of [`Pairs::values`].
    pub pairs: Option<&'a mut [T]>,
    /// Of [`Terms::gate`], without gaps.
    pub gate: Option<&'a mut [T]>,
    /// Of [`Terms::counted`].
    pub counted: Option<&'a mut [T]>,
    /// Of [`Terms::path`].
    pub path: Option<PathGradients<'a, T>>,
}

impl<T> Default for TermGradients<'_, T> {
    fn default() -> Self {
        TermGradients {
            content: None,
            position: None,
            bias: None,
            query: None,
            key: None,
            value: None,
            segment_query: None,
            segment_vectors: None,
            pairs: None,
            gate: None,
            counted: None,
            path: None,
        }
    }
}

impl<T: Real> Attention<'_, T> {
    /// The factor of scores.
    pub(super) fn scale(&self) -> f64 {
        self.terms.scale.unwrap_or_else(|| 1.0 / (self.shape.head_dim as f64).sqrt())
    }

    /// The key head of a query head.
    pub(super) fn key_head(&self, head: usize) -> usize {
        head / (self.shape.heads / self.shape.key_heads)
    }

    /// Panics unless inputs, mask and terms fit the shape.
    pub(super) fn check(&self) {
        let Shape { batch, queries, keys, heads, key_heads, head_dim } = self.shape;
        check_inputs(&self.shape, [&self.q, &self.k, &self.v], &self.mask);
        assert!(self.mask.texts.is_none(), "sequences of equal length");
        let Terms { content, position, bias, query, key, value, segments, pairs, gate, counted, .. } =
            &self.terms;
        let segmented = segments.as_ref().map(|segments| segments.query);
        for vectors in [*content, *position, segmented].into_iter().flatten() {
            assert_eq!(vectors.len(), heads * head_dim, "a vector for every head");
        }
        if let Some(segments) = segments {
            assert!(queries <= keys, "a segment for every query");
            assert_eq!(segments.ids.len(), batch * keys, "a segment for every key");
            assert_eq!(segments.vectors.len(), 2 * heads * head_dim, "two vectors for every head");
        }
        if let Some(Pairs { values, places }) = *pairs {
            assert!(queries <= keys && keys <= places, "a place for every query and key");
            assert_eq!(values.len(), heads * places * places, "a number for every head and two places");
        }
        if let Some(Heads { data, token, sequence }) = *gate {
            let end = batch.saturating_sub(1) * sequence + keys.saturating_sub(1) * token + heads;
            assert!(queries <= keys && (batch * keys == 0 || end <= data.len()), "a sum for every token");
        }
        if let Some(Path { w, z }) = &self.terms.path {
            assert!(queries <= keys, "a place for every query");
            assert!(counted.is_none(), "no counting on the way over a path");
            for (x, width) in [(w, key_heads * head_dim), (z, key_heads)] {
                let end = batch.saturating_sub(1) * x.sequence + keys.saturating_sub(1) * x.token + width;
                assert!(batch * keys == 0 || end <= x.data.len(), "a map for every token");
            }
        }
        if let Some(table) = counted {
            let is_whole = !table.is_empty() && table.len().is_multiple_of(head_dim.max(1));
            assert!(is_whole, "a table of whole rows, at least one");
        }
        let check = |index: &[u32], rows: usize| {
            assert!(
                queries == 0 || keys == 0 || index.len() == queries + keys - 1,
                "a row for every distance"
            );
            assert!(index.iter().all(|&row| (row as usize) < rows), "rows within their table");
        };
        for table in [query, key, value].into_iter().flatten() {
            assert!(table.heads == heads || table.heads == 1, "a table for every head, or one for all");
            let row = table.heads * head_dim;
            assert!(row == 0 || table.values.len().is_multiple_of(row), "a table of whole rows");
            check(table.index, table.values.len().checked_div(row).unwrap_or(usize::MAX));
        }
        if let Some(bias) = bias {
            assert!(heads == 0 || bias.values.len().is_multiple_of(heads), "a row of biases for every head");
            check(bias.index, bias.values.len().checked_div(heads).unwrap_or(usize::MAX));
        }
    }
}
