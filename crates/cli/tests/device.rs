//! `--device` and `--dtype` of the commands that run or train a model, where no GPU is seen.

mod common;

use common::{Folder, NETWORK, refused, roformer, succeeds};
use std::fs;

const COMMANDS: [&[&str]; 9] = [
    &["forward", "--model", "examples/models/tiny-mlm", "--ids", "5,6,7", "--json"],
    &["fill-mask", "--model", "examples/models/tiny-mlm", "今天[MASK]很好。", "--json"],
    &["embed", "--model", "examples/models/tiny-sim", "今天天气不错。", "小明", "--json"],
    &["similarity", "--model", "examples/models/tiny-sim", "苹果多少钱？", "苹果怎么卖？", "--json"],
    &[
        "rank",
        "--model",
        "examples/models/tiny-sim",
        "苹果多少钱？",
        "去机场怎么走？",
        "香蕉怎么卖？",
        "--json",
    ],
    &["classify", "--model", "examples/models/tiny-classifier", "这部电影很好看。", "--json"],
    &["answer", "--model", "examples/models/tiny-qa", "小明住在哪里？", "小明住在北京。", "--json"],
    &["generate", "--model", "examples/models/tiny-gpt", "今天", "--json"],
    &["generate", "--model", "examples/models/tiny-sim", "苹果多少钱？", "--paraphrase", "3", "--json"],
];

const COMPARE: [&str; 11] = [
    "compare",
    "--tasks",
    "majority",
    "--encodings",
    "rotary",
    "none",
    "--seeds",
    "2",
    "--steps",
    "4",
    "--sweep",
];

fn train<'a>(data: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let steps = ["train", "--steps", "6", "--warmup", "2", "--eval-every", "3"];
    [&steps[..], &NETWORK, &["--data", data, "--out", out], more].concat()
}

/// A text to train on.
fn text(folder: &Folder) -> String {
    let path = folder.path("text.txt");
    fs::write(&path, "What light through yonder window breaks?\n".repeat(40)).unwrap();
    path
}

/// One line that says that there is no GPU, exit code 1, and nothing on stdout.
fn finds_no_gpu(arguments: &[&str]) {
    let run = roformer(arguments, b"");
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{arguments:?}: {}", run.error);
    let says = ["no NVIDIA GPU can be used: ", "built without the feature `cuda`"];
    let is_said = says.iter().any(|says| run.error.contains(says));
    assert!(is_said && run.error.lines().count() == 1, "{}", run.error);
}

fn with<'a>(arguments: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [arguments, more].concat()
}

