//! One run on several processes, on one machine or on many: each step's batches are dealt out, and their gradients summed.
//!
//! Rank 0 has the run: its folder, the optimiser, evaluations, checkpoints. The others have the same text and the same
//! parameters, and compute gradients. Batch p of a step is rank p mod W's; gradients are summed batch by batch in the order of
//! the batches, which is the order of one process, so that the bits are the same on any number of processes.
//!
//! ```text
//! place.rs  which process this is, as launchers say it
//! meet.rs   how processes find each other, and who is refused
//! ring.rs   sums in order
//! watch.rs  who is lost
//! wire.rs   messages
//! ```
//!
//! A library for messages (MPI, NCCL) is not needed: launchers of any kind start the processes and say who they are, and plain
//! connections carry the rest. Sums of those libraries have an order of their own, which depends on the number of processes.

mod meet;
mod place;
mod ring;
mod watch;
mod wire;

pub use meet::Meeting;
pub(super) use meet::{Guest, Terms};
pub use place::Place;

use crate::error::{Error, Result};
use ring::Ring;
use std::io;
use watch::{Outcome, Watch};

/// A process's place among the others, while a run is at work.
pub(super) struct Team {
    // Dropped first: what is lost is told before links are closed.
    watch: Watch,
    ring: Ring,
}

/// How a run ended for a rank that helped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A step.
    Step(u64),
    /// The end, with rank 0's exit code.
    End(u32),
}

impl Team {
    pub fn world(&self) -> u64 {
        self.ring.world as u64
    }

    pub fn rank(&self) -> u64 {
        self.ring.rank as u64
    }

    /// Rank 0 calls the others to a step.
    pub fn call(&mut self, step: u64) -> Result<()> {
        let called = self.ring.call(step);
        self.checked(called)
    }

    /// The others wait for it.
    pub fn hear(&mut self) -> Result<Heard> {
        match self.ring.hear() {
            Ok(step) => Ok(Heard::Step(step)),
            Err(error) => match self.watch.outcome() {
                Some(Outcome::Ended(code)) => Ok(Heard::End(code)),
                _ => Err(self.why(&error)),
            },
        }
    }

    /// A round of rank 0: the sum of `own` and the others' gradients into `sum`, and the sum of losses.
    pub fn lead(&mut self, loss: f64, own: &[f32], sum: &mut [f32]) -> Result<f64> {
        let led = self.ring.lead(loss, own, sum);
        self.checked(led)
    }

    /// A round of another rank, which may have nothing to add to the `len` numbers.
    pub fn follow(&mut self, own: Option<(f64, &[f32])>, len: usize) -> Result<()> {
        let followed = self.ring.follow(own, len);
        self.checked(followed)
    }

    /// Gives the others rank 0's parameters.
    pub fn give(&mut self, parameters: &[f32]) -> Result<()> {
        let given = self.ring.give(parameters);
        self.checked(given)
    }

    /// Takes them.
    pub fn take(&mut self, parameters: &mut [f32]) -> Result<()> {
        let taken = self.ring.take(parameters);
        self.checked(taken)
    }

    /// Ends the run for all.
    pub fn end(self, code: u32) {
        self.watch.end(code);
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| self.why(&error))
    }

    /// Why a link failed: who is lost, if that is known.
    fn why(&self, error: &io::Error) -> Error {
        let reason = match self.watch.outcome() {
            Some(Outcome::Lost(rank)) => format!("rank {rank} of {} was lost", self.ring.world),
            Some(Outcome::Ended(_)) => "rank 0 has ended the run".into(),
            None => format!("a link between ranks was lost: {error}"),
        };
        Error::Team { reason }
    }
}
