//! `roformer compare` as a user types it.

mod common;

use common::{Folder, command, lines, refused, roformer};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

const SMALL: [&str; 13] = [
    "--tasks",
    "majority,repeat",
    "--encodings",
    "rotary,receptive:alpha=0.3,rho=0.5",
    "none",
    "--seeds",
    "2",
    "--steps",
    "8",
    "--train-length",
    "3",
    "--test-lengths",
    "2,3,4",
];

fn compare<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["compare", "--out", out][..], &SMALL, more].concat()
}

#[test]
fn a_comparison_is_made_and_drawn_again() {
    let folder = Folder::new("compare");
    let out = folder.path("out");
    let run = roformer(&compare(&out, &["--threads", "2"]), b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert!(run.error.contains("3 encodings, 2 tasks, 2 seeds, 2 runs at a time: about "), "{}", run.error);
    assert!(run.error.contains("34 of 34 runs"), "{}", run.error);
    for words in ["majority, the control: exact answers", "repeat: exact", "rotary again", "results.json"] {
        assert!(run.out.contains(words), "{}", run.out);
    }
    let results = fs::read_to_string(folder.path("out/results.json")).unwrap();
    let results = &lines(&results.replace('\n', ""))[0];
    assert_eq!(results["plan"]["encodings"][1]["label"], "receptive:alpha=0.3,rho=0.5");
    assert_eq!(results["tasks"][0]["runs"].as_array().unwrap().len(), 8);
    let again = roformer(&["compare", "--replay", &out], b"");
    assert_eq!((again.code, again.error.as_str(), &again.out), (0, "", &run.out));
}

/// Without a number of seeds they are added, and what is told is how many each got.
#[test]
fn seeds_are_added_where_something_is_undecided() {
    let folder = Folder::new("compare-added");
    let out = folder.path("out");
    let flags =
        ["compare", "--out", &out, "--tasks", "repeat", "--encodings", "rotary", "none", "--steps", "90"];
    let lengths = ["--train-length", "3", "--test-lengths", "2,3,4", "--budget", "12"];
    let run = roformer(&[&flags[..], &lengths].concat(), b"");
    assert_eq!(run.code, 0, "{}", run.error);
    let says = "2 encodings, 1 tasks, seeds added to the work of 12 of each, ";
    assert!(run.error.contains(says), "{}", run.error);
    let results = fs::read_to_string(folder.path("out/results.json")).unwrap();
    let results = &lines(&results.replace('\n', ""))[0];
    assert_eq!(results["plan"]["budget"], 12);
    let runs = results["tasks"][0]["runs"].as_array().unwrap();
    assert!(runs.len() > 3 * 5 && runs.len() <= 3 * 12, "{}", runs.len());
    assert!(run.out.lines().any(|line| line.contains(" 10 ") && line.contains("rotary")), "{}", run.out);
    let again = roformer(&["compare", "--replay", &out], b"");
    assert_eq!((again.code, &again.out), (0, &run.out));
}

/// Another comparison does not take the place of one that is there, unless it is told to.
#[test]
fn a_comparison_with_other_settings_is_kept() {
    let folder = Folder::new("compare-other");
    let out = folder.path("out");
    let flags = [
        "compare",
        "--out",
        &out,
        "--tasks",
        "majority",
        "--encodings",
        "none",
        "alibi",
        "--seeds",
        "2",
        "--steps",
    ];
    let with = |steps: &'static str, more: &[&'static str]| [&flags[..], &[steps], more].concat();
    assert_eq!(roformer(&with("2", &[]), b"").code, 0);
    let results = || fs::read_to_string(folder.path("out/results.json")).unwrap();
    let first = results();
    refused(
        &with("3", &[]),
        &["--out is ", "steps of majority 2 there, 3 here", "another folder, or --overwrite"],
    );
    assert_eq!(results(), first);
    // The same settings go on, at once.
    let again = roformer(&with("2", &[]), b"");
    assert_eq!((again.code, results()), (0, first.clone()), "{}", again.error);
    let replaced = roformer(&with("3", &["--overwrite"]), b"");
    assert_eq!(replaced.code, 0, "{}", replaced.error);
    assert_ne!(results(), first);
    refused(&["compare", "--replay", &out, "--overwrite"], &["--overwrite"]);
}

/// Three machines, one of them killed; then their folders are put together.
#[cfg(unix)]
#[test]
fn a_comparison_is_made_in_parts() {
    let folder = Folder::new("compare-shards");
    let whole = folder.path("whole");
    assert_eq!(roformer(&compare(&whole, &[]), b"").code, 0);
    let parts = ["one", "two", "three"].map(|name| folder.path(name));
    for (part, shard) in parts.iter().zip(["1/3", "2/3", "3/3"]) {
        let flags = compare(part, &["--shard", shard, "--threads", "2"]);
        if shard == "2/3" {
            let mut child = command(&flags).spawn().unwrap();
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains(" runs")));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let run = roformer(&flags, b"");
        assert_eq!(run.code, 0, "{}", run.error);
        assert!(run.error.contains(&format!("shard {shard} of 3 encodings, 2 tasks")), "{}", run.error);
        assert!(run.out.contains("runs to compare are in") && run.out.contains("--merge"), "{}", run.out);
    }
    let out = folder.path("merged");
    let [one, two, three] = parts.each_ref().map(String::as_str);
    let run = roformer(&compare(&out, &["--merge", three, one, two]), b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert!(run.error.contains("3 shards; "), "{}", run.error);
    let table = |out: &str| roformer(&["compare", "--replay", out], b"").out.replace(out, "");
    assert_eq!(run.out.replace(&out, ""), table(&whole));
    let read = |name: &str| fs::read(folder.path(name)).unwrap();
    for name in ["results.json", "plan.json", "runs/repeat.none.seed-2.json"] {
        assert!(read(&format!("whole/{name}")) == read(&format!("merged/{name}")), "{name}");
    }
    // Without a part, with the settings of none, and with what cannot be together.
    refused(&compare(&out, &["--merge", one, two]), &["the list of shards is without 3/3; expected all 3"]);
    refused(
        &["compare", "--out", &out, "--merge", one, two, three],
        &["one", "a shard of another comparison"],
    );
    refused(&compare(one, &["--shard", "2/3"]), &["holds shard 1/3"]);
    refused(&compare(&out, &["--shard", "4/3"]), &["expected I/N with I from 1 to N"]);
    refused(&compare(&out, &["--shard", "1/3", "--merge", one]), &["--merge"]);
}