#[test]
fn the_processor_gives_the_same_bytes_whether_named_or_found() {
    for arguments in COMMANDS {
        let found = succeeds(arguments);
        assert!(!found.is_empty());
        for device in [&["--device", "cpu"][..], &["--device", "auto", "--dtype", "f32"]] {
            assert_eq!(succeeds(&with(arguments, device)), found, "{arguments:?} {device:?}");
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_one_line() {
    for arguments in COMMANDS {
        for device in ["cuda", "cuda:1"] {
            finds_no_gpu(&with(arguments, &["--device", device]));
        }
    }
}

#[test]
fn training_without_the_gpu_that_was_named_is_one_line_and_leaves_no_folder() {
    let folder = Folder::new("device-named");
    let (data, out) = (text(&folder), folder.path("out"));
    for device in ["cuda", "cuda:1"] {
        for dtype in ["f32", "bf16"] {
            let device = ["--device", device, "--dtype", dtype];
            finds_no_gpu(&train(&data, &out, &device));
            finds_no_gpu(&[&COMPARE[..], &["--out", &out], &device].concat());
            finds_no_gpu(&[&["bench", "train"][..], &device].concat());
            assert_eq!(folder.names(), ["text.txt"]);
        }
    }
}

#[test]
fn training_on_the_processor_is_in_f32() {
    let folder = Folder::new("device-dtype");
    let (data, out) = (text(&folder), folder.path("out"));
    for dtype in ["tf32", "bf16", "int8"] {
        let is = format!("--dtype is {dtype}; expected f32");
        for device in [&["--device", "cpu"][..], &[]] {
            let more = [&["--dtype", dtype][..], device].concat();
            refused(&train(&data, &out, &more), &[&is]);
            refused(&[&COMPARE[..], &["--out", &out], &more].concat(), &[&is]);
            refused(&[&["bench", "train"][..], &more].concat(), &["--dtype is for a GPU", "--device cuda"]);
        }
    }
    refused(&["bench", "train", "--device", "auto"], &["--device is auto", "cpu, cuda or cuda:N"]);
    for size in ["--batch", "--length", "--width", "--layers", "--vocab"] {
        refused(&["bench", "train", size, "64"], &[size, "are for a GPU", "--device cuda"]);
    }
    assert_eq!(folder.names(), ["text.txt"]);
}

#[test]
fn a_model_trained_on_the_processor_has_the_same_bytes_whether_named_or_found() {
    let folder = Folder::new("device-bytes");
    let data = text(&folder);
    let trained = |name: &str, device: &[&str]| {
        let out = folder.path(name);
        let run = roformer(&train(&data, &out, device), b"");
        assert_eq!(run.code, 0, "{}", run.error);
        assert!(!run.error.contains("compiling") && !run.error.contains("GPU"), "{}", run.error);
        fs::read(folder.path(&format!("{name}/last/model.safetensors"))).unwrap()
    };
    let found = trained("found", &[]);
    assert!(found == trained("named", &["--device", "cpu"]), "another model with --device cpu");
    assert!(
        found == trained("auto", &["--device", "auto", "--dtype", "f32"]),
        "another model with --device auto"
    );
    assert!(found != trained("seed", &["--device", "cpu", "--seed", "2"]), "another seed is another model");
}

#[test]
fn the_processor_computes_in_f32_bf16_and_int8() {
    for arguments in COMMANDS {
        let exact = succeeds(arguments);
        for dtype in ["bf16", "int8", "auto"] {
            let found = succeeds(&with(arguments, &["--dtype", dtype]));
            assert_eq!(found, succeeds(&with(arguments, &["--dtype", dtype, "--device", "cpu"])));
            assert_eq!(found.lines().count(), exact.lines().count(), "{arguments:?} in {dtype}");
        }
        let is = "--dtype is tf32; expected f32, bf16 or int8";
        refused(&with(arguments, &["--dtype", "tf32", "--device", "cpu"]), &[is]);
        refused(&with(arguments, &["--dtype", "tf32"]), &[is]);
        refused(&with(arguments, &["--dtype", "f16"]), &["f16", "auto, f32, tf32, bf16, int8"]);
    }
    // Hidden states are numbers near those of f32, and not the same: it is no option that does nothing.
    let hidden = |dtype: &str| {
        let state = &common::json(&with(COMMANDS[0], &["--dtype", dtype]))["last_hidden_state"];
        state.to_string().split(['[', ']', ',']).filter_map(|x| x.parse().ok()).collect::<Vec<f64>>()
    };
    let exact = hidden("f32");
    let length = |list: &[f64]| list.iter().map(|x| x * x).sum::<f64>().sqrt();
    for (dtype, bound) in [("bf16", 0.02), ("int8", 0.05)] {
        let got = hidden(dtype);
        let apart: Vec<f64> = got.iter().zip(&exact).map(|(a, b)| a - b).collect();
        let part = length(&apart) / length(&exact);
        assert!(got.len() == exact.len() && part > 1e-5 && part < bound, "{dtype}: {part}");
    }
}

#[test]
fn devices_have_names() {
    for name in ["gpu", "cuda:", "cuda:-1", "cuda:one", "CPU", ""] {
        let says = [name, "auto, cpu, cuda, or cuda:N"];
        refused(&with(COMMANDS[1], &["--device", name]), &says);
    }
    // No weights are read there, so nothing is asked.
    refused(&["tokenize", "--model", "examples/models/tiny-mlm", "今天", "--device", "cpu"], &["--device"]);
}

#[test]
fn help_names_devices_and_types() {
    for command in COMMANDS.map(|arguments| arguments[0]).into_iter().chain(["train", "compare"]) {
        let help = succeeds(&[command, "--help"]);
        for words in ["--device <DEVICE>", "cuda:N", "[default: auto]", "--dtype <DTYPE>", "bf16", "tf32"] {
            assert!(help.contains(words), "`{words}` is not in {command}'s help: {help}");
        }
    }
}
