//! One blueprint, two readings: a model that is run gives what the graph that trains it gives, for every family, encoding and
//! attention; and token after token it gives what it gives at once.

use roformer::blueprint::{
    Biases, Blueprint, Dims, Direction, Family, HeadNorms, LinearForm, Local, Mixing, NormKind, Output,
};
use roformer::encoding::{Encoding, Hierarchical, Learned, Merge, Rotary, Shaw, ShawTables, Sinusoidal, T5};
use roformer::graph::{Batch, FeatureMap, IGNORE, Parameters as Layout};
use roformer::model::{Call, Encoded, Hashed, Input, Model, Parameters};
use roformer::network::{Laid, Network, Task};
use roformer::ops::Real;
use rope::Pairing;
use serde_json::{Value, json};

const BATCH: usize = 2;
const LENGTH: usize = 9;
const LONGEST: usize = 12;
const VOCABULARY: usize = 17;

/// Parameters of a graph, by their names.
struct Trained<T> {
    layout: Layout,
    numbers: Vec<T>,
}

impl<T: Real> Parameters<T> for Trained<T> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> roformer::Result<()> {
        let entry = self.layout.entries().iter().find(|entry| entry.name == name);
        let entry = entry.unwrap_or_else(|| panic!("nothing trains {name}"));
        assert_eq!(entry.shape, shape, "{name}");
        out.copy_from_slice(&self.numbers[entry.range.clone()]);
        Ok(())
    }
}

/// Families, with what their relatives differ in.
fn families() -> Vec<(&'static str, Blueprint)> {
    let dims = Dims { vocabulary: VOCABULARY, width: 24, layers: 2, heads: 3 };
    let (roformer, llama) = (Blueprint::roformer(dims).unwrap(), Blueprint::llama(dims).unwrap());
    let v2 = Blueprint {
        norms: roformer::blueprint::Norms { kind: NormKind::Bare, ..roformer.norms },
        biases: Biases::all(false),
        output: Output { transform: None, has_bias: false, ..roformer.output },
        ..roformer.clone()
    };
    let narrow = Blueprint { embedding: 10, ..roformer.clone() };
    let untied = Blueprint { output: Output { is_tied: false, ..roformer.output }, ..roformer.clone() };
    let queries = Biases { queries: true, ..Biases::all(false) };
    // All names that sizes have: a family reads its own.
    let read = |model_type: &str, more: Value| {
        let mut config = json!({
            "model_type": model_type, "vocab_size": VOCABULARY, "intermediate_size": 40,
            "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 50,
            "n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 50,
            "d_model": 24, "n_layers": 2, "n_heads": 3, "max_seq_len": 50,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Blueprint::from_config(config.to_string().as_bytes()).unwrap()
    };
    let bert = |model_type: &str| read(model_type, json!({}));
    let gemma = json!({
        "num_key_value_heads": 1, "head_dim": 8, "sliding_window": 3, "layer_types": ["sliding_attention", "full_attention"],
        "attn_logit_softcapping": null, "final_logit_softcapping": null,
    });
    // Caps that scores come near.
    let mut capped = gemma.clone();
    capped["attn_logit_softcapping"] = json!(0.8);
    capped["final_logit_softcapping"] = json!(0.5);
    let grouped = json!({"num_key_value_heads": 1, "head_dim": 8});
    // A layer of each kind; the queries of the second grow twice.
    let llama4 = json!({
        "num_key_value_heads": 1, "head_dim": 8, "intermediate_size_mlp": 40, "moe_layers": [], "no_rope_layer_interval": 2,
        "attention_chunk_size": 4, "floor_scale": 3, "attn_scale": 0.7,
    });
    let mut throughout = llama4.clone();
    throughout["layer_types"] = json!(["chunked_attention", "chunked_attention"]);
    throughout["use_qk_norm"] = json!(false);
    let t5 = |form: &str| {
        let config = format!(
            r#"{{"model_type": "t5", "vocab_size": {VOCABULARY}, "d_model": 20, "d_kv": 8, "d_ff": 40, "num_layers": 2,
                "num_heads": 3, "relative_attention_num_buckets": 9, "relative_attention_max_distance": 6,
                "is_encoder_decoder": false, "feed_forward_proj": "{form}"}}"#
        );
        Blueprint::from_config(config.as_bytes()).unwrap()
    };
    vec![
        ("gpt2", read("gpt2", json!({}))),
        ("gptj", read("gptj", json!({"rotary_dim": 4}))),
        ("gpt_neox", read("gpt_neox", json!({"rotary_pct": 0.5}))),
        ("gpt_neox one after the other", read("gpt_neox", json!({"use_parallel_residual": false}))),
        ("mpt", read("mpt", json!({}))),
        ("modernbert", read("modernbert", json!({"local_attention": 4}))),
        ("nomic_bert", read("nomic_bert", json!({}))),
        ("eurobert", read("eurobert", json!({"mlp_bias": true}))),
        ("phi3", read("phi3", json!({"sliding_window": 4}))),
        ("llama4", read("llama4_text", llama4.clone())),
        ("llama4 in pieces throughout", read("llama4_text", throughout)),
        ("glm4", read("glm4", grouped)),
        ("gemma2", read("gemma2", gemma.clone())),
        ("gemma2 with caps", read("gemma2", capped.clone())),
        ("gemma3_text with a cap", read("gemma3_text", capped)),
        ("gemma3_text", read("gemma3_text", gemma)),
        ("t5", t5("relu")),
        ("t5 with a gate", t5("gated-gelu")),
        ("bert", bert("bert")),
        ("roberta", bert("roberta")),
        ("deberta-v2", read("deberta-v2", json!({"embedding_size": 10}))),
        ("xlnet", read("xlnet", json!({"d_inner": 40, "clamp_len": 4}))),
        ("roformer", roformer),
        ("roformer v2", v2),
        ("narrow embeddings", narrow),
        ("untied", untied),
        ("llama", llama.clone()),
        ("llama with biases", Blueprint { biases: Biases::all(true), ..llama.clone() }),
        ("mistral", Blueprint { family: Family::Mistral, ..llama.clone() }),
        ("qwen2", Blueprint { family: Family::Qwen2, biases: queries, ..llama.clone() }),
        ("qwen3", Blueprint { family: Family::Qwen3, head_norms: HeadNorms::Weighted, ..llama }),
    ]
}