/// Stopped by Ctrl-C and killed, then run again: the results of a comparison without a break.
#[cfg(unix)]
#[test]
fn a_comparison_that_was_broken_off_goes_on() {
    let folder = Folder::new("compare-broken");
    let (whole, broken) = (folder.path("whole"), folder.path("broken"));
    // Long enough to be caught in the middle.
    let more = ["--threads", "2", "--steps", "60"];
    let arguments = |out| {
        let mut arguments = compare(out, &[]);
        let steps = arguments.iter().position(|argument| *argument == "--steps").unwrap();
        arguments.drain(steps..steps + 2);
        arguments.extend(more);
        arguments
    };
    assert_eq!(roformer(&arguments(&whole), b"").code, 0);
    for signal in ["-INT", "-KILL"] {
        let mut child = command(&arguments(&broken)).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // Once some runs are finished.
        assert!(lines.any(|line| line.unwrap().contains(" of 34 runs")));
        let id = child.id().to_string();
        assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
        let code = child.wait().unwrap().code();
        if signal == "-INT" {
            assert_eq!(code, Some(130));
            assert!(rest.iter().any(|line| line.contains("the same command goes on from there")), "{rest:?}");
        }
        assert!(!Path::new(&folder.path("broken/results.json")).exists());
    }
    assert_eq!(roformer(&arguments(&broken), b"").code, 0);
    let read = |name: &str| fs::read(folder.path(name)).unwrap();
    assert!(read("whole/results.json") == read("broken/results.json"));
}

#[test]
fn linear_attention_says_what_it_leaves_out() {
    let folder = Folder::new("compare-linear");
    let out = folder.path("out");
    let flags = ["compare", "--out", &out, "--attention", "linear", "--tasks", "majority", "--seeds", "2"];
    let run = roformer(&[&flags[..], &["--steps", "2", "--encodings", "rotary", "t5", "none"]].concat(), b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert!(run.error.contains("left out: t5, which adds"), "{}", run.error);
    assert!(run.out.contains("left out: t5"), "{}", run.out);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = Folder::new("compare-refused");
    let (file, out, missing) = (folder.path("file"), folder.path("out"), folder.path("missing"));
    fs::write(&file, "short").unwrap();
    fs::create_dir(folder.path("spoilt")).unwrap();
    fs::write(folder.path("spoilt/results.json"), "{\"version\": 3}").unwrap();
    let spoilt = folder.path("spoilt");
    let cases: [(&[&str], &str); 24] = [
        (&["--tasks", "copi"], "one of copy, repeat"),
        (&["--tasks", ""], "one of copy"),
        (&["--encodings", "rotary"], "at least two"),
        (&["--encodings", "rotary", "rotory"], "`rotory`"),
        (&["--encodings", "rotary,rotary"], "`rotary` twice"),
        (&["--encodings", "none,rotary:base=0"], "`rotary:base=0`"),
        (&["--seeds", "1"], "from 2"),
        (&["--seeds", "-3"], "-3"),
        (&["--budget", "4"], "the budget of seeds is 4; expected from 5"),
        (&["--budget", "9", "--seeds", "9"], "--seeds"),
        (&["--budget", "9", "--shard", "1/2"], "--shard"),
        (&["--train-length", "0"], "the train length is 0"),
        (&["--test-lengths", "9,x"], "x"),
        (&["--test-lengths", "99999999999"], "a length to test is 99999999999"),
        (&["--size", "3x100"], "expected LAYERSxWIDTH such as 3x128"),
        (&["--size", "large"], "or auto"),
        (&["--replay", &missing, "--size", "auto"], "--size"),
        (&["--attention", "hard"], "hard"),
        (&["--features", "favor"], "--features is favor"),
        (&["--data", &missing, "--tasks", "language"], "missing"),
        (&["--data", &file, "--tasks", "language"], "the number of characters"),
        (&["--threads", "0"], "0"),
        (&["--replay", &missing], "expected the folder of a finished comparison"),
        (&["--replay", &spoilt], "expected what a comparison wrote"),
    ];
    for (flags, says) in cases {
        let place: &[&str] = if flags[0] == "--replay" { &[] } else { &["--out", &out] };
        refused(&[&["compare"], flags, place].concat(), &[says]);
        assert!(!Path::new(&out).exists(), "{flags:?} wrote something");
    }
    let text = folder.path("text");
    fs::write(&text, "some words ".repeat(2000)).unwrap();
    refused(&["compare", "--data", &text, "--out", &out], &["not among the tasks"]);
    // A folder that is a file.
    refused(&["compare", "--out", &file], &[&file]);
}
