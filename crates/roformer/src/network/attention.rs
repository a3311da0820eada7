//! How tokens look at each other: softmax or linear attention, with what the encoding brings.

use super::block::DEVIATION;
use super::block::norm_heads;
use super::{LinearForm, Mixing, Network};
use crate::blueprint::{Blueprint, HeadNorms};
use crate::encoding::{AngleTerm, Encode, Sizes, Terms};
use crate::error::Result;
use crate::graph::{
    Attend, Builder, Columns, Far, Init, PathTerm, Polar, PolarTerm, Rotation, SegmentTerm, TurnTerm,
    TurnedHeads, Value,
};
use crate::ops::Real;

/// Attention over joined queries, keys and values `[tokens, (heads + 2 · key_heads) · head_dim]`, which were made of what the layer
/// read `[tokens, width]`: `[tokens, heads · head_dim]`.
pub(super) fn mix<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    [joined, read]: [Value; 2],
    layer: usize,
    sizes: &Sizes,
) -> Result<Value> {
    let encode = network.blueprint.encoding_of(layer).as_encode::<T>();
    match network.blueprint.mixing {
        Mixing::Softmax => {
            let terms = terms(network, builder, read, layer, sizes);
            softmax(network, builder, joined, (terms, layer), sizes)
        }
        Mixing::Linear(form) => {
            let rotated = sizes.rotated(form);
            let mut terms = encode.terms(builder, layer, &rotated);
            terms.turns = turns(encode, builder, read, layer, &rotated).or(terms.turns);
            linear(network, form, builder, joined, terms, sizes)
        }
    }
}

/// The terms of a layer under softmax attention.
fn terms<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    read: Value,
    layer: usize,
    sizes: &Sizes,
) -> Terms {
    let encode = network.blueprint.encoding_of(layer).as_encode::<T>();
    share(network, builder, layer);
    let mut terms = encode.terms(builder, layer, sizes);
    terms.scale = terms.scale.or(network.blueprint.scale);
    terms.cap = network.blueprint.score_cap;
    terms.segments = segments(network, builder, layer);
    terms.gate = encode.gate(builder, layer, sizes).map(|own| {
        let gates = builder.linear(read, own.weight, Some(own.bias), sizes.heads);
        builder.accumulate(gates, own.gate, sizes.length)
    });
    terms.turns = turns(encode, builder, read, layer, sizes).or(terms.turns);
    terms.path = encode.path(builder, layer, sizes).map(|own| {
        let (rank, wide) = (own.down.range().len() / sizes.width, sizes.key_heads * sizes.head_dim);
        let low = builder.linear(read, own.down, None, rank);
        let w = builder.linear(low, own.up, None, wide);
        let w = builder.unit(w.reshaped(sizes.head_dim)).reshaped(wide);
        PathTerm { w, z: builder.linear(read, own.weight, Some(own.bias), sizes.key_heads) }
    });
    terms
}

/// What tokens turn by, where that follows from what is read.
fn turns<T: Real>(
    encode: &dyn Encode<T>,
    builder: &mut Builder<T>,
    read: Value,
    layer: usize,
    sizes: &Sizes,
) -> Option<TurnTerm> {
    let AngleTerm { weight, bias, angles } = encode.angles(builder, layer, sizes)?;
    let z = builder.linear(read, weight, Some(bias), angles.theta.len() * angles.heads);
    Some(TurnTerm { numbers: builder.sum_angles(z, angles, sizes.length), is_fixed: false })
}

impl Network {
    /// Softmax attention of a layer as [`build`](Network::build) lays it out, with values that the encoding leaves alone: joined
    /// queries, keys and values `[tokens, (heads + 2 · key_heads) · head_dim]`, and what they were made of `[tokens, width]`. For
    /// looking at weights.
    pub fn attend<T: Real>(
        &self,
        builder: &mut Builder<T>,
        [joined, read]: [Value; 2],
        layer: usize,
        sizes: &Sizes,
    ) -> Result<Value> {
        let mut terms = terms(self, builder, read, layer, sizes);
        terms.value = None;
        if let Some(rotation) = &mut terms.rotation {
            rotation.values = false;
        }
        softmax(self, builder, joined, (terms, layer), sizes)
    }
}

