//! `a b c |` → `c b a .`, with the symbols of a copy.

use super::{ASK, BEGIN, Copy, Defaults, Draws, END, Example, Part, Task};

/// To say it backwards.
pub struct Reverse(pub(super) Copy);

impl Reverse {
    /// The lab's own.
    pub(super) const USUAL: Reverse = Reverse(Copy::USUAL);
}

impl Task for Reverse {
    fn name(&self) -> &'static str {
        "reverse"
    }

    fn isolates(&self) -> &'static str {
        "Walking back through a text: an offset that grows by two with every token."
    }

    // In all but the order of its answer it is a copy.
    fn defaults(&self, is_quick: bool) -> Defaults {
        self.0.defaults(is_quick)
    }

    fn vocabulary(&self) -> usize {
        self.0.vocabulary()
    }

    fn tokens(&self, length: usize) -> usize {
        self.0.tokens(length)
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        self.0.lengths()
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let mut text = self.0.text(length, draws);
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
            let example = Reverse::USUAL.example(9, Part::Train, &mut Draws::new(&[key]));
            for place in 0..9 {
                assert_eq!(example.targets[10 + place], example.ids[9 - place]);
            }
            assert_eq!(example.targets[19], END);
        }
    }
}