/// Every encoding as it is by default, and those that have other forms.
fn encodings() -> Vec<Encoding> {
    let mut all = Encoding::all();
    let concatenate = Merge::Concatenate;
    all.extend([
        Encoding::Learned(Learned { merge: concatenate, offset: 2 }),
        Encoding::Sinusoidal(Sinusoidal { merge: concatenate }),
        Encoding::Hierarchical(Hierarchical { positions: Some(4), alpha: 0.3, merge: Merge::Add }),
        Encoding::Shaw(Shaw { left: 3, right: 2, tables: ShawTables::Sinusoidal, values: true }),
        Encoding::Shaw(Shaw { values: false, ..Shaw::default() }),
        Encoding::T5(T5 { is_scaled: false, ..T5::default() }),
        Encoding::parse("deberta:reach=4,furthest=9,mirrored=false,projections=shared,norm=0.001").unwrap(),
        Encoding::parse("deberta:reach=3,terms=keys,projections=biased,absolute=true").unwrap(),
        Encoding::Rotary(Rotary { is_learned: true, ..Rotary::default() }),
        Encoding::Rotary(Rotary { values: true, ..Rotary::default() }),
        Encoding::Rotary(Rotary { rotary_dim: Some(4), pairing: Pairing::Half, ..Rotary::default() }),
    ]);
    let parsed = [
        "kerple:kernel=power",
        "rotary:part=0.5",
        "rotary:learned=heads",
        "rotary:learned=heads,values=true",
        "pope:phases=false",
        "forget:gate=relu",
        "forget:rotary=true",
        "selective:base=50,bias=0",
        "fope:period=9,gain=1",
        "axial:side=3,base=10",
        "extend:window=3",
        "extend:window=4,group=2,base=50,pairing=half",
        "fire:threshold=4",
        "contextual:positions=3",
        "path:rank=5",
        "abacus:digits=3-9",
        "coupled:digits=2+5-12,places=2,shift=0,rotary=true",
        "layers:window=3,far=100",
        "layers:window=0",
    ];
    all.extend(parsed.map(|label| Encoding::parse(label).unwrap()));
    all
}

/// Softmax attention, and linear attention in its forms.
fn mixings() -> Vec<Mixing> {
    let favor = FeatureMap::Favor { features: 6, seed: 5 };
    let linear = |queries, keys, rotates_before| Mixing::Linear(LinearForm { queries, keys, rotates_before });
    vec![
        Mixing::Softmax,
        linear(FeatureMap::Elu, FeatureMap::Elu, false),
        linear(FeatureMap::Softmax, FeatureMap::Exp, false),
        linear(FeatureMap::Elu, FeatureMap::Elu, true),
        linear(favor, favor, true),
    ]
}

