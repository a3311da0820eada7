//! Which position encoding? The same small Transformer trained with each, from the same first weights on the same batches,
//! over several seeds; what each can do then, and what may be said of the differences.
//!
//! [`Plan::new`] checks what is asked for, [`compare`] trains and measures into a [`Store`], [`report::write`] draws what came
//! of it.
//!
//! ```no_run
//! use lab::{Plan, Request, Store, compare, report};
//! use roformer::language::Language;
//! use std::path::Path;
//!
//! let plan = Plan::new(&Request::default())?;
//! let store = Store::create(Path::new("comparison"), &plan)?;
//! if let Some((results, timings)) = compare(&plan, &store, 2, &|_| true)? {
//!     report::write(Language::English, &results, &timings, store.folder())?;
//! }
//! # Ok::<(), roformer::Error>(())
//! ```
//!
//! ```text
//! tasks/         what is learned: one file per task
//! encodings.rs   lists of encodings, and what a sweep tries
//! size.rs        how large models are
//! plan.rs        what is to be done: presets, plans that have a name, lengths, seeds, the runs
//! training.rs    how models are trained
//! run.rs         one model, trained
//! checkpoint.rs  how far a model has come, kept while it is trained
//! measure/       what it can do then
//! compare.rs     from the runs of a plan to its results
//! pilot.rs       which size each task needs
//! grid.rs        runs, several at a time
//! seeds.rs       how many seeds, and which comparisons get more
//! shard.rs       parts of a comparison that several machines make, and how they are put together
//! store.rs       the folder: finished runs are never made again
//! statistics/    paired comparisons over seeds
//! analysis.rs    from finished runs to verdicts
//! results.rs     all that was found
//! report/        one page that shows it
//! chart/         figures as SVG, for the report and for whoever else draws
//! ```

#![deny(unsafe_code)]

mod analysis;
pub mod chart;
mod checkpoint;
mod compare;
pub mod encodings;
mod grid;
pub mod measure;
mod pilot;
mod plan;
pub mod report;
pub mod results;
pub mod run;
mod seeds;
mod shard;
#[cfg(test)]
mod simulation;
mod size;
pub mod statistics;
mod store;
pub mod tasks;
mod training;

pub use analysis::{LEARNED, mean};
pub use compare::{Progress, compare, compare_shard, estimate, merge};
pub use plan::named::{Named, PAPER, PUBLISHED};
pub use plan::{Plan, PlannedTask, Preset, Request, Share, TEXT, Work};
pub use seeds::Seeds;
pub use shard::{Shard, Shards};
pub use size::{Size, Sizes};
pub use store::{Finished, OTHER_FOLDER, Store, replay};
pub use training::{Decay, Training};
