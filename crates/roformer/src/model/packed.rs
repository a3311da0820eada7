//! Texts of several lengths without their padding: one behind the other.

use super::call::{Input, States};
use super::heads::Scores;
use crate::ops::Span;
use std::ops::Range;

/// Where the texts of a padded batch lie once their padding is left out.
pub(super) struct Packed {
    /// The rows of each text, `[batch]`.
    pub texts: Vec<Range<usize>>,
    /// Tokens of a text with its padding.
    length: usize,
}

impl Packed {
    /// `None` where there is no padding, or some that is not behind a text; or where a row of padding is asked for.
    pub fn of(input: &Input, scores: Scores, states: States) -> Option<Self> {
        let mask = input.mask.filter(|mask| mask.contains(&false))?;
        let length = mask.len() / input.batch;
        let mut texts: Vec<Range<usize>> = Vec::with_capacity(input.batch);
        for text in mask.chunks_exact(length) {
            let real = text.iter().take_while(|&&is_real| is_real).count();
            if real == 0 || text[real..].contains(&true) {
                return None;
            }
            let start = texts.last().map_or(0, |last| last.end);
            texts.push(start..start + real);
        }
        let packed = Packed { texts, length };
        let are_places_real = match scores {
            Scores::All => true,
            Scores::At(places) => places.iter().all(|&place| packed.place(place).is_some()),
        };
        let are_states_real = match states {
            States::All => false,
            States::Pooled(spans) => spans.iter().all(|span| packed.span(span).is_some()),
        };
        (are_places_real && are_states_real).then_some(packed)
    }

    /// Rows of all texts together.
    pub fn rows(&self) -> usize {
        self.texts.last().map_or(0, |last| last.end)
    }

    /// What real tokens have, of something that all tokens have, `[batch · length]`.
    pub fn take<V: Copy>(&self, padded: &[V]) -> Vec<V> {
        let rows = padded.chunks_exact(self.length).zip(&self.texts);
        rows.flat_map(|(row, text)| &row[..text.len()]).copied().collect()
    }

    /// Places and spans as they are without padding.
    pub fn find(&self, scores: Scores, states: States) -> (Vec<usize>, Vec<Span>) {
        let places = match scores {
            Scores::All => &[],
            Scores::At(places) => places,
        };
        let spans = match states {
            States::All => &[],
            States::Pooled(spans) => spans,
        };
        let places = places.iter().filter_map(|&place| self.place(place)).collect();
        (places, spans.iter().filter_map(|span| self.span(span)).collect())
    }

    /// The row of a token that stands at a place of `[batch · length]`; `None` for padding.
    pub fn place(&self, place: usize) -> Option<usize> {
        let text = self.texts.get(place / self.length)?;
        let token = place % self.length;
        (token < text.len()).then(|| text.start + token)
    }

    /// The same rows of a text; `None` where some are padding.
    pub fn span(&self, span: &Span) -> Option<Span> {
        if span.rows == 0 {
            return Some(Span { first: 0, ..*span });
        }
        let first = self.place(span.first)?;
        let text = &self.texts[span.first / self.length];
        (span.rows <= text.end - first).then_some(Span { first, ..*span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Pool;

    fn input(mask: &[bool], batch: usize) -> Input<'_> {
        Input { ids: &[], batch, token_types: None, mask: Some(mask) }
    }

    #[test]
    fn rows_of_texts_are_found() {
        let mask = [true, true, false, true, true, true, true, false, false];
        let packed = Packed::of(&input(&mask, 3), Scores::At(&[0, 5, 6]), States::NONE).unwrap();
        assert_eq!(packed.texts, [0..2, 2..5, 5..6]);
        assert_eq!(packed.rows(), 6);
        assert_eq!(packed.take(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), [1, 2, 4, 5, 6, 7]);
        assert_eq!(
            [0, 1, 2, 3, 6, 8, 9].map(|place| packed.place(place)),
            [Some(0), Some(1), None, Some(2), Some(5), None, None]
        );
    }

    #[test]
    fn padding_that_is_asked_for_stays() {
        let mask = [true, true, false, true, true, true];
        let span = |first, rows| Span { first, rows, kind: Pool::Largest };
        let is_packed = |places: &[usize], spans: &[Span]| {
            Packed::of(&input(&mask, 2), Scores::At(places), States::Pooled(spans)).is_some()
        };
        assert!(is_packed(&[1, 3], &[span(0, 2), span(4, 2), span(2, 0)]));
        assert!(!is_packed(&[2], &[]) && !is_packed(&[], &[span(1, 2)]) && !is_packed(&[], &[span(2, 1)]));
        assert!(Packed::of(&input(&mask, 2), Scores::All, States::All).is_none());
        for other in
            [&[true; 6], &[true, true, true, false, true, true], &[true, false, true, true, true, true]]
        {
            assert!(Packed::of(&input(other, 2), Scores::All, States::NONE).is_none(), "{other:?}");
        }
        assert!(Packed::of(&input(&[true, false, false, false], 2), Scores::All, States::NONE).is_none());
    }
}
