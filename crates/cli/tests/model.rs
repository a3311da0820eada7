//! `info` and `forward` as a user types them, against the models in `golden/roformer`.

mod common;

use common::{BIN, Folder, golden, json, refused, root, succeeds};
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Model, Parameters};
use roformer::weights::Weights;
use safetensors::tensor::SafeTensors;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

fn cases() -> Value {
    serde_json::from_slice(&golden("cases.json")).unwrap()
}

/// A tensor of the golden outputs: its shape and numbers.
fn expected(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f64>) {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    let numbers = view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap()));
    (view.shape().to_vec(), numbers.collect())
}

/// The shape and numbers of nested lists.
fn flat(value: &Value) -> (Vec<usize>, Vec<f64>) {
    let Value::Array(list) = value else { return (Vec::new(), vec![value.as_f64().unwrap()]) };
    let parts: Vec<_> = list.iter().map(flat).collect();
    let inner = parts.first().map_or(Vec::new(), |(shape, _)| shape.clone());
    assert!(parts.iter().all(|(shape, _)| *shape == inner), "ragged");
    let shape = std::iter::once(list.len()).chain(inner).collect();
    (shape, parts.into_iter().flat_map(|(_, numbers)| numbers).collect())
}

/// Compares rows that count: within twice the deviation of transformers' own f32, or 5e-6 of the largest value.
fn close(what: &str, got: &[f64], wanted: &[f64], bounds: &Value, rows: Option<&[f64]>) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let bound = (2.0 * bounds["deviation"].as_f64().unwrap()).max(5e-6 * bounds["largest"].as_f64().unwrap());
    let width = rows.map_or(got.len(), |rows| got.len() / rows.len());
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        if rows.is_none_or(|rows| rows[index / width] != 0.0) {
            assert!((got - wanted).abs() <= bound, "{what}[{index}]: {got} {wanted}, bound {bound:e}");
        }
    }
}

/// A list as it is typed.
fn typed(list: &Value) -> String {
    list.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(",")
}

