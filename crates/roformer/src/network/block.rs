//! Embeddings and layers.

use super::Network;
use super::attention::mix;
use crate::blueprint::{Blueprint, HeadNorms, NormKind, NormPlace};
use crate::encoding::Sizes;
use crate::error::Result;
use crate::graph::{Across, Builder, Init, Value};
use crate::ops::Real;

/// The standard deviation of weights at first.
pub(super) const DEVIATION: f64 = 0.02;

/// The embeddings of the batch's tokens, with codes of positions where the encoding has them, `[batch · length, width]`.
pub(super) fn embed<T: Real>(blueprint: &Blueprint, builder: &mut Builder<T>, sizes: &Sizes) -> Value {
    let (names, tokens, width) = (blueprint.family.names(), sizes.batch * sizes.length, blueprint.embedding);
    // An encoder's are its decoder's, too.
    let known = builder.parameters().find(&format!("{}.weight", names.words));
    let mut add = |name: &str, rows: usize| {
        builder.parameters().add(format!("{name}.weight"), &[rows, width], Init::Normal(DEVIATION))
    };
    let words = match known {
        Some(words) => words,
        None => add(names.words, blueprint.vocabulary),
    };
    let types = (blueprint.types > 0).then(|| add(names.types, blueprint.types));
    if !names.carried.is_empty() {
        builder.parameters().add(names.carried, &[blueprint.width], Init::Normal(DEVIATION));
    }
    let mut x = builder.tokens(words, tokens, width);
    x = builder.times(x, blueprint.embedding_scale);
    if let Some(types) = types {
        let types = builder.types(types, tokens, width);
        x = builder.sum(x, types);
    }
    let encode = blueprint.encoding.as_encode::<T>();
    if blueprint.codes_first {
        x = encode.embed(builder, x, sizes);
    }
    let (project, is_first) = (width != blueprint.width, blueprint.projects_first);
    if project && is_first {
        x = linear(builder, x, names.project, blueprint.width, false);
    }
    if blueprint.norms.of_embeddings {
        x = norm(blueprint, builder, x, names.embedding_norm);
    }
    if project && !is_first {
        x = linear(builder, x, names.project, blueprint.width, true);
    }
    match blueprint.codes_first {
        true => x,
        false => encode.embed(builder, x, sizes),
    }
}

/// One layer, which also attends to what an encoder gave where there is one, `[batch · length, width]`.
pub(super) fn layer<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    (x, encoded): (Value, Option<Value>),
    layer: usize,
    sizes: &Sizes,
) -> Result<Value> {
    let (blueprint, dropout) = (&network.blueprint, network.dropout);
    let names = blueprint.family.names();
    let name = |part: &str| names.of_layer(layer, part);
    let (is_before, is_around) =
        (blueprint.norms.place.is_before(), blueprint.norms.place == NormPlace::Around);
    let (first, second) = (name(names.attention_norm), name(names.feed_forward_norm));
    // What a block adds to what it read.
    let behind = |builder: &mut Builder<T>, out: Value, after: &str| {
        let out = if is_around { norm(blueprint, builder, out, &name(after)) } else { out };
        builder.dropout(out, dropout)
    };

    let is_normed = is_before && !(layer == 0 && blueprint.norms.skips_first);
    let read = if is_normed { norm(blueprint, builder, x, &first) } else { x };
    let joined = join(blueprint, builder, read, layer);
    let mixed = mix(network, builder, [joined, read], layer, sizes)?;
    let parts = |kind: &str| names.behind(layer, kind, blueprint.width);
    let out = stack(builder, mixed, parts, blueprint.width, blueprint.biases.output);
    let out = behind(builder, out, names.after[0]);
    let mut sum = builder.sum(x, out);
    if let Some(encoded) = encoded {
        sum = across(network, builder, [sum, encoded], layer, sizes);
    }
    // Side by side, the feed-forward block reads what attention read.
    let (x, before) = match is_before {
        true => (sum, if blueprint.is_parallel { x } else { sum }),
        false => {
            let x = norm(blueprint, builder, sum, &first);
            (x, x)
        }
    };
    let read = match is_before {
        true if first == second => read,
        true => norm(blueprint, builder, before, &second),
        false => before,
    };
    let inner = feed_forward(blueprint, builder, read, layer);
    let out = linear(builder, inner, &name(names.down), blueprint.width, blueprint.biases.wide);
    let out = behind(builder, out, names.after[1]);
    let sum = builder.sum(x, out);
    Ok(if is_before { sum } else { norm(blueprint, builder, sum, &second) })
}

/// x and what attention to an encoder's output adds to it, both `[batch · length, width]`, with the norm before it.
fn across<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    [x, encoded]: [Value; 2],
    layer: usize,
    sizes: &Sizes,
) -> Value {
    let (blueprint, dropout) = (&network.blueprint, network.dropout);
    let (names, width, has_bias) =
        (blueprint.family.names(), blueprint.query_width(), blueprint.biases.queries);
    let [queries, keys, values, output, own_norm] = names.cross.map(|part| names.of_layer(layer, part));
    let read = norm(blueprint, builder, x, &own_norm);
    let queries = linear(builder, read, &queries, width, has_bias);
    let parts = |kind: &str| [&keys, &values].map(|part| (format!("{part}.{kind}"), width)).to_vec();
    let others = stack(builder, encoded, parts, 2 * width, has_bias);
    let mixed = builder.attend_across(Across {
        queries,
        others,
        batch: sizes.batch,
        heads: blueprint.heads,
        head_dim: blueprint.head_dim,
        scale: blueprint.scale,
        dropout,
    });
    let out = linear(builder, mixed, &output, blueprint.width, has_bias);
    let out = builder.dropout(out, dropout);
    builder.sum(x, out)
}

