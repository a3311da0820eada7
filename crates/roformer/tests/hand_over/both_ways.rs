//! From checkpoints to networks and back.

use super::*;
use roformer::blueprint::{Direction, Family};
use roformer::encoding::Encoding;

/// From every checkpoint, for every task: hidden states are the model's; handed over and loaded again by the models that
/// are only run, all outputs are the network's; and opened to be trained on, the network and its parameters are the same.
#[test]
fn every_checkpoint_begins_every_task_and_is_handed_over() {
    for name in FOLDERS {
        let before = Model::load(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for task in TASKS {
            // What is refused by name: `hostile`.
            if before.blueprint().family == Family::T5 && matches!(task, Task::Language | Task::Text(_)) {
                continue;
            }
            let what = format!("{name}, {task:?}");
            let (mut laid, loaded) =
                open(&folder(name), task).unwrap_or_else(|error| panic!("{what}: {error}"));
            let batch = batch(laid.network());
            laid.set(batch.clone()).unwrap();
            let loss = laid.graph.forward();
            let (hidden, mask) = (laid.graph.value(laid.hidden), Some(&batch.mask[..]));
            // A decoder that judges texts by their first token is a decoder no longer.
            if laid.network().blueprint.is_causal() == before.blueprint().is_causal() {
                close(&what, hidden, &run(&before, &batch).last_hidden_state, mask);
            }
            let is_of_layer = |name: &String| name.contains(".layer.") || name.contains(".layers.");
            assert!(!loaded.missing.iter().any(is_of_layer), "{what}: {loaded:?}");

            let labels: Vec<String> =
                (0..task.classes().unwrap_or(0)).map(|class| format!("类 {class}")).collect();
            let saved = save(&laid, &labels);
            let after = Model::load(&saved.0).unwrap_or_else(|error| panic!("{what}: {error}"));
            let output = run(&after, &batch);
            close(&what, &output.last_hidden_state, hidden, mask);
            let scores = output.logits.map(|logits| logits.scores);
            match task {
                Task::Language => {
                    let wanted = cross_entropy(&scores.unwrap(), &batch.targets);
                    assert!((loss - wanted).abs() <= 1e-5 * wanted, "{what}: {loss}, not {wanted}");
                }
                Task::Text(_) => close(&what, &scores.unwrap(), laid.graph.value(laid.scores.unwrap()), None),
                Task::Token(_) => {
                    close(&what, &scores.unwrap(), laid.graph.value(laid.scores.unwrap()), mask)
                }
                Task::Similarity => {
                    let width = laid.network().blueprint.width;
                    assert_eq!(output.pooled.is_some(), before.blueprint().is_unilm(), "{what}");
                    let means = || means(&output.last_hidden_state, &batch.mask, width);
                    let vectors = output.pooled.clone().unwrap_or_else(means);
                    close(&what, laid.graph.value(laid.vectors.unwrap()), &unit(&vectors, width), None);
                }
            }
            if task.classes().is_some() {
                assert_eq!(after.blueprint().labels.name(1), "类 1", "{what}");
            }

            let (again, loaded) = open(&saved.0, task).unwrap();
            assert_eq!(again.network(), laid.network(), "{what}");
            assert_eq!(loaded, Loaded::default(), "{what}");
            assert_eq!(again.graph.parameters(), laid.graph.parameters(), "{what}");
        }
    }
}

/// A Gemma 2 whose scores are capped, of tokens and of attention: what is handed over caps them at the same, and is opened to be
/// trained on.
#[test]
fn soft_caps_are_handed_over() {
    let config = json!({
        "model_type": "gemma2", "vocab_size": 19, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "num_key_value_heads": 1, "head_dim": 6, "intermediate_size": 14, "sliding_window": 4,
        "attn_logit_softcapping": 0.02, "final_logit_softcapping": 0.1,
    });
    for task in TASKS {
        let network = Network::from_config(config.to_string().as_bytes(), task, None).unwrap();
        let mut laid = network.build::<f32>(BATCH, LENGTH, 40).unwrap();
        let layout = laid.graph.layout().clone();
        layout.initialise(5, laid.graph.parameters_mut());
        laid.graph.parameters_mut().iter_mut().for_each(|x| *x *= 4.0);
        let batch = batch(&network);
        laid.set(batch.clone()).unwrap();
        let loss = laid.graph.forward();
        let saved = save(&laid, &[]);
        let after = Model::load(&saved.0).unwrap();
        assert_eq!((after.blueprint().score_cap, after.blueprint().output.cap), (Some(0.02), Some(0.1)));
        let output = run(&after, &batch);
        let (hidden, mask) = (laid.graph.value(laid.hidden), Some(&batch.mask[..]));
        close("gemma2", &output.last_hidden_state, hidden, mask);
        if task == Task::Language {
            let scores = output.logits.unwrap().scores;
            let most = scores.iter().fold(0f32, |most, x| most.max(x.abs()));
            assert!((0.09..=0.1).contains(&most), "{most}");
            let wanted = cross_entropy(&scores, &batch.targets);
            assert!((loss - wanted).abs() <= 1e-5 * wanted, "{loss}, not {wanted}");
        }
        // Without the caps it is another model.
        let free = network.with(|own| (own.score_cap, own.output.cap) = (None, None));
        let mut other = free.build::<f32>(BATCH, LENGTH, 40).unwrap();
        other.graph.parameters_mut().copy_from_slice(laid.graph.parameters());
        other.set(batch).unwrap();
        assert!((loss - other.graph.forward()).abs() > 1e-5 * loss.abs(), "{task:?}: {loss}");
        let (again, loaded) = open(&saved.0, task).unwrap();
        assert_eq!((again.network(), loaded), (laid.network(), Loaded::default()));
    }
}

/// A T5 with its decoder begins with a checkpoint, is handed over and opened again; the output may be its own.
#[test]
fn an_encoder_and_its_decoder_are_handed_over() {
    let name = "golden/families/tiny-t5";
    let untied =
        changed(name, json!({"tie_word_embeddings": false, "scale_decoder_outputs": false}), |all| {
            let (shape, words) = all["shared.weight"].clone();
            let other = words.iter().rev().map(|x| 0.5 * x).collect();
            all.insert("lm_head.weight".into(), (shape, other));
        });
    for path in [&folder(name), &untied.0] {
        let before = Model::load(path).unwrap();
        let (mut laid, loaded) = open(path, Task::Language).unwrap();
        assert_eq!(loaded, Loaded::default());
        let own = batch(laid.network());
        // What is read has its own padding.
        let source: Vec<u32> = own.ids.iter().rev().copied().collect();
        let source_mask: Vec<bool> = own.mask.iter().rev().copied().collect();
        let all = Batch {
            mask: Vec::new(),
            source: source.clone(),
            source_mask: source_mask.clone(),
            ..own.clone()
        };
        laid.set(all.clone()).unwrap();
        let loss = laid.graph.forward();
        let decoded = |model: &Model| {
            let input = |ids, mask| Input { ids, batch: BATCH, token_types: None, mask };
            let hidden = model.encode(&input(&source, Some(&source_mask[..]))).unwrap().last_hidden_state;
            let encoded = Encoded { hidden: &hidden, mask: Some(&source_mask) };
            model.forward_with(&input(&own.ids, None), encoded).unwrap()
        };
        let hidden = laid.graph.value(laid.hidden);
        close("before", hidden, &decoded(&before).last_hidden_state, None);
        let saved = save(&laid, &[]);
        let after = Model::load(&saved.0).unwrap();
        assert_eq!(after.blueprint().start, before.blueprint().start);
        let output = decoded(&after);
        close("after", hidden, &output.last_hidden_state, None);
        let wanted = cross_entropy(&output.logits.unwrap().scores, &own.targets);
        assert!((loss - wanted).abs() <= 1e-5 * wanted, "{loss}, not {wanted}");
        let (again, loaded) = open(&saved.0, Task::Language).unwrap();
        assert_eq!((again.network(), loaded), (laid.network(), Loaded::default()));
        assert_eq!(again.graph.parameters(), laid.graph.parameters());
        // What is read must be there, and within the vocabulary.
        refused(laid.set(Batch { source: Vec::new(), ..all.clone() }), &["ids of the source", "0", "36"]);
        refused(laid.set(Batch { source: vec![17; 36], ..all.clone() }), &["source", "17"]);
        refused(laid.set(Batch { source_mask: vec![true], ..all }), &["mask of the source", "1", "36"]);
    }
}

/// An encoding with settings goes round in either form: in transformers' own fields where its class has them, else under a type
/// of its own, so that nothing runs it as if it were another.
#[test]
fn settings_of_encodings_are_handed_over() {
    let small = |form: &str| {
        let config = json!({
            "model_type": form, "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 24, "is_decoder": true,
        });
        Network::from_config(config.to_string().as_bytes(), Task::Language, Some(true)).unwrap()
    };
    // What transformers' Llama has: the pairing of halves, and another base.
    let of_llama =
        ["rotary:pairing=half", "rotary:base=500,pairing=half", "rotary:pairing=half,fraction=0.5"];
    for label in [
        "rotary",
        "rotary:values=true",
        "rotary:base=500",
        "rotary:dim=4,pairing=half",
        "rotary:fraction=0.5",
        "rotary:base=500,learned=true",
        "receptive:alpha=0.3,rho=0.25",
        "hierarchical:positions=9,alpha=0.2,merge=concatenate",
        "shaw:reach=3,tables=sinusoidal,values=false",
        "t5:buckets=8,furthest=32,scaled=false",
        "deberta:reach=4,furthest=9,terms=keys,mirrored=false,projections=shared,norm=0.001",
        "randomised:range=64,base=100",
    ]
    .into_iter()
    .chain(of_llama)
    {
        for form in ["roformer", "llama"] {
            let network = small(form).with(|own| own.encoding = Encoding::parse(label).unwrap());
            let is_own = match form {
                "llama" => !of_llama.contains(&label),
                _ => !["rotary", "rotary:values=true"].contains(&label),
            };
            assert_eq!(network.blueprint.is_of_its_class(), !is_own, "{form} {label}");
            let mut laid = network.build::<f32>(2, 4, 16).unwrap();
            let layout = laid.graph.layout().clone();
            layout.initialise(3, laid.graph.parameters_mut());
            let saved = save(&laid, &[]);
            let config: Value =
                serde_json::from_slice(&fs::read(saved.0.join("config.json")).unwrap()).unwrap();
            let said = config.get("position_encoding").and_then(Value::as_str);
            assert_eq!(said, is_own.then_some(label), "{form}");
            Model::load(&saved.0).unwrap_or_else(|error| panic!("{form} {label}: {error}"));
            let (again, loaded) = open(&saved.0, Task::Language).unwrap();
            assert_eq!((again.network(), loaded), (&network, Loaded::default()), "{form} {label}");
            assert_eq!(again.graph.parameters(), laid.graph.parameters(), "{form} {label}");
        }
    }
}

/// Models of which the repository has no weights: weights of their own are handed over and loaded.
#[test]
fn relatives_without_weights_go_round() {
    let small = json!({
        "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 24,
    });
    let llama = json!({"num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64});
    let with = |parts: &[&Value]| {
        let all = parts.iter().flat_map(|part| part.as_object().unwrap().clone());
        Value::Object(all.collect())
    };
    let rope =
        |fields: Value| with(&[&small, &llama, &json!({"model_type": "llama", "rope_scaling": fields})]);
    for config in [
        with(&[&small, &json!({"model_type": "roformer", "embedding_size": 10, "hidden_act": "gelu_new"})]),
        with(&[&small, &json!({"rotary_value": true, "type_vocab_size": 3, "tie_word_embeddings": false})]),
        with(&[
            &small,
            &json!({"norm_type": "rms_norm", "tie_word_embeddings": false, "hidden_act": "tanh"}),
        ]),
        with(&[&small, &json!({"norm_type": "rms_norm", "use_bias": false, "hidden_act": "silu"})]),
        with(&[&small, &llama, &json!({"model_type": "mistral", "sliding_window": null})]),
        with(&[&small, &llama, &json!({"model_type": "llama", "attention_bias": true, "mlp_bias": true})]),
        with(&[&small, &llama, &json!({"model_type": "qwen3", "attention_bias": true, "rope_theta": 1e6})]),
        with(&[
            &small,
            &llama,
            &json!({"model_type": "minimind", "inference_rope_scaling": true, "head_dim": 8}),
        ]),
        with(&[
            &small,
            &json!({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": "p2c|c2p",
                "position_buckets": 5, "max_position_embeddings": 40, "norm_rel_ebd": "layer_norm",
                "share_att_key": true, "position_biased_input": false, "legacy": false}),
        ]),
        with(&[
            &small,
            &json!({"model_type": "deberta-v2", "relative_attention": true, "pos_att_type": ["p2c"],
                "max_relative_positions": 3, "max_position_embeddings": 40, "embedding_size": 10,
                "type_vocab_size": 3, "tie_word_embeddings": false, "pooler_hidden_act": "tanh",
                "conv_kernel_size": 3}),
        ]),
        with(&[
            &small,
            &json!({"model_type": "deberta-v2", "pos_att_type": ["c2p"], "max_position_embeddings": 40}),
        ]),
        json!({"model_type": "xlnet", "vocab_size": 40, "d_model": 16, "n_head": 4, "n_layer": 2, "d_inner": 24,
            "clamp_len": 3, "summary_type": "mean", "summary_activation": "relu", "ff_activation": "silu"}),
        json!({"model_type": "xlnet", "vocab_size": 40, "d_model": 10, "n_head": 5, "n_layer": 1, "d_inner": 24,
            "tie_word_embeddings": false, "summary_activation": null}),
        rope(json!({"rope_type": "linear", "factor": 2.0})),
        rope(json!({"rope_type": "dynamic", "factor": 2.0})),
        rope(
            json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 16.0}),
        ),
        rope(
            json!({"rope_type": "longrope", "short_factor": [1.0, 1.1, 1.2], "long_factor": [1.0, 2.0, 3.0],
            "original_max_position_embeddings": 4, "factor": 16.0}),
        ),
        rope(json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16})),
    ] {
        let bytes = config.to_string();
        for task in TASKS {
            let network = Network::from_config(bytes.as_bytes(), task, None)
                .unwrap_or_else(|error| panic!("{config}: {error}"));
            let mut laid = network.build::<f32>(BATCH, LENGTH, 40).unwrap();
            let layout = laid.graph.layout().clone();
            layout.initialise(5, laid.graph.parameters_mut());
            // Of a size that shows: deviations of 0.02 leave all hidden states alike.
            laid.graph.parameters_mut().iter_mut().enumerate().for_each(|(index, x)| {
                *x += ((mix(index as u64) >> 40) as f32 / (1 << 23) as f32 - 1.0) * 0.2;
            });
            let batch = batch(&network);
            laid.set(batch.clone()).unwrap();
            laid.graph.forward();
            let saved = save(&laid, &[]);
            let model = Model::load(&saved.0).unwrap_or_else(|error| panic!("{config}, {task:?}: {error}"));
            let hidden = laid.graph.value(laid.hidden);
            close(&bytes, &run(&model, &batch).last_hidden_state, hidden, Some(&batch.mask));
            let (again, loaded) = open(&saved.0, task).unwrap();
            assert_eq!((again.network(), &loaded), (&network, &Loaded::default()), "{config}");
        }
    }
}

