//! Wavelengths: how many positions a turn takes, pair by pair, and what rules for longer contexts make of it.

use super::{Subject, WIDTH, within};
use crate::error::{Error, Result};
use lab::chart::{Axis, Figure, Level, Panel, Series, number};
use roformer::advice::{Candidate, advise};
use roformer::bands::Seen;
use rope::Schedule;

/// The longest context.
const MAX_CONTEXT: u64 = 1 << 40;

/// Above, the wavelength of every pair under each rule, with lines at the trained and the target length: a pair above the
/// line of the trained length has never completed a turn. Below, how much slower than without a rule each pair turns.
#[derive(Clone, Debug)]
pub struct Wavelengths {
    /// Whose frequencies.
    pub subject: Subject,
    /// The length of training, where the subject does not say it or says another.
    pub trained: Option<u64>,
    /// The target length; without it as far as the model reads, or eight times the trained length.
    pub context: Option<u64>,
}

impl Wavelengths {
    pub(super) fn draw(&self) -> Result<String> {
        let Subject { rope, original, longest, name } = &self.subject;
        let trained = self.trained.map(|length| within("trained", length, 1..=MAX_CONTEXT)).transpose()?;
        let longest = longest.or(trained);
        let seen = Seen::new(rope, trained.or(*original), longest)
            .ok_or_else(|| Error::new("the trained length is not known"))?;
        let default =
            longest.filter(|&longest| longest > seen.length).unwrap_or(seen.length.saturating_mul(8));
        let context = within("context", self.context.unwrap_or(default.min(MAX_CONTEXT)), 1..=MAX_CONTEXT)?;
        let rules = rules(&advise(rope, None, &seen, longest, context).candidates);

        let lines = |values: fn(&Rule) -> &Vec<f64>| {
            let series = |(look, rule): (usize, &Rule)| Series {
                label: rule.label.clone(),
                look,
                points: values(rule)
                    .iter()
                    .enumerate()
                    .map(|(pair, &value)| (pair as f64, value).into())
                    .collect(),
                ..Series::default()
            };
            rules.iter().enumerate().map(series).collect::<Vec<_>>()
        };
        let axis = |label: &str| Axis::new(label).whole();
        let panels = vec![
            Panel {
                title: format!("Positions that a turn takes, {name}"),
                x: axis(""),
                y: Axis::new("wavelength, in positions").log(),
                height: 350.0,
                levels: levels(seen.length, context),
                series: lines(|rule| &rule.wavelengths),
                ..Panel::default()
            },
            Panel {
                title: format!("How much slower pairs turn at {}", number(context as f64)),
                x: axis("pair j, fastest first"),
                y: Axis::new("times slower than without a rule").including([0.0]),
                height: 230.0,
                series: lines(|rule| &rule.slowdown),
                ..Panel::default()
            },
        ];
        Ok(Figure { title: format!("Wavelengths by pair, {name}"), columns: 1, panels }.file(WIDTH))
    }
}

/// What a rule does to every pair.
struct Rule {
    label: String,
    /// `[pairs]`
    wavelengths: Vec<f64>,
    /// `[pairs]`
    slowdown: Vec<f64>,
}

/// One for each rule; rules that do the same to every pair are one.
fn rules(candidates: &[Candidate]) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        let label = match candidate.rope.schedule() {
            Schedule::Default => "no rule".to_string(),
            Schedule::Linear { factor } => format!("linear by {}", number(*factor)),
            schedule if index == 0 => schedule.name().to_string(),
            _ => candidate.name.to_string(),
        };
        let is_own = index == 0 && candidate.rope.schedule() != &Schedule::Default;
        let label = if is_own { format!("its own: {label}") } else { label };
        let theta = candidate.frequencies.inv_freq();
        // A pair that turns backwards takes as long for a turn.
        let wavelengths: Vec<f64> = theta.iter().map(|theta| std::f64::consts::TAU / theta.abs()).collect();
        let same = |rule: &&mut Rule| {
            rule.wavelengths.iter().zip(&wavelengths).all(|(a, b)| a == b || (a / b - 1.0).abs() < 1e-9)
        };
        match rules.iter_mut().find(same) {
            Some(rule) => rule.label += &format!(", {label}"),
            None => rules.push(Rule { label, wavelengths, slowdown: candidate.slowdown.clone() }),
        }
    }
    rules
}

/// Lines at both lengths; with one label if two would touch.
fn levels(trained: u64, context: u64) -> Vec<Level> {
    let level = |y: u64, label: String| Level { y: y as f64, label };
    let (trained_text, context_text) = (number(trained as f64), number(context as f64));
    let ratio = context as f64 / trained as f64;
    match (context == trained, (0.4..2.5).contains(&ratio)) {
        (true, _) => vec![level(trained, format!("trained at {trained_text}"))],
        (_, true) => vec![
            level(trained.max(context), String::new()),
            level(trained.min(context), format!("trained at {trained_text}, used at {context_text}")),
        ],
        _ => vec![
            level(trained, format!("trained at {trained_text}")),
            level(context, format!("used at {context_text}")),
        ],
    }
}
