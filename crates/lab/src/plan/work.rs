//! How much work a plan is, counted before any of it is done.

use super::super::measure::{RULES, swapped};
use super::super::run::{Purpose, Settings};
use super::Plan;
use roformer::Result;

/// The work of a plan; where a pilot chooses sizes, that of the smallest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Runs: with the first seeds, where seeds are added.
    pub runs: usize,
    /// Floating-point operations of training all of them; where seeds are added, at most.
    pub training: f64,
    /// Those of measuring what they can do then, on the CPU.
    pub measuring: f64,
    /// Tokens that are trained on, each as often as it is read.
    pub tokens: f64,
    /// Tokens that the longest of these runs is trained on.
    pub tokens_of_one: f64,
    /// Parameters of the largest model.
    pub parameters: usize,
    /// Bytes of the largest model while it is trained, about.
    pub memory: u64,
    /// Bytes of what is kept of it while it is under way.
    pub kept: u64,
}

impl Plan {
    /// Counts it.
    pub fn work_of_all(&self) -> Result<Work> {
        let mut work = Work { runs: self.every_run(self.seeds.first()).len(), ..Work::default() };
        for settings in self.every_run(self.seeds.mean()) {
            let task = self.task(&settings);
            let a_step = settings.batch * task.tokens(settings.train_length);
            let tokens = settings.steps as f64 * a_step as f64;
            work.training += self.work(&settings);
            work.measuring += self.measuring(&settings);
            work.tokens += tokens;
            work.tokens_of_one = work.tokens_of_one.max(tokens);
        }
        for planned in &self.tasks {
            for (label, encoding) in &self.encodings {
                let settings = self.settings(planned, label, 0.0, 1, Purpose::Run).of(planned.size);
                let (task, parts) = (&*planned.task, settings.training.parts as usize);
                let (texts, tokens) = (settings.batch / parts, task.tokens(settings.train_length));
                let network = settings.network(task, encoding);
                let needs = network.needs(texts, tokens, settings.longest(task))?;
                work.parameters = work.parameters.max(needs.parameters);
                work.memory = work.memory.max(needs.bytes_of_training(parts > 1));
            }
        }
        work.kept = 3 * size_of::<f32>() as u64 * work.parameters as u64;
        Ok(work)
    }

    /// The operations of the tests of a run: a forward pass over every example, once more for every other rule that it is tested with.
    pub(crate) fn measuring(&self, settings: &Settings) -> f64 {
        let task = self.task(settings);
        let is_to_choose = matches!(settings.purpose, Purpose::Pilot | Purpose::Search);
        let has_rules = self.encoding(&settings.encoding).is_ok_and(|own| swapped(&own).is_some());
        let times = |length: usize| match length > settings.train_length {
            true if is_to_choose => 0,
            true if has_rules && settings.purpose == Purpose::Run => 1 + RULES,
            _ => 1,
        };
        let of = |&length: &usize| {
            times(length) as f64 * settings.examples as f64 * settings.flops_of_text(task, length)
        };
        settings.test_lengths.iter().map(of).sum()
    }
}
