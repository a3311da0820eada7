//! Softmax attention over joined queries, keys and values, with its position terms.

use super::{Batch, Builder, Far, Gradients, Operation, Rotation, Value, Values};
use crate::attention::softmax::{Chunks, Heads, Mask, Reach, Shape};
use crate::attention::{
    self, Attention, Bias, Dropout, Pairs, Path, PathGradients, Place, Segments, Table, TermGradients, merge,
};
use crate::ops::Real;

/// Rows of a table, chosen by the distance.
#[derive(Clone, Debug)]
pub struct TableTerm {
    /// `[rows, heads · head_dim]`, `[rows, head_dim]` for all heads, or, as a bias, `[heads, rows]`.
    pub table: Value,
    /// `[2 · length − 1]`: the row for each distance i − j between a query and a key, from the most negative on.
    pub index: Vec<u32>,
}

/// Features as magnitudes at phases, which then turn: [`Builder::polar`].
#[derive(Clone, Copy, Debug)]
pub struct PolarTerm {
    /// The phase of each feature of keys, `[key_heads, head_dim]`; 0 where there is none.
    pub phases: Option<Value>,
}

/// Numbers (c, s) by which heads turn: [`Builder::turn`].
#[derive(Clone, Copy, Debug)]
pub struct TurnTerm {
    /// `[batch · length, key_heads · head_dim]`, or `[length, key_heads · head_dim]` for all texts.
    pub numbers: Value,
    /// Whether they are constants, which have no gradient. Others are cosines and sines of each token.
    pub is_fixed: bool,
}

/// Vectors that queries meet by whether a key is of their segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentTerm {
    /// Added to the query where it meets the vectors, `[1, heads · head_dim]`.
    pub query: Value,
    /// For keys of the query's own segment and for those of another, `[2, heads · head_dim]`.
    pub vectors: Value,
}

/// The maps of tokens: I − β·w·wᵀ, β = 2·σ(z).
#[derive(Clone, Copy, Debug)]
pub struct PathTerm {
    /// w `[batch · length, key_heads · head_dim]`, of length 1 in each head.
    pub w: Value,
    /// z `[batch · length, key_heads]`
    pub z: Value,
}

/// The position terms 2 to 11 of one layer, where the first is added to embeddings, and that of segments.
#[derive(Default)]
pub struct Terms {
    /// (2) The rotation.
    pub rotation: Option<Rotation>,
    /// (2) Numbers by which queries and keys turn whatever their positions are.
    pub turns: Option<TurnTerm>,
    /// (2) Where queries and keys stand for those that are far away, if not where they stand for near ones.
    pub far: Option<Far>,
    /// (2) Whether features become magnitudes before they turn, each a pair.
    pub polar: Option<PolarTerm>,
    /// (3) `[heads, rows]`
    pub bias: Option<TableTerm>,
    /// (4) `[rows, heads · head_dim]`, or `[rows, head_dim]` for all heads.
    pub query: Option<TableTerm>,
    /// (5) The same for keys.
    pub key: Option<TableTerm>,
    /// (6) The same for values.
    pub value: Option<TableTerm>,
    /// (7) Added to the query where it meets keys, `[1, heads · head_dim]`.
    pub content: Option<Value>,
    /// (7) Added to the query where it meets term 4.
    pub position: Option<Value>,
    /// What tokens have of their segments, where a batch has any: no position term.
    pub segments: Option<SegmentTerm>,
    /// (8) A number for each place of a query and of a key, `[heads · length, length]`: queries first.
    pub pairs: Option<Value>,
    /// (9) Sums over the tokens so far, `[batch · length, heads]`: a query's own less a key's is added to their score.
    pub gate: Option<Value>,
    /// (10) What queries meet by what they count from a key on, `[rows, head_dim]`.
    pub counted: Option<Value>,
    /// (11) The maps of tokens that queries are taken through on their way to a key.
    pub path: Option<PathTerm>,
    /// What scores are multiplied by, if not 1/√head_dim.
    pub scale: Option<f64>,
    /// What no score is larger than: [`attention::Terms::cap`].
    pub cap: Option<f64>,
}

