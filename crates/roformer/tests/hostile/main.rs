//! Hostile configurations, folders, inputs and caches (for the files of weights themselves: `weights.rs`).
//!
//! Whatever is passed, the answer is a value that can be used or an error that names what was wrong. Nothing panics,
//! hangs, takes memory without end or stays half done.

mod config;
mod deberta;
mod decoder;
mod folder;
mod input;
mod keys;
mod llama4;
mod t5;
#[path = "../common/folder.rs"]
mod temporary;
mod xlnet;

use proptest::prelude::*;
use roformer::blueprint::{Blueprint, HeadKind, HeadNorms};
use roformer::model::{Cache, Call, Encoded, Hashed, Input, Model, Output, Parameters, Scores};
use roformer::ops::Real;
use roformer::{Error, Result, weights};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

/// A small machine: no piece of memory over 256 MiB is given out. Memory maps do not come from here; what asks for many
/// of them runs `apart`.
struct SmallMachine;

const LARGEST: usize = 256 << 20;

#[global_allocator]
static MACHINE: SmallMachine = SmallMachine;

// SAFETY: every piece comes from the system's allocator and goes back to it; "no memory" is an answer that is allowed
// at any time.
unsafe impl GlobalAlloc for SmallMachine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the piece came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs a test in a process of its own, which gets 2 GiB of memory, maps among it, and ten minutes: running out of either
/// fails this test and nothing else. `name` is that of the test that calls this.
#[cfg(target_os = "linux")]
#[track_caller]
fn apart(name: &str, work: impl FnOnce()) {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    const MARK: &str = "ROFORMER_HOSTILE_APART";
    if std::env::var_os(MARK).is_some() {
        return work();
    }
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c 0; ulimit -v 2097152; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([name, "--nocapture", "--test-threads=1"])
        .envs([(MARK, "1"), ("RUST_BACKTRACE", "0")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Short enough for a pipe: one test, and one panic at most.
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            // Far more than a busy machine needs: what runs into this would never end.
            None if start.elapsed() > Duration::from_secs(600) => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{name}: still running after ten minutes");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    assert!(!status.success() || said.contains("1 passed"), "no test is called {name}: {said}");
    stderr.read_to_string(&mut said).unwrap();
    assert!(status.success(), "{name}: {status}\n{said}");
}

/// Elsewhere there is no such limit, and these tests would take what they ask for.
#[cfg(not(target_os = "linux"))]
fn apart(_: &str, _: impl FnOnce()) {}

/// Demands an error that says all of `words`, in a line that a terminal can show.
#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str], case: impl Debug) {
    let message = match result {
        Ok(_) => panic!("accepted: {case:?}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{case:?}: `{word}` is not named in: {message}");
    }
    assert!(message.len() < 2000, "{case:?}: a message of {} bytes", message.len());
    assert!(!message.chars().any(char::is_control), "{case:?}: control characters in {message:?}");
}

/// Demands an answer or an error with a text.
#[track_caller]
fn refused_or_works<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty(), "{error:?} has no text")).ok()
}

/// Without a file of past failures: a failing case is printed, and belongs into a test above.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Parameters that are all zero and cost nothing to make.
struct Zeros;

impl<T> Parameters<T> for Zeros {
    fn read(&self, _: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        assert_eq!(shape.iter().product::<usize>(), out.len());
        Ok(())
    }
}

/// The largest size that a configuration may have.
const LIMIT: u64 = 1 << 24;

/// A small model, with some fields set.
fn small(fields: Value) -> Value {
    let mut config = json!({
        "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 37,
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

fn parse(config: &Value) -> Result<Blueprint> {
    Blueprint::from_config(config.to_string().as_bytes())
}

/// A model with a head, whatever its file names.
fn made<T: Real>(blueprint: Blueprint, head: HeadKind, source: &impl Parameters<T>) -> Result<Model<T>> {
    Model::from_parameters(Blueprint { head, ..blueprint }, source)
}

fn model(fields: Value) -> Model {
    made(parse(&small(fields)).unwrap(), HeadKind::CausalLm, &Hashed).unwrap()
}

fn ids(ids: &[u32]) -> Input<'_> {
    Input { ids, batch: 1, token_types: None, mask: None }
}

fn golden(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/roformer").join(dir)
}
