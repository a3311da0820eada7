//! Small networks with large parameters, so that every term of an encoding shows in what comes out.

use roformer::blueprint::{Blueprint, Dims, Direction};
use roformer::encoding::{Encoding, NoPositions};
use roformer::graph::{Batch, mix};
use roformer::network::{Laid, Network, Task};

/// One layer; sizes that no two things share.
pub fn network(encoding: Encoding, is_causal: bool) -> Network {
    let blueprint = Blueprint {
        head_dim: 8,
        wide: 14,
        direction: if is_causal { Direction::Causal } else { Direction::Both },
        encoding,
        ..Blueprint::plain(Dims { vocabulary: 11, width: 10, layers: 1, heads: 3 })
    };
    Network { blueprint, dropout: 0.0, task: Task::Language }
}

/// No encoding.
pub const NONE: Encoding = Encoding::None(NoPositions);

/// A number from −1 to 1.
pub fn unit(seed: u64, index: u64) -> f64 {
    (mix(mix(seed) ^ index) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Laid out, with parameters of the order of 1: as they are at first, tables are too small for their terms to show.
pub fn lay(network: &Network, batch: usize, length: usize, longest: usize) -> Laid<f64> {
    let mut laid = network.build::<f64>(batch, length, longest).unwrap();
    fill(&mut laid, 5);
    laid
}

/// Sets all parameters; what an encoding says of its own first values only moves a little.
pub fn fill(laid: &mut Laid<f64>, seed: u64) {
    let layout = laid.graph.layout().clone();
    layout.initialise(seed, laid.graph.parameters_mut());
    for entry in layout.entries() {
        let key = entry.name.bytes().fold(seed, |key, byte| mix(key ^ u64::from(byte)));
        let is_first = matches!(entry.init, roformer::graph::Init::Given(_));
        let is_norm = entry.name.contains("norm") && entry.name.ends_with("weight");
        let is_weight = entry.is_matrix() && !entry.name.contains("embed");
        let scale = if is_weight { 2.0 / (entry.shape[1] as f64).sqrt() } else { 0.7 };
        for (index, x) in laid.graph.parameters_mut()[entry.range.clone()].iter_mut().enumerate() {
            let random = unit(key, index as u64);
            *x = match () {
                () if is_first => *x * (1.0 + 0.2 * random),
                () if is_norm => 1.0 + 0.3 * random,
                () => scale * random,
            };
        }
    }
}

/// Tokens by chance, each to be predicted.
pub fn batch(network: &Network, tokens: usize, seed: u64) -> Batch {
    let id = |index: usize| (mix(seed ^ mix(index as u64)) % network.blueprint.vocabulary as u64) as u32;
    Batch {
        ids: (0..tokens).map(id).collect(),
        targets: (tokens..2 * tokens).map(id).collect(),
        ..Batch::default()
    }
}

/// What the last layer gives for a batch.
pub fn hidden(laid: &mut Laid<f64>, batch: &Batch) -> Vec<f64> {
    laid.set(batch.clone()).unwrap();
    laid.graph.forward();
    laid.graph.value(laid.hidden).to_vec()
}

/// A parameter by its name.
pub fn parameter<'a>(laid: &'a Laid<f64>, name: &str) -> &'a [f64] {
    let found = laid.graph.layout().find(name).unwrap_or_else(|| panic!("no parameter {name}"));
    &laid.graph.parameters()[found.range()]
}

/// The largest difference, as a part of the largest number.
pub fn error(got: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(got.len(), wanted.len());
    let largest = wanted.iter().fold(0f64, |largest, x| largest.max(x.abs()));
    let worst = got.iter().zip(wanted).map(|(got, wanted)| (got - wanted).abs()).fold(0.0, |a: f64, b| {
        // A difference that is no number counts as the worst of all.
        if b.is_nan() { f64::INFINITY } else { a.max(b) }
    });
    worst / largest
}

/// Rows' mean.
pub fn mean(rows: &[f64], width: usize) -> Vec<f64> {
    let count = rows.len() / width;
    (0..width).map(|i| rows.iter().skip(i).step_by(width).sum::<f64>() / count as f64).collect()
}
