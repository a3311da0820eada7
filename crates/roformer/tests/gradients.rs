//! Gradients of whole networks against central differences in f64: every encoding, form, attention and task.

use roformer::blueprint::{
    Biases, Blueprint, Dims, Direction, Family, HeadNorms, LinearForm, Mixing, NormKind, Norms, Output,
};
use roformer::encoding::{
    Encoding, Hierarchical, Learned, Merge, NoPositions, Pose, Randomised, ReceptiveField, Rotary, Shaw,
    ShawTables, Sinusoidal, T5,
};
use roformer::graph::{Batch, FeatureMap, IGNORE, mix};
use roformer::network::{Laid, Network, Task};
use roformer::ops::Activation;
use rope::{Pairing, Schedule};

const BATCH: usize = 2;
const LENGTH: usize = 6;
const VOCABULARY: usize = 9;

fn network(encoding: Encoding) -> Network {
    let blueprint = Blueprint { wide: 10, encoding, ..Blueprint::plain(DIMS) };
    Network { blueprint, dropout: 0.0, task: Task::Language }
}

const DIMS: Dims = Dims { vocabulary: VOCABULARY, width: 8, layers: 2, heads: 2 };

fn direction(is_causal: bool) -> Direction {
    if is_causal { Direction::Causal } else { Direction::Both }
}

