//! `roformer compare`: which position encoding?

mod plan;
mod show;

use crate::device::DeviceOptions;
use crate::error::Failure;
use crate::language::LanguageOption;
use crate::long::{say, stopper};
use clap::{Args, ValueEnum};
use lab::results::Results;
use lab::{
    self, Named, PUBLISHED, Plan, Preset, Progress, Request, Shard, Shards, Sizes, Store, encodings, report,
};
use roformer::blueprint::Features;
use roformer::encoding::Given;
use roformer::language::Language;
use roformer::train::{self, Choice, Data, Goal, Layout};
use roformer::{Device, Error};
use show::Show;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Compare position encodings: the same small Transformer trained with each, over several seeds
///
/// Every encoding starts from the same weights and sees the same batches in the same order; each chooses its learning rate
/// from the same three on a seed of its own. Tasks are generated: nothing is downloaded. Exact answers are counted by length,
/// within the lengths of training and beyond, with paired intervals over seeds and Holm's correction; the first encoding is
/// compared with itself too, in another order of data. Seeds are added where a comparison is undecided, in a way that keeps the
/// chance of a false alarm.
///
/// DIR gets a report, a JSON file for every run, and results.json. The same command gives the same bytes, on any number of
/// threads, except for timings.json and the times that the report shows; --lang changes the report and the table alone. After Ctrl-C or a kill, the same command goes on
/// where it stopped; a command with other settings is refused in that folder.
///
/// --shard makes one part of the runs in a folder of its own, on any machine that a scheduler gives; --merge puts the folders
/// of all parts together, to the bytes that one machine gives. Both take the flags of the comparison, and have 5 seeds of each
/// unless --seeds says otherwise.
///
/// On a GPU many models are trained at a time, and measured on the CPU. Runs of a GPU are kept apart from those of the CPU;
/// on a GPU the last bits of encodings with learned terms differ from run to run.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer compare\n  roformer compare --tasks copy reverse --encodings rotary rotary:base=500 t5 \
    --out bases\n  roformer compare --attention linear --out linear\n  roformer compare --tasks language --data play.txt --out \
    play\n  roformer compare --shard 3/7 --out part-3\n  roformer compare --merge part-* --out comparison\n\nTasks: copy, repeat, reverse, sort, majority (the control), mqar, index, indirect, addition, state, passkey, language, grid\nEncodings: \
    rotary, none, sinusoidal, learned, alibi, t5, receptive, hierarchical, abacus, coupled, shaw, xlnet, deberta, kerple, sandwich, fire, forget, \
    contextual, path, xpos, high, clipped, fope, pope, selective, extend, randomised, pose, layers, axial"
)]
pub struct Arguments {
    /// The tasks to learn [default: copy repeat majority; all but grid with --preset full]
    #[arg(long, value_name = "TASK", num_args = 1.., value_delimiter = ',')]
    tasks: Vec<String>,
    /// The encodings to compare, perhaps with settings; the first is compared with each of the others [default: rotary none
    /// sinusoidal learned alibi t5 receptive; all but axial with --preset full]
    #[arg(long, value_name = "ENCODING", num_args = 1..)]
    encodings: Vec<String>,
    /// Compare an encoding of your own too: a JSON file with a name and biases, frequencies or a table (docs/compare.md)
    #[arg(long, value_name = "FILE", num_args = 1..)]
    add: Vec<PathBuf>,
    /// So many seeds of each encoding on each task, judged once [default: 5, and more where a comparison is undecided]
    #[arg(long, value_name = "N")]
    seeds: Option<usize>,
    /// Where seeds are added, stop at the work of so many of each [default: 8]
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "shard", "merge"])]
    budget: Option<usize>,
    /// How much to compare: quick takes minutes, full takes hours, paper takes a GPU and a text (--data)
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    preset: PresetName,
    /// A published comparison with its own settings, laid out for a GPU; --size, --steps, --batch, --train-length and --seeds reduce it
    #[arg(long, value_name = "NAME", conflicts_with = "preset", value_parser = plan_name)]
    plan: Option<&'static Named>,
    /// Say what would be compared and how much work it is, and end
    #[arg(long, conflicts_with_all = ["replay", "merge"])]
    dry_run: bool,
    /// The longest length that is trained on, for every task [default: by task]
    #[arg(long, value_name = "N")]
    train_length: Option<usize>,
    /// The lengths that are tested, for every task [default: by task, to twice what is trained on]
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',')]
    test_lengths: Vec<usize>,
    /// Steps of training, for every task [default: by task]
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Texts of a step [default: 32, or the plan's]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How large the models are: LAYERSxWIDTH such as 3x128, with heads of 32, LAYERSxWIDTHxHEADS such as 12x768x12, or auto, for
    /// each task the smallest in which rotary learns it in a pilot [default: 2x64; auto with --preset full]
    #[arg(long, value_name = "SIZE")]
    size: Option<Sizes>,
    /// The attention; encodings that linear attention cannot carry are left out, with the reason
    #[arg(long, value_enum, default_value_t = Attention::Softmax)]
    attention: Attention,
    /// The feature maps of linear attention: elu + 1; softmax for queries and exp for keys; FAVOR+ with random features
    #[arg(long, value_enum, default_value_t = FeaturesName::Elu)]
    features: FeaturesName,
    /// Try a few parameters for each encoding first, on seeds of their own, and compare the best by task
    #[arg(long)]
    sweep: bool,
    /// A UTF-8 text for the task language [default: a generated one]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// What cuts that text into tokens: a folder with a tokenizer, a tokenizer.json or a vocab.txt [default: characters]
    #[arg(long, value_name = "DIR", requires = "data")]
    tokenizer: Option<PathBuf>,
    /// The folder for the report and its numbers
    #[arg(long, value_name = "DIR", default_value = "comparison")]
    out: PathBuf,
    /// Replace what DIR holds of a comparison with other settings; its runs that fit are kept
    #[arg(long)]
    overwrite: bool,
    /// Draw the report of a finished comparison again, without training
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "tasks", "encodings", "add", "seeds", "budget", "train_length", "test_lengths", "steps", "batch", "size", "sweep", "data", "tokenizer", "plan", "out", "overwrite", "threads", "device",
        "dtype"
    ])]
    replay: Option<PathBuf>,
    /// Make part I of N of the runs alone, in a folder of its own (--out); the same flags for every part
    #[arg(long, value_name = "I/N", conflicts_with = "replay")]
    shard: Option<Shard>,
    /// Put the folders of all parts together in --out; with the flags that the parts were made with
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = ["replay", "shard", "threads"])]
    merge: Vec<PathBuf>,
    /// Runs at a time, one thread per run [default: as many as there are cores; 32 on a GPU, fewer of large models]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    #[command(flatten)]
    language: LanguageOption,
    #[command(flatten)]
    device: DeviceOptions,
}

