//! Linear attention with every encoding that it can carry, against sums over all pairs.

use super::naive;
use super::net::{NONE, batch, error, hidden, lay, network};
use roformer::encoding::{Encoding, Hierarchical, ReceptiveField, Rotary};
use roformer::graph::{Batch, FeatureMap};
use roformer::network::{LinearForm, Mixing, Network};
use rope::{Pairing, Schedule};

const PAPER: LinearForm =
    LinearForm { queries: FeatureMap::Elu, keys: FeatureMap::Elu, rotates_before: false };
const BEFORE: LinearForm = LinearForm { rotates_before: true, ..PAPER };
const SOFT: LinearForm = LinearForm { queries: FeatureMap::Softmax, keys: FeatureMap::Exp, ..PAPER };

fn linear(encoding: Encoding, is_causal: bool, form: LinearForm) -> Network {
    network(encoding, is_causal).with(|own| own.mixing = Mixing::Linear(form))
}

fn check(encoding: &Encoding, form: LinearForm) {
    for is_causal in [false, true].into_iter().filter(|&causal| causal || !encoding.is_causal_only()) {
        let network = linear(encoding.clone(), is_causal, form);
        for length in [7, 70] {
            let mut laid = lay(&network, 2, length, length);
            // The keys of the second text end early; every query sees its first.
            let mask = (0..2 * length).map(|index| index < 2 * length - 2).collect();
            for mask in [Vec::new(), mask] {
                let batch = Batch { mask, ..batch(&network, 2 * length, 3) };
                let got = hidden(&mut laid, &batch);
                let far = error(&got, &naive::hidden(&laid, &network, &batch, length));
                assert!(far <= 1e-10, "{length} tokens, {far:.1e}: {network:?}");
            }
        }
    }
}

#[test]
fn linear_attention_carries_what_it_can() {
    for encoding in Encoding::all() {
        let name = encoding.name();
        let biases = ["t5", "alibi", "kerple", "sandwich", "fire"];
        let tables = ["shaw", "xlnet", "deberta"];
        let others = [
            ("forget", "shrink token by token"),
            ("contextual", "by gates of each query and each key"),
            ("path", "a map of every token"),
            ("pope", "features of its own"),
            ("layers", "through a window"),
            ("extend", "know how far each is"),
        ];
        let other = others.iter().find(|(known, _)| *known == name);
        if biases.contains(&name) || tables.contains(&name) || other.is_some() {
            for form in [PAPER, BEFORE, SOFT] {
                let built = linear(encoding.clone(), true, form).build::<f64>(1, 4, 4);
                let message = built.err().expect(name).to_string();
                assert!(message.contains(name), "{message}");
                let reason = match other {
                    Some((_, reason)) => reason,
                    None if biases.contains(&name) => "exp(B_ij)",
                    None => "differ for every",
                };
                assert!(message.contains(reason), "{message}");
            }
            continue;
        }
        check(&encoding, PAPER);
        check(&encoding, SOFT);
        // xPos scales queries and keys apart: before a feature map that is no longer a factor of the distance.
        if name != "xpos" {
            check(&encoding, BEFORE);
        }
    }
}

#[test]
fn linear_attention_carries_settings_of_rotary() {
    let plain = Rotary { values: true, ..Rotary::default() };
    for rotary in [
        Rotary { pairing: Pairing::Half, rotary_dim: Some(4), ..plain.clone() },
        Rotary { is_learned: true, base: 50.0, ..plain.clone() },
        Rotary { schedule: Schedule::Linear { factor: 3.0 }, ..plain },
    ] {
        check(&Encoding::Rotary(rotary.clone()), PAPER);
        check(&Encoding::Rotary(rotary.clone()), BEFORE);
        if !rotary.is_learned {
            check(&Encoding::ReceptiveField(ReceptiveField { rotary, alpha: 0.4, rho: 0.3 }), PAPER);
        }
    }
    check(&Encoding::Hierarchical(Hierarchical { positions: Some(9), ..Hierarchical::default() }), PAPER);
}

/// The paper's form sees distances alone; turned before the feature map, positions show.
#[test]
fn the_papers_form_sees_distances_alone() {
    let favor = FeatureMap::Favor { features: 12, seed: 4 };
    let random = LinearForm { queries: favor, keys: favor, rotates_before: false };
    for (form, is_same) in [(PAPER, true), (SOFT, true), (random, true), (BEFORE, false)] {
        for is_causal in [false, true] {
            let network = linear(Encoding::Rotary(Rotary::default()), is_causal, form);
            let mut laid = lay(&network, 2, 9, 30);
            let at = |first: u32| Batch { positions: (first..first + 9).collect(), ..batch(&network, 18, 6) };
            let (here, there) = (hidden(&mut laid, &at(0)), hidden(&mut laid, &at(5)));
            let far = error(&there, &here);
            assert!(if is_same { far < 1e-12 } else { far > 1e-4 }, "{form:?}: {far:.1e}");
            // And it does see them.
            let spread = Batch { positions: (0..9).map(|index| 2 * index).collect(), ..at(0) };
            assert!(error(&hidden(&mut laid, &spread), &here) > 1e-4);
        }
    }
}

/// Random features are as many as one likes, and turn as well as others; they give finite losses and gradients.
#[test]
fn random_features_turn() {
    for features in [4, 8, 12, 26] {
        let favor = FeatureMap::Favor { features, seed: 4 };
        let form = LinearForm { queries: favor, keys: favor, rotates_before: false };
        let rotary = linear(Encoding::Rotary(Rotary::default()), true, form);
        let mut laid = lay(&rotary, 2, 20, 20);
        let batch = batch(&rotary, 40, 6);
        let turned = hidden(&mut laid, &batch);
        assert!(laid.graph.step(1.0).is_finite());
        assert!(laid.graph.gradients().iter().all(|x| x.is_finite()));
        let still = hidden(&mut lay(&linear(NONE, true, form), 2, 20, 20), &batch);
        assert!(error(&turned, &still) > 1e-3);
    }
}

/// What cannot be had says so, rather than turning nothing or breaking in the first step.
#[test]
fn features_that_do_not_fit_are_refused() {
    let favor = |features: usize| FeatureMap::Favor { features, seed: 4 };
    let both = LinearForm { queries: favor(12), keys: favor(12), rotates_before: false };
    let given = Rotary { schedule: Schedule::Given(vec![1.0, 0.5, 0.2, 0.1]), ..Rotary::default() };
    let values = Rotary { values: true, ..Rotary::default() };
    for (encoding, form, value) in [
        (NONE, LinearForm { keys: favor(12), ..PAPER }, "12"),
        (NONE, LinearForm { queries: favor(7), keys: favor(7), ..PAPER }, "7"),
        (Encoding::Rotary(given), both, "4"),
        (Encoding::Rotary(values), both, "12"),
    ] {
        let network = linear(encoding, true, form);
        let message = network.build::<f64>(1, 4, 4).err().map(|error| error.to_string());
        assert!(message.as_ref().is_some_and(|message| message.contains(value)), "{message:?}: {network:?}");
    }
}
