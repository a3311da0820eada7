//! Folders: what is missing, cut short, of another model, or lies.

pub use super::temporary::Folder;
use super::*;

impl Folder {
    /// With the files of a folder of `golden`.
    fn like(dir: &str) -> Folder {
        let folder = Folder::new();
        for file in fs::read_dir(golden(dir)).unwrap() {
            let file = file.unwrap();
            folder.put(file.file_name().to_str().unwrap(), fs::read(file.path()).unwrap());
        }
        folder
    }

    /// Sets fields of its configuration.
    pub fn configure(&self, fields: Value) {
        let path = self.0.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        fs::write(path, config.to_string()).unwrap();
    }

    /// With the tiny model's tensors, changed.
    fn with(change: impl FnOnce(&mut Tensors)) -> Folder {
        Folder::with_tensors("tiny-safetensors", change)
    }

    /// With the tensors of a folder of `golden`, changed.
    pub fn with_tensors(dir: &str, change: impl FnOnce(&mut Tensors)) -> Folder {
        let folder = Folder::like(dir);
        let bytes = fs::read(folder.0.join("model.safetensors")).unwrap();
        let mut tensors: Tensors = SafeTensors::deserialize(&bytes)
            .unwrap()
            .iter()
            .map(|(name, view)| {
                let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                (name.to_string(), (view.shape().to_vec(), values.collect()))
            })
            .collect();
        change(&mut tensors);
        let list = tensors.iter().map(|(name, (shape, values))| (name.as_str(), shape.clone(), &values[..]));
        weights::save(folder.0.join("model.safetensors"), list).unwrap();
        folder
    }

    fn load(&self) -> Result<Model> {
        Model::load(&self.0)
    }
}

pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

const WORDS: &str = "roformer.embeddings.word_embeddings.weight";
const POSITIONS: &str = "roformer.encoder.embed_positions.weight";

#[test]
fn what_is_not_there_is_named() {
    let folder = Folder::new();
    let nowhere = folder.0.join("nowhere");
    refused(Model::load(&nowhere), &["nowhere", "config.json"], "no folder");
    refused(folder.load(), &[folder.0.to_str().unwrap(), "config.json"], "no config.json");
    refused(Model::load(""), &["config.json"], "no path");
    assert!(Model::load("\0").is_err(), "a path that cannot be");

    let folder = Folder::like("tiny-safetensors");
    refused(Model::load(folder.0.join("model.safetensors")), &["model.safetensors"], "a file");
    fs::remove_file(folder.0.join("model.safetensors")).unwrap();
    refused(
        folder.load(),
        &[folder.0.to_str().unwrap(), "model.safetensors", "pytorch_model.bin"],
        "no weights",
    );
    fs::create_dir(folder.0.join("model.safetensors")).unwrap();
    refused(folder.load(), &["model.safetensors"], "weights that are a folder");

    let folder = Folder::like("tiny-safetensors");
    fs::remove_file(folder.0.join("config.json")).unwrap();
    fs::create_dir(folder.0.join("config.json")).unwrap();
    refused(folder.load(), &["config.json"], "a configuration that is a folder");

    let folder = Folder::like("tiny-sharded");
    fs::remove_file(folder.0.join("model-00002-of-00003.safetensors")).unwrap();
    refused(folder.load(), &["model-00002-of-00003.safetensors"], "a shard that is missing");
}

#[cfg(target_os = "linux")]
#[test]
fn files_without_end_are_refused() {
    use std::os::unix::fs::symlink;
    for (name, to) in [
        ("config.json", "/dev/zero"),
        ("config.json", "/dev/null"),
        ("config.json", "nowhere"),
        ("model.safetensors", "/dev/zero"),
        ("model.safetensors", "/dev/null"),
        ("model.safetensors", "nowhere"),
        ("model.safetensors", "model.safetensors"),
    ] {
        let folder = Folder::like("tiny-safetensors");
        fs::remove_file(folder.0.join(name)).unwrap();
        symlink(to, folder.0.join(name)).unwrap();
        refused(folder.load(), &[name], (name, to));
    }
}