/// Newer MiniMinds have norms of heads, and only their tensors say so. They are handed over as what they are.
#[test]
fn minimind_is_known_by_its_tensors() {
    let fields =
        json!({"model_type": "minimind", "architectures": ["MiniMindForCausalLM"], "rope_theta": 1e4});
    for (name, family) in
        [("golden/decoder/tiny-qwen3", Family::Qwen3), ("golden/decoder/tiny-llama", Family::Llama)]
    {
        let copy = changed(name, fields.clone(), |_| {});
        let (mut laid, _) = open(&copy.0, Task::Language).unwrap();
        assert_eq!(laid.network().blueprint.family, family, "{name}");
        let batch = batch(laid.network());
        laid.set(batch.clone()).unwrap();
        laid.graph.forward();
        let hidden = laid.graph.value(laid.hidden);
        let wanted = run(&Model::load(&copy.0).unwrap(), &batch).last_hidden_state;
        close(name, hidden, &wanted, Some(&batch.mask));
        let class = laid.network().to_config(40, &[]).unwrap()["architectures"][0].clone();
        assert_eq!(class, format!("{}ForCausalLM", family.class()));
    }
}

/// With and without the prefix of a model with a head, and under the names that norms once had.
#[test]
fn tensors_are_known_by_their_older_names() {
    let name = "golden/roformer/tiny-safetensors";
    let (wanted, _) = open(&folder(name), Task::Text(2)).unwrap();
    let rename = |change: &dyn Fn(&str) -> Option<String>| {
        changed(name, json!({"architectures": null}), |tensors| {
            let all = std::mem::take(tensors).into_iter();
            tensors.extend(all.filter_map(|(name, tensor)| Some((change(&name)?, tensor))));
        })
    };
    let bare = rename(&|name| name.strip_prefix("roformer.").map(str::to_string));
    let old = rename(&|name| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        Some(name.replace("LayerNorm.bias", "LayerNorm.beta"))
    });
    let wrapped = rename(&|name| Some(format!("module.{name}")));
    for (copy, unused) in [(bare, 0), (old, 5), (wrapped, 5)] {
        let (laid, loaded) = open(&copy.0, Task::Text(2)).unwrap();
        assert_eq!(laid.graph.parameters(), wanted.graph.parameters());
        assert_eq!((loaded.missing.len(), loaded.unused.len()), (4, unused), "{loaded:?}");
    }
}