/// Numbers that are the same every time: between −1 and 1.
fn noise(seed: u64, index: usize) -> f64 {
    (mix(mix(seed) ^ index as u64) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Texts of a batch.
fn texts(task: Task) -> usize {
    if task == Task::Similarity { 6 } else { BATCH }
}

/// The network with parameters far enough from zero that everything matters, and a batch for it.
fn lay(network: &Network) -> Laid<f64> {
    let texts = texts(network.task);
    let mut laid = network.build::<f64>(texts, LENGTH, LENGTH).unwrap();
    let layout = laid.graph.layout().clone();
    layout.initialise(1, laid.graph.parameters_mut());
    for (index, parameter) in laid.graph.parameters_mut().iter_mut().enumerate() {
        *parameter += 0.3 * noise(7, index);
    }
    let tokens = texts * LENGTH;
    let id = |index: usize, limit: usize| (mix(index as u64) % limit as u64) as u32;
    let classes = network.task.classes().unwrap_or(VOCABULARY);
    let places = network.task.targets(texts, LENGTH);
    let source = if network.blueprint.encoder.is_some() { tokens } else { 0 };
    let target =
        |index: usize| if places > BATCH && index % 5 == 4 { IGNORE } else { id(index + 100, classes) };
    let batch = Batch {
        ids: (0..tokens).map(|index| id(index, VOCABULARY)).collect(),
        types: match network.blueprint.types {
            0 => Vec::new(),
            types => (0..tokens).map(|index| id(index + 50, types)).collect(),
        },
        targets: (0..places).map(target).collect(),
        // The last text is shorter; the second pair, where there are pairs, is left out.
        mask: (0..tokens).map(|index| index < tokens - 2 && ![2, 3].contains(&(index / LENGTH))).collect(),
        positions: network.blueprint.encoding.as_encode::<f64>().positions(LENGTH, 3, 4).unwrap_or_default(),
        source: (0..source).map(|index| id(index + 200, VOCABULARY)).collect(),
        // The first text that is read begins with padding, the last one ends with it.
        source_mask: (0..source).map(|index| index > 1 && index < source - 1).collect(),
        ..Batch::default()
    };
    laid.set(batch).unwrap();
    laid
}

/// Compares gradients with differences of losses; every tensor must have one.
fn check(what: &str, network: &Network) {
    check_laid(what, lay(network));
}

fn check_laid(what: &str, mut laid: Laid<f64>) {
    let loss = laid.graph.step(1.0);
    assert!(loss.is_finite() && loss > 0.0, "{what}: a loss of {loss}");
    let analytic = laid.graph.gradients().to_vec();
    let entries = laid.graph.layout().entries().to_vec();
    for entry in &entries {
        let gradients = &analytic[entry.range.clone()];
        let largest = gradients.iter().fold(0f64, |largest, x| largest.max(x.abs()));
        assert!(largest > 1e-7, "{what}: {} has no gradient", entry.name);
        // Some of many: first, last, and by a step that meets all rows and columns in turn.
        let step = (gradients.len() / 12).max(1) | 1;
        for offset in (0..gradients.len()).step_by(step).chain([gradients.len() - 1]) {
            let index = entry.range.start + offset;
            let h = 1e-5;
            let mut at = |delta: f64| {
                let before = laid.graph.parameters()[index];
                laid.graph.parameters_mut()[index] = before + delta;
                let loss = laid.graph.forward();
                laid.graph.parameters_mut()[index] = before;
                loss
            };
            // Of fourth order: the error of a plain difference shows where frequencies meet large positions.
            let (near, far) = (at(h) - at(-h), at(2.0 * h) - at(-2.0 * h));
            let numeric = (8.0 * near - far) / (12.0 * h);
            // The loss is known to some 1e-15, so a difference to some 1e-10.
            let bound = 2e-9 + 1e-7 * gradients[offset].abs();
            let error = (numeric - gradients[offset]).abs();
            assert!(
                error <= bound,
                "{what}: {}[{offset}] is {}, not {numeric}",
                entry.name,
                gradients[offset]
            );
        }
    }
}

/// Every encoding as it is by default, and in its other settings.
fn encodings() -> Vec<(String, Encoding)> {
    let mut list: Vec<(String, Encoding)> =
        Encoding::all().into_iter().map(|encoding| (encoding.name().to_string(), encoding)).collect();
    let rotary = |rotary: Rotary| Encoding::Rotary(rotary);
    let shaw = Shaw { left: 2, right: 1, ..Shaw::default() };
    let merge = Merge::Concatenate;
    let others = [
        ("sinusoidal, concatenated", Encoding::Sinusoidal(Sinusoidal { merge })),
        ("learned, concatenated", Encoding::Learned(Learned { merge, offset: 2 })),
        (
            "hierarchical",
            Encoding::Hierarchical(Hierarchical { positions: Some(3), alpha: 0.3, merge: Merge::Add }),
        ),
        ("shaw, clipped", Encoding::Shaw(shaw)),
        ("shaw, sinusoidal", Encoding::Shaw(Shaw { tables: ShawTables::Sinusoidal, ..shaw })),
        ("shaw, keys alone", Encoding::Shaw(Shaw { values: false, ..shaw })),
        (
            "deberta, as released",
            Encoding::parse("deberta:reach=4,furthest=7,mirrored=false,norm=0.01").unwrap(),
        ),
        (
            "deberta, keys alone",
            Encoding::parse("deberta:reach=2,terms=keys,projections=biased,absolute=true").unwrap(),
        ),
        ("t5, unscaled", Encoding::T5(T5 { buckets: 4, furthest: 5, is_scaled: false })),
        ("rotary, halves", rotary(Rotary { pairing: Pairing::Half, ..Rotary::default() })),
        ("rotary, values too", rotary(Rotary { values: true, ..Rotary::default() })),
        ("rotary, partial", rotary(Rotary { rotary_dim: Some(2), ..Rotary::default() })),
        ("rotary, learned", rotary(Rotary { is_learned: true, base: 10.0, ..Rotary::default() })),
        (
            "rotary, linear",
            rotary(Rotary { schedule: Schedule::Linear { factor: 4.0 }, ..Rotary::default() }),
        ),
        (
            "receptive",
            Encoding::ReceptiveField(ReceptiveField { alpha: 0.4, rho: 0.1, ..ReceptiveField::default() }),
        ),
        ("randomised", Encoding::Randomised(Randomised { range: 40, rotary: Rotary::default() })),
    ];
    let parsed = [
        "kerple:kernel=power",
        "rotary:part=0.5",
        "rotary:learned=heads,base=10",
        "rotary:learned=heads,base=10,values=true",
        "clipped:period=3,width=4",
        "high:part=1,period=9",
        "pope:phases=false",
        "pose:range=40,pieces=3",
        "forget:gate=relu",
        "forget:rotary=true,bias=0.5",
        "selective:base=10,bias=0.4",
        "fope:period=20,gain=1",
        "axial:side=3,base=10",
        "extend:window=2",
        "extend:window=3,group=2,base=10",
        "fire:hidden=7,threshold=3",
        "contextual:positions=2",
        "path:rank=3",
        "abacus:digits=2-6",
        "coupled:digits=3-8,places=2,shift=3,rotary=true",
        "sandwich:dim=4",
        "layers:window=2",
        "layers:every=1,far=100",
        "layers:window=0,far=100",
    ];
    list.extend(parsed.map(|label| (label.to_string(), Encoding::parse(label).unwrap())));
    list.extend(others.into_iter().map(|(name, encoding)| (name.to_string(), encoding)));
    list
}

#[test]
fn gradients_of_every_encoding_under_softmax() {
    for (name, encoding) in encodings() {
        for is_causal in [true, false] {
            let network = network(encoding.clone()).with(|own| own.direction = direction(is_causal));
            if encoding.is_causal_only() && !is_causal {
                assert!(network.build::<f64>(1, 2, 2).is_err());
                continue;
            }
            check(&format!("{name}, causal {is_causal}"), &network);
        }
    }
}

/// Scores of attention and of the vocabulary that come near their caps.
#[test]
fn gradients_through_soft_caps() {
    for label in ["rotary", "t5", "forget", "shaw", "deberta", "fire"] {
        let network = network(Encoding::parse(label).unwrap()).with(|own| {
            (own.score_cap, own.output.cap) = (Some(0.3), Some(0.8));
            own.direction = Direction::Causal;
        });
        check(&format!("{label}, capped"), &network);
    }
}

/// A T5 with its decoder, in each of its forms.
#[test]
fn gradients_of_a_decoder_with_its_encoder() {
    for (form, is_tied, layers) in
        [("gated-gelu", true, [2, 1]), ("relu", false, [1, 2]), ("gelu", true, [1, 1])]
    {
        let config = format!(
            r#"{{"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": {VOCABULARY}, "d_model": 8,
                "d_kv": 3, "d_ff": 10, "num_layers": {}, "num_decoder_layers": {}, "num_heads": 2, "feed_forward_proj": "{form}",
                "relative_attention_num_buckets": 4, "relative_attention_max_distance": 5, "tie_word_embeddings": {is_tied}}}"#,
            layers[0], layers[1]
        );
        let network = Network::from_config(config.as_bytes(), Task::Language, None).unwrap();
        check(form, &Network { dropout: 0.0, ..network.clone() });
        // With dropout, which chance decides alike at every step.
        let mut laid = lay(&network);
        laid.graph.batch().is_training = true;
        check_laid(&format!("{form}, with dropout"), laid);
    }
}