#[test]
fn configurations_that_the_weights_do_not_fit_are_refused_by_tensor() {
    let table: &[(Value, &[&str])] = &[
        (json!({"num_hidden_layers": 3}), &["missing", "roformer.encoder.layer.2."]),
        (json!({"num_hidden_layers": 1}), &["unexpected", "roformer.encoder.layer.1."]),
        (json!({"num_hidden_layers": 0}), &["unexpected", "roformer.encoder.layer.0."]),
        (json!({"vocab_size": 41}), &[WORDS, "[40, 16]", "[41, 16]"]),
        (json!({"vocab_size": 1}), &[WORDS, "[40, 16]", "[1, 16]"]),
        (json!({"vocab_size": LIMIT}), &[WORDS, "[40, 16]", "[16777216, 16]"]),
        (json!({"type_vocab_size": 3}), &["token_type_embeddings.weight", "[2, 16]", "[3, 16]"]),
        (json!({"intermediate_size": 36}), &["intermediate.dense.weight", "[37, 16]", "[36, 16]"]),
        (
            json!({"hidden_size": 32, "embedding_size": 32, "num_attention_heads": 4}),
            &[WORDS, "[40, 16]", "[40, 32]"],
        ),
        (json!({"hidden_size": 32, "num_attention_heads": 4}), &["missing", "roformer.embeddings_project."]),
        (json!({"embedding_size": 8}), &["missing", "roformer.embeddings_project."]),
        (
            json!({"num_attention_heads": 4}),
            &["table of positions", "[48, 8]", "heads of 4 features", POSITIONS],
        ),
        (json!({"num_attention_heads": 1}), &["table of positions", "[48, 8]", "heads of 16 features"]),
        (json!({"is_decoder": true, "add_cross_attention": true}), &["missing", "crossattention"]),
        (json!({"architectures": ["RoFormerModel"]}), &["unexpected", "cls.predictions."]),
        (
            json!({"architectures": ["RoFormerForTokenClassification"]}),
            &["missing: classifier.", "unexpected: cls."],
        ),
        (json!({"architectures": ["RoFormerForSequenceClassification"]}), &["missing: classifier.dense"]),
        (json!({"architectures": ["RoFormerForQuestionAnswering"]}), &["missing: qa_outputs."]),
        (json!({"architectures": ["RoFormerForMultipleChoice"]}), &["missing: classifier."]),
    ];
    for dir in ["tiny-safetensors", "tiny-bin", "tiny-legacy-bin", "tiny-sharded"] {
        for (fields, words) in table {
            let folder = Folder::like(dir);
            folder.configure(fields.clone());
            refused(folder.load(), words, (dir, fields));
        }
    }
    // torch saves what is tied under both names; safetensors does not.
    for dir in ["tiny-safetensors", "tiny-sharded"] {
        let folder = Folder::like(dir);
        folder.configure(json!({"tie_word_embeddings": false}));
        refused(folder.load(), &["missing", "cls.predictions.decoder."], dir);
    }
}

/// What the shapes in a file say costs nothing to find out.
#[test]
fn sizes_beyond_memory_that_the_weights_do_not_fit_are_refused_by_tensor() {
    apart("sizes_beyond_memory_that_the_weights_do_not_fit_are_refused_by_tensor", || {
        // Without a table of positions: that would be the first to be found wrong.
        let folder = Folder::with(|tensors| drop(tensors.remove(POSITIONS)));
        for (fields, words) in [
            (
                json!({"vocab_size": LIMIT, "embedding_size": LIMIT, "hidden_size": LIMIT, "num_attention_heads": LIMIT / 2}),
                [WORDS, "[40, 16]", "[16777216, 16777216]"],
            ),
            (
                json!({"vocab_size": LIMIT, "embedding_size": 16, "hidden_size": 16, "num_attention_heads": 2}),
                [WORDS, "[40, 16]", "[16777216, 16]"],
            ),
        ] {
            folder.configure(fields.clone());
            refused(folder.load(), &words, fields);
        }
    });
}

#[test]
fn layers_beyond_memory_that_the_weights_do_not_have_are_refused() {
    apart("layers_beyond_memory_that_the_weights_do_not_have_are_refused", || {
        let folder = Folder::like("tiny-safetensors");
        folder.configure(json!({"num_hidden_layers": LIMIT}));
        refused(folder.load(), &["missing", "roformer.encoder.layer."], "16 million layers");
    });
}

