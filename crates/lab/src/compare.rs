//! From a plan to its results: first a pilot chooses sizes where they are not given, then each encoding chooses its learning rate on each task, then a sweep its parameters where
//! there is one, then all that is compared is run, in rounds where seeds are added. With a number of seeds nothing of a task and
//! an encoding depends on another: a [`Shard`] makes its part of the runs alone, and [`merge`] concludes from those of all.

use super::analysis::analyse;
use super::grid::{Grid, one_thread};
use super::pilot::sized;
use super::plan::{Plan, PlannedTask, purposes};
use super::results::{Comparison, Results, RunResult, Swept, TaskResult, Timings};
use super::run::{Purpose, Settings, train};
use super::seeds::{self, Open, Seeds};
use super::shard::{Shard, Shards};
use super::store::{Finished, Store};
use super::tasks::Task;
use super::training::Training;
use roformer::{Device, Error, Result};
use std::time::{Duration, Instant};

/// How far a comparison has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The part of the work that is done, from 0 to 1.
    pub part: f64,
    /// Runs that are finished, those of earlier times among them.
    pub finished: usize,
    /// Runs in all, as far as is known: where seeds are added there may come more.
    pub runs: usize,
    /// Whether these are the runs that choose sizes, of which there may be fewer; those that are compared come after them.
    pub is_pilot: bool,
}

