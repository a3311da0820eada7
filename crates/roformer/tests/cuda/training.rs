//! Training steps against the CPU's: losses, what the last layer gives, all gradients, and twenty steps.

use crate::common::{encodings, families, gpus};
use roformer::blueprint::{Blueprint, Dims, Direction, HeadKind, LinearForm, Mixing, Output};
use roformer::encoding::Encoding;
use roformer::graph::{Batch, FeatureMap, IGNORE, mix};
use roformer::network::{Network, Task};
use roformer::ops::optimizer::AdamW;
use roformer::ops::{Activation, Arithmetic, Cuda};
use roformer::train::{Learner, Update};
use roformer::{Device, Error, engine};

fn network(encoding: Encoding) -> Network {
    formed("plain", encoding, true)
}

const DIMS: Dims = Dims { vocabulary: 13, width: 32, layers: 2, heads: 2 };

/// A network of another form.
fn formed(form: &str, encoding: Encoding, is_causal: bool) -> Network {
    let form = match form {
        "roformer" => Blueprint::roformer(DIMS).unwrap(),
        "llama" => Blueprint::llama(DIMS).unwrap(),
        _ => Blueprint::plain(DIMS),
    };
    let blueprint = Blueprint { wide: 64, direction: direction(is_causal), encoding, ..form };
    Network { blueprint, dropout: 0.0, task: Task::Language }
}

fn direction(is_causal: bool) -> Direction {
    if is_causal { Direction::Causal } else { Direction::Both }
}

fn encoding(name: &str) -> Encoding {
    Encoding::all().into_iter().find(|encoding| encoding.name() == name).unwrap()
}

/// A batch for a network, with padding, places that do not count, and segments where the form has them.
fn batch(network: &Network, [texts, length]: [usize; 2], seed: u64, is_masked: bool) -> Batch {
    let draw = |salt: u64, index: usize, limit: usize| {
        (mix(mix(seed ^ salt << 32) ^ index as u64) % limit as u64) as u32
    };
    let tokens = texts * length;
    let mask: Vec<bool> =
        (0..tokens).map(|token| token % length == 0 || !draw(4, token, 5).is_multiple_of(5)).collect();
    let target = |index: usize, classes: usize| match draw(3, index, 4) {
        0 if index > 0 => IGNORE,
        _ => draw(2, index, classes),
    };
    let targets = match network.task {
        Task::Language => (0..tokens).map(|token| target(token, network.blueprint.vocabulary)).collect(),
        Task::Token(classes) => (0..tokens).map(|token| target(token, classes)).collect(),
        Task::Text(classes) => (0..texts).map(|text| target(text, classes)).collect(),
        Task::Similarity => Vec::new(),
    };
    let kinds = if network.blueprint.has_segment_scores { 3 } else { network.blueprint.types };
    let types = match kinds {
        0 => Vec::new(),
        types => (0..tokens).map(|token| draw(5, token, types)).collect(),
    };
    let positions =
        network.blueprint.encoding.as_encode::<f32>().positions(length, seed, 1).unwrap_or_default();
    Batch {
        ids: (0..tokens).map(|token| draw(1, token, network.blueprint.vocabulary)).collect(),
        types,
        targets,
        mask: if is_masked { mask } else { Vec::new() },
        positions,
        seed,
        step: 3,
        is_training: true,
        ..Batch::default()
    }
}

fn learner(device: &Device, network: &Network, size: [usize; 2]) -> Learner {
    let mut learner = Learner::new(device, network, size, size[1]).unwrap();
    let layout = learner.layout().clone();
    let parameters = learner.parameters_mut().unwrap();
    layout.initialise(7, parameters);
    // Larger weights than those that training begins with: what is small hides mistakes. Of wide rows not as much: scores grow with the
    // width, and softmax makes of a score's rounding what it would of a mistake.
    let more = 8.0 * (64.0 / network.blueprint.width as f32).sqrt().min(1.0);
    for entry in layout.entries().iter().filter(|entry| entry.is_matrix()) {
        let is_field = entry.name.starts_with("position.") && entry.range.len() < 40;
        let scale = if is_field { 1.0 } else { more };
        parameters[entry.range.clone()].iter_mut().for_each(|number| *number *= scale);
    }
    learner
}

