//! Angles at far positions: as they are, as `f32` forms them, and from positions kept in `bf16`.

use super::check;
use crate::error::Result;
use rope::{AnglePrecision, Table, bf16};
use serde::{Deserialize, Serialize};

/// The frequencies and the position.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Features of a head.
    pub dim: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// Where the token stands.
    pub position: i64,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { dim: 128, base: 10_000.0, position: 1_000_000 }
    }
}

/// One pair, in three ways.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Its frequency.
    pub theta: f64,
    /// The angle in radians, whole turns included: m·θ, that product in `f32`, and the product with m in `bf16`.
    pub angles: [f64; 3],
    /// The cosine and sine of each of them.
    pub hands: [[f64; 2]; 3],
    /// How far the larger error of a cosine or sine goes: of the tables here, of `f32` angles, of `bf16` positions.
    pub errors: [f64; 3],
}

/// All pairs, fastest first.
#[derive(Clone, Debug, Serialize)]
pub struct Precision {
    /// The position as `bf16` keeps it.
    pub rounded: i64,
    /// How many neighbouring positions `bf16` keeps as that same one.
    pub shared: i64,
    /// The largest error of an angle at this position, in radians: formed in `f32`, and with the position in `bf16`.
    pub largest: [f64; 2],
    /// The pair with the largest error in `f32`.
    pub worst: usize,
    /// The largest error of a cosine or sine in the tables here.
    pub tables: f64,
    /// What no error of theirs exceeds: 0.51·2^-24.
    pub bound: f64,
    /// `[dim / 2]`
    pub pairs: Vec<Pair>,
}

/// The three ways, side by side.
pub fn precision(ask: &Ask) -> Result<Precision> {
    let rope = check::rope(ask.dim, ask.base)?;
    let position = check::position("position", ask.position)?;
    let rounded = kept(position);
    let single = rope.clone().with_angle_precision(AnglePrecision::F32);
    // A table makes its frequencies, which takes longer than its rows: as few as can be.
    let exact = rope.table::<f64>(position..position + 1, None)?;
    let single = single.table::<f32>(position..position + 1, None)?;
    let both = rope.table_of::<f32>(&[position as f64, rounded as f64], None)?;
    let count = rope.pairs();
    let hand = |table: &Table<f32>, entry: usize| [table.cos()[entry], table.sin()[entry]].map(f64::from);
    let pair = |pair: usize, theta: f64| {
        let truth = [exact.cos()[pair], exact.sin()[pair]];
        let hands = [hand(&both, pair), hand(&single, pair), hand(&both, count + pair)];
        let error = |hand: [f64; 2]| (hand[0] - truth[0]).abs().max((hand[1] - truth[1]).abs());
        // The product of two f32, as it is formed for AnglePrecision::F32.
        let product = position as f32 * single.frequencies().inv_freq()[pair] as f32;
        let angles = [position as f64 * theta, f64::from(product), rounded as f64 * theta];
        Pair { theta, angles, hands: [truth, hands[1], hands[2]], errors: hands.map(error) }
    };
    let thetas = exact.frequencies().inv_freq().iter().enumerate();
    let pairs: Vec<Pair> = thetas.map(|(index, &theta)| pair(index, theta)).collect();
    let off = |pair: &Pair, way: usize| (pair.angles[way] - pair.angles[0]).abs();
    let largest = |way: usize| pairs.iter().map(|pair| off(pair, way)).fold(0.0, f64::max);
    Ok(Precision {
        rounded,
        shared: shared(position),
        largest: [largest(1), largest(2)],
        worst: pairs.iter().position(|pair| off(pair, 1) == largest(1)).unwrap_or(0),
        tables: pairs.iter().map(|pair| pair.errors[0]).fold(0.0, f64::max),
        bound: 0.51 / (1u64 << 24) as f64,
        pairs,
    })
}

/// A position as `bf16` keeps it.
fn kept(position: i64) -> i64 {
    bf16::from_f64(position as f64).to_f64() as i64
}

/// How many whole positions are kept as the same number as this one: those nearer to it than to its neighbours.
fn shared(position: i64) -> i64 {
    let bits = bf16::from_f64(position as f64).to_bits();
    if bits == 0 {
        return 1;
    }
    let at = |bits: u16| bf16::from_bits(bits).to_f64();
    let (below, here, above) = (at(bits - 1), at(bits), at(bits + 1));
    let mut first = ((below + here) / 2.0).ceil() as i64;
    let mut last = ((here + above) / 2.0).floor() as i64;
    // Halfway between two the even one is taken.
    first += i64::from(kept(first) != kept(position));
    last -= i64::from(kept(last) != kept(position));
    last - first + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_cannot_tell_256_from_257() {
        let at = |position| precision(&Ask { position, ..Ask::default() }).unwrap();
        assert_eq!((at(256).rounded, at(257).rounded, at(255).rounded), (256, 256, 255));
        assert_eq!(at(257).pairs[0].angles, [257.0, 257.0, 256.0]);
        assert_eq!((at(0).shared, at(1).shared, at(255).shared), (1, 1, 1));
        // By asking for each position around.
        for position in [256, 257, 258, 259, 511, 512, 1000, 65_535, 99_999] {
            let here = kept(position);
            let same = (position - 2000..position + 2000).filter(|&other| kept(other.max(0)) == here);
            assert_eq!(at(position).shared, same.count() as i64, "{position}");
        }
        assert_eq!(at(1_000_000).rounded, 999_424);
    }

    #[test]
    fn single_precision_is_off_by_hundredths_at_a_million_and_the_tables_are_not() {
        let ask = Ask { base: 500_000.0, position: (1 << 20) - 1, ..Ask::default() };
        let answer = precision(&ask).unwrap();
        let rope = rope::Rope::builder(128).base(500_000.0).build().unwrap();
        let nearby = roformer::bands::single_precision_error(&rope, 1 << 20);
        assert!(answer.largest[0] <= nearby && answer.largest[0] > 1e-2, "{} {nearby}", answer.largest[0]);
        // Half a unit of the product is 2^-6 or more there, and the frequency is off as well.
        assert!(nearby < 0.1, "{nearby}");
        let worst = &answer.pairs[answer.worst];
        assert_eq!((worst.angles[1] - worst.angles[0]).abs(), answer.largest[0]);
        for position in [0, 1, 1000, 1_000_000, 1 << 24, check::MAX_POSITION] {
            let answer = precision(&Ask { position, ..ask }).unwrap();
            assert!(answer.tables <= answer.bound, "{position}: {}", answer.tables);
            assert!(answer.pairs.iter().all(|pair| pair.errors.iter().all(|error| *error <= 2.0)));
        }
        assert_eq!(precision(&Ask { position: 0, ..ask }).unwrap().largest, [0.0, 0.0]);
    }

    #[test]
    fn what_cannot_be_shown_is_refused_by_name() {
        let refused = |ask: Ask, name: &str| {
            let message = precision(&ask).unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        };
        refused(Ask { position: -1, ..Ask::default() }, "position is -1");
        refused(Ask { position: i64::MAX, ..Ask::default() }, "position");
        refused(Ask { dim: 1, ..Ask::default() }, "dim is 1");
        refused(Ask { base: f64::NAN, ..Ask::default() }, "base is NaN");
    }
}