/// Makes the comparison of a plan in its folder; runs that are finished there already are not made again. `on_progress` is
/// told after every step, from any thread, and says whether to go on; `None` where it did not. What is finished then stays.
pub fn compare(
    plan: &Plan,
    store: &Store,
    threads: usize,
    on_progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Result<Option<(Results, Timings)>> {
    let pilots = Grid::of_pilots(plan, store, threads, on_progress);
    let Some((plan, _)) = sized(&pilots)? else { return pilots.stop() };
    conclude(&Grid::new(&plan, store, threads, None, on_progress))
}

/// Makes one part of a comparison in a folder of its own; the number of its runs that are compared. `None` where
/// `on_progress` said to stop: the same call then goes on.
pub fn compare_shard(
    plan: &Plan,
    shard: Shard,
    store: &Store,
    threads: usize,
    on_progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Result<Option<usize>> {
    check_parts(plan)?;
    store.begin_shard(shard)?;
    // Every shard makes every pilot: how the work is divided depends on the sizes of all tasks.
    let pilots = Grid::of_pilots(plan, store, threads, on_progress);
    let Some((plan, piloted)) = sized(&pilots)? else { return pilots.stop() };
    let plan = &plan;
    let share = plan.share(shard);
    let grid = Grid::new(plan, store, threads, Some(&plan.runs_of(&share)), on_progress);
    let begun = share.iter().map(|part| Cell::begin(plan, part.task, part.encoding)).collect();
    let Some((cells, mut made)) = choose(&grid, begun)? else { return grid.stop() };
    let runs = |(cell, places): (&Cell, &[usize])| {
        let runs = cell.runs(plan, plan.seeds.mean());
        places.iter().map(|&place| runs[place].clone()).collect::<Vec<_>>()
    };
    let runs: Vec<Settings> =
        cells.iter().zip(share.iter().map(|part| &part.places[..])).flat_map(runs).collect();
    let count = runs.len();
    made.extend(piloted.into_iter().chain(runs.iter().cloned()));
    let Some(_) = grid.run(runs)? else { return grid.stop() };
    grid.keep_timings()?;
    store.finish_shard(shard, &made)?;
    Ok(Some(count))
}

/// Concludes from the runs of all shards, in a folder of their own: the bytes are those of [`compare`].
pub fn merge(plan: &Plan, shards: &Shards, store: &Store) -> Result<(Results, Timings)> {
    check_parts(plan)?;
    shards.copy_to(store)?;
    let (threads, on_progress) = (shards.threads(), &|_| true);
    let piloted = sized(&Grid::of_pilots(plan, store, threads, on_progress).of_finished())?;
    let (plan, _) = piloted.expect("nothing said to stop");
    let concluded = conclude(&Grid::new(&plan, store, threads, None, on_progress).of_finished())?;
    Ok(concluded.expect("nothing said to stop"))
}

/// Refuses parts of a comparison that adds seeds: which it adds depends on the runs of all parts.
fn check_parts(plan: &Plan) -> Result<()> {
    match plan.seeds {
        Seeds::Fixed(_) => Ok(()),
        Seeds::Added { .. } => {
            let expected = "a number of them: which are added depends on the runs of all parts";
            Err(Error::input("the seeds of a comparison in parts", "added on the way", expected))
        }
    }
}

/// Makes or finds all runs of a plan, and says what came of them.
fn conclude(grid: &Grid) -> Result<Option<(Results, Timings)>> {
    let (plan, store) = (grid.plan, grid.store);
    let encodings = 0..plan.encodings.len();
    let all = plan.tasks.iter().flat_map(|task| encodings.clone().map(move |index| (task, index)));
    let begun = all.map(|(task, index)| Cell::begin(plan, task, index)).collect();
    let Some((cells, _)) = choose(grid, begun)? else { return grid.stop() };

    let mut rows: Vec<Row> = Vec::new();
    for cell in &cells {
        rows.extend(purposes(cell.is_baseline).iter().map(|&purpose| Row::new(cell, purpose)));
    }
    let mut left: f64 = rows.iter().map(|row| row.work(plan) * plan.seeds.mean() as f64).sum();
    let mut wanted: Vec<(usize, usize)> = (0..rows.len()).map(|row| (row, plan.seeds.first())).collect();
    let tasks = loop {
        let settings = |&(row, seeds): &(usize, usize)| rows[row].settings(plan, seeds);
        let listed: Vec<Settings> = wanted.iter().flat_map(settings).collect();
        left -= listed.iter().map(|settings| plan.work(settings)).sum::<f64>();
        let Some(finished) = grid.run(listed)? else { return grid.stop() };
        let mut finished = finished.into_iter();
        for &(row, seeds) in &wanted {
            let count = seeds - rows[row].finished.len();
            rows[row].finished.extend(finished.by_ref().take(count));
        }
        let tasks = analysed(plan, &cells, &rows);
        wanted = seeds::next(&standing(plan, &tasks, &rows), &plan.seeds.looks(), left);
        if wanted.is_empty() {
            break tasks;
        }
    };
    let (version, hash) = (env!("CARGO_PKG_VERSION").into(), plan.hash());
    let most = rows.iter().map(|row| row.finished.len()).max().unwrap_or(0);
    let shown = super::results::Plan { seeds: (1..=most as u64).collect(), ..plan.shown() };
    let results = Results { version, hash, plan: shown, tasks };
    store.keep_results(&results)?;
    cells.iter().for_each(|cell| grid.time_as(cell.chosen, cell.label));
    let timings = grid.keep_timings()?;
    Ok(Some((results, timings)))
}

/// The runs of a cell that are for one purpose, as many as there are seeds.
struct Row<'a> {
    cell: &'a Cell<'a>,
    purpose: Purpose,
    finished: Vec<Finished>,
}

impl<'a> Row<'a> {
    fn new(cell: &'a Cell<'a>, purpose: Purpose) -> Self {
        Row { cell, purpose, finished: Vec::new() }
    }

    /// The runs that bring it from the seeds that it has to so many.
    fn settings(&self, plan: &Plan, seeds: usize) -> Vec<Settings> {
        let Cell { task, chosen, rate, .. } = *self.cell;
        let missing = self.finished.len() as u64 + 1..=seeds as u64;
        missing.map(|seed| plan.settings(task, chosen, rate, seed, self.purpose)).collect()
    }

    /// The work of one run.
    fn work(&self, plan: &Plan) -> f64 {
        plan.work(&plan.settings(self.cell.task, self.cell.chosen, self.cell.rate, 1, self.purpose))
    }
}

/// What was found on each task so far.
fn analysed(plan: &Plan, cells: &[Cell], rows: &[Row]) -> Vec<TaskResult> {
    let of = |(planned, cells): (&PlannedTask, &[Cell])| {
        let name = planned.task.name();
        // Runs go by what was asked for; what a sweep chose for it is in the sweep's own table.
        let named = |row: &Row| {
            let label = row.cell.label;
            let named = row.finished.iter().cloned().map(move |mut run| {
                run.result.encoding = label.into();
                run
            });
            named.collect::<Vec<_>>()
        };
        let finished = rows.iter().filter(|row| row.cell.task.task.name() == name).flat_map(named);
        let swept = cells.iter().flat_map(|cell| cell.swept.clone()).collect();
        analyse(plan, planned, finished.collect(), swept)
    };
    plan.tasks.iter().zip(cells.chunks(plan.encodings.len())).map(of).collect()
}

/// What is undecided of each row.
fn standing(plan: &Plan, tasks: &[TaskResult], rows: &[Row]) -> Vec<seeds::Row> {
    let of = |row: &Row| {
        let name = row.cell.task.task.name();
        let task = tasks.iter().position(|task| task.name == name).unwrap_or_default();
        let is_again = row.purpose == Purpose::Again;
        let comparisons = &tasks[task].comparisons;
        let is_its = |own: &&Comparison| own.encoding == row.cell.label && own.is_again == is_again;
        let open = comparisons.iter().filter(is_its).filter_map(|own| {
            let family = comparisons.iter().filter(|other| other.measure == own.measure);
            Open::new(own, &family.collect::<Vec<_>>())
        });
        seeds::Row {
            task,
            is_baseline: row.cell.is_baseline && !is_again,
            seeds: row.finished.len(),
            work: row.work(plan),
            open: open.collect(),
        }
    };
    rows.iter().map(of).collect()
}

/// What was chosen for each cell, and the settings of the runs that it was chosen by; `None` where it was told to stop.
fn choose<'a>(grid: &Grid<'a>, begun: Vec<Cell<'a>>) -> Result<Option<(Vec<Cell<'a>>, Vec<Settings>)>> {
    let plan = grid.plan;
    let searches: Vec<Settings> =
        begun.iter().flat_map(|cell| plan.searches_of(cell.task, cell.label)).collect();
    let Some(searched) = grid.run(searches.clone())? else { return Ok(None) };
    // For each cell, as they were listed: the rate with the lowest loss, or the only one.
    let count = searches.len() / begun.len().max(1);
    let rate = |(index, cell): (usize, &Cell)| match &searched[index * count..(index + 1) * count] {
        [] => plan.first_rate(cell.task),
        runs => best_rate(runs),
    };
    let rates: Vec<f64> = begun.iter().enumerate().map(rate).collect();
    let cells: Vec<Cell> = begun.into_iter().zip(rates).map(|(cell, rate)| Cell { rate, ..cell }).collect();

    let sweeps: Vec<Settings> =
        cells.iter().flat_map(|cell| plan.sweeps(cell.task, cell.label, cell.rate)).collect();
    let Some(swept) = grid.run(sweeps.clone())? else { return Ok(None) };
    let cells = cells.into_iter().map(|cell| cell.choose(plan, &swept)).collect();
    Ok(Some((cells, [searches, sweeps].concat())))
}

