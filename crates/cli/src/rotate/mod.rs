//! `roformer rotate`: rotates one vector, or tensors in a file, to check other implementations against this one.

mod tensors;

use crate::error::{Failure, Outcome};
use crate::input;
use clap::Args;
use rope::{AnglePrecision, HfConfig, HfOptions, Pairing, Positions, Rope, Schedule, Turn, ViewMut};
use std::io::Write;
use std::path::PathBuf;

/// Rotate a vector over positions, or the last axis of the tensors in a safetensors file
///
/// A tensor is [..., length, features]: with --order blhd the axis before the last is heads and the one before that
/// the length. Every tensor must have the features of a head on its last axis; those named with --tensor, or all, are
/// rotated and the others copied.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    roformer rotate --vector 1,0,0,1 --positions 2 --base 10000 --pairing half\n  \
    roformer rotate --vector 1,2,3,4 --positions 0..4 --pairing interleaved\n  \
    roformer rotate --vector 1,2,3,4 --positions 0..4 --alpha 0.5 --rho 0.5\n  \
    roformer rotate in.safetensors out.safetensors --config config.json --positions 100")]
pub struct Arguments {
    /// A safetensors file to read
    #[arg(requires = "output", conflicts_with = "vector")]
    input: Option<PathBuf>,
    /// A safetensors file to write
    output: Option<PathBuf>,
    /// Let the output replace the input
    #[arg(long, requires = "input")]
    overwrite: bool,
    /// One vector, its numbers separated by commas
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, required_unless_present = "input")]
    vector: Vec<f64>,
    /// A position, several separated by commas, or a range FIRST..END. For tensors: the position of the first token
    #[arg(long, default_value = "0", allow_hyphen_values = true)]
    positions: String,
    /// Read all settings from this Hugging Face config.json (- for standard input)
    #[arg(long, conflicts_with_all = ["base", "rotary_dim"])]
    config: Option<PathBuf>,
    /// The layer type of the configuration to use, where it has several
    #[arg(long, requires = "config")]
    layer_type: Option<String>,
    /// The base of the frequencies
    #[arg(long, default_value_t = 10_000.0)]
    base: f64,
    /// How many features of a head turn [default: all]
    #[arg(long)]
    rotary_dim: Option<usize>,
    /// Frequencies, one per pair, instead of those that follow from the base
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["config", "base"])]
    frequencies: Vec<f64>,
    /// The α of a receptive field, whose frequencies are α/10000^ρ + (1−α)·θⱼ, with θⱼ those that follow from the base
    #[arg(long, requires = "rho", conflicts_with_all = ["config", "frequencies"], allow_hyphen_values = true)]
    alpha: Option<f64>,
    /// The ρ of a receptive field
    #[arg(long, requires = "alpha", allow_hyphen_values = true)]
    rho: Option<f64>,
    /// Which features form a pair: interleaved, half or interleaved_to_half [default: the configuration's, else half]
    #[arg(long)]
    pairing: Option<Pairing>,
    /// Turn backwards, which undoes a rotation
    #[arg(long)]
    inverse: bool,
    /// Form angles in f32, as transformers does
    #[arg(long)]
    f32_angles: bool,
    /// The length of the sequence, for rules that depend on it
    #[arg(long)]
    sequence_length: Option<u64>,
    /// The order of the axes of a tensor before the features: bhld for [..., heads, length, features], or blhd
    #[arg(long, default_value = "bhld", value_parser = ["bhld", "blhd"])]
    order: String,
    /// Rotate this tensor (may be repeated) [default: all]
    #[arg(long, value_name = "NAME")]
    tensor: Vec<String>,
}

pub fn run(arguments: Arguments) -> Outcome {
    match (&arguments.input, &arguments.output) {
        (Some(input), Some(output)) => tensors::run(&arguments, input, output),
        _ => vector(&arguments),
    }
}