/// The largest difference of two lists, and the largest number of the second.
fn difference(a: &[f32], b: &[f32]) -> (f32, f32) {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| if a.is_finite() { (a - b).abs() } else { f32::INFINITY });
    (differences.fold(0.0, f32::max), b.iter().fold(0.0, |most, number| number.abs().max(most)))
}

/// What rounding may make of numbers, relatively.
fn bound(gpu: &Cuda) -> f32 {
    match gpu.arithmetic() {
        Arithmetic::F32 => 1e-4,
        Arithmetic::Tf32 => 1e-2,
        Arithmetic::Bf16 => 6e-2,
    }
}

/// Checks a tensor: by its largest number in `f32`, and by its norm where factors are rounded, since a number near 0 may then get
/// the other slope of a ReLU.
fn close(what: &str, gpu: &Cuda, own: &[f32], known: &[f32], least: f32) {
    let (off, most) = match gpu.arithmetic() {
        Arithmetic::F32 => difference(own, known),
        _ => {
            let norm = |list: &mut dyn Iterator<Item = f32>| list.map(|x| x * x).sum::<f32>().sqrt();
            let off = norm(&mut own.iter().zip(known).map(|(a, b)| a - b));
            (off, norm(&mut known.iter().copied()))
        }
    };
    let most = most.max(least);
    assert!(off <= bound(gpu) * most, "{what}: {off:e} of {most:e}");
}

/// Compares a step without a change, on every GPU: directly, then recorded, then replayed, three times the same.
fn compare(what: &str, network: &Network, size: [usize; 2], is_masked: bool) {
    compare_on(&gpus(), what, network, size, is_masked);
}

fn compare_on(gpus: &[Cuda], what: &str, network: &Network, size: [usize; 2], is_masked: bool) {
    let still = Update { adam: AdamW::default(), step: 1, rate: 0.0, clip: 1.0 };
    let given = batch(network, size, 5, is_masked);
    let mut known = learner(&Device::default(), network, size);
    let expected = known.step(&still, 1, |_, batch| *batch = given.clone()).unwrap();
    let slopes = known.gradients().unwrap();
    let quiet = Batch { is_training: false, ..given.clone() };
    let evaluated = known.evaluate(|batch| *batch = quiet.clone()).unwrap();
    let hidden = known.outline().hidden;
    let seen = known.value(hidden).unwrap().to_vec();
    let largest = slopes.iter().fold(0f32, |most, slope| slope.abs().max(most));
    for gpu in gpus {
        let (what, bound) = (format!("{what} in {}", gpu.arithmetic().name()), bound(gpu));
        let mut learner = learner(&Device::Cuda(gpu.clone()), network, size);
        for turn in 0..3 {
            let found = learner.step(&still, 1, |_, batch| *batch = given.clone());
            let found = found.unwrap_or_else(|error| panic!("{what}: turn {turn}: {error}"));
            let off = |a: f64, b: f64| ((a - b).abs() / b.abs().max(1e-3)) as f32;
            assert!(off(found.loss, expected.loss) < bound, "{what}: loss {found:?}, not {expected:?}");
            assert!(off(found.norm, expected.norm) < bound, "{what}: {found:?}, not {expected:?}");
            let own = learner.gradients().unwrap();
            for entry in learner.layout().clone().entries() {
                let range = entry.range.clone();
                // A tensor whose gradients are all but 0 is judged by the others.
                let what = format!("{what}: gradient of {}", entry.name);
                let least = match gpu.arithmetic() {
                    Arithmetic::F32 => largest,
                    _ => expected.norm as f32,
                };
                close(&what, gpu, &own[range.clone()], &slopes[range], least * 1e-2);
            }
            let loss = learner.evaluate(|batch| *batch = quiet.clone());
            let loss = loss.unwrap_or_else(|error| panic!("{what}: turn {turn}: {error}"));
            assert!(off_by(loss, evaluated) < bound, "{what}: evaluated as {loss}, not {evaluated}");
            close(&format!("{what}: hidden states"), gpu, learner.value(hidden).unwrap(), &seen, 0.0);
        }
        // Nothing has changed.
        learner.fetch().unwrap();
        assert_eq!(learner.parameters(), known.parameters(), "{what}");
    }
}

fn off_by(a: f64, b: f64) -> f32 {
    ((a - b).abs() / b.abs().max(1e-3)) as f32
}

