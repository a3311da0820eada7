//! `ROPE_INSTRUCTIONS`: a program held to fewer vector instructions gives the same answers, to rounding, and one that is told nonsense says so.

mod common;

use common::command;
use serde_json::Value;
use std::process::Output;

fn run(instructions: Option<&str>, arguments: &[&str]) -> Output {
    let mut command = command(arguments);
    match instructions {
        Some(name) => command.env("ROPE_INSTRUCTIONS", name),
        None => command.env_remove("ROPE_INSTRUCTIONS"),
    };
    command.output().unwrap()
}

fn vectors(instructions: Option<&str>, dtype: &str) -> Vec<f64> {
    let arguments = [
        "embed",
        "--model",
        "examples/models/tiny-sim",
        "--dtype",
        dtype,
        "--json",
        "去机场怎么走？",
        "苹果多少钱？",
    ];
    let output = run(instructions, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let numbers = |line: &str| -> Vec<f64> {
        let object: Value = serde_json::from_str(line).unwrap();
        object["embedding"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
    };
    lines.lines().flat_map(numbers).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn fewer_instructions_give_the_same_answers() {
    for dtype in ["f32", "bf16", "int8"] {
        let all = vectors(None, dtype);
        assert_eq!(all.len(), 2 * 64);
        // Where numbers are rounded to fewer bits, a sum that differs in its last one can go the other way.
        let least = if dtype == "f32" { 1.0 - 1e-9 } else { 0.9995 };
        for name in ["portable", "avx2", "avx512", "amx"] {
            let fewer = vectors(Some(name), dtype);
            let cosine = dot(&all, &fewer) / (dot(&all, &all) * dot(&fewer, &fewer)).sqrt();
            assert!(cosine >= least, "{name} in {dtype}: {cosine}");
            assert_eq!(fewer, vectors(Some(name), dtype), "{name} in {dtype}: other bits the second time");
        }
    }
}

#[test]
fn another_name_is_refused() {
    for name in ["sse9", "", "AVX2"] {
        let output = run(Some(name), &["inspect", "examples/llama-3.1-8b.json"]);
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains("ROPE_INSTRUCTIONS is") && message.contains("portable, avx2, avx512, amx"),
            "{message}"
        );
        assert_eq!(message.lines().count(), 1);
    }
}