impl Terms {
    /// What the terms that a GPU knows are computed from, besides the rotation: u, v, b, R, R′, V, z and E.
    pub(super) fn values(&self) -> [Option<Value>; 8] {
        let table = |term: &Option<TableTerm>| term.as_ref().map(|term| term.table);
        let [bias, query, key, value] = [&self.bias, &self.query, &self.key, &self.value].map(table);
        let segments = self.segments;
        let [segment, vectors] = [segments.map(|own| own.query), segments.map(|own| own.vectors)];
        [self.content, self.position, bias, query, key, value, segment, vectors]
    }
}

/// What attention is made of.
pub struct Attend {
    /// Queries, keys and values side by side, `[batch · length, (heads + 2 · key_heads) · head_dim]`, turned already.
    pub joined: Value,
    /// Texts.
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
    /// From how many places away on a token is not seen; all are where there is no window.
    pub window: Option<usize>,
    /// The length of the pieces that a text is cut into, beyond which a token sees none; it is whole where there is none.
    pub chunk: Option<usize>,
    /// The chance that a weight is dropped, in training.
    pub dropout: f64,
    /// Position terms. (Their rotation has been done.)
    pub terms: Terms,
    /// Queries and keys as they meet where they are far apart, side by side, `[batch · length, (heads + key_heads) · head_dim]`. No
    /// other position terms act on scores then.
    pub distant: Option<Value>,
}

impl<T: Real> Builder<T> {
    /// softmax(scores)·values with all position terms, `[batch · length, heads · head_dim]`.
    ///
    /// # Panics
    ///
    /// If keys that are far away are met as others, and queries count or follow a path on their way to them.
    pub fn attend(&mut self, attend: Attend) -> Value {
        let Terms { counted, path, .. } = &attend.terms;
        let is_on_the_way = counted.is_some() || path.is_some();
        assert!(attend.distant.is_none() || !is_on_the_way, "one way to a key, near or far");
        let rows = attend.joined.rows;
        let (out, lse) = (self.value(rows, attend.heads * attend.head_dim), self.value(rows, attend.heads));
        let site = self.site();
        let starts = vec![0; attend.batch];
        let other = attend.distant.map(|_| [out, lse].map(|value| vec![T::ZERO; value.size()]));
        let is_of_source = self.is_of_source;
        self.add(Softmax { attend, out, lse, other, site, is_of_source, starts, workspace: None });
        out
    }
}

pub(super) struct Softmax<T> {
    pub(super) attend: Attend,
    pub(super) out: Value,
    /// The logarithm of each sum of exponentials, for the way back.
    pub(super) lse: Value,
    /// The results over keys that are far away, and the logarithms of their sums, where those are summed apart.
    pub(super) other: Option<[Vec<T>; 2]>,
    pub(super) site: u64,
    /// Whether the texts are those of the batch's source.
    pub(super) is_of_source: bool,
    /// `[batch]`: the first token of each text that is there.
    pub(super) starts: Vec<usize>,
    pub(super) workspace: Option<attention::Workspace<T>>,
}

impl<T: Real> Softmax<T> {
    /// Where queries, keys and values are in the joined rows: the offset of each.
    fn offsets(&self) -> [usize; 3] {
        let Attend { heads, key_heads, head_dim, .. } = self.attend;
        [0, heads * head_dim, (heads + key_heads) * head_dim]
    }