fn vector(arguments: &Arguments) -> Outcome {
    let rope = arguments.rope(arguments.vector.len())?;
    let positions = parse_positions(&arguments.positions)?;
    let table = rope.table_of::<f64>(&every_axis(&rope, &positions), arguments.sequence_length)?;
    let (rows, dim) = (positions.len(), rope.head_dim());
    if arguments.vector.len() != dim {
        let message = format!("--vector has {} numbers; the head has {dim} features", arguments.vector.len());
        return Err(Failure::Input(message));
    }
    let mut x = arguments.vector.repeat(rows);
    table.at(Positions::Rows)?.rotate(arguments.turn(), &mut ViewMut::blhd(&mut x, [1, rows, 1, dim])?)?;
    let mut out = std::io::stdout().lock();
    for (position, vector) in positions.iter().zip(x.chunks_exact(dim)) {
        // Adding 0 turns -0 into 0: a sign that means nothing here.
        let numbers: Vec<String> =
            vector.iter().map(|x| format!("{:>11.6}", (x * 1e6).round() / 1e6 + 0.0)).collect();
        writeln!(out, "{position:>8}  [{}]", numbers.join(", "))?;
    }
    Ok(())
}

impl Arguments {
    fn turn(&self) -> Turn {
        if self.inverse { Turn::Inverse } else { Turn::Forward }
    }

    /// The rope that the flags or the configuration describe, for heads of `head_dim` features.
    fn rope(&self, head_dim: usize) -> Result<Rope, Failure> {
        let precision = if self.f32_angles { AnglePrecision::F32 } else { AnglePrecision::Exact };
        let Some(path) = &self.config else {
            let mut builder = Rope::builder(head_dim)
                .base(self.base)
                .pairing(self.pairing.unwrap_or(Pairing::Half))
                .angle_precision(precision);
            if let Some(rotary_dim) = self.rotary_dim {
                builder = builder.rotary_dim(rotary_dim);
            }
            if !self.frequencies.is_empty() {
                builder = builder.schedule(Schedule::Given(self.frequencies.clone()));
            }
            if let (Some(alpha), Some(rho)) = (self.alpha, self.rho) {
                builder = builder.schedule(Schedule::ReceptiveField { alpha, rho });
            }
            return Ok(builder.build()?);
        };
        let options = HfOptions { pairing: self.pairing, angle_precision: precision, ..HfOptions::default() };
        let set = HfConfig::read(&input::config(path)?, &options)?.ropes()?;
        match &self.layer_type {
            None => Ok(set.only()?.clone()),
            Some(name) => match set.layer(name)? {
                Some(rope) => Ok(rope.clone()),
                None => Err(Failure::Input(format!("layers of type {name} have no rotary embedding"))),
            },
        }
    }
}

/// The same positions on every axis: `[axes, rows]`.
fn every_axis(rope: &Rope, positions: &[f64]) -> Vec<f64> {
    positions.repeat(rope.axis_count())
}

/// Numbers separated by commas, or FIRST..END.
fn parse_positions(text: &str) -> Result<Vec<f64>, Failure> {
    let bad = || {
        Failure::Input(format!(
            "--positions is `{text}`; expected numbers separated by commas, or a range FIRST..END"
        ))
    };
    let Some((first, end)) = text.split_once("..") else {
        return text.split(',').map(|number| number.trim().parse().map_err(|_| bad())).collect();
    };
    let (first, end): (i64, i64) =
        (first.trim().parse().map_err(|_| bad())?, end.trim().parse().map_err(|_| bad())?);
    if end < first {
        return Err(Failure::Input(format!(
            "--positions is `{text}`; expected a range FIRST..END that does not end before it begins"
        )));
    }
    match end.checked_sub(first) {
        Some(count) if count <= 1 << 20 => Ok((first..end).map(|position| position as f64).collect()),
        _ => Err(Failure::Input(format!(
            "--positions is `{text}`; expected a range of at most 2^20 positions"
        ))),
    }
}
