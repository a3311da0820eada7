//! Soft caps: x → c·tanh(x/c), which is about x where that is small and never beyond c (Gemma 2).

use super::activation::Activation;
use super::real::Real;

/// Caps every number, on the calling thread. The cap is one that the inverse of is a number in the type, too.
pub fn apply<T: Real>(x: &mut [T], cap: f64) {
    let (cap, inverse) = (T::of(cap), T::of(1.0 / cap));
    x.iter_mut().for_each(|x| *x *= inverse);
    Activation::Tanh.apply(x);
    x.iter_mut().for_each(|x| *x *= cap);
}

/// The derivative at what the cap made of a number: 1 − (y/c)², given 1/c. Of −∞, which stands for what a mask hides, it is 0.
#[inline(always)]
pub(crate) fn slope<T: Real>(capped: T, inverse: T) -> T {
    let part = capped * inverse;
    (T::ONE - part * part).maximum(T::ZERO)
}

#[cfg(test)]
mod tests {
    use super::super::check::{close, list};
    use super::*;

    #[test]
    fn numbers_and_slopes_are_those_of_the_formula() {
        for cap in [0.3, 1.0, 50.0] {
            let x: Vec<f64> = list::<f64>(1, 500).iter().map(|x| 3.0 * cap * x).collect();
            let formula = |x: f64| cap * (x / cap).tanh();
            let exact: Vec<f64> = x.iter().map(|&x| formula(x)).collect();
            let mut capped = x.clone();
            apply(&mut capped, cap);
            assert!(capped.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= 8.0 * f64::EPSILON * cap));
            let mut single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            apply(&mut single, cap);
            // What is capped is rounded, and what is a part of the cap once more.
            close("f32", &single, &exact, 8.0);
            for (&x, &y) in x.iter().zip(&capped) {
                let wanted = (formula(x + 1e-5 * cap) - formula(x - 1e-5 * cap)) / (2e-5 * cap);
                assert!((slope(y, 1.0 / cap) - wanted).abs() < 1e-9, "{cap}, at {x}");
            }
        }
    }

    #[test]
    fn at_the_cap_and_behind_a_mask_nothing_comes_through() {
        let mut far = [1e30f32, -1e30, f32::INFINITY];
        apply(&mut far, 50.0);
        assert_eq!(far, [50.0, -50.0, 50.0]);
        assert_eq!(far.map(|y| slope(y, 0.02)), [0.0; 3]);
        assert_eq!(slope(f32::NEG_INFINITY, 0.02), 0.0);
    }
}
