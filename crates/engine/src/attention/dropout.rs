//! Dropout of attention weights by a counter: the same choices forward and backward, whatever the order of the work.

use crate::ops::dropout;

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
    key: u64,
    threshold: u32,
    /// What weights that stay are multiplied with.
    pub scale: f64,
}

impl Keep {
    pub fn new(given: &Dropout) -> Self {
        let Dropout { probability, seed, step, site } = *given;
        Keep {
            key: dropout::key(seed, step, site),
            threshold: dropout::threshold(probability),
            scale: 1.0 / (1.0 - probability),
        }
    }

    /// Whether the weight of this index stays.
    #[inline(always)]
    pub fn keeps(&self, index: u64) -> bool {
        dropout::keeps(self.key, index, self.threshold)
    }
}
