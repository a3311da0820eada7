//! A language model of characters, on the user's text or on one that a grammar makes.

use super::{Defaults, Draws, Example, Part, Task, grammar};
use roformer::train::Data;
use roformer::{Error, Result};
use std::ops::Range;

/// Characters of a generated text.
const GENERATED: usize = 400_000;

/// The least that is kept for tests.
const LEAST: usize = 1024;

/// The longest text that a test may ask for.
const LONGEST: usize = 4096;

/// The next character.
pub struct Language {
    ids: Vec<u32>,
    /// Tokens that there are.
    tokens: usize,
    fingerprint: u64,
}

impl Language {
    /// Of this text, or of a generated one.
    pub fn new(text: Option<&Data>) -> Result<Self> {
        let generated;
        let data = match text {
            Some(data) => data,
            None => {
                generated = Data::from_text(&grammar::text(1, GENERATED))?;
                &generated
            }
        };
        let all = data.tokens();
        if all < 10 * LEAST {
            let expected = format!("at least {}: a tenth is kept for tests", 10 * LEAST);
            return Err(Error::input("the number of characters of the text", all, expected));
        }
        let (tokens, fingerprint) = (data.vocabulary().tokens(), data.fingerprint());
        Ok(Language { ids: data.ids().collect(), tokens, fingerprint })
    }

    /// The last tenth is for tests.
    fn range(&self, part: Part) -> Range<usize> {
        let all = self.ids.len();
        match part {
            Part::Train => 0..all - all / 10,
            Part::Test => all - all / 10..all,
        }
    }
}

impl Task for Language {
    fn name(&self) -> &'static str {
        "language"
    }

    fn isolates(&self) -> &'static str {
        "Nothing by itself: ordinary text, where near characters matter most and far ones now and then."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 48, test_lengths: vec![16, 32, 48, 72, 96, 192], steps: 600 },
            false => Defaults { train_length: 64, test_lengths: vec![16, 32, 64, 96, 128, 256], steps: 2000 },
        }
    }

    fn vocabulary(&self) -> usize {
        self.tokens
    }

    fn tokens(&self, length: usize) -> usize {
        length
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        1..=LONGEST.min(self.range(Part::Test).len() - 1)
    }

    fn example(&self, length: usize, part: Part, draws: &mut Draws) -> Example {
        let range = self.range(part);
        let start = range.start + draws.below(range.len() - length);
        let ids = &self.ids;
        Example {
            ids: ids[start..start + length].to_vec(),
            targets: ids[start + 1..=start + length].to_vec(),
        }
    }

    /// Texts of a language model have no beginning of their own: all are as long as can be.
    fn draw_length(&self, train_length: usize, _: &mut Draws) -> usize {
        train_length
    }

    fn is_language(&self) -> bool {
        true
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_of_their_part_of_the_text() {
        // Each character says by itself where it stands, in steps of a twentieth.
        let text: String = (0..20_000usize).map(|place| (b'a' + (place / 1000) as u8) as char).collect();
        let task = Language::new(Some(&Data::from_text(&text).unwrap())).unwrap();
        // After five special tokens, a to s.
        let first_of_test = 5 + 18;
        for key in 0..300 {
            let length = 1 + key as usize;
            let train = task.example(length, Part::Train, &mut Draws::new(&[key]));
            let test = task.example(length, Part::Test, &mut Draws::new(&[key]));
            let all = |example: &Example| [&example.ids[..], &example.targets].concat();
            assert!(all(&train).iter().all(|&id| id < first_of_test));
            assert!(all(&test).iter().all(|&id| id >= first_of_test));
            assert_eq!(train.ids[1..], train.targets[..length - 1]);
        }
        let short = Data::from_text(&text[..5000]).unwrap();
        assert!(Language::new(Some(&short)).is_err());
    }
}
