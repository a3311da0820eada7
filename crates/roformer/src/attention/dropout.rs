//! Dropout of attention weights by a counter: the same choices forward and backward, whatever the order of the work.

/// Which weights are dropped. The weight of key j for query i of head h in sequence b has the index
/// ((b·heads + h)·queries + i)·keys + j.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    /// The chance of a weight to be dropped; below 1. Weights that stay are divided by 1 − probability.
    pub probability: f64,
    /// The seed of the run.
    pub seed: u64,
    /// The step of the run.
    pub step: u64,
    /// Which of the model's dropouts this is.
    pub site: u64,
}

/// A dropout made ready for its loops.
#[derive(Clone, Copy)]
pub(super) struct Keep {
    state: u64,
    threshold: u32,
    /// What weights that stay are multiplied with.
    pub scale: f64,
}

impl Keep {
    pub fn new(dropout: &Dropout) -> Self {
        let Dropout { probability, seed, step, site } = *dropout;
        assert!((0.0..1.0).contains(&probability), "a dropout of {probability}: from 0 to below 1");
        Keep {
            state: mix(mix(mix(seed) ^ step) ^ site),
            threshold: (probability * (1u64 << 32) as f64) as u32,
            scale: 1.0 / (1.0 - probability),
        }
    }

    /// Whether the weight of this index stays.
    #[inline(always)]
    pub fn keeps(&self, index: u64) -> bool {
        keeps(self.state, index, self.threshold)
    }
}

#[inline(always)]
fn keeps(state: u64, index: u64, threshold: u32) -> bool {
    (mix(state ^ index) >> 32) as u32 >= threshold
}

/// A step of SplitMix64.
#[inline(always)]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
