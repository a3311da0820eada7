//! The pilot: which size a task needs, found before anything is compared.
//!
//! Rotary embedding learns the task at every learning rate, on a seed that is not compared, in the smallest models first; where
//! none of these gets [`LEARNED`] of the answers right within the trained lengths, in the next larger ones. So the size of a task
//! is chosen without a look at what is compared. A language model has no such line to reach, and takes the smallest.

use super::analysis::LEARNED;
use super::compare::overall;
use super::grid::Grid;
use super::plan::Plan;
use super::results::Piloted;
use super::run::Settings;
use super::store::Finished;
use roformer::Result;

/// A plan whose tasks have their sizes, and the runs that these were chosen by; `None` where it was told to stop.
pub(super) fn sized(grid: &Grid) -> Result<Option<(Plan, Vec<Settings>)>> {
    let (mut plan, mut made) = (grid.plan.clone(), Vec::new());
    let sizes = plan.sizes.all(&plan.device);
    let mut open = plan.piloted();
    for &size in &sizes {
        if open.is_empty() {
            break;
        }
        let runs = |&index: &usize| grid.plan.pilots_of(&grid.plan.tasks[index], size);
        let listed: Vec<Settings> = open.iter().flat_map(runs).collect();
        made.extend(listed.iter().cloned());
        let Some(finished) = grid.run(listed)? else { return Ok(None) };
        for (&index, runs) in open.iter().zip(finished.chunks(finished.len() / open.len())) {
            let task = &mut plan.tasks[index];
            let (reached, rate) = best(runs, |run| overall(&run.result, &*task.task));
            task.pilots.push(Piloted { size, reached, rate });
            // Larger models take the place of smaller ones only where they do better.
            if task.pilots.iter().all(|other| other.size == size || other.reached < reached) {
                task.size = size;
            }
        }
        open.retain(|&index| plan.tasks[index].pilots.last().is_some_and(|pilot| pilot.reached < LEARNED));
    }
    if !made.is_empty() {
        grid.keep_timings()?;
    }
    Ok(Some((plan, made)))
}

/// The most that any of these runs reached, and its rate: the lowest of equals.
fn best(runs: &[Finished], reached: impl Fn(&Finished) -> f64) -> (f64, f64) {
    let each = runs.iter().map(|run| (reached(run), run.settings.rate));
    each.reduce(|best, next| if next.0 > best.0 { next } else { best }).unwrap_or_default()
}
