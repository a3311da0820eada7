//! One run on several processes, on one machine or on many: each step's batches are dealt out, their gradients summed, and the
//! optimiser's work divided.
//!
//! Rank 0 has the run: its folder, evaluations, checkpoints. All have the same text and the same parameters. Batch p of a step is
//! rank p mod W's; gradients are summed batch by batch in the order of the batches, which is the order of one process, so that the
//! bits are the same on any number of processes. Each owns a part of the parameters: there the sums come together, there are the
//! optimiser's moments, and from there the parameters go to all.
//!
//! ```text
//! place.rs  which process this is, as launchers say it
//! meet.rs   how processes find each other, and who is refused
//! mesh.rs   which part is whose, and sums in order
//! watch.rs  who is lost
//! wire.rs   messages
//! ```
//!
//! A library for messages (MPI, NCCL) is not needed: launchers of any kind start the processes and say who they are, and plain
//! connections carry the rest. Sums of those libraries have an order of their own, which depends on the number of processes.

mod meet;
mod mesh;
mod place;
mod watch;
mod wire;

pub use meet::Meeting;
pub(super) use meet::{Guest, Terms};
pub(super) use mesh::part;
pub use place::Place;

use crate::error::{Error, Result};
use crate::ops::optimizer::{NORM_BLOCK, norm_of_blocks, squares_of_blocks};
use mesh::Mesh;
use std::io;
use std::ops::Range;
use watch::{Outcome, Watch};

/// A process's place among the others, while a run is at work.
pub(super) struct Team {
    // Dropped first: what is lost is told before links are closed.
    watch: Watch,
    mesh: Mesh,
}

/// What rank 0 has called the others to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A step.
    Step(u64),
    /// To give their moments, for a checkpoint.
    Moments,
    /// The end, with rank 0's exit code.
    End(u32),
}

/// The call for moments: no step has this number.
const MOMENTS: u64 = u64::MAX;

impl Team {
    pub fn world(&self) -> usize {
        self.mesh.world
    }

    pub fn rank(&self) -> usize {
        self.mesh.rank
    }

    /// The part of `len` parameters that this process owns.
    pub fn own(&self, len: usize) -> Range<usize> {
        self.mesh.own(len)
    }

    /// Rank 0 calls the others to a step.
    pub fn call(&self, step: u64) -> Result<()> {
        self.checked(self.mesh.call(step))
    }

    /// The others wait for what they are called to.
    pub fn hear(&self) -> Result<Heard> {
        match self.mesh.hear() {
            Ok(MOMENTS) => Ok(Heard::Moments),
            Ok(step) => Ok(Heard::Step(step)),
            Err(error) => match self.watch.outcome() {
                Some(Outcome::Ended(code)) => Ok(Heard::End(code)),
                _ => Err(self.why(&error)),
            },
        }
    }

    /// A round of a step, to which the first `givers` ranks give the loss and the gradients of a batch each. Returns `loss` with theirs
    /// added; their gradients are added to `sum`, this process's part of those so far, which there are none of where `is_first`.
    pub fn add(
        &self,
        (own, givers): (Option<(f64, &[f32])>, usize),
        is_first: bool,
        len: usize,
        (loss, sum): (f64, &mut [f32]),
    ) -> Result<f64> {
        let (own_loss, own) = own.unzip();
        let said = self.mesh.tell(own_loss.as_slice(), |rank| usize::from(rank < givers));
        let loss = self.checked(said)?.iter().fold(loss, |loss, own| loss + own);
        self.checked(self.mesh.add(own, givers, is_first, len, sum))?;
        Ok(loss)
    }

    /// The norm of `len` gradients, of which `sum` is this process's part.
    pub fn norm(&self, len: usize, sum: &[f32]) -> Result<f64> {
        let blocks = |rank: usize| part(len, rank, self.world()).len().div_ceil(NORM_BLOCK);
        Ok(norm_of_blocks(&self.checked(self.mesh.tell(&squares_of_blocks(sum), blocks))?))
    }

    /// Gives all others this process's part of the parameters, and takes theirs.
    pub fn share(&self, parameters: &mut [f32]) -> Result<()> {
        self.checked(self.mesh.share(parameters))
    }

    /// Rank 0 gives all others its parameters, and each its part of the moments.
    pub fn begin(&self, parameters: &[f32], moments: [&[f32]; 2]) -> Result<()> {
        (1..self.world()).try_for_each(|rank| {
            let own = part(parameters.len(), rank, self.world());
            let [first, second] = moments.map(|moments| &moments[own.clone()]);
            let given =
                [parameters, first, second].into_iter().try_for_each(|list| self.mesh.give(rank, list));
            self.checked(given)
        })
    }

    /// The others take what they begin with.
    pub fn join(&self, parameters: &mut [f32], moments: [&mut [f32]; 2]) -> Result<()> {
        let [first, second] = moments;
        let taken = [parameters, first, second].into_iter().try_for_each(|list| self.mesh.take(0, list));
        self.checked(taken)
    }

    /// Rank 0 calls for the moments.
    pub fn call_for_moments(&self) -> Result<()> {
        self.call(MOMENTS)
    }

    /// Takes a part of a list of `len` numbers that its owner gives: `numbers`, from `first` on.
    pub fn take(&self, len: usize, first: usize, numbers: &mut [f32], own: &[f32]) -> Result<()> {
        for rank in 0..self.world() {
            let theirs = part(len, rank, self.world());
            let (start, end) = (theirs.start.max(first), theirs.end.min(first + numbers.len()));
            if start >= end {
                continue;
            }
            let numbers = &mut numbers[start - first..end - first];
            match rank == self.rank() {
                true => numbers.copy_from_slice(&own[start - theirs.start..end - theirs.start]),
                false => self.checked(self.mesh.take(rank, numbers))?,
            }
        }
        Ok(())
    }

    /// The others give rank 0 their parts of the moments.
    pub fn give(&self, moments: [&[f32]; 2]) -> Result<()> {
        self.checked(moments.into_iter().try_for_each(|moments| self.mesh.give(0, moments)))
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
            Some(Outcome::Lost(rank)) => format!("rank {rank} of {} was lost", self.world()),
            Some(Outcome::Ended(_)) => "rank 0 has ended the run".into(),
            None => format!("a link between ranks was lost: {error}"),
        };
        Error::Team { reason }
    }
}