/// `forward --json` on texts, with what is given beside them.
fn forward(model: &str, texts: &Value, token_types: &Value, mask: &Value) -> Value {
    let mut arguments = vec!["forward".to_string(), "--model".into(), model.into(), "--json".into()];
    for (flag, lists) in [("--ids", texts), ("--token-types", token_types), ("--mask", mask)] {
        for list in lists.as_array().into_iter().flatten() {
            arguments.extend([flag.to_string(), typed(list)]);
        }
    }
    json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn forward_gives_the_logits_of_transformers_for_every_kind_of_file() {
    let (cases, outputs) = (cases(), golden("outputs.safetensors"));
    let files = cases["files"].as_array().unwrap();
    assert_eq!(files.len(), 5);
    for file in files {
        let name = file["dir"].as_str().unwrap();
        let object = forward(&format!("golden/roformer/{name}"), &file["ids"], &Value::Null, &Value::Null);
        // The position table is not read from the file, where it may be rounded to f16.
        let tensor = file.get("logits_own_table").unwrap_or(&file["logits"]).as_str().unwrap();
        let (shape, wanted) = expected(&outputs, tensor);
        let (got_shape, got) = flat(&object["logits"]);
        assert_eq!(got_shape, shape, "{name}");
        close(name, &got, &wanted, &file["outputs"]["logits"], None);
        assert_eq!(flat(&object["last_hidden_state"]).0, [2, 9, 16]);
    }
}

/// A tensor's shape and numbers.
type Tensor = (Vec<usize>, Vec<f32>);

/// Hashed weights that note what is asked for, so that a file of them can be written.
#[derive(Default)]
struct Noted(Mutex<BTreeMap<String, Tensor>>);

impl Parameters<f32> for Noted {
    fn read(&self, name: &str, shape: &[usize], out: &mut [f32]) -> roformer::Result<()> {
        Hashed.read(name, shape, out)?;
        self.0.lock().unwrap().insert(name.into(), (shape.to_vec(), out.to_vec()));
        Ok(())
    }
}

/// Writes the model of a case as transformers would.
fn write_model(folder: &Folder, case: &Value) -> String {
    let mut config = case["config"].clone();
    config["architectures"] = json!([case["head"]]);
    let bytes = config.to_string().into_bytes();
    let noted = Noted::default();
    Model::<f32>::from_parameters(Blueprint::from_config(&bytes).unwrap(), &noted).unwrap();
    let path = folder.model(case["name"].as_str().unwrap(), &[("config.json", &bytes)]);
    let tensors = noted.0.into_inner().unwrap();
    let list = tensors.iter().map(|(name, (shape, data))| (name.as_str(), shape.clone(), &data[..]));
    roformer::weights::save(Path::new(&path).join("model.safetensors"), list).unwrap();
    path
}

#[test]
fn forward_gives_the_outputs_of_transformers_for_every_head() {
    let (cases, outputs, folder) = (cases(), golden("outputs.safetensors"), Folder::new("heads"));
    let mut heads = BTreeMap::new();
    for case in cases["cases"].as_array().unwrap() {
        // What needs another model's output or a cache cannot be asked for here.
        if !case["encoder_length"].is_null() || !case["steps"].is_null() {
            continue;
        }
        let name = case["name"].as_str().unwrap();
        let model = write_model(&folder, case);
        let choices = case["choices"].as_u64();
        // Each question of a multiple-choice model is a call of its own.
        let calls = match choices {
            None => vec![[case["ids"].clone(), case["token_types"].clone(), case["mask"].clone()]],
            Some(_) => (0..case["ids"].as_array().unwrap().len())
                .map(|index| ["ids", "token_types", "mask"].map(|field| case[field][index].clone()))
                .collect(),
        };
        let results: Vec<Value> =
            calls.iter().map(|[ids, types, mask]| forward(&model, ids, types, mask)).collect();
        let numbers = |field: &str| results.iter().flat_map(|o| flat(&o[field]).1).collect::<Vec<_>>();
        let mask = (!case["mask"].is_null()).then(|| flat(&case["mask"]).1);

        let bounds = &case["outputs"];
        let (shape, wanted) = expected(&outputs, &format!("{name}.last_hidden_state"));
        if choices.is_none() {
            assert_eq!(flat(&results[0]["last_hidden_state"]).0, shape, "{name}");
        }
        let got = numbers("last_hidden_state");
        close(name, &got, &wanted, &bounds["last_hidden_state"], mask.as_deref());
        *heads.entry(case["head"].as_str().unwrap()).or_insert(0) += 1;
        if bounds["logits"].is_null() {
            assert!(results[0].get("logits").is_none(), "{name}");
            continue;
        }
        let (shape, wanted) = expected(&outputs, &format!("{name}.logits"));
        let got = flat(&results[0]["logits"]).0;
        assert_eq!(got[1..], shape[1..], "{name}");
        assert_eq!(got[0] * results.len(), shape[0], "{name}");
        let per_token = shape.len() == 3;
        let rows = mask.as_deref().filter(|_| per_token);
        close(name, &numbers("logits"), &wanted, &bounds["logits"], rows);
        // The page for people has all of it too.
        assert!(succeeds(&["forward", "--model", &model, "--ids", "1,2,3"]).contains("logits"));
    }
    assert_eq!(heads.len(), 7, "{heads:?}");
}

#[test]
fn forward_prints_the_shortest_numbers_that_read_back() {
    let text = succeeds(&["forward", "--model", BIN, "--ids", "1,2,3", "--json"]);
    let mut count = 0;
    for number in text.split(|c: char| !(c.is_ascii_digit() || "+-.e".contains(c))) {
        if let Ok(value) = number.parse::<f32>() {
            assert!(number.len() <= format!("{value:?}").len(), "{number}");
            count += 1;
        }
    }
    assert_eq!(count, 3 * 16 + 3 * 40);
}

#[test]
fn forward_prints_a_page_for_people() {
    let out = succeeds(&["forward", "--model", BIN, "--ids", "29,11", "--ids", "24,29"]);
    assert!(out.contains("[2, 2, 16]") && out.contains("[2, 2, 40]"), "{out}");
    let best = out.lines().find(|line| line.starts_with("text 2, token    1 (id    29)")).unwrap();
    assert_eq!(best.matches('(').count(), 1 + 5, "{best}");
}

#[test]
fn forward_refuses_in_one_line() {
    let base = ["forward", "--model", BIN];
    let with = |more: &[&str], says: &[&str]| refused(&[&base[..], more].concat(), says);
    with(&[], &["--ids"]);
    with(&["--ids", ""], &["--ids", "``"]);
    with(&["--ids", "1,"], &["--ids", "``"]);
    with(&["--ids", "1,x"], &["--ids", "`x`"]);
    with(&["--ids=-1"], &["--ids", "`-1`"]);
    with(&["--ids", "1.5"], &["`1.5`"]);
    with(&["--ids", "4294967296"], &["`4294967296`"]);
    with(&["--ids", "1,40"], &["40", "vocabulary"]);
    with(&["--ids", "1,2", "--ids", "3"], &["--ids", "2 and 1"]);
    with(&["--ids", "1,2", "--mask", "1"], &["--mask", "2 tokens"]);
    with(&["--ids", "1,2", "--mask", "1,2"], &["--mask", "`2`"]);
    with(&["--ids", "1", "--ids", "2", "--mask", "1"], &["--mask", "once for each of the 2"]);
    with(&["--ids", "1,2", "--token-types", "0"], &["--token-types", "2 tokens"]);
    with(&["--ids", "1,2", "--token-types", "0,2"], &["token type", "less than 2"]);
    refused(&["forward", "--ids", "1"], &["--model"]);
    refused(&["forward", "--model", "no/such", "--ids", "1"], &["no/such"]);
}

#[test]
fn files_that_cannot_be_used_are_refused_in_one_line() {
    let folder = Folder::new("broken");
    let config = golden("tiny-bin/config.json");
    let forward = |model: &str, says: &[&str]| refused(&["forward", "--model", model, "--ids", "1"], says);
    let target = folder.path("target");
    let all = |model: &str, says: &[&str]| {
        forward(model, says);
        refused(&["info", model], says);
        refused(&["convert", model, &target], says);
        assert!(!Path::new(&target).join("model.safetensors").exists(), "nothing half-written");
    };
    refused(&["info", "no/such"], &["no/such"]);
    refused(&["info", "Cargo.toml"], &["Cargo.toml", "folder"]);
    refused(&["convert", "no/such", &target], &["no/such"]);

    let empty = folder.model("empty", &[]);
    forward(&empty, &["config.json"]);
    refused(&["info", &empty], &["config.json"]);
    refused(&["convert", &empty, &target], &["no weights"]);
    let none = folder.model("none", &[("config.json", &config)]);
    forward(&none, &["no weights", "model.safetensors"]);
    refused(&["convert", &none, &target], &["no weights"]);

    // Of a .bin that is cut, tensors may be whole that stand before the cut; the list at its end is not.
    for (file, name) in [("model.safetensors", "tiny-safetensors"), ("pytorch_model.bin", "tiny-bin")] {
        let bytes = golden(&format!("{name}/{file}"));
        for cut in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
            let cut = folder.model("cut", &[("config.json", &config), (file, &bytes[..cut])]);
            all(&cut, &[file]);
        }
        std::fs::remove_dir_all(folder.path("cut")).unwrap();
    }

    // A pickle that wants to call something: a name of the same length in place of torch's own.
    let mut pickle = golden("tiny-legacy-bin/pytorch_model.bin");
    let (own, other) = (b"torch._utils\n_rebuild_tensor_v2", b"subprocess.x\ncheck_output______");
    let at = pickle.windows(own.len()).position(|window| window == own).unwrap();
    pickle[at..at + own.len()].copy_from_slice(other);
    let hostile = folder.model("hostile", &[("config.json", &config), ("pytorch_model.bin", &pickle)]);
    all(&hostile, &["subprocess.x.check_output", "nothing was run"]);

    // Weights of another size than the configuration says.
    let other = String::from_utf8(config).unwrap().replace("\"vocab_size\": 40", "\"vocab_size\": 41");
    let weights = golden("tiny-bin/pytorch_model.bin");
    let files = [("config.json", other.as_bytes()), ("pytorch_model.bin", &weights)];
    forward(&folder.model("other", &files), &["word_embeddings", "[40, 16]", "[41, 16]"]);
    forward(
        &folder.model("gemma", &[("config.json", br#"{"model_type": "gemma"}"#)]),
        &["model_type", "gemma", "llama"],
    );
}

#[test]
fn info_says_what_a_folder_holds() {
    for (name, format, tensors, dtype, bytes) in [
        ("tiny-safetensors", "safetensors", 42, "F32", 4),
        ("tiny-sharded", "sharded safetensors", 42, "F32", 4),
        ("tiny-bin", "bin", 44, "F32", 4),
        ("tiny-legacy-bin", "bin", 44, "F32", 4),
        ("tiny-bin-f16", "bin", 44, "F16", 2),
    ] {
        let facts = json(&["info", &format!("golden/roformer/{name}"), "--json"]);
        // The index of the sharded files counts 6210, with a position table of 48 × 8.
        let parameters = 6210 - 48 * 8;
        let wanted = json!({
            "model_type": "roformer", "architecture": "RoFormerForMaskedLM", "head": "masked_lm",
            "num_hidden_layers": 2, "num_encoder_layers": null, "hidden_size": 16, "num_attention_heads": 2,
            "num_key_value_heads": null,
            "head_dim": 8, "intermediate_size": 37, "hidden_act": "gelu", "vocab_size": 40, "embedding_size": 16,
            "type_vocab_size": 2, "max_position_embeddings": 48, "positions": 48, "rotary_value": false, "is_decoder": false,
            "add_cross_attention": false, "tie_word_embeddings": true,
            "position_encoding": "rotary", "attention": "softmax", "sentence_transformers": null,
            "rope": {"rope_type": "default", "pairing": "interleaved", "base": 10000.0, "head_dim": 8, "rotary_dim": 8},
            "format": format, "tensors": tensors, "used_tensors": 41, "left_out": 0, "parameters": parameters,
            "dtypes": {dtype: 41}, "bytes": parameters * bytes, "warnings": [],
        });
        assert_eq!(facts, wanted, "{name}");
    }
    let out = succeeds(&["info", BIN]);
    for word in ["RoFormerForMaskedLM", "masked_lm", "gelu", "interleaved, base 10000", "5,826", "encoder"] {
        assert!(out.contains(word), "`{word}` is not in:\n{out}");
    }
    for (model, positions) in [
        ("golden/roformer/tiny-bin", "made for texts of up to 48 tokens"),
        ("golden/families/tiny-bert", "learned, 40 of them"),
        // Its table has two rows more, which no text uses.
        ("golden/families/tiny-roberta", "learned, 40 of them"),
        ("golden/families/tiny-t5", "t5, made for texts of up to 512 tokens"),
        ("golden/families/tiny-xlnet", "xlnet"),
    ] {
        let out = succeeds(&["info", model]);
        assert!(out.contains(&format!("positions    {positions}\n")), "{model}:\n{out}");
    }
}

/// Decoders of the Llama form, as transformers saves them.
#[test]
fn decoders_run_and_are_described() {
    let cases = std::fs::read(root().join("golden/decoder/cases.json")).unwrap();
    let cases: Value = serde_json::from_slice(&cases).unwrap();
    for file in cases["files"].as_array().unwrap() {
        let dir = file["dir"].as_str().unwrap();
        let path = format!("golden/decoder/{dir}");
        let ids: Vec<String> = file["ids"].as_array().unwrap().iter().map(|row| row.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(|row| row.trim_matches(['[', ']'])).collect();
        let output = json(&["forward", "--model", &path, "--ids", ids[0], "--ids", ids[1], "--json"]);
        let is_bare = dir.ends_with("bare");
        assert_eq!(output["last_hidden_state"][1][8].as_array().unwrap().len(), 16);
        assert_eq!(output["logits"].is_null(), is_bare);
        assert!(is_bare || output["logits"][1][8].as_array().unwrap().len() == 40);
        let page = succeeds(&["forward", "--model", &path, "--ids", ids[0]]);
        assert_eq!(page.contains("the 5 best ids"), !is_bare, "{page}");
        refused(&["forward", "--model", &path, "--ids", "1,2", "--token-types", "0,1"], &["token type", "1"]);

        let facts = json(&["info", &path, "--json"]);
        let head = if is_bare { "none" } else { "causal_lm" };
        assert_eq!((&facts["head"], &facts["is_decoder"]), (&json!(head), &json!(true)));
        assert_eq!((&facts["num_key_value_heads"], &facts["warnings"]), (&json!(2), &json!([])));
        assert_eq!(facts["rope"]["pairing"], "half");
    }
}

/// A folder without a model, and that of a run, whose models are in folders of their own: one line says what to name.
#[test]
fn a_folder_without_a_model_says_so() {
    let folder = Folder::new("no-model");
    let empty = folder.model("empty", &[("notes.txt", b"nothing")]);
    let run = folder.model("run", &[("state.json", b"{}")]);
    for (path, words) in
        [(&empty, &["config.json", "no such file", "configuration"][..]), (&run, &["no such file"])]
    {
        for command in [&["info"][..], &["inspect"], &["forward", "--ids", "1", "--model"]] {
            refused(&[command, &[path.as_str()]].concat(), words);
        }
    }
    for name in ["last", "best"] {
        let model = folder.model(&format!("run/{name}"), &[("config.json", b"{}")]);
        for command in [
            &["info"][..],
            &["inspect"],
            &["generate", "a", "--model"],
            &["forward", "--ids", "1", "--model"],
        ] {
            refused(&[command, &[run.as_str()]].concat(), &["folder of a training run", &model]);
        }
    }
}

#[test]
fn info_says_what_it_can_of_other_models() {
    let folder = Folder::new("info");
    let llama = std::fs::read(root().join("examples/llama-3.1-8b.json")).unwrap();
    let path = folder.model("llama", &[("config.json", &llama)]);
    let facts = json(&["info", &path, "--json"]);
    assert_eq!((&facts["model_type"], &facts["head"]), (&json!("llama"), &json!("causal_lm")));
    assert_eq!((&facts["head_dim"], &facts["rope"]["pairing"]), (&json!(128), &json!("half")));
    assert_eq!((&facts["rope"]["rope_type"], &facts["parameters"]), (&json!("llama3"), &Value::Null));
    assert!(facts["warnings"].to_string().contains("no weights"));

    let numbers = vec![0.0; 96];
    let tensors = [
        ("model.embed_positions.weight", vec![4, 16], &numbers[..64]),
        ("lm_head.weight", vec![96], &numbers),
    ];
    roformer::weights::save(Path::new(&path).join("model.safetensors"), tensors).unwrap();
    let facts = json(&["info", &path, "--json"]);
    assert_eq!((&facts["tensors"], &facts["parameters"]), (&json!(2), &json!(64 + 96)));

    let gemma = std::fs::read(root().join("examples/gemma-3-4b.json")).unwrap();
    let path = folder.model("gemma", &[("config.json", &gemma)]);
    let facts = json(&["info", &path, "--json"]);
    assert_eq!(facts["rope"]["layer_types"]["full_attention"]["base"], 1e6);
    assert!(facts["hidden_size"].is_u64());
    // Sizes that make no sense, names that would move the cursor, nothing at all.
    let odd =
        br#"{"model_type": "\u001b[2J", "hidden_size": [], "num_attention_heads": -3, "architectures": "x"}"#;
    let out = succeeds(&["info", &folder.model("odd", &[("config.json", odd)])]);
    assert!(!out.contains('\u{1b}'), "{out}");
    assert_eq!(
        json(&["info", &folder.model("nothing", &[("config.json", b"{}")]), "--json"])["hidden_size"],
        768
    );
    refused(&["info", &folder.model("list", &[("config.json", b"[]")])], &["config.json", "object"]);
}

/// A key that nobody here knows ends a run where a newer transformers wrote it, and is a note where an older one did.
#[test]
fn unknown_keys_of_a_newer_version_are_refused() {
    let (folder, source) = (Folder::new("keys"), root().join("golden/families/tiny-bert"));
    let weights = std::fs::read(source.join("model.safetensors")).unwrap();
    let config = std::fs::read(source.join("config.json")).unwrap();
    let with = |version: &str| {
        let mut config: Value = serde_json::from_slice(&config).unwrap();
        (config["transformers_version"], config["attention_sinks"]) = (version.into(), true.into());
        let config = config.to_string();
        folder.model(version, &[("config.json", config.as_bytes()), ("model.safetensors", &weights)])
    };
    let (newer, older) = (with("5.30.1"), with("4.30.1"));
    refused(
        &["forward", "--model", &newer, "--ids", "3,4"],
        &["config.json", "attention_sinks", "5.30.1", "5.22", "remove"],
    );
    let notes = |path: &str| json(&["info", path, "--json"])["warnings"].to_string();
    assert!(notes(&newer).contains("cannot be run here: ") && notes(&newer).contains("attention_sinks"));
    assert!(!notes(&older).contains("cannot be run here") && notes(&older).contains("attention_sinks"));
    succeeds(&["forward", "--model", &older, "--ids", "3,4"]);
}

/// What `info` finds nothing wrong with is run, and what it finds wrong is what `forward` says.
#[test]
fn info_and_forward_agree() {
    let folder = Folder::new("agree");
    let weights = Weights::open(root().join("golden/roformer/tiny-safetensors")).unwrap();
    let read = |name: &str| {
        let shape = weights.get(name).unwrap().shape().to_vec();
        let mut numbers = vec![0.0; shape.iter().product()];
        weights.read_f32(name, &shape, &mut numbers).unwrap();
        (shape, numbers)
    };
    type Change = fn(&str) -> Option<String>;
    let changes: [(&str, Change, bool); 7] = [
        ("as it is", |name| Some(name.into()), true),
        ("wrapped", |name| Some(format!("module.{name}")), true),
        ("older", |name| Some(name.replace("LayerNorm.weight", "LayerNorm.gamma")), true),
        ("output", |name| Some(name.replace("cls.predictions.bias", "cls.predictions.decoder.bias")), true),
        ("headless", |name| (!name.starts_with("cls.")).then(|| name.into()), false),
        ("without biases", |name| (!name.ends_with("bias")).then(|| name.into()), false),
        ("one lost", |name| (!name.contains("layer.1.output.dense.bias")).then(|| name.into()), false),
    ];
    for (what, change, runs) in changes {
        let all: Vec<_> =
            weights.names().filter_map(|name| change(name).map(|new| (new, read(name)))).collect();
        let path = folder.model(what, &[("config.json", &golden("tiny-safetensors/config.json"))]);
        let tensors = all.iter().map(|(name, (shape, numbers))| (name.clone(), shape.clone(), &numbers[..]));
        roformer::weights::save(Path::new(&path).join("model.safetensors"), tensors).unwrap();
        let warnings = json(&["info", &path, "--json"])["warnings"].clone();
        let forward = ["forward", "--model", &path, "--ids", "1,2,3"];
        match runs {
            true => {
                assert_eq!(warnings, json!([]), "{what}");
                assert_eq!(
                    succeeds(&forward),
                    succeeds(&["forward", "--model", BIN, "--ids", "1,2,3"]),
                    "{what}"
                );
                let converted = folder.path(&format!("{what} converted"));
                succeeds(&["convert", &path, &converted]);
                assert_eq!(
                    succeeds(&["forward", "--model", &converted, "--ids", "1,2,3"]),
                    succeeds(&forward)
                );
            }
            false => {
                let said = warnings[0].as_str().unwrap().strip_prefix("cannot be run here: ").unwrap();
                refused(&forward, &[said]);
                assert_eq!(said.contains("RoFormerV2"), what == "without biases", "{what}: {said}");
            }
        }
    }
    // Of another size, by the configuration alone.
    let path = folder.model(
        "other size",
        &[
            ("config.json", &golden("tiny-safetensors/config.json")),
            ("model.safetensors", &golden("tiny-safetensors/model.safetensors")),
        ],
    );
    let config = String::from_utf8(golden("tiny-safetensors/config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["intermediate_size"] = json!(38);
    std::fs::write(Path::new(&path).join("config.json"), config.to_string()).unwrap();
    let warnings = json(&["info", &path, "--json"])["warnings"].to_string();
    assert!(warnings.contains("[37, 16]") && warnings.contains("cannot be run here"), "{warnings}");
    refused(&["forward", "--model", &path, "--ids", "1,2,3"], &["[37, 16]"]);
}

#[test]
fn the_commands_have_help_with_examples() {
    for command in ["info", "forward", "convert"] {
        let out = succeeds(&[command, "--help"]);
        assert!(out.contains("Examples:") && out.contains(&format!("roformer {command} ")), "{out}");
    }
}
