//! Runs, as many at a time as there are threads, made or found in the folder of the comparison.
//!
//! On a GPU each thread has a stream of its own, so that many small models share the chip. What is measured of a trained model
//! is measured on the CPU, whatever it was trained on.
//!
//! Each run has one thread to itself: small models gain nothing from more, and their bits do not depend on it.

use super::compare::Progress;
use super::measure;
use super::plan::Plan;
use super::results::{RunResult, RunTiming, Timings};
use super::run::{Purpose, Settings, train_from};
use super::store::{Finished, Store};
use super::tasks::Task;
use roformer::train::side_by_side;
use roformer::{Error, Result};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A pool of one thread: what is parallel inside a run then runs on it, one after the other.
pub(super) fn one_thread() -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    pool.map_err(|_| Error::memory("threads"))
}

/// What all threads share.
pub(super) struct Grid<'a> {
    pub plan: &'a Plan,
    pub store: &'a Store,
    threads: usize,
    start: Instant,
    /// Whether runs that are not finished are made.
    may_train: bool,
    on_progress: &'a (dyn Fn(Progress) -> bool + Sync),
    /// Work that is done, in floating-point operations, and runs that are finished.
    work: Mutex<(f64, usize)>,
    /// Work in all, or the most that it may be.
    total: f64,
    /// Runs in all, and those that have been listed: more than were known of where seeds are added.
    runs: Mutex<(usize, usize)>,
    is_pilot: bool,
    is_stopped: AtomicBool,
    timings: Mutex<Timings>,
}

impl<'a> Grid<'a> {
    /// For these runs, or all of the plan, but for the rates and parameters that are chosen on the way.
    pub fn new(
        plan: &'a Plan,
        store: &'a Store,
        threads: usize,
        part: Option<&[Settings]>,
        on_progress: &'a (dyn Fn(Progress) -> bool + Sync),
    ) -> Self {
        let timings = Timings { threads, ..store.timings() };
        let work = |all: &[Settings]| all.iter().map(|settings| plan.work(settings)).sum();
        let (total, runs) = match part {
            Some(part) => (work(part), part.len()),
            None => (work(&plan.every_run(plan.seeds.mean())), plan.every_run(plan.seeds.first()).len()),
        };
        Grid {
            plan,
            store,
            threads,
            start: Instant::now(),
            may_train: true,
            on_progress,
            work: Mutex::new((0.0, 0)),
            total,
            runs: Mutex::new((runs, 0)),
            is_pilot: false,
            is_stopped: AtomicBool::new(false),
            timings: Mutex::new(timings),
        }
    }

    /// For the runs that choose sizes, at most those of every size.
    pub fn of_pilots(
        plan: &'a Plan,
        store: &'a Store,
        threads: usize,
        on_progress: &'a (dyn Fn(Progress) -> bool + Sync),
    ) -> Self {
        let all = plan.pilots(&plan.sizes.all(&plan.device));
        Grid { is_pilot: true, ..Grid::new(plan, store, threads, Some(&all), on_progress) }
    }

    /// The same for runs that must be finished: one that is not is an error.
    pub fn of_finished(self) -> Self {
        Grid { may_train: false, ..self }
    }

    /// Makes runs, the longest first; gives them in the order in which they were listed, or `None` where it was told to stop.
    pub fn run(&self, listed: Vec<Settings>) -> Result<Option<Vec<Finished>>> {
        {
            let mut runs = lock(&self.runs);
            runs.1 += listed.len();
            runs.0 = runs.0.max(runs.1);
        }
        let mut order: Vec<usize> = (0..listed.len()).collect();
        order.sort_by(|&a, &b| {
            self.plan.work(&listed[b]).total_cmp(&self.plan.work(&listed[a])).then(a.cmp(&b))
        });
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads).build();
        let pool = pool.map_err(|_| Error::memory("threads"))?;
        let outcomes = pool.install(|| side_by_side(order.clone(), |index| self.one(&listed[index])));
        // A run that failed has stopped the others: its error comes before their being stopped.
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
        let Some(finished) = outcomes.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut finished: Vec<(usize, Finished)> = order.into_iter().zip(finished).collect();
        finished.sort_by_key(|(index, _)| *index);
        Ok(Some(finished.into_iter().map(|(_, run)| run).collect()))
    }

    /// One run, made or found; `None` where it was told to stop.
    fn one(&self, settings: &Settings) -> Result<Option<Finished>> {
        let task = self.plan.task(settings);
        if let Some(finished) = self.store.finished(settings) {
            return Ok(self.advance(self.plan.work(settings), 1).then_some(finished));
        }
        if !self.may_train {
            self.halt();
            return Err(self.store.missing(settings));
        }
        let encoding = self.plan.encoding(&settings.encoding)?;
        let (start, of_a_step) = (Instant::now(), settings.flops(task));
        // A run that fails takes the others with it: they would be of no use.
        let on_steps = |steps| self.advance(steps as f64 * of_a_step, 0);
        let checkpoint = Some(self.store.checkpoint(settings));
        let trained = train_from(checkpoint, &self.plan.device, settings, task, &encoding, on_steps);
        let trained = trained.inspect_err(|_| self.halt())?;
        let Some(trained) = trained else { return Ok(None) };
        let seconds = start.elapsed().as_secs_f64();

        let is_whole = matches!(settings.purpose, Purpose::Run | Purpose::Again);
        let is_to_choose = matches!(settings.purpose, Purpose::Pilot | Purpose::Search);
        let is_tested = |length: &&usize| !is_to_choose || **length <= settings.train_length;
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
        let runs = lock(&self.runs).0;
        let progress =
            Progress { part: (done / self.total).min(1.0), finished, runs, is_pilot: self.is_pilot };
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
    pub fn time_as(&self, chosen: &str, label: &str) {
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
    pub fn keep_timings(&self) -> Result<Timings> {
        let mut timings = lock(&self.timings).clone();
        timings.seconds += self.start.elapsed().as_secs_f64();
        let key =
            |timing: &RunTiming| (timing.task.clone(), timing.encoding.clone(), timing.is_again, timing.seed);
        timings.runs.sort_by_key(key);
        self.store.keep_timings(&timings)?;
        Ok(timings)
    }

    /// Keeps the times of what is finished, where it was told to stop.
    pub fn stop<T>(&self) -> Result<Option<T>> {
        self.keep_timings()?;
        Ok(None)
    }
}

/// What a mutex holds. A thread that panicked has taken the comparison with it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
