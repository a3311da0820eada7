//! `roformer bench attention`.

use super::timing::attention::{self, Crossover, HEAD_DIM, HEADS, Line, Sample};
use crate::device::Choice;
use crate::error::{Failure, Outcome};
use clap::Args;
use serde_json::json;
use std::io::{IsTerminal, Write};

/// Softmax attention beside linear attention: 12 heads of 64, f32, one sequence of 64 to 32768 tokens
///
/// `linear` has elu + 1 features, `linear+rotary` rotates them in the numerator; making and rotating them is part of the
/// time. `linear+bias` is what an additive bias (T5) makes of linear attention: every query against every key. Each line
/// is the median of nine rounds, or one run if that takes more than 2 s. `memory` is what an operation holds beside its
/// inputs and its output; `gflops` counts what its definition asks for. The last lines say from which length on linear
/// attention is the faster one. All kinds are checked against their definitions in f64 before they are timed.
///
/// On a GPU it is softmax attention alone, forward and backward as a training step runs it, in bf16: heads of 64 and of 128
/// features, 2048 in all, over 16384 tokens in sequences of 512, 2048 and 8192. Times are medians of the GPU's clock; results and
/// gradients of some tokens are checked against f64. `ROFORMER_CUDNN=off` keeps cuDNN from being used.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer bench attention --threads 2 --json > attention.jsonl\n  roformer bench attention --device cuda"
)]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
    /// Where to run: cpu, cuda, or cuda:N for GPU N
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Choice,
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { options, device } = arguments;
    match device {
        Choice::Cpu => options.run(measure),
        Choice::Auto => Err(Failure::Input("--device is auto; expected cpu, cuda or cuda:N".into())),
        Choice::Cuda(number) => options.run(|json| measure_cuda(number, json)),
    }
}

#[cfg(not(feature = "cuda"))]
fn measure_cuda(_number: usize, _json: bool) -> Outcome {
    Err(Failure::Other("built without the feature `cuda`; build with it to use a GPU".into()))
}

#[cfg(feature = "cuda")]
fn measure_cuda(number: usize, json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    super::each(
        |report: &mut dyn FnMut(attention::cuda::Line)| attention::cuda::run(number, report),
        |line| print_cuda(&mut out, line, json),
    )
}

#[cfg(feature = "cuda")]
fn print_cuda(out: &mut impl Write, line: &attention::cuda::Line, json: bool) -> std::io::Result<()> {
    use attention::cuda::{Line, Sample, Time};
    match line {
        Line::Device { name, origin } if json => {
            writeln!(out, "{}", json!({"what": "device", "name": name, "origin": origin}))
        }
        Line::Device { name, origin } => {
            writeln!(out, "softmax attention in bf16 on {name}, {origin}")?;
            let titles = ["batch", "length", "heads", "dim", "", "way", "µs", "(quartiles)", "TFLOP/s"];
            let [a, b, c, d, e, f, g, h, i] = titles;
            writeln!(
                out,
                "{a:>5} {b:>6} {c:>5} {d:>4} {e:6} {f:8} {g:>8} {h:>19} {i:>8} {:>9} {:>8}  by",
                "memory MB", "error"
            )
        }
        Line::Sample(sample) => {
            let Sample { shape, by, ways, workspace_mb, error } = sample;
            let mask = if shape.is_causal { "causal" } else { "" };
            for (way, Time { us, quartiles, tflops }) in ["forward", "backward"].into_iter().zip(ways) {
                if json {
                    let line = json!({
                        "what": "attention", "device": "cuda", "dtype": "bf16", "way": way, "batch": shape.batch,
                        "length": shape.length, "heads": shape.heads, "head_dim": shape.head_dim,
                        "causal": shape.is_causal, "us": us, "us_quartiles": [quartiles.0, quartiles.1],
                        "tflops": tflops, "memory_mb": workspace_mb, "error": error, "by": by,
                    });
                    writeln!(out, "{line}")?;
                } else {
                    let spread = format!("({:.1} – {:.1})", quartiles.0, quartiles.1);
                    writeln!(
                        out,
                        "{:>5} {:>6} {:>5} {:>4} {mask:6} {way:8} {us:>8.1} {spread:>19} {tflops:>8.1} {workspace_mb:>9.1} {error:>8.1e}  {by}",
                        shape.batch, shape.length, shape.heads, shape.head_dim
                    )?;
                }
            }
            Ok(())
        }
    }?;
    out.flush()
}

fn measure(json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    if !json {
        let threads = rayon::current_num_threads();
        writeln!(out, "{HEADS} heads of {HEAD_DIM}, f32, one sequence, {threads} threads")?;
        let titles = ["", "", "length", "ms", "(quartiles)", "runs", "memory MB", "tokens/s", "GFLOP/s"];
        let [a, b, c, d, e, f, g, h, i] = titles;
        writeln!(out, "{a:13} {b:6} {c:>6} {d:>9} {e:>21} {f:>4} {g:>9} {h:>9} {i:>8}")?;
    }
    let progress = std::io::stderr().is_terminal();
    super::each(|report| attention::run(report), |line| print(&mut out, line, json, progress))
}

fn print(out: &mut impl Write, line: &Line, json: bool, progress: bool) -> std::io::Result<()> {
    if progress {
        eprint!("\r\x1b[K");
    }
    let mask = |causal: bool| if causal { "causal" } else { "" };
    match line {
        Line::Next { causal, length } => {
            if progress {
                eprint!("{length} tokens {}…", mask(*causal));
            }
            return Ok(());
        }
        Line::Sample(sample) => {
            let Sample { kind, causal, length, ms, quartiles, rounds, memory_mb, tokens_s, gflops } = sample;
            let kind = kind.name();
            if json {
                let line = json!({
                    "what": "attention", "kind": kind, "causal": causal, "length": length, "ms": ms,
                    "quartiles": [quartiles.0, quartiles.1], "rounds": rounds, "memory_mb": memory_mb,
                    "tokens_s": tokens_s, "gflops": gflops,
                });
                writeln!(out, "{line}")?;
            } else {
                let spread = format!("({:.2} – {:.2})", quartiles.0, quartiles.1);
                let mask = mask(*causal);
                writeln!(
                    out,
                    "{kind:13} {mask:6} {length:>6} {ms:>9.2} {spread:>21} {rounds:>4} {memory_mb:>9.2} {tokens_s:>9.0} {gflops:>8.1}"
                )?;
            }
        }
        Line::Crossover { kind, causal, at } => {
            let (kind, mask) = (kind.name(), mask(*causal));
            if json {
                // A crossing below the first length is at most there; none is null.
                let (length, at_most) = match at {
                    Crossover::AtMost(length) => (Some(*length as f64), true),
                    Crossover::From(length) => (Some(length.round()), false),
                    Crossover::Never(_) => (None, false),
                };
                let line = json!({
                    "what": "crossover", "causal": causal, "kind": kind, "length": length, "at_most": at_most,
                });
                writeln!(out, "{line}")?;
            } else {
                let from = match at {
                    Crossover::AtMost(length) => format!("from {length} tokens on, or fewer"),
                    Crossover::From(length) => format!("from about {length:.0} tokens on"),
                    Crossover::Never(length) => format!("never up to {length} tokens"),
                };
                writeln!(out, "{kind:13} {mask:6} beats softmax {from}")?;
            }
        }
    }
    out.flush()
}