/// Every kernel once, in every arithmetic: what compute-sanitizer is given.
#[test]
fn a_step_of_everything_small() {
    let gpus = gpus();
    for encoding in encodings() {
        let network = network(encoding).with(|own| own.layers = 1);
        compare_on(&gpus, network.blueprint.encoding.name(), &network, [2, 5], true);
    }
    // More than one tile of attention, and terms in it.
    for name in ["rotary", "shaw", "deberta"] {
        let network = Network { dropout: 0.1, ..network(encoding(name)).with(|own| own.layers = 1) };
        compare_on(&gpus, &format!("{name} of 70 tokens"), &network, [1, 70], false);
    }
    for (form, task) in [("roformer", Task::Similarity), ("llama", Task::Text(3))] {
        let network = formed(form, encoding("rotary"), form == "llama");
        let network = Network { task, ..network.with(|own| own.layers = 1) };
        compare_on(&gpus, &format!("{task:?}"), &network, [4, 6], true);
    }
    let favor = FeatureMap::Favor { features: 8, seed: 3 };
    for (queries, keys) in
        [(FeatureMap::Elu, FeatureMap::Elu), (FeatureMap::Softmax, FeatureMap::Exp), (favor, favor)]
    {
        let mixing = Mixing::Linear(LinearForm { queries, keys, rotates_before: false });
        let network = network(encoding("rotary")).with(|own| (own.layers, own.mixing) = (1, mixing));
        compare_on(&gpus, &format!("{queries:?}"), &network, [2, 7], true);
    }
}

#[test]
fn every_encoding() {
    for encoding in encodings() {
        let name = encoding.name();
        compare(&format!("{name}, causal"), &network(encoding.clone()), [3, 9], true);
        if !encoding.is_causal_only() {
            let network = network(encoding).with(|own| own.direction = Direction::Both);
            compare(&format!("{name}, both ways"), &network, [2, 21], false);
        }
    }
}

#[test]
fn an_encoding_for_cpus_says_so() {
    for gpu in gpus() {
        for name in [
            "fire",
            "forget",
            "contextual",
            "path",
            "abacus",
            "coupled",
            "pope",
            "selective",
            "extend",
            "fope",
            "axial",
        ] {
            let made = Learner::new(&Device::Cuda(gpu.clone()), &network(encoding(name)), [2, 5], 5);
            let said = made.err().unwrap().to_string();
            assert!(said.contains(name) && said.contains("use the CPU"), "{said}");
        }
    }
}

/// A model with soft caps runs on a GPU and is not trained there.
#[test]
fn soft_caps_are_for_cpus() {
    let gemma = families().into_iter().find(|own| own.family.model_type() == "gemma2").unwrap();
    let of_output = Output { cap: Some(30.0), ..gemma.output };
    for gpu in gpus() {
        for blueprint in [
            Blueprint { score_cap: Some(50.0), head: HeadKind::None, ..gemma.clone() },
            Blueprint { output: of_output, head: HeadKind::None, ..gemma.clone() },
        ] {
            let network = Network { blueprint, dropout: 0.0, task: Task::Language };
            let said =
                Learner::new(&Device::Cuda(gpu.clone()), &network, [2, 5], 5).err().unwrap().to_string();
            assert!(said.contains("soft cap") && said.contains("use the CPU"), "{said}");
        }
    }
}

/// Texts that are longer than the windows, and shorter.
#[test]
fn every_family() {
    for blueprint in families() {
        let what = blueprint.family.model_type();
        // A padding token within a text would stand at no position.
        let blueprint = Blueprint { padding: None, head: HeadKind::None, ..blueprint };
        let network = Network { blueprint, dropout: 0.0, task: Task::Language };
        compare(what, &network, [2, 90], false);
        compare(what, &network, [3, 12], true);
    }
}

#[test]
fn long_texts() {
    for name in ["rotary", "shaw", "xlnet", "t5", "deberta"] {
        for is_causal in [true, false] {
            let network = network(encoding(name)).with(|own| own.direction = direction(is_causal));
            compare(&format!("{name} of 150 tokens"), &network, [2, 150], true);
        }
    }
}