/// The bias of a tied output under the output's own name.
#[test]
fn a_bias_may_stand_with_the_output() {
    let name = "golden/roformer/tiny-safetensors";
    let (wanted, _) = open(&folder(name), Task::Language).unwrap();
    let copy = changed(name, json!({}), |tensors| {
        let bias = tensors.remove("cls.predictions.bias").unwrap();
        tensors.insert("cls.predictions.decoder.bias".into(), bias);
    });
    let (laid, loaded) = open(&copy.0, Task::Language).unwrap();
    assert_eq!((loaded, laid.graph.parameters()), (Loaded::default(), wanted.graph.parameters()));
}

/// Heads that a checkpoint does not have keep their numbers; those that nothing asks for are named.
#[test]
fn heads_may_be_missing() {
    let classifier = ["classifier.dense", "classifier.out_proj"];
    let both = |name: &&str| [format!("{name}.weight"), format!("{name}.bias")];
    let (network, weights) = Network::open(folder(FOLDERS[0]), Task::Text(2), None).unwrap();
    let (laid, loaded) = load(&network, &weights).unwrap();
    assert_eq!(loaded.missing, classifier.iter().flat_map(both).collect::<Vec<_>>());
    assert!(loaded.unused.iter().all(|name| name.starts_with("cls.predictions.")), "{loaded:?}");
    assert_eq!(loaded.unused.len(), 5);
    let mut first = vec![0.0; laid.graph.layout().len()];
    laid.graph.layout().initialise(3, &mut first);
    for entry in laid.graph.layout().entries() {
        let is_kept = laid.graph.parameters()[entry.range.clone()] == first[entry.range.clone()];
        // Norms and biases of a model that was never trained may be what they are at first.
        assert!(is_kept || !loaded.missing.contains(&entry.name), "{}", entry.name);
        assert!(!is_kept || loaded.missing.contains(&entry.name) || !entry.is_matrix(), "{}", entry.name);
    }
    // RoFormer-Sim's pooler is used by one task alone.
    let sim = folder("golden/variants/tiny-sim");
    assert!(open(&sim, Task::Similarity).unwrap().1.missing.is_empty());
    let unused = open(&sim, Task::Token(2)).unwrap().1.unused;
    assert!(unused.contains(&"roformer.pooler.dense.weight".to_string()), "{unused:?}");
}

