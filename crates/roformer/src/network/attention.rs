//! How tokens look at each other: softmax or linear attention, with what the encoding brings.

use super::{LinearForm, Mixing, Network};
use crate::encoding::{Sizes, Terms};
use crate::error::Result;
use crate::graph::{Attend, Builder, Columns, Turned, Value};
use crate::ops::Real;

/// Attention over joined queries, keys and values `[tokens, (heads + 2 · key_heads) · head_dim]`: `[tokens, heads · head_dim]`.
pub(super) fn mix<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    joined: Value,
    layer: usize,
    sizes: &Sizes,
) -> Result<Value> {
    let encode = network.blueprint.encoding.as_encode::<T>();
    match network.blueprint.mixing {
        Mixing::Softmax => {
            let terms = encode.terms(builder, layer, sizes);
            softmax(network, builder, joined, terms, sizes)
        }
        Mixing::Linear(form) => {
            let terms = encode.terms(builder, layer, &sizes.rotated(form));
            linear(network, form, builder, joined, terms, sizes)
        }
    }
}

fn softmax<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    joined: Value,
    terms: Terms,
    sizes: &Sizes,
) -> Result<Value> {
    let (heads, key_heads, dim) =
        (network.blueprint.heads, network.blueprint.key_heads, network.blueprint.head_dim);
    if let Some(turned) = &terms.rotation {
        let longest = network.positions(sizes);
        let mut turn = |first: usize, heads: usize, are_keys: bool| {
            let columns = Columns { first: first * dim, heads, length: sizes.length, are_keys };
            builder.rotate(joined, turned, columns, longest)
        };
        if turned.rope.xpos().is_some() {
            turn(0, heads, false)?;
            turn(heads, key_heads, true)?;
        } else {
            // Queries, keys and values stand side by side: one view of all their heads.
            turn(0, heads + key_heads + if turned.values { key_heads } else { 0 }, false)?;
        }
    }
    Ok(builder.attend(Attend {
        joined,
        batch: sizes.batch,
        heads,
        key_heads,
        head_dim: dim,
        is_causal: network.blueprint.is_causal(),
        dropout: network.dropout,
        terms,
    }))
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
    let turn = |builder: &mut Builder<T>, x: Value, turned: &Turned, are_keys: bool| {
        builder.rotate(x, turned, Columns { first: 0, heads, length: sizes.length, are_keys }, longest)
    };
    if let (Some(turned), true) = (&terms.rotation, form.rotates_before) {
        turn(builder, queries, turned, false)?;
        turn(builder, keys, turned, true)?;
    }
    let query_features = builder.features(queries, heads, sizes.length, form.queries, false)?;
    let key_features = builder.features(keys, heads, sizes.length, form.keys, true)?;
    let (mut turned_queries, mut turned_keys) = (query_features, key_features);
    if let (Some(turned), false) = (&terms.rotation, form.rotates_before) {
        turned_queries = builder.copy(query_features);
        turned_keys = builder.copy(key_features);
        turn(builder, turned_queries, turned, false)?;
        turn(builder, turned_keys, turned, true)?;
    }
    if let Some(turned) = terms.rotation.as_ref().filter(|turned| turned.values) {
        turn(builder, values, turned, false)?;
    }
    let numerator = [turned_queries, turned_keys];
    let denominator = [query_features, key_features];
    Ok(builder.attend_linear(numerator, denominator, values, heads, sizes.length, sizes.is_causal))
}
