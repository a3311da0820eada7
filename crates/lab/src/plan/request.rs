//! What is asked of a comparison: presets, the request, and its parts checked one by one.

use super::super::seeds::{BUDGET, Seeds};
use super::super::size::{Size, Sizes};
use super::super::tasks::{self, Defaults, Task};
use super::super::training::Training;
use super::named::{Named, NamedTask};
use super::{PlannedTask, RATES, Rates};
use roformer::blueprint::Features;
use roformer::encoding::{Encoding, Given};
use roformer::train::Data;
use roformer::{Device, Error, Result};
use std::sync::Arc;

/// The most that is taken of any list.
const MOST: usize = 64;

/// How much is done where nothing else is said.
#[derive(Clone, Copy, Debug, Default)]
pub enum Preset {
    /// Minutes.
    #[default]
    Quick,
    /// Everything, with five seeds: hours.
    Full,
    /// What a plan that has a name fixes.
    Named(&'static Named),
}

impl Preset {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Quick => "quick",
            Preset::Full => "full",
            Preset::Named(named) => named.name,
        }
    }

    /// The plan that has a name, where it is one.
    pub fn named(self) -> Option<&'static Named> {
        match self {
            Preset::Named(named) => Some(named),
            _ => None,
        }
    }

    /// Texts of a step.
    pub(super) fn batch(self) -> usize {
        self.named().map_or(32, |named| named.batch)
    }

    /// Examples of each length that are tested.
    pub(super) fn examples(self) -> usize {
        match self {
            Preset::Quick => 128,
            Preset::Full => 256,
            Preset::Named(named) => named.examples,
        }
    }

    /// The learning rates that each encoding chooses from, where there are several.
    pub(super) fn rates(self) -> Rates {
        match self.named().and_then(|named| Some((named.rate?, named.size.width()))) {
            Some((rate, width)) => Rates { values: vec![rate], width },
            None => Rates { values: RATES.into(), width: Size::SMALLEST.width() },
        }
    }

    /// How models are trained.
    pub(super) fn training(self) -> Training {
        self.named().map_or(Training::USUAL, |named| named.training)
    }

    fn seeds(self) -> Seeds {
        self.named().map_or(Seeds::Added { budget: BUDGET }, Named::seeds)
    }

    /// How large models are.
    fn sizes(self) -> Sizes {
        match self {
            Preset::Quick => Sizes::One(Size::SMALLEST),
            Preset::Full => Sizes::Pilot,
            Preset::Named(named) => Sizes::One(named.size),
        }
    }

    pub(super) fn tasks(self) -> Vec<String> {
        match self {
            Preset::Quick => ["copy", "repeat", "majority"].map(String::from).into(),
            // Rows and columns are for whom they are asked for: texts have none.
            Preset::Full => {
                tasks::NAMES.into_iter().filter(|name| *name != "grid").map(String::from).collect()
            }
            Preset::Named(named) => named.tasks.iter().map(|task| task.name.into()).collect(),
        }
    }

    pub(super) fn encodings(self) -> Vec<String> {
        if let Preset::Named(named) = self {
            return named.encodings.iter().map(|name| name.to_string()).collect();
        }
        let quick = ["rotary", "none", "sinusoidal", "learned", "alibi", "t5", "receptive"];
        let all = Encoding::all();
        let names = all.iter().map(Encoding::name);
        let rest =
            names.filter(|name| !quick.contains(name) && *name != "axial" && matches!(self, Preset::Full));
        quick.into_iter().chain(rest).map(String::from).collect()
    }
}

/// What is asked for. What is empty or `None` is the preset's.
#[derive(Default)]
pub struct Request {
    /// How much is done where nothing else is said.
    pub preset: Preset,
    /// Names of tasks.
    pub tasks: Vec<String>,
    /// Encodings, such as `rotary:base=500`. The first is what the others are compared with.
    pub encodings: Vec<String>,
    /// Encodings of files of somebody's own, compared after those.
    pub added: Vec<Given>,
    /// How many seeds of each, judged once; `None` to add seeds where something is undecided.
    pub seeds: Option<usize>,
    /// Where seeds are added: the work of so many of each is the most that is done.
    pub budget: Option<usize>,
    /// The longest length that is trained on, for every task.
    pub train_length: Option<usize>,
    /// The lengths that are tested, for every task.
    pub test_lengths: Vec<usize>,
    /// Steps of training, for every task.
    pub steps: Option<u64>,
    /// Texts of a step.
    pub batch: Option<usize>,
    /// How large models are.
    pub sizes: Option<Sizes>,
    /// Whether attention is linear.
    pub is_linear: bool,
    /// The feature maps of linear attention.
    pub features: Features,
    /// Whether a small grid of parameters is tried for each encoding first.
    pub is_sweep: bool,
    /// The text of the language model.
    pub text: Option<Data>,
    /// Where models are trained. On a GPU many are at a time.
    pub device: Device,
}

impl Request {
    /// How large models are.
    pub(super) fn sizes(&self) -> Sizes {
        self.sizes.unwrap_or(self.preset.sizes())
    }
}

