//! Filler, somewhere in it a key of a few symbols, and at the end the question for it.

use super::{ASK, BEGIN, Defaults, Draws, END, Example, FIRST, Part, Task, symbols};

/// Symbols of keys.
const SYMBOLS: usize = 16;

/// Symbols of filler.
const FILLER: usize = 16;

/// Symbols of one key.
const KEY: usize = 3;

/// To find a key in filler.
pub struct Passkey;

impl Task for Passkey {
    fn name(&self) -> &'static str {
        "passkey"
    }

    fn isolates(&self) -> &'static str {
        "Retrieval from far away: one marked place in a long text, at any depth."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 24, test_lengths: vec![8, 16, 24, 36, 48, 96], steps: 800 },
            false => Defaults { train_length: 48, test_lengths: vec![12, 24, 48, 72, 96, 192], steps: 2000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS + FILLER
    }

    fn tokens(&self, length: usize) -> usize {
        length + KEY + 1
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        KEY + 1..=4096
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let key: Vec<usize> = (0..KEY).map(|_| draws.below(SYMBOLS)).collect();
        let mut text: Vec<u32> =
            (0..length).map(|_| FIRST + (SYMBOLS + draws.below(FILLER)) as u32).collect();
        let depth = draws.below(length - KEY);
        // The mark of the key is the token that ends other answers.
        text[depth] = END;
        text[depth + 1..depth + 1 + KEY].copy_from_slice(&symbols(&key));
        let question = [&[BEGIN], &text[..], &[ASK]].concat();
        Example::answering(question, &symbols(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_follows_the_mark() {
        let mut depths = Vec::new();
        for key in 0..200 {
            let length = KEY + 1 + key as usize % 20;
            let Example { ids, targets } = Passkey.example(length, Part::Train, &mut Draws::new(&[key]));
            let mark = ids.iter().position(|&id| id == END).unwrap();
            assert_eq!(ids[mark + 1..=mark + KEY], targets[targets.len() - KEY..]);
            assert!(mark + KEY <= length);
            depths.push(mark);
        }
        depths.sort_unstable();
        depths.dedup();
        assert!(depths.len() > 12, "keys are at many depths");
    }
}
