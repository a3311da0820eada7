//! Is an answer right, to which precision, and if not: which mistake gives just this?
//!
//! An element may be off by so many roundings of its type, and by what its angle may be off. Both are measured against the
//! length of the pair that the element belongs to, so that a small element of a long pair is not asked for more.

use crate::answers::{Answers, Tensor};
use crate::case::{Case, Meaning, tensor_name};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::mistakes::{self, Mistake};
use crate::plan::{Element, Plan};
use crate::report::Report;
use serde::Serialize;

/// How angles were formed, as far as an answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Angles {
    /// In `f64` or better.
    Exact,
    /// In `f32`: frequency, position and product rounded to 24 bits. Good near position 0, off by hundredths of a radian
    /// at 10⁶, meaningless at 2³¹ but for the slow pairs.
    F32,
}

/// How often numbers were rounded to their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rounding {
    /// Turned in `f32` (or wider) and rounded at the end.
    Once,
    /// Table, products and sum each rounded to the type.
    Each,
}

/// To which precision an answer is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Level {
    /// How angles were formed.
    pub angles: Angles,
    /// How often numbers were rounded.
    pub rounding: Rounding,
}

impl Level {
    /// All of them, the best first.
    pub const ALL: [Level; 4] = [
        Level { angles: Angles::Exact, rounding: Rounding::Once },
        Level { angles: Angles::Exact, rounding: Rounding::Each },
        Level { angles: Angles::F32, rounding: Rounding::Once },
        Level { angles: Angles::F32, rounding: Rounding::Each },
    ];
    /// What still counts as right.
    const LOOSEST: Level = Level::ALL[3];

    /// What an element may be off by, as a part of its pair's length; `None` where no angle of this level says anything.
    pub fn tolerance(self, dtype: Dtype, angle: f64) -> Option<f64> {
        let angle = angle * self.angle_units();
        (angle <= 0.25).then_some(angle + self.rounding_units(dtype))
    }

    /// Relative error of an angle. `f64`: frequency and product, with a power that is right to two units. `f32`: sixteen
    /// roundings for the frequency (its exponent is multiplied by ln base, up to 16), and one each for position and product.
    pub fn angle_units(self) -> f64 {
        match self.angles {
            Angles::Exact => 4.0 * Dtype::F64.unit(),
            Angles::F32 => 18.0 * Dtype::F32.unit(),
        }
    }

    /// Error of an element. A cosine within two units, times the attention factor (one), times x (one); two such products of
    /// a pair are at most √2 of its length, which makes 5.7; their sum is rounded: 7. In 16 bits the table is rounded from
    /// more (one), times x (one), √2 and the sum: 4; or all of that in `f32` and one rounding to 16 bits.
    pub fn rounding_units(self, dtype: Dtype) -> f64 {
        match (dtype, self.rounding) {
            (Dtype::F64 | Dtype::F32, _) => 7.0 * dtype.unit(),
            (_, Rounding::Once) => dtype.unit() + 7.0 * Dtype::F32.unit(),
            (_, Rounding::Each) => 4.0 * dtype.unit(),
        }
    }
}

/// One answer's verdict.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The case.
    pub case: String,
    /// The type it was answered in; `None` where it was not answered.
    pub dtype: Option<Dtype>,
    /// What it comes to.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What an answer comes to.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Outcome {
    /// As it should be.
    Right {
        /// To this precision.
        #[serde(flatten)]
        level: Level,
    },
    /// Not as it should be.
    Wrong {
        /// The element that is furthest off.
        worst: Worst,
        /// How many elements are off.
        off: usize,
        /// Of so many that were judged.
        of: usize,
        /// The mistakes that give just this answer, each alone or two together.
        fits: Vec<Explanation>,
    },
    /// An answer that cannot be judged.
    Unusable {
        /// Why.
        why: String,
    },
    /// No answer.
    Missing,
}

/// Mistakes that, made together, give an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Explanation(pub Vec<&'static str>);

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join(" + "))
    }
}

