//! Codes of positions: a share of the length, the number itself, its binary digits, and their smooth form, sines and cosines.

use super::check::{self, within};
use crate::error::{Error, Result};
use roformer::encoding::sinusoid;
use serde::{Deserialize, Serialize};

/// The most positions.
const MOST: usize = 64;
/// The most features of a sinusoidal code.
const MOST_FEATURES: usize = 32;
/// The most pairs of sines and cosines that are drawn.
const WAVES: usize = 7;
/// Points of a wave.
const POINTS: usize = 193;

/// Which positions, and how wide the sinusoidal code is.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Positions, from 0 on.
    pub length: usize,
    /// The position from which distances are taken.
    pub position: usize,
    /// Features of the sinusoidal code.
    pub width: usize,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { length: 16, position: 7, width: 26 }
    }
}

/// A number for each code at one or more positions.
#[derive(Clone, Debug, Serialize)]
pub struct Distances {
    /// Of m/L.
    pub scalar: Vec<f64>,
    /// Of m.
    pub integer: Vec<f64>,
    /// Of the binary digits: √(digits that differ).
    pub binary: Vec<f64>,
    /// Of the sines and cosines.
    pub sinusoidal: Vec<f64>,
}

/// A sine and a cosine of a pair, drawn through the positions between the whole ones; rounded to what can be drawn.
#[derive(Clone, Debug, Serialize)]
pub struct Wave {
    /// `[POINTS]`, from position 0 to the last.
    pub sin: Vec<f64>,
    /// The same.
    pub cos: Vec<f64>,
}

/// The codes of all positions.
#[derive(Clone, Debug, Serialize)]
pub struct Codes {
    /// m/L, `[length]`.
    pub scalar: Vec<f64>,
    /// Binary digits, the lowest first, `[length, digits]`.
    pub binary: Vec<Vec<u8>>,
    /// Sines and cosines, `[length, width]`.
    pub sinusoidal: Vec<Vec<f64>>,
    /// The frequency of each pair, `[width / 2]`.
    pub omega: Vec<f64>,
    /// The first few pairs as curves.
    pub waves: Vec<Wave>,
    /// From each position to the next, `[length − 1]`.
    pub steps: Distances,
    /// From the position asked for to each, `[length]`.
    pub distances: Distances,
}

/// The codes of the positions from 0 to `length` − 1.
pub fn codes(ask: &Ask) -> Result<Codes> {
    let length = within("length", ask.length, 2..=MOST)?;
    let position = within("position", ask.position, 0..=length - 1)?;
    let width = within("width", ask.width, 2..=MOST_FEATURES)?;
    if !width.is_multiple_of(2) {
        return Err(Error::refused(
            format!("width is {width}; expected an even number: a sine and a cosine per pair"),
            format!("width 是 {width}；应为偶数：每对一个正弦、一个余弦"),
        ));
    }
    let digits = usize::BITS - (length - 1).leading_zeros();
    let scalar: Vec<f64> = (0..length).map(|m| m as f64 / length as f64).collect();
    let binary: Vec<Vec<u8>> =
        (0..length).map(|m| (0..digits).map(|digit| (m >> digit & 1) as u8).collect()).collect();
    let code = |m: usize| (0..width).map(|feature| sinusoid(m as f64, feature, width)).collect();
    let sinusoidal: Vec<Vec<f64>> = (0..length).map(code).collect();
    let between = |pairs: &[(usize, usize)]| Distances {
        scalar: pairs.iter().map(|&(m, n)| (scalar[m] - scalar[n]).abs()).collect(),
        integer: pairs.iter().map(|&(m, n)| m.abs_diff(n) as f64).collect(),
        binary: pairs.iter().map(|&(m, n)| f64::from((m ^ n).count_ones()).sqrt()).collect(),
        sinusoidal: pairs.iter().map(|&(m, n)| distance(&sinusoidal[m], &sinusoidal[n])).collect(),
    };
    let steps: Vec<(usize, usize)> = (1..length).map(|n| (n - 1, n)).collect();
    let from: Vec<(usize, usize)> = (0..length).map(|n| (position, n)).collect();
    let curve = |feature: usize| -> Vec<f64> {
        let at = |point: usize| (length - 1) as f64 * point as f64 / (POINTS - 1) as f64;
        (0..POINTS).map(|point| (1e4 * sinusoid(at(point), feature, width)).round() / 1e4).collect()
    };
    let wave = |pair: usize| Wave { sin: curve(2 * pair), cos: curve(2 * pair + 1) };
    Ok(Codes {
        steps: between(&steps),
        distances: between(&from),
        omega: check::rope(width, 10_000.0)?.frequencies(None).inv_freq().to_vec(),
        waves: (0..WAVES.min(width / 2)).map(wave).collect(),
        scalar,
        binary,
        sinusoidal,
    })
}

