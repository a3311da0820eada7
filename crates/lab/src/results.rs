//! What a comparison found: every number of a report comes from here, and here from the files of a folder.
//!
//! Nothing in it depends on the clock: the same comparison gives the same bytes. Times are in [`Timings`], a file of its own.
//!
//! JSON has no NaN and no infinity. They are written as `null`, and `null` is read as NaN: a run that diverged can be read
//! again.

use crate::size::Size;
use crate::statistics::Verdict;
use crate::training::Training;
use serde::{Deserialize, Deserializer, Serialize};

/// A whole comparison: `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The version of the program.
    pub version: String,
    /// A number that is another for another plan or version, in hexadecimal.
    pub hash: String,
    /// What was asked for.
    pub plan: Plan,
    /// The tasks, in order.
    pub tasks: Vec<TaskResult>,
}

/// What a comparison was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `quick` or `full`.
    pub preset: String,
    /// `softmax` or `linear`.
    pub attention: String,
    /// The encodings, in order; the first is what the others are compared with.
    pub encodings: Vec<EncodingPlan>,
    /// The seeds that any of them has.
    pub seeds: Vec<u64>,
    /// Where seeds were added as long as something was undecided: the work of so many of each was the most that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<usize>,
    /// The learning rates that each encoding chose from; where a pilot chose sizes, in the smallest models.
    #[serde(deserialize_with = "numbers")]
    pub rates: Vec<f64>,
    /// Width, layers and heads of every model; where a pilot chose by task, of the smallest.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// What a pilot chose from, by task; empty where all models are of one size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<Size>,
    /// Texts of a batch.
    pub batch: usize,
    /// Whose settings these are, where the plan has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How models are trained, where that is not as always.
    #[serde(default, skip_serializing_if = "Training::is_usual")]
    pub training: Training,
    /// What the attention could not carry, and why.
    pub left_out: Vec<LeftOut>,
}

/// An encoding of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncodingPlan {
    /// As it was asked for, such as `rotary:base=500`.
    pub label: String,
    /// Its name, such as `rotary`.
    pub name: String,
}

/// An encoding that was left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// As it was asked for.
    pub label: String,
    /// Why.
    pub reason: String,
}

/// All that was found on one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Its name.
    pub name: String,
    /// One sentence: what it isolates.
    pub isolates: String,
    /// Whether order carries no information in it.
    pub is_control: bool,
    /// Whether its measure is a loss (a language model) rather than exact answers.
    pub is_language: bool,
    /// The longest length that was trained on.
    pub train_length: usize,
    /// The lengths that were tested.
    pub test_lengths: Vec<usize>,
    /// How many symbols it has, where they are not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<usize>,
    /// Steps of training.
    pub steps: u64,
    /// Tokens of a step.
    pub tokens_per_step: u64,
    /// How large its models are, where a pilot chose by task; otherwise the plan says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// What the pilot reached with each size that it tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pilots: Vec<Piloted>,
    /// One for each encoding and seed, and the baseline again with another order of data (`is_again`).
    pub runs: Vec<RunResult>,
    /// Each encoding against the first, by what was measured.
    pub comparisons: Vec<Comparison>,
    /// The places of encodings among each other, by what was measured.
    #[serde(default)]
    pub rankings: Vec<Ranking>,
    /// Trained with one rule, tested with another.
    pub swaps: Vec<Swap>,
    /// The settings that a sweep tried, if there was one.
    pub sweep: Vec<Swept>,
}

/// What models of one size reached in a pilot, with the best of the learning rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Piloted {
    /// The size.
    pub size: Size,
    /// Exact answers within the trained lengths.
    #[serde(deserialize_with = "number")]
    pub reached: f64,
    /// The learning rate.
    #[serde(deserialize_with = "number")]
    pub rate: f64,
}

