//! `a b c d e | d 2` → `b`: which symbol stands so many to the left of another?

use super::{ASK, BEGIN, Defaults, Draws, Example, FIRST, Part, Task, symbols};

/// Symbols that there are.
const SYMBOLS: usize = 24;

/// The furthest that is asked for.
const FURTHEST: usize = 3;

/// To name the symbol k places to the left of another.
pub struct Index;

impl Task for Index {
    fn name(&self) -> &'static str {
        "index"
    }

    fn isolates(&self) -> &'static str {
        "Content and position at once: find a symbol, then count a given number of places from it."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 6, test_lengths: vec![2, 4, 6, 8, 12], steps: 4000 },
            false => Defaults { train_length: 6, test_lengths: vec![2, 4, 6, 8, 12, 16], steps: 12_000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS + FURTHEST
    }

    fn tokens(&self, length: usize) -> usize {
        length + 4
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        2..=SYMBOLS
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let text = symbols(&draws.different(length, SYMBOLS));
        let distance = 1 + draws.below(FURTHEST.min(length - 1));
        let place = distance + draws.below(length - distance);
        let number = FIRST + (SYMBOLS + distance - 1) as u32;
        let question = [&[BEGIN], &text[..], &[ASK, text[place], number]].concat();
        Example::answering(question, &[text[place - distance]])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_stands_that_far_to_the_left() {
        for key in 0..200 {
            let length = 2 + key as usize % 20;
            let Example { ids, targets } = Index.example(length, Part::Train, &mut Draws::new(&[key]));
            let [.., asked, number] = ids[..] else { panic!() };
            let distance = (number - FIRST) as usize - SYMBOLS + 1;
            let place = ids.iter().position(|&id| id == asked).unwrap();
            assert_eq!(ids[place - distance], *targets.last().unwrap());
            assert!(place - distance >= 1 && place <= length);
        }
    }
}
