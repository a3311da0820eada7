//! `roformer bench rope`.

use super::timing::rope::{self, LENGTH, ROUNDS, Sample};
use crate::error::{Failure, Outcome};
use clap::{Args, ValueEnum};
use serde_json::json;
use std::io::Write;

/// Rotate q [1, 8192, 32, 128] and k [1, 8192, 8, 128] in place, and one token of each
///
/// Each line is the median of 15 rounds that alternate with an in-place multiply over the same buffers, threads and
/// pieces; `fraction` is the multiply's time over the rotation's: 1 is the speed of memory. Every result is checked
/// against the f64 reference before it is timed.
///
/// With --device cuda it rotates q [4, 4096, 32, 128] and [1, 131072, 32, 128], k with 8 heads, on the first NVIDIA GPU, in
/// rounds that alternate with a copy of the same bytes there; and one token, by a graph of 100 launches and by 1000 calls.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer bench rope --threads 2 --json > rope.jsonl\n  roformer bench rope --device cuda"
)]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
    /// Where to rotate
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The CPU
    Cpu,
    /// The first NVIDIA GPU
    Cuda,
}

pub fn run(arguments: Arguments) -> Outcome {
    arguments.options.run(match arguments.device {
        Device::Cpu => measure,
        Device::Cuda => measure_cuda,
    })
}

#[cfg(not(feature = "cuda"))]
fn measure_cuda(_json: bool) -> Outcome {
    Err(Failure::Other("built without the feature `cuda`; build with it to use a GPU".into()))
}

#[cfg(feature = "cuda")]
fn measure_cuda(json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    super::each(|report| rope::cuda::run(report), |line| print_cuda(&mut out, line, json))
}

#[cfg(feature = "cuda")]
fn print_cuda(out: &mut impl Write, line: &rope::cuda::Line, json: bool) -> std::io::Result<()> {
    use rope::cuda::{Line, ROUNDS, Sample, Token};
    match line {
        Line::Device { name, kernels } if json => {
            writeln!(out, "{}", json!({"what": "device", "name": name, "kernels": kernels}))
        }
        Line::Device { name, kernels } => {
            writeln!(out, "{name}, kernels from {kernels}")?;
            writeln!(out, "32 + 8 heads of 128, q and k in place in one launch, {ROUNDS} rounds")?;
            let [a, b, c, d, e, f, g, h, i] =
                ["type", "pairing", "batch", "length", "µs", "(quartiles)", "GB/s", "copy", "fraction"];
            writeln!(out, "{a:5} {b:12} {c:>5} {d:>7} {e:>9} {f:>19} {g:>7} {h:>7} {i:>9}")
        }
        Line::Sample(sample) => {
            let Sample { dtype, pairing, batch, length, us, quartiles, gb_s, copy_gb_s, fraction } = sample;
            let pairing = pairing.name();
            if json {
                let line = json!({
                    "what": "rotate", "device": "cuda", "dtype": dtype, "pairing": pairing, "batch": batch,
                    "length": length, "us": us, "us_quartiles": [quartiles.0, quartiles.1], "gb_s": gb_s,
                    "copy_gb_s": copy_gb_s, "fraction": fraction,
                });
                writeln!(out, "{line}")
            } else {
                let spread = format!("({:.1} – {:.1})", quartiles.0, quartiles.1);
                writeln!(
                    out,
                    "{dtype:5} {pairing:12} {batch:>5} {length:>7} {us:>9.1} {spread:>19} {gb_s:>7.0} {copy_gb_s:>7.0} {fraction:>9.3}"
                )
            }
        }
        Line::Token(Token { dtype, pairing, kernel_us, call_us }) => {
            let pairing = pairing.name();
            if json {
                let line = json!({
                    "what": "one token", "device": "cuda", "dtype": dtype, "pairing": pairing,
                    "kernel_us": kernel_us, "call_us": call_us,
                });
                writeln!(out, "{line}")
            } else {
                writeln!(
                    out,
                    "{dtype:5} {pairing:12} one token: kernel {kernel_us:.2} µs, whole call {call_us:.2} µs"
                )
            }
        }
    }?;
    out.flush()
}

fn measure(json: bool) -> Outcome {
    let mut out = std::io::stdout().lock();
    let threads = rayon::current_num_threads();
    if !json {
        writeln!(
            out,
            "q [1, {LENGTH}, 32, 128] and k [1, {LENGTH}, 8, 128] in place, {threads} threads, {ROUNDS} rounds"
        )?;
        writeln!(
            out,
            "{:5} {:12} {:5} {:>7} {:>12} {:>19} {:>8} {:>9} {:>9}",
            "type", "pairing", "order", "length", "µs", "(quartiles)", "GB/s", "roofline", "fraction"
        )?;
    }
    super::each(|report| rope::run(report), |sample| print(&mut out, sample, json))?;
    let table = rope::table().map_err(|error| Failure::Other(error.to_string()))?;
    if json {
        let line = json!({"what": "table", "rows": table.rows, "pairs": table.pairs, "us": table.us, "mpairs_s": table.mpairs_s});
        writeln!(out, "{line}")?;
    } else {
        let millions = table.mpairs_s;
        writeln!(
            out,
            "table of {} × {} (cos, sin) pairs: {:.0} µs, {millions:.0} million per second",
            table.rows, table.pairs, table.us
        )?;
    }
    Ok(())
}

fn print(out: &mut impl Write, sample: &Sample, json: bool) -> std::io::Result<()> {
    let Sample { dtype, pairing, order, length, us, quartiles, gb_s, roofline_gb_s, fraction } = sample;
    let order = order.name();
    if json {
        let line = json!({
            "what": "rotate", "dtype": dtype, "pairing": pairing.name(), "order": order, "length": length, "us": us,
            "us_quartiles": [quartiles.0, quartiles.1], "gb_s": gb_s, "roofline_gb_s": roofline_gb_s, "fraction": fraction,
        });
        writeln!(out, "{line}")
    } else {
        let spread = format!("({:.2} – {:.2})", quartiles.0, quartiles.1);
        let pairing = pairing.name();
        writeln!(
            out,
            "{dtype:5} {pairing:12} {order:5} {length:>7} {us:>12.2} {spread:>19} {gb_s:>8.1} {roofline_gb_s:>9.1} {fraction:>9.3}"
        )
    }?;
    out.flush()
}
