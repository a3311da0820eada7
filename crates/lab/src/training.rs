//! How models are trained, beside their size, their task and their steps: the schedule of the learning rate, the optimiser, dropout.

use roformer::ops::optimizer::AdamW;
use roformer::train::Schedule;
use serde::{Deserialize, Serialize};

/// All of it. The default is the lab's own, which settings and results do not mention.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// In how many parts a batch is taken: less memory, and sums in another order.
    pub parts: u64,
    /// The part of the steps in which the rate rises.
    pub warmup: f64,
    /// How it falls then.
    pub decay: Decay,
    /// What is left of it at the last step, as a part of the highest.
    pub lowest: f64,
    /// How much of the mean of the gradients stays at each step.
    pub beta1: f64,
    /// How much of the mean of their squares stays.
    pub beta2: f64,
    /// What is added to the root of the squares.
    pub epsilon: f64,
    /// How much of a matrix goes at each step, times the learning rate.
    pub weight_decay: f64,
    /// The largest norm of a gradient.
    pub clip: f64,
    /// The part of the values that is dropped: of embeddings, of attention and of what each layer adds.
    pub dropout: f64,
    /// How many examples there are to train on, the same for every seed; `None` where each is a new one.
    pub pool: Option<usize>,
}

/// How a learning rate falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// With half a cosine.
    Cosine,
    /// In a straight line.
    Linear,
}

impl Training {
    /// The lab's own.
    pub const USUAL: Training = Training {
        parts: 1,
        warmup: 0.1,
        decay: Decay::Cosine,
        lowest: 0.0,
        beta1: 0.9,
        beta2: 0.98,
        epsilon: 1e-8,
        weight_decay: 0.01,
        clip: 1.0,
        dropout: 0.0,
        pool: None,
    };

    /// Whether it is the lab's own.
    pub fn is_usual(&self) -> bool {
        *self == Self::USUAL
    }

    /// The optimiser.
    pub fn adam(&self) -> AdamW {
        let Training { beta1, beta2, epsilon, weight_decay, .. } = *self;
        AdamW { beta1, beta2, epsilon, weight_decay }
    }

    /// The learning rate of step 1, 2, … of `steps`.
    pub fn rate(&self, step: u64, steps: u64, highest: f64) -> f64 {
        let schedule = match self.decay {
            Decay::Cosine => Schedule::Cosine,
            Decay::Linear => Schedule::Linear,
        };
        let warmup = (steps as f64 * self.warmup) as u64;
        schedule.rate(step, [warmup, steps], [highest, self.lowest * highest])
    }
}

impl Default for Training {
    fn default() -> Self {
        Self::USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tenth of the steps, as whole numbers divide: runs of before must be what they were.
    #[test]
    fn the_usual_rate_rises_for_a_tenth_of_the_steps() {
        for steps in (1..=20_000u64).chain([100_000, 999_999, 1_000_000]) {
            let warmup = steps / 10;
            for step in [1, warmup.max(1), warmup + 1, steps] {
                let wanted = Schedule::Cosine.rate(step, [warmup, steps], [3e-3, 0.0]);
                assert_eq!(Training::USUAL.rate(step, steps, 3e-3), wanted, "step {step} of {steps}");
            }
        }
    }

    #[test]
    fn the_rate_falls_to_what_is_left() {
        let training = Training { warmup: 0.06, decay: Decay::Linear, lowest: 0.1, ..Training::USUAL };
        let rate = |step| training.rate(step, 1000, 2.0);
        assert_eq!((rate(30), rate(60)), (1.0, 2.0));
        assert!((rate(1000) - 0.2).abs() < 1e-15 && (rate(530) - 1.1).abs() < 1e-15);
    }
}
