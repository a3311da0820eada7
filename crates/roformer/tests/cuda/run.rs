//! A whole run on the GPU: begun, stopped, gone on with, and its model loaded by the CPU.

use crate::common::gpus;
use roformer::Device;
use roformer::model::{Input, Model};
use roformer::ops::Arithmetic;
use roformer::train::{End, Event, FormName, Request, Run, Settings, Start};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    let (layers, width, heads, block, batch) = (2, 32, 2, 16, 4);
    let (steps, warmup, eval_every, save_every, eval_batches) = (12, 2, 6, 6, 2);
    let form = FormName::Llama;
    Settings {
        form,
        layers,
        width,
        heads,
        block,
        batch,
        steps,
        warmup,
        eval_every,
        save_every,
        eval_batches,
        dropout: 0.1,
        accumulate: 2,
        ..Settings::default()
    }
}

/// Trains to the end, perhaps with a break after a step; the losses of all steps and evaluations.
fn train(device: &Device, folder: &Path, stop: Option<u64>) -> Vec<f64> {
    let text = folder.with_extension("txt");
    std::fs::write(&text, "to be or not to be, that is the question ".repeat(40)).unwrap();
    let request = Request { files: vec![text.clone()], ..Request::default() };
    let mut losses = Vec::new();
    let mut go = |run: &mut Run, stop: Option<u64>| {
        run.go(|event| {
            let (step, loss) = match event {
                Event::Step { step, loss, .. } => (step, loss),
                Event::Evaluation { step, found, .. } => (step, found.loss),
            };
            losses.push(loss);
            if Some(step) == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .unwrap()
    };
    let mut run = Run::begin_on(device, folder, &settings(), &Start::Scratch, &request, |_| {}).unwrap();
    let mut end = go(&mut run, stop);
    if stop.is_some() {
        assert_eq!(end, End::Stopped);
        drop(run);
        run = Run::resume_on(device, folder, &serde_json::Map::new()).unwrap();
        end = go(&mut run, None);
    }
    assert_eq!(end, End::Finished);
    std::fs::remove_file(text).unwrap();
    losses
}

fn weights(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join("last/model.safetensors")).unwrap()
}

#[test]
fn a_run_is_stopped_and_resumed() {
    let folder = |name: &str| {
        let path = std::env::temp_dir().join(format!("roformer-run-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    };
    let gpus = gpus();
    if gpus.is_empty() {
        return;
    }
    let cpu = folder("cpu");
    let known = train(&Device::default(), &cpu.0, None);
    for gpu in gpus {
        let (name, bound) = match gpu.arithmetic() {
            Arithmetic::F32 => ("f32", 1e-4),
            Arithmetic::Tf32 => ("tf32", 1e-2),
            Arithmetic::Bf16 => ("bf16", 5e-2),
        };
        let device = Device::Cuda(gpu);
        let [whole, broken] = [format!("{name}-whole"), format!("{name}-broken")].map(|name| folder(&name));
        let losses = train(&device, &whole.0, None);
        assert_eq!(losses.len(), known.len());
        for (own, known) in losses.iter().zip(&known) {
            assert!((own - known).abs() <= bound * known.abs(), "{name}: {losses:?}, not {known:?}");
        }
        train(&device, &broken.0, Some(5));
        assert_eq!(weights(&whole.0), weights(&broken.0), "{name}: the same bits after a break");
        let model = Model::load(whole.0.join("last")).unwrap();
        assert!(model.forward(&Input { ids: &[1, 2, 3], batch: 1, token_types: None, mask: None }).is_ok());
    }
}
