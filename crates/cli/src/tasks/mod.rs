//! The commands on texts. Each says which fields its records have, and implements [`Task`](crate::text::Task) over the
//! library's [`Pipeline`](roformer::Pipeline).
//!
//! ```text
//! fill_mask.rs   what stands behind a mask
//! embed.rs       vectors
//! similarity.rs  how alike two texts are
//! rank.rs        what is nearest to a query
//! classify.rs    labels of texts and of tokens
//! answer.rs      the answer to a question
//! generate.rs    what follows a text, or says the same
//! tokenize.rs    the tokens of a text
//! show.rs        how results look for people
//! vectors.rs     prompts and dimensions, for the commands that make vectors
//! ```

pub mod answer;
pub mod classify;
pub mod embed;
pub mod fill_mask;
pub mod generate;
pub mod rank;
pub(crate) mod show;
pub mod similarity;
pub mod tokenize;
mod vectors;

pub use show::Characters;

use crate::long::say;
use crate::text::{Fields, Record};
use roformer::Pipeline;
use roformer::ops::Backend;

/// Records of one text.
const ONE: Fields = Fields { required: &["text"], optional: &[] };

/// Says so if the vocabulary does not have a large share of the texts: what comes out is then worth little.
fn warn_of_unknown<B: Backend>(pipeline: &Pipeline<B>) {
    if let Some(warning) = pipeline.unknown().warning() {
        say(&format!("warning: {warning}"));
    }
}

/// The first text of each record.
fn texts(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.text(0)).collect()
}

/// The first two texts of each record.
fn pairs(records: &[Record]) -> Vec<(&str, &str)> {
    records.iter().map(|record| (record.text(0), record.text(1))).collect()
}