/// Lets the encoding find the weights of the layer's queries and keys, where it shares them.
fn share<T: Real>(network: &Network, builder: &mut Builder<T>, layer: usize) {
    let names = network.blueprint.family.names();
    for part in ["key.weight", "key.bias", "query.weight", "query.bias"] {
        let own = names.shared(layer, part).filter(|_| network.blueprint.encoding.shares_projections());
        if let Some(own) = own.and_then(|own| builder.parameters().find(&own)) {
            builder.parameters().share(format!("position.deberta.{layer}.{part}"), own);
        }
    }
}

/// What scores have of segments, where they have anything.
fn segments<T: Real>(network: &Network, builder: &mut Builder<T>, layer: usize) -> Option<SegmentTerm> {
    let (names, width) = (network.blueprint.family.names(), network.blueprint.query_width());
    let mut learned = |part: &str, rows: usize| {
        let (name, init) = (names.of_layer(layer, part), Init::Normal(DEVIATION));
        let parameter = builder.parameters().add(name, &[rows, width], init);
        builder.lift(parameter, rows, width)
    };
    let [query, vectors] = names.segments;
    network
        .blueprint
        .has_segment_scores
        .then(|| SegmentTerm { query: learned(query, 1), vectors: learned(vectors, 2) })
}

fn softmax<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    mut joined: Value,
    (mut terms, layer): (Terms, usize),
    sizes: &Sizes,
) -> Result<Value> {
    let blueprint = &network.blueprint;
    let (heads, key_heads, mut dim) = (blueprint.heads, blueprint.key_heads, blueprint.head_dim);
    let nope = blueprint.nope_of(layer);
    if let Some(own) = nope.and_then(|nope| nope.temperature) {
        let columns = Columns { first: 0, heads, length: sizes.length, are_keys: false };
        if let Some(table) = own.table(dim, 0..sizes.length)? {
            builder.scale_heads(joined, table, columns);
        }
    }
    let is_polar = terms.polar.is_some();
    if let Some(PolarTerm { phases }) = terms.polar {
        // Twice as many numbers of queries and keys, which mean as much as before.
        terms.scale = terms.scale.or(Some(1.0 / (dim as f64).sqrt()));
        joined = builder.polar(joined, phases, Polar { heads, key_heads, head_dim: dim });
        dim *= 2;
    }
    let distant = match (&terms.rotation, terms.far) {
        (Some(rotation), Some(far)) => Some(distant(network, builder, joined, (rotation, far), sizes)?),
        _ => None,
    };
    if let Some(rotation) = &terms.rotation {
        let longest = network.positions(sizes);
        let mut turn = |first: usize, heads: usize, are_keys: bool| {
            let columns = Columns { first: first * dim, heads, length: sizes.length, are_keys };
            builder.rotate(joined, rotation, columns, longest)
        };
        if rotation.rope.xpos().is_some() || rotation.frequencies.len() > 1 {
            turn(0, heads, false)?;
            turn(heads, key_heads, true)?;
            if rotation.values {
                turn(heads + key_heads, key_heads, false)?;
            }
        } else {
            // Queries, keys and values stand side by side: one view of all their heads.
            turn(0, heads + key_heads + if rotation.values { key_heads } else { 0 }, false)?;
        }
    }
    if let Some(turns) = terms.turns {
        for (first, count) in [(0, heads), (heads, key_heads)] {
            let place = TurnedHeads {
                step: joined.width,
                offset: first * dim,
                heads: count,
                key_heads,
                head_dim: dim,
            };
            builder.turn(joined, turns, place);
        }
    }
    if blueprint.head_norms == HeadNorms::Bare && nope.is_none() {
        let epsilon = blueprint.norms.epsilon;
        joined =
            norm_heads(blueprint, builder, joined, |builder, heads, _| builder.plain_norm(heads, epsilon));
    }
    let mixed = builder.attend(Attend {
        joined,
        batch: sizes.batch,
        heads,
        key_heads,
        head_dim: dim,
        is_causal: blueprint.is_causal(),
        window: blueprint.window_of(layer),
        chunk: blueprint.chunk_of(layer),
        dropout: network.dropout,
        terms,
        distant,
    });
    Ok(if is_polar { builder.firsts(mixed) } else { mixed })
}