#[test]
fn every_form_and_task() {
    for name in ["plain", "roformer", "llama"] {
        for task in [Task::Language, Task::Text(3), Task::Token(5), Task::Similarity] {
            for dropout in [0.0, 0.2] {
                let network = formed(name, encoding("rotary"), name == "llama");
                let network = Network { task, dropout, ..network };
                compare(&format!("{name}, {task:?}, dropout {dropout}"), &network, [4, 10], true);
            }
        }
    }
}

#[test]
fn a_large_vocabulary() {
    for form in ["plain", "roformer"] {
        let network = formed(form, encoding("rotary"), form == "plain").with(|own| own.vocabulary = 1500);
        compare(&format!("{form} with 1,500 tokens"), &network, [3, 20], true);
    }
    // Rows of scores in registers, some of them several to a block; and rows that are too long for that, or odd.
    for (vocabulary, size) in [(4104, [3, 130]), (12_300, [2, 20]), (1501, [2, 20])] {
        let network = network(encoding("rotary")).with(|own| (own.vocabulary, own.layers) = (vocabulary, 1));
        compare(&format!("a vocabulary of {vocabulary}"), &network, size, true);
    }
}

/// More rows than norms, activations and sums of columns have at a time, and rows that take several accesses of a lane.
#[test]
fn many_rows_and_wide_ones() {
    let thin = network(encoding("rotary")).with(|own| own.layers = 1);
    compare("8,000 rows", &thin, [200, 40], false);
    for width in [256, 520, 768, 1024] {
        let wide = thin.clone().with(|own| {
            (own.width, own.embedding, own.wide) = (width, width, 2 * width);
            (own.heads, own.key_heads, own.head_dim) = (width / 8, width / 8, 8);
        });
        compare(&format!("a width of {width}"), &wide, [5, 9], false);
    }
}

/// All that is summed over rows has one order; what attention adds to tables by distance has not, where blocks share them.
#[test]
fn the_same_step_gives_the_same_bits() {
    const BY_ATTENTION: [&str; 5] = ["shaw", "xlnet", "t5", "deberta", "kerple"];
    for encoding in encodings().into_iter().filter(|own| !BY_ATTENTION.contains(&own.name())) {
        let (network, size) = (network(encoding), [4, 40]);
        for gpu in gpus() {
            let gradients = || {
                let mut learner = learner(&Device::Cuda(gpu.clone()), &network, size);
                let still = Update { adam: AdamW::default(), step: 1, rate: 0.0, clip: 1.0 };
                learner.step(&still, 1, |_, given| *given = batch(&network, size, 5, true)).unwrap();
                learner.gradients().unwrap().to_vec()
            };
            let (first, second) = (gradients(), gradients());
            let is_same = first.iter().zip(&second).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(is_same, "{} in {}", network.blueprint.encoding.name(), gpu.arithmetic().name());
        }
    }
}

#[test]
fn heads_share_keys_and_values() {
    for (heads, key_heads, head_dim) in [(4, 2, 8), (4, 1, 16), (2, 1, 80)] {
        let network = formed("llama", encoding("rotary"), true)
            .with(|own| (own.heads, own.key_heads, own.head_dim) = (heads, key_heads, head_dim));
        compare(&format!("{heads} heads, {key_heads} of keys, of {head_dim}"), &network, [3, 33], false);
    }
}

#[test]
fn odd_widths_and_activations() {
    for activation in
        [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu, Activation::Tanh]
    {
        let odd = formed("roformer", encoding("rotary"), false).with(|own| {
            (own.width, own.embedding, own.wide) = (27, 27, 31);
            (own.heads, own.key_heads, own.head_dim) = (3, 3, 6);
            own.activation = activation;
        });
        compare(&format!("{activation:?}, a width of 27"), &odd, [3, 7], true);
    }
}

#[test]
fn linear_attention() {
    let favor = FeatureMap::Favor { features: 32, seed: 3 };
    for (queries, keys) in
        [(FeatureMap::Elu, FeatureMap::Elu), (FeatureMap::Softmax, FeatureMap::Exp), (favor, favor)]
    {
        for rotates_before in [true, false] {
            for is_causal in [true, false] {
                let mixing = Mixing::Linear(LinearForm { queries, keys, rotates_before });
                let network = network(encoding("rotary"))
                    .with(|own| (own.mixing, own.direction) = (mixing, direction(is_causal)));
                compare(&format!("{queries:?}, before: {rotates_before}"), &network, [2, 40], true);
            }
        }
    }
}

