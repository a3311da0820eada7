//! On the CPU a text's numbers depend on nothing but the text and the weights: not on its neighbours in a batch, on what it is padded to,
//! or on how many threads there are. To the bit, in every precision.

use roformer::attention::softmax::Shape;
use roformer::blueprint::Blueprint;
use roformer::model::{Call, Hashed, Input, Model, Scores, States};
use roformer::ops::{Cpu, Pool, Precision, Span};
use serde_json::{Value, json};

const VOCABULARY: usize = 60;

/// Numbers without a pattern, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// A small model of a family, one of each kind of attention.
fn families() -> Vec<Value> {
    let sizes = json!({
        "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40,
        "max_position_embeddings": 1024,
    });
    let with = |more: Value| {
        let mut config = sizes.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    vec![
        with(json!({"model_type": "roformer", "architectures": ["RoFormerModel"]})),
        with(json!({"model_type": "bert", "architectures": ["BertModel"]})),
        with(
            json!({"model_type": "modernbert", "local_attention": 16, "architectures": ["ModernBertModel"]}),
        ),
        with(
            json!({"model_type": "qwen3", "head_dim": 12, "num_key_value_heads": 1, "architectures": ["Qwen3Model"]}),
        ),
        with(
            json!({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": "c2p|p2c", "architectures": ["DebertaV2Model"]}),
        ),
        json!({
            "model_type": "t5", "vocab_size": VOCABULARY, "d_model": 24, "d_kv": 12, "d_ff": 40, "num_layers": 2, "num_heads": 2,
            "is_encoder_decoder": false, "architectures": ["T5EncoderModel"],
        }),
    ]
}

/// The hidden states of texts in one batch, each padded to the longest; without what belongs to padding. If `is_packed`, only those of
/// real tokens are asked for, so that the model can leave the padding out.
fn run(model: &Model, texts: &[&[u32]], is_packed: bool) -> Vec<Vec<f32>> {
    let length = texts.iter().map(|text| text.len()).max().unwrap();
    let padded =
        |text: &&[u32]| text.iter().copied().chain(std::iter::repeat(0)).take(length).collect::<Vec<u32>>();
    let ids: Vec<u32> = texts.iter().flat_map(padded).collect();
    let mask: Vec<bool> = texts.iter().flat_map(|text| (0..length).map(|token| token < text.len())).collect();
    let input = Input { ids: &ids, batch: texts.len(), token_types: None, mask: Some(&mask) };
    let width = model.blueprint().width;
    if is_packed {
        let real = (0..mask.len()).filter(|&place| mask[place]);
        let spans: Vec<Span> =
            real.map(|first| Span { first, rows: 1, kind: Pool::Sum { over: 1.0 } }).collect();
        let call = Call { states: States::Pooled(&spans), ..Call::default() };
        let mut hidden = &model.call(&input, call).unwrap().last_hidden_state[..];
        let rows = texts.iter().map(|text| hidden.split_off(..text.len() * width).unwrap().to_vec());
        return rows.collect();
    }
    let hidden = model.forward(&input).unwrap().last_hidden_state;
    let rows = texts.iter().zip(hidden.chunks_exact(length * width));
    rows.map(|(text, rows)| rows[..text.len() * width].to_vec()).collect()
}

/// Checks so many random batches of texts of at most `longest` tokens.
fn check(config: &Value, precision: Precision, batches: usize, longest: usize) {
    let blueprint = Blueprint::from_config(config.to_string().as_bytes()).unwrap();
    let model = Model::on(Cpu { precision }, blueprint, &Hashed).unwrap();
    let pools = [1, 2].map(|threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap());
    let mut chance = Chance(precision.name().len() as u64 + longest as u64);
    // Some texts of every length alone, as what they must always be.
    let texts: Vec<Vec<u32>> = (0..40)
        .map(|_| (0..1 + chance.below(longest)).map(|_| 1 + chance.below(VOCABULARY - 1) as u32).collect())
        .collect();
    let alone: Vec<Vec<f32>> = texts.iter().map(|text| run(&model, &[text], false).remove(0)).collect();
    for batch in 0..batches {
        let chosen: Vec<usize> = (0..1 + chance.below(6)).map(|_| chance.below(texts.len())).collect();
        let together: Vec<&[u32]> = chosen.iter().map(|&index| &texts[index][..]).collect();
        let got = pools[batch % 2].install(|| run(&model, &together, batch / 2 % 2 == 1));
        for (&index, got) in chosen.iter().zip(&got) {
            assert!(
                got == &alone[index],
                "{} in {}: a text of {} tokens in batch {chosen:?}",
                config["model_type"],
                precision.name(),
                texts[index].len()
            );
        }
    }
}

#[test]
fn a_text_has_the_same_bits_in_any_batch() {
    for config in families() {
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            // Together 10,008 batches.
            check(&config, precision, 540, 40);
            // Beyond what attention works on at a time.
            check(&config, precision, 16, 900);
        }
    }
}

/// Heads find their tokens where texts lie one behind the other.
#[test]
fn a_text_has_the_same_scores_in_any_batch() {
    let heads = [
        ("bert", "BertForMaskedLM", true),
        ("bert", "BertForSequenceClassification", false),
        ("roberta", "RobertaForTokenClassification", false),
        ("roberta", "RobertaForMaskedLM", true),
        ("modernbert", "ModernBertForSequenceClassification", false),
        ("roformer", "RoFormerForQuestionAnswering", false),
        ("roformer", "RoFormerForMultipleChoice", false),
        ("qwen3", "Qwen3ForCausalLM", true),
        ("qwen3", "Qwen3ForSequenceClassification", false),
    ];
    for (family, class, is_placed) in heads {
        let mut config = json!({
            "model_type": family, "architectures": [class], "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2,
            "num_attention_heads": 2, "intermediate_size": 40, "max_position_embeddings": 64, "pad_token_id": 1,
            "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {"a": 0, "b": 1, "c": 2},
        });
        if family == "qwen3" {
            config["num_key_value_heads"] = 1.into();
            config["head_dim"] = 12.into();
        }
        let blueprint = Blueprint::from_config(config.to_string().as_bytes()).unwrap();
        let model = Model::on(Cpu::default(), blueprint, &Hashed).unwrap();
        assert_eq!(model.packs_texts(), class != "RoFormerForMultipleChoice", "{class}");
        let mut chance = Chance(7);
        let texts: Vec<Vec<u32>> = [9, 1, 30, 4, 17]
            .map(|len| (0..len).map(|_| 2 + chance.below(VOCABULARY - 2) as u32).collect())
            .into();
        // The scores of each text: of its last token, of all its tokens, or one list.
        let scores = |texts: &[Vec<u32>]| -> Vec<Vec<f32>> {
            let length = texts.iter().map(Vec::len).max().unwrap();
            let padded = |text: &Vec<u32>| [&text[..], &vec![1; length - text.len()]].concat();
            let ids: Vec<u32> = texts.iter().flat_map(padded).collect();
            let mask: Vec<bool> =
                texts.iter().flat_map(|text| (0..length).map(|token| token < text.len())).collect();
            let lasts: Vec<usize> =
                texts.iter().enumerate().map(|(text, ids)| text * length + ids.len() - 1).collect();
            let input = Input { ids: &ids, batch: texts.len(), token_types: None, mask: Some(&mask) };
            let scores = if is_placed { Scores::At(&lasts) } else { Scores::All };
            let call = Call { scores, states: States::NONE, ..Call::default() };
            let logits = model.call(&input, call).unwrap().logits.unwrap();
            let each = logits.scores.len() / texts.len();
            let real = |(row, text): (&[f32], &Vec<u32>)| match logits.shape.len() {
                3 => row[..each / length * text.len()].to_vec(),
                _ => row.to_vec(),
            };
            logits.scores.chunks_exact(each).zip(texts).map(real).collect()
        };
        let alone: Vec<Vec<f32>> = texts.iter().flat_map(|text| scores(std::slice::from_ref(text))).collect();
        // What stands behind a text of a choice is read by transformers too.
        if class != "RoFormerForMultipleChoice" {
            assert_eq!(scores(&texts), alone, "{class}");
        }
    }
}

#[test]
fn attention_divides_its_queries_without_changing_a_bit() {
    use roformer::attention::softmax::{Heads, Mask, Workspace, attend};
    // One head, so that many threads have to share it.
    let shape = Shape { batch: 1, queries: 500, keys: 500, heads: 1, key_heads: 1, head_dim: 24 };
    let mut chance = Chance(1);
    let mut list = || (0..500 * 24).map(|_| chance.below(2000) as f32 / 1000.0 - 1.0).collect::<Vec<f32>>();
    let (q, k, v) = (list(), list(), list());
    for precision in [Precision::F32, Precision::Bf16] {
        for mask in [Mask::default(), Mask { window: Some(20), ..Mask::default() }] {
            let results = [1, 2, 7].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let heads = |data| Heads { data, token: 24, sequence: 500 * 24 };
                    let mut out = vec![0.0; 500 * 24];
                    let workspace = Workspace::with(precision).unwrap();
                    assert!(attend(
                        &shape,
                        (heads(&q), heads(&k), heads(&v)),
                        &mask,
                        None,
                        &mut out,
                        &workspace
                    ));
                    out
                })
            });
            assert!(results[0] == results[1] && results[0] == results[2], "{}", precision.name());
        }
    }
}

