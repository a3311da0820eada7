//! What changes from step to step: all that is not a parameter.

/// A target that counts for nothing.
pub const IGNORE: u32 = u32::MAX;

/// What a step works on. Sizes are those of the graph: `[batch, length]`, row by row.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Token ids, `[batch, length]`.
    pub ids: Vec<u32>,
    /// Segments, `[batch, length]`; empty for all 0.
    pub types: Vec<u32>,
    /// What is to be predicted: a token or a label at each place that is scored, or [`IGNORE`].
    pub targets: Vec<u32>,
    /// How alike the two texts of a pair are, from −1 to 1, `[batch / 2]`; empty where they are only known to be alike.
    pub scores: Vec<f32>,
    /// Which tokens are real, `[batch, length]`; empty for all.
    pub mask: Vec<bool>,
    /// The ids of what an encoder reads before the tokens are written, `[batch, source length]`; empty where there is none.
    pub source: Vec<u32>,
    /// Which of those are real, `[batch, source length]`; empty for all.
    pub source_mask: Vec<bool>,
    /// Where the tokens stand, `[length]`, the same for every text; empty for 0, 1, 2 and so on.
    pub positions: Vec<u32>,
    /// The seed of chance.
    pub seed: u64,
    /// The step, so that chance differs from step to step.
    pub step: u64,
    /// Whether chance is at work: dropout, and numbers that are moved on.
    pub is_training: bool,
}

impl Batch {
    /// Whether a text has no real token; texts are of `length` tokens.
    pub fn is_empty(&self, text: usize, length: usize) -> bool {
        !self.mask.is_empty() && !self.mask[text * length..][..length].contains(&true)
    }
}
