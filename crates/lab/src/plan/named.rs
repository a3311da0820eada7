//! Plans that have a name: the settings of published comparisons, and one of the lab's own for a GPU.
//!
//! Each says all that it fixes, once: here. Where each number is from, and what could not be had, is in `docs/compare.md`.

use super::super::seeds::Seeds;
use super::super::size::Size;
use super::super::training::{Decay, Training};

/// A plan that has a name.
#[derive(Debug)]
pub struct Named {
    /// Its name.
    pub name: &'static str,
    /// Whose settings these are.
    pub source: &'static str,
    /// The encodings, the baseline first.
    pub encodings: &'static [&'static str],
    /// The tasks.
    pub tasks: &'static [NamedTask],
    /// How large models are.
    pub size: Size,
    /// Texts of a step.
    pub batch: usize,
    /// Examples of each length that are tested.
    pub examples: usize,
    /// The learning rate, the same for every encoding; where there is none, each chooses from the lab's.
    pub rate: Option<f64>,
    /// Seeds of each encoding.
    pub seeds: usize,
    /// How models are trained.
    pub training: Training,
}

/// A task of such a plan.
#[derive(Debug)]
pub struct NamedTask {
    /// Its name.
    pub name: &'static str,
    /// So many symbols, drawn with repetition; the task's own where nothing is said.
    pub symbols: Option<usize>,
    /// The longest length that is trained on.
    pub train_length: usize,
    /// The lengths that are tested.
    pub test_lengths: &'static [usize],
    /// Steps of training.
    pub steps: u64,
}

impl Named {
    /// Its seeds.
    pub(super) fn seeds(&self) -> Seeds {
        Seeds::Fixed(self.seeds)
    }

    /// Its part of this name.
    pub(super) fn task(&self, name: &str) -> Option<&'static NamedTask> {
        self.tasks.iter().find(|task| task.name == name)
    }
}

/// Those of published comparisons.
pub const PUBLISHED: [&Named; 3] = [&KAZEMNEJAD, &ALIBI, &ELEUTHERAI];

/// Fifty million parameters and two thousand million tokens a model: what a comparison in a paper takes today.
pub static PAPER: Named = Named {
    name: "paper",
    source: "the lab's own",
    encodings: &["rotary", "none", "sinusoidal", "learned", "alibi", "t5", "receptive"],
    tasks: &[NamedTask {
        name: "language",
        symbols: None,
        train_length: 512,
        test_lengths: &[128, 256, 512, 768, 1024, 2048],
        steps: 16_000,
    }],
    size: Size::with_heads(16, 512, 8),
    batch: 256,
    examples: 256,
    rate: None,
    seeds: 5,
    training: Training {
        parts: 4,
        beta2: 0.95,
        weight_decay: 0.1,
        lowest: 0.1,
        warmup: 0.02,
        ..Training::USUAL
    },
};

/// The lengths on which copies, reversals and repetitions are tested: within training, and every one beyond to twice as long.
const TO_FORTY: &[usize] =
    &[5, 10, 15, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40];

/// The same of sums and sorted lists.
const TO_SIXTEEN: &[usize] = &[2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16];

const fn to_forty(name: &'static str, symbols: usize) -> NamedTask {
    let symbols = Some(symbols);
    NamedTask { name, symbols, train_length: 20, test_lengths: TO_FORTY, steps: 40_000 }
}

const fn to_sixteen(name: &'static str, symbols: Option<usize>) -> NamedTask {
    NamedTask { name, symbols, train_length: 8, test_lengths: TO_SIXTEEN, steps: 40_000 }
}

static KAZEMNEJAD: Named = Named {
    name: "kazemnejad-2023",
    source: "Kazemnejad et al. 2023, arXiv 2305.19466, and its code",
    encodings: &["none", "t5", "alibi", "rotary", "sinusoidal"],
    tasks: &[
        to_forty("copy", 100),
        to_forty("reverse", 100),
        to_forty("repeat", 5750),
        to_sixteen("sort", Some(50)),
        to_sixteen("addition", None),
    ],
    size: Size::with_heads(12, 768, 12),
    batch: 64,
    examples: 500,
    rate: Some(3e-5),
    seeds: 3,
    training: Training {
        warmup: 0.06,
        decay: Decay::Linear,
        beta2: 0.999,
        weight_decay: 0.05,
        dropout: 0.1,
        pool: Some(100_000),
        ..Training::USUAL
    },
};

static ALIBI: Named = Named {
    name: "alibi-2022",
    source: "Press et al. 2022, arXiv 2108.12409, and its code",
    encodings: &["sinusoidal", "rotary", "t5", "alibi"],
    tasks: &[NamedTask {
        name: "language",
        symbols: None,
        train_length: 512,
        test_lengths: &[512, 712, 1012, 1512, 3512],
        steps: 286_000,
    }],
    size: Size::with_heads(16, 1024, 8),
    batch: 144,
    examples: 256,
    rate: None,
    seeds: 3,
    // 16,000 steps of warm-up.
    training: Training { parts: 8, warmup: 16.0 / 286.0, clip: 0.1, dropout: 0.3, ..Training::USUAL },
};

static ELEUTHERAI: Named = Named {
    name: "eleutherai-2021",
    source: "Biderman et al. 2021, blog.eleuther.ai/rotary-embeddings, with the sizes of Brown et al. 2020, arXiv 2005.14165",
    encodings: &["learned", "t5", "rotary"],
    tasks: &[NamedTask {
        name: "language",
        symbols: None,
        train_length: 2048,
        test_lengths: &[1024, 2048],
        steps: 55_000,
    }],
    size: Size::with_heads(12, 768, 12),
    batch: 256,
    examples: 256,
    rate: Some(6e-4),
    seeds: 3,
    // 375 million tokens of warm-up, 2¹⁹ tokens a step.
    training: Training {
        parts: 32,
        warmup: 375e6 / (55_000.0 * 524_288.0),
        lowest: 0.1,
        beta2: 0.95,
        weight_decay: 0.1,
        ..Training::USUAL
    },
};
