//! `roformer train` as a user types it.

mod common;

use common::{Folder, NETWORK, command, json, lines, refused, roformer, succeeds};
use std::fs;
use std::io::{BufRead, BufReader};

/// Flags of a network that learns within a few steps.
fn small<'a>() -> impl Iterator<Item = &'a str> {
    NETWORK.into_iter().chain(["--lr", "5e-3", "--warmup", "5", "--eval-every", "10"])
}

fn text(folder: &Folder) -> String {
    let path = folder.path("play.txt");
    let text =
        "ROMEO:\nWhat light through yonder window breaks?\n\nJULIET:\nO Romeo, wherefore art thou?\n\n";
    fs::write(&path, text.repeat(20)).unwrap();
    path
}

#[test]
fn a_model_is_trained_resumed_and_used() {
    let folder = Folder::new("train");
    let (data, straight, broken) = (text(&folder), folder.path("straight"), folder.path("broken"));
    let train = |out: &str, steps: &str| {
        let mut arguments =
            vec!["train", "--task", "causal", "--data", &data, "--out", out, "--steps", steps];
        arguments.extend(small());
        roformer(&arguments, b"")
    };
    let run = train(&straight, "30");
    assert_eq!(run.code, 0, "{}", run.error);
    for words in ["validation loss ", "best validation loss ", "straight/best", "roformer generate --model "]
    {
        assert!(run.out.contains(words), "{}", run.out);
    }
    assert!(run.error.contains("step 20 of 30: loss "), "{}", run.error);
    let metrics = lines(&fs::read_to_string(folder.path("straight/metrics.jsonl")).unwrap());
    let of = |field: &str| metrics.iter().filter(|line| !line[field].is_null()).count();
    assert_eq!((of("loss"), of("lr"), of("tokens_s"), of("seconds"), of("validation_loss")), (4, 4, 4, 4, 3));

    // Stopped by Ctrl-C and resumed: by settings that it knows itself.
    #[cfg(unix)]
    {
        let mut arguments = vec!["train", "--data", &data, "--out", &broken, "--steps", "100000"];
        arguments.extend(small());
        let mut child = command(&arguments).spawn().unwrap();
        let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
        while !error.next().unwrap().unwrap().contains("step 10 ") {}
        let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let rest: Vec<String> = error.map(|line| line.unwrap()).collect();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
        let last = rest.last().unwrap();
        assert!(last.contains(&format!("go on with: roformer train --out {broken} --resume")), "{last}");
        refused(
            &["train", "--out", &broken, "--resume", "--steps", "30"],
            &["`steps` 30", "begun with 100000"],
        );
        fs::remove_dir_all(&broken).unwrap();
    }
    let run = roformer(&["train", "--out", &straight, "--resume", "--threads", "1"], b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert!(run.out.contains("30 steps in ") && run.error.contains("from step 30 on"), "{}", run.error);

    let model = folder.path("straight/best");
    let written = succeeds(&["generate", "--model", &model, "--max-tokens", "60", "ROMEO:\n"]);
    assert!(written.starts_with("ROMEO:\n") && written.chars().count() > 40, "{written}");
    let tokens = json(&["tokenize", "--model", &model, "--json", "O Romeo,\n"]);
    assert_eq!(tokens["tokens"].as_array().unwrap().len(), 9, "{tokens}");
    assert!(succeeds(&["info", &model]).contains("RoFormerForCausalLM"));
    assert!(!succeeds(&["forward", "--model", &model, "--ids", "5,6,7"]).is_empty());
}

#[test]
fn what_cannot_be_trained_is_said_in_one_line() {
    let folder = Folder::new("train-wrong");
    let (data, out) = (text(&folder), folder.path("out"));
    let wrong = |arguments: &[&str], says: &[&str]| {
        let mut all = vec!["train", "--out", &out];
        all.extend(arguments);
        refused(&all, says);
    };
    let missing = folder.path("missing.txt");
    wrong(&["--data", &missing], &["missing.txt", "expected a UTF-8 text file"]);
    fs::write(folder.path("latin.txt"), b"caf\xe9").unwrap();
    wrong(&["--data", &folder.path("latin.txt")], &["latin.txt", "byte 3", "save the file as UTF-8"]);
    fs::write(folder.path("empty.txt"), b"").unwrap();
    wrong(&["--data", &data, &folder.path("empty.txt")], &["empty.txt: empty"]);
    wrong(&["--data", &data, "--block", "1800"], &["tokens", "more than a block, 1800"]);
    wrong(&["--data", &data, "--width", "130"], &["--heads is 4", "divisor of the width, 130"]);
    wrong(&["--data", &data, "--width", "132"], &["33", "even"]);
    wrong(&["--data", &data, "--lr", "-1"], &["--lr is -1"]);
    for (number, says) in
        [("NaN", "finite"), ("inf", "finite"), ("1e999", "finite"), ("x", "expected a number")]
    {
        wrong(&["--data", &data, "--lr", number], &["--lr", &format!("'{number}'"), says]);
        wrong(&["--data", &data, "--dropout", number], &["--dropout", &format!("'{number}'"), says]);
    }
    wrong(&["--data", &data, "--min-lr", "1"], &["--min-lr is 1"]);
    wrong(&["--data", &data, "--encoding", "rotery"], &["--encoding is `rotery`", "one of none, "]);
    wrong(&["--data", &data, "--encoding", "rotary:bass=5"], &["--encoding", "`bass=5` is invalid"]);
    wrong(&["--data", &data, "--encoding", "rotary:base=0"], &["base is 0"]);
    let few = folder.path("few.jsonl");
    fs::write(&few, "{\"text\": \"a\", \"label\": \"x\"}\n{\"text\": \"b\", \"label\": \"y\"}\n".repeat(2))
        .unwrap();
    wrong(
        &["--task", "classification", "--data", &few],
        &[
            "4 texts, 0 of them kept",
            "at least 1: pass more texts, or keep a larger part of them (`validation`",
        ],
    );
    let pairs = folder.path("pairs.jsonl");
    fs::write(&pairs, "{\"a\": \"one\", \"b\": \"two\"}\n".repeat(30)).unwrap();
    wrong(
        &["--task", "similarity", "--data", &pairs],
        &["3 of them kept", "at least 12: pass more texts, or a smaller batch, or keep a larger part"],
    );
    wrong(&["--data", &data, "--task", "guess"], &["--task is guess", "causal, masked"]);
    wrong(&["--data", &data, "--tokenizer", &data], &["play.txt", "expected `characters`, `wordpiece`"]);
    wrong(&["--data", &data, "--tokenizer", &missing], &["missing.txt"]);
    wrong(&["--data", &data, "--config", &missing], &["missing.txt"]);
    wrong(&["--data", &data, "--from", &folder.path("nowhere/at/all")], &["nowhere"]);
    wrong(&["--data", &data, "--from", &data, "--layers", "3"], &["--from", "--layers"]);
    wrong(&[], &["--data"]);
    wrong(&["--resume"], &["nothing to resume"]);
    // Nothing was made on the way.
    assert!(!std::path::Path::new(&out).exists());
    fs::create_dir(&out).unwrap();
    fs::write(folder.path("out/thesis.txt"), "precious").unwrap();
    wrong(&["--data", &data], &["thesis.txt", "a new or empty folder"]);
}

#[test]
fn an_encoding_that_transformers_lacks_says_so_and_runs() {
    let folder = Folder::new("train-encoding");
    let (data, out) = (text(&folder), folder.path("out"));
    let mut arguments = vec!["train", "--data", &data, "--out", &out, "--steps", "2", "--encoding", "t5"];
    arguments.extend(small());
    let run = roformer(&arguments, b"");
    assert!(
        run.code == 0 && run.out.contains("transformers has no roformer of this kind"),
        "{}{}",
        run.out,
        run.error
    );
    let written = roformer(&["generate", "--model", &folder.path("out/best"), "--max-tokens", "4", "O"], b"");
    assert_eq!(written.code, 0, "{}", written.error);
}

/// The settings of an encoding are taken as `compare` takes them, kept with the run and the model, and read back.
#[test]
fn an_encoding_with_settings_is_trained_and_read_back() {
    let folder = Folder::new("train-settings");
    let data = text(&folder);
    let train = |out: &str, more: &[&str]| {
        let mut arguments = vec!["train", "--data", &data, "--out", out, "--steps", "2"];
        arguments.extend(small());
        arguments.extend(more);
        let run = roformer(&arguments, b"");
        assert_eq!(run.code, 0, "{}", run.error);
        run.out
    };
    let config = |out: &str| {
        let text = fs::read_to_string(folder.path(&format!("{out}/best/config.json"))).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    // Transformers' RoFormer has one base: another is a model of its own, which can be trained on.
    let own = folder.path("own");
    let said = train(&own, &["--encoding", "rotary:base=500"]);
    assert!(said.contains("transformers has no roformer of this kind"), "{said}");
    assert_eq!(config("own")["position_encoding"], "rotary:base=500");
    assert_eq!(config("own")["model_type"], "roformer-rotary");
    let written = roformer(&["generate", "--model", &folder.path("own/best"), "--max-tokens", "4", "O"], b"");
    assert_eq!(written.code, 0, "{}", written.error);
    let resumed = roformer(&["train", "--out", &own, "--resume"], b"");
    assert_eq!(resumed.code, 0, "{}", resumed.error);
    let next = folder.path("next");
    let arguments = [
        "train",
        "--data",
        &data,
        "--out",
        &next,
        "--steps",
        "2",
        "--block",
        "16",
        "--from",
        &folder.path("own/best"),
    ];
    let run = roformer(&arguments, b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert_eq!(config("next")["position_encoding"], "rotary:base=500");
    // Its Llama has any.
    let llama = folder.path("llama");
    train(&llama, &["--encoding", "rotary:base=500", "--form", "llama"]);
    assert_eq!(
        (&config("llama")["rope_theta"], &config("llama")["position_encoding"]),
        (&500.0.into(), &().into())
    );
    succeeds(&["generate", "--model", &folder.path("llama/best"), "--max-tokens", "4", "O"]);
}

/// Broken off at twenty moments by chance, by a request to stop or a kill, and resumed each time.
#[cfg(unix)]
#[test]
fn a_run_that_is_broken_off_twenty_times_ends_with_the_same_bits() {
    let folder = Folder::new("train-broken");
    let (data, straight, broken) = (text(&folder), folder.path("straight"), folder.path("broken"));
    let begin = |out: &str| {
        let mut arguments =
            vec!["train", "--data", &data, "--out", out, "--steps", "3000", "--save-every", "40"];
        arguments.extend(small());
        arguments.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |arguments: &[String]| {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        command(&arguments).spawn().unwrap()
    };
    let resume: Vec<String> = ["train", "--out", &broken, "--resume"].map(str::to_owned).into();
    assert!(run(&begin(&straight)).wait_with_output().unwrap().status.success());
    let mut chance = 7u64;
    let mut breaks = 0;
    while breaks < 20 {
        let has_begun = std::path::Path::new(&broken).join("state.json").exists();
        let mut child = if has_begun { run(&resume) } else { run(&begin(&broken)) };
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(std::time::Duration::from_millis(20 + (chance >> 33) % 180));
        let signal = if (chance >> 40).is_multiple_of(2) { "-INT" } else { "-KILL" };
        let killed = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status();
        breaks += 1;
        let status = child.wait().unwrap();
        assert!(
            killed.is_ok() && (status.code().is_none() || status.code() == Some(130) || status.success())
        );
    }
    let last = run(&resume).wait_with_output().unwrap();
    assert!(last.status.success(), "{}", String::from_utf8_lossy(&last.stderr));
    for name in ["state-3000.safetensors", "last/model.safetensors", "best/model.safetensors"] {
        let read = |out: &str| fs::read(std::path::Path::new(out).join(name)).unwrap();
        assert!(read(&straight) == read(&broken), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_the_checkpoint_stays() {
    let folder = Folder::new("train-full");
    let data = text(&folder);
    // No file may grow beyond 32 KiB: the next checkpoint cannot be written.
    let limited = |arguments: &str| {
        let script = format!("ulimit -f 64; exec {} {arguments}", env!("CARGO_BIN_EXE_roformer"));
        std::process::Command::new("sh").args(["-c", &script]).output().unwrap()
    };
    let full = folder.path("full");
    let failed =
        limited(&format!("train --data {data} --out {full} --width 32 --heads 2 --layers 1 --block 16"));
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{error}");
    assert!(error.contains("state-0.safetensors: larger than a file may be here"), "{error}");
    assert!(!error.contains("permissions"), "{error}");
    // A run that has checkpoints keeps the last.
    let half = folder.path("half");
    let mut arguments =
        vec!["train", "--data", &data, "--out", &half, "--steps", "100000", "--save-every", "5"];
    arguments.extend(small());
    let mut child = command(&arguments).spawn().unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap()).lines();
    while !error.next().unwrap().unwrap().contains("step 10 ") {}
    let kill = std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    drop(error);
    child.wait().unwrap();
    let state = fs::read_to_string(folder.path("half/state.json")).unwrap();
    let failed = limited(&format!("train --out {half} --resume"));
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{error}");
    assert!(error.contains("large"), "{error}");
    assert_eq!(state, fs::read_to_string(folder.path("half/state.json")).unwrap());
    // A folder that cannot be written into.
    let file = folder.path("a-file");
    fs::write(&file, "").unwrap();
    refused(&["train", "--data", &data, "--out", &format!("{file}/out")], &["a-file"]);
}
