//! Running the program, and reading what it prints.
#![allow(dead_code, reason = "each file of tests uses its own part")]

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

pub struct Run {
    pub out: String,
    pub error: String,
    pub code: i32,
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program about to run, with pipes, without the hub, in English, and on the CPU whatever the machine has.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roformer"));
    command.args(arguments).current_dir(root()).env("HF_HUB_OFFLINE", "1").env("CUDA_VISIBLE_DEVICES", "");
    command.env("LC_ALL", "C");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes what a child reads, on a thread of its own: the child may wait for its output to be read.
pub fn feed(child: &mut Child, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send + 'static) {
    let mut pipe = child.stdin.take().unwrap();
    // A command that fails before it has read all closes the pipe; that is no failure of the test.
    std::thread::spawn(move || write(&mut pipe));
}

/// Runs the program to its end, on this input.
pub fn roformer(arguments: &[&str], input: &[u8]) -> Run {
    let input = input.to_vec();
    fed(arguments, move |pipe| pipe.write_all(&input))
}

/// The same, on what is written to it.
pub fn fed(
    arguments: &[&str],
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()> + Send + 'static,
) -> Run {
    let mut child = command(arguments).spawn().unwrap();
    feed(&mut child, write);
    let output = child.wait_with_output().unwrap();
    Run {
        out: String::from_utf8(output.stdout).unwrap(),
        error: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code().unwrap(),
    }
}

pub fn succeeds(arguments: &[&str]) -> String {
    let run = roformer(arguments, b"");
    assert_eq!((run.code, run.error.as_str()), (0, ""), "{arguments:?}");
    run.out
}

/// The one object that is printed.
pub fn json(arguments: &[&str]) -> Value {
    let out = succeeds(arguments);
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// All objects that are printed.
pub fn lines(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

pub fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Refused: exit code 2, nothing on stdout, one line on stderr that says all of this.
pub fn refused(arguments: &[&str], says: &[&str]) {
    let run = roformer(arguments, b"");
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments:?}: {}", run.error);
    assert_eq!(run.error.trim_end().lines().count(), 1, "{}", run.error);
    for word in says {
        assert!(run.error.contains(word), "`{word}` is not in: {}", run.error);
    }
}

/// Flags of a network small enough to be trained in a test.
pub const NETWORK: [&str; 10] =
    ["--layers", "1", "--width", "32", "--heads", "2", "--block", "16", "--batch", "4"];

/// A folder of its own for a test, gone when the test is.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roformer-cli-text-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }

    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A small RoFormer as a PyTorch file.
pub const BIN: &str = "golden/roformer/tiny-bin";

/// A file of `golden/roformer`.
pub fn golden(file: &str) -> Vec<u8> {
    std::fs::read(root().join("golden/roformer").join(file)).unwrap()
}

impl Folder {
    /// A folder in it with these files.
    pub fn model(&self, name: &str, files: &[(&str, &[u8])]) -> String {
        std::fs::create_dir_all(self.0.join(name)).unwrap();
        for (file, bytes) in files {
            std::fs::write(self.0.join(name).join(file), bytes).unwrap();
        }
        self.path(name)
    }
}
