//! `a b c |` → `c b a .`, with different symbols.

use super::{ASK, BEGIN, Defaults, Draws, END, Example, FIRST, Part, Task, symbols};

/// Symbols that there are.
const SYMBOLS: usize = 16;

/// To say it backwards.
pub struct Reverse;

impl Task for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn isolates(&self) -> &'static str {
        "Walking back through a text: an offset that grows by two with every token."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 8, test_lengths: vec![2, 4, 6, 8, 9, 10, 12, 16], steps: 700 },
            false => {
                Defaults { train_length: 10, test_lengths: vec![2, 4, 6, 8, 10, 11, 12, 14, 16], steps: 2000 }
            }
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS
    }

    fn tokens(&self, length: usize) -> usize {
        2 * length + 2
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        1..=SYMBOLS
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let mut text = symbols(&draws.different(length, SYMBOLS));
        let question = [&[BEGIN], &text[..], &[ASK]].concat();
        text.reverse();
        Example::answering(question, &[&text[..], &[END]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_question_backwards() {
        for key in 0..50 {
            let example = Reverse.example(9, Part::Train, &mut Draws::new(&[key]));
            for place in 0..9 {
                assert_eq!(example.targets[10 + place], example.ids[9 - place]);
            }
            assert_eq!(example.targets[19], END);
        }
    }
}