/// How many times as fast many runs are together on a GPU than one after the other, about: they share its time.
#[cfg(feature = "cuda")]
const SHARED: f64 = 6.0;

/// The floating-point operations of a step that is timed, at most.
const TIMED_WORK: f64 = 2e10;

/// How long the first steps are timed, about, at most.
const TIMED: Duration = Duration::from_secs(3);

/// About how many seconds a comparison takes from its beginning, or a shard of it: the first steps of the first run are timed,
/// and the rest is taken to be as fast. Where a pilot chooses sizes, with the smallest.
pub fn estimate(plan: &Plan, shard: Option<Shard>, threads: usize) -> Result<f64> {
    let runs = match shard {
        Some(shard) => plan.runs_of(&plan.share(shard)),
        None => plan.every_run(plan.seeds.mean()),
    };
    let all = [plan.pilots(&[plan.sizes.first()]), runs].concat();
    let Some(first) = all.first() else { return Ok(0.0) };
    // Of steps that take long, some of the texts: each is as much work as the others.
    let texts = (TIMED_WORK / first.flops(plan.task(first)) * first.batch as f64) as usize;
    let first = match texts < first.batch {
        true => {
            let training = Training { parts: 1, ..first.training };
            Settings { steps: 20, batch: texts.max(1), training, ..first.clone() }
        }
        false => Settings { steps: 20, ..first.clone() },
    };
    let encoding = plan.encoding(&first.encoding)?;
    // Seconds of a step: the first tells when models are ready, and that they are many.
    let train = || {
        let (mut steps, mut start) = (0u64, Instant::now());
        let on_step = || {
            if steps == 0 {
                start = Instant::now();
            }
            let goes_on = steps == 0 || start.elapsed() < TIMED;
            steps += u64::from(goes_on);
            goes_on
        };
        let trained = train(&plan.device, &first, plan.task(&first), &encoding, on_step)?;
        drop(trained);
        Ok::<_, Error>(start.elapsed().as_secs_f64() / steps as f64)
    };
    let train = || one_thread()?.install(train);
    if !matches!(plan.device, Device::Cpu(_)) {
        // The first steps on a GPU load and record.
        train()?;
    }
    let of_a_step = train()?;
    let training: f64 = all.iter().map(|settings| plan.work(settings)).sum();
    let (work, at_a_time) = match plan.device {
        Device::Cpu(_) => {
            (training + all.iter().map(|settings| plan.measuring(settings)).sum::<f64>(), threads as f64)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => (training, SHARED.min(threads as f64)),
    };
    Ok(of_a_step * work / first.flops(plan.task(&first)) / at_a_time)
}

/// A task with an encoding, and what was chosen for it.
struct Cell<'a> {
    task: &'a PlannedTask,
    label: &'a str,
    /// Whether the others are compared with it.
    is_baseline: bool,
    rate: f64,
    /// The label with the parameters that a sweep chose.
    chosen: &'a str,
    swept: Vec<Swept>,
}

