//! `a a a |` → `a a a .`: one symbol, and how often.

use super::{ASK, BEGIN, Defaults, Draws, END, Example, FIRST, Part, Task};

/// To say one symbol as often as it was read.
pub struct Repeat {
    /// Symbols that there are.
    pub(super) symbols: usize,
}

impl Repeat {
    /// The lab's own.
    pub(super) const USUAL: Repeat = Repeat { symbols: 16 };
}

impl Task for Repeat {
    fn name(&self) -> &'static str {
        "repeat"
    }

    fn isolates(&self) -> &'static str {
        "Counting: what to say is plain from the first token on, when to stop is not."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 8, test_lengths: vec![2, 4, 6, 8, 9, 10, 12, 16], steps: 500 },
            false => Defaults {
                train_length: 12,
                test_lengths: vec![3, 6, 9, 12, 13, 14, 16, 20, 24],
                steps: 1500,
            },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + self.symbols
    }

    fn tokens(&self, length: usize) -> usize {
        2 * length + 2
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let text = vec![FIRST + draws.below(self.symbols) as u32; length];
        let question = [&[BEGIN], &text[..], &[ASK]].concat();
        Example::answering(question, &[&text[..], &[END]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_as_many() {
        for length in 1..20 {
            let example = Repeat::USUAL.example(length, Part::Train, &mut Draws::new(&[length as u64]));
            let symbol = example.ids[1];
            let count = |list: &[u32]| list.iter().filter(|&&id| id == symbol).count();
            assert_eq!((count(&example.ids[..length + 1]), count(&example.targets)), (length, length));
            assert_eq!(example.targets.last(), Some(&END));
        }
    }
}