/// The networks that there can be of a family and an encoding.
fn networks(blueprint: &Blueprint, encoding: &Encoding) -> Vec<Network> {
    let mut all = Vec::new();
    for mixing in mixings() {
        for direction in [Direction::Both, Direction::Causal] {
            let is_llama = !blueprint.family.is_encoder();
            let values = matches!(encoding, Encoding::Rotary(Rotary { values: true, .. }));
            let is_odd = match (&mixing, direction) {
                (Mixing::Softmax, Direction::Both) => is_llama || encoding.is_causal_only(),
                (Mixing::Softmax, _) => false,
                (Mixing::Linear(_), _) if blueprint.key_heads != blueprint.heads => true,
                (Mixing::Linear(_), _) if encoding.check_linear().is_err() => true,
                (Mixing::Linear(form), _) => {
                    direction == Direction::Both && (is_llama || encoding.is_causal_only())
                        || values && form.queries.features(8) != 8
                }
            };
            if is_odd {
                continue;
            }
            let (encoding, longest) = (encoding.clone(), LONGEST);
            // Another encoding is that of all layers, and linear attention knows no window.
            let is_own = encoding == blueprint.encoding;
            let local = blueprint.local.clone().filter(|_| mixing == Mixing::Softmax);
            let local = local.map(|local| Local { encoding: local.encoding.filter(|_| is_own), ..local });
            let blueprint = Blueprint { mixing, direction, encoding, longest, local, ..blueprint.clone() };
            // Queries and keys project tables only where they are tensors of their own, of one width.
            let error = blueprint.check().err().map(|error| error.to_string());
            // Nor does linear attention carry what scores have of segments, or cap them.
            let known = [
                "the projections of deberta",
                "a term of segments",
                "norms heads after they are turned",
                "a model that caps scores",
            ];
            if error.is_some_and(|error| known.iter().any(|known| error.contains(known))) {
                continue;
            }
            all.push(Network { blueprint, task: Task::Language, dropout: 0.1 });
        }
    }
    all
}

/// A graph with numbers without a pattern, evaluated, its parameters, and the loss over the real tokens.
fn evaluate<T: Real>(
    network: &Network,
    ids: &[u32],
    types: &[u32],
    mask: &[bool],
) -> (Laid<T>, Trained<T>, f64) {
    let mut laid = network.build::<T>(BATCH, LENGTH, LONGEST).unwrap();
    let layout = laid.graph.layout().clone();
    let mut numbers = vec![T::ZERO; layout.len()];
    layout.initialise(7, &mut numbers);
    // Larger than at first, so that every term counts.
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = *number * T::of(4.0) + T::of((index % 13) as f64 * 0.01);
    }
    laid.graph.parameters_mut().copy_from_slice(&numbers);
    let positions = match &network.blueprint.encoding {
        Encoding::Randomised(randomised) => {
            (0..LENGTH).map(|token| (token * randomised.step(LONGEST)) as u32).collect()
        }
        _ => Vec::new(),
    };
    let (ids, types, mask) = (ids.to_vec(), types.to_vec(), mask.to_vec());
    let targets = ids.iter().zip(&mask).map(|(&id, &is_real)| if is_real { id } else { IGNORE }).collect();
    laid.set(Batch { ids, types, targets, mask, positions, ..Batch::default() }).unwrap();
    let loss = laid.graph.forward();
    (laid, Trained { layout, numbers }, loss)
}