#[test]
fn tensors_too_few_or_too_many_are_named() {
    let names: Vec<String> = {
        let weights = weights::Weights::open(golden("tiny-safetensors")).unwrap();
        weights.names().map(str::to_string).collect()
    };
    for name in names.iter().filter(|&name| name != POSITIONS) {
        let folder = Folder::with(|tensors| drop(tensors.remove(name)));
        refused(folder.load(), &["missing", name], name);
    }
    // The table of positions is made anew.
    assert!(Folder::with(|tensors| drop(tensors.remove(POSITIONS))).load().is_ok());

    for name in [
        "extra",
        "roformer.encoder.layer.7.output.dense.bias",
        "embeddings.word_embeddings",
        "lm_head.weight",
    ] {
        let folder = Folder::with(|tensors| drop(tensors.insert(name.into(), (vec![1], vec![0.0]))));
        refused(folder.load(), &["unexpected", name], name);
    }
}

/// They come from the file: as long and as odd as someone liked.
#[test]
fn odd_names_are_named_briefly() {
    for name in
        ["x".repeat(1 << 20), "\u{1b}[31mred\u{1b}[0m".into(), "a\nb".into(), "\u{202e}".into(), "🦀".into()]
    {
        let folder = Folder::with(|tensors| drop(tensors.insert(name.clone(), (vec![1], vec![0.0]))));
        refused(folder.load(), &["unexpected"], name.chars().take(20).collect::<String>());
    }
}

#[test]
fn relatives_are_recognised() {
    let v2 = Folder::with(|tensors| {
        tensors.retain(|name, _| !name.ends_with("bias") && !name.contains("LayerNorm"))
    });
    refused(v2.load(), &["RoFormerV2", "missing"], "V2");
    let no_biases = Folder::with(|tensors| tensors.retain(|name, _| !name.ends_with("bias")));
    refused(no_biases.load(), &["RoFormerV2", "missing"], "no biases");
    let first = Folder::with(|_| {});
    first.configure(json!({"norm_type": "rms_norm", "use_bias": false}));
    refused(first.load(), &["the first RoFormer", "RoFormerV2's", "unexpected"], "V1 weights");
    let half = Folder::with(|tensors| {
        tensors.insert("roformer.pooler.dense.weight".into(), (vec![16, 16], vec![0.0; 256]));
    });
    refused(half.load(), &["missing", "pooler.dense.bias"], "half a pooler");
    let other = Folder::with(|tensors| {
        tensors.insert("roformer.pooler.dense.weight".into(), (vec![16, 8], vec![0.0; 128]));
        tensors.insert("roformer.pooler.dense.bias".into(), (vec![16], vec![0.0; 16]));
    });
    refused(other.load(), &["pooler.dense.weight", "[16, 8]", "[16, 16]"], "a pooler of another size");
}

/// One tensor that is lost, or a head that was never there, makes no other model of it.
#[test]
fn what_is_missing_is_not_taken_for_another_model() {
    let message = |keep: &dyn Fn(&str) -> bool| {
        let folder = Folder::with(|tensors| tensors.retain(|name, _| keep(name)));
        let error = folder.load().err().expect("refused").to_string();
        assert!(!error.contains("RoFormerV2"), "{error}");
        error
    };
    let layer = "roformer.encoder.layer.1.output";
    for lost in ["dense.bias", "LayerNorm.weight", "LayerNorm.bias"].map(|part| format!("{layer}.{part}")) {
        assert!(message(&|name| name != lost).contains(&lost));
    }
    assert!(message(&|name| !name.contains("LayerNorm")).contains("LayerNorm"));
    let headless = message(&|name| !name.starts_with("cls."));
    assert!(headless.contains("no head") && headless.contains("RoFormerModel"), "{headless}");
    // As it says, they run without.
    let folder = Folder::with(|tensors| tensors.retain(|name, _| !name.starts_with("cls.")));
    folder.configure(json!({"architectures": ["RoFormerModel"]}));
    assert!(folder.load().is_ok());
}

