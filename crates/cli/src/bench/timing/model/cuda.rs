//! The same model on a GPU, its results checked against the CPU's.

use super::super::{median, quantile, seconds};
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Input, Model};
use roformer::ops::cuda::{Arithmetic, Cuda};
use roformer::{Error, Result};

/// Batch and length of each line.
pub const SHAPES: [(usize, usize); 7] =
    [(1, 16), (1, 128), (8, 128), (2, 512), (1, 1024), (32, 512), (128, 512)];
/// Forward passes that are timed, after three that are not.
pub const ROUNDS: usize = 21;

/// What the benchmark reports, in this order.
#[derive(Clone, Debug)]
pub enum Line {
    /// The GPU, and what computes there.
    Device {
        /// Its name.
        name: String,
        /// Where kernels and products come from.
        origin: String,
    },
    /// A shape.
    Sample(Sample),
}

/// One shape.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What it was computed in.
    pub arithmetic: Arithmetic,
    /// Texts.
    pub batch: usize,
    /// Tokens of a text.
    pub length: usize,
    /// Milliseconds of the GPU's clock from the embeddings to the last layer: the median.
    pub ms: f64,
    /// Its first and third quartile.
    pub quartiles: (f64, f64),
    /// Milliseconds of a whole call, with ids copied there and all hidden states copied back as `f32`.
    pub call_ms: f64,
    /// Million million multiplications and additions per second, by the GPU's clock.
    pub tflops: f64,
    /// Tokens per second, by the GPU's clock.
    pub tokens_s: f64,
    /// ‖result − CPU's‖ / ‖CPU's‖ over the first and the last text.
    pub error: f64,
}

/// The largest error that rounding explains, after twelve layers.
fn bound(arithmetic: Arithmetic) -> f64 {
    match arithmetic {
        Arithmetic::F32 => 1e-4,
        Arithmetic::Tf32 => 1e-2,
        Arithmetic::Bf16 => 1e-1,
    }
}

/// Measures every shape on a GPU; `report` sees each line as it comes. A result that is not the CPU's, up to rounding,
/// is an error.
pub fn run(number: usize, arithmetic: Arithmetic, mut report: impl FnMut(Line)) -> Result<()> {
    let gpu = Cuda::new(number, arithmetic)?;
    report(Line::Device { name: gpu.device().name().to_string(), origin: gpu.origin() });
    let blueprint = Blueprint::from_config(br#"{"model_type": "roformer", "vocab_size": 12000}"#)?;
    let (hidden, wide, layers) = (blueprint.width, blueprint.wide, blueprint.layers);
    let processor = Model::<f32>::from_parameters(blueprint.clone(), &Hashed)?;
    let model = Model::<f32, Cuda>::on(gpu.clone(), blueprint, &Hashed)?;
    for (batch, length) in SHAPES {
        let ids: Vec<u32> = (0..batch * length).map(|i| (i * 7919 % 12_000) as u32).collect();
        let input = Input { ids: &ids, batch, token_types: None, mask: None };
        let result = model.forward(&input)?.last_hidden_state;
        let (mut difference, mut size) = (0.0, 0.0);
        for text in [0, batch - 1] {
            let one = &ids[text * length..][..length];
            let alone = Input { ids: one, batch: 1, token_types: None, mask: None };
            let exact = processor.forward(&alone)?.last_hidden_state;
            for (&x, &y) in result[text * length * hidden..].iter().zip(&exact) {
                difference += f64::from(x - y).powi(2);
                size += f64::from(y).powi(2);
            }
        }
        let (error, bound) = ((difference / size).sqrt(), bound(arithmetic));
        // A NaN is not within the bound either.
        if error.is_nan() || error > bound {
            let name = "the relative error of a timed result";
            return Err(Error::input(
                name,
                format!("{error:.1e} at {batch}×{length}"),
                format!("{bound:e} at most"),
            ));
        }
        let (mut times, mut calls) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS + 3 {
            let mut outcome = Ok(());
            let call = seconds(|| outcome = model.forward(&input).map(drop));
            outcome?;
            if round >= 3 {
                calls.push(call * 1e3);
                times.extend(gpu.pass_milliseconds());
            }
        }
        let tokens = (batch * length) as f64;
        let products = 2.0 * tokens * (layers * (4 * hidden * hidden + 2 * hidden * wide)) as f64;
        let attention = 4.0 * tokens * (length * hidden * layers) as f64;
        let ms = median(&times);
        report(Line::Sample(Sample {
            arithmetic,
            batch,
            length,
            ms,
            quartiles: (quantile(&times, 0.25), quantile(&times, 0.75)),
            call_ms: median(&calls),
            tflops: (products + attention) / ms / 1e9,
            tokens_s: tokens / ms * 1e3,
            error,
        }));
    }
    Ok(())
}
