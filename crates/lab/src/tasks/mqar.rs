//! `k v k v k v | k v k v`: pairs, then keys again, each to be followed by its value.

use super::{ASK, BEGIN, Defaults, Draws, Example, FIRST, Part, Task};
use roformer::graph::IGNORE;

/// Keys that there are, and values.
const SYMBOLS: usize = 16;

/// Multi-query associative recall: the value of a key.
pub struct Mqar;

impl Task for Mqar {
    fn name(&self) -> &'static str {
        "mqar"
    }

    fn isolates(&self) -> &'static str {
        "Recall by content, however far away: only the neighbour of a key is a matter of position."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 3, test_lengths: vec![1, 2, 3, 4, 6], steps: 4000 },
            false => Defaults { train_length: 3, test_lengths: vec![1, 2, 3, 4, 6, 8], steps: 10_000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + 2 * SYMBOLS
    }

    fn tokens(&self, length: usize) -> usize {
        2 + 4 * length
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        1..=SYMBOLS
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let keys = draws.different(length, SYMBOLS);
        let values: Vec<usize> = keys.iter().map(|_| draws.below(SYMBOLS)).collect();
        let pair = |index: usize| [FIRST + keys[index] as u32, FIRST + (SYMBOLS + values[index]) as u32];
        let mut ids = vec![BEGIN];
        ids.extend((0..length).flat_map(pair));
        ids.push(ASK);
        let mut targets = vec![IGNORE; ids.len()];
        // The same key may be asked for twice: no answer follows from those before it.
        for _ in 0..length {
            let [key, value] = pair(draws.below(length));
            ids.extend([key, value]);
            targets.extend([value, IGNORE]);
        }
        Example { ids, targets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_what_stood_beside_the_key() {
        for key in 0..50 {
            let length = 1 + key as usize % 12;
            let Example { ids, targets } = Mqar.example(length, Part::Train, &mut Draws::new(&[key]));
            let mut asked = 0;
            for (place, &target) in targets.iter().enumerate().filter(|(_, target)| **target != IGNORE) {
                let first = ids.iter().position(|&id| id == ids[place]).unwrap();
                assert!(first < place && first <= 2 * length);
                assert_eq!(ids[first + 1], target);
                asked += 1;
            }
            assert_eq!(asked, length);
        }
    }
}
