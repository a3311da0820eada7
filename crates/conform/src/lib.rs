#![doc = include_str!("../README.md")]
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod answers;
mod case;
mod check;
mod diagnosis;
mod dtype;
mod error;
pub mod folder;
mod judge;
pub mod mistakes;
mod plan;
mod report;
mod sets;

pub use answers::{Answers, Tensor};
pub use case::{Case, HEADS, Meaning, Resolved, tensor_name};
pub use check::{Number, check};
pub use diagnosis::Finding;
pub use dtype::Dtype;
pub use error::{Error, Result};
pub use judge::{Angles, Explanation, Judge, Level, Outcome, Rounding, Verdict, Worst, judge};
pub use report::{Named, Report};
pub use sets::{full, of_config, small, tagged};