/// One model, trained and measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The label of its encoding.
    pub encoding: String,
    /// Its seed.
    pub seed: u64,
    /// Whether it is the baseline once more, with another order of data: the A/A row.
    pub is_again: bool,
    /// Its learning rate, chosen on a seed that is not among the others.
    #[serde(deserialize_with = "number")]
    pub rate: f64,
    /// Numbers that are trained.
    pub parameters: u64,
    /// Those of the position encoding alone.
    pub position_parameters: u64,
    /// Floating-point operations of a training step.
    #[serde(deserialize_with = "number")]
    pub flops_per_step: f64,
    /// The loss as it fell.
    pub curve: Vec<CurvePoint>,
    /// What it gets right, by length.
    pub accuracy: Vec<Accuracy>,
    /// Mean attention by distance at the longest trained length, `[layer][distance]`.
    #[serde(deserialize_with = "rows")]
    pub attention: Vec<Vec<f64>>,
    /// The loss of the same targets, by how much they see before them.
    pub context: Vec<ContextPoint>,
    /// What the encoding learned, such as `alpha` and `rho`, a number for each layer.
    pub learned: Vec<Learned>,
}

/// A point of a training curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// After which step.
    pub step: u64,
    /// The mean training loss since the point before.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
}

/// What a model gets right at one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accuracy {
    /// The length.
    pub length: usize,
    /// The part of the examples whose answer is right to the last token.
    #[serde(deserialize_with = "number")]
    pub exact: f64,
    /// The part of the answers' tokens that are right.
    #[serde(deserialize_with = "number")]
    pub token: f64,
    /// The mean loss of the answers' tokens.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
}

/// The loss of fixed targets with some context.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContextPoint {
    /// Tokens before the first target.
    pub context: usize,
    /// Their mean loss.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
}

/// What an encoding learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Learned {
    /// Such as `alpha`.
    pub name: String,
    /// A number for each layer.
    #[serde(deserialize_with = "numbers")]
    pub layers: Vec<f64>,
}

/// An encoding against the baseline on one measure, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The label of the encoding; the baseline's own with `is_again` for the A/A row.
    pub encoding: String,
    /// Whether it is the A/A row.
    pub is_again: bool,
    /// What was measured.
    pub measure: Measure,
    /// The difference of each seed, the encoding less the baseline.
    #[serde(deserialize_with = "numbers")]
    pub differences: Vec<f64>,
    /// Their mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// The size of the effect: the mean in standard deviations of the differences, less what few seeds add to it by chance;
    /// none of two seeds, nor of differences that are all the same.
    #[serde(default)]
    pub effect: Option<f64>,
    /// The paired t interval of 95 %; where seeds were added, one that holds whenever it is looked at.
    #[serde(deserialize_with = "number")]
    pub low: f64,
    /// Its upper end.
    #[serde(deserialize_with = "number")]
    pub high: f64,
    /// The p-value, before correction over encodings.
    #[serde(deserialize_with = "number")]
    pub p: f64,
    /// The p-value after Holm's correction over the comparisons of this task and measure.
    #[serde(deserialize_with = "number")]
    pub p_holm: f64,
    /// The smallest difference that this many seeds could have shown with a chance of 80 %.
    #[serde(deserialize_with = "number")]
    pub detectable: f64,
    /// The margin of the equivalence test.
    #[serde(deserialize_with = "number")]
    pub margin: f64,
    /// The p-value of the equivalence test.
    #[serde(deserialize_with = "number")]
    pub p_equal: f64,
    /// What may be said; [`Verdict::Unclear`] where it was not judged.
    pub verdict: Verdict,
    /// Why it was not judged, where it was not: `did not learn it in 500 steps`.
    pub not_judged: Option<String>,
}

/// The places of encodings among each other on one measure: which they may have, for all that can be shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// What was measured.
    pub measure: Measure,
    /// The first places first. Encodings that are not judged are not among them.
    pub places: Vec<Place>,
}

/// The places that an encoding may have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The label of the encoding.
    pub encoding: String,
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
}

/// What encodings are compared on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Exact answers within the trained lengths; the loss where the task is a language model.
    #[serde(rename = "in range")]
    InRange,
    /// The same beyond the trained lengths.
    Beyond,
    /// The last training loss of the curve.
    Loss,
    /// Steps to the same training loss.
    Speed,
}

impl Measure {
    /// Every measure, in the order of results.
    pub const ALL: [Measure; 4] = [Measure::InRange, Measure::Beyond, Measure::Loss, Measure::Speed];
}

