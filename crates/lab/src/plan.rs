//! What a comparison is to do: what was asked for, checked, with all that was left open filled in.

use super::encodings;
use super::results::{LeftOut, Piloted};
use super::run::{Purpose, Settings};
use super::seeds::Seeds;
use super::shard::Shard;
use super::size::{Size, Sizes};
use super::tasks::Task;
use super::training::Training;
use roformer::Device;
use roformer::blueprint::Features;
use roformer::encoding::Encoding;
use roformer::graph::mix;
use roformer::{Error, Result};
use std::sync::Arc;

pub mod named;
mod request;
mod shown;
#[cfg(test)]
mod tests;
mod work;

pub use request::{Preset, Request, TEXT};
use request::{batch, check_list, planned, seeds};
pub use work::Work;

/// The learning rates that each encoding chooses from, on each task, in models of width 64 and narrower ones.
pub(super) const RATES: [f64; 3] = [1e-3, 3e-3, 6e-3];

/// Learning rates, and the width of the models that they are for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rates {
    pub values: Vec<f64>,
    pub width: usize,
}

impl Rates {
    /// Those of models of this size: lower by as much as they are wider, as sums over more summands ask for (Yang et al. 2022,
    /// arXiv 2203.03466). With the rates of width 64, all but the lowest are of no use in wider models.
    fn of(&self, size: Size) -> Vec<f64> {
        let width = size.width().max(Size::SMALLEST.width());
        let of =
            |&rate: &f64| if width == self.width { rate } else { rate * self.width as f64 / width as f64 };
        self.values.iter().map(of).collect()
    }
}

/// The seed of the runs that choose a learning rate. Seeds that are compared are 1, 2, 3 and so on.
const SEARCH_SEED: u64 = 1_000_001;

/// The encoding of the runs that choose a size, and their seed.
const PILOT: (&str, u64) = ("rotary", 3_000_001);

/// The seeds of a sweep.
const SWEEP_SEEDS: [u64; 2] = [2_000_001, 2_000_002];

/// A task, with what it is trained and tested on.
#[derive(Clone)]
pub struct PlannedTask {
    /// The task.
    pub task: Arc<dyn Task>,
    /// How many symbols it has, where they are not its own.
    pub symbols: Option<usize>,
    /// The longest length that is trained on.
    pub train_length: usize,
    /// The lengths that are tested, rising.
    pub test_lengths: Vec<usize>,
    /// Steps of training.
    pub steps: u64,
    /// How large its models are: the smallest that they may be, until a pilot has chosen.
    pub size: Size,
    /// What the pilot reached, where there was one.
    pub pilots: Vec<Piloted>,
}

/// A checked plan.
#[derive(Clone)]
pub struct Plan {
    /// The preset.
    pub preset: Preset,
    /// The tasks.
    pub tasks: Vec<PlannedTask>,
    /// The encodings, as they were asked for.
    pub encodings: Vec<(String, Encoding)>,
    /// What the attention cannot carry.
    pub left_out: Vec<LeftOut>,
    /// How many seeds.
    pub seeds: Seeds,
    /// How large models are.
    pub sizes: Sizes,
    /// Texts of a step.
    pub batch: usize,
    /// The learning rates that each encoding chooses from.
    pub(super) rates: Rates,
    /// How models are trained.
    pub training: Training,
    /// Whether attention is linear.
    pub is_linear: bool,
    /// The feature maps of linear attention.
    pub features: Features,
    /// Whether a small grid of parameters is tried for each encoding first.
    pub is_sweep: bool,
    /// Where models are trained.
    pub device: Device,
}

/// What a shard makes of one task and one encoding.
pub struct Share<'a> {
    /// The task.
    pub task: &'a PlannedTask,
    /// The encoding, by its place in the plan.
    pub encoding: usize,
    /// Which of the runs that are compared, by their places in [`Plan::runs`].
    pub places: Vec<usize>,
}