/// The element that is furthest off.
#[derive(Clone, Debug, Serialize)]
pub struct Worst {
    /// `q` or `k`.
    pub of: &'static str,
    /// Its head.
    pub head: usize,
    /// Its token.
    pub token: usize,
    /// The token's position, on the first axis.
    pub position: i64,
    /// Its feature.
    pub feature: usize,
    /// What was answered. JSON has no infinities: there, null.
    pub got: f64,
    /// What is right.
    pub expected: f64,
}

/// A question with its right answer, and the plans of all mistakes that can be made in it.
struct Question {
    meaning: Meaning,
    inputs: [Vec<f64>; 2],
    right: [Vec<Element>; 2],
    wrong: Vec<(&'static Mistake, Plan)>,
}

/// Cases with their right answers and everything that can be done wrong in them, ready to judge.
pub struct Judge {
    questions: Vec<Question>,
}

/// Judges the answers to these cases.
///
/// ```
/// use rope_conformance::{Answers, Dtype, judge, small};
///
/// let mut answers = Answers::default();
/// for case in small() {
///     let meaning = case.meaning()?;
///     answers.add(&meaning, Dtype::F32, meaning.expected());
/// }
/// assert!(judge(&small(), &answers)?.is_right());
/// # Ok::<(), rope_conformance::Error>(())
/// ```
pub fn judge(cases: &[Case], answers: &Answers) -> Result<Report> {
    Ok(Judge::new(cases)?.judge(answers))
}

impl Judge {
    /// Reads the cases' configurations.
    pub fn new(cases: &[Case]) -> Result<Judge> {
        Ok(Judge { questions: cases.iter().map(Question::new).collect::<Result<_>>()? })
    }

    /// The cases, read.
    pub fn meanings(&self) -> impl Iterator<Item = &Meaning> {
        self.questions.iter().map(|question| &question.meaning)
    }

    /// Judges answers.
    pub fn judge(&self, answers: &Answers) -> Report {
        let mut verdicts = Vec::new();
        for question in &self.questions {
            let case = &question.meaning.case.name;
            let answered: Vec<Dtype> =
                Dtype::ALL.into_iter().filter(|&dtype| answers.has(case, dtype)).collect();
            if answered.is_empty() {
                verdicts.push(Verdict { case: case.clone(), dtype: None, outcome: Outcome::Missing });
            }
            for dtype in answered {
                let outcome = question.judge(dtype, answers);
                verdicts.push(Verdict { case: case.clone(), dtype: Some(dtype), outcome });
            }
        }
        // Whether an explanation would have shown in an answer that was right.
        let would_show = |explanation: &Explanation, verdict: &Verdict| -> bool {
            let question = self.questions.iter().find(|question| question.meaning.case.name == verdict.case);
            question.zip(verdict.dtype).is_some_and(|(question, dtype)| question.shows(explanation, dtype))
        };
        let diagnosis = crate::diagnosis::diagnose(&verdicts, would_show);
        Report::new(verdicts, diagnosis)
    }

    /// The answers in one type of an implementation that makes these mistakes and no others, and is otherwise of this precision; `None`
    /// where they show nowhere.
    pub fn mistaken(&self, mistakes: &[&'static Mistake], dtype: Dtype, level: Level) -> Option<Answers> {
        let explanation = Explanation(mistakes.iter().map(|mistake| mistake.name).collect());
        let mut answers = Answers::default();
        let mut shows = false;
        for question in &self.questions {
            shows |= question.shows(&explanation, dtype);
            answers.add(&question.meaning, dtype, question.mistaken(&explanation, dtype, level));
        }
        shows.then_some(answers)
    }
}

impl Question {
    fn new(case: &Case) -> Result<Question> {
        let meaning = case.meaning()?;
        let right = Plan::right(&meaning);
        let inputs = [meaning.input(0), meaning.input(1)];
        let wrong = mistakes::all()
            .filter_map(|mistake| {
                let mut plan = right.clone();
                ((mistake.apply)(&meaning, &mut plan) && plan != right && plan.is_whole())
                    .then_some((mistake, plan))
            })
            .collect();
        let right = [0, 1].map(|side| right.turn(side, &inputs[side]));
        Ok(Question { meaning, inputs, right, wrong })
    }

