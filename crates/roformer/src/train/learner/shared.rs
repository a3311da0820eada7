//! A step of several processes: each computes the gradients of its batches, and updates the part of the parameters that it owns, of
//! which it alone has the optimiser's moments.

use super::{Engine, Learner, StepResult, apply};
use crate::error::{Error, Result};
use crate::graph::Batch;
use crate::network::Laid;
use crate::ops::Memory;
use crate::ops::optimizer::{State, Update};
use crate::train::team::Team;
use std::ops::Range;

impl Learner {
    /// Makes this one of several that begin with rank 0's parameters and moments. Of the moments each keeps those of its part alone.
    pub(in crate::train) fn enter(&mut self, team: &Team) -> Result<()> {
        if team.rank() == 0 {
            team.begin(self.parameters(), self.moments())?;
        }
        self.part = team.own(self.layout.len());
        self.ranges = within(&self.layout.decaying(), &self.part);
        self.sum = Memory::zeros(self.part.len()).ok_or(Error::memory("gradients"))?;
        for moments in [&mut self.first, &mut self.second] {
            let mut kept = Memory::zeros(self.part.len()).ok_or(Error::memory("the optimiser"))?;
            if team.rank() == 0 {
                kept.copy_from_slice(&moments[self.part.clone()]);
            }
            *moments = kept;
        }
        if team.rank() > 0 {
            let Learner { first, second, engine, .. } = self;
            team.join(on_cpu(engine)?.graph.parameters_mut(), [first, second])?;
        }
        Ok(())
    }

    /// Takes a step with the other processes. Batch p is rank p mod W's; the gradients of a round of W batches are added to those of the
    /// rounds before in the order of the ranks, so that the sum has the order of the batches, whoever computed them.
    pub(in crate::train) fn step_with(
        &mut self,
        team: &Team,
        update: &Update,
        parts: u64,
        mut fill: impl FnMut(u64, &mut Batch),
    ) -> Result<StepResult> {
        let Learner { outline, layout, part: own, ranges, first, second, sum, engine } = self;
        let laid = on_cpu(engine)?;
        let (rank, world, len) = (team.rank() as u64, team.world() as u64, layout.len());
        let mut loss = 0.0;
        for begun in (0..parts).step_by(team.world()) {
            let part = begun + rank;
            let mut given = None;
            if part < parts {
                laid.graph.clear();
                fill(part, laid.graph.batch());
                outline.check(laid.graph.batch())?;
                given = Some(laid.graph.step(1.0 / parts as f64));
            }
            let given = given.map(|loss| (loss, laid.graph.gradients()));
            let givers = world.min(parts - begun) as usize;
            loss = team.add((given, givers), begun == 0, len, (loss, sum))?;
        }
        let result = StepResult { loss: loss / parts as f64, norm: team.norm(len, sum)? };
        // All come to the same loss and norm.
        if result.is_finite() {
            let parameters = laid.graph.parameters_mut();
            let state = State { parameters: &mut parameters[own.clone()], gradients: sum, first, second };
            apply(update, result.norm, state, ranges);
            team.share(parameters)?;
        }
        Ok(result)
    }
}

fn on_cpu(engine: &mut Engine) -> Result<&mut Laid<f32>> {
    match engine {
        Engine::Cpu(laid) => Ok(laid),
        #[cfg(feature = "cuda")]
        Engine::Cuda(_) => Err(Error::input("the device", "a GPU", "the CPU, where several processes train")),
    }
}

/// What of some ranges lies within a part, counted from its beginning.
fn within(ranges: &[(Range<usize>, bool)], part: &Range<usize>) -> Vec<(Range<usize>, bool)> {
    let cut = |(range, decays): &(Range<usize>, bool)| {
        let (start, end) = (range.start.max(part.start), range.end.min(part.end));
        (start < end).then(|| (start - part.start..end - part.start, *decays))
    };
    ranges.iter().filter_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_a_part() {
        let ranges = [(0..10, true), (10..11, false), (11..11, true), (11..30, true)];
        assert_eq!(within(&ranges, &(0..30)), [(0..10, true), (10..11, false), (11..30, true)]);
        assert_eq!(within(&ranges, &(5..10)), [(0..5, true)]);
        assert_eq!(within(&ranges, &(8..20)), [(0..2, true), (2..3, false), (3..12, true)]);
        assert_eq!(within(&ranges, &(30..30)), []);
    }
}