impl Plan {
    /// Checks what is asked for and fills in the rest.
    pub fn new(request: &Request) -> Result<Self> {
        let preset = request.preset;
        let or =
            |given: &[String], default: Vec<String>| if given.is_empty() { default } else { given.to_vec() };
        let names = or(&request.tasks, preset.tasks());
        check_list("the tasks", &names)?;
        let labels = or(&request.encodings, preset.encodings());
        let all: Vec<String> =
            labels.iter().cloned().chain(request.added.iter().map(|given| given.name.clone())).collect();
        check_list("the encodings", &all)?;
        if let Some(given) = request.added.iter().find(|given| Encoding::parse(&given.name).is_ok()) {
            let value = format!("a file that calls itself `{}`", given.name);
            return Err(Error::input("the encodings", value, "a name that no encoding here has"));
        }
        let seeds = seeds(request)?;
        let tasks = names.iter().map(|name| planned(name, request)).collect::<Result<Vec<_>>>()?;
        let (mut encodings, mut left_out) = (Vec::new(), Vec::new());
        let named = labels.into_iter().map(|label| Ok::<_, Error>((Encoding::parse(&label)?, label)));
        let added =
            request.added.iter().map(|given| Ok((Encoding::Given(given.clone()), given.name.clone())));
        for found in named.chain(added) {
            let (encoding, label): (Encoding, String) = found?;
            match encoding.check_linear() {
                Err(Error::Input { value, .. }) if request.is_linear => {
                    left_out.push(LeftOut { label, reason: value });
                }
                _ => encodings.push((label, encoding)),
            }
        }
        let Request { is_linear, features, is_sweep, .. } = *request;
        if !is_linear && features != Features::Elu {
            let expected = "elu, or linear attention: softmax attention has no feature maps";
            return Err(Error::input("features", features.name(), expected));
        }
        let device = request.device.clone();
        let plan = Plan {
            preset,
            tasks,
            encodings,
            left_out,
            seeds,
            sizes: request.sizes(),
            batch: batch(request)?,
            rates: preset.rates(),
            training: preset.training(),
            is_linear,
            features,
            is_sweep,
            device,
        };
        plan.check()?;
        Ok(plan)
    }

