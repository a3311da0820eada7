//! A wall of clocks, one per pair: which angles training has seen, and which a longer text reaches.

use super::check;
use crate::error::Result;
use roformer::bands::Seen;
use rope::analysis;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// The frequencies, how far training went, and how far a text shall go.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The length of the training sequences.
    pub length: i64,
    /// The length that is asked for.
    pub context: i64,
    /// Where the hands stand.
    pub position: i64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { dim: 128, base: 10_000.0, length: 4096, context: 32_768, position: 1000 }
    }
}

/// One pair as a clock. Angles are in radians, from 0 to 2π.
#[derive(Clone, Debug, Serialize)]
pub struct Clock {
    /// Its frequency, in radians per position.
    pub theta: f64,
    /// Positions that a full turn takes.
    pub wavelength: f64,
    /// Turns within the trained length.
    pub turns: f64,
    /// The arc from 0 that training has seen.
    pub seen: f64,
    /// The arc from 0 that is reached within the length asked for.
    pub reached: f64,
    /// Where the hand stands.
    pub angle: f64,
    /// Whether training never had the hand there.
    pub is_beyond: bool,
}

/// All pairs, fastest first.
#[derive(Clone, Debug, Serialize)]
pub struct Clocks {
    /// Pairs that do not complete a turn within the trained length.
    pub never_turning: usize,
    /// Pairs that reach angles within the length asked for that training has not seen: what `roformer inspect` says of a
    /// model's own rule.
    pub unseen: usize,
    /// Pairs whose hand stands at such an angle.
    pub beyond: usize,
    /// `[dim / 2]`
    pub clocks: Vec<Clock>,
}

/// The wall.
pub fn clocks(ask: &Ask) -> Result<Clocks> {
    let rope = check::rope(ask.dim, ask.base)?;
    let length = check::within("length", ask.length, 1..=check::MAX_POSITION)? as u64;
    let context = check::within("context", ask.context, 1..=check::MAX_POSITION)? as u64;
    let position = check::position("position", ask.position)?;
    let table = rope.table::<f64>(position..position + 1, None)?;
    let theta = table.frequencies().inv_freq();
    let all_seen = Seen { length, angles: theta.iter().map(|theta| theta * length as f64).collect() };
    let trained = analysis::pairs(theta, length);
    let reached = analysis::pairs(theta, context.max(length));
    let clock = |pair: usize| {
        let seen = TAU * trained[pair].coverage;
        // Up to the trained length the hand stands within what was seen; the sine and cosine of its end may be a hair beyond.
        let angle = table.sin()[pair].atan2(table.cos()[pair]).rem_euclid(TAU);
        let is_beyond = position as u64 > length && trained[pair].coverage < 1.0 && angle > seen;
        let analysis::PairReport { theta, wavelength, turns, .. } = trained[pair];
        Clock { theta, wavelength, turns, seen, reached: TAU * reached[pair].coverage, angle, is_beyond }
    };
    let clocks: Vec<Clock> = (0..theta.len()).map(clock).collect();
    Ok(Clocks {
        never_turning: all_seen.never_turned(),
        unseen: all_seen.unseen(theta, context),
        beyond: clocks.iter().filter(|clock| clock.is_beyond).count(),
        clocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_that_inspect_gives() {
        let answer = clocks(&Ask::default()).unwrap();
        // Pairs with a wavelength above 4096: from j = 46 on.
        assert_eq!((answer.never_turning, answer.unseen), (18, 18));
        assert_eq!(answer.never_turning, analysis::never_turning(&thetas(&answer), 4096));
        assert!(answer.clocks[45].wavelength < 4096.0 && answer.clocks[46].wavelength > 4096.0);
        let rope = check::rope(128, 1e4).unwrap();
        let seen = Seen::new(&rope, None, Some(4096)).unwrap();
        let advice = roformer::advice::advise(&rope, None, &seen, Some(4096), 32_768);
        assert_eq!((answer.never_turning, answer.unseen), (seen.never_turned(), advice.candidates[0].unseen));
        // A pair that has completed a turn has nothing new to reach.
        assert_eq!((answer.clocks[45].seen, answer.clocks[45].reached), (TAU, TAU));
        assert!(answer.clocks[46].seen < answer.clocks[46].reached);
        // The hands: position·θ, less whole turns; within training none is beyond.
        for clock in &answer.clocks {
            assert!((clock.angle - (1000.0 * clock.theta).rem_euclid(TAU)).abs() < 1e-9);
            assert!(!clock.is_beyond);
        }
    }

    #[test]
    fn nothing_is_unseen_within_the_trained_length_and_a_larger_base_leaves_more_unturned() {
        let within = clocks(&Ask { context: 4096, position: 4096, ..Ask::default() }).unwrap();
        assert_eq!((within.never_turning, within.unseen, within.beyond), (18, 0, 0));
        let shorter = clocks(&Ask { context: 64, ..Ask::default() }).unwrap();
        assert!(shorter.clocks.iter().all(|clock| clock.reached == clock.seen));
        let far = clocks(&Ask { position: 8000, ..Ask::default() }).unwrap();
        // At 8000 the pairs with wavelengths above 8000 stand beyond what was seen; those between 4096 and 8000 came round.
        let expected = far.clocks.iter().filter(|clock| clock.wavelength > 4096.0);
        let expected = expected.filter(|clock| (8000.0 * clock.theta).rem_euclid(TAU) > 4096.0 * clock.theta);
        assert_eq!(far.beyond, expected.count());
        assert!(far.beyond > 0 && far.beyond < 18);
        let larger = clocks(&Ask { base: 500_000.0, ..Ask::default() }).unwrap();
        assert_eq!(larger.never_turning, analysis::never_turning(&thetas(&larger), 4096));
        assert!(larger.never_turning > 18);
    }

    fn thetas(clocks: &Clocks) -> Vec<f64> {
        clocks.clocks.iter().map(|clock| clock.theta).collect()
    }

    #[test]
    fn what_cannot_be_shown_is_refused_by_name() {
        let refused = |ask: Ask, name: &str| {
            let message = clocks(&ask).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        refused(Ask { length: 0, ..Ask::default() }, "length is 0");
        refused(Ask { context: -5, ..Ask::default() }, "context is -5");
        refused(Ask { context: i64::MAX, ..Ask::default() }, "context");
        refused(Ask { position: -1, ..Ask::default() }, "position is -1");
        refused(Ask { dim: 100_000, ..Ask::default() }, "dim");
        refused(Ask { base: f64::NAN, ..Ask::default() }, "base is NaN");
        // The largest of everything is shown.
        let most = check::MAX_POSITION;
        let ask = Ask { dim: 512, base: 1e12, length: most, context: most, position: most };
        assert_eq!(clocks(&ask).unwrap().clocks.len(), 256);
    }
}
