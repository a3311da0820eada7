//! Dropout without stored masks: whether a number stays is a hash of where it stands.
//!
//! The hash is that of SplitMix64 (Steele, Lea, Flood 2014), in whole numbers of 64 bits that wrap around, so that every
//! device decides alike:
//!
//! ```text
//! γ = 0x9E3779B97F4A7C15
//! mix(z): z ← (z ^ z >> 30) · 0xBF58476D1CE4E5B9; z ← (z ^ z >> 27) · 0x94D049BB133111EB; z ^ z >> 31
//! key(seed, step, site) = mix(mix(mix(seed + γ) + step + γ) + site + γ)
//! bits(key, index)      = the upper 32 bits of mix(key + (index + 1)·γ)
//! ```
//!
//! `bits(key, index)` is thus output number `index` of the generator SplitMix64 seeded with the key. A number stays if its
//! bits are at least p·2³².

use super::dispatch::vectorised;
use super::real::Real;
use super::reduce::{BLOCK, PARALLEL};
use rayon::prelude::*;

/// SplitMix64's step from state to state.
pub(crate) const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output, from a state.
#[inline(always)]
pub(crate) const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What all numbers of one dropout share: `site` says which of a model's dropouts, `step` which pass.
#[inline]
pub const fn key(seed: u64, step: u64, site: u64) -> u64 {
    let seed = mix(seed.wrapping_add(GAMMA));
    let step = mix(seed.wrapping_add(step).wrapping_add(GAMMA));
    mix(step.wrapping_add(site).wrapping_add(GAMMA))
}

/// 32 random bits for the number `index`.
#[inline(always)]
pub const fn bits(key: u64, index: u64) -> u32 {
    (mix(key.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA))) >> 32) as u32
}

/// p·2³², rounded: how many of the 2³² values of the bits drop a number.
pub fn threshold(p: f64) -> u32 {
    assert!((0.0..1.0).contains(&p), "a dropout of {p}");
    (p * 4_294_967_296.0).round() as u32
}

/// Whether the number `index` stays.
#[inline(always)]
pub const fn keeps(key: u64, index: u64, threshold: u32) -> bool {
    bits(key, index) >= threshold
}

/// Sets numbers of x to 0 with probability `p` each and divides the others by 1 − p; number i of x has the index i. Its
/// own backward: the same call on dy.
pub fn apply<T: Real>(x: &mut [T], p: f64, seed: u64, step: u64, site: u64) {
    let (key, threshold, scale) = (key(seed, step, site), threshold(p), T::of(1.0 / (1.0 - p)));
    if threshold == 0 {
        return;
    }
    let block = |(index, x): (usize, &mut [T])| drop_block(x, key, (index * BLOCK) as u64, threshold, scale);
    if x.len() < PARALLEL {
        x.chunks_mut(BLOCK).enumerate().for_each(block);
    } else {
        x.par_chunks_mut(BLOCK).enumerate().for_each(block);
    }
}

vectorised! { fn drop_block<T>(x: &mut [T], key: u64, first: u64, threshold: u32, scale: T) = drop_some }

#[inline(always)]
fn drop_some<T: Real>(x: &mut [T], key: u64, first: u64, threshold: u32, scale: T) {
    for (index, x) in x.iter_mut().enumerate() {
        let scaled = *x * scale;
        *x = if keeps(key, first + index as u64, threshold) { scaled } else { T::ZERO };
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{list, on_any_threads};
    use super::*;

    #[test]
    fn the_hash_is_splitmix64() {
        // The generator's published outputs for the seed 1234567.
        let outputs = [6_457_827_717_110_365_317u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (index, output) in outputs.into_iter().enumerate() {
            assert_eq!(bits(1_234_567, index as u64), (output >> 32) as u32);
        }
        // What other devices have to give too.
        assert_eq!(key(1, 2, 3), 0x6ae515c1c0ac7e37);
        assert_eq!([0, 1, 2].map(|index| bits(key(1, 2, 3), index)), [558713863, 1878268363, 4101373841]);
    }

    #[test]
    fn a_share_of_p_is_dropped_and_the_rest_scaled() {
        for p in [0.1, 0.5, 0.9] {
            let len = 200_003;
            let x = on_any_threads(|| {
                let mut x = vec![1.0f32; len];
                apply(&mut x, p, 7, 11, 13);
                x
            });
            let kept = x.iter().filter(|&&x| x != 0.0).count() as f64;
            // Five deviations of a binomial count.
            let bound = 5.0 * (len as f64 * p * (1.0 - p)).sqrt();
            assert!((kept - len as f64 * (1.0 - p)).abs() < bound, "{p}: {kept}");
            assert!(x.iter().all(|&x| x == 0.0 || x == (1.0 / (1.0 - p)) as f32));
            let key = key(7, 11, 13);
            for (index, &x) in x.iter().enumerate() {
                assert_eq!(x != 0.0, keeps(key, index as u64, threshold(p)), "{index}");
            }
        }
    }

    #[test]
    fn seeds_steps_and_sites_decide_apart() {
        let decisions = |seed, step, site| {
            let key = key(seed, step, site);
            (0..4096).map(|index| keeps(key, index, 1 << 31)).collect::<Vec<_>>()
        };
        let lists = [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (1, 0, 2), (0, 1, 2)];
        let lists = lists.map(|(seed, step, site)| decisions(seed, step, site));
        for (index, a) in lists.iter().enumerate() {
            for b in &lists[..index] {
                let same = a.iter().zip(b).filter(|(a, b)| a == b).count();
                assert!((same as f64 - 2048.0).abs() < 5.0 * 32.0, "{same} of 4096 alike");
            }
        }
    }

    #[test]
    fn none_dropped_is_nothing_done() {
        let x = list::<f64>(1, 100);
        let mut same = x.clone();
        apply(&mut same, 0.0, 1, 2, 3);
        assert_eq!(x, same);
    }
}
