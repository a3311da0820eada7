//! `roformer bench attention`.

use super::timing::attention::{self, Crossover, HEAD_DIM, HEADS, Line, Sample};
use crate::error::Outcome;
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
#[derive(Args)]
#[command(after_help = "Example:\n  roformer bench attention --threads 2 --json > attention.jsonl")]
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
