//! `a b c |` → `a b c .`, with different symbols; or, where a plan says so, with any of so many.

use super::{ASK, BEGIN, Defaults, Draws, END, Example, FIRST, Part, Task, symbols};

/// To say it again.
pub struct Copy {
    /// Symbols that there are.
    pub(super) symbols: usize,
    /// Whether those of a text are all different.
    pub(super) is_different: bool,
}

impl Copy {
    /// The lab's own.
    pub(super) const USUAL: Copy = Copy { symbols: 16, is_different: true };

    /// The text of a question.
    pub(super) fn text(&self, length: usize, draws: &mut Draws) -> Vec<u32> {
        symbols(&match self.is_different {
            true => draws.different(length, self.symbols),
            false => (0..length).map(|_| draws.below(self.symbols)).collect(),
        })
    }
}

impl Task for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn isolates(&self) -> &'static str {
        "Finding what followed the last token when it was read before: an offset that grows with the text."
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
        FIRST as usize + self.symbols
    }

    fn tokens(&self, length: usize) -> usize {
        2 * length + 2
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        1..=if self.is_different { self.symbols } else { 4096 }
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let text = self.text(length, draws);
        let question = [&[BEGIN], &text[..], &[ASK]].concat();
        Example::answering(question, &[&text[..], &[END]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roformer::graph::IGNORE;

    #[test]
    fn the_answer_is_the_question() {
        for key in 0..50 {
            let example = Copy::USUAL.example(7, Part::Train, &mut Draws::new(&[key]));
            assert_eq!((example.ids[0], example.ids[8]), (BEGIN, ASK));
            assert_eq!(example.ids[1..8], example.targets[8..15]);
            assert_eq!(example.targets[15], END);
            assert!(example.targets[..8].iter().all(|&target| target == IGNORE));
            let mut text = example.ids[1..8].to_vec();
            text.sort_unstable();
            text.dedup();
            assert_eq!(text.len(), 7, "symbols are different");
        }
    }
}