/// The first layer's output with the convolution over the embeddings, where there is one.
pub(super) fn convolve<T: Real>(
    network: &Network,
    builder: &mut Builder<T>,
    x: Value,
    embedded: Value,
    sizes: &Sizes,
) -> Value {
    let blueprint = &network.blueprint;
    let Some(own) = blueprint.convolution else { return x };
    let [product, after] = blueprint.family.names().convolution;
    let around = builder.neighbours(embedded, sizes.length, own.kernel);
    let made = linear(builder, around, product, blueprint.width, true);
    let made = builder.dropout(made, network.dropout);
    let made = builder.activation(made, own.activation);
    let sum = builder.sum(x, made);
    norm(blueprint, builder, sum, after)
}

/// Queries, keys and values side by side, `[tokens, (heads + 2 · key_heads) · head_dim]`.
fn join<T: Real>(blueprint: &Blueprint, builder: &mut Builder<T>, x: Value, layer: usize) -> Value {
    let names = blueprint.family.names();
    let (query, key) = (blueprint.query_width(), blueprint.key_width());
    let parts = |kind: &str| names.joined(layer, kind, [query, key, key]);
    let joined = stack(builder, x, parts, query + 2 * key, blueprint.biases.queries);
    match blueprint.head_norms {
        HeadNorms::Weighted => norm_heads(blueprint, builder, joined, |builder, heads, part| {
            norm(blueprint, builder, heads, &names.of_layer(layer, names.head_norms[part]))
        }),
        HeadNorms::Bare | HeadNorms::None => joined,
    }
}

/// Queries, keys and values side by side with each head of queries and of keys normed: `norm` is told which of the two.
pub(super) fn norm_heads<T: Real>(
    blueprint: &Blueprint,
    builder: &mut Builder<T>,
    joined: Value,
    norm: impl Fn(&mut Builder<T>, Value, usize) -> Value,
) -> Value {
    let (query, key) = (blueprint.query_width(), blueprint.key_width());
    let [queries, keys] = [(0, query), (query, key)].map(|(first, count)| {
        let part = builder.columns(joined, first, count).reshaped(blueprint.head_dim);
        norm(builder, part, usize::from(first > 0)).reshaped(count)
    });
    let values = builder.columns(joined, query + key, key);
    builder.beside([queries, keys, values])
}

fn feed_forward<T: Real>(blueprint: &Blueprint, builder: &mut Builder<T>, x: Value, layer: usize) -> Value {
    let (names, inner, has_bias) = (blueprint.family.names(), blueprint.wide, blueprint.biases.wide);
    let ups = |kind: &str| names.ups(layer, kind, inner, blueprint.is_gated);
    if blueprint.is_gated {
        let both = stack(builder, x, ups, 2 * inner, has_bias);
        return builder.gate(both, blueprint.activation);
    }
    let x = stack(builder, x, ups, inner, has_bias);
    builder.activation(x, blueprint.activation)
}

/// Linear layers with the same input, one below the other, as one: `parts` names their weights or their biases.
fn stack<T: Real>(
    builder: &mut Builder<T>,
    x: Value,
    parts: impl Fn(&str) -> Vec<(String, usize)>,
    outputs: usize,
    has_bias: bool,
) -> Value {
    let parameters = builder.parameters();
    let weight = parameters.add_joined(&parts("weight"), Some(x.width), &Init::Normal(DEVIATION));
    let bias = has_bias.then(|| parameters.add_joined(&parts("bias"), None, &Init::Constant(0.0)));
    builder.linear(x, weight, bias, outputs)
}

/// A linear layer with parameters of its own.
pub(super) fn linear<T: Real>(
    builder: &mut Builder<T>,
    x: Value,
    name: &str,
    outputs: usize,
    has_bias: bool,
) -> Value {
    let parameters = builder.parameters();
    let weight = parameters.add(format!("{name}.weight"), &[outputs, x.width], Init::Normal(DEVIATION));
    let bias = has_bias.then(|| parameters.add(format!("{name}.bias"), &[outputs], Init::Constant(0.0)));
    builder.linear(x, weight, bias, outputs)
}

/// The blueprint's norm, with parameters of its own where it has any.
pub(super) fn norm<T: Real>(blueprint: &Blueprint, builder: &mut Builder<T>, x: Value, name: &str) -> Value {
    let epsilon = blueprint.norms.epsilon;
    let mut add = |part: &str, first: f64| {
        builder.parameters().add(format!("{name}.{part}"), &[x.width], Init::Constant(first))
    };
    match blueprint.norms.kind {
        NormKind::Bare => builder.plain_norm(x, epsilon),
        NormKind::Rms | NormKind::RmsLessOne => {
            let weight = add("weight", 1.0);
            builder.rms_norm(x, weight, epsilon)
        }
        NormKind::Layer => {
            let (weight, bias) = (add("weight", 1.0), add("bias", 0.0));
            builder.layer_norm(x, weight, Some(bias), epsilon)
        }
        NormKind::LayerWeight => {
            let weight = add("weight", 1.0);
            builder.layer_norm(x, weight, None, epsilon)
        }
    }
}
