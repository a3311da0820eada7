//! The commands as a user types them: what they print, what they refuse, and how.

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

struct Run {
    out: String,
    error: String,
    code: i32,
}

fn roformer(arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_roformer"))
        .args(arguments)
        .env("LC_ALL", "C")
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails before it reads closes the pipe; that is no failure of the test.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

fn json(arguments: &[&str], input: &str) -> Value {
    let run = roformer(arguments, input);
    assert_eq!(run.code, 0, "{}", run.error);
    serde_json::from_str(&run.out).unwrap()
}

/// Refused: exit code 2, nothing on stdout, one line on stderr that says all of this.
fn refused(arguments: &[&str], input: &str, says: &[&str]) {
    let run = roformer(arguments, input);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.error);
    assert_eq!(run.error.trim_end().lines().count(), 1, "{}", run.error);
    assert!(!run.error.contains("For more information"), "said once is enough: {}", run.error);
    for word in says {
        assert!(run.error.contains(word), "`{word}` is not in: {}", run.error);
    }
}

const LLAMA: &str = "examples/llama-3.1-8b.json";

#[test]
fn inspect_prints_the_stable_object() {
    let object = json(&["inspect", LLAMA, "--json"], "");
    assert_eq!(object["rope_type"], "llama3");
    assert_eq!(object["base"], 500000.0);
    assert_eq!((object["head_dim"].as_u64(), object["rotary_dim"].as_u64()), (Some(128), Some(128)));
    assert_eq!(object["pairing"], "half");
    assert_eq!(object["attention_factor"], 1.0);
    assert_eq!(object["max_position_embeddings"], 131072);
    assert_eq!(object["warnings"], Value::Array(Vec::new()));
    let inv_freq = object["inv_freq"].as_array().unwrap();
    assert_eq!((inv_freq.len(), inv_freq[0].as_f64()), (64, Some(1.0)));
}

/// The page of `roformer explore` asks the library for the same object.
#[test]
fn inspect_prints_the_object_of_the_library() {
    for example in ["llama-3.1-8b", "qwen2.5-7b", "gemma-3-4b", "roformer-base"] {
        let path = format!("examples/{example}.json");
        let bytes =
            std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(&path)).unwrap();
        let config = rope::HfConfig::read(&bytes, &rope::HfOptions::default()).unwrap();
        assert_eq!(json(&["inspect", &path, "--json"], ""), roformer::inspect::object(&config, None));
        assert_eq!(
            json(&["inspect", &path, "--json", "--context", "65536"], ""),
            roformer::inspect::object(&config, Some(65_536))
        );
    }
}

#[test]
fn inspect_prints_one_object_a_layer_type_and_null_for_none() {
    let object = json(&["inspect", "examples/gemma-3-4b.json", "--json"], "");
    let layers = &object["layer_types"];
    assert_eq!(layers["full_attention"]["rope_type"], "linear");
    assert_eq!(layers["full_attention"]["base"], 1e6);
    assert_eq!(layers["sliding_attention"]["base"], 1e4);
    assert!(layers["full_attention"]["warnings"][0].as_str().unwrap().contains("text_config"));
    let nope = r#"{"model_type": "gemma4_text", "head_dim": 64, "global_head_dim": 64,
        "rope_parameters": {"sliding_attention": {"rope_type": "default"}, "full_attention": null}}"#;
    let object = json(&["inspect", "-", "--json"], nope);
    assert_eq!(object["layer_types"]["full_attention"], Value::Null);
}

#[test]
fn inspect_with_a_context_gives_the_values_for_that_length() {
    let dynamic = r#"{"model_type": "llama", "head_dim": 64, "max_position_embeddings": 2048,
        "rope_scaling": {"type": "dynamic", "factor": 2.0}}"#;
    let slowest = |arguments: &[&str]| json(arguments, dynamic)["inv_freq"][31].as_f64().unwrap();
    let short = slowest(&["inspect", "-", "--json"]);
    assert_eq!(short, slowest(&["inspect", "-", "--json", "--context", "1000"]));
    // base' = base·(2·2 − 1)^(64/62): the slowest pair is 3 times slower.
    assert!((short / slowest(&["inspect", "-", "--json", "--context", "4096"]) - 3.0).abs() < 1e-12);
}

