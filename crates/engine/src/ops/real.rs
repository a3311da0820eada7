//! The two number types that every operation is written for: `f32` to run, `f64` to check.

use super::gemm::Kernel;
use super::loops::Loops;
use super::memory::Plain;
use crate::graph::Compiled;
use rope::Precision;
use std::fmt::Debug;
use std::iter::Sum;
use std::ops::{AddAssign, Div, MulAssign};

/// `f32` or `f64`. Sealed by its kernels.
#[expect(private_bounds, reason = "the kernels seal the trait")]
pub trait Real:
    Precision
    + Plain
    + Kernel
    + Compiled
    + Loops
    + Debug
    + PartialOrd
    + Div<Output = Self>
    + AddAssign
    + MulAssign
    + Sum
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// −∞.
    const NEG_INFINITY: Self;
    /// Above it [`exp`](Real::exp) is not to be trusted: it overflows, or stays where it is.
    const LARGEST_EXPONENT: Self;
    /// The nearest number to an `f64`.
    fn of(value: f64) -> Self {
        <Self as Precision>::from_f64(value)
    }
    /// e^self: for `f32` branch-free and accurate to about a unit in the last place, so that loops over it vectorise.
    fn exp(self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// Of the normal distribution, for x ≥ 0: the upper tail ½·erfc(x/√2) and the density e^(−x²/2)/√(2π).
    fn normal(self) -> (Self, Self);
    /// |self|
    fn abs(self) -> Self;
    /// The larger of two numbers.
    fn maximum(self, other: Self) -> Self;
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;
    const LARGEST_EXPONENT: f32 = 88.0;

    #[inline(always)]
    fn exp(self) -> f32 {
        // Above 88 the result is that of 88.
        let x = if self > 88.0 { 88.0 } else { self };
        exp_by([1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0], x)
    }

    #[inline(always)]
    fn sqrt(self) -> f32 {
        f32::sqrt(self)
    }

    #[inline(always)]
    fn normal(self) -> (f32, f32) {
        // erfc(z) = e^(−z²)·P(1/(1 + 0.4·z)): P fitted by least squares, 4e-10 off at most.
        const P: [f32; 8] = ERFC;
        let z = self * std::f32::consts::FRAC_1_SQRT_2;
        let t = 1.0 / z.mul_add(0.4, 1.0);
        let mut sum = P[7];
        for coefficient in [P[6], P[5], P[4], P[3], P[2], P[1], P[0]] {
            sum = t.mul_add(sum, coefficient);
        }
        let e = Real::exp(-z * z);
        (0.5 * t * sum * e, 0.398_942_3 * e)
    }

    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }

    #[inline(always)]
    fn maximum(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }
}

/// e^x for x ≤ 0 where the result is rounded to 16 bits, whose unit is a 256th: 3·10⁻⁶ of it off at most, in fewer steps.
#[inline(always)]
pub(crate) fn short_exp(x: f32) -> f32 {
    // The polynomial of degree 4 whose largest relative error is least.
    exp_by([0.041_458_627, 0.167_909_45, 0.500_043_6, 0.999_963_4, 0.999_999_3], x)
}

/// e^x = 2^n·e^r, |r| ≤ ln 2 / 2, for x up to 88 and with e^r by a polynomial, whose highest coefficient comes first. 0 below −87; the
/// comparisons are written so that NaN stays NaN.
#[inline(always)]
fn exp_by<const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    let clamped = if x < -87.0 { -87.0 } else { x };
    // Adding 1.5·2^23 rounds to a whole number and leaves it in the lowest bits.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let n = shifted - MAGIC;
    let r = n.mul_add(-0.693_359_4, clamped);
    let r = n.mul_add(2.121_944_4e-4, r);
    let mut sum = coefficients[0];
    for &coefficient in &coefficients[1..] {
        sum = r.mul_add(sum, coefficient);
    }
    let power = (shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127)) << 23;
    let y = sum * f32::from_bits(power);
    if x < -87.0 { 0.0 } else { y }
}

