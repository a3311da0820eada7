//! `roformer bench train`: steps of training (forward, backward, AdamW) beside the same matrix products alone.

#[cfg(feature = "cuda")]
pub mod cuda;

use super::{median, quantile, seconds};
use rayon::prelude::*;
use roformer::blueprint::{Blueprint, Dims, Direction};
use roformer::graph::{Batch, mix};
use roformer::network::{Laid, Network, Task};
use roformer::ops::multiply::{Strided, Threads, multiply};
use roformer::ops::optimizer::{AdamW, State};
use roformer::{Error, Result};
use std::ops::Range;

/// Batch, length, width, layers and vocabulary of each line: those of `bench/peers/train_cpu.py`.
pub const SHAPES: [[usize; 5]; 4] =
    [[32, 40, 64, 2, 64], [16, 128, 128, 4, 64], [12, 64, 128, 4, 65], [4, 128, 256, 6, 12_000]];

/// Features of a head.
const HEAD_DIM: usize = 32;

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Batch, length, width, layers and vocabulary.
    pub shape: [usize; 5],
    /// Milliseconds of a step: the median.
    pub ms: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// Milliseconds of the step's matrix products alone.
    pub floor_ms: f64,
    /// Tokens per second.
    pub tokens_s: f64,
}

/// Measures every shape on the current rayon pool; `report` sees each line as it comes. A loss that does not fall is an
/// error.
pub fn run(mut report: impl FnMut(Sample)) -> Result<()> {
    for shape in SHAPES {
        let mut trainer = Trainer::new(shape)?;
        let first = trainer.step();
        let warm = (0..3).map(|_| trainer.step()).fold(first, |_, loss| loss);
        let repeats = (40_000 / (shape[0] * shape[1] * shape[3])).clamp(7, 31);
        let times: Vec<f64> = (0..repeats)
            .map(|_| {
                seconds(|| {
                    trainer.step();
                })
            })
            .collect();
        let last = trainer.step();
        if !(last < warm && warm < first) {
            let value = format!("{first}, then {warm}, then {last}");
            return Err(Error::input("the loss of a timed model", value, "one that falls from step to step"));
        }
        let floors: Vec<f64> = (0..repeats.min(15)).map(|_| seconds(|| trainer.products())).collect();
        let time = median(&times);
        report(Sample {
            shape,
            ms: time * 1e3,
            quartiles: (quantile(&times, 0.25) * 1e3, quantile(&times, 0.75) * 1e3),
            floor_ms: median(&floors) * 1e3,
            tokens_s: (shape[0] * shape[1]) as f64 / time,
        });
    }
    Ok(())
}

/// The network of a line, from its batch, length, width, layers and vocabulary.
pub fn network([_, _, width, layers, vocabulary]: [usize; 5]) -> Network {
    let plain = Blueprint::plain(Dims { vocabulary, width, layers, heads: width / HEAD_DIM });
    let blueprint = Blueprint { direction: Direction::Both, ..plain };
    Network { blueprint, dropout: 0.0, task: Task::Language }
}

/// A model that trains on one batch.
struct Trainer {
    laid: Laid<f32>,
    shape: [usize; 5],
    first: Vec<f32>,
    second: Vec<f32>,
    ranges: Vec<(Range<usize>, bool)>,
    steps: u64,
    /// Memory for the products alone.
    numbers: [Vec<f32>; 3],
}

impl Trainer {
    fn new(shape: [usize; 5]) -> Result<Self> {
        let [batch, length, width, _, vocabulary] = shape;
        let mut laid = network(shape).build::<f32>(batch, length, length)?;
        let layout = laid.graph.layout().clone();
        layout.initialise(1, laid.graph.parameters_mut());
        let ids = |seed: u64| {
            (0..batch * length).map(|index| (mix(seed ^ index as u64) % vocabulary as u64) as u32).collect()
        };
        laid.set(Batch { ids: ids(1 << 32), targets: ids(2 << 32), ..Batch::default() })?;
        let len = layout.len();
        let (tokens, widest) = (batch * length, vocabulary.max(4 * width));
        Ok(Trainer {
            laid,
            shape,
            first: vec![0.0; len],
            second: vec![0.0; len],
            ranges: vec![(0..len, true)],
            steps: 0,
            numbers: [
                tokens * widest,
                tokens.max(widest) * 4 * width,
                (tokens * widest).max(widest * 4 * width),
            ]
            .map(|len| vec![0.5; len]),
        })
    }

