//! `a b a c`, with the state after each: how three things lie after the first few swaps, the word problem of the group S₃.
//!
//! What is said at each token is a label of what was read so far and is not read itself, as Merrill et al. 2024 (arXiv 2404.08819)
//! have it for words of S₅: were it read, each state would follow from the one before it and one token.

use super::{BEGIN, Defaults, Draws, Example, FIRST, Part, Task, symbols};
use roformer::graph::IGNORE;

/// The permutations of three things: where each place takes its own from. The first leaves all as they are.
const PERMUTATIONS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// To say after every permutation what all so far come to.
pub struct State;

impl Task for State {
    fn name(&self) -> &'static str {
        "state"
    }

    fn isolates(&self) -> &'static str {
        "Keeping a state: what every token so far comes to, in order, where no token can be left out or changed for another."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        match is_quick {
            true => Defaults { train_length: 6, test_lengths: vec![2, 4, 6, 7, 8, 12], steps: 2000 },
            false => Defaults { train_length: 6, test_lengths: vec![2, 4, 6, 7, 8, 12, 16], steps: 5000 },
        }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + PERMUTATIONS.len()
    }

    fn tokens(&self, length: usize) -> usize {
        length + 1
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let word: Vec<usize> = (0..length).map(|_| draws.below(PERMUTATIONS.len())).collect();
        let mut state = 0;
        let states: Vec<usize> = word
            .iter()
            .map(|&next| {
                state = after(state, next);
                state
            })
            .collect();
        Example {
            ids: [&[BEGIN], &symbols(&word)[..]].concat(),
            targets: [&[IGNORE], &symbols(&states)[..]].concat(),
        }
    }
}

/// The permutation that comes of one and then another.
fn after(first: usize, then: usize) -> usize {
    let made = PERMUTATIONS[then].map(|from| PERMUTATIONS[first][from]);
    PERMUTATIONS.iter().position(|&known| known == made).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three cups are moved about: what is said after each move is how they lie.
    #[test]
    fn the_label_is_how_things_lie() {
        let mut seen = Vec::new();
        for key in 0..60 {
            let length = 1 + key as usize % 12;
            let Example { ids, targets } = State.example(length, Part::Train, &mut Draws::new(&[key]));
            assert_eq!((ids[0], targets[0]), (BEGIN, IGNORE));
            let mut cups = ['a', 'b', 'c'];
            for (&id, &target) in ids.iter().zip(&targets).skip(1) {
                let [x, y, z] = PERMUTATIONS[(id - FIRST) as usize];
                cups = [cups[x], cups[y], cups[z]];
                let said = PERMUTATIONS[(target - FIRST) as usize];
                assert_eq!(cups, said.map(|cup| ['a', 'b', 'c'][cup]));
                seen.push(target);
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }

    /// It is a group, and order matters in it.
    #[test]
    fn permutations_are_a_group() {
        let all = 0..PERMUTATIONS.len();
        for a in all.clone() {
            assert_eq!((after(0, a), after(a, 0)), (a, a));
            assert!(all.clone().any(|b| after(a, b) == 0));
            for (b, c) in all.clone().flat_map(|b| all.clone().map(move |c| (b, c))) {
                assert_eq!(after(after(a, b), c), after(a, after(b, c)));
            }
        }
        assert_ne!(after(1, 2), after(2, 1));
    }
}
