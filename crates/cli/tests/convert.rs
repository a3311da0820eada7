//! `convert` as a user types it: what a model gives stays the same, tensors that others make are left out, nothing is overwritten
//! unasked.

mod common;

use common::{BIN, Folder, golden, json, refused, root, succeeds};
use safetensors::tensor::SafeTensors;
use std::path::Path;

#[test]
fn convert_changes_nothing_that_a_model_gives() {
    let folder = Folder::new("convert");
    let ids = ["--ids", "29,11,20", "--json"];
    for name in ["tiny-bin", "tiny-legacy-bin", "tiny-sharded", "tiny-bin-f16", "tiny-safetensors"] {
        let (source, target) = (format!("golden/roformer/{name}"), folder.path(name));
        let out = succeeds(&["convert", &source, &target]);
        assert!(out.contains("41 tensors") && out.contains("left out"), "{out}");
        let forward = |model: &str| succeeds(&[&["forward", "--model", model], &ids[..]].concat());
        assert_eq!(forward(&source), forward(&target), "{name}");
        let config = std::fs::read(Path::new(&target).join("config.json")).unwrap();
        assert_eq!(config, golden(&format!("{name}/config.json")));
        let bytes = std::fs::read(Path::new(&target).join("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert!(
            file.names().iter().all(|name| !name.contains("embed_positions") && !name.contains("decoder"))
        );
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 2, "nothing else is left there");
    }
    // All kinds of f32 file give the same bits.
    let bits = |name: &str| std::fs::read(Path::new(&folder.path(name)).join("model.safetensors")).unwrap();
    assert!(
        ["tiny-legacy-bin", "tiny-sharded", "tiny-safetensors"]
            .iter()
            .all(|name| bits(name) == bits("tiny-bin"))
    );

    // A file without its folder's configuration.
    let file = folder.model("file", &[("weights.bin", &golden("tiny-bin/pytorch_model.bin"))]);
    let target = folder.path("from-file");
    assert!(succeeds(&["convert", &format!("{file}/weights.bin"), &target]).contains("43 tensors"));
    assert!(!Path::new(&target).join("config.json").exists());
}

#[test]
fn convert_keeps_the_tokenizer() {
    let folder = Folder::new("tokenizer");
    let source = root().join("examples/models/tiny-mlm");
    let target = folder.path("target");
    succeeds(&["convert", "examples/models/tiny-mlm", &target]);
    for file in ["vocab.txt", "tokenizer_config.json", "config.json"] {
        let read = |folder: &Path| std::fs::read(folder.join(file)).unwrap();
        assert_eq!(read(&source), read(Path::new(&target)), "{file}");
    }
    let guess = |model: &str| succeeds(&["fill-mask", "--model", model, "今天[MASK]很好。"]);
    assert_eq!(guess(&target), guess("examples/models/tiny-mlm"));
    // One that is another's is not replaced.
    std::fs::write(Path::new(&target).join("vocab.txt"), "[UNK]\n").unwrap();
    std::fs::remove_file(Path::new(&target).join("model.safetensors")).unwrap();
    refused(&["convert", "examples/models/tiny-mlm", &target], &["vocab.txt", "--force"]);
    succeeds(&["convert", "examples/models/tiny-mlm", &target, "--force"]);
    assert_eq!(guess(&target), guess("examples/models/tiny-mlm"));
    // A file alone has none.
    let alone = folder.path("alone");
    succeeds(&["convert", "examples/models/tiny-mlm/model.safetensors", &alone]);
    assert_eq!(std::fs::read_dir(&alone).unwrap().count(), 1);
}

#[test]
fn convert_overwrites_only_when_told_to() {
    let folder = Folder::new("force");
    let target = folder.path("target");
    succeeds(&["convert", BIN, &target]);
    refused(&["convert", BIN, &target], &["model.safetensors", "--force"]);
    succeeds(&["convert", BIN, &target, "--force"]);
    let other = folder.model("other", &[("config.json", b"{}")]);
    refused(&["convert", BIN, &other], &["config.json", "--force"]);
    assert_eq!(std::fs::read(Path::new(&other).join("config.json")).unwrap(), b"{}");
    refused(&["convert", BIN, "Cargo.toml"], &["Cargo.toml", "folder"]);
    // In place: the file is read while its successor is written.
    let own = folder.model(
        "own",
        &[
            ("config.json", &golden("tiny-safetensors/config.json")),
            ("model.safetensors", &golden("tiny-safetensors/model.safetensors")),
        ],
    );
    succeeds(&["convert", &own, &own, "--force"]);
    let read = |folder: &str, file: &str| std::fs::read(Path::new(folder).join(file)).unwrap();
    for file in ["config.json", "model.safetensors"] {
        assert_eq!(read(&own, file), read(&target, file), "{file}");
    }
}

