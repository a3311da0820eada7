//! What the tests share.

use roformer::Result;
use roformer::train::{Event, Request, Run, Settings, Start};
use serde_json::{Map, Value};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A folder that goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roformer-train-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.0.join(name), bytes).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn text() -> String {
    "The quick brown fox\njumps over the lazy dog, again and again; 雨が降る.\n".repeat(40)
}

pub fn small() -> Settings {
    Settings {
        layers: 2,
        width: 32,
        heads: 2,
        block: 16,
        batch: 4,
        steps: 20,
        warmup: 5,
        eval_every: 5,
        eval_batches: 2,
        save_every: 7,
        dropout: 0.1,
        accumulate: 2,
        ..Settings::default()
    }
}

/// A request for one file.
pub fn request(path: PathBuf) -> Request {
    Request { files: vec![path], ..Request::default() }
}

/// Begins a run from nothing.
pub fn begin(out: &Path, settings: &Settings, request: &Request) -> Result<Run> {
    Run::begin(out, settings, &Start::Scratch, request, |_| {})
}

pub fn go_on(_: Event) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Stops after a step.
pub fn until(last: u64) -> impl FnMut(Event) -> ControlFlow<()> {
    move |event| match event {
        Event::Step { step, .. } if step == last => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

pub fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    ["state-20.safetensors", "last/model.safetensors", "best/model.safetensors", "last/config.json"]
        .map(|name| (name.to_string(), fs::read(folder.join(name)).unwrap()))
        .into()
}

/// What can be compared of metrics: all but times.
pub fn metrics(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut value: Map<String, Value> = serde_json::from_str(line).unwrap();
        value.remove("tokens_s");
        value.remove("seconds");
        Value::Object(value)
    };
    text.lines().map(line).collect()
}
