//! The grid: every task with every encoding and seed, as many runs at a time as there are threads.
//!
//! On a GPU each thread has a stream of its own, so that many small models share the chip. What is measured of a trained model
//! is measured on the CPU, whatever it was trained on.
//!
//! Each run has one thread to itself: small models gain nothing from more, and their bits do not depend on it. First each
//! encoding chooses its learning rate on each task, then a sweep its parameters where there is one, then all that is
//! compared is run.

use super::analysis::analyse;
use super::measure;
use super::plan::{Plan, PlannedTask};
use super::results::{Results, RunResult, RunTiming, Swept, TaskResult, Timings};
use super::run::{Purpose, Settings, train};
use super::store::{Finished, Store};
use super::tasks::Task;
use roformer::Device;
use roformer::train::side_by_side;
use roformer::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How far a comparison has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The part of the work that is done, from 0 to 1.
    pub part: f64,
    /// Runs that are finished, those of earlier times among them.
    pub finished: usize,
    /// Runs in all.
    pub runs: usize,
}

/// Makes the comparison of a plan in its folder; runs that are finished there already are not made again. `on_progress` is
/// told after every step, from any thread, and says whether to go on; `None` where it did not. What is finished then stays.
pub fn compare(
    plan: &Plan,
    store: &Store,
    threads: usize,
    on_progress: &(dyn Fn(Progress) -> bool + Sync),
) -> Result<Option<(Results, Timings)>> {
    let start = Instant::now();
    let grid = Grid::new(plan, store, threads, on_progress);

    let Some(searched) = grid.run(plan.searches())? else { return grid.stop(start) };
    // For each task and encoding, as they were listed: the rate with the lowest loss.
    let mut rates =
        searched.chunks(plan.searches().len() / (plan.tasks.len() * plan.encodings.len())).map(best_rate);
    let cells: Vec<Cell> = plan
        .tasks
        .iter()
        .flat_map(|task| plan.encodings.iter().map(move |(label, _)| (task, label)))
        .filter_map(|(task, label)| {
            Some(Cell { task, label, rate: rates.next()?, chosen: label, swept: Vec::new() })
        })
        .collect();

    let sweeps = cells.iter().flat_map(|cell| plan.sweeps(cell.task, cell.label, cell.rate)).collect();
    let Some(swept) = grid.run(sweeps)? else { return grid.stop(start) };
    let cells: Vec<Cell> = cells.into_iter().map(|cell| cell.choose(plan, &swept)).collect();

    let is_baseline = |cell: &Cell| cell.label == plan.encodings[0].0;
    let runs = |cell: &Cell| plan.runs(cell.task, cell.chosen, cell.rate, is_baseline(cell));
    let Some(finished) = grid.run(cells.iter().flat_map(runs).collect())? else { return grid.stop(start) };

    let mut finished = finished.into_iter();
    let mut tasks: Vec<TaskResult> = Vec::new();
    for (task, cells) in plan.tasks.iter().zip(cells.chunks(plan.encodings.len())) {
        let of = |cell: &Cell| {
            let count = runs(cell).len();
            // Runs go by what was asked for; what a sweep chose for it is in the sweep's own table.
            let named = finished.by_ref().take(count).map(|mut run| {
                run.result.encoding = cell.label.into();
                run
            });
            named.collect::<Vec<_>>()
        };
        let finished: Vec<Finished> = cells.iter().flat_map(of).collect();
        let swept = cells.iter().flat_map(|cell| cell.swept.clone()).collect();
        tasks.push(analyse(plan, task, finished, swept));
    }
    let (version, hash) = (env!("CARGO_PKG_VERSION").into(), plan.hash());
    let results = Results { version, hash, plan: plan.shown(), tasks };
    store.keep_results(&results)?;
    cells.iter().for_each(|cell| grid.time_as(cell.chosen, cell.label));
    let timings = grid.keep_timings(start)?;
    Ok(Some((results, timings)))
}

/// How many times as fast many runs are together on a GPU than one after the other, about: they share its time.
#[cfg(feature = "cuda")]
const SHARED: f64 = 6.0;

