//! What an encoding's parameters come to: codes and tables of numbers, for models that are run and not trained.
//!
//! The graph that an encoding lays out for training is run once, so that an encoding is written once. Tables of a length
//! serve all shorter texts: entries are by distance, codes by position.

use super::{AngleTerm, Encode, Encoding, Gate, GateTerm, PathWeights, Sizes};
use crate::error::Result;
use crate::graph::{Angles, Builder, Digits, Far, Graph, Parameter, Parameters, TableTerm, Value};
use crate::ops::Real;
use rope::{Rope, Schedule};

/// An encoding for texts of up to a certain length.
pub(crate) struct Evaluated<T> {
    /// Term 1.
    pub codes: Option<Codes<T>>,
    /// Terms 2 to 11 of each layer.
    pub layers: Vec<LayerTerms<T>>,
}

/// Codes of positions.
pub(crate) struct Codes<T> {
    /// `[length, width]`; a table `[…, width]` where tokens find their rows by what they are.
    pub rows: Vec<T>,
    /// How they find them.
    pub digits: Option<Digits>,
    /// W `[width, 2 · width]` of [x, p]·Wᵀ, where codes are not just added.
    pub merge: Option<Vec<T>>,
}

/// Terms 2 to 11 of one layer.
pub(crate) struct LayerTerms<T> {
    /// The rotations, one for all heads or one for each key head, and whether values are rotated too.
    pub rotation: Option<(Vec<Rope>, bool)>,
    /// Which distances are far, where those are others than they seem.
    pub far: Option<Far>,
    /// The phases of keys, `[key_heads, head_dim]`, where there are some, if features become magnitudes first.
    pub polar: Option<Option<Vec<T>>>,
    /// b `[heads, rows]`
    pub bias: Option<TableOf<T>>,
    /// R `[rows, heads or 1, head_dim]`
    pub query: Option<TableOf<T>>,
    /// R′
    pub key: Option<TableOf<T>>,
    /// V
    pub value: Option<TableOf<T>>,
    /// u `[heads, head_dim]`
    pub content: Option<Vec<T>>,
    /// v `[heads, head_dim]`
    pub position: Option<Vec<T>>,
    /// B `[heads, length, length]`
    pub pairs: Option<Vec<T>>,
    /// What sums over tokens are made of.
    pub gate: Option<GateOf<T>>,
    /// Numbers by which heads turn, `[length, key_heads · head_dim]`.
    pub turns: Option<Vec<T>>,
    /// What angles by what is read are made of.
    pub angles: Option<AnglesOf<T>>,
    /// C `[rows, head_dim]`
    pub counted: Option<Vec<T>>,
    /// What maps of tokens are made of.
    pub path: Option<PathOf<T>>,
    /// The factor of scores.
    pub scale: Option<f64>,
}

/// Gates by what a layer reads.
pub(crate) struct GateOf<T> {
    /// w `[heads, width]`
    pub weight: Vec<T>,
    /// b `[heads]`
    pub bias: Vec<T>,
    /// g
    pub gate: Gate,
}

/// Angles by what a layer reads.
pub(crate) struct AnglesOf<T> {
    /// w `[key_heads · pairs, width]`
    pub weight: Vec<T>,
    /// b `[key_heads · pairs]`
    pub bias: Vec<T>,
    /// θ
    pub angles: Angles,
}

/// Maps by what a layer reads, as in [`PathWeights`].
pub(crate) struct PathOf<T> {
    /// `[rank, width]`
    pub down: Vec<T>,
    /// `[key_heads · head_dim, rank]`
    pub up: Vec<T>,
    /// `[key_heads, width]`
    pub weight: Vec<T>,
    /// `[key_heads]`
    pub bias: Vec<T>,
}

/// Rows of a table, chosen by the distance.
pub(crate) struct TableOf<T> {
    /// Row by row.
    pub numbers: Vec<T>,
    /// Numbers of a row.
    pub width: usize,
    /// `[2 · length − 1]`: the row for each distance from key to query, from the most negative on.
    pub index: Vec<u32>,
}

impl<T: Real> Evaluated<T> {
    /// The parameters of an encoding; `layers` are those of the layers, which may differ from it.
    pub fn layout(encoding: &Encoding, layers: &[&Encoding], sizes: &Sizes) -> Parameters {
        Laid::<T>::new(encoding, layers, sizes).builder.layout().clone()
    }

