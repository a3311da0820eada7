//! Numbers of about 106 bits: the unevaluated sum of two `f64`.
//!
//! A frequency multiplied by position 2^31 must still be right to 2^-30 of a radian, so rounding it to one `f64` is not
//! enough. The schedules compute with this type; tables use its two parts. The algorithms are those of Dekker (1971)
//! and Knuth: an operation returns the rounded result and what the rounding left over.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `hi + lo`, with `|lo|` at most half a unit in the last place of `hi`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Wide {
    pub hi: f64,
    pub lo: f64,
}

/// ln 2 and 2π to 106 bits.
const LN_2: Wide = Wide { hi: std::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };
pub(crate) const TAU: Wide = Wide { hi: std::f64::consts::TAU, lo: 2.449_293_598_294_706_4e-16 };

impl Wide {
    pub const ONE: Wide = Wide { hi: 1.0, lo: 0.0 };

    /// a + b exactly.
    fn sum(a: f64, b: f64) -> Wide {
        let hi = a + b;
        let b_part = hi - a;
        Wide { hi, lo: (a - (hi - b_part)) + (b - b_part) }
    }

    /// a + b exactly, for |a| ≥ |b|.
    fn sum_ordered(a: f64, b: f64) -> Wide {
        let hi = a + b;
        Wide { hi, lo: b - (hi - a) }
    }

    /// a · b exactly.
    pub fn product(a: f64, b: f64) -> Wide {
        let hi = a * b;
        Wide { hi, lo: a.mul_add(b, -hi) }
    }

    /// e^self, for results that are ordinary numbers.
    pub fn exp(self) -> Wide {
        // e^x = 2^k · e^r with |r| ≤ ln 2 / 2, and e^r by its series.
        let k = (self.hi / LN_2.hi).round();
        let r = self - LN_2 * Wide::from(k);
        let (mut term, mut total) = (Wide::ONE, Wide::ONE);
        // 0.347^27 / 27! is below 2^-132.
        for n in 1..=27 {
            term = term * r / Wide::from(f64::from(n));
            total = total + term;
        }
        let scale = 2f64.powi(k as i32);
        Wide { hi: total.hi * scale, lo: total.lo * scale }
    }

    /// The natural logarithm of a positive number.
    pub fn ln(self) -> Wide {
        // One Newton step on e^y = x doubles the digits of the f64 logarithm.
        let y = Wide::from(self.hi.ln());
        y + self * (-y).exp() - Wide::ONE
    }

    /// self^exponent, for positive numbers.
    pub fn pow(self, exponent: Wide) -> Wide {
        (self.ln() * exponent).exp()
    }

    /// self limited to [0, 1].
    pub fn clamp_unit(self) -> Wide {
        if self.hi < 0.0 {
            Wide::from(0.0)
        } else if self.hi >= 1.0 && (self - Wide::ONE).hi > 0.0 {
            Wide::ONE
        } else {
            self
        }
    }
}

impl From<f64> for Wide {
    fn from(value: f64) -> Self {
        Wide { hi: value, lo: 0.0 }
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide { hi: -self.hi, lo: -self.lo }
    }
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, other: Wide) -> Wide {
        let high = Wide::sum(self.hi, other.hi);
        let low = Wide::sum(self.lo, other.lo);
        let joined = Wide::sum_ordered(high.hi, high.lo + low.hi);
        Wide::sum_ordered(joined.hi, joined.lo + low.lo)
    }
}

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, other: Wide) -> Wide {
        self + -other
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, other: Wide) -> Wide {
        let high = Wide::product(self.hi, other.hi);
        Wide::sum_ordered(high.hi, high.lo + (self.hi * other.lo + self.lo * other.hi))
    }
}

impl Div for Wide {
    type Output = Wide;
    fn div(self, other: Wide) -> Wide {
        // Long division: three quotient digits of 53 bits each.
        let first = self.hi / other.hi;
        let rest = self - other * Wide::from(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * Wide::from(second);
        let third = rest.hi / other.hi;
        Wide::sum_ordered(first, second) + Wide::from(third)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Wide, b: Wide) {
        let difference = (a - b).hi.abs();
        assert!(difference <= b.hi.abs() * 2f64.powi(-98), "{a:?} {b:?}");
    }

    #[test]
    fn constants_are_what_their_series_give() {
        // ln 2 = Σ 1/(n·2^n); π/4 = 4·atan(1/5) − atan(1/239) (Machin).
        let ln_2 = (1..=120)
            .fold(Wide::from(0.0), |sum, n| sum + Wide::from(2f64.powi(-n)) / Wide::from(f64::from(n)));
        close(LN_2, ln_2);
        let arctan = |inverse: f64| {
            let x = Wide::ONE / Wide::from(inverse);
            let (mut power, mut sum) = (x, x);
            for n in 1..60 {
                power = -(power * x * x);
                sum = sum + power / Wide::from(f64::from(2 * n + 1));
            }
            sum
        };
        let quarter = arctan(5.0) * Wide::from(4.0) - arctan(239.0);
        close(TAU, quarter * Wide::from(8.0));
    }

    #[test]
    fn powers_multiply_back() {
        for (base, parts) in [(10_000.0, 64), (500_000.0, 7), (1234.5, 3), (1.5, 5), (1e9, 128)] {
            let root = Wide::from(base).pow(Wide::ONE / Wide::from(f64::from(parts)));
            close((0..parts).fold(Wide::ONE, |product, _| product * root), Wide::from(base));
        }
        close(Wide::from(100.0), Wide::from(10_000.0).pow(Wide::from(0.5)));
        close(Wide::from(0.25), Wide::from(16.0).pow(Wide::from(-0.5)));
    }
}
