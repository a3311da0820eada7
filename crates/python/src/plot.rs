//! Pictures of what rotary embedding does: those of `roformer plot`.

use crate::config;
use crate::error::{guarded, raised};
use crate::whole::Whole;
use pyo3::prelude::*;
use roformer_explore::plot::{Decay, Format, Look, Plot, Rotation, Scores, Subject, Table, Wavelengths};
use std::path::Path;

/// Draws a figure of a model's rope, or of one without a rule. What `context` means is the figure's own: how far, how long, which
/// position. The format is that of a file of this name.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called in one place, which names them")]
pub(crate) fn plot(
    figure: &str,
    config: Option<&Bound<'_, PyAny>>,
    layer_type: Option<&str>,
    dim: Whole,
    base: f64,
    context: Option<Whole>,
    trained: Option<Whole>,
    name: &str,
    width: Option<Whole>,
    dark: bool,
) -> PyResult<Vec<u8>> {
    let config = config.map(config::bytes).transpose()?;
    guarded(|| {
        let given = |name: &str, value: Option<Whole>| value.map(|value| value.size(name)).transpose();
        let (context, length) = (given("context", context)?, given("context", context)?.unwrap_or(64));
        let (context, trained) = (context.map(|n| n as u64), given("trained", trained)?.map(|n| n as u64));
        let width = given("width", width)?.map(|width| u32::try_from(width).unwrap_or(u32::MAX));
        let subject = match &config {
            Some(bytes) => Subject::of_config(bytes, layer_type),
            None => Subject::plain(dim.size("dim")?, base),
        };
        let subject = subject.map_err(raised)?;
        let plot = match figure {
            "decay" => Plot::Decay(Decay { subject, reach: context }),
            "wavelengths" => {
                let trained = trained.or(config.is_none().then_some(4096));
                if trained.or(subject.original).or(subject.longest).is_none() {
                    let why = "the configuration does not say the length of training; give it as trained";
                    return Err(raised(why));
                }
                Plot::Wavelengths(Wavelengths { subject, trained, context })
            }
            "rotation" => {
                let position = context.unwrap_or(32);
                Plot::Rotation(Rotation { subject, pairs: Vec::new(), position, frames: None })
            }
            "scores" => Plot::Scores(Scores { subject, length, seed: 1 }),
            "table" => Plot::Table(Table { subject, length }),
            other => {
                let expected = "decay, wavelengths, rotation, scores or table";
                return Err(raised(format!("figure is {other:?}; expected {expected}")));
            }
        };
        let format = Format::of(Path::new(name)).map_err(raised)?;
        plot.render(format, Look { width, is_dark: dark }).map_err(raised)
    })
}
