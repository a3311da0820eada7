//! `c a b a |` → `a a b c`: a few symbols, some of them more than once.

use super::{ASK, BEGIN, Defaults, Draws, Example, FIRST, Part, Task, symbols};

/// To say it in order.
pub struct Sort {
    /// Symbols that there are.
    pub(super) symbols: usize,
}

impl Sort {
    /// The lab's own.
    pub(super) const USUAL: Sort = Sort { symbols: 5 };
}

impl Task for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn isolates(&self) -> &'static str {
        "Counting by content: the order of the question means nothing, the place in the answer does."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 8, test_lengths: vec![2, 4, 6, 8, 10, 12, 16], steps: 700 },
            false => {
                Defaults { train_length: 12, test_lengths: vec![3, 6, 9, 12, 14, 16, 20, 24], steps: 2000 }
            }
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + self.symbols
    }

    fn tokens(&self, length: usize) -> usize {
        2 * length + 1
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let mut text: Vec<usize> = (0..length).map(|_| draws.below(self.symbols)).collect();
        let question = [&[BEGIN], &symbols(&text)[..], &[ASK]].concat();
        text.sort_unstable();
        Example::answering(question, &symbols(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_in_order_and_lacks_nothing() {
        for key in 0..50 {
            let example = Sort::USUAL.example(9, Part::Train, &mut Draws::new(&[key]));
            let answer = &example.targets[10..];
            assert!(answer.windows(2).all(|pair| pair[0] <= pair[1]));
            for symbol in FIRST..FIRST + Sort::USUAL.symbols as u32 {
                let count = |list: &[u32]| list.iter().filter(|&&id| id == symbol).count();
                assert_eq!(count(answer), count(&example.ids[1..10]));
            }
        }
    }
}