/// About how many seconds a comparison takes from its beginning: the first steps of its first run are timed, and the rest is
/// taken to be as fast.
pub fn estimate(plan: &Plan, threads: usize) -> Result<f64> {
    let all = plan.every_run();
    let Some(first) = all.first().map(|first| Settings { steps: 20, ..first.clone() }) else {
        return Ok(0.0);
    };
    let encoding = plan.encoding(&first.encoding)?;
    let train =
        || one_thread()?.install(|| train(&plan.device, &first, plan.task(&first), &encoding, || true));
    if !matches!(plan.device, Device::Cpu(_)) {
        // The first steps on a GPU load and record.
        train()?;
    }
    let start = Instant::now();
    train()?;
    let work: f64 = all.iter().map(|settings| plan.work(settings)).sum();
    let at_a_time = match plan.device {
        Device::Cpu(_) => threads as f64,
        #[cfg(feature = "cuda")]
        Device::Cuda(_) => SHARED.min(threads as f64),
    };
    Ok(start.elapsed().as_secs_f64() * work / plan.work(&first) / at_a_time)
}

/// A pool of one thread: what is parallel inside a run then runs on it, one after the other.
fn one_thread() -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|_| Error::memory("threads"))
}

/// A task with an encoding, and what was chosen for it.
struct Cell<'a> {
    task: &'a PlannedTask,
    label: &'a str,
    rate: f64,
    /// The label with the parameters that a sweep chose.
    chosen: &'a str,
    swept: Vec<Swept>,
}

impl<'a> Cell<'a> {
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

/// What a sweep judges by: the mean over all lengths of exact answers, or of the loss of a language model.
fn overall(result: &RunResult, task: &dyn Task) -> f64 {
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

/// What all threads share.
struct Grid<'a> {
    plan: &'a Plan,
    store: &'a Store,
    threads: usize,
    on_progress: &'a (dyn Fn(Progress) -> bool + Sync),
    /// Work that is done, in floating-point operations, and runs that are finished.
    work: Mutex<(f64, usize)>,
    /// Work in all.
    total: f64,
    /// Runs in all.
    runs: usize,
    is_stopped: AtomicBool,
    timings: Mutex<Timings>,
}

impl<'a> Grid<'a> {
    fn new(
        plan: &'a Plan,
        store: &'a Store,
        threads: usize,
        on_progress: &'a (dyn Fn(Progress) -> bool + Sync),
    ) -> Self {
        let all = plan.every_run();
        let timings = Timings { threads, ..store.timings() };
        Grid {
            plan,
            store,
            threads,
            on_progress,
            work: Mutex::new((0.0, 0)),
            total: all.iter().map(|settings| plan.work(settings)).sum(),
            runs: all.len(),
            is_stopped: AtomicBool::new(false),
            timings: Mutex::new(timings),
        }
    }

    /// Makes runs, the longest first; gives them in the order in which they were listed, or `None` where it was told to stop.
    fn run(&self, listed: Vec<Settings>) -> Result<Option<Vec<Finished>>> {
        let mut order: Vec<usize> = (0..listed.len()).collect();
        order.sort_by(|&a, &b| {
            self.plan.work(&listed[b]).total_cmp(&self.plan.work(&listed[a])).then(a.cmp(&b))
        });
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build();
        let pool = pool.map_err(|_| Error::memory("threads"))?;
        let outcomes = pool.install(|| side_by_side(order.clone(), |index| self.one(&listed[index])));
        let mut finished = Vec::with_capacity(listed.len());
        for (index, outcome) in order.into_iter().zip(outcomes) {
            match outcome? {
                Some(run) => finished.push((index, run)),
                None => return Ok(None),
            }
        }
        finished.sort_by_key(|(index, _)| *index);
        Ok(Some(finished.into_iter().map(|(_, run)| run).collect()))
    }