    fn step(&mut self) -> f64 {
        self.laid.graph.clear();
        let loss = self.laid.graph.step(1.0);
        self.steps += 1;
        let adam = AdamW::default();
        let (parameters, gradients) = self.laid.graph.both_mut();
        let mut state = State { parameters, gradients, first: &mut self.first, second: &mut self.second };
        adam.apply(&adam.at(self.steps, 1e-3, 1.0), &mut state, &self.ranges);
        loss
    }

    /// The matrix products of a step: each linear layer forward, back to its input and to its weight; attention's two
    /// forward and five backward.
    fn products(&mut self) {
        let [batch, length, width, layers, vocabulary] = self.shape;
        let tokens = batch * length;
        let [a, b, c] = &mut self.numbers;
        let mut linear = |inputs: usize, outputs: usize| {
            let sizes = [tokens, outputs, inputs];
            let (x, w) = (Strided::rows(a, inputs), Strided::rows(b, inputs));
            multiply((c, outputs), x, w.transposed(), sizes, 1.0, false, Threads::All);
            let (dy, w) = (Strided::rows(a, outputs), Strided::rows(b, inputs));
            multiply((c, inputs), dy, w, [tokens, inputs, outputs], 1.0, false, Threads::All);
            let (dy, x) = (Strided::rows(a, outputs).transposed(), Strided::rows(b, inputs));
            multiply((c, inputs), dy, x, [outputs, inputs, tokens], 1.0, false, Threads::All);
        };
        for _ in 0..layers {
            for (inputs, outputs) in
                [(width, 3 * width), (width, width), (width, 4 * width), (4 * width, width)]
            {
                linear(inputs, outputs);
            }
        }
        linear(width, vocabulary);
        let (rows, scores) = (length * HEAD_DIM, length * length);
        let heads = batch * width / HEAD_DIM;
        (0..layers * heads).into_par_iter().for_each_init(
            || (vec![0.5f32; rows], vec![0.5f32; scores]),
            |(vectors, scores), _| {
                let q = vec_view(vectors);
                let sizes = [length, length, HEAD_DIM];
                for _ in 0..3 {
                    multiply((scores, length), q, q.transposed(), sizes, 1.0, false, Threads::One);
                }
                let input = vectors.clone();
                for _ in 0..4 {
                    let (p, v) = (Strided::rows(scores, length), vec_view(&input));
                    multiply((vectors, HEAD_DIM), p, v, [length, HEAD_DIM, length], 0.0, false, Threads::One);
                }
            },
        );
    }
}

fn vec_view(vectors: &[f32]) -> Strided<'_, f32> {
    Strided::rows(vectors, HEAD_DIM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// The networks that are measured, with the weights and ids they have here, begin with PyTorch's loss in f64: that of
    /// `golden/training_first.py`.
    #[test]
    fn first_losses_are_those_of_pytorch() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/training/cases.json");
        let cases: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let list = cases["first"].as_array().unwrap();
        assert_eq!(list.len(), SHAPES.len());
        for (first, shape @ [batch, length, ..]) in list.iter().zip(SHAPES) {
            assert_eq!(first["shape"], serde_json::json!(shape));
            let wanted = first["loss"].as_f64().unwrap();
            let mut trainer = Trainer::new(shape).unwrap();
            let single = trainer.laid.graph.forward();
            // The same numbers in f64. Here a first loss is near ln(vocabulary) whatever the layers do: by less than 1e-8
            // of it they show.
            let mut double = network(shape).build::<f64>(batch, length, length).unwrap();
            let parameters = double.graph.parameters_mut().iter_mut().zip(trainer.laid.graph.parameters());
            parameters.for_each(|(double, &single)| *double = f64::from(single));
            double.set(trainer.laid.graph.last_batch().clone()).unwrap();
            let exact = double.graph.forward();
            println!("{shape:?}: {wanted}; {:.1e} in f64, {:.1e} in f32", exact - wanted, single - wanted);
            assert!((exact - wanted).abs() <= 1e-10 * wanted, "{shape:?}: {exact}, not {wanted}");
            // Every row's logarithm of a sum is rounded to f32; their mean is off by some units at most.
            assert!(
                (single - wanted).abs() <= 4.0 * f64::from(f32::EPSILON) * wanted,
                "{shape:?}: {single} in f32"
            );
        }
    }
}