    /// Which tokens are real, as a batch says it.
    fn real<'a>(&self, batch: &'a Batch) -> &'a [bool] {
        if self.is_of_source { &batch.source_mask } else { &batch.mask }
    }

    fn attention<'a>(&'a self, values: &'a Values<T>) -> Attention<'a, T> {
        let Attend { joined, batch, heads, key_heads, head_dim, .. } = self.attend;
        let (length, terms, given) = (joined.rows / batch, &self.attend.terms, &values.batch);
        let [q, k, v] = self.offsets().map(|offset| Heads {
            data: &values.get(joined)[offset..],
            token: joined.width,
            sequence: length * joined.width,
        });
        let table = |term: &'a Option<TableTerm>| {
            term.as_ref().map(|term| Table {
                values: values.get(term.table),
                heads: term.table.width / head_dim,
                index: &term.index,
            })
        };
        let bias = terms.bias.as_ref();
        let reach = if self.attend.is_causal { Reach::Causal } else { Reach::All };
        let is_dropping = given.is_training && self.attend.dropout > 0.0;
        Attention {
            shape: Shape { batch, queries: length, keys: length, heads, key_heads, head_dim },
            q,
            k,
            v,
            mask: Mask {
                keys: Some(self.real(given)).filter(|mask| !mask.is_empty()),
                reach,
                window: self.near(),
                chunks: self.attend.chunk.map(|size| Chunks { size, starts: &self.starts }),
                ..Mask::default()
            },
            terms: attention::Terms {
                scale: terms.scale,
                cap: terms.cap,
                content: terms.content.map(|value| values.get(value)),
                position: terms.position.map(|value| values.get(value)),
                bias: bias.map(|term| Bias { values: values.get(term.table), index: &term.index }),
                query: table(&terms.query),
                key: table(&terms.key),
                value: table(&terms.value),
                pairs: terms.pairs.map(|value| Pairs { values: values.get(value), places: length }),
                gate: terms.gate.map(|value| Heads {
                    data: values.get(value),
                    token: heads,
                    sequence: length * heads,
                }),
                counted: terms.counted.map(|value| values.get(value)),
                path: terms.path.map(|PathTerm { w, z }| {
                    let part = |value: Value| Heads {
                        data: values.get(value),
                        token: value.width,
                        sequence: length * value.width,
                    };
                    Path { w: part(w), z: part(z) }
                }),
                // Without segments all tokens are of one: all scores of a query grow by the same, and no weight changes.
                segments: terms.segments.filter(|_| !given.types.is_empty()).map(|own| Segments {
                    query: values.get(own.query),
                    vectors: values.get(own.vectors),
                    ids: &given.types,
                }),
            },
            dropout: is_dropping.then_some(Dropout {
                probability: self.attend.dropout,
                seed: given.seed,
                step: given.step,
                site: self.site,
            }),
        }
    }

    /// From how many places away on a token is not seen by near queries.
    fn near(&self) -> Option<usize> {
        let far = self.attend.distant.and(self.attend.terms.far).map(|far| far.window);
        [self.attend.window, far].into_iter().flatten().min()
    }

    /// The attention to keys that are far away, where it is another: queries and keys of their own, and the same values.
    fn distant<'a>(&'a self, values: &'a Values<T>) -> Option<Attention<'a, T>> {
        let (distant, far) = self.attend.distant.zip(self.attend.terms.far)?;
        let near = self.attention(values);
        let length = distant.rows / self.attend.batch;
        let [q, k] = [self.offsets()[0], self.offsets()[1]].map(|offset| Heads {
            data: &values.get(distant)[offset..],
            token: distant.width,
            sequence: length * distant.width,
        });
        let mask = Mask { window: self.attend.window, beyond: Some(far.window), ..near.mask };
        let attention::Terms { scale, cap, .. } = near.terms;
        let terms = attention::Terms { scale, cap, ..attention::Terms::default() };
        Some(Attention { q, k, mask, terms, ..near })
    }

    /// Memory is asked for on the first step, and its lack is a panic: nothing in a step can be undone.
    fn workspace(&mut self) -> attention::Workspace<T> {
        self.workspace.take().or_else(attention::Workspace::new).expect("memory for attention")
    }
}

