//! `a b c |` → `c b a .`, with different symbols.

use super::copy::{Copy, SYMBOLS};
use super::{ASK, BEGIN, Defaults, Draws, END, Example, Part, Task, symbols};

/// To say it backwards.
pub struct Reverse;

impl Task for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn isolates(&self) -> &'static str {
        "Walking back through a text: an offset that grows by two with every token."
    }

    // In all but the order of its answer it is a copy.
    fn defaults(&self, is_quick: bool) -> Defaults {
        Copy.defaults(is_quick)
    }

    fn vocabulary(&self) -> usize {
        Copy.vocabulary()
    }

    fn tokens(&self, length: usize) -> usize {
        Copy.tokens(length)
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        Copy.lengths()
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