impl<'a> Cell<'a> {
    /// With nothing chosen yet.
    fn begin(plan: &'a Plan, task: &'a PlannedTask, encoding: usize) -> Self {
        let label = &plan.encodings[encoding].0[..];
        Cell { task, label, is_baseline: encoding == 0, rate: 0.0, chosen: label, swept: Vec::new() }
    }

    /// The runs that are compared, with so many seeds.
    fn runs(&self, plan: &Plan, seeds: usize) -> Vec<Settings> {
        plan.runs(self.task, self.chosen, self.rate, self.is_baseline, seeds)
    }

    /// Takes the best of a sweep, if there was one.
    fn choose(self, plan: &Plan, runs: &[Finished]) -> Self {
        let candidates = plan.candidates(self.label);
        let task = &*self.task.task;
        let mut swept: Vec<Swept> = Vec::new();
        for &label in candidates.iter().filter(|_| candidates.len() > 1) {
            let is_its = |run: &&Finished| run.settings.encoding == label && run.settings.task == task.name();
            let values = runs.iter().filter(is_its).map(|run| overall(&run.result, task)).collect();
            let name = label.split(':').next().unwrap_or(label).into();
            swept.push(Swept { label: label.into(), name, values, is_chosen: false });
        }
        // The first of equals: the default before others.
        let sign = if task.is_language() { 1.0 } else { -1.0 };
        let score = |swept: &Swept| sign * swept.values.iter().sum::<f64>();
        let best = (0..swept.len()).min_by(|&a, &b| score(&swept[a]).total_cmp(&score(&swept[b])));
        let Some(best) = best else { return self };
        swept[best].is_chosen = true;
        Cell { chosen: candidates[best], swept, ..self }
    }
}

/// What a sweep and a pilot judge by: the mean over all lengths of exact answers, or of the loss of a language model.
pub(super) fn overall(result: &RunResult, task: &dyn Task) -> f64 {
    let value = |at: &super::results::Accuracy| if task.is_language() { at.loss } else { at.exact };
    result.accuracy.iter().map(value).sum::<f64>() / result.accuracy.len() as f64
}

/// The rate whose run has the lowest loss on tests within the trained lengths.
fn best_rate(runs: &[Finished]) -> f64 {
    let loss = |run: &&Finished| {
        let in_range = run.result.accuracy.iter();
        in_range.map(|accuracy| accuracy.loss).sum::<f64>()
    };
    let best = runs.iter().min_by(|a, b| loss(a).total_cmp(&loss(b)));
    best.map_or(0.0, |run| run.settings.rate)
}