/// A model trained with one rule and tested with another at a longer length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swap {
    /// The label of the encoding that was trained.
    pub trained: String,
    /// The rule of the test.
    pub tested: Rule,
    /// The length.
    pub length: usize,
    /// Exact answers, a number for each seed; losses where the task is a language model.
    #[serde(deserialize_with = "numbers")]
    pub values: Vec<f64>,
}

/// A rule for the frequencies of rotary embedding at a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// That of training.
    #[serde(rename = "as trained")]
    AsTrained,
    /// Linear interpolation of positions.
    Linear,
    /// The NTK-aware base.
    Ntk,
    /// YaRN.
    Yarn,
    /// The NTK-aware base by the length of the text.
    Dynamic,
    /// Far distances held at a window.
    ReRope,
    /// Far distances counted in groups.
    #[serde(rename = "self-extend")]
    SelfExtend,
}

impl Rule {
    /// As it is written in results.
    pub fn name(self) -> &'static str {
        match self {
            Rule::AsTrained => "as trained",
            Rule::Linear => "linear",
            Rule::Ntk => "ntk",
            Rule::Yarn => "yarn",
            Rule::Dynamic => "dynamic",
            Rule::ReRope => "rerope",
            Rule::SelfExtend => "self-extend",
        }
    }
}

/// One setting of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Swept {
    /// As it would be asked for.
    pub label: String,
    /// The name of the encoding.
    pub name: String,
    /// What it reached on the seeds of the sweep.
    #[serde(deserialize_with = "numbers")]
    pub values: Vec<f64>,
    /// Whether it was chosen.
    pub is_chosen: bool,
}

/// Times of a comparison: `timings.json`. They differ from run to run, and are shown but never judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timings {
    /// Seconds in all.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Threads.
    pub threads: usize,
    /// Each run's.
    pub runs: Vec<RunTiming>,
}

/// The time of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTiming {
    /// The task.
    pub task: String,
    /// The label of the encoding.
    pub encoding: String,
    /// The seed.
    pub seed: u64,
    /// Whether it is the A/A row.
    pub is_again: bool,
    /// Seconds of training.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Tokens per second of training.
    #[serde(deserialize_with = "number")]
    pub tokens_s: f64,
}

/// A number, or NaN for `null`.
fn number<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Numbers, each as [`number`].
fn numbers<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<f64>, D::Error> {
    Ok(all(Vec::deserialize(from)?))
}

/// Rows of numbers, each as [`number`].
fn rows<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Vec<f64>>, D::Error> {
    Ok(Vec::deserialize(from)?.into_iter().map(all).collect())
}

fn all(values: Vec<Option<f64>>) -> Vec<f64> {
    values.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn is_written_as<T: Copy + Debug + PartialEq + Serialize + DeserializeOwned>(value: T, name: &str) {
        let text = format!("\"{name}\"");
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert_eq!(serde_json::from_str::<T>(&text).unwrap(), value);
    }

    /// Folders of finished comparisons hold these names.
    #[test]
    fn names_in_files_stay() {
        for (measure, name) in Measure::ALL.into_iter().zip(["in range", "beyond", "loss", "speed"]) {
            is_written_as(measure, name);
        }
        for (verdict, name) in [
            (Verdict::Better, "better"),
            (Verdict::Worse, "worse"),
            (Verdict::Tie, "tie"),
            (Verdict::Unclear, "unclear"),
        ] {
            is_written_as(verdict, name);
            assert_eq!(verdict.name(), name);
        }
        for (rule, name) in [
            (Rule::AsTrained, "as trained"),
            (Rule::Linear, "linear"),
            (Rule::Ntk, "ntk"),
            (Rule::Yarn, "yarn"),
            (Rule::Dynamic, "dynamic"),
            (Rule::ReRope, "rerope"),
            (Rule::SelfExtend, "self-extend"),
        ] {
            is_written_as(rule, name);
            assert_eq!(rule.name(), name);
        }
        assert!(serde_json::from_str::<Verdict>("\"odd\"").is_err());
    }
}