/// How many seeds are asked for.
pub(super) fn seeds(request: &Request) -> Result<Seeds> {
    match (request.seeds, request.budget) {
        (Some(_), Some(_)) => {
            let expected = "one of the two: so many of each, or as much work as so many of each";
            Err(Error::input("the number of seeds", "given, and their budget too", expected))
        }
        (Some(count), None) if !(2..=1000).contains(&count) => {
            let expected = "from 2 to 1000: one alone says nothing of chance";
            Err(Error::input("the number of seeds", count, expected))
        }
        (Some(count), None) => Ok(Seeds::Fixed(count)),
        (None, None) => Ok(request.preset.seeds()),
        (None, Some(budget)) => {
            let least = Seeds::Added { budget }.first();
            if !(least..=1000).contains(&budget) {
                let expected = format!("from {least}, which each has at first, to 1000");
                return Err(Error::input("the budget of seeds", budget, expected));
            }
            Ok(Seeds::Added { budget })
        }
    }
}

/// Refuses lists that are absurdly long or name something twice.
pub(super) fn check_list(name: &'static str, list: &[String]) -> Result<()> {
    if list.len() > MOST {
        return Err(Error::input(name, format!("{} of them", list.len()), format!("at most {MOST}")));
    }
    match (1..list.len()).find(|&index| list[..index].contains(&list[index])) {
        Some(twice) => {
            let value = format!("`{}` twice", roformer::weights::brief(&list[twice]));
            Err(Error::input(name, value, "each once"))
        }
        None => Ok(()),
    }
}

/// How many texts a step has.
pub(super) fn batch(request: &Request) -> Result<usize> {
    let (batch, parts) = (request.batch.unwrap_or(request.preset.batch()), request.preset.training().parts);
    match request.batch {
        Some(batch) if !(1..=65_536).contains(&batch) || !(batch as u64).is_multiple_of(parts) => {
            let parts = if parts > 1 { format!("a multiple of {parts} ") } else { String::new() };
            Err(Error::input("the number of texts of a step", batch, format!("{parts}from 1 to 65536")))
        }
        _ => Ok(batch),
    }
}

/// A task, what is fixed of it, and the number of its symbols where that is not the task's own.
fn found(name: &str, request: &Request) -> Result<(Arc<dyn Task>, Defaults, Option<usize>)> {
    let Preset::Named(named) = request.preset else {
        let task: Arc<dyn Task> = tasks::find(name, request.text.as_ref())?.into();
        let defaults = task.defaults(matches!(request.preset, Preset::Quick));
        return Ok((task, defaults, None));
    };
    let Some(NamedTask { symbols, train_length, test_lengths, steps, .. }) = named.task(name) else {
        let own: Vec<&str> = named.tasks.iter().map(|task| task.name).collect();
        let expected = format!("one of those that the plan {} fixes: {}", named.name, own.join(", "));
        return Err(Error::input("a task", format!("`{}`", roformer::weights::brief(name)), expected));
    };
    let task: Arc<dyn Task> = match symbols {
        Some(symbols) => tasks::of_symbols(name, *symbols)?.into(),
        None => tasks::find(name, request.text.as_ref())?.into(),
    };
    if task.is_language() && request.text.is_none() {
        let expected = "a file of text: the one that is generated is learned by heart in so many steps";
        return Err(Error::input(TEXT, format!("missing, and the plan {} reads one", named.name), expected));
    }
    let (train_length, steps) = (*train_length, *steps);
    let defaults = Defaults { train_length, test_lengths: test_lengths.to_vec(), steps };
    Ok((task, defaults, *symbols))
}

/// The name of the input in the error of a plan that has no text.
pub const TEXT: &str = "the text of the language model";

/// A task with its lengths and steps.
pub(super) fn planned(name: &str, request: &Request) -> Result<PlannedTask> {
    let (task, defaults, symbols) = found(name, request)?;
    let Defaults { train_length, mut test_lengths, steps } = defaults;
    if let Some(asked) = request.train_length {
        // Lengths to test follow, in the same proportions.
        let scaled = test_lengths.iter().map(|length| (length * asked).div_ceil(train_length));
        let scaled = scaled.map(|length| length.clamp(*task.lengths().start(), *task.lengths().end()));
        test_lengths = scaled.collect();
    }
    let train_length = request.train_length.unwrap_or(train_length);
    if !request.test_lengths.is_empty() {
        test_lengths = request.test_lengths.clone();
    }
    test_lengths.sort_unstable();
    test_lengths.dedup();
    if test_lengths.len() > MOST {
        let value = format!("{} of them", test_lengths.len());
        return Err(Error::input("the lengths to test", value, format!("at most {MOST}")));
    }
    let (shortest, longest) = task.lengths().into_inner();
    for (what, length) in [("the train length", train_length)]
        .into_iter()
        .chain(test_lengths.iter().map(|&length| ("a length to test", length)))
    {
        if !task.lengths().contains(&length) {
            let expected = format!("from {shortest} to {longest} for {name}");
            return Err(Error::input(what, length, expected));
        }
    }
    if test_lengths.iter().all(|&length| length > train_length) {
        let value = format!("{} and longer", test_lengths.first().copied().unwrap_or_default());
        let expected = format!("at least one within the train length, {train_length}, for {name}");
        return Err(Error::input("the shortest length to test", value, expected));
    }
    let steps = request.steps.unwrap_or(steps);
    if !(1..=1_000_000).contains(&steps) {
        return Err(Error::input("the number of steps", steps, "from 1 to 1000000"));
    }
    let size = request.sizes().first();
    Ok(PlannedTask { task, symbols, train_length, test_lengths, steps, size, pilots: Vec::new() })
}