/// The mean of −ln softmax(scores) at the ids over the real tokens.
fn cross_entropy<T: Real>(scores: &[T], ids: &[u32], mask: &[bool]) -> f64 {
    let rows = scores.chunks_exact(VOCABULARY).zip(ids).zip(mask).filter(|(_, is_real)| **is_real);
    let losses: Vec<f64> = rows
        .map(|((row, &id), _)| {
            let row: Vec<f64> = row.iter().map(|x| x.to_f64()).collect();
            let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            row.iter().map(|x| (x - most).exp()).sum::<f64>().ln() + most - row[id as usize]
        })
        .collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// The largest difference over the real tokens, as a part of the largest number.
fn difference<T: Real>(a: &[T], b: &[T], mask: &[bool]) -> f64 {
    assert_eq!(a.len(), b.len());
    let width = a.len() / mask.len();
    let real = |index: &usize| mask[index / width];
    let most = b.iter().map(|x| x.to_f64().abs()).fold(1.0, f64::max);
    let apart = |index: usize| (a[index].to_f64() - b[index].to_f64()).abs();
    let worst =
        (0..a.len()).filter(real).map(apart).fold(0.0, |a: f64, b| if b.is_nan() { b } else { a.max(b) });
    worst / most
}

/// Returns the largest difference.
fn check<T: Real>(name: &str, network: &Network, bound: f64) -> f64 {
    // Padding at the end of the second text.
    let worst = check_with::<T>(name, network, bound, &|token| token < BATCH * LENGTH - 3);
    if network.blueprint.local.as_ref().is_some_and(|local| local.chunk.is_some()) {
        // Pieces are counted from the first token that is no padding.
        check_with::<T>(name, network, bound, &|token| !(LENGTH..LENGTH + 3).contains(&token));
    }
    worst
}

fn check_with<T: Real>(name: &str, network: &Network, bound: f64, is_real: &dyn Fn(usize) -> bool) -> f64 {
    // A padding token within a text would stand at no position.
    let real = |id: u32| if network.blueprint.padding == Some(id) { id + 1 } else { id };
    let ids: Vec<u32> = (0..BATCH * LENGTH).map(|i| real((i * 7 % VOCABULARY) as u32)).collect();
    let mask: Vec<bool> = (0..BATCH * LENGTH).map(is_real).collect();
    // A cache keeps no segments.
    let described = network.described();
    let has_types = described.has_segment_scores && described.direction == Direction::Both;
    let types: Vec<u32> = (0..ids.len() as u32).map(|i| i * i % 5 % 3).filter(|_| has_types).collect();
    let (laid, trained, loss) = evaluate::<T>(network, &ids, &types, &mask);
    let what = format!("{name}, {:?}, {:?}, {:?}", described.encoding, described.mixing, described.direction);
    // Some files keep tensors in another order or with other axes: T5's buckets before heads, XLNet's heads by themselves.
    let size = |shape: &[usize]| shape.iter().product::<usize>();
    let asked = described.tensors().into_iter().map(|asked| (asked.name, size(&asked.shape)));
    let entries = trained.layout.entries().iter();
    let laid_out = entries.map(|entry| (entry.name.clone(), size(&entry.shape)));
    let [mut asked, mut laid_out]: [Vec<_>; 2] = [asked.collect(), laid_out.collect()];
    asked.sort();
    laid_out.sort();
    assert_eq!(asked, laid_out, "{what}: the tensors of the blueprint and of the graph");

    let model = Model::<T>::from_parameters(described.clone(), &trained).unwrap();
    let token_types = has_types.then_some(&types[..]);
    let input = Input { ids: &ids, batch: BATCH, token_types, mask: Some(&mask) };
    let output = model.forward(&input).unwrap();
    let (hidden, exact) = (&output.last_hidden_state, laid.graph.value(laid.hidden));
    let apart = difference(hidden, exact, &mask);
    let odd = |list: &[T]| list.iter().filter(|x| x.to_f64().is_nan()).count();
    let odd = (odd(hidden), odd(exact));
    assert!(apart <= bound, "{what}: {apart:e} from what the graph gives; not numbers: {odd:?}");
    let scores = &output.logits.as_ref().unwrap().scores;
    let (most, given) =
        (scores.iter().fold(1.0, |most, x| x.to_f64().abs().max(most)), cross_entropy(scores, &ids, &mask));
    let apart = (loss - given).abs() / most;
    assert!(apart <= bound, "{what}: a loss of {given}, {apart:e} from what the graph gives");
    if described.direction == Direction::Both {
        return apart;
    }
    let mut cache = model.cache(BATCH, LENGTH).unwrap();
    let mut stepped = vec![T::ZERO; hidden.len()];
    let width = hidden.len() / mask.len();
    let mut order: Vec<usize> = (0..BATCH).collect();
    for range in [0..4, 4..5, 5..7, 7..8, 8..9] {
        if range.start == 7 {
            // The same texts, in another order.
            order.reverse();
            model.keep(&mut cache, &order).unwrap();
        }
        let columns = |row: usize| row * LENGTH + range.start..row * LENGTH + range.end;
        let ids: Vec<u32> = order.iter().flat_map(|&row| ids[columns(row)].to_vec()).collect();
        let mask: Vec<bool> = order.iter().flat_map(|&row| mask[columns(row)].to_vec()).collect();
        let input = Input { ids: &ids, batch: BATCH, token_types: None, mask: Some(&mask) };
        let call = Call { cache: Some(&mut cache), ..Call::default() };
        let part = model.call(&input, call).unwrap().last_hidden_state;
        let numbers = range.len() * width;
        for (&row, part) in order.iter().zip(part.chunks(numbers)) {
            stepped[columns(row).start * width..][..numbers].copy_from_slice(part);
        }
    }
    let stepped_apart = difference(&stepped, hidden, &mask);
    assert!(stepped_apart <= bound, "{what}: {stepped_apart:e} with a cache");
    apart.max(stepped_apart)
}

#[test]
fn a_model_gives_what_the_graph_that_trains_it_gives() {
    let mut count = 0;
    for (name, blueprint) in families() {
        // The family's own with it, which may have a second for layers with a window.
        for encoding in encodings().into_iter().chain([blueprint.encoding.clone()]) {
            for network in networks(&blueprint, &encoding) {
                let found = check::<f64>(name, &network, 1e-10);
                // Sums of features can come near 0, where f32 has few digits left; all families mix by the same code.
                let is_steady = matches!(network.blueprint.family, Family::RoFormer | Family::Llama);
                // PoPE's magnitudes do not cancel: with weights of this size scores are some hundreds, and what f32 has left of their
                // differences, 2⁻²⁴ of that at each step of a sum, is the relative error of the weights of attention.
                let is_large = matches!(network.blueprint.encoding, Encoding::Pope(_));
                if network.blueprint.mixing == Mixing::Softmax || is_steady {
                    // Where sums cancel, rounding errors grow by as much in both types: a unit of f32 is 2²⁹ of f64.
                    let grown = 2.0 * found * 2f64.powi(29);
                    check::<f32>(name, &network, if is_large { 5e-4 } else { grown.max(1e-5) });
                }
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count}");
}

/// A T5 with its decoder: what is read and what is written of it, at once, is what the graph gives that trains both.
#[test]
fn an_encoder_and_its_decoder_give_what_the_graph_gives() {
    fn check<T: Real>(form: &str, is_tied: bool, bound: f64) {
        let config = format!(
            r#"{{"model_type": "t5", "vocab_size": {VOCABULARY}, "d_model": 20, "d_kv": 8, "d_ff": 40, "num_layers": 1,
                "num_decoder_layers": 2, "num_heads": 3, "relative_attention_num_buckets": 9,
                "relative_attention_max_distance": 6, "feed_forward_proj": "{form}", "tie_word_embeddings": {is_tied}}}"#
        );
        let network = Network::from_config(config.as_bytes(), Task::Language, None).unwrap();
        let mut laid = network.build::<T>(BATCH, LENGTH, LONGEST).unwrap();
        let layout = laid.graph.layout().clone();
        let mut numbers = vec![T::ZERO; layout.len()];
        layout.initialise(7, &mut numbers);
        let spread = |(index, x): (usize, &mut T)| *x = *x * T::of(4.0) + T::of((index % 13) as f64 * 0.01);
        numbers.iter_mut().enumerate().for_each(spread);
        laid.graph.parameters_mut().copy_from_slice(&numbers);
        let id = |index: usize| (index * 7 % VOCABULARY) as u32;
        let ids: Vec<u32> = (0..BATCH * LENGTH).map(id).collect();
        let source: Vec<u32> = (0..BATCH * LENGTH).map(|index| id(index + 5)).collect();
        // Padding before the first text that is read, and after the second.
        let source_mask: Vec<bool> =
            (0..BATCH * LENGTH).map(|index| (2..BATCH * LENGTH - 3).contains(&index)).collect();
        let batch = Batch {
            ids: ids.clone(),
            targets: ids.clone(),
            source: source.clone(),
            source_mask: source_mask.clone(),
            ..Batch::default()
        };
        laid.set(batch).unwrap();
        let loss = laid.graph.forward();
        let trained = Trained { layout, numbers };
        let model = Model::<T>::from_parameters(network.described(), &trained).unwrap();
        let input = |ids, mask| Input { ids, batch: BATCH, token_types: None, mask };
        let read = model.encode(&input(&source, Some(&source_mask[..]))).unwrap().last_hidden_state;
        let encoded = Encoded { hidden: &read, mask: Some(&source_mask) };
        let output = model.forward_with(&input(&ids, None), encoded).unwrap();
        let all = [true; BATCH * LENGTH];
        let apart = difference(&output.last_hidden_state, laid.graph.value(laid.hidden), &all);
        assert!(apart <= bound, "{form}: {apart:e} from what the graph gives");
        let given = cross_entropy(&output.logits.unwrap().scores, &ids, &all);
        assert!((loss - given).abs() <= bound * given, "{form}: a loss of {loss}, not {given}");
    }
    for (form, is_tied) in [("gated-gelu", true), ("relu", false)] {
        check::<f64>(form, is_tied, 1e-10);
        check::<f32>(form, is_tied, 1e-5);
    }
}

/// LongRoPE has frequencies for short texts and others for long ones: when a text in a cache passes the bound, in a step of any
/// length, with padding or without, what follows is what the whole text gives at once.
#[test]
fn a_text_that_outgrows_its_frequencies_gives_what_it_gives_at_once() {
    let factors = |by: f64| (0..4).map(|pair| 1.0 + by * f64::from(pair)).collect::<Vec<f64>>();
    let config = json!({
        "model_type": "phi3", "vocab_size": VOCABULARY, "intermediate_size": 40, "hidden_size": 24, "num_hidden_layers": 3,
        "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 50,
        "original_max_position_embeddings": 6, "rope_scaling": {
            "rope_type": "longrope", "short_factor": factors(0.1), "long_factor": factors(2.0),
        },
    });
    let blueprint = Blueprint::from_config(config.to_string().as_bytes()).unwrap();
    let model = Model::<f64>::from_parameters(blueprint, &Hashed).unwrap();
    let ids: Vec<u32> = (0..BATCH * LENGTH).map(|i| (i * 7 % VOCABULARY) as u32).collect();
    let is_real: Vec<bool> = (0..BATCH * LENGTH).map(|i| !(LENGTH..LENGTH + 2).contains(&i)).collect();
    // The tokens from a place to another of every text.
    fn part<T: Copy>(all: &[T], range: std::ops::Range<usize>) -> Vec<T> {
        all.chunks_exact(all.len() / BATCH).flat_map(|row| &row[range.clone()]).copied().collect()
    }
    for steps in [&[1; LENGTH][..], &[5, 1, 1, 2], &[6, 3], &[2, 7], &[8, 1]] {
        let (mut cache, mut past) = (model.cache(BATCH, LENGTH).unwrap(), 0);
        for count in steps {
            let end = past + count;
            let (new, mask) = (part(&ids, past..end), part(&is_real, past..end));
            let input = Input { ids: &new, batch: BATCH, token_types: None, mask: Some(&mask) };
            // More than the cache has room for: what is refused leaves nothing behind.
            let many = vec![1; BATCH * 2 * LENGTH];
            model.step(&Input { ids: &many, mask: None, ..input }, None, &mut cache).unwrap_err();
            let got = model.step(&input, None, &mut cache).unwrap();
            let (all, mask) = (part(&ids, 0..end), part(&is_real, 0..end));
            let whole = model.forward(&Input { ids: &all, mask: Some(&mask), ..input }).unwrap();
            let width = model.blueprint().width;
            let wanted = part(&whole.last_hidden_state, past * width..end * width);
            let apart = difference(&got.last_hidden_state, &wanted, &part(&is_real, past..end));
            assert!(apart <= 1e-10, "{steps:?}: {apart:e} at {past}");
            past = end;
        }
        // What is repeated knows its tokens too.
        let one = Input { ids: &ids[..4], batch: 1, token_types: None, mask: None };
        let mut cache = model.cache(1, LENGTH).unwrap();
        model.step(&one, None, &mut cache).unwrap();
        let mut both = model.repeat(&cache, BATCH).unwrap();
        let more = [ids[4..LENGTH].to_vec(), ids[4..LENGTH].to_vec()].concat();
        let got = model.step(&Input { ids: &more, batch: BATCH, ..one }, None, &mut both).unwrap();
        let whole = model.forward(&Input { ids: &ids[..LENGTH], ..one }).unwrap();
        let wanted = &whole.last_hidden_state[4 * model.blueprint().width..];
        let apart = difference(&got.last_hidden_state, &[wanted, wanted].concat(), &[true; 2 * (LENGTH - 4)]);
        assert!(apart <= 1e-10, "{apart:e} after repeating");
    }
}
