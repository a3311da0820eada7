//! `roformer bench rope`.

use crate::error::{Failure, Outcome};
use clap::Args;
use roformer::bench::rope::{self, LENGTH, ROUNDS, Sample};
use serde_json::json;
use std::io::Write;

/// Rotate q [1, 8192, 32, 128] and k [1, 8192, 8, 128] in place, and one token of each
///
/// Each line is the median of 15 rounds that alternate with an in-place multiply over the same buffers, threads and
/// pieces; `fraction` is the multiply's time over the rotation's: 1 is the speed of memory. Every result is checked
/// against the f64 reference before it is timed.
#[derive(Args)]
#[command(after_help = "Example:\n  roformer bench rope --threads 2 --json > rope.jsonl")]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
}

pub fn run(arguments: Arguments) -> Outcome {
    arguments.options.run(measure)
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
            "table of {} × {} (cos, sin) pairs: {:.0} µs, {millions:.0} million a second",
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
