//! Where tokens stand for those that are far away: rotary embedding reaches beyond the distances of training if far ones are held
//! at a window (ReRoPE) or counted in groups of tokens (Self-Extend).

/// Which distances are far, and what becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// A key that is this many places before a query, or more, is far.
    pub window: usize,
    /// Tokens of a group. Without groups all far keys are as far as the window.
    pub group: Option<usize>,
}

impl Far {
    /// The position of a query, by its place, where it meets far keys: ⌊i/G⌋ + w − ⌊w/G⌋, or w.
    pub fn of_query(self, place: usize) -> usize {
        self.window + self.group.map_or(0, |group| place / group)
            - self.group.map_or(0, |group| self.window / group)
    }

    /// The position of a key, by its place, where it is far: ⌊j/G⌋, or 0.
    pub fn of_key(self, place: usize) -> usize {
        self.group.map_or(0, |group| place / group)
    }
}
