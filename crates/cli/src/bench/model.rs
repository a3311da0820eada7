//! `roformer bench model`.

use crate::error::Outcome;
use clap::Args;
use roformer::bench::model::{self, Sample};
use serde_json::json;
use std::io::Write;

/// Run RoFormer-base (random weights, f32) at 1×16, 1×128, 8×128, 2×512 and 1×1024
///
/// Each line is a median. `gflops` counts the multiplications and additions of all products; `peak_gflops` is what a loop
/// that does nothing else reaches on the same threads. A text's result in a batch is checked to be what it is alone.
#[derive(Args)]
#[command(after_help = "Example:\n  roformer bench model --threads 2 --json > model.jsonl")]
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
        writeln!(out, "RoFormer-base, f32, {} threads", rayon::current_num_threads())?;
        let titles = ["batch", "length", "ms", "(quartiles)", "GFLOP/s", "of peak", "tokens/s", "peak MB"];
        let [a, b, c, d, e, f, g, h] = titles;
        writeln!(out, "{a:>5} {b:>6} {c:>9} {d:>19} {e:>8} {f:>8} {g:>9} {h:>8}")?;
    }
    super::each(|report| model::run(report), |sample| print(&mut out, sample, json))
}

fn print(out: &mut impl Write, sample: &Sample, json: bool) -> std::io::Result<()> {
    let Sample { batch, length, ms, quartiles, gflops, peak_gflops, tokens_s, peak_mb, weights_mb } = sample;
    if json {
        let line = json!({
            "what": "forward", "batch": batch, "length": length, "ms": ms, "ms_quartiles": [quartiles.0, quartiles.1],
            "gflops": gflops, "peak_gflops": peak_gflops, "tokens_s": tokens_s, "peak_mb": peak_mb,
            "weights_mb": weights_mb,
        });
        writeln!(out, "{line}")
    } else {
        let spread = format!("({:.1} – {:.1})", quartiles.0, quartiles.1);
        let part = gflops / peak_gflops;
        let memory = peak_mb.map_or("?".to_string(), |mb| format!("{mb:.0}"));
        writeln!(
            out,
            "{batch:>5} {length:>6} {ms:>9.2} {spread:>19} {gflops:>8.1} {part:>8.2} {tokens_s:>9.0} {memory:>8}"
        )
    }?;
    out.flush()
}