    /// Lays every model out once, so that what cannot be had is said at once.
    fn check(&self) -> Result<()> {
        if self.encodings.len() < 2 {
            let labels: Vec<&str> = self.encodings.iter().map(|(label, _)| &label[..]).collect();
            let value =
                if labels.is_empty() { "none at all".into() } else { format!("{} alone", labels.join(", ")) };
            let expected = match self.left_out.first() {
                Some(out) => format!("at least two that linear attention can carry; {}", out.reason),
                None => "at least two, the first of which is the baseline".into(),
            };
            return Err(Error::input("the list of encodings", value, expected));
        }
        for size in self.sizes.all(&self.device) {
            for task in &self.tasks {
                for (label, encoding) in &self.encodings {
                    for label in self.candidates(label) {
                        let encoding = if self.is_sweep { &self.encoding(label)? } else { encoding };
                        let settings = self.settings(task, label, 0.0, 1, Purpose::Run).of(size);
                        let network = settings.network(&*task.task, encoding);
                        let built = network.build::<f32>(1, 1, settings.longest(&*task.task));
                        built.map_err(|error| match error {
                            error if error.is_of_the_machine() => error,
                            other => Error::input(
                                "an encoding",
                                format!("`{label}`"),
                                format!("one that fits models of {size}: {other}"),
                            ),
                        })?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The encoding that a label of this plan says.
    pub(super) fn encoding(&self, label: &str) -> Result<Encoding> {
        match self.encodings.iter().find(|(known, _)| known == label) {
            Some((_, encoding)) => Ok(encoding.clone()),
            None => Encoding::parse(label),
        }
    }

    /// A number for the file of an encoding of somebody's own, in hexadecimal; nothing for others, which a label says.
    fn content(&self, label: &str) -> String {
        match self.encodings.iter().find(|(known, _)| known == label) {
            Some((_, Encoding::Given(given))) => hash(&(&given.bias, &given.frequencies, &given.table)),
            _ => String::new(),
        }
    }

    /// The settings that a sweep tries for an encoding; itself alone where there is no sweep or it has parameters already.
    pub fn candidates<'a>(&self, label: &'a str) -> Vec<&'a str> {
        match encodings::grid(label) {
            grid if self.is_sweep && !grid.is_empty() => grid.to_vec(),
            _ => vec![label],
        }
    }

    /// What a run is to be.
    pub fn settings(
        &self,
        planned: &PlannedTask,
        encoding: &str,
        rate: f64,
        seed: u64,
        purpose: Purpose,
    ) -> Settings {
        Settings {
            purpose,
            task: planned.task.name().into(),
            symbols: planned.symbols,
            data: format!("{:016x}", planned.task.fingerprint()),
            encoding: encoding.into(),
            content: self.content(encoding),
            is_linear: self.is_linear,
            features: self.features,
            width: planned.size.width(),
            layers: planned.size.layers(),
            heads: Settings::heads_of(planned.size),
            batch: self.batch,
            train_length: planned.train_length,
            test_lengths: planned.test_lengths.clone(),
            examples: self.preset.examples(),
            // A rate shows early what it is good for.
            steps: if purpose == Purpose::Search { planned.steps.div_ceil(3) } else { planned.steps },
            rate,
            training: self.training,
            seed,
            device: match &self.device {
                Device::Cpu(_) => String::new(),
                #[cfg(feature = "cuda")]
                other => other.name(),
            },
        }
    }

    /// The tasks whose size a pilot chooses, by their places: those with a line to reach.
    pub(super) fn piloted(&self) -> Vec<usize> {
        let is_piloted = |index: &usize| self.sizes == Sizes::Pilot && !self.tasks[*index].task.is_language();
        (0..self.tasks.len()).filter(is_piloted).collect()
    }

    /// The runs that say whether models of a size learn a task, one a rate.
    pub(super) fn pilots_of(&self, task: &PlannedTask, size: Size) -> Vec<Settings> {
        let (label, seed) = PILOT;
        let of = |rate| self.settings(task, label, rate, seed, Purpose::Pilot).of(size);
        self.rates.of(size).into_iter().map(of).collect()
    }

    /// Those of all tasks and of these sizes.
    pub(super) fn pilots(&self, sizes: &[Size]) -> Vec<Settings> {
        let of = |size: &Size| {
            let tasks = self.piloted().into_iter();
            tasks.flat_map(|index| self.pilots_of(&self.tasks[index], *size)).collect::<Vec<_>>()
        };
        sizes.iter().flat_map(of).collect()
    }

    /// The runs that choose a learning rate for an encoding on a task, one a rate; none where there is one rate alone.
    pub fn searches_of(&self, task: &PlannedTask, label: &str) -> Vec<Settings> {
        let rates = self.rates.of(task.size);
        let count = if rates.len() > 1 { rates.len() } else { 0 };
        let of = |rate| self.settings(task, label, rate, SEARCH_SEED, Purpose::Search);
        rates.into_iter().take(count).map(of).collect()
    }

    /// The first learning rate of a task: the only one, or one of those that are chosen from.
    pub(super) fn first_rate(&self, task: &PlannedTask) -> f64 {
        self.rates.of(task.size)[0]
    }

    /// Those of all tasks and encodings.
    pub fn searches(&self) -> Vec<Settings> {
        let of = |task| self.encodings.iter().flat_map(move |(label, _)| self.searches_of(task, label));
        self.tasks.iter().flat_map(of).collect()
    }

    /// The runs of a sweep, where there is one, for an encoding with this rate.
    pub fn sweeps(&self, task: &PlannedTask, label: &str, rate: f64) -> Vec<Settings> {
        let candidates = self.candidates(label);
        let count = if candidates.len() > 1 { candidates.len() } else { 0 };
        let runs = candidates.into_iter().take(count);
        let of = |label| SWEEP_SEEDS.map(|seed| self.settings(task, label, rate, seed, Purpose::Sweep));
        runs.flat_map(of).collect()
    }

    /// The runs that are compared, for an encoding with this rate and so many seeds; the baseline's twice, the second time in
    /// another order.
    pub fn runs(
        &self,
        task: &PlannedTask,
        label: &str,
        rate: f64,
        is_baseline: bool,
        seeds: usize,
    ) -> Vec<Settings> {
        let seeds = 1..=seeds as u64;
        let of = |&purpose: &Purpose| {
            seeds.clone().map(move |seed| self.settings(task, label, rate, seed, purpose))
        };
        purposes(is_baseline).iter().flat_map(of).collect()
    }

    /// Every run of the plan with so many seeds, but for the rates and parameters that are chosen on the way.
    pub fn every_run(&self, seeds: usize) -> Vec<Settings> {
        let mut all = self.searches();
        for task in &self.tasks {
            for (index, (label, _)) in self.encodings.iter().enumerate() {
                let rate = self.first_rate(task);
                all.extend(self.sweeps(task, label, rate));
                all.extend(self.runs(task, label, rate, index == 0, seeds));
            }
        }
        all
    }

    /// The part of the runs that a shard makes, by task and encoding.
    ///
    /// The runs that are compared lie on a line, each as long as its work, those of a task and an encoding side by side; the
    /// line is cut into equal parts, and a run is the part's in which its middle lies. So shards have about the same work,
    /// and few of them choose the same learning rate again.
    pub fn share(&self, shard: Shard) -> Vec<Share<'_>> {
        let encodings = 0..self.encodings.len();
        let cells = self.tasks.iter().flat_map(|task| encodings.clone().map(move |index| (task, index)));
        let runs = |(task, encoding): (&PlannedTask, usize)| {
            let rate = self.first_rate(task);
            self.runs(task, &self.encodings[encoding].0, rate, encoding == 0, self.seeds.mean())
        };
        let total: f64 = cells.clone().flat_map(runs).map(|settings| self.work(&settings)).sum();
        let (mut done, mut shares) = (0.0, Vec::new());
        for (task, encoding) in cells {
            let mut places = Vec::new();
            for (place, settings) in runs((task, encoding)).iter().enumerate() {
                let work = self.work(settings);
                let part = (done + work / 2.0) / total * shard.count() as f64;
                if (part as usize).min(shard.count() - 1) + 1 == shard.number() {
                    places.push(place);
                }
                done += work;
            }
            if !places.is_empty() {
                shares.push(Share { task, encoding, places });
            }
        }
        shares
    }

    /// Every run of a share, but for the rates and parameters that are chosen on the way.
    pub fn runs_of(&self, shares: &[Share]) -> Vec<Settings> {
        let mut all = Vec::new();
        for Share { task, encoding, places } in shares {
            let label = &self.encodings[*encoding].0;
            all.extend(self.searches_of(task, label));
            let rate = self.first_rate(task);
            all.extend(self.sweeps(task, label, rate));
            let runs = self.runs(task, label, rate, *encoding == 0, self.seeds.mean());
            all.extend(places.iter().map(|&place| runs[place].clone()));
        }
        all
    }

    /// The task of a run of this plan.
    pub(super) fn task(&self, settings: &Settings) -> &dyn Task {
        let planned = self.tasks.iter().find(|planned| planned.task.name() == settings.task);
        &*planned.expect("a run of this plan").task
    }

    /// The work of training a run of this plan, in floating-point operations.
    pub(super) fn work(&self, settings: &Settings) -> f64 {
        settings.steps as f64 * settings.flops(self.task(settings))
    }
}

/// What the runs of an encoding that are compared are for.
pub(super) fn purposes(is_baseline: bool) -> &'static [Purpose] {
    if is_baseline { &[Purpose::Run, Purpose::Again] } else { &[Purpose::Run] }
}

/// A number that is another for another value or version, in hexadecimal.
pub(super) fn hash(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default() + env!("CARGO_PKG_VERSION");
    let hash = text.bytes().fold(mix(text.len() as u64), |hash, byte| mix(hash ^ u64::from(byte)));
    format!("{hash:016x}")
}