/// Decoders without windows, whose heads share keys or do not.
fn decoders() -> [Value; 3] {
    let sizes = |more: Value| {
        let mut config = json!({
            "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
            "max_position_embeddings": 1024,
        });
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    [
        sizes(json!({"model_type": "llama", "architectures": ["LlamaModel"]})),
        sizes(
            json!({"model_type": "qwen3", "head_dim": 12, "num_key_value_heads": 2, "architectures": ["Qwen3Model"]}),
        ),
        sizes(json!({"model_type": "gpt_neox", "rotary_pct": 0.25, "architectures": ["GPTNeoXModel"]})),
    ]
}

fn input(ids: &[u32], batch: usize) -> Input<'_> {
    Input { ids, batch, token_types: None, mask: None }
}

#[test]
fn a_text_in_a_cache_has_the_bits_of_the_whole_text() {
    let mut chance = Chance(17);
    for config in decoders() {
        let blueprint = || Blueprint::from_config(config.to_string().as_bytes()).unwrap();
        for precision in [Precision::F32, Precision::Bf16, Precision::Int8] {
            let model = Model::<f32>::on(Cpu { precision }, blueprint(), &Hashed).unwrap();
            for length in [1, 30, 70, 500] {
                let ids: Vec<u32> = (0..length).map(|_| chance.below(VOCABULARY) as u32).collect();
                let whole = model.forward(&input(&ids, 1)).unwrap().last_hidden_state;
                let mut cache = model.cache(1, length + 3).unwrap();
                let mut steps = Vec::new();
                let mut first = 0;
                while first < length {
                    let count = (1 + chance.below(2) * chance.below(100)).min(length - first);
                    let step = model.step(&input(&ids[first..first + count], 1), None, &mut cache).unwrap();
                    steps.extend(step.last_hidden_state);
                    first += count;
                }
                assert_eq!(whole, steps, "{precision:?} {length} {config}");
                // One token more, of three copies that then become two.
                let mut three = model.repeat(&cache, 3).unwrap();
                model.step(&input(&[1, 2, 3], 3), None, &mut three).unwrap();
                model.keep(&mut three, &[2, 0]).unwrap();
                let last = model.step(&input(&[5, 5], 2), None, &mut three).unwrap().last_hidden_state;
                for (own, last) in [3, 1].into_iter().zip(last.chunks_exact(24)) {
                    let ids: Vec<u32> = ids.iter().copied().chain([own, 5]).collect();
                    let whole = model.forward(&input(&ids, 1)).unwrap().last_hidden_state;
                    assert_eq!(whole[whole.len() - 24..], *last, "{precision:?} {length} {config}");
                }
            }
        }
    }
}