/// The coefficients of t, t², … in erfc(z)·e^(z²), t = 1/(1 + 0.4·z).
const ERFC: [f32; 8] = [
    0.225_753_17,
    0.229_878_66,
    0.161_791_77,
    0.369_336_7,
    -0.334_828_35,
    0.663_974_5,
    -0.390_261_83,
    0.074_355_36,
];

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;
    const LARGEST_EXPONENT: f64 = 709.0;

    fn exp(self) -> f64 {
        f64::exp(self)
    }

    fn sqrt(self) -> f64 {
        f64::sqrt(self)
    }

    fn normal(self) -> (f64, f64) {
        let z = self * std::f64::consts::FRAC_1_SQRT_2;
        let e = std::f64::consts::FRAC_1_PI.sqrt() * (-z * z).exp();
        let tail = if z < 2.0 {
            // erf z = 2/√π·e^(−z²)·Σ 2^n z^(2n+1)/(2n+1)!!: all terms positive, so nothing cancels.
            let (mut term, mut sum) = (z, z);
            for n in 1..200 {
                term *= 2.0 * z * z / f64::from(2 * n + 1);
                sum += term;
            }
            0.5 - e * sum
        } else {
            // erfc z = e^(−z²)/√π · 1/(z + ½/(z + 1/(z + 3/2/(z + …)))).
            0.5 * e / (1..400).rev().fold(z, |below, n| z + 0.5 * f64::from(n) / below)
        };
        (tail, std::f64::consts::FRAC_1_SQRT_2 * e)
    }

    fn abs(self) -> f64 {
        f64::abs(self)
    }

    fn maximum(self, other: f64) -> f64 {
        if self > other { self } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_two_units() {
        for step in -1_000_000..=1_000_000 {
            let x = step as f32 * 8.8e-5;
            let exact = f64::from(x).exp();
            let got = f64::from(Real::exp(x));
            if x > -87.0 {
                assert!((got - exact).abs() <= exact * 2.0 * f64::from(f32::EPSILON), "{x}: {got} {exact}");
            }
        }
        assert_eq!(Real::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Real::exp(-200.0f32), 0.0);
        assert_eq!(Real::exp(0.0f32), 1.0);
        assert!(Real::exp(f32::NAN).is_nan());
    }

    #[test]
    fn short_exponentials_are_right_to_16_bits() {
        for step in 0..=1_000_000 {
            let x = step as f32 * -8.7e-5;
            let exact = f64::from(x).exp();
            let got = f64::from(short_exp(x));
            assert!((got - exact).abs() <= 3e-6 * exact, "{x}: {got} {exact}");
        }
        assert_eq!(short_exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(short_exp(-200.0), 0.0);
        assert!(short_exp(f32::NAN).is_nan());
    }

    #[test]
    fn normal_tails_are_those_of_the_error_function() {
        // ½·erfc(x/√2) to sixteen digits.
        for (x, tail) in [
            (0.0, 0.5),
            (0.5, 0.308_537_538_725_986_9),
            (1.0, 0.158_655_253_931_457_05),
            (2.0, 0.022_750_131_948_179_21),
            (3.5, 2.326_290_790_355_25e-4),
            (5.0, 2.866_515_718_791_939e-7),
        ] {
            let (wide, density) = Real::normal(x);
            assert!((wide - tail).abs() <= 1e-13 * tail + 1e-16, "{x}: {wide} {tail}");
            let exact = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
            assert!((density - exact).abs() <= 1e-14 * exact, "{x}: {density} {exact}");
            let (single, density) = Real::normal(x as f32);
            assert!((f64::from(single) - tail).abs() <= 1e-6 * tail + 1e-9, "{x}: {single} {tail}");
            assert!((f64::from(density) - exact).abs() <= 2e-6 * exact, "{x}: {density} {exact}");
        }
    }
}
