//! A full disk: one line that says so, exit code 1, and nothing half-written, whatever the command.
#![cfg(target_os = "linux")]

mod common;

use common::{Folder, Run, command};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

const MLM: &str = "examples/models/tiny-mlm";

/// Runs the program with `/dev/full` in the place of files that it is about to write: every write finds the disk full.
fn on_a_full_disk(folder: &Folder, arguments: &[&str], written: &[&str]) -> Run {
    for name in written {
        symlink("/dev/full", folder.path(&format!("{name}.partial"))).unwrap();
    }
    let output = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { out: text(output.stdout), error: text(output.stderr), code: output.status.code().unwrap() }
}

#[test]
fn a_full_disk_is_a_failure_that_says_so() {
    let folder = Folder::new("disk");
    for name in ["comparison", "comparison/runs", "converted"] {
        fs::create_dir(folder.path(name)).unwrap();
    }
    let path = |name: &str| folder.path(name);
    let vector = ["rotate", "--vector", "1,2", "--positions", "1"];
    let input = folder.path("in.safetensors");
    let header = br#"{"x":{"dtype":"F32","shape":[1,1,2],"data_offsets":[0,8]}}"#;
    fs::write(&input, [&(header.len() as u64).to_le_bytes()[..], header, &[0; 8]].concat()).unwrap();
    let small = ["--tasks", "majority", "--encodings", "none", "alibi", "--seeds", "2", "--steps", "1"];
    for (arguments, written) in [
        (vec!["embed", "--model", MLM, "--output", &path("a.npy"), "今天"], "a.npy"),
        (vec!["plot", "decay", "-o", &path("decay.svg")], "decay.svg"),
        (vec!["convert", MLM, &path("converted")], "converted/model.safetensors"),
        (vec!["rotate", &input, &path("out.safetensors")], "out.safetensors"),
        ([&["compare", "--out", &path("comparison")][..], &small].concat(), "comparison/plan.json"),
    ] {
        let run = on_a_full_disk(&folder, &arguments, &[written]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{arguments:?}: {}", run.error);
        assert_eq!(run.error.trim_end().lines().count(), 1, "{}", run.error);
        let says = [&folder.path(written)[..], ": the disk is full; free some space"];
        assert!(says.iter().all(|says| run.error.contains(says)), "{arguments:?}: {}", run.error);
        assert!(!run.error.contains("permission"), "{}", run.error);
        assert!(!fs::exists(folder.path(written)).unwrap(), "{written}");
    }
    // So it is where standard output goes to a file.
    let full = Stdio::from(fs::File::options().write(true).open("/dev/full").unwrap());
    let output = command(&vector).stdout(full).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("standard output: the disk is full"), "{error}");
}