    fn judge(&self, dtype: Dtype, answers: &Answers) -> Outcome {
        let mut got = [Vec::new(), Vec::new()];
        for (side, got) in got.iter_mut().enumerate() {
            let name = tensor_name(&self.meaning.case.name, Some(dtype), side);
            let shape = self.meaning.shape(side);
            match answers.get(&name) {
                None => return Outcome::Unusable { why: format!("no tensor `{name}`") },
                Some(Tensor { dtype: other, .. }) if *other != dtype => {
                    return Outcome::Unusable { why: format!("`{name}` is {other}; expected {dtype}") };
                }
                Some(tensor) if tensor.shape != shape => {
                    let why = format!("`{name}` has shape {:?}; expected {shape:?}", tensor.shape);
                    return Outcome::Unusable { why };
                }
                Some(tensor) => got.clone_from(&tensor.values),
            }
        }
        if let Some(level) = Level::ALL.into_iter().find(|level| is_within(&self.right, &got, dtype, *level))
        {
            return Outcome::Right { level };
        }
        let violations = violations(&self.right, &got, dtype);
        let of = decidable(&self.right, dtype);
        let fits = self.explain(&got, dtype, &violations);
        let Some(worst) = violations.iter().copied().max_by(|a, b| a.2.total_cmp(&b.2)) else {
            // Every answer that is not right has an element that is not.
            return Outcome::Right { level: Level::LOOSEST };
        };
        Outcome::Wrong { worst: self.worst(&got, worst.0, worst.1), off: violations.len(), of, fits }
    }

    /// The mistakes whose result this is; if there is none, two mistakes at once.
    fn explain(&self, got: &[Vec<f64>; 2], dtype: Dtype, violations: &[Violation]) -> Vec<Explanation> {
        let off = |plan: &Plan, is_rounding: bool| {
            let wrong = [0, 1].map(|side| plan.turn(side, &self.inputs[side]));
            elsewhere(&wrong, got, dtype, violations, is_rounding)
        };
        let single = self.wrong.iter().filter_map(|(mistake, plan)| {
            off(plan, mistake.is_rounding).map(|off| (off, Explanation(vec![mistake.name])))
        });
        let single = nearest(single.collect());
        if !single.is_empty() {
            return single;
        }
        let mut double: Vec<(usize, Explanation)> = Vec::new();
        for (first, plan) in &self.wrong {
            for (second, _) in &self.wrong {
                let mut both = plan.clone();
                let made = first.name != second.name && (second.apply)(&self.meaning, &mut both);
                if !made || !both.is_whole() {
                    continue;
                }
                let mut names = vec![first.name, second.name];
                names.sort_unstable();
                let names = Explanation(names);
                if double.iter().any(|(_, other)| *other == names) {
                    continue;
                }
                double.extend(off(&both, first.is_rounding || second.is_rounding).map(|off| (off, names)));
            }
        }
        nearest(double)
    }

    /// Whether these mistakes give an answer that is not right.
    fn shows(&self, explanation: &Explanation, dtype: Dtype) -> bool {
        !is_within(&self.right, &self.mistaken(explanation, dtype, Level::ALL[0]), dtype, Level::LOOSEST)
    }

    /// What these mistakes make of the case, those that can be made in it.
    fn mistaken(&self, explanation: &Explanation, dtype: Dtype, level: Level) -> [Vec<f64>; 2] {
        let mut plan = Plan::right(&self.meaning);
        for mistake in explanation.0.iter().filter_map(|name| mistakes::find(name)) {
            let mut next = plan.clone();
            if (mistake.apply)(&self.meaning, &mut next) && next.is_whole() {
                plan = next;
            }
        }
        plan.narrow = plan.narrow.or(level, dtype);
        [0, 1].map(|side| {
            plan.turn(side, &self.inputs[side]).iter().map(|element| dtype.round(element.value)).collect()
        })
    }

