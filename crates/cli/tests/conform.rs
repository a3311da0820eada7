//! `roformer conform` as users type it.

mod common;

use common::{roformer, succeeds};
use rope_conformance::{Answers, Dtype, Judge, Level, folder, mistakes, small};
use std::fs;
use std::path::PathBuf;

/// An empty folder of this test's own.
fn empty(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("conform-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// Somebody who reads the files and nothing of ours: expected.safetensors, renamed.
fn answer_rightly(folder: &std::path::Path) {
    let cases = folder::read_cases(&fs::read_to_string(folder.join(folder::CASES)).unwrap()).unwrap();
    let expected = Answers::read(&fs::read(folder.join(folder::EXPECTED)).unwrap()).unwrap();
    let mut answers = Answers::default();
    for case in cases {
        let side = |letter: &str| expected.get(&format!("{}.{letter}", case.name)).unwrap().values.clone();
        answers.add(&case.meaning().unwrap(), Dtype::Bf16, [side("q"), side("k")]);
    }
    fs::write(folder.join(folder::ANSWERS), answers.write().unwrap()).unwrap();
}

#[test]
fn cases_answers_verdict() {
    let folder = empty("whole");
    let path = folder.to_str().unwrap();
    let said = succeeds(&["conform", "cases", path]);
    assert!(said.starts_with("33 cases written to"), "{said}");
    answer_rightly(&folder);
    let said = succeeds(&["conform", "judge", path]);
    assert!(said.contains("default-half") && said.contains("33 right, 0 wrong"), "{said}");
    assert!(said.contains("exact angles, rounded once"), "{said}");

    let judge = Judge::new(&small()).unwrap();
    let missing = mistakes::find("factor-missing").unwrap();
    let answers = judge.mistaken(&[missing], Dtype::F32, Level::ALL[0]).unwrap();
    fs::write(folder.join(folder::ANSWERS), answers.write().unwrap()).unwrap();
    let page = folder.join("report.html");
    let run = roformer(&["conform", "judge", path, "--page", page.to_str().unwrap()], b"");
    assert_eq!(run.code, 1);
    assert!(run.out.contains("factor-missing: the implementation does not multiply"), "{}", run.out);
    assert!(run.error.contains("answers are wrong"), "{}", run.error);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("<h2>factor-missing</h2>"), "{page}");
    let run = roformer(&["conform", "judge", path, "--json"], b"");
    let report: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((report["ok"].as_bool(), report["missing"].as_u64()), (Some(false), Some(0)));
    assert_eq!(report["findings"][0]["explanations"][0][0], "factor-missing");
}

#[test]
fn some_cases_and_cases_of_a_configuration() {
    let folder = empty("some");
    let path = folder.to_str().unwrap();
    assert!(succeeds(&["conform", "cases", path, "--tag", "yarn", "--tag", "half"]).starts_with("5 cases"));
    let said = succeeds(&["conform", "cases", path, "--full", "--tag", "llama3"]);
    let count: usize = said.split(' ').next().unwrap().parse().unwrap();
    assert!(count > 10, "{said}");
    let config = folder.join("config.json");
    fs::write(&config, r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1}"#).unwrap();
    let said = succeeds(&["conform", "cases", path, "--config", config.to_str().unwrap()]);
    assert!(said.starts_with("2 cases"), "{said}");
    answer_rightly(&folder);
    assert!(succeeds(&["conform", "judge", path]).contains("2 right, 0 wrong"));
    assert!(succeeds(&["conform", "mistakes"]).contains("turned-backwards\n  the implementation turns by"));
}

#[test]
fn what_cannot_be_judged_is_one_line() {
    let folder = empty("odd");
    let path = folder.to_str().unwrap();
    let fails = |arguments: &[&str], words: &str| {
        let run = roformer(arguments, b"");
        assert_eq!(run.code, 2, "{}", run.error);
        assert!(run.error.contains(words) && run.error.lines().count() == 1, "{}", run.error);
    };
    fails(&["conform", "judge", path], "cases.json: no such file; expected a folder of cases");
    fails(&["conform", "cases", path, "--tag", "yern"], "the tag `yern`; expected one of");
    fails(&["conform", "cases", path, "--config", "/nowhere/config.json"], "no such file");
    succeeds(&["conform", "cases", path, "--tag", "linear"]);
    fails(&["conform", "judge", path], "answers.safetensors: no such file; expected what the implementation");
    fs::write(folder.join(folder::ANSWERS), b"not a file of tensors").unwrap();
    fails(&["conform", "judge", path], "answers.safetensors: not a whole safetensors file");
    let judge = Judge::new(&small()[..1]).unwrap();
    let mut answers = Answers::default();
    judge.meanings().for_each(|meaning| answers.add(meaning, Dtype::F32, meaning.expected()));
    fs::write(folder.join(folder::ANSWERS), answers.write().unwrap()).unwrap();
    fails(
        &["conform", "judge", path],
        "tensor `default-half.f32.k`; expected names of the form CASE.DTYPE.q",
    );
    fs::write(folder.join(folder::ANSWERS), Answers::default().write().unwrap()).unwrap();
    let run = roformer(&["conform", "judge", path], b"");
    assert_eq!((run.code, run.error.contains("no case was answered")), (1, true), "{}", run.error);
}
