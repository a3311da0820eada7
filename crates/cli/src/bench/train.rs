//! `roformer bench train`.

use super::timing::train::{self, Sample};
use crate::device::{Choice, Dtype};
use crate::error::{Failure, Outcome};
use clap::Args;
use serde_json::json;
use std::io::Write;

/// Train small Transformers with rotary embedding, f32: forward, backward and AdamW
///
/// The shapes are those of bench/peers/train_cpu.py. Each line is a median; `floor_ms` is the time of the step's matrix
/// products alone, measured in the same process. The loss is checked to fall.
///
/// On a GPU the shapes are larger, those of bench/peers/gpu_train.py unless one is given; a step is one recorded graph, and the
/// first loss and the norm of its gradient are checked against the CPU's where that takes seconds.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer bench train --threads 2 --json > train.jsonl\n  roformer bench train --device cuda\n  \
                  roformer bench train --device cuda --dtype bf16 --batch 4 --length 4096"
)]
pub struct Arguments {
    #[command(flatten)]
    options: super::Options,
    /// Where to run: cpu, cuda, or cuda:N for GPU N
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Choice,
    /// The type that a GPU computes in [default: tf32 and bf16]
    #[arg(long, value_enum)]
    dtype: Option<Dtype>,
    #[command(flatten)]
    shape: Shape,
}

/// A shape of one's own, on a GPU: what is not said of it is as in the line of RoFormer-base's size.
#[derive(Args)]
struct Shape {
    /// Texts of a batch, on a GPU: this shape alone is timed
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Tokens of a text, on a GPU
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    length: Option<u32>,
    /// Width of the model, on a GPU: heads have 64 features, 32 where it is less than 512
    #[arg(long, value_parser = clap::value_parser!(u32).range(32..))]
    width: Option<u32>,
    /// Layers, on a GPU
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    layers: Option<u32>,
    /// Size of the vocabulary, on a GPU
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..))]
    vocab: Option<u32>,
}

impl Shape {
    /// What was given, in the order of a line; `None` where nothing was.
    fn given(&self) -> Option<[Option<usize>; 5]> {
        let Shape { batch, length, width, layers, vocab } = *self;
        let all = [batch, length, width, layers, vocab].map(|size| size.map(|size| size as usize));
        all.iter().any(Option::is_some).then_some(all)
    }
}

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { options, device, dtype, shape } = arguments;
    match device {
        Choice::Cpu if shape.given().is_some() => Err(Failure::Input(
            "--batch, --length, --width, --layers and --vocab are for a GPU; pass --device cuda with them"
                .into(),
        )),
        Choice::Cpu if dtype.is_some() => {
            Err(Failure::Input("--dtype is for a GPU; pass --device cuda with it".into()))
        }
        Choice::Cpu => options.run(measure),
        Choice::Auto => Err(Failure::Input("--device is auto; expected cpu, cuda or cuda:N".into())),
        Choice::Cuda(number) => options.run(|json| measure_cuda(number, dtype, &shape, json)),
    }
}

#[cfg(not(feature = "cuda"))]
fn measure_cuda(_number: usize, _dtype: Option<Dtype>, _shape: &Shape, _json: bool) -> Outcome {
    Err(Failure::Other("built without the feature `cuda`; build with it to use a GPU".into()))
}

#[cfg(feature = "cuda")]
fn measure_cuda(number: usize, dtype: Option<Dtype>, shape: &Shape, json: bool) -> Outcome {
    let shapes = match shape.given() {
        None => train::cuda::SHAPES.to_vec(),
        Some(given) => {
            let mut own = train::cuda::BASE;
            own.iter_mut().zip(given).for_each(|(size, given)| *size = given.unwrap_or(*size));
            own[5] = if own[2] < 512 { 32 } else { 64 };
            let [_, _, width, .., head_dim] = own;
            if width % head_dim != 0 {
                let text =
                    format!("--width is {width}; expected a multiple of {head_dim}, the features of a head");
                return Err(Failure::Input(text));
            }
            vec![own]
        }
    };
    let chosen = dtype.map_or(vec![Dtype::Tf32, Dtype::Bf16], |dtype| vec![dtype]);
    let arithmetics = chosen.into_iter().map(Dtype::arithmetic).collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    super::each(
        |report: &mut dyn FnMut(train::cuda::Line)| train::cuda::run(number, &arithmetics, &shapes, report),
        |line| print_cuda(&mut out, line, json),
    )
}

#[cfg(feature = "cuda")]
fn print_cuda(out: &mut impl Write, line: &train::cuda::Line, json: bool) -> std::io::Result<()> {
    use train::cuda::{Line, Sample};
    match line {
        Line::Device { name, origin } if json => {
            writeln!(out, "{}", json!({"what": "device", "name": name, "origin": origin}))
        }
        Line::Device { name, origin } => {
            writeln!(out, "training on {name}, {origin}")?;
            let titles =
                ["type", "batch", "length", "width", "layers", "vocab", "ms", "(quartiles)", "TFLOP/s"];
            let [a, b, c, d, e, f, g, h, i] = titles;
            writeln!(
                out,
                "{a:5} {b:>5} {c:>6} {d:>5} {e:>6} {f:>6} {g:>8} {h:>19} {i:>8} {:>10} {:>8}",
                "tokens/s", "error"
            )
        }
        Line::Sample(sample) => {
            let Sample { arithmetic, shape, ms, quartiles, tflops, tokens_s, error } = sample;
            let ([batch, length, width, layers, vocab, head_dim], dtype) = (shape, arithmetic.name());
            if json {
                let line = json!({
                    "what": "train step", "device": "cuda", "dtype": dtype, "batch": batch, "length": length,
                    "width": width, "layers": layers, "vocab": vocab, "head_dim": head_dim, "ms": ms,
                    "ms_quartiles": [quartiles.0, quartiles.1], "tflops": tflops, "tokens_s": tokens_s, "error": error,
                });
                writeln!(out, "{line}")
            } else {
                let spread = format!("({:.3} – {:.3})", quartiles.0, quartiles.1);
                let error = error.map_or("-".to_string(), |error| format!("{error:.1e}"));
                writeln!(
                    out,
                    "{dtype:5} {batch:>5} {length:>6} {width:>5} {layers:>6} {vocab:>6} {ms:>8.3} {spread:>19} {tflops:>8.1} {tokens_s:>10.0} {error:>8}"
                )
            }
        }
    }?;
    out.flush()
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
