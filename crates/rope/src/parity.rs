//! Frequencies as Hugging Face computes them: every operation in `f32`, in its order, to its bits.
//!
//! Needed for `AnglePrecision::F32` alone. At position 1,000,000 one last bit of a frequency turns a pair by hundredths
//! of a radian, so "nearly the same frequency" is not the same rotation. The one operation that is not correctly rounded
//! everywhere is torch's `pow`: its vectors (32 elements at a time on AVX-512) go through SLEEF's `powf`, whose last
//! bit is off once in sixty, and the elements left over through the C library's. Both are followed here.

use crate::schedule::{Ladder, Ramp, Schedule, turning_pairs};

/// The frequencies of a validated rule in `f32`. Rules that Hugging Face does not have are rounded from `exact`.
pub(crate) fn frequencies(
    schedule: &Schedule,
    ladder: &Ladder,
    sequence_length: Option<u64>,
    exact: &[f64],
) -> Vec<f32> {
    let powers = |base: f64, count: usize| -> Vec<f32> {
        let exponent = |j: usize| (2 * j) as f32 / ladder.dim as f32;
        (0..count).map(|j| power(base as f32, exponent(j), j < count / 32 * 32)).collect()
    };
    let inverse = |base: f64, count: usize| powers(base, count).into_iter().map(f32::recip);
    let pairs = ladder.pairs;
    match schedule {
        Schedule::Default => inverse(ladder.base, pairs).collect(),
        Schedule::Linear { factor } => {
            inverse(ladder.base, pairs).map(|theta| theta / *factor as f32).collect()
        }
        Schedule::DynamicNtk { factor, trained_length } => {
            let trained = *trained_length as f64;
            let length = sequence_length.unwrap_or(0).max(*trained_length) as f64;
            let dim = ladder.dim as f64;
            let growth = ((factor * length / trained) - (factor - 1.0)).powf(dim / (dim - 2.0));
            inverse(ladder.base * growth, pairs).collect()
        }
        Schedule::Yarn(yarn) if matches!(yarn.ramp, Ramp::Index { .. }) => {
            let truncate = yarn.ramp == Ramp::Index { truncate: true };
            let (low, high) = yarn.index_range(ladder.base, ladder.dim as f64, truncate);
            let blend = |(j, power): (usize, f32)| {
                let ramp = ((j as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
                let keep = 1.0 - ramp;
                (yarn.factor as f32 * power).recip() * (1.0 - keep) + power.recip() * keep
            };
            powers(ladder.base, pairs).into_iter().enumerate().map(blend).collect()
        }
        Schedule::LongRope(long) => {
            let divisors = long.divisors(sequence_length).iter();
            let powers = powers(ladder.base, pairs);
            powers.into_iter().zip(divisors).map(|(power, &by)| (by as f32 * power).recip()).collect()
        }
        Schedule::Llama3(llama) => {
            let factor = llama.factor as f32;
            let (low, high) = (llama.low_freq_factor, llama.high_freq_factor);
            let length = llama.original_length as f64;
            let rule = |theta: f32| {
                // torch divides a number by a tensor as number · (1 / tensor).
                let wavelength = theta.recip() * std::f64::consts::TAU as f32;
                if wavelength > (length / low) as f32 {
                    theta / factor
                } else if wavelength < (length / high) as f32 {
                    theta
                } else {
                    let smooth = (wavelength.recip() * length as f32 - low as f32) / (high - low) as f32;
                    (1.0 - smooth) * theta / factor + smooth * theta
                }
            };
            inverse(ladder.base, pairs).map(rule).collect()
        }
        Schedule::Proportional { fraction, factor } => {
            let turning = turning_pairs(*fraction, ladder.dim).min(pairs);
            let mut list: Vec<f32> =
                inverse(ladder.base, turning).map(|theta| theta / *factor as f32).collect();
            list.resize(pairs, 0.0);
            list
        }
        _ => exact.iter().map(|&theta| theta as f32).collect(),
    }
}

/// base^exponent as torch computes it on a CPU, `vector` for elements in a full vector.
fn power(base: f32, exponent: f32, vector: bool) -> f32 {
    // SLEEF's range reduction below is written for ordinary positive numbers.
    if vector && base.is_normal() && base > 0.0 {
        Pair::logarithm(base).times(exponent).exponential()
    } else {
        f64::from(base).powf(f64::from(exponent)) as f32
    }
}

/// The unevaluated sum of two `f32`, with the roundings that SLEEF's double-single arithmetic makes with fused
/// products: its results are followed to the last bit, so the order of operations matters everywhere.
#[derive(Clone, Copy)]
struct Pair(f32, f32);

impl Pair {
    fn sum(a: f32, b: f32) -> Pair {
        Pair(a, 0.0).plus(b)
    }

    fn plus(self, y: f32) -> Pair {
        let s = self.0 + y;
        let v = s - self.0;
        Pair(s, (self.0 - (s - v)) + (y - v) + self.1)
    }

    /// Without the assumption that self is the larger.
    fn plus_pair(self, y: Pair) -> Pair {
        let s = self.0 + y.0;
        let v = s - self.0;
        Pair(s, (self.0 - (s - v)) + (y.0 - v) + (self.1 + y.1))
    }

    /// For |self| ≥ |y|.
    fn plus_smaller(self, y: Pair) -> Pair {
        let s = self.0 + y.0;
        Pair(s, self.0 - s + y.0 + self.1 + y.1)
    }

    fn times(self, y: f32) -> Pair {
        let s = self.0 * y;
        Pair(s, self.1.mul_add(y, self.0.mul_add(y, -s)))
    }

    fn times_pair(self, y: Pair) -> Pair {
        let s = self.0 * y.0;
        Pair(s, self.0.mul_add(y.1, self.1.mul_add(y.0, self.0.mul_add(y.0, -s))))
    }

    fn square(self) -> Pair {
        let s = self.0 * self.0;
        Pair(s, (self.0 + self.0).mul_add(self.1, self.0.mul_add(self.0, -s)))
    }

    fn over(self, d: Pair) -> Pair {
        let t = 1.0 / d.0;
        let s = self.0 * t;
        let u = t.mul_add(self.0, -s);
        let v = (-d.1).mul_add(t, (-d.0).mul_add(t, 1.0));
        Pair(s, s.mul_add(v, self.1.mul_add(t, u)))
    }

    /// ln x = e·ln 2 + 2·atanh((m−1)/(m+1)) for x = m·2^e, m in [0.75, 1.5).
    fn logarithm(x: f32) -> Pair {
        let e = ((x * (1.0 / 0.75)).to_bits() >> 23) as i32 - 127;
        let m = x * 2f32.powi(-e);
        let z = Pair::sum(-1.0, m).over(Pair::sum(1.0, m));
        let z2 = z.square();
        let tail = [0.285_112_68, 0.400_008].iter().fold(0.240_320_35_f32, |t, &c| t.mul_add(z2.0, c));
        let cubic = z2.times(tail).plus_pair(Pair(0.666_666_6, 3.691_838_6e-9));
        Pair(std::f32::consts::LN_2, -1.904_654_3e-9)
            .times(e as f32)
            .plus_smaller(Pair(2.0 * z.0, 2.0 * z.1))
            .plus_smaller(z2.times_pair(z).times_pair(cubic))
    }

    /// e^self = 2^q·e^s.
    fn exponential(self) -> f32 {
        let q = ((self.0 + self.1) * std::f32::consts::LOG2_E).round_ties_even();
        let s = self.plus(q * -0.693_145_75).plus(q * -1.428_606_8e-6);
        let sum = s.0 + s.1;
        let s = Pair(sum, s.0 - sum + s.1);
        let tail = [0.008_365_969, 0.041_671_082, 0.166_665_52, 0.499_999_85]
            .iter()
            .fold(0.001_363_246_5_f32, |u, &c| u.mul_add(s.0, c));
        let t = Pair(1.0, 0.0).plus_smaller(s.plus_smaller(s.square().times(tail)));
        (t.0 + t.1) * 2f32.powi(q as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::power;

    #[test]
    fn powers_are_torch_s_where_it_is_not_correctly_rounded() {
        // (base, exponent, torch in a full vector), read off torch 2.15 on AVX-512.
        for (base, exponent, torch) in [
            (10_000.0, 40.0 / 96.0, 46.415_882_f32),
            (500_000.0, 38.0 / 96.0, 180.236_33),
            (1_000_000.0, 74.0 / 128.0, 2942.727),
            (150_000.0, 12.0 / 64.0, 9.343_661),
        ] {
            assert_eq!(power(base, exponent, true), torch);
            assert_ne!(power(base, exponent, false), torch, "this one tells the two apart");
        }
    }
}