    /// Codes and tables for texts of up to `sizes.length` tokens, from parameters laid out as [`layout`](Self::layout) says.
    pub fn new(
        encoding: &Encoding,
        encodings: &[&Encoding],
        sizes: &Sizes,
        parameters: &[T],
    ) -> Result<Self> {
        let Laid { builder, codes, numbered, layers } = Laid::<T>::new(encoding, encodings, sizes);
        let mut graph = builder.build()?;
        graph.parameters_mut().copy_from_slice(parameters);
        graph.forward();
        let list = |value: Value| graph.value(value).to_vec();
        let table = |term: TableTerm| TableOf {
            numbers: list(term.table),
            width: term.table.width,
            index: term.index,
        };
        let learned = |parameter: Parameter| graph.parameters()[parameter.range()].to_vec();
        let layers =
            layers.into_iter().zip(encodings).map(|(LaidLayer { terms, gate, angles, path }, encoding)| {
                let rotation = terms.rotation.map(|rotation| {
                    let ropes = match &rotation.frequencies[..] {
                        [] => vec![spread(encoding, &rotation.rope, sizes.longest)?],
                        own => {
                            let rope = |&own: &Value| given(&rotation.rope, graph.value(own), 1.0);
                            own.iter().map(rope).collect::<Result<_>>()?
                        }
                    };
                    Ok::<_, crate::Error>((ropes, rotation.values))
                });
                Ok(LayerTerms {
                    rotation: rotation.transpose()?,
                    far: terms.far,
                    polar: terms.polar.map(|polar| polar.phases.map(list)),
                    bias: terms.bias.map(table),
                    query: terms.query.map(table),
                    key: terms.key.map(table),
                    value: terms.value.map(table),
                    content: terms.content.map(list),
                    position: terms.position.map(list),
                    pairs: terms.pairs.map(list),
                    counted: terms.counted.map(list),
                    path: path.map(|PathWeights { down, up, weight, bias }| PathOf {
                        down: learned(down),
                        up: learned(up),
                        weight: learned(weight),
                        bias: learned(bias),
                    }),
                    gate: gate.map(|GateTerm { weight, bias, gate }| GateOf {
                        weight: learned(weight),
                        bias: learned(bias),
                        gate,
                    }),
                    turns: terms.turns.map(|turns| list(turns.numbers)),
                    angles: angles.map(|AngleTerm { weight, bias, angles }| AnglesOf {
                        weight: learned(weight),
                        bias: learned(bias),
                        angles,
                    }),
                    scale: terms.scale,
                })
            });
        let layers = layers.collect::<Result<_>>()?;
        let codes = codes.map(|rows| Codes { rows: list(rows), digits: None, merge: merge(&graph) });
        let numbered =
            numbered.map(|(table, digits)| Codes { rows: learned(table), digits: Some(digits), merge: None });
        Ok(Evaluated { codes: codes.or(numbered), layers })
    }
}

/// The rotation of an encoding as it runs: randomised positions are spread evenly.
fn spread(encoding: &Encoding, rope: &Rope, longest: usize) -> Result<Rope> {
    let Encoding::Randomised(randomised) = encoding else { return Ok(rope.clone()) };
    // m·(s·θ) = (m·s)·θ: a step from token to token is a factor of the frequencies.
    let step = randomised.step(longest) as f64;
    given(rope, rope.frequencies(None).inv_freq(), step)
}

/// A rope with these frequencies, times a factor.
fn given<N: Real>(rope: &Rope, frequencies: &[N], factor: f64) -> Result<Rope> {
    let frequencies = frequencies.iter().map(|theta| theta.to_f64() * factor).collect();
    let builder = Rope::builder(rope.head_dim()).pairing(rope.pairing()).rotary_dim(rope.rotary_dim());
    Ok(builder.schedule(Schedule::Given(frequencies)).build()?)
}

/// The weight that merges codes and embeddings, where there is one.
fn merge<T: Real>(graph: &Graph<T>) -> Option<Vec<T>> {
    let weight = graph.layout().find("position.merge.weight")?;
    Some(graph.parameters()[weight.range()].to_vec())
}

/// The operations of an encoding.
struct Laid<T: Real> {
    builder: Builder<T>,
    codes: Option<Value>,
    numbered: Option<(Parameter, Digits)>,
    layers: Vec<LaidLayer>,
}

/// Those of a layer.
struct LaidLayer {
    terms: super::Terms,
    gate: Option<GateTerm>,
    angles: Option<AngleTerm>,
    path: Option<PathWeights>,
}

impl<T: Real> Laid<T> {
    fn new(encoding: &Encoding, layers: &[&Encoding], sizes: &Sizes) -> Self {
        let (encode, mut builder): (&dyn Encode<T>, _) = (encoding.as_encode(), Builder::default());
        let codes = encode.codes(&mut builder, sizes).map(|(rows, merge)| {
            merge.weight(&mut builder, sizes);
            rows
        });
        let numbered = encode.digits(&mut builder, sizes);
        let layers = layers.iter().enumerate().map(|(layer, encoding)| {
            let encode: &dyn Encode<T> = encoding.as_encode();
            let terms = encode.terms(&mut builder, layer, sizes);
            let gate = encode.gate(&mut builder, layer, sizes);
            let angles = encode.angles(&mut builder, layer, sizes);
            LaidLayer { terms, gate, angles, path: encode.path(&mut builder, layer, sizes) }
        });
        let layers = layers.collect();
        Laid { builder, codes, numbered, layers }
    }
}
