//! Sine and cosine of position · frequency, right to the last bits of an `f64` at every position.
//!
//! The product is formed exactly (a rounded part and a rest) and reduced by multiples of π/2 before anything is lost;
//! then a Taylor polynomial on [−π/4, π/4]. Up to an angle of 2^52 the absolute error stays near 2^-53.

use crate::wide::Wide;

/// π/2 in two parts: together 106 bits.
const HALF_PI: Wide = Wide { hi: std::f64::consts::FRAC_PI_2, lo: 6.123_233_995_736_766e-17 };

/// Positions beyond this magnitude are not whole numbers in an `f64`.
pub(crate) const MAX_POSITION: i64 = 1 << 53;

/// Angles beyond this magnitude are not reduced.
pub(crate) const MAX_ANGLE: f64 = (1u64 << 52) as f64;

/// An angle as a rounded part and the rest that the rounding left over.
#[derive(Clone, Copy)]
pub(crate) struct Angle {
    pub rounded: f64,
    pub rest: f64,
}

impl Angle {
    /// position · frequency.
    #[inline(always)]
    pub fn product(position: f64, high: f64, low: f64) -> Self {
        let exact = Wide::product(position, high);
        Angle { rounded: exact.hi, rest: exact.lo + position * low }
    }

    /// The angle as single precision computes it: both factors and the product rounded to `f32`.
    #[inline(always)]
    pub fn product_f32(position: f64, frequency: f64) -> Self {
        Angle { rounded: f64::from(position as f32 * frequency as f32), rest: 0.0 }
    }

    /// Sine and cosine.
    #[inline(always)]
    pub fn sin_cos(self) -> (f64, f64) {
        let turns = (self.rounded * std::f64::consts::FRAC_2_PI).round_ties_even();
        // The first step is exact: both sides are multiples of the last bit of π/2 and nearly cancel.
        let reduced = turns.mul_add(-HALF_PI.hi, self.rounded);
        let x = turns.mul_add(-HALF_PI.lo, reduced) + self.rest;
        let (sine, cosine) = (sine(x), cosine(x));
        match turns as i64 & 3 {
            0 => (sine, cosine),
            1 => (cosine, -sine),
            2 => (-sine, -cosine),
            _ => (-cosine, sine),
        }
    }
}

/// 1/n! for n from 0 to 18, each right to the last bit.
const INVERSE_FACTORIAL: [f64; 19] = {
    let mut table = [1.0; 19];
    let (mut n, mut factorial) = (1, 1u64);
    while n < 19 {
        factorial *= n as u64;
        table[n] = 1.0 / factorial as f64;
        n += 1;
    }
    table
};

/// sin x for |x| ≤ π/4: the series to x^17, cut off below 2^-63.
#[inline(always)]
fn sine(x: f64) -> f64 {
    const C: [f64; 19] = INVERSE_FACTORIAL;
    let y = x * x;
    let mut sum = C[17];
    sum = sum * y - C[15];
    sum = sum * y + C[13];
    sum = sum * y - C[11];
    sum = sum * y + C[9];
    sum = sum * y - C[7];
    sum = sum * y + C[5];
    sum = sum * y - C[3];
    x + x * y * sum
}

/// cos x for |x| ≤ π/4: the series to x^18, cut off below 2^-68.
#[inline(always)]
fn cosine(x: f64) -> f64 {
    const C: [f64; 19] = INVERSE_FACTORIAL;
    let y = x * x;
    let mut sum = -C[18];
    sum = sum * y + C[16];
    sum = sum * y - C[14];
    sum = sum * y + C[12];
    sum = sum * y - C[10];
    sum = sum * y + C[8];
    sum = sum * y - C[6];
    sum = sum * y + C[4];
    sum = sum * y - C[2];
    1.0 + y * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_standard_library_where_that_is_exact() {
        // The platform's sin and cos are right to an ulp for an angle that is one f64.
        let mut angle = -50.0;
        while angle < 50.0 {
            let (sine, cosine) = Angle { rounded: angle, rest: 0.0 }.sin_cos();
            assert!((sine - angle.sin()).abs() <= 2.5e-16, "sin {angle}");
            assert!((cosine - angle.cos()).abs() <= 2.5e-16, "cos {angle}");
            angle += 0.001_3;
        }
        for angle in [1e6, 1e9, 2147483647.0, 1e12, -3e15] {
            let (sine, cosine) = Angle { rounded: angle, rest: 0.0 }.sin_cos();
            assert!((sine - f64::sin(angle)).abs() <= 3e-16, "sin {angle}");
            assert!((cosine - f64::cos(angle)).abs() <= 3e-16, "cos {angle}");
        }
    }
}
