//! `a b a c a |` → `a`: which symbol is there most often? The control, since order means nothing.

use super::{ASK, BEGIN, Defaults, Draws, Example, FIRST, Part, Task, symbols};

/// Symbols that there are.
const SYMBOLS: usize = 8;

/// To name the symbol of more than half of the text.
pub struct Majority;

impl Task for Majority {
    fn name(&self) -> &'static str {
        "majority"
    }

    fn isolates(&self) -> &'static str {
        "Nothing of position, the control: the answer is the same in any order, so encodings should tie."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 12, test_lengths: vec![4, 8, 12, 16, 24], steps: 300 },
            false => Defaults { train_length: 24, test_lengths: vec![8, 16, 24, 32, 48, 64], steps: 1000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS
    }

    fn tokens(&self, length: usize) -> usize {
        length + 2
    }

    fn is_control(&self) -> bool {
        true
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let winner = draws.below(SYMBOLS);
        // More than half, and at most all.
        let least = length / 2 + 1;
        let votes = least + draws.below(length + 1 - least);
        let mut text = vec![winner; length];
        for place in draws.different(length - votes, length) {
            text[place] = (winner + 1 + draws.below(SYMBOLS - 1)) % SYMBOLS;
        }
        let question = [&[BEGIN], &symbols(&text)[..], &[ASK]].concat();
        Example::answering(question, &[FIRST + winner as u32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_more_than_half_of_the_text() {
        let mut closest = usize::MAX;
        for key in 0..200 {
            let length = 1 + key as usize % 20;
            let example = Majority.example(length, Part::Train, &mut Draws::new(&[key]));
            let answer = *example.targets.last().unwrap();
            let votes = example.ids.iter().filter(|&&id| id == answer).count();
            assert!(2 * votes > length, "{votes} of {length}");
            closest = closest.min(2 * votes - length);
        }
        assert_eq!(closest, 1, "some are close");
    }
}