#[test]
fn convert_to_another_pairing_and_back_gives_the_same_bits() {
    let folder = Folder::new("pairing");
    let [plain, half, again, back] = ["plain", "half", "again", "back"].map(|name| folder.path(name));
    let note = |out: String| out.contains("note: queries and keys");
    assert!(!note(succeeds(&["convert", BIN, &plain])));
    assert!(note(succeeds(&["convert", BIN, &half, "--pairing", "half"])));
    // What is permuted already stays as it is; without --pairing too.
    assert!(note(succeeds(&["convert", &half, &again, "--pairing", "half"])));
    succeeds(&["convert", &half, &again, "--force"]);
    assert!(!note(succeeds(&["convert", &again, &back, "--pairing", "interleaved"])));
    let bytes = |folder: &str| std::fs::read(Path::new(folder).join("model.safetensors")).unwrap();
    assert_eq!(bytes(&half), bytes(&again));
    assert_eq!(bytes(&plain), bytes(&back));

    // Only queries and keys differ: in each head of 8, what were pairs side by side are halves.
    let (a, b) = (bytes(&plain), bytes(&half));
    let (a, b) = (SafeTensors::deserialize(&a).unwrap(), SafeTensors::deserialize(&b).unwrap());
    let from: Vec<usize> = (0..16).map(|row| row / 8 * 8 + row % 4 * 2 + row % 8 / 4).collect();
    let mut permuted = 0;
    for (name, view) in a.iter() {
        let (old, new) = (view.data(), b.tensor(name).unwrap());
        if name.contains(".self.query.") || name.contains(".self.key.") {
            let row = old.len() / 16;
            let wanted: Vec<u8> = from.iter().flat_map(|&from| &old[from * row..][..row]).copied().collect();
            assert_eq!(new.data(), wanted, "{name}");
            permuted += 1;
        } else {
            assert_eq!(new.data(), old, "{name}");
        }
    }
    assert_eq!(permuted, 2 * 2 * 2);

    // Such a file would run, and give nonsense.
    refused(
        &["forward", "--model", &half, "--ids", "1"],
        &["half", "convert the weights to the pairing interleaved"],
    );
    assert_eq!(json(&["info", &half, "--json"])["rope"]["pairing"], "half");

    let target = folder.path("target");
    refused(&["convert", BIN, &target, "--pairing", "sideways"], &["--pairing", "half, interleaved"]);
    let weights = golden("tiny-bin/pytorch_model.bin");
    let alone = folder.model("alone", &[("pytorch_model.bin", &weights)]);
    refused(&["convert", &alone, &target, "--pairing", "half"], &["config.json", "--pairing"]);
    let config = String::from_utf8(golden("tiny-bin/config.json")).unwrap();
    for (old, new, says) in [
        ("\"rotary_value\": false", "\"rotary_value\": true", "rotary_value"),
        ("\"roformer\"", "\"gpt_neox\"", "gpt_neox"),
        ("\"roformer\"", "\"llama\"", ".self_attn.q_proj"),
        ("\"hidden_size\": 16", "\"hidden_size\": 20", "heads of 10 features"),
    ] {
        let config = config.replace(old, new);
        let files = [("config.json", config.as_bytes()), ("pytorch_model.bin", &weights)];
        let model = folder.model("wrong", &files);
        refused(&["convert", &model, &target, "--pairing", "half"], &[says]);
    }
    assert!(!Path::new(&target).exists());
}