/// Queries and keys as they stand for those that are far away, side by side, `[tokens, (heads + key_heads) · head_dim]`, of joined
/// ones that have not turned yet.
fn distant<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    joined: Value,
    (rotation, far): (&Rotation, Far),
    sizes: &Sizes,
) -> Result<Value> {
    let Blueprint { heads, key_heads, head_dim, .. } = network.blueprint;
    let both = builder.columns(joined, 0, (heads + key_heads) * head_dim);
    let mut turn = |first: usize, heads: usize, of: fn(Far, usize) -> usize| {
        let columns = Columns { first: first * head_dim, heads, length: sizes.length, are_keys: first > 0 };
        let positions = (0..sizes.length).map(|place| of(far, place) as u32).collect();
        builder.rotate_to(both, &rotation.rope, columns, positions)
    };
    turn(0, heads, Far::of_query)?;
    turn(heads, key_heads, Far::of_key)?;
    Ok(both)
}

fn linear<T: Real>(
    network: &Network,
    form: LinearForm,
    builder: &mut Builder<T>,
    joined: Value,
    terms: Terms,
    sizes: &Sizes,
) -> Result<Value> {
    let (heads, width) = (network.blueprint.heads, network.blueprint.query_width());
    let [queries, keys, values] = [0, 1, 2].map(|part| builder.columns(joined, part * width, width));
    let longest = network.positions(sizes);
    let turn = |builder: &mut Builder<T>, x: Value, rotation: &Rotation, are_keys: bool| {
        builder.rotate(x, rotation, Columns { first: 0, heads, length: sizes.length, are_keys }, longest)
    };
    let turn_both = |builder: &mut Builder<T>, queries: Value, keys: Value| -> Result<()> {
        if let Some(rotation) = &terms.rotation {
            turn(builder, queries, rotation, false)?;
            turn(builder, keys, rotation, true)?;
        }
        if let Some(turns) = terms.turns {
            let head_dim = queries.width / heads;
            let place = TurnedHeads { step: queries.width, offset: 0, heads, key_heads: heads, head_dim };
            builder.turn(queries, turns, place);
            builder.turn(keys, turns, place);
        }
        Ok(())
    };
    if form.rotates_before {
        turn_both(builder, queries, keys)?;
    }
    let query_features = builder.features(queries, heads, sizes.length, form.queries, false)?;
    let key_features = builder.features(keys, heads, sizes.length, form.keys, true)?;
    let (mut rotated_queries, mut rotated_keys) = (query_features, key_features);
    if (terms.rotation.is_some() || terms.turns.is_some()) && !form.rotates_before {
        rotated_queries = builder.copy(query_features);
        rotated_keys = builder.copy(key_features);
        turn_both(builder, rotated_queries, rotated_keys)?;
    }
    if let Some(rotation) = terms.rotation.as_ref().filter(|rotation| rotation.values) {
        turn(builder, values, rotation, false)?;
    }
    let numerator = [rotated_queries, rotated_keys];
    let denominator = [query_features, key_features];
    Ok(builder.attend_linear(numerator, denominator, values, heads, sizes.length, sizes.is_causal))
}
