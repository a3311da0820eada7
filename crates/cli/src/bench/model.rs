//! `roformer bench model`.

use super::timing::model::{self, Loaded, Sample, Timed, Turn};
use crate::device::{Choice, Dtype};
use crate::error::{Failure, Outcome};
use crate::long;
use clap::Args;
use roformer::ops::Precision;
use serde_json::json;
use std::io::Write;

/// Run RoFormer-base, or a model of another family (random weights), at 1×16, 1×128, 8×128, 2×512 and 1×1024
///
/// BERT and ModernBERT run at 1×4096 too, where ModernBERT's windows tell; Qwen3-Embedding at the first three.
/// Each line is a median. `gflops` counts the multiplications and additions of all products; `peak_gflops` is what a loop
/// that does nothing else reaches on the same threads, in f32. A text's result in a batch is checked to be what it is alone, and
/// `error` is how far a text's vectors are from those in f32, over their length.
///
/// With --device cuda it runs on an NVIDIA GPU, at 32×512 and 128×512 too, timed by the GPU's clock and as whole calls with all
/// hidden states copied back. The first and the last text of each shape are checked against the CPU's result.
#[derive(Args)]
#[command(
    after_help = "Example:\n  roformer bench model --threads 2 --json > model.jsonl\n  roformer bench model --family modernbert --dtype int8\n  roformer bench model --device cuda --dtype bf16"
)]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
    /// The model
    #[arg(long, value_enum, default_value_t = Timed::Roformer)]
    family: Timed,
    /// Where to run: cpu, cuda, or cuda:N for GPU N
    #[arg(long, value_name = "DEVICE", default_value = "cpu", value_parser = device)]
    device: Choice,
    /// What to compute in: f32, bf16 or int8 on the CPU; f32, tf32 or bf16 on a GPU
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Answer each line `BATCH LENGTH REPEATS` of standard input with the median of so many passes, as JSON
    ///
    /// So programs can take turns: `bench/model` asks this one and others one after the other. It says `ready` first.
    #[arg(long)]
    asked: bool,
}