#[test]
fn twenty_losses_are_those_of_the_processor() {
    for name in ["plain", "llama"] {
        let (size, network) = ([8, 20], formed(name, encoding("rotary"), true));
        let losses = |device: &Device| {
            let mut learner = learner(device, &network, size);
            let take = |step: u64| {
                let update = Update { adam: AdamW::default(), step, rate: 2e-3, clip: 1.0 };
                // Two batches per step.
                let found = learner.step(&update, 2, |part, given| {
                    *given = batch(&network, size, 100 + 2 * (step % 3) + part, false);
                });
                found.unwrap().loss
            };
            (1..=20).map(take).collect::<Vec<f64>>()
        };
        let known = losses(&Device::default());
        assert!(known[19] < 0.8 * known[0], "{known:?}");
        for gpu in gpus() {
            let bound = match gpu.arithmetic() {
                Arithmetic::F32 => 1e-4,
                Arithmetic::Tf32 => 1e-2,
                Arithmetic::Bf16 => 5e-2,
            };
            let own = losses(&Device::Cuda(gpu.clone()));
            for (step, (own, known)) in own.iter().zip(&known).enumerate() {
                let what = format!("{name} in {}, step {step}", gpu.arithmetic().name());
                assert!(off_by(*own, *known) < bound, "{what}: {own}, not {known}");
            }
        }
    }
}

/// A model that goes on from what another left is the same model; and the same steps give the same bits.
#[test]
fn moments_come_and_go() {
    let (network, size) = (network(encoding("rotary")), [4, 12]);
    for gpu in gpus() {
        let device = Device::Cuda(gpu);
        let step = |learner: &mut Learner, step: u64| {
            let update = Update { adam: AdamW::default(), step, rate: 1e-3, clip: 0.5 };
            learner.step(&update, 1, |_, given| *given = batch(&network, size, step, false)).unwrap()
        };
        let mut whole = learner(&device, &network, size);
        let mut last = None;
        (1..=6).for_each(|number| last = Some(step(&mut whole, number)));
        let mut first = learner(&device, &network, size);
        (1..=3).for_each(|number| _ = step(&mut first, number));
        first.fetch().unwrap();
        let mut second = learner(&device, &network, size);
        second.parameters_mut().unwrap().copy_from_slice(first.parameters());
        let moments = second.moments_mut().unwrap();
        moments.into_iter().zip(first.moments()).for_each(|(to, from)| to.copy_from_slice(from));
        let mut again = None;
        (4..=6).for_each(|number| again = Some(step(&mut second, number)));
        assert_eq!(last, again);
        whole.fetch().unwrap();
        second.fetch().unwrap();
        assert_eq!(whole.parameters(), second.parameters());
        assert_eq!(whole.moments(), second.moments());
    }
}

#[test]
fn a_step_that_is_not_finite_is_not_taken() {
    let (network, size) = (network(encoding("none")), [2, 5]);
    for gpu in gpus() {
        let mut learner = learner(&Device::Cuda(gpu), &network, size);
        let place = learner.layout().find("out.bias").unwrap().range().start;
        learner.parameters_mut().unwrap()[place] = f32::NAN;
        let before = learner.parameters().to_vec();
        let update = Update { adam: AdamW::default(), step: 1, rate: 1e-3, clip: 1.0 };
        let found = learner.step(&update, 1, |_, given| *given = batch(&network, size, 1, false)).unwrap();
        assert!(!found.is_finite());
        learner.fetch().unwrap();
        let is_same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        assert!(learner.parameters().iter().zip(&before).all(is_same));
    }
}

#[test]
fn what_does_not_fit_says_what_would() {
    let network = network(encoding("rotary")).with(|own| {
        (own.width, own.embedding, own.wide) = (4096, 4096, 16384);
        (own.heads, own.key_heads, own.head_dim) = (32, 32, 128);
    });
    for gpu in gpus() {
        let error = Learner::new(&Device::Cuda(gpu), &network, [4096, 1024], 1024).err().unwrap();
        let Error::Engine(engine::Error::DeviceMemory { bytes, free, fits: Some(fits), .. }) = error else {
            panic!("{error}")
        };
        assert!(bytes > u128::from(free) && fits > 0 && fits < 4096, "{error}");
        assert!(error.to_string().contains(&format!("a batch of {fits} would fit")), "{error}");
    }
}
