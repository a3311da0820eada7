//! Training from text files to a folder that holds a model: safe to kill at any moment, and resumed to the same bits.
//!
//! [`Run::begin`] takes [`Settings`], where the model begins and what is to be read; [`Run::resume`] a folder that a run has
//! left; [`Run::go`] trains.
//!
//! ```no_run
//! use roformer::train::{End, Request, Run, Settings, Start};
//! use std::ops::ControlFlow;
//!
//! let settings = Settings { steps: 500, ..Settings::default() };
//! let request = Request { files: vec!["play.txt".into()], ..Request::default() };
//! let mut run = Run::begin("out", &settings, &Start::Scratch, &request, |_| {})?;
//! let end = run.go(|event| {
//!     println!("{event:?}");
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(end, End::Finished);
//! # Ok::<(), roformer::Error>(())
//! ```
//!
//! ```text
//! settings.rs    all that decides a run, with its limits; as JSON
//! schedule.rs    the learning rate of each step
//! data/          files as tokens
//! characters.rs  the vocabulary of characters, and its tokenizer's files
//! rows.rs        which rows a step reads, and the batch that they make
//! hand_over.rs   where a model begins, and the files by which others load it
//! learner.rs     a network that learns, on the CPU or a GPU
//! trainer.rs     one step, one evaluation
//! store.rs       the folder: checkpoints in an order that a kill cannot break
//! metrics.rs     metrics.jsonl
//! run.rs         the loop
//! team/          one run on several processes
//! several.rs     several models side by side
//! ```

mod characters;
mod data;
mod hand_over;
mod learner;
mod metrics;
mod rows;
mod run;
mod schedule;
mod settings;
mod several;
mod store;
mod team;
mod trainer;

pub use crate::blueprint::Features;
pub use crate::ops::optimizer::Update;
pub use characters::Characters;
pub use data::{Choice, Data, Request, Vocabulary};
pub use hand_over::Start;
pub use learner::{Learner, StepResult};
pub use run::{End, Event, Run, help};
pub use schedule::Schedule;
pub use settings::{Attention, FormName, Goal, Layout, Settings};
pub use several::side_by_side;
pub use store::Best;
pub use team::{Meeting, Place};
pub use trainer::{Evaluation, Stepped, Trainer};
