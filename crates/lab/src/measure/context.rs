//! The loss of the same targets with more and more before them: what a language model makes of a longer context, whatever
//! its targets. (A mean over all targets would get better by itself, since fewer of them are near the beginning.)

use super::super::results::ContextPoint;
use super::super::run::{HOPELESS, Settings, Trained, join};
use super::super::tasks::{Example, Task};
use super::{ROWS, test_example, test_positions};
use roformer::Result;
use roformer::graph::IGNORE;

/// Targets of a text: its last ones.
const TARGETS: usize = 16;

/// The loss of the last targets of texts of the longest length that is tested, seen with the contexts of all lengths.
pub fn by_context(trained: &Trained, settings: &Settings, task: &dyn Task) -> Result<Vec<ContextPoint>> {
    let Some(&longest) = settings.test_lengths.last().filter(|_| task.is_language()) else {
        return Ok(Vec::new());
    };
    let rows = ROWS.min(settings.examples);
    let texts: Vec<Example> =
        (0..rows as u64).map(|row| test_example(settings, task, longest, row)).collect();
    let mut points = Vec::new();
    for &length in settings.test_lengths.iter().filter(|length| **length > TARGETS) {
        let cut = |text: &Example| {
            let mut targets = text.targets[longest - length..].to_vec();
            targets[..length - TARGETS].fill(IGNORE);
            Example { ids: text.ids[longest - length..].to_vec(), targets }
        };
        let texts: Vec<Example> = texts.iter().map(cut).collect();
        let mut batch = join(&texts, length);
        let encoding = &trained.network.blueprint.encoding;
        batch.positions = test_positions(encoding, settings, task, length, 0);
        let mut laid = trained.lay_out(&trained.network, rows, length, settings.longest(task))?;
        laid.set(batch)?;
        points.push(ContextPoint { context: length - TARGETS, loss: laid.graph.forward().min(HOPELESS) });
    }
    Ok(points)
}
