//! Dropout: chance that is the same for the same seed and step, and gradients that know of it.

use super::net::{batch, lay, network};
use roformer::blueprint::{Blueprint, Dims, Direction};
use roformer::encoding::{Encoding, Rotary, Shaw};
use roformer::graph::Batch;
use roformer::network::{Laid, Mixing, Network};

fn dropping(encoding: Encoding, dropout: f64) -> Network {
    Network { dropout, ..network(encoding, true).with(|own| own.layers = 2) }
}

fn loss(laid: &mut Laid<f64>, batch: &Batch) -> f64 {
    laid.set(batch.clone()).unwrap();
    laid.graph.forward()
}

#[test]
fn dropout_is_a_function_of_seed_and_step() {
    for encoding in Encoding::all() {
        let name = encoding.name();
        let (network, plain) = (dropping(encoding.clone(), 0.1), dropping(encoding, 0.0));
        let [mut laid, mut again, mut without] =
            [&network, &network, &plain].map(|network| lay(network, 2, 12, 12));
        let at = |seed: u64, step: u64| Batch { seed, step, is_training: true, ..batch(&network, 24, 3) };
        let first = loss(&mut laid, &at(1, 1));
        let others = [at(1, 2), at(2, 1), at(2, 2), at(1, 0)].map(|batch| loss(&mut laid, &batch));
        assert!(others.iter().all(|other| (other - first).abs() > 1e-9), "{name}: {first}, {others:?}");
        // The same bits, in whatever order they are asked for, in a graph of its own, and going back.
        assert_eq!(loss(&mut laid, &at(1, 1)), first, "{name}");
        assert_eq!(loss(&mut again, &at(1, 1)), first, "{name}");
        assert!((again.graph.step(1.0) - first).abs() < 1e-13, "{name}");
        // Out of training there is none.
        let still = Batch { is_training: false, ..at(1, 1) };
        assert_eq!(loss(&mut laid, &still), loss(&mut without, &still), "{name}");
        assert_eq!(loss(&mut without, &at(1, 1)), loss(&mut without, &still), "{name}");
    }
}

/// Numbers that stay are scaled up: the mean over many steps is near the loss without dropout, and not exactly it.
#[test]
fn dropout_keeps_the_mean() {
    let network = dropping(Encoding::Rotary(Rotary::default()), 0.02);
    let mut laid = lay(&network, 2, 12, 12);
    let still = loss(&mut laid, &batch(&network, 24, 3));
    let steps = 300;
    let losses = (0..steps).map(|step| {
        let batch = Batch { step, is_training: true, ..batch(&network, 24, 3) };
        loss(&mut laid, &batch)
    });
    let mean = losses.sum::<f64>() / steps as f64;
    assert!((mean - still).abs() < 0.1 * still, "{mean}, {still} without");
}

/// The mask is fixed for a seed and a step: the loss is then a function like any other, and has its slopes.
#[test]
fn gradients_with_dropout_are_those_of_the_loss() {
    let dims = Dims { vocabulary: 11, width: 12, layers: 2, heads: 3 };
    let roformer = Blueprint::roformer(dims).unwrap();
    let shaw = Encoding::Shaw(Shaw { left: 3, right: 2, ..Shaw::default() });
    let rotary = Encoding::Rotary(Rotary { is_learned: true, ..Rotary::default() });
    let linear = Mixing::Linear(Default::default());
    for network in [
        dropping(shaw.clone(), 0.1),
        dropping(rotary.clone(), 0.1),
        dropping(shaw, 0.3).with(|own| {
            let (encoding, direction) = (own.encoding.clone(), Direction::Causal);
            *own = Blueprint { encoding, direction, ..roformer };
        }),
        dropping(rotary, 0.1).with(|own| own.mixing = linear),
    ] {
        let mut laid = lay(&network, 2, 9, 9);
        let batch = Batch { seed: 4, step: 9, is_training: true, ..batch(&network, 18, 3) };
        laid.set(batch).unwrap();
        laid.graph.clear();
        laid.graph.step(1.0);
        let gradients = laid.graph.gradients().to_vec();
        for entry in laid.graph.layout().entries().to_vec() {
            let len = entry.range.len();
            let largest = gradients[entry.range.clone()].iter().fold(1e-3f64, |a, x| a.max(x.abs()));
            // A few of each tensor.
            for index in [0, len / 3, 2 * len / 3, len - 1].map(|index| entry.range.start + index) {
                let step = 1e-5;
                let mut at = |x: f64| {
                    let kept = std::mem::replace(&mut laid.graph.parameters_mut()[index], x);
                    let loss = laid.graph.forward();
                    laid.graph.parameters_mut()[index] = kept;
                    (kept, loss)
                };
                let (kept, _) = at(0.0);
                let slope = (at(kept + step).1 - at(kept - step).1) / (2.0 * step);
                let error = (slope - gradients[index]).abs() / largest;
                let name = &entry.name;
                assert!(error < 1e-6, "{name}[{index}]: {}, not {slope}, {error:.1e}", gradients[index]);
            }
        }
    }
}