#[test]
fn what_another_model_kept_is_refused() {
    let [llama, qwen, neox] =
        decoders().map(|config| Blueprint::from_config(config.to_string().as_bytes()).unwrap());
    let alibi = json!({
        "model_type": "mpt", "vocab_size": VOCABULARY, "d_model": 24, "n_layers": 2, "n_heads": 4, "max_seq_len": 64,
        "attn_config": {"alibi": true}, "architectures": ["MptModel"],
    });
    let alibi = Blueprint::from_config(alibi.to_string().as_bytes()).unwrap();
    let on = |precision, blueprint: &Blueprint| {
        Model::<f32>::on(Cpu { precision }, blueprint.clone(), &Hashed).unwrap()
    };
    let refused = |maker: &Model, user: &Model| {
        let mut cache = maker.cache(1, 4).unwrap();
        let error = user.step(&input(&[1, 2], 1), None, &mut cache).unwrap_err().to_string();
        assert!(error.contains("another model"), "{error}");
    };
    // Where nothing is kept in 16 bits, a cache of 32 serves all.
    if Precision::fastest() == Precision::Bf16 {
        refused(&on(Precision::Bf16, &llama), &on(Precision::F32, &llama));
        refused(&on(Precision::Bf16, &llama), &on(Precision::Int8, &alibi));
        refused(&on(Precision::Int8, &neox), &on(Precision::F32, &llama));
        refused(&on(Precision::Bf16, &qwen), &on(Precision::Bf16, &llama));
    }
    // One that was kept in 32 bits can be used in 16.
    let mut cache = on(Precision::F32, &llama).cache(1, 4).unwrap();
    assert!(on(Precision::Bf16, &llama).step(&input(&[1, 2], 1), None, &mut cache).is_ok());
}