#[test]
fn gradients_of_every_encoding_that_linear_attention_carries() {
    let mut carried = 0;
    for (name, encoding) in encodings() {
        if encoding.check_linear().is_err() {
            assert!(network(encoding.clone()).build::<f64>(1, 2, 2).is_ok());
            let linear = network(encoding).with(|own| own.mixing = Mixing::Linear(LinearForm::default()));
            assert!(linear.build::<f64>(1, 2, 2).is_err(), "{name}");
            continue;
        }
        carried += 1;
        for rotates_before in [false, true] {
            let form = LinearForm { rotates_before, ..LinearForm::default() };
            let network = network(encoding.clone()).with(|own| own.mixing = Mixing::Linear(form));
            check(&format!("{name}, linear, rotating before {rotates_before}"), &network);
        }
    }
    assert!(carried >= 8);
}

#[test]
fn gradients_of_every_feature_map() {
    let favor = FeatureMap::Favor { features: 6, seed: 5 };
    for (queries, keys) in [
        (FeatureMap::Softmax, FeatureMap::Exp),
        (FeatureMap::Exp, FeatureMap::Exp),
        (FeatureMap::Elu, FeatureMap::Exp),
        (favor, favor),
    ] {
        for (is_causal, rotates_before) in [(true, false), (false, false), (false, true)] {
            let mixing = Mixing::Linear(LinearForm { queries, keys, rotates_before });
            let encoding = Encoding::Rotary(Rotary::default());
            let network = network(encoding).with(|own| {
                own.mixing = mixing;
                own.direction = direction(is_causal);
            });
            check(&format!("{queries:?}, {keys:?}, causal {is_causal}, before {rotates_before}"), &network);
        }
    }
}

fn rotary() -> Encoding {
    Encoding::Rotary(Rotary::default())
}