/// Encodings that no other program knows have a type of their own, which no other program runs as if it were rotary; here they are run.
#[test]
fn other_encodings_are_handed_over_under_names_of_their_own() {
    for encoding in Encoding::all().into_iter().filter(|encoding| encoding.name() != "rotary") {
        let name = encoding.name();
        let network = small().with(|own| {
            // A learned table has as many rows as the file says.
            own.longest = if name == "learned" { 40 } else { 1 };
            own.encoding = encoding;
            own.direction = Direction::Causal;
        });
        let config = network.to_config(40, &[]).unwrap();
        assert_eq!(config["model_type"], format!("roformer-{name}"));
        let bytes = config.to_string();
        assert_eq!(Network::from_config(bytes.as_bytes(), Task::Language, None).unwrap(), network, "{name}");
        let laid = network.build::<f32>(BATCH, LENGTH, 40).unwrap();
        let saved = save(&laid, &[]);
        let model = Model::load(&saved.0).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(model.blueprint().encoding, network.blueprint.encoding);
        let (_, loaded) = open(&saved.0, Task::Language).unwrap();
        assert_eq!(loaded, Loaded::default(), "{name}");
    }
}

/// Of a model with a decoder the encoder is trained, and handed over alone.
#[test]
fn an_encoder_is_trained_from_a_model_with_a_decoder() {
    let whole = Model::load(folder("golden/families/tiny-t5")).unwrap();
    for task in [Task::Similarity, Task::Token(3)] {
        let (mut laid, loaded) = open(&folder("golden/families/tiny-t5"), task).unwrap();
        assert!(loaded.missing.iter().all(|name| name.starts_with("classifier.")), "{loaded:?}");
        let batch = batch(laid.network());
        laid.set(batch.clone()).unwrap();
        laid.graph.forward();
        let (hidden, mask) = (laid.graph.value(laid.hidden), Some(&batch.mask[..]));
        let input = Input { ids: &batch.ids, batch: BATCH, token_types: None, mask };
        close("before", hidden, &whole.encode(&input).unwrap().last_hidden_state, mask);
        let after = Model::load(&save(&laid, &[]).0).unwrap();
        assert_eq!((after.blueprint().family, &after.blueprint().encoder), (Family::T5, &None));
        close("after", hidden, &run(&after, &batch).last_hidden_state, mask);
    }
}
