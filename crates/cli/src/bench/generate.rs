//! `roformer bench generate`.

use super::timing::generate::{self, Sample};
use crate::device::Dtype;
use crate::error::Outcome;
use clap::Args;
use serde_json::json;
use std::io::Write;

/// Write text token by token with decoders of 0.1 and 0.5 thousand million parameters (Llama's form, random weights)
///
/// Each line is the median over 48 tokens of one text after its prompt. Reading all weights once per token is the floor: `gb_s` is how
/// fast they are read, `roofline_gb_s` how fast a loop that does nothing else reads as many bytes on the same threads, in turns with it.
/// The last token's vector is checked against the whole text read at once.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer bench generate --threads 2\n  roformer bench generate --dtype int8 --prompt 2000 --json"
)]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
    /// What to compute in: f32, bf16 or int8
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    dtype: Dtype,
    /// Tokens before those that are timed
    #[arg(long, value_name = "TOKENS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    prompt: u32,
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { options, dtype, prompt } = arguments;
    let precision = dtype.precision("no CPU has that type")?;
    options.run(|json| {
        let mut out = std::io::stdout().lock();
        if !json {
            let (a, b, c, d, e, f) = ("model", "type", "tokens/s", "GB/s", "roofline", "fraction");
            writeln!(out, "{a:12} {b:5} {c:>9} {d:>7} {e:>9} {f:>9}")?;
        }
        let run = |report: &mut dyn FnMut(Sample)| generate::run(precision, prompt as usize, report);
        super::each(run, |sample| print(&mut out, sample, json))
    })
}

fn print(out: &mut impl Write, sample: &Sample, json: bool) -> std::io::Result<()> {
    let Sample { model, precision, prompt, tokens_s, gb_s, roofline_gb_s, fraction } = sample;
    let dtype = precision.name();
    if json {
        let line = json!({
            "what": "generate", "model": model, "dtype": dtype, "prompt": prompt, "tokens_s": tokens_s, "gb_s": gb_s,
            "roofline_gb_s": roofline_gb_s, "fraction": fraction,
        });
        writeln!(out, "{line}")
    } else {
        writeln!(out, "{model:12} {dtype:5} {tokens_s:>9.1} {gb_s:>7.1} {roofline_gb_s:>9.1} {fraction:>9.2}")
    }?;
    out.flush()
}
