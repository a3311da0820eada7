//! Trained with one rule for frequencies and distances, tested with another at longer lengths.

use super::super::results::Rule;
use super::super::run::{Settings, Trained};
use super::super::tasks::Task;
use super::accuracy;
use roformer::encoding::{Encoding, Extend, Rotary};
use roformer::graph::Far;
use roformer::rope::{Schedule, Yarn};
use roformer::{Error, Result};
use serde::{Deserialize, Serialize};

/// What one model reached with one rule at one length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swapped {
    /// The rule.
    pub tested: Rule,
    /// The length.
    pub length: usize,
    /// Exact answers; the loss where the task is a language model.
    pub value: f64,
}

/// The rotary embedding that is tested with other rules; `None` where an encoding is not.
pub fn swapped(encoding: &Encoding) -> Option<&Rotary> {
    match encoding {
        Encoding::Rotary(rotary @ Rotary { schedule: Schedule::Default, is_learned: false, .. }) => {
            Some(rotary)
        }
        _ => None,
    }
}

/// How many rules those are.
pub const RULES: usize = 7;

/// Every rule at every length beyond training, for a model that was trained with the plain rule of rotary embedding; none
/// for others. A rule stretches by as much as the text is longer than those of training. Where far distances are held or grouped, those
/// up to half of training's are near, and groups are so large that none of the others is further than training has shown.
pub fn swaps(trained: &Trained, settings: &Settings, task: &dyn Task) -> Result<Vec<Swapped>> {
    let Some(rotary) = swapped(&trained.network.blueprint.encoding) else { return Ok(Vec::new()) };
    let original = task.tokens(settings.train_length) as u64;
    let mut out = Vec::new();
    for &length in settings.test_lengths.iter().filter(|length| **length > settings.train_length) {
        let tokens = task.tokens(length);
        let factor = tokens as f64 / original as f64;
        let with = |schedule| Encoding::Rotary(Rotary { schedule, ..rotary.clone() });
        let window = (original as usize / 2).max(1);
        let group = (tokens - window).div_ceil((original as usize - window).max(1)).max(2);
        let extend = |group| {
            let far = Far { window, group };
            Encoding::Extend(Extend { far, rotary: rotary.clone() })
        };
        let rules: [_; RULES] = [
            (Rule::AsTrained, with(Schedule::Default)),
            (Rule::Linear, with(Schedule::Linear { factor })),
            (Rule::Ntk, with(Schedule::NtkAware { factor })),
            (Rule::Yarn, with(Schedule::Yarn(Yarn::new(factor, original)))),
            (Rule::Dynamic, with(Schedule::DynamicNtk { factor, trained_length: original })),
            (Rule::ReRope, extend(None)),
            (Rule::SelfExtend, extend(Some(group))),
        ];
        for (tested, encoding) in rules {
            if settings.is_linear && encoding.check_linear().is_err() {
                continue;
            }
            let network = trained.network.with(|own| own.encoding = encoding);
            let reached = match accuracy(trained, &network, settings, task, length) {
                // A rule that cannot be had for so few frequencies is left out.
                Err(Error::Rope(_)) => continue,
                reached => reached?,
            };
            let value = if task.is_language() { reached.loss } else { reached.exact };
            out.push(Swapped { tested, length, value });
        }
    }
    Ok(out)
}