    /// One run, made or found; `None` where it was told to stop.
    fn one(&self, settings: &Settings) -> Result<Option<Finished>> {
        let task = self.plan.task(settings);
        if let Some(finished) = self.store.finished(settings) {
            return Ok(self.advance(self.plan.work(settings), 1).then_some(finished));
        }
        let encoding = self.plan.encoding(&settings.encoding)?;
        let (start, of_a_step) = (Instant::now(), settings.flops(task));
        // A run that fails takes the others with it: they would be of no use.
        let on_step = || self.advance(of_a_step, 0);
        let trained =
            train(&self.plan.device, settings, task, &encoding, on_step).inspect_err(|_| self.halt())?;
        let Some(trained) = trained else { return Ok(None) };
        let seconds = start.elapsed().as_secs_f64();

        let is_whole = matches!(settings.purpose, Purpose::Run | Purpose::Again);
        let is_tested =
            |length: &&usize| settings.purpose != Purpose::Search || **length <= settings.train_length;
        let lengths = settings.test_lengths.iter().filter(is_tested);
        let accuracy =
            lengths.map(|&length| measure::accuracy(&trained, &trained.network, settings, task, length));
        let laid = trained.lay_out(&trained.network, 1, 1, settings.longest(task))?;
        let (parameters, position_parameters) = laid.parameter_counts();
        let result = RunResult {
            encoding: settings.encoding.clone(),
            seed: settings.seed,
            is_again: settings.purpose == Purpose::Again,
            rate: settings.rate,
            parameters: parameters as u64,
            position_parameters: position_parameters as u64,
            flops_per_step: of_a_step,
            curve: trained.curve.clone(),
            accuracy: accuracy.collect::<Result<_>>()?,
            attention: if is_whole { measure::by_distance(&trained, settings, task)? } else { Vec::new() },
            context: if is_whole { measure::by_context(&trained, settings, task)? } else { Vec::new() },
            learned: measure::learned(&trained),
        };
        let is_swapped = settings.purpose == Purpose::Run;
        let swaps = if is_swapped { measure::swaps(&trained, settings, task)? } else { Vec::new() };
        let finished = Finished::new(settings, result, swaps);
        self.store.keep(&finished).inspect_err(|_| self.halt())?;
        if is_whole {
            self.time(settings, task, seconds);
        }
        self.advance(0.0, 1);
        Ok(Some(finished))
    }

    /// Tells that work is done, and whether to go on.
    fn advance(&self, work: f64, runs: usize) -> bool {
        let (done, finished) = {
            let mut shared = lock(&self.work);
            *shared = (shared.0 + work, shared.1 + runs);
            *shared
        };
        let progress = Progress { part: (done / self.total).min(1.0), finished, runs: self.runs };
        if !(self.on_progress)(progress) {
            self.halt();
        }
        !self.is_stopped.load(Ordering::Relaxed)
    }

    fn halt(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn time(&self, settings: &Settings, task: &dyn Task, seconds: f64) {
        let tokens = settings.steps as f64 * (settings.batch * task.tokens(settings.train_length)) as f64;
        let timing = RunTiming {
            task: settings.task.clone(),
            encoding: settings.encoding.clone(),
            seed: settings.seed,
            is_again: settings.purpose == Purpose::Again,
            seconds,
            tokens_s: tokens / seconds.max(1e-9),
        };
        let is_same = |other: &RunTiming| {
            (&other.task, &other.encoding, other.seed, other.is_again)
                == (&timing.task, &timing.encoding, timing.seed, timing.is_again)
        };
        let mut timings = lock(&self.timings);
        timings.runs.retain(|other| !is_same(other));
        timings.runs.push(timing);
    }

    /// The times of what a sweep chose are also those of what was asked for.
    fn time_as(&self, chosen: &str, label: &str) {
        let mut timings = lock(&self.timings);
        if chosen != label {
            timings.runs.retain(|timing| timing.encoding != label);
            let of_chosen = timings.runs.iter().filter(|timing| timing.encoding == chosen);
            let named = of_chosen.map(|timing| RunTiming { encoding: label.into(), ..timing.clone() });
            let named: Vec<RunTiming> = named.collect();
            timings.runs.extend(named);
        }
    }

    /// Writes times, those of earlier parts of the same comparison added.
    fn keep_timings(&self, start: Instant) -> Result<Timings> {
        let mut timings = lock(&self.timings).clone();
        timings.seconds += start.elapsed().as_secs_f64();
        let key =
            |timing: &RunTiming| (timing.task.clone(), timing.encoding.clone(), timing.is_again, timing.seed);
        timings.runs.sort_by_key(key);
        self.store.keep_timings(&timings)?;
        Ok(timings)
    }

    fn stop<T>(&self, start: Instant) -> Result<Option<T>> {
        self.keep_timings(start)?;
        Ok(None)
    }
}

/// What a mutex holds. A thread that panicked has taken the comparison with it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