/// Every form, and the relatives of each.
fn forms() -> Vec<Blueprint> {
    let first = Blueprint { wide: 10, ..Blueprint::roformer(DIMS).unwrap() };
    let llama = Blueprint { wide: 10, ..Blueprint::llama(DIMS).unwrap() };
    let untied = |output: Output| Output { is_tied: false, ..output };
    let bare = Blueprint {
        biases: Biases::all(false),
        norms: Norms { kind: NormKind::Bare, ..first.norms },
        output: Output { transform: None, has_bias: false, ..first.output },
        ..first.clone()
    };
    let queries = Biases { queries: true, ..Biases::all(false) };
    let biased = Biases { wide: false, ..Biases::all(true) };
    let qwen3 = Blueprint { family: Family::Qwen3, head_norms: HeadNorms::Weighted, ..llama.clone() };
    vec![
        first.clone(),
        Blueprint { types: 1, activation: Activation::Relu, ..first.clone() },
        Blueprint { activation: Activation::Silu, pooler: Some(Activation::Identity), ..first.clone() },
        Blueprint { activation: Activation::GeluTanh, output: untied(first.output), ..first.clone() },
        Blueprint { biases: Biases::all(false), pooler: Some(Activation::Tanh), ..first.clone() },
        bare.clone(),
        Blueprint { output: untied(bare.output), ..bare },
        Blueprint { embedding: 5, ..first.clone() },
        Blueprint { embedding: 11, output: untied(first.output), ..first },
        llama.clone(),
        Blueprint { biases: Biases::all(true), ..llama.clone() },
        Blueprint { family: Family::Mistral, ..llama.clone() },
        Blueprint { family: Family::Qwen2, biases: queries, output: untied(llama.output), ..llama },
        qwen3.clone(),
        Blueprint { biases: biased, ..qwen3 },
        Blueprint { wide: 10, ..Blueprint::plain(DIMS) },
    ]
}

/// A network of a form, of one layer, that reads both ways.
fn formed(form: &Blueprint, task: Task) -> Network {
    let blueprint = Blueprint { layers: 1, direction: Direction::Both, encoding: rotary(), ..form.clone() };
    Network { blueprint, dropout: 0.0, task }
}

/// Differences step over the corners of a ReLU where vectors are made of length 1.
fn has_corners(form: &Blueprint) -> bool {
    form.activation == Activation::Relu
}

#[test]
fn gradients_of_every_form_and_task() {
    for form in forms() {
        for task in [Task::Language, Task::Text(3), Task::Token(4), Task::Similarity] {
            if task == Task::Similarity && has_corners(&form) {
                continue;
            }
            // Grouped heads wherever they can be. Above there are two layers.
            let network = formed(&form, task).with(|own| own.key_heads = 1);
            check(&format!("{form:?}, {task:?}"), &network);
        }
    }
    // A causal text is judged by its last token.
    let network = Network { task: Task::Text(3), ..network(rotary()) };
    check("a causal text", &network);
}

/// Cosines against scores that are given; without, partners were looked for above.
#[test]
fn gradients_of_scored_pairs() {
    for form in forms().into_iter().filter(|form| !has_corners(form)) {
        let network = formed(&form, Task::Similarity);
        let mut laid = lay(&network);
        let contrast = laid.graph.forward();
        laid.graph.batch().scores = vec![0.25, 1.0, -0.5];
        let error = laid.graph.forward();
        assert!(contrast != error && error <= 4.0, "{form:?}: {contrast}, {error}");
        // What is left out has no part in it.
        laid.graph.batch().scores[1] = -1.0;
        assert_eq!(laid.graph.forward(), error, "{form:?}");
        check_laid(&format!("{form:?}, scored"), laid);
    }
}

/// A pair without real tokens changes no bit of the others' vectors, nor of the loss.
#[test]
fn a_pair_that_is_left_out_is_as_if_it_were_not_there() {
    let network =
        Network { task: Task::Similarity, ..network(rotary()).with(|own| own.direction = direction(false)) };
    let mut with = lay(&network);
    let loss = with.graph.step(1.0);
    assert!(with.graph.gradients().iter().all(|gradient| gradient.is_finite()));
    let mut without = network.build::<f64>(4, LENGTH, LENGTH).unwrap();
    without.graph.parameters_mut().copy_from_slice(with.graph.parameters());
    let Batch { mut ids, mut mask, .. } = with.graph.batch().clone();
    ids.drain(2 * LENGTH..4 * LENGTH);
    mask.drain(2 * LENGTH..4 * LENGTH);
    without.set(Batch { ids, mask, ..Batch::default() }).unwrap();
    assert!((without.graph.step(1.0) - loss).abs() <= 1e-14 * loss);
    for (a, b) in with.graph.gradients().iter().zip(without.graph.gradients()) {
        assert!((a - b).abs() <= 1e-12 * a.abs().max(1e-3), "{a} {b}");
    }
}