/// Layouts that other programs write, in the same numbers.
#[test]
fn other_layouts_of_the_same_weights_are_read() {
    type Rename = fn(&str) -> String;
    let older: Rename = |name| {
        let name = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        name.replace("LayerNorm.bias", "LayerNorm.beta")
    };
    let output: Rename = |name| name.replace("cls.predictions.bias", "cls.predictions.decoder.bias");
    let layouts: [(&str, Rename); 4] = [
        ("the bias of the output under its own name", output),
        ("older names of norms", older),
        ("a parallel module's", |name| format!("module.{name}")),
        ("all of it", |name| format!("module.{name}")),
    ];
    let forward = |model: Model| model.forward(&ids(&[3, 1, 4, 1, 5])).unwrap().logits.unwrap().scores;
    let wanted = forward(Model::load(golden("tiny-safetensors")).unwrap());
    for (what, rename) in layouts {
        for names_head in [true, false] {
            let folder = Folder::with(|tensors| {
                let all = std::mem::take(tensors).into_iter();
                tensors.extend(all.map(|(name, tensor)| match what {
                    "all of it" => (rename(&older(&output(&name))), tensor),
                    _ => (rename(&name), tensor),
                }));
            });
            if !names_head {
                folder.configure(json!({"architectures": null}));
            }
            let model = folder.load().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(model.head(), HeadKind::MaskedLm, "{what}");
            assert!(forward(model) == wanted, "{what}");
        }
    }
    // A name that is taken is not given away.
    let both = Folder::with(|tensors| {
        let norm = tensors["roformer.embeddings.LayerNorm.weight"].clone();
        tensors.insert("roformer.embeddings.LayerNorm.gamma".into(), norm);
    });
    refused(both.load(), &["unexpected", "LayerNorm.gamma"], "both names");
}

#[test]
fn tables_of_positions_that_are_others_are_refused() {
    type Change = fn(&mut Vec<usize>, &mut Vec<f32>);
    let changes: [(&str, Change); 12] = [
        ("zeros", |_, values| values.fill(0.0)),
        ("NaN", |_, values| values.fill(f32::NAN)),
        ("one NaN", |_, values| values[100] = f32::NAN),
        ("infinities", |_, values| values.fill(f32::INFINITY)),
        ("one number off", |_, values| values[383] += 0.01),
        ("reversed", |_, values| values.reverse()),
        ("interleaved", |_, values| {
            values.chunks_exact_mut(8).for_each(|row| {
                let old = row.to_vec();
                (0..8).for_each(|i| row[i] = old[i / 2 + i % 2 * 4]);
            });
        }),
        ("from 1 on", |_, values| values.rotate_left(8)),
        ("one axis", |shape, _| *shape = vec![384]),
        ("three axes", |shape, _| *shape = vec![48, 2, 4]),
        ("other heads", |shape, _| *shape = vec![24, 16]),
        ("no axes", |shape, values| {
            *shape = vec![];
            *values = vec![0.0];
        }),
    ];
    for (name, change) in changes {
        let folder = Folder::with(|tensors| {
            let (shape, values) = tensors.get_mut(POSITIONS).unwrap();
            change(shape, values);
        });
        refused(folder.load(), &["table of positions", POSITIONS], name);
    }
    // Without rows it says nothing wrong.
    refused_or_works(
        Folder::with(|tensors| *tensors.get_mut(POSITIONS).unwrap() = (vec![0, 8], vec![])).load(),
    );
}

/// torch can say of one number that it is a table of any size: all steps are 0.
#[test]
fn tables_of_positions_of_one_number_take_no_memory() {
    apart("tables_of_positions_of_one_number_take_no_memory", || {
        let whole = fs::read(golden("tiny-legacy-bin").join("pytorch_model.bin")).unwrap();
        // [48, 8] in steps of [8, 1], as a pickle says it.
        let before = b"K0K\x08\x86";
        let at = whole.windows(before.len()).position(|part| part == before).unwrap();
        let steps = &whole[at + before.len()..][..2 + 5];
        assert!(steps.ends_with(b"K\x08K\x01\x86"), "{steps:?}");
        let (memo, after) = (&steps[..2], &whole[at + before.len() + steps.len()..]);
        let folder = Folder::like("tiny-legacy-bin");
        // 2^20 or 2^24 rows, of 8, 2^13 or 2^24 numbers. (Heads of more than 2^13 are refused before.)
        for (hidden, heads, shape) in [
            (16, 2, &b"J\x00\x00\x10\x00K\x08\x86"[..]),
            (16, 2, b"J\x00\x00\x00\x01K\x08\x86"),
            (16, 2, b"J\x00\x00\x00\x01J\x00\x00\x00\x01\x86"),
            (1 << 13, 1, b"J\x00\x00\x10\x00J\x00\x20\x00\x00\x86"),
        ] {
            folder.put("pytorch_model.bin", [&whole[..at], shape, memo, b"K\x00K\x00\x86", after].concat());
            folder.configure(
                json!({"hidden_size": hidden, "embedding_size": 16, "num_attention_heads": heads}),
            );
            refused(folder.load(), &["table of positions"], (hidden, heads, shape));
        }
    });
}

