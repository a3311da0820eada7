//! `a b c d e | b +2` → `d`: which symbol stands so many to the left or to the right of another?
//!
//! The diagnostic of PoPE (Gopalakrishnan et al. 2025, arXiv 2509.10534): one symbol is found by what it is wherever it stands, the
//! other by where it stands whatever it is.

use super::{ASK, BEGIN, Defaults, Draws, Example, FIRST, Part, Task, symbols};

/// Symbols that there are.
const SYMBOLS: usize = 24;

/// The furthest that is asked for, on either side.
const FURTHEST: usize = 5;

/// To name the symbol at an offset from another.
pub struct Indirect;

impl Task for Indirect {
    fn name(&self) -> &'static str {
        "indirect"
    }

    fn isolates(&self) -> &'static str {
        "What and where apart: a symbol found by content alone, then another by its offset alone, to the left or to the right."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 8, test_lengths: vec![2, 4, 6, 8, 10, 12, 16], steps: 5000 },
            false => {
                Defaults { train_length: 8, test_lengths: vec![2, 4, 6, 8, 10, 12, 16, 24], steps: 10_000 }
            }
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS + 2 * FURTHEST
    }

    fn tokens(&self, length: usize) -> usize {
        length + 4
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        2..=SYMBOLS
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let text = symbols(&draws.different(length, SYMBOLS));
        let place = draws.below(length);
        // Any other place within reach, each as likely as the others.
        let first = place.saturating_sub(FURTHEST);
        let last = (place + FURTHEST).min(length - 1);
        let drawn = first + draws.below(last - first);
        let wanted = if drawn < place { drawn } else { drawn + 1 };
        // Offsets from −5 to 5 without 0.
        let offset = (wanted + FURTHEST - place) - usize::from(wanted > place);
        let number = FIRST + (SYMBOLS + offset) as u32;
        let question = [&[BEGIN], &text[..], &[ASK, text[place], number]].concat();
        Example::answering(question, &[text[wanted]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_stands_at_the_offset() {
        let numbers: Vec<isize> = (-(FURTHEST as isize)..=FURTHEST as isize).filter(|&n| n != 0).collect();
        let mut seen = vec![0usize; numbers.len()];
        for key in 0..2000 {
            let length = 2 + key as usize % 23;
            let Example { ids, targets } = Indirect.example(length, Part::Train, &mut Draws::new(&[key]));
            let [.., asked, number] = ids[..] else { panic!() };
            let offset = (number - FIRST) as usize - SYMBOLS;
            seen[offset] += 1;
            let place = ids.iter().position(|&id| id == asked).unwrap();
            let wanted = place.checked_add_signed(numbers[offset]).unwrap();
            assert!((1..=length).contains(&wanted) && wanted != place);
            assert_eq!(ids[wanted], *targets.last().unwrap());
        }
        // Both sides alike, near offsets more often than far ones.
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        let (left, right): (usize, usize) = (seen[..FURTHEST].iter().sum(), seen[FURTHEST..].iter().sum());
        assert!(left.abs_diff(right) < 200, "{seen:?}");
    }
}
