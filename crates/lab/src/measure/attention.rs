//! How far a model looks: the mean weight of attention by distance, layer by layer.
//!
//! Attention gives Σ_j a_ij·v_j. Where v_j is 1 in a place of its own and 0 elsewhere, what it gives are the weights a_ij
//! themselves: so they are measured with the code that trains, whatever terms an encoding brings.

use super::super::run::{Settings, Trained, give, join};
use super::super::tasks::{Example, Task};
use super::{test_example, test_positions};
use roformer::Result;
use roformer::blueprint::Blueprint;
use roformer::encoding::Sizes;
use roformer::graph::{Builder, Graph, Init, Value};
use roformer::network::{Mixing, Network};

/// Texts that are looked at.
const TEXTS: usize = 16;

/// The mean of a_(i, i−r) over texts, heads and all queries i that have a key at the distance r, `[layer][r]`, for texts of
/// the longest trained length. Empty for linear attention, whose weights are no shares of anything.
pub fn by_distance(trained: &Trained, settings: &Settings, task: &dyn Task) -> Result<Vec<Vec<f64>>> {
    if trained.network.blueprint.mixing != Mixing::Softmax {
        return Ok(Vec::new());
    }
    let (tokens, longest) = (task.tokens(settings.train_length), settings.longest(task));
    let example = |row| test_example(settings, task, settings.train_length, row);
    let examples: Vec<Example> = (0..TEXTS as u64).map(example).collect();
    let mut batch = join(&examples, tokens);
    let encoding = &trained.network.blueprint.encoding;
    batch.positions = test_positions(encoding, settings, task, settings.train_length, 0);
    let mut layers = Vec::new();
    for layer in 0..trained.network.blueprint.layers {
        // What enters a layer is what a model of as many layers as are before it gives.
        let below = trained.network.with(|own| own.layers = layer);
        let mut laid = trained.lay_out(&below, TEXTS, tokens, longest)?;
        laid.set(batch.clone())?;
        laid.graph.forward();
        let hidden: Vec<f64> =
            laid.graph.value(laid.hidden).iter().map(|&number| f64::from(number)).collect();
        let mut means = vec![0.0; tokens];
        for first in (0..tokens).step_by(trained.network.blueprint.head_dim) {
            let (mut graph, weights) = weights(trained, layer, &hidden, [tokens, longest, first])?;
            graph.batch().positions = batch.positions.clone();
            graph.forward();
            add(graph.value(weights), &trained.network, [tokens, first], &mut means);
        }
        let heads = (TEXTS * trained.network.blueprint.heads) as f64;
        let mean = |(distance, sum): (usize, f64)| sum / (heads * (tokens - distance) as f64);
        layers.push(means.into_iter().enumerate().map(mean).collect());
    }
    Ok(layers)
}

/// Attention of one layer over `hidden` `[texts · tokens, width]`, with values that make it tell its weights for the keys
/// from `first` on, as many as a head has features: `[texts · tokens, heads · head_dim]`.
fn weights(
    trained: &Trained,
    layer: usize,
    hidden: &[f64],
    [tokens, longest, first]: [usize; 3],
) -> Result<(Graph<f32>, Value)> {
    let network = &trained.network;
    let Blueprint { width, heads, head_dim, .. } = network.blueprint;
    let sizes = Sizes {
        batch: TEXTS,
        length: tokens,
        longest,
        width,
        codes: width,
        heads,
        key_heads: heads,
        head_dim,
        is_causal: true,
        has_biases: true,
    };
    let mut builder = Builder::<f32>::default();
    let x = builder.constant(hidden.len() / width, width, hidden);
    let mut add = |part: &str, shape: &[usize]| {
        builder.parameters().add(format!("blocks.layers.{layer}.{part}"), shape, Init::Constant(0.0))
    };
    let (norm, shift) = (add("norm1.weight", &[width]), add("norm1.bias", &[width]));
    let joined = 3 * heads * head_dim;
    let weight = add("self_attn.in_proj_weight", &[joined, width]);
    let bias = add("self_attn.in_proj_bias", &[joined]);
    let read = builder.layer_norm(x, norm, Some(shift), network.blueprint.norms.epsilon);
    let projected = builder.linear(read, weight, Some(bias), joined);
    let mut marks = vec![0.0; tokens * joined];
    for key in first..tokens.min(first + head_dim) {
        for head in 0..heads {
            marks[key * joined + (2 * heads + head) * head_dim + key - first] = 1.0;
        }
    }
    let marks = builder.constant(tokens, joined, &marks);
    let projected = builder.sum(projected, marks);
    let out = network.attend(&mut builder, [projected, read], layer, &sizes)?;
    let mut graph = builder.build()?;
    give(&trained.layout, &trained.parameters, &mut graph);
    // The values are the marks alone.
    let parameters = graph.parameters_mut();
    let values = 2 * heads * head_dim;
    parameters[weight.range()][values * width..].fill(0.0);
    parameters[bias.range()][values..].fill(0.0);
    Ok((graph, out))
}

/// Adds weights of keys from `first` on to the sums by distance.
fn add(weights: &[f32], network: &Network, [tokens, first]: [usize; 2], sums: &mut [f64]) {
    let Blueprint { heads, head_dim, .. } = network.blueprint;
    for (row, weights) in weights.chunks(heads * head_dim).enumerate() {
        let query = row % tokens;
        for weights in weights.chunks(head_dim) {
            for (key, &weight) in (first..=query).zip(weights) {
                sums[query - key] += f64::from(weight);
            }
        }
    }
}