#[test]
fn convert_permutes_models_with_fewer_heads_of_keys() {
    let folder = Folder::new("llama");
    let config =
        br#"{"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1}"#;
    let model = folder.model("model", &[("config.json", config)]);
    let q: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let tensors = [
        ("model.layers.0.self_attn.q_proj.weight", vec![8, 8], &q[..]),
        ("model.layers.0.self_attn.k_proj.weight", vec![4, 8], &q[..32]),
        ("model.layers.0.self_attn.v_proj.weight", vec![4, 8], &q[..32]),
    ];
    roformer::weights::save(Path::new(&model).join("model.safetensors"), tensors).unwrap();
    let [plain, there, back] = ["plain", "there", "back"].map(|name| folder.path(name));
    succeeds(&["convert", &model, &plain]);
    succeeds(&["convert", &model, &there, "--pairing", "interleaved"]);
    succeeds(&["convert", &there, &back, "--pairing", "half"]);
    let bytes = |folder: &str| std::fs::read(Path::new(folder).join("model.safetensors")).unwrap();
    assert_eq!(bytes(&plain), bytes(&back));
    let there = bytes(&there);
    let file = SafeTensors::deserialize(&there).unwrap();
    let rows = |part: &str| -> Vec<f32> {
        let view = file.tensor(&format!("model.layers.0.self_attn.{part}.weight")).unwrap();
        view.data()
            .chunks_exact(32)
            .map(|row| f32::from_le_bytes(row[..4].try_into().unwrap()) / 8.0)
            .collect()
    };
    assert_eq!(rows("q_proj"), [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    assert_eq!(rows("k_proj"), [0.0, 2.0, 1.0, 3.0]);
    assert_eq!(rows("v_proj"), [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn convert_rounds_and_says_what_it_costs() {
    let folder = Folder::new("convert-dtype");
    let source = "examples/models/tiny-sim";
    let texts = folder.path("texts.txt");
    std::fs::write(&texts, "苹果多少钱？\n\n去机场怎么走？\n").unwrap();
    let size = |path: &str| std::fs::metadata(Path::new(path).join("model.safetensors")).unwrap().len();
    let single = folder.path("f32");
    succeeds(&["convert", source, &single]);
    for (dtype, kinds, part) in [("bf16", &["BF16"][..], 0.55), ("int8", &["BF16", "I8"], 0.45)] {
        let target = folder.path(dtype);
        let out = succeeds(&["convert", source, &target, "--dtype", dtype, "--input", &texts]);
        assert!(kinds.iter().all(|kind| out.contains(&format!("tensors as {kind}"))), "{out}");
        let said = out.lines().find(|line| line.contains("cosine")).unwrap_or_else(|| panic!("{out}"));
        assert!(said.contains("over 2 texts") && said.contains("0.99") || said.contains("1.000"), "{said}");
        assert!((size(&target) as f64) < part * size(&single) as f64, "{dtype}: {} bytes", size(&target));
        // Rounded when it is loaded or beforehand, layers are the same; only what stands around them may be rounded twice.
        let embed = |model: &str, dtype: &str| {
            let out = json(&["embed", "--model", model, "苹果怎么卖？", "--dtype", dtype, "--json"]);
            out["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>()
        };
        let (later, before) = (embed(source, dtype), embed(&target, dtype));
        let length = |list: &mut dyn Iterator<Item = f64>| list.map(|x| x * x).sum::<f64>().sqrt();
        let apart =
            length(&mut later.iter().zip(&before).map(|(a, b)| a - b)) / length(&mut later.iter().copied());
        assert!(apart < 0.01, "{dtype}: {apart}");
        // Whatever reads weights reads these.
        assert_eq!(embed(&target, "f32").len(), before.len());
        assert!(succeeds(&["info", &target]).contains("RoFormer"));
    }
    // 8 bits are said in config.json, so that others refuse them, and taken out again on the way back.
    let config = |path: &str| std::fs::read_to_string(Path::new(path).join("config.json")).unwrap();
    assert!(config(&folder.path("int8")).contains("\"quant_method\": \"roformer_int8\""));
    let back = folder.path("back");
    succeeds(&["convert", &folder.path("int8"), &back]);
    assert_eq!(config(&back), config(&single));
    // Once rounded, twice the same.
    let twice = folder.path("twice");
    succeeds(&["convert", &back, &twice, "--dtype", "int8"]);
    let bytes = |path: &str| std::fs::read(Path::new(path).join("model.safetensors")).unwrap();
    assert!(bytes(&twice) == bytes(&folder.path("int8")));
}

#[test]
fn convert_refuses_to_round_what_it_does_not_know() {
    let folder = Folder::new("convert-dtype-refused");
    let target = folder.path("target");
    let source = "examples/models/tiny-sim";
    refused(&["convert", source, &target, "--dtype", "int4"], &["int4", "f32, bf16, int8"]);
    refused(&["convert", source, &target, "--input", "texts.txt"], &["--input", "nothing is rounded"]);
    let file = "examples/models/tiny-sim/model.safetensors";
    refused(&["convert", file, &target, "--dtype", "int8"], &["--dtype", "no folder"]);
    let missing = folder.path("missing.txt");
    refused(&["convert", source, &target, "--dtype", "int8", "--input", &missing], &["missing.txt"]);
    // Of a file of any size the beginning is read; what is no text is refused.
    let (long, binary) = (folder.path("long.txt"), folder.path("binary.txt"));
    std::fs::write(&long, "苹果".repeat(1 << 20)).unwrap();
    std::fs::write(&binary, [0xff, 0xfe, b'\n']).unwrap();
    assert!(succeeds(&["info", source, "--dtype", "int8", "--input", &long]).contains("over 1 text\n"));
    refused(&["info", source, "--dtype", "int8", "--input", &binary], &["binary.txt", "utf-8"]);
    // Weights that another program has quantised.
    let config = std::fs::read_to_string(root().join(source).join("config.json")).unwrap();
    let config = config.replacen('{', "{\"quantization_config\": {\"quant_method\": \"gptq\"},", 1);
    let weights = std::fs::read(root().join(file)).unwrap();
    let other = folder.model("gptq", &[("config.json", config.as_bytes()), ("model.safetensors", &weights)]);
    refused(&["forward", "--model", &other, "--ids", "1,2"], &["quantization_config", "roformer_int8"]);
    refused(&["convert", &other, &target, "--dtype", "int8", "--force"], &["quantization_config"]);
}