/// A benchmark is of a device that is named.
fn device(text: &str) -> Result<Choice, String> {
    match text.parse()? {
        Choice::Auto => Err("expected cpu, cuda, or cuda:N with the number of a GPU".into()),
        choice => Ok(choice),
    }
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { options, family, device, dtype, asked } = arguments;
    match (device, dtype) {
        (Choice::Cuda(_), _) if asked => {
            Err(Failure::Input("--asked is for the CPU; expected it without --device cuda".into()))
        }
        (Choice::Cuda(_), _) if family != Timed::Roformer => Err(Failure::Input(
            "--family is not roformer; expected roformer: others are timed on the CPU".into(),
        )),
        (Choice::Cuda(number), dtype) => options.run(|json| measure_cuda(number, dtype, json)),
        (_, dtype) => {
            let precision = dtype.precision("no CPU has that type")?;
            options.run(|json| match asked {
                true => answer(family, precision),
                false => measure(family, precision, json),
            })
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn measure_cuda(_number: usize, _dtype: Dtype, _json: bool) -> Outcome {
    Err(Failure::Other("built without the feature `cuda`; build with it to use a GPU".into()))
}

#[cfg(feature = "cuda")]
fn measure_cuda(number: usize, dtype: Dtype, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    let arithmetic = dtype.arithmetic()?;
    let measure = |report: &mut dyn FnMut(model::cuda::Line)| model::cuda::run(number, arithmetic, report);
    super::each(measure, |line| print_cuda(&mut out, line, json))
}

#[cfg(feature = "cuda")]
fn print_cuda(out: &mut impl Write, line: &model::cuda::Line, json: bool) -> std::io::Result<()> {
    use model::cuda::{Line, Sample};
    match line {
        Line::Device { name, origin } if json => {
            writeln!(out, "{}", json!({"what": "device", "name": name, "origin": origin}))
        }
        Line::Device { name, origin } => {
            writeln!(out, "RoFormer-base on {name}, {origin}")?;
            let titles = [
                "type",
                "batch",
                "length",
                "GPU ms",
                "(quartiles)",
                "call ms",
                "TFLOP/s",
                "tokens/s",
                "error",
            ];
            let [a, b, c, d, e, f, g, h, i] = titles;
            writeln!(out, "{a:5} {b:>5} {c:>6} {d:>9} {e:>19} {f:>9} {g:>8} {h:>10} {i:>8}")
        }
        Line::Sample(sample) => {
            let Sample { arithmetic, batch, length, ms, quartiles, call_ms, tflops, tokens_s, error } =
                sample;
            let dtype = arithmetic.name();
            if json {
                let line = json!({
                    "what": "forward", "device": "cuda", "dtype": dtype, "batch": batch, "length": length, "ms": ms,
                    "ms_quartiles": [quartiles.0, quartiles.1], "call_ms": call_ms, "tflops": tflops,
                    "tokens_s": tokens_s, "error": error,
                });
                writeln!(out, "{line}")
            } else {
                let spread = format!("({:.3} – {:.3})", quartiles.0, quartiles.1);
                writeln!(
                    out,
                    "{dtype:5} {batch:>5} {length:>6} {ms:>9.3} {spread:>19} {call_ms:>9.3} {tflops:>8.1} {tokens_s:>10.0} {error:>8.1e}"
                )
            }
        }
    }?;
    out.flush()
}

/// The most tokens that one turn may ask for.
const MOST_TOKENS: usize = 1 << 20;

/// Answers the lines of standard input until it ends.
fn answer(family: Timed, precision: Precision) -> Outcome {
    let failed = |error: roformer::Error| Failure::Other(error.to_string());
    let loaded =
        family.blueprint().and_then(|blueprint| Loaded::new(blueprint, precision)).map_err(failed)?;
    let mut out = std::io::stdout().lock();
    let mut say = |line: serde_json::Value| writeln!(out, "{line}").and_then(|()| out.flush());
    say(json!({"what": "ready"}))?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let (batch, length, repeats) = asked(&line).ok_or_else(|| {
            Failure::Input(format!(
                "{line:?} is no turn; expected BATCH LENGTH REPEATS, of at most {MOST_TOKENS} tokens and 1000 repeats"
            ))
        })?;
        let Turn { ms, gflops, peak_gflops } = loaded.turn(batch, length, repeats).map_err(failed)?;
        say(json!({
            "what": "forward", "dtype": precision.name(), "batch": batch, "length": length, "ms": ms, "gflops": gflops,
            "peak_gflops": peak_gflops,
        }))?;
    }
    Ok(())
}

/// Batch, length and repeats of a line.
fn asked(line: &str) -> Option<(usize, usize, usize)> {
    let numbers: Vec<usize> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[batch, length, repeats] = &numbers[..] else { return None };
    let tokens = batch.checked_mul(length)?;
    ((1..=MOST_TOKENS).contains(&tokens) && (1..=1000).contains(&repeats)).then_some((batch, length, repeats))
}

fn measure(family: Timed, precision: Precision, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    if !json {
        let threads = rayon::current_num_threads();
        writeln!(out, "{}, {}, {threads} threads", family.title(), precision.name())?;
        let titles =
            ["batch", "length", "ms", "(quartiles)", "GFLOP/s", "of peak", "tokens/s", "peak MB", "error"];
        let [a, b, c, d, e, f, g, h, i] = titles;
        writeln!(out, "{a:>5} {b:>6} {c:>9} {d:>19} {e:>8} {f:>8} {g:>9} {h:>8} {i:>8}")?;
    }
    if precision != Precision::F32 {
        long::say("what it is compared with is computed in f32 first");
    }
    super::each(|report| model::run(family, precision, report), |sample| print(&mut out, sample, json))
}

fn print(out: &mut impl Write, sample: &Sample, json: bool) -> std::io::Result<()> {
    let Sample { precision, batch, length, ms, quartiles, .. } = sample;
    let Sample { gflops, peak_gflops, tokens_s, peak_mb, weights_mb, error, .. } = sample;
    if json {
        let line = json!({
            "what": "forward", "dtype": precision.name(), "batch": batch, "length": length, "ms": ms, "ms_quartiles": [quartiles.0, quartiles.1],
            "gflops": gflops, "peak_gflops": peak_gflops, "tokens_s": tokens_s, "peak_mb": peak_mb,
            "weights_mb": weights_mb, "error": error,
        });
        writeln!(out, "{line}")
    } else {
        let spread = format!("({:.1} – {:.1})", quartiles.0, quartiles.1);
        let part = gflops / peak_gflops;
        let memory = peak_mb.map_or("?".to_string(), |mb| format!("{mb:.0}"));
        writeln!(
            out,
            "{batch:>5} {length:>6} {ms:>9.2} {spread:>19} {gflops:>8.1} {part:>8.2} {tokens_s:>9.0} {memory:>8} {error:>8.1e}"
        )
    }?;
    out.flush()
}