/// A key bias without rotation adds the same to all scores of a query: its gradient is zero, and must be.
#[test]
fn a_key_bias_without_rotation_has_no_gradient() {
    let is_key_bias = |name: &str| name.contains("self.key.bias");
    for (encoding, is_zero) in
        [(Encoding::None(NoPositions), true), (Encoding::Rotary(Rotary::default()), false)]
    {
        let roformer = Blueprint { wide: 10, ..Blueprint::roformer(DIMS).unwrap() };
        let blueprint = Blueprint { encoding, direction: Direction::Causal, ..roformer };
        let network = Network { blueprint, dropout: 0.0, task: Task::Language };
        let mut laid = lay(&network);
        laid.graph.step(1.0);
        let mut seen = 0;
        for entry in laid.graph.layout().entries().iter().filter(|entry| is_key_bias(&entry.name)) {
            let gradients = &laid.graph.gradients()[entry.range.clone()];
            let largest = gradients.iter().fold(0f64, |largest, x| largest.max(x.abs()));
            assert_eq!(largest < 1e-14, is_zero, "{}: {largest:e}", entry.name);
            seen += 1;
        }
        assert_eq!(seen, 2);
    }
}

/// Gradients of several steps add up, and a scale scales them.
#[test]
fn gradients_accumulate() {
    let network = network(Encoding::Rotary(Rotary::default()));
    let mut laid = lay(&network);
    laid.graph.step(1.0);
    let once = laid.graph.gradients().to_vec();
    laid.graph.step(0.5);
    for (once, both) in once.iter().zip(laid.graph.gradients()) {
        assert!((1.5 * once - both).abs() <= 1e-12 * once.abs().max(1e-3));
    }
    laid.graph.clear();
    assert!(laid.graph.gradients().iter().all(|gradient| *gradient == 0.0));
}

/// Forward and backward have the same bits on any number of threads, whatever the encoding and the attention.
#[test]
fn every_encoding_has_the_same_bits_on_any_threads() {
    for (name, encoding) in encodings() {
        let mut mixings = vec![Mixing::Softmax];
        if encoding.check_linear().is_ok() {
            mixings.push(Mixing::Linear(LinearForm::default()));
        }
        for mixing in mixings {
            // Large enough that every loop is shared out.
            let encoding = match encoding.clone() {
                Encoding::Hierarchical(own) => {
                    Encoding::Hierarchical(Hierarchical { positions: Some(12), ..own })
                }
                Encoding::Randomised(own) => Encoding::Randomised(Randomised { range: 300, ..own }),
                Encoding::Pose(own) => Encoding::Pose(Pose { range: 300, ..own }),
                other => other,
            };
            let network = network(encoding).with(|own| {
                (own.width, own.embedding) = (64, 64);
                own.heads = 4;
                own.key_heads = 4;
                own.head_dim = 16;
                own.wide = 200;
                own.mixing = mixing;
            });
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let mut laid = network.build::<f32>(3, 130, 130).unwrap();
                    let layout = laid.graph.layout().clone();
                    layout.initialise(1, laid.graph.parameters_mut());
                    let ids: Vec<u32> =
                        (0..390).map(|index| (mix(index) % VOCABULARY as u64) as u32).collect();
                    let positions = network
                        .blueprint
                        .encoding
                        .as_encode::<f32>()
                        .positions(130, 1, 1)
                        .unwrap_or_default();
                    laid.set(Batch { targets: ids.clone(), ids, positions, ..Batch::default() }).unwrap();
                    let loss = laid.graph.step(1.0);
                    (loss.to_bits(), laid.graph.gradients().iter().map(|x| x.to_bits()).collect::<Vec<_>>())
                })
            };
            let one = run(1);
            assert!(one == run(2) && one == run(3), "{name}, {mixing:?}");
        }
    }
}

/// What an encoding adds to a model's parameters.
#[test]
fn parameters_are_counted() {
    let count = |encoding: Encoding| network(encoding).build::<f32>(1, 4, 50).unwrap().parameter_counts();
    let (without, none) = count(Encoding::None(NoPositions));
    assert_eq!(none, 0);
    for (encoding, own) in [
        (Encoding::Sinusoidal(Sinusoidal::default()), 0),
        (Encoding::Sinusoidal(Sinusoidal { merge: Merge::Concatenate }), 8 * 16),
        (Encoding::Learned(Learned::default()), 50 * 8),
        (Encoding::Learned(Learned { merge: Merge::Concatenate, offset: 0 }), 50 * 8 + 8 * 16),
        (Encoding::T5(T5::default()), 2 * 32),
        (Encoding::Rotary(Rotary::default()), 0),
        // a and ρ for each of two layers.
        (Encoding::ReceptiveField(ReceptiveField::default()), 4),
    ] {
        let name = encoding.name();
        assert_eq!(count(encoding), (without + own, own), "{name}");
    }
}