/// Seeds of each encoding on each task, of a comparison in parts where nothing else is said.
const SEEDS: usize = 5;

/// Runs that share a GPU: more gain nothing on the largest chips.
#[cfg(any(feature = "cuda", test))]
const STREAMS: usize = 32;

/// Memory that those have together, on the smaller of the chips that train such models.
#[cfg(any(feature = "cuda", test))]
const TOGETHER: u64 = 64 << 30;

/// How many runs share a GPU, where each has so many bytes.
#[cfg(any(feature = "cuda", test))]
fn streams(bytes: u64) -> usize {
    (TOGETHER / bytes.max(1)).clamp(1, STREAMS as u64) as usize
}

#[derive(Clone, Copy, ValueEnum)]
enum PresetName {
    /// Three tasks, seven encodings: minutes.
    Quick,
    /// Every task and every encoding, with more steps: hours.
    Full,
    /// Models of 50 million parameters that read two thousand million tokens of a text: a day or more of a GPU.
    Paper,
}

/// A published plan by its name.
fn plan_name(name: &str) -> Result<&'static Named, String> {
    let names: Vec<&str> = PUBLISHED.iter().map(|named| named.name).collect();
    let found = PUBLISHED.into_iter().find(|named| named.name == name);
    found.ok_or_else(|| format!("expected one of {}", names.join(", ")))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Attention {
    /// Softmax attention.
    Softmax,
    /// Linear attention.
    Linear,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FeaturesName {
    Elu,
    Softmax,
    Favor,
}

/// An error that names the flags where the library names what they are for.
fn flagged(error: Error) -> Failure {
    match error {
        Error::Input { name: lab::OTHER_FOLDER, value, .. } => {
            let expected = "another folder, or --overwrite to replace what is there";
            Failure::Input(format!("--out is {value}; expected {expected}"))
        }
        Error::Input { name: lab::TEXT, value, expected } => {
            Failure::Input(format!("--data is {value}; expected {expected}"))
        }
        Error::Input { name: "features", value, expected } => {
            Failure::Input(format!("--features is {value}; expected {expected}"))
        }
        other => other.into(),
    }
}

/// The encoding of a file.
fn added(path: &Path) -> Result<Given, Failure> {
    let wrong = |error: &dyn Display| Failure::Input(format!("--add {}: {error}", path.display()));
    let mut bytes = Vec::new();
    // More than any file that is read has: the rest of one without end is left.
    let file = File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    file.map_err(|error| wrong(&error))?;
    Given::read(&bytes).map_err(|error| wrong(&error))
}

/// Bytes of a file of an encoding that are looked at.
const LONGEST: u64 = 1 << 25;

/// Runs the command. Its exit code is 0, or 130 where it was told to stop.
pub fn run(arguments: Arguments) -> Result<u8, Failure> {
    let language = arguments.language.language();
    if let Some(folder) = &arguments.replay {
        let (results, timings) = lab::replay(folder)?;
        report::write(language, &results, &timings, folder)?;
        show::table(language, &results, folder)?;
        return Ok(0);
    }
    if arguments.dry_run {
        let plan = arguments.plan()?;
        plan::plan(language, &plan, &plan.work_of_all()?)?;
        return Ok(0);
    }
    let out = arguments.out.clone();
    let grid = Grid::new(arguments)?;
    if let Part::Merged(shards) = &grid.part {
        show::merging(language, shards);
        if let Made::Whole(results) = grid.compare(&|_| true)? {
            show::table(language, &results, &out)?;
        }
        return Ok(0);
    }
    let is_stopped = stopper()?;
    let shard = grid.shard();
    if grid.plan.preset.named().is_some() {
        for (name, text) in plan::work_lines(language, &grid.plan, &grid.plan.work_of_all()?) {
            say(&format!("{name}: {text}"));
        }
    }
    let seconds = lab::estimate(&grid.plan, shard, grid.threads)?;
    let show = Show::new(language, &grid.plan, shard, seconds, grid.threads);
    let end = grid.compare(&|progress| {
        show.progress(progress);
        !is_stopped.load(Ordering::Relaxed)
    });
    show.finish();
    match end? {
        Made::Stopped => {
            show.stopped(&out);
            Ok(130)
        }
        Made::Shard(shard, runs) => {
            show::shard(language, shard, runs, &out)?;
            Ok(0)
        }
        Made::Whole(results) => {
            show::table(language, &results, &out)?;
            Ok(0)
        }
    }
}

/// A comparison that is about to be made.
pub struct Grid {
    plan: Plan,
    store: Store,
    part: Part,
    threads: usize,
    language: Language,
}

/// How much of it is made here.
enum Part {
    Whole,
    Shard(Shard),
    /// Nothing: all of it was, elsewhere.
    Merged(Shards),
}

/// What was made.
pub enum Made {
    /// Nothing more: it was told to stop. What is finished is kept.
    Stopped,
    /// A part, with so many runs to compare.
    Shard(Shard, usize),
    /// All of it, with its report.
    Whole(Box<Results>),
}

impl Arguments {
    /// What is asked for, checked.
    fn plan(&self) -> Result<Plan, Failure> {
        let arguments = self;
        let read = |path: &PathBuf| {
            let tokenizer = arguments.tokenizer.clone().map(Choice::Given);
            let request =
                train::Request { files: vec![path.clone()], tokenizer, ..train::Request::default() };
            Data::read(&request, Goal::Causal, Layout::Packed, None, |_| {})
        };
        let text = arguments.data.as_ref().map(read).transpose()?;
        let added = arguments.add.iter().map(|path| added(path)).collect::<Result<_, Failure>>()?;
        let is_in_parts = arguments.shard.is_some() || !arguments.merge.is_empty();
        let preset = match (arguments.plan, arguments.preset) {
            (Some(named), _) => Preset::Named(named),
            (None, PresetName::Quick) => Preset::Quick,
            (None, PresetName::Full) => Preset::Full,
            (None, PresetName::Paper) => Preset::Named(&lab::PAPER),
        };
        // Which seeds are added depends on all runs, and a part has its own alone; a plan with a name says how many.
        let seeds_of_parts = (is_in_parts && preset.named().is_none()).then_some(SEEDS);
        let request = Request {
            preset,
            encodings: arguments.encodings.iter().flat_map(|list| encodings::split(list)).collect(),
            added,
            tasks: arguments.tasks.clone(),
            seeds: arguments.seeds.or(seeds_of_parts),
            budget: arguments.budget,
            train_length: arguments.train_length,
            test_lengths: arguments.test_lengths.clone(),
            steps: arguments.steps,
            batch: arguments.batch,
            sizes: arguments.size,
            is_linear: arguments.attention == Attention::Linear,
            features: match arguments.features {
                FeaturesName::Elu => Features::Elu,
                FeaturesName::Softmax => Features::Softmax,
                FeaturesName::Favor => Features::Favor,
            },
            is_sweep: arguments.sweep,
            text,
            device: arguments.device.find_to_train()?,
        };
        let plan = Plan::new(&request).map_err(flagged)?;
        if request.text.is_some() && plan.tasks.iter().all(|task| !task.task.is_language()) {
            return Err(Failure::Input(
                "--data is for the task language, which is not among the tasks".into(),
            ));
        }
        Ok(plan)
    }
}

impl Grid {
    /// What is asked for, checked, with its folder.
    pub fn new(arguments: Arguments) -> Result<Grid, Failure> {
        let language = arguments.language.language();
        let plan = arguments.plan()?;
        let at_a_time = || {
            Ok::<_, Failure>(match plan.device {
                Device::Cpu(_) => std::thread::available_parallelism().map_or(1, usize::from),
                #[cfg(feature = "cuda")]
                Device::Cuda(_) => streams(plan.work_of_all()?.memory),
            })
        };
        let threads = arguments.threads.map_or_else(at_a_time, |threads| Ok(threads.into()))?;
        let part = match (arguments.shard, &arguments.merge[..]) {
            (Some(shard), _) => Part::Shard(shard),
            (None, []) => Part::Whole,
            (None, folders) => Part::Merged(Shards::read(&plan, folders)?),
        };
        let store = match arguments.overwrite {
            true => Store::replace(&arguments.out, &plan)?,
            false => Store::create(&arguments.out, &plan).map_err(flagged)?,
        };
        if let Part::Shard(shard) = part {
            store.begin_shard(shard)?;
        }
        Ok(Grid { plan, store, part, threads, language })
    }

    fn shard(&self) -> Option<Shard> {
        match self.part {
            Part::Shard(shard) => Some(shard),
            _ => None,
        }
    }

    /// Makes it, with its report where it is whole. It ends early where `on` says to stop.
    pub fn compare(&self, on: &(dyn Fn(Progress) -> bool + Sync)) -> Result<Made, Failure> {
        // What was given was right: what goes wrong now is a full disk or the like.
        let other = |error: Error| Failure::Other(error.to_string());
        let Grid { plan, store, threads, .. } = self;
        let made = match &self.part {
            Part::Whole => lab::compare(plan, store, *threads, on).map_err(other)?,
            Part::Merged(shards) => Some(lab::merge(plan, shards, store)?),
            Part::Shard(shard) => {
                let runs = lab::compare_shard(plan, *shard, store, *threads, on)?;
                return Ok(runs.map_or(Made::Stopped, |runs| Made::Shard(*shard, runs)));
            }
        };
        let Some((results, timings)) = made else { return Ok(Made::Stopped) };
        report::write(self.language, &results, &timings, store.folder())?;
        Ok(Made::Whole(Box::new(results)))
    }
}

#[cfg(test)]
mod tests {
    use super::streams;

    #[test]
    fn runs_that_share_a_gpu_fit_it() {
        assert_eq!([0, 9 << 20, 3 << 30, 12 << 30, 100 << 30].map(streams), [32, 32, 21, 5, 1]);
    }
}
