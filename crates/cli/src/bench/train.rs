//! `roformer bench train`.

use crate::error::Outcome;
use clap::Args;
use roformer::bench::train::{self, Sample};
use serde_json::json;
use std::io::Write;

/// Train small Transformers with rotary embedding, f32: forward, backward and AdamW
///
/// The shapes are those of bench/peers/train_cpu.py. Each line is a median; `floor_ms` is the time of the step's matrix
/// products alone, measured in the same process. The loss is checked to fall.
#[derive(Args)]
#[command(after_help = "Example:\n  roformer bench train --threads 2 --json > train.jsonl")]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
}

pub fn run(arguments: Arguments) -> Outcome {
    arguments.options.run(measure)
}

fn measure(json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    if !json {
        writeln!(out, "training, f32, {} threads", rayon::current_num_threads())?;
        let titles =
            ["batch", "length", "width", "layers", "vocab", "ms", "(quartiles)", "floor ms", "tokens/s"];
        let [a, b, c, d, e, f, g, h, i] = titles;
        writeln!(out, "{a:>5} {b:>6} {c:>5} {d:>6} {e:>6} {f:>8} {g:>17} {h:>9} {i:>9}")?;
    }
    super::each(|report| train::run(report), |sample| print(&mut out, sample, json))
}

fn print(out: &mut impl Write, sample: &Sample, json: bool) -> std::io::Result<()> {
    let Sample { shape: [batch, length, width, layers, vocab], ms, quartiles, floor_ms, tokens_s } = sample;
    if json {
        let line = json!({
            "what": "train step", "batch": batch, "length": length, "width": width, "layers": layers, "vocab": vocab,
            "ms": ms, "ms_quartiles": [quartiles.0, quartiles.1], "floor_ms": floor_ms, "tokens_s": tokens_s,
        });
        writeln!(out, "{line}")
    } else {
        let spread = format!("({:.2} – {:.2})", quartiles.0, quartiles.1);
        writeln!(
            out,
            "{batch:>5} {length:>6} {width:>5} {layers:>6} {vocab:>6} {ms:>8.2} {spread:>17} {floor_ms:>9.2} {tokens_s:>9.0}"
        )
    }?;
    out.flush()
}