    fn worst(&self, got: &[Vec<f64>; 2], side: usize, index: usize) -> Worst {
        let [_, _, tokens, features] = self.meaning.shape(side);
        let token = index / features % tokens;
        Worst {
            of: ["q", "k"][side],
            head: index / features / tokens,
            token,
            position: self.meaning.case.positions[0][token],
            feature: index % features,
            got: got[side][index],
            expected: self.right[side][index].value,
        }
    }
}

/// Side, index, and how far off.
type Violation = (usize, usize, f64);

/// How far an element is beyond what it may be off; `None` within. Where the angle says nothing, the element is still a number and no
/// longer than its pair.
fn beyond(expected: &Element, got: f64, dtype: Dtype, level: Level) -> Option<f64> {
    let (off, tolerance) = match level.tolerance(dtype, expected.angle) {
        Some(tolerance) => ((got - expected.value).abs(), tolerance * expected.scale),
        None => (got.abs(), (1.0 + level.rounding_units(dtype)) * expected.scale),
    };
    if expected.value.is_nan() && got.is_nan() {
        return None;
    }
    match off <= tolerance {
        true => None,
        false => Some(if off.is_nan() { f64::INFINITY } else { off / expected.scale.max(f64::MIN_POSITIVE) }),
    }
}

fn is_within(expected: &[Vec<Element>; 2], got: &[Vec<f64>; 2], dtype: Dtype, level: Level) -> bool {
    expected
        .iter()
        .zip(got)
        .all(|(expected, got)| expected.iter().zip(got).all(|(e, &g)| beyond(e, g, dtype, level).is_none()))
}

fn violations(expected: &[Vec<Element>; 2], got: &[Vec<f64>; 2], dtype: Dtype) -> Vec<Violation> {
    let mut list = Vec::new();
    for (side, (expected, got)) in expected.iter().zip(got).enumerate() {
        for (index, (e, &g)) in expected.iter().zip(got).enumerate() {
            list.extend(beyond(e, g, dtype, Level::LOOSEST).map(|off| (side, index, off)));
        }
    }
    list
}

fn decidable(expected: &[Vec<Element>; 2], dtype: Dtype) -> usize {
    expected.iter().flatten().filter(|e| Level::LOOSEST.tolerance(dtype, e.angle).is_some()).count()
}

/// Those with the fewest elements elsewhere: positions of 8 and of 11 bits differ in few tokens, but they differ.
fn nearest(found: Vec<(usize, Explanation)>) -> Vec<Explanation> {
    let least = found.iter().map(|(off, _)| *off).min();
    found.into_iter().filter(|(off, _)| Some(*off) == least).map(|(_, explanation)| explanation).collect()
}

/// How many elements are elsewhere if a mistake's result is this answer, and `None` if it is not: nothing may be elsewhere, and not
/// for want of anything that can be said where the right result is. Of a loss of bits a twentieth may, see
/// [`Mistake::is_rounding`].
fn elsewhere(
    wrong: &[Vec<Element>; 2],
    got: &[Vec<f64>; 2],
    dtype: Dtype,
    violations: &[Violation],
    is_rounding: bool,
) -> Option<usize> {
    let slack = if is_rounding { 0.05 } else { 0.0 };
    let said = |element: &Element| Level::LOOSEST.tolerance(dtype, element.angle).is_some();
    let is_off = |side: usize, index: usize| {
        beyond(&wrong[side][index], got[side][index], dtype, Level::LOOSEST).is_some()
    };
    let explained = violations.iter().filter(|(side, index, _)| said(&wrong[*side][*index])).count();
    if 2 * explained < violations.len() {
        return None;
    }
    let still = violations.iter().filter(|(side, index, _)| is_off(*side, *index)).count();
    if still as f64 > 2.0 * slack * explained as f64 {
        return None;
    }
    let all: usize = got.iter().map(Vec::len).sum();
    let allowed = (slack * all as f64) as usize;
    let mut off = 0;
    for (side, got) in got.iter().enumerate() {
        for index in 0..got.len() {
            off += usize::from(is_off(side, index));
            if off > allowed {
                return None;
            }
        }
    }
    Some(off)
}
