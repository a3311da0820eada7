//! The curves of a training run.

use super::{Axis, Figure, Panel, Point, Series};
use roformer::Result;
use roformer::files::failed;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The [`curves`] of a run, from its `metrics.jsonl`. Lines that are not of a step are passed over.
pub fn curves_of(metrics: &Path) -> Result<String> {
    let bytes = fs::read(metrics).map_err(|error| failed(metrics, error))?;
    let (mut losses, mut kept, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
        let number = |name: &str| line.get(name).and_then(Value::as_f64);
        let Some(step) = line.get("step").and_then(Value::as_u64) else { continue };
        losses.extend(number("loss").map(|loss| (step, loss)));
        kept.extend(number("validation_loss").map(|loss| (step, loss)));
        rates.extend(number("lr").map(|rate| (step, rate)));
    }
    Ok(curves(&losses, &kept, &rates))
}

/// One SVG of a training run: loss and validation loss by step, and the learning rate below them. Each list is of steps and
/// values; an empty one has no line.
pub fn curves(loss: &[(u64, f64)], validation_loss: &[(u64, f64)], rate: &[(u64, f64)]) -> String {
    let steps = || [loss, validation_loss, rate].into_iter().flatten().map(|&(step, _)| step as f64);
    let last = steps().fold(0.0, f64::max);
    let series = |label: &str, look: usize, values: &[(u64, f64)]| {
        let points = values.iter().map(|&(step, value)| Point::from((step as f64, value))).collect();
        Series { label: label.into(), key: label.into(), look, points, ..Series::default() }
    };
    let axis = |label: &str| Axis::new(label).whole().including([0.0, last]);
    let mut panels = vec![Panel {
        x: axis(if rate.is_empty() { "step" } else { "" }),
        y: Axis::new("loss (nats per token)"),
        height: 340.0,
        series: vec![series("loss", 5, loss), series("validation loss", 3, validation_loss)],
        ..Panel::default()
    }];
    if !rate.is_empty() {
        panels.push(Panel {
            x: axis("step"),
            y: Axis::new("learning rate").including([0.0]),
            height: 170.0,
            series: vec![series("learning rate", 7, rate)],
            ..Panel::default()
        });
    }
    panels.iter_mut().for_each(|panel| panel.series.retain(|series| !series.points.is_empty()));
    Figure { title: "Training: loss, validation loss and learning rate by step".into(), columns: 1, panels }
        .file(800.0)
}