#[test]
fn inspect_goes_on_without_a_known_model_type() {
    let unknown = r#"{"model_type": "mystery", "head_dim": 64, "rope_theta": 10000}"#;
    let object = json(&["inspect", "-", "--json"], unknown);
    assert_eq!(object["pairing"], Value::Null);
    assert!(object["warnings"][0].as_str().unwrap().contains("set `pairing` to"));
    let object = json(&["inspect", "-", "--json", "--pairing", "interleaved"], unknown);
    assert_eq!(object["pairing"], "interleaved");
    assert_eq!(roformer(&["inspect", "-"], unknown).code, 0);
}

#[test]
fn inspect_prints_a_page_for_people() {
    let run = roformer(&["inspect", "examples/qwen2.5-7b.json", "--context", "131072"], "");
    assert_eq!(run.code, 0);
    for word in [
        "half",
        "wavelength",
        "never completed a turn",
        "YaRN with factor 4",
        "--hf-overrides",
        "--yarn-orig-ctx 32768",
    ] {
        assert!(run.out.contains(word), "`{word}` is not in:\n{}", run.out);
    }
}

#[test]
fn inspect_says_what_a_model_has_that_is_not_rotary() {
    for (config, words) in [
        (r#"{"model_type": "bert", "hidden_size": 768, "num_attention_heads": 12}"#, "learned"),
        (r#"{"model_type": "baichuan", "hidden_size": 5120, "num_attention_heads": 40}"#, "ALiBi"),
        (r#"{"model_type": "roformer-t5", "position_encoding": "t5", "hidden_size": 64}"#, "t5"),
    ] {
        let run = roformer(&["inspect", "-"], config);
        assert_eq!(run.code, 0, "{}", run.error);
        for word in [words, "nothing to turn"] {
            assert!(run.out.contains(word), "`{word}` is not in:\n{}", run.out);
        }
        let object = json(&["inspect", "-", "--json"], config);
        assert!(
            object["encoding"].as_str().unwrap().contains(words) && object["inv_freq"].is_null(),
            "{object}"
        );
        refused(&["rotate", "--config", "-", "--vector", "1,2"], config, &["rotary"]);
    }
}

#[test]
fn inspect_reads_what_python_writes() {
    let config = "\u{feff}{\"model_type\": \"llama\", \"head_dim\": 64, \"limits\": [NaN, -Infinity]}";
    assert_eq!(json(&["inspect", "-", "--json"], config)["rotary_dim"], 64);
    refused(
        &["inspect", "-"],
        r#"{"model_type": "llama", "rope_theta": Infinity}"#,
        &["rope_theta", "Infinity"],
    );
    refused(&["inspect", "-"], r#"{"model_type": "llama", "head_dim": 127}"#, &["`head_dim` is 127", "even"]);
}

#[test]
fn inspect_takes_the_receptive_field_as_a_rule() {
    let config = r#"{"model_type": "llama", "head_dim": 64, "rope_parameters":
        {"rope_type": "receptive-field", "alpha": 0.25, "rho": 0.5}}"#;
    let object = json(&["inspect", "-", "--json"], config);
    assert_eq!(object["rope_type"], "receptive-field");
    assert!((object["inv_freq"][0].as_f64().unwrap() - (0.25 / 100.0 + 0.75)).abs() < 1e-15);
    let run = roformer(&["inspect", "-", "--context", "4096"], config);
    assert!(run.code == 0 && run.out.contains("receptive-field: 0.25"), "{}{}", run.out, run.error);
}

/// A model's name is looked for in the cache of Python's huggingface_hub, where its config.json is all that is needed.
#[test]
fn inspect_takes_names_on_the_hub() {
    let cache = std::env::temp_dir().join(format!("roformer-inspect-{}", std::process::id()));
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let model = cache.join("models--some--model");
    std::fs::create_dir_all(model.join("snapshots").join(commit)).unwrap();
    std::fs::create_dir_all(model.join("refs")).unwrap();
    std::fs::write(model.join("refs/main"), commit).unwrap();
    let config = r#"{"model_type": "llama", "head_dim": 64}"#;
    std::fs::write(model.join("snapshots").join(commit).join("config.json"), config).unwrap();
    let run = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roformer"));
        command.args(["inspect", name, "--json"]).env("HF_HUB_CACHE", &cache).env("HF_HUB_OFFLINE", "1");
        command.output().unwrap()
    };
    let found = run("some/model");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let object: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(object["rotary_dim"], 64);
    let missing = run("some/other");
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("some/other"));
    std::fs::remove_dir_all(&cache).unwrap();
}

#[test]
fn inspect_refuses_in_one_line() {
    refused(&["inspect", "no/such/file.json"], "", &["no/such/file.json"]);
    refused(&["inspect", "-"], "", &["standard input", "empty"]);
    refused(&["inspect", "-"], "{", &["standard input", "not a configuration"]);
    refused(&["inspect", "-"], &" ".repeat(17 << 20), &["standard input", "16777216"]);
    let config = |rope: &str| format!(r#"{{"model_type": "llama", "head_dim": 64, "rope_scaling": {rope}}}"#);
    refused(
        &["inspect", "-"],
        &config(r#"{"type": "linear", "factor": 2, "facter": 3}"#),
        &["rope_scaling.facter", "--allow-unknown facter"],
    );
    let allowed = roformer(
        &["inspect", "-", "--allow-unknown", "facter"],
        &config(r#"{"type": "linear", "factor": 2, "facter": 3}"#),
    );
    assert_eq!(allowed.code, 0, "{}", allowed.error);
    refused(
        &["inspect", "-"],
        &config(r#"{"type": "liner", "factor": 2}"#),
        &["rope_scaling.type", "liner", "linear"],
    );
    refused(&["inspect", "-"], &config(r#"{"type": "linear"}"#), &["rope_scaling.factor", "missing"]);
    refused(&["inspect", LLAMA, "--context", "0"], "", &["--context"]);
    refused(&["inspect", LLAMA, "--pairing", "hlaf"], "", &["hlaf", "interleaved_to_half"]);
    refused(&["inspct"], "", &["inspct", "inspect"]);
}

#[test]
fn rotate_prints_the_notes_examples() {
    let vector = |arguments: &[&str]| {
        let run = roformer(arguments, "");
        assert_eq!(run.code, 0, "{}", run.error);
        let line = run.out.lines().last().unwrap().to_string();
        let numbers = line.split(['[', ']']).nth(1).unwrap().to_string();
        numbers.split(',').map(|x| x.trim().parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    let close = |a: Vec<f64>, b: &[f64]| {
        assert!(a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 6e-5), "{a:?} {b:?}");
    };
    let base = ["rotate", "--vector", "1,2,3,4", "--positions", "2", "--base", "10000", "--pairing"];
    close(vector(&[&base[..], &["half"]].concat()), &[-3.1440, 1.9196, -0.3391, 4.0392]);
    close(vector(&[&base[..], &["interleaved"]].concat()), &[-2.2347, 0.0770, 2.9194, 4.0592]);
    close(
        vector(&["rotate", "--vector", "1,0,0,1", "--positions", "2", "--pairing", "half"]),
        &[-0.4161, -0.0200, 0.9093, 0.9998],
    );
    close(
        vector(&["rotate", "--vector", "1,2,3,4", "--positions", "0..2", "--base", "1000000"]),
        &[-1.984111, 1.995999, 2.462378, 4.001998],
    );
    close(
        vector(&[
            "rotate",
            "--vector=-2.2347,0.0770,2.9194,4.0592",
            "--positions",
            "2",
            "--pairing",
            "interleaved",
            "--inverse",
        ]),
        &[1.0, 2.0, 3.0, 4.0],
    );
}

#[test]
fn rotate_refuses_in_one_line() {
    refused(&["rotate"], "", &["--vector"]);
    refused(&["rotate", "--vector", "1,2,3"], "", &["head_dim", "3"]);
    refused(&["rotate", "--vector", "1,x"], "", &["x"]);
    refused(&["rotate", "--vector", "1,2", "--positions", "a"], "", &["--positions", "`a`"]);
    refused(&["rotate", "--vector", "1,2", "--positions", "0..9999999999"], "", &["2^20"]);
    refused(&["rotate", "--vector", "1,2", "--alpha", "0.5"], "", &["--rho"]);
    refused(&["rotate", "--vector", "1,2", "--alpha", "nan", "--rho", "1"], "", &["alpha", "NaN"]);
    refused(&["rotate", "--vector", "1,2", "--alpha", "0.5", "--rho=-999"], "", &["rho", "-999"]);
    let given = ["rotate", "--vector", "1,2", "--alpha", "1", "--rho", "1", "--frequencies", "1"];
    refused(&given, "", &["--alpha", "--frequencies"]);
    refused(
        &["rotate", "--vector", "1,2", "--positions", "5..2"],
        "",
        &["`5..2`", "does not end before it begins"],
    );
    refused(&["rotate", "--vector", "1,2", "--positions", "-9223372036854775808..9"], "", &["2^20"]);
    refused(&["rotate", "--vector", "1,2", "--positions", "1e300"], "", &["position", "2^53"]);
    refused(&["rotate", "--vector", "1,2", "--config", "examples/roformer-base.json"], "", &["64 features"]);
    refused(&["rotate", "--vector", "1,2", "--base", "0"], "", &["base", "0"]);
    refused(&["rotate", "no.safetensors", "out.safetensors"], "", &["no.safetensors"]);
}

#[test]
fn rotate_has_a_receptive_field() {
    let run = roformer(
        &["rotate", "--vector", "1,2,3,4", "--positions", "3", "--alpha", "0.5", "--rho", "0.5"],
        "",
    );
    assert_eq!(run.code, 0, "{}", run.error);
    // θ* = 0.5/100 + 0.5·θ, with θ = 1 and 0.01.
    let exact = rope::reference::rotate(&[1.0, 2.0, 3.0, 4.0], 3.0, &[0.505, 0.01], 1.0, rope::Pairing::Half);
    let numbers =
        run.out.split(['[', ']']).nth(1).unwrap().split(',').map(|x| x.trim().parse::<f64>().unwrap());
    assert!(numbers.zip(exact).all(|(x, exact)| (x - exact).abs() < 6e-7), "{}", run.out);
}

/// The file that was read is not written over, by whatever name it is called, unless that is asked for.
#[cfg(unix)]
#[test]
fn rotate_keeps_its_input() {
    let folder = std::env::temp_dir().join(format!("roformer-cli-input-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inner")).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let input = path("in.safetensors");
    let q: Vec<u8> = (0..3 * 4).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let views = [("q", TensorView::new(Dtype::F32, vec![1, 3, 4], &q).unwrap())];
    let bytes = safetensors::serialize(views, None).unwrap();
    std::fs::write(&input, &bytes).unwrap();
    std::os::unix::fs::symlink(&input, path("link.safetensors")).unwrap();
    std::os::unix::fs::symlink(&folder, path("folder")).unwrap();
    std::fs::hard_link(&input, path("second.safetensors")).unwrap();
    let names = [
        "in.safetensors",
        "inner/../in.safetensors",
        "folder/in.safetensors",
        "link.safetensors",
        "second.safetensors",
    ];
    for name in names {
        for (from, to) in [(input.clone(), path(name)), (path(name), input.clone())] {
            refused(&["rotate", &from, &to], "", &[&to, "input", "--overwrite"]);
            assert_eq!(std::fs::read(&input).unwrap(), bytes);
        }
    }
    // A file that is not there yet, and a copy, which is another file.
    std::fs::copy(&input, path("copy.safetensors")).unwrap();
    for name in ["new.safetensors", "copy.safetensors"] {
        let run = roformer(&["rotate", &input, &path(name), "--positions", "1"], "");
        assert_eq!((run.code, std::fs::read(&input).unwrap()), (0, bytes.clone()), "{}", run.error);
    }
    let run = roformer(&["rotate", &input, &input, "--positions", "1", "--overwrite"], "");
    assert_eq!(run.code, 0, "{}", run.error);
    assert_eq!(std::fs::read(&input).unwrap(), std::fs::read(path("new.safetensors")).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn rotate_rotates_the_tensors_of_a_file_and_back() {
    let folder = std::env::temp_dir().join(format!("roformer-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let (input, there, back) = (path("in.safetensors"), path("there.safetensors"), path("back.safetensors"));
    let q: Vec<u8> =
        (0..2 * 3 * 5 * 8).flat_map(|i| ((i * 37 % 23) as f32 / 7.0 - 1.5).to_le_bytes()).collect();
    let mask: Vec<u8> = vec![1; 5];
    let views = [
        ("q", TensorView::new(Dtype::F32, vec![2, 3, 5, 8], &q).unwrap()),
        ("mask", TensorView::new(Dtype::U8, vec![5], &mask).unwrap()),
    ];
    std::fs::write(&input, safetensors::serialize(views, None).unwrap()).unwrap();

    // The mask is no number that can be rotated, so the tensor must be named.
    refused(&["rotate", &input, &there], "", &["mask", "U8"]);
    assert!(!std::path::Path::new(&there).exists(), "nothing half-written");
    refused(&["rotate", &input, &there, "--tensor", "k"], "", &["`k`", "mask"]);
    let rotate = ["--tensor", "q", "--positions", "7", "--pairing", "interleaved"];
    let run = roformer(&[&["rotate", &input, &there], &rotate[..]].concat(), "");
    assert_eq!(run.code, 0, "{}", run.error);
    let run = roformer(&[&["rotate", &there, &back, "--inverse"], &rotate[..]].concat(), "");
    assert_eq!(run.code, 0, "{}", run.error);

    let numbers = |path: &str| {
        let bytes = std::fs::read(path).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(file.tensor("mask").unwrap().data(), mask);
        let tensor = file.tensor("q").unwrap();
        assert_eq!(tensor.shape(), [2, 3, 5, 8]);
        let list = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        list.collect::<Vec<f32>>()
    };
    let (x, y, z) = (numbers(&input), numbers(&there), numbers(&back));
    assert!(x.iter().zip(&z).all(|(x, z)| (x - z).abs() < 1e-6));
    // Token 4 of head 1 of batch 1 stands at position 11.
    let at = ((3 + 1) * 5 + 4) * 8;
    let wide: Vec<f64> = x[at..at + 8].iter().map(|&x| x.into()).collect();
    let theta = [1.0, 0.1, 0.01, 0.001];
    let exact = rope::reference::rotate(&wide, 11.0, &theta, 1.0, rope::Pairing::Interleaved);
    assert!(y[at..at + 8].iter().zip(exact).all(|(y, e)| (f64::from(*y) - e).abs() < 1e-6));
    // Truncated and lying files.
    let bytes = std::fs::read(&input).unwrap();
    for cut in [0, 4, 8, 40, bytes.len() - 1] {
        std::fs::write(path("cut.safetensors"), &bytes[..cut]).unwrap();
        refused(&["rotate", &path("cut.safetensors"), &there], "", &["cut.safetensors"]);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn every_command_has_help_with_an_example() {
    let benches = ["rope", "model", "train", "generate", "attention"].map(|what| ["bench", what]);
    for command in [&["inspect"][..], &["rotate"]].into_iter().chain(benches.iter().map(|bench| &bench[..])) {
        let run = roformer(&[command, &["--help"]].concat(), "");
        assert_eq!(run.code, 0);
        assert!(run.out.contains("Example") && run.out.contains("roformer "), "{}", run.out);
    }
}

/// A benchmark that is asked answers each line with one, so that programs can take turns.
#[test]
fn a_bench_of_a_model_answers_what_it_is_asked() {
    let run = roformer(&["bench", "model", "--asked", "--threads", "2"], "2 5 3\n1 7 1\n");
    assert_eq!((run.code, run.error.as_str()), (0, ""));
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shapes: Vec<_> =
        lines[1..].iter().map(|line| (line["batch"].as_u64(), line["length"].as_u64())).collect();
    assert_eq!(lines[0], serde_json::json!({"what": "ready"}));
    assert_eq!(shapes, [(Some(2), Some(5)), (Some(1), Some(7))]);
    for line in &lines[1..] {
        assert!(line["ms"].as_f64().unwrap() > 0.0 && line["gflops"].as_f64().unwrap() > 0.0, "{line}");
    }
    for wrong in ["1 16", "1 -16 1", "4294967296 4294967296 1", "1 2000000 1"] {
        let run = roformer(&["bench", "model", "--asked"], &format!("{wrong}\n"));
        assert_eq!((run.code, run.error.lines().count()), (2, 1), "{}", run.error);
        assert!(
            run.error.contains(&format!("{wrong:?} is no turn; expected BATCH LENGTH REPEATS")),
            "{}",
            run.error
        );
    }
}

/// What the CPU has no such type for is refused before a model is made.
#[test]
fn a_bench_in_a_type_of_gpus_is_refused_in_one_line() {
    for what in ["model", "generate"] {
        let run = roformer(&["bench", what, "--dtype", "tf32"], "");
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.error);
        assert!(run.error.contains("--dtype is tf32; expected f32, bf16 or int8"), "{}", run.error);
    }
}

/// Where there is no GPU, or none may be seen, that is one line.
#[test]
fn a_bench_without_a_gpu_is_refused_in_one_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_roformer"))
        .args(["bench", "rope", "--device", "cuda"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(output.stdout.is_empty());
    let says = ["no NVIDIA GPU can be used: ", "built without the feature `cuda`"];
    assert!(says.iter().any(|says| error.contains(says)) && error.lines().count() == 1, "{error}");
}