/// How far one code is from another.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_neighbours_jump_and_sinusoidal_ones_do_not() {
        let codes = codes(&Ask::default()).unwrap();
        assert_eq!(codes.binary[5], [1, 0, 1, 0]);
        assert_eq!(codes.binary[14], [0, 1, 1, 1]);
        // 0111 → 1000: every digit changes.
        assert_eq!((codes.steps.binary[7], codes.steps.binary[6]), (2.0, 1.0));
        // Seven positions away, and as near as the next one.
        assert_eq!((codes.distances.binary[15], codes.distances.binary[6]), (1.0, 1.0));
        let step = codes.steps.sinusoidal[0];
        assert!(codes.steps.sinusoidal.iter().all(|other| (other - step).abs() < 1e-12));
        // |p(m+1) − p(m)|² = Σ 2 − 2·cos ω.
        let wanted: f64 = codes.omega.iter().map(|omega| 2.0 - 2.0 * omega.cos()).sum::<f64>().sqrt();
        assert!((step - wanted).abs() < 1e-12);
        // About half the speed from pair to pair, as from digit to digit.
        assert!((codes.omega[0] / codes.omega[1] - 2.03).abs() < 0.01);
    }

    #[test]
    fn a_share_depends_on_the_length() {
        let (short, long) =
            (codes(&Ask::default()).unwrap(), codes(&Ask { length: 32, ..Ask::default() }).unwrap());
        assert_eq!((short.scalar[4], long.scalar[4], long.scalar[8]), (0.25, 0.125, 0.25));
        assert_eq!((short.steps.scalar[3], short.steps.integer[3]), (1.0 / 16.0, 1.0));
        assert_eq!(short.sinusoidal[4], long.sinusoidal[4]);
    }

    #[test]
    fn frequencies_and_waves_are_those_of_the_code() {
        let codes = codes(&Ask { length: 64, position: 63, width: 32 }).unwrap();
        for (pair, omega) in codes.omega.iter().enumerate() {
            assert!((codes.sinusoidal[1][2 * pair] - omega.sin()).abs() < 1e-14);
        }
        // Every 64th point of a wave is a whole position: 0, 21, 42 and 63.
        for (wave, pair) in codes.waves.iter().zip(0..) {
            for (point, m) in [(0, 0), (64, 21), (128, 42), (192, 63)] {
                assert!((wave.sin[point] - codes.sinusoidal[m][2 * pair]).abs() <= 0.5e-4 + 1e-12);
                assert!((wave.cos[point] - codes.sinusoidal[m][2 * pair + 1]).abs() <= 0.5e-4 + 1e-12);
            }
        }
        // The largest answer there is.
        assert!(serde_json::to_vec(&codes).unwrap().len() < 100_000);
    }

    #[test]
    fn absurd_asks_are_refused() {
        for (length, position, width) in
            [(0, 0, 8), (1, 0, 8), (65, 0, 8), (16, 16, 8), (16, 0, 7), (16, 0, 0)]
        {
            assert!(codes(&Ask { length, position, width }).is_err(), "{length} {position} {width}");
        }
        assert!(codes(&Ask { length: usize::MAX, position: usize::MAX, width: usize::MAX }).is_err());
        assert_eq!(codes(&Ask { length: 2, position: 1, width: 2 }).unwrap().binary, [[0], [1]]);
    }
}
