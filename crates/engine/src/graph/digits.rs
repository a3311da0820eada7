//! Rows of a table by the places of digits within their numbers: where a token stands follows from what the tokens are (Abacus,
//! position coupling).

use super::{Batch, Builder, Gradients, Operation, Parameter, Value, Values, mix};
use crate::ops::{Real, embedding};

/// Which tokens are digits, and which rows of a table tokens take: the first digit of a number row s + 1, the next row s + 2 and so
/// on, with s = 0 or, in training, a number that is drawn for every step. What follows beyond the last row takes the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digits {
    /// The ids of digits, rising.
    pub ids: Vec<u32>,
    /// Rows of the table, at least one.
    pub rows: usize,
    /// The largest s.
    pub shift: usize,
    /// Whether tokens that are no digits take row s, and not row 0.
    pub moves_others: bool,
}

impl Digits {
    /// Whether a token is a digit.
    pub fn has(&self, id: u32) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// The rows of some tokens of a text that follow so many digits.
    pub fn rows<'a>(&'a self, ids: &'a [u32], before: usize, shift: usize) -> impl Iterator<Item = u32> + 'a {
        let others = if self.moves_others { shift } else { 0 };
        ids.iter().scan(before, move |place, &id| {
            *place = if self.has(id) { *place + 1 } else { 0 };
            let row = if *place > 0 { *place + shift } else { others };
            Some(row.min(self.rows - 1) as u32)
        })
    }

    /// s of a step: each as likely as the others. Without digits there is nothing to move.
    fn drawn(&self, batch: &Batch, site: u64) -> usize {
        if !batch.is_training || self.ids.is_empty() {
            return 0;
        }
        let bits = mix(mix(mix(batch.seed ^ 0x6469_6769_7473) ^ site) ^ batch.step);
        ((u128::from(bits) * (self.shift as u128 + 1)) >> 64) as usize
    }
}

impl<T: Real> Builder<T> {
    /// The rows of a table `[rows, width]` that the batch's tokens take, `[batch · length, width]`.
    pub fn digit_rows(
        &mut self,
        table: Parameter,
        digits: Digits,
        [tokens, length]: [usize; 2],
        width: usize,
    ) -> Value {
        let (out, site) = (self.value(tokens, width), self.site());
        self.add(DigitRows { table, digits, length, site, named: Vec::with_capacity(tokens), out });
        out
    }
}

pub(super) struct DigitRows {
    table: Parameter,
    digits: Digits,
    length: usize,
    site: u64,
    /// The rows of the tokens of this step.
    named: Vec<u32>,
    out: Value,
}

impl<T: Real> Operation<T> for DigitRows {
    fn forward(&mut self, values: &mut Values<T>) {
        let DigitRows { table, digits, length, site, named, out } = self;
        let shift = digits.drawn(&values.batch, *site);
        named.clear();
        for text in values.batch.ids.chunks_exact(*length) {
            named.extend(digits.rows(text, 0, shift));
        }
        values.write(*out, |values, rows| {
            embedding::gather(values.parameter(*table), named, out.width, rows, false);
        });
    }

    fn backward(&mut self, _: &Values<T>, gradients: &mut Gradients<T>) {
        let (sum, dy) = gradients.parameter(self.table, self.out);
        embedding::gather_backward(dy, &self.named, self.out.width, sum);
    }

    #[cfg(feature = "cuda")]
    fn lower(&self, _: &mut super::Lowering) -> super::Lowered {
        let name = if self.digits.moves_others { "coupled" } else { "abacus" };
        Err(crate::error::Error::Device(format!("the encoding {name} has no form for a GPU; use the CPU")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(moves_others: bool) -> Digits {
        Digits { ids: (4..14).collect(), rows: 9, shift: 5, moves_others }
    }

    #[test]
    fn places_are_counted_within_numbers() {
        // 1 2 + 3 4 5 = 6, with tokens that are no digits at either end.
        let text = [1, 5, 6, 3, 7, 8, 9, 2, 10, 1];
        let rows = |own: Digits, before, shift| own.rows(&text, before, shift).collect::<Vec<_>>();
        assert_eq!(rows(digits(false), 0, 0), [0, 1, 2, 0, 1, 2, 3, 0, 1, 0]);
        assert_eq!(rows(digits(false), 0, 4), [0, 5, 6, 0, 5, 6, 7, 0, 5, 0]);
        assert_eq!(rows(digits(true), 0, 4), [4, 5, 6, 4, 5, 6, 7, 4, 5, 4]);
        // A number that goes on, and one that is too long.
        assert_eq!(digits(false).rows(&text[5..7], 1, 0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(digits(false).rows(&[5; 12], 0, 0).last(), Some(8));
        assert_eq!(rows(Digits { ids: Vec::new(), ..digits(true) }, 0, 0), [0; 10]);
    }

    /// Every shift is drawn about as often, in training alone, and the same for the same step.
    #[test]
    fn shifts_are_fair() {
        let at = |step, is_training| Batch { seed: 3, step, is_training, ..Batch::default() };
        let mut counts = [0; 6];
        for step in 0..6000 {
            let drawn = digits(false).drawn(&at(step, true), 1);
            assert_eq!(drawn, digits(false).drawn(&at(step, true), 1));
            assert_eq!(digits(false).drawn(&at(step, false), 1), 0);
            counts[drawn] += 1;
        }
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    }
}
