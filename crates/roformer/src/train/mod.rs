//! Training from text files to a folder that holds a model: safe to kill at any moment, and resumed to the same bits.
//!
//! [`Run::begin`] takes [`Settings`] and text files, [`Run::resume`] a folder that a run has left; [`Run::go`] trains. So far
//! the one task is a causal language model of characters.
//!
//! ```no_run
//! use roformer::train::{End, Run, Settings};
//! use std::ops::ControlFlow;
//!
//! let settings = Settings { steps: 500, ..Settings::default() };
//! let mut run = Run::begin("out", &settings, &["play.txt"])?;
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
//! corpus.rs      text files as token ids; which blocks a step reads
//! characters.rs  the vocabulary of characters, and its tokenizer's files
//! hand_over.rs   the network of some settings, and the files by which others load it
//! trainer.rs     one step, one evaluation
//! store.rs       the folder: checkpoints in an order that a kill cannot break
//! metrics.rs     metrics.jsonl
//! run.rs         the loop
//! ```

mod characters;
mod corpus;
mod hand_over;
mod metrics;
mod run;
mod schedule;
mod settings;
mod store;
mod trainer;

pub use characters::Characters;
pub use corpus::Corpus;
pub use hand_over::is_loadable;
pub use run::{End, Event, Run};
pub use schedule::Schedule;
pub use settings::{FormName, Settings};
pub use store::Best;
pub use trainer::{Stepped, Trainer};
