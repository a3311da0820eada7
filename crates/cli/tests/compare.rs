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

/// A plan says what it is and how much work, and reduced it is made, with a report that says whose settings these are.
#[test]
fn a_plan_with_a_name_is_told_and_made_reduced() {
    let folder = Folder::new("compare-plan");
    let out = folder.path("out");
    let told = roformer(&["compare", "--plan", "kazemnejad-2023", "--dry-run", "--out", &out], b"");
    assert_eq!((told.code, told.error.as_str()), (0, ""));
    assert!(!Path::new(&out).exists(), "nothing is written");
    for line in [
        "plan          kazemnejad-2023: Kazemnejad et al. 2023, arXiv 2305.19466, and its code",
        "encodings     none, t5, alibi, rotary, sinusoidal",
        "models        12 layers of width 768, 12 heads; softmax attention; at most 93.9 million parameters",
        "seeds         3",
    ] {
        assert!(told.out.lines().any(|own| own == line), "{line}: {}", told.out);
    }
    let training = told.out.lines().find(|line| line.starts_with("training")).unwrap();
    for words in
        ["64 texts a step; the rate is 0.00003; the rate rises for 6 % of the steps", "ε 1e-8", "dropout 0.1"]
    {
        assert!(training.contains(words), "{training}");
    }
    assert!(
        told.out.contains("work          90 runs; 4.1e18 floating-point operations of training, "),
        "{}",
        told.out
    );
    // The quick preset has work too.
    let quick = roformer(&["compare", "--dry-run", "--lang", "zh"], b"");
    assert!(quick.code == 0 && quick.out.contains("至少 183 次训练"), "{}", quick.out);

    let reduced =
        ["--size", "1x32", "--steps", "3", "--seeds", "2", "--train-length", "3", "--test-lengths", "3,4"];
    let flags =
        [&["compare", "--plan", "kazemnejad-2023", "--tasks", "copy", "--out", &out][..], &reduced].concat();
    let run = roformer(&flags, b"");
    assert_eq!(run.code, 0, "{}", run.error);
    assert!(run.error.contains("work: 12 runs; "), "{}", run.error);
    assert!(
        run.error.contains("12 of 12 runs") && run.out.contains("none again"),
        "{} {}",
        run.error,
        run.out
    );
    let page = fs::read_to_string(folder.path("out/report.html")).unwrap();
    for words in [
        "Kazemnejad et al. 2023, arXiv 2305.19466",
        "100 symbols, drawn with repetition",
        "weight decay 0.05",
        "and the same learning rate",
    ] {
        assert!(page.contains(words), "{words}");
    }
    refused(&[&flags[..], &["--batch", "32"]].concat(), &["texts of a step 64 there, 32 here"]);
    let again = roformer(&["compare", "--replay", &out], b"");
    assert_eq!((again.code, &again.out), (0, &run.out));
}

/// The words of a tokenizer in place of characters.
#[test]
fn a_text_is_cut_by_a_tokenizer() {
    let folder = Folder::new("compare-tokenizer");
    let (text, out) = (folder.path("text.txt"), folder.path("out"));
    fs::write(&text, "a pretty park, and rain. ".repeat(4000)).unwrap();
    let tokenizer = format!("{}/../../examples/models/tiny-mlm", env!("CARGO_MANIFEST_DIR"));
    let flags = ["compare", "--tasks", "language", "--data", &text, "--dry-run", "--out", &out];
    let vocabulary = |more: &[&str]| {
        let run = roformer(&[&flags[..], more].concat(), b"");
        assert_eq!(run.code, 0, "{}", run.error);
        let line = run.out.lines().find(|line| line.starts_with("language")).unwrap().to_string();
        line.split("vocabulary of ").nth(1).unwrap().split(';').next().unwrap().parse::<usize>().unwrap()
    };
    let (characters, words) = (vocabulary(&[]), vocabulary(&["--tokenizer", &tokenizer]));
    assert!(characters < 30 && words > 400, "{characters} {words}");
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
    let cases: [(&[&str], &str); 32] = [
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
        (&["--size", "12x768x7"], "LAYERSxWIDTHxHEADS such as 12x768x12"),
        (&["--plan", "kazemnejad"], "expected one of kazemnejad-2023, alibi-2022, eleutherai-2021"),
        (&["--plan", "alibi-2022", "--preset", "full"], "--preset"),
        (&["--plan", "alibi-2022"], "--data is missing, and the plan alibi-2022 reads one"),
        (&["--preset", "paper"], "--data is missing, and the plan paper reads one"),
        (&["--plan", "kazemnejad-2023", "--tasks", "mqar"], "the plan kazemnejad-2023 fixes: copy, reverse"),
        (&["--batch", "0"], "the number of texts of a step is 0"),
        (&["--tokenizer", &missing], "--data"),
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
