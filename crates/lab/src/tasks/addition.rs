//! `3 2 + 9 4 =` → `2 7 0`: two numbers of as many digits, the lowest digit first.

use super::{ASK, BEGIN, Defaults, Draws, END, Example, FIRST, Part, Task, symbols};

/// To add two numbers.
pub struct Addition;

impl Task for Addition {
    fn name(&self) -> &'static str {
        "addition"
    }

    fn isolates(&self) -> &'static str {
        "Two places read in step, with a carry: known for results that differ from seed to seed."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 3, test_lengths: vec![1, 2, 3, 4, 5], steps: 2000 },
            false => Defaults { train_length: 4, test_lengths: vec![1, 2, 3, 4, 5, 6], steps: 5000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + 10
    }

    fn digits(&self) -> std::ops::Range<u32> {
        FIRST..FIRST + 10
    }

    fn tokens(&self, length: usize) -> usize {
        3 * length + 3
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let [a, b] = [(); 2].map(|()| (0..length).map(|_| draws.below(10)).collect::<Vec<_>>());
        let mut sum = Vec::with_capacity(length + 1);
        let mut carry = 0;
        for (a, b) in a.iter().zip(&b) {
            sum.push((a + b + carry) % 10);
            carry = (a + b + carry) / 10;
        }
        sum.push(carry);
        // The sign + is the token that ends other answers.
        let question = [&[BEGIN], &symbols(&a)[..], &[END], &symbols(&b), &[ASK]].concat();
        Example::answering(question, &symbols(&sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_the_sum() {
        let number = |digits: &[u32]| {
            digits.iter().rev().fold(0u64, |number, &digit| 10 * number + u64::from(digit - FIRST))
        };
        for key in 0..200 {
            let length = 1 + key as usize % 12;
            let Example { ids, targets } = Addition.example(length, Part::Train, &mut Draws::new(&[key]));
            let (a, b) = (&ids[1..=length], &ids[length + 2..2 * length + 2]);
            assert_eq!(number(a) + number(b), number(&targets[2 * length + 2..]));
        }
    }
}
