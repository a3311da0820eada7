//! Which keys a query sees: those that are there, within reach, near enough, and in its piece of the text.

use super::softmax::Shape;
use std::ops::Range;

/// Which keys a query sees.
#[derive(Clone, Copy, Default)]
pub struct Mask<'a> {
    /// `[batch, keys]`: whether a key is there at all. All are if there is no mask.
    pub keys: Option<&'a [bool]>,
    /// How far a query sees.
    pub reach: Reach<'a>,
    /// A query sees no key that is this many places away from it or more, on either side; any where there is no window.
    pub window: Option<usize>,
    /// The pieces of a text beyond which a query sees nothing.
    pub chunks: Option<Chunks<'a>>,
    /// A query sees no key that is less than this many places before it; any where there is no such number.
    pub beyond: Option<usize>,
    /// `[batch]`: the rows of each text, where texts of several lengths lie one behind the other instead of being padded to the longest.
    /// A text's queries are its keys, and it sees no other text; then there is no mask of keys. For [`softmax`](super::softmax) alone.
    pub texts: Option<&'a [Range<usize>]>,
}

/// Pieces of equal length, which a text is cut into from its first token on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks<'a> {
    /// Tokens of a piece, at least 1.
    pub size: usize,
    /// `[batch]`: the first token of each text. What stands before it is padding, a piece of its own.
    pub starts: &'a [usize],
}

impl Chunks<'_> {
    /// The piece in which a token stands.
    fn of(&self, sequence: usize, token: usize) -> Range<usize> {
        let start = self.starts[sequence];
        match token.checked_sub(start) {
            None => 0..start,
            Some(place) => {
                let first = start + place / self.size * self.size;
                first..first.saturating_add(self.size)
            }
        }
    }

    /// The first token of each text that a mask `[batch, keys]` leaves; that of a text of which it leaves none is 0.
    pub fn starts(keys: &[bool], length: usize) -> impl Iterator<Item = usize> {
        keys.chunks_exact(length.max(1)).map(|row| row.iter().position(|&there| there).unwrap_or(0))
    }
}

impl Mask<'_> {
    /// The keys that a query may see, whether they are there or not. Those of a later query begin and end no earlier.
    pub(crate) fn seen(&self, shape: &Shape, sequence: usize, query: usize) -> Range<usize> {
        let Shape { queries, keys, .. } = *shape;
        let (mut start, mut end) = (0, self.reach.of(shape, sequence, query));
        // The query stands at `place` − queries among the keys, which may be before the first.
        let place = query + keys;
        if let Some(window) = self.window {
            end = end.min((place + window).saturating_sub(queries));
            start = (place + 1).saturating_sub(queries + window);
        }
        if let Some(chunks) = self.chunks {
            let chunk = chunks.of(sequence, place.saturating_sub(queries));
            (start, end) = (start.max(chunk.start), end.min(chunk.end));
        }
        if let Some(beyond) = self.beyond {
            end = end.min((place + 1).saturating_sub(queries + beyond));
        }
        start.min(end)..end
    }
}

/// How far a query sees.
#[derive(Clone, Copy, Default)]
pub enum Reach<'a> {
    /// All keys.
    #[default]
    All,
    /// Query i sees keys up to i + keys − queries: itself and what came before.
    Causal,
    /// UniLM: a query sees the keys of its sequence's prefix, and beyond it as `Causal`. `[batch]`
    Prefix(&'a [usize]),
}

impl Reach<'_> {
    /// How many keys, from the first on, a query may see.
    pub(crate) fn of(&self, shape: &Shape, sequence: usize, query: usize) -> usize {
        let causal = (query + 1 + shape.keys).saturating_sub(shape.queries).min(shape.keys);
        match self {
            Reach::All => shape.keys,
            Reach::Causal => causal,
            Reach::Prefix(prefixes) => causal.max(prefixes[sequence].min(shape.keys)),
        }
    }
}