#[test]
fn whole_numbers_are_no_weights() {
    let bytes = fs::read(golden("tiny-safetensors").join("model.safetensors")).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for kind in ["I32", "U32", "I99", "f32"] {
        let header = text(&bytes[8..end]).replacen("F32", kind, 1);
        let folder = Folder::like("tiny-safetensors");
        folder.put("model.safetensors", [&bytes[..8], header.as_bytes(), &bytes[end..]].concat());
        refused(folder.load(), &["model.safetensors"], kind);
    }
}

#[test]
fn weights_that_are_not_finite_load_and_give_what_they_give() {
    let input = ids(&[1, 2, 3]);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let model = Folder::with(|tensors| {
            let all = tensors.iter_mut().filter(|(name, _)| *name != POSITIONS);
            all.for_each(|(_, (_, values))| values.fill(value));
        });
        let output = model.load().unwrap().forward(&input).unwrap();
        assert!(output.last_hidden_state.iter().all(|x| x.is_nan()), "{value}");
        assert!(output.logits.unwrap().scores.iter().all(|x| !x.is_finite()), "{value}");

        // One word: whatever is computed with it is not finite, and says so.
        let model = Folder::with(|tensors| tensors.get_mut(WORDS).unwrap().1[2 * 16] = value).load().unwrap();
        let output = model.forward(&input).unwrap();
        assert!(
            output.last_hidden_state.iter().all(|x| x.is_nan()),
            "{value}: {:?}",
            output.last_hidden_state
        );
        let output = model.forward(&ids(&[1, 3])).unwrap();
        assert!(output.last_hidden_state.iter().all(|x| x.is_finite()));
    }
    for (name, value) in [("attention.self.query.weight", f32::MAX), ("intermediate.dense.weight", f32::NAN)]
    {
        let model = Folder::with(|tensors| {
            let (_, values) = tensors.get_mut(&format!("roformer.encoder.layer.0.{name}")).unwrap();
            values.fill(value);
        });
        let output = model.load().unwrap().forward(&input).unwrap();
        assert!(value.is_finite() || output.last_hidden_state.iter().all(|x| x.is_nan()), "{name}");
    }
}

#[test]
fn every_truncation_is_refused_by_file() {
    for (dir, file) in [
        ("tiny-safetensors", "model.safetensors"),
        ("tiny-bin", "pytorch_model.bin"),
        ("tiny-legacy-bin", "pytorch_model.bin"),
        ("tiny-sharded", "model.safetensors.index.json"),
        ("tiny-sharded", "model-00003-of-00003.safetensors"),
        ("tiny-safetensors", "config.json"),
    ] {
        let folder = Folder::like(dir);
        let whole = fs::read(golden(dir).join(file)).unwrap();
        let len = whole.trim_ascii_end().len();
        // Many at both ends, where the structures are.
        let ends = (0..70).chain((0..100).map(|i| 70 + i * (len - 110) / 100)).chain(len - 40..len);
        for end in ends {
            folder.put(file, &whole[..end]);
            refused(folder.load(), &[file], (dir, file, end));
        }
        folder.put(file, whole);
        folder.load().unwrap();
    }
}

fn any_file() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("tiny-safetensors", "model.safetensors"),
        ("tiny-bin", "pytorch_model.bin"),
        ("tiny-bin-f16", "pytorch_model.bin"),
        ("tiny-legacy-bin", "pytorch_model.bin"),
        ("tiny-sharded", "model.safetensors.index.json"),
        ("tiny-safetensors", "config.json"),
    ])
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn files_with_any_bytes_changed_are_refused_or_work(
        (dir, file) in any_file(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
    ) {
        let folder = Folder::like(dir);
        let mut bytes = fs::read(golden(dir).join(file)).unwrap();
        for (at, value, early) in flips {
            // Half of them where headers and pickles are.
            let end = if early { bytes.len().min(3000) } else { bytes.len() };
            bytes[at.index(end)] = value;
        }
        folder.put(file, bytes);
        if let Some(model) = refused_or_works(folder.load()) {
            refused_or_works(model.forward(&ids(&[1, 0, 1])));
        }
    }
}