impl<T: Real> Operation<T> for Softmax<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let mut workspace = self.workspace();
        let length = self.attend.joined.rows / self.attend.batch;
        let real = self.real(&values.batch);
        match real.is_empty() {
            true => self.starts.fill(0),
            false => {
                let starts = Chunks::starts(real, length);
                self.starts.iter_mut().zip(starts).for_each(|(start, first)| *start = first);
            }
        }
        let mut other = self.other.take();
        let (this, lse_value) = (&*self, self.lse);
        let mut lse = values.store.lend(lse_value);
        values.write(this.out, |values, out| {
            assert!(this.attention(values).forward(out, &mut lse, &mut workspace), "memory for attention");
            if let (Some(distant), Some([other, other_lse])) = (this.distant(values), &mut other) {
                assert!(distant.forward(other, other_lse, &mut workspace), "memory for attention");
                merge((out, &mut lse), (other, other_lse), this.attend.head_dim);
            }
        });
        self.other = other;
        values.store.values[lse_value.index] = Some(lse);
        self.workspace = Some(workspace);
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut workspace = self.workspace();
        let this = &*self;
        let (joined, terms) = (this.attend.joined, &this.attend.terms);
        let (length, offsets) = (joined.rows / this.attend.batch, this.offsets());
        let [content, position, bias, query, key, value, segment, vectors] = terms.values();
        let (pairs, gate, counted) = (terms.pairs, terms.gate, terms.counted);
        let (w, z) = (terms.path.map(|path| path.w), terms.path.map(|path| path.z));
        let parts =
            [content, position, bias, query, key, value, segment, vectors, pairs, gate, counted, w, z];
        let mut lent = parts.map(|part| part.map(|value| gradients.lend_zeroed(value)));
        gradients.contribute(joined, |gradients, sum, accumulate| {
            let place = |offset: usize| Place {
                buffer: 0,
                offset,
                token: joined.width,
                sequence: length * joined.width,
            };
            let attention = this.attention(values);
            let [
                content,
                position,
                bias,
                query,
                key,
                value,
                segment_query,
                segment_vectors,
                pairs,
                gate,
                counted,
                w,
                z,
            ] = lent.each_mut().map(|memory| memory.as_mut().map(|memory| &mut memory[..]));
            let has_segments = attention.terms.segments.is_some();
            let terms = TermGradients {
                content,
                position,
                bias,
                query,
                key,
                value,
                segment_query: segment_query.filter(|_| has_segments),
                segment_vectors: segment_vectors.filter(|_| has_segments),
                pairs,
                gate,
                counted,
                path: w.zip(z).map(|(w, z)| PathGradients { w, z }),
            };
            let given = attention::Gradients {
                buffers: &mut [sum],
                accumulate,
                q: place(offsets[0]),
                k: place(offsets[1]),
                v: place(offsets[2]),
                terms,
            };
            let known = (gradients.get(this.out), values.get(this.out), values.get(this.lse));
            assert!(attention.backward(known, given, &mut workspace), "memory for attention");
        });
        for (part, memory) in parts.into_iter().zip(lent) {
            if let (Some(value), Some(memory)) = (part, memory) {
                gradients.take_back(value, memory);
            }
        }
        if let Some((distant, attention)) = this.attend.distant.zip(this.distant(values)) {
            gradients.add_each([distant, joined], |gradients, [sum, joined_sum]| {
                let place = |buffer: usize, value: Value, offset: usize| Place {
                    buffer,
                    offset,
                    token: value.width,
                    sequence: length * value.width,
                };
                let given = attention::Gradients {
                    buffers: &mut [sum, joined_sum],
                    accumulate: true,
                    q: place(0, distant, offsets[0]),
                    k: place(0, distant, offsets[1]),
                    v: place(1, joined, offsets[2]),
                    terms: TermGradients::default(),
                };
                // With the results and the sums over all keys: a weight is a part of those.
                let known = (gradients.get(this.out), values.get(this.out), values.get(this.lse));
                assert!(attention.backward(known, given, &mut workspace), "memory for attention");
            });
        }
        self.workspace = Some(workspace);
    }

    lowered_in_cuda!();
}
