//! `a b c / d e f / g h i /`, and at each symbol below the first row the one that stands above it: squares of several sizes, row by row.
//!
//! Above is always one row up in the same column. In the row of tokens it is as many tokens back as the square is wide, and one more, which
//! differs from text to text: only the signs at the ends of rows tell it. What is said are labels, which are not read.

use super::{Defaults, Draws, END, Example, FIRST, Part, Task, symbols};
use roformer::graph::IGNORE;

/// Symbols that there are.
const SYMBOLS: usize = 8;

/// The largest square: with the sign at the end of a row it is as wide as a row of the axial encoding.
const LARGEST: usize = 15;

/// To find what stands above.
pub struct Grid;

impl Task for Grid {
    fn name(&self) -> &'static str {
        "grid"
    }

    fn isolates(&self) -> &'static str {
        "Neighbours in two dimensions: what stands above, in squares of several sizes read row by row."
    }

    fn defaults(&self, is_quick: bool) -> Defaults {
        let steps = if is_quick { 1000 } else { 3000 };
        Defaults { train_length: 5, test_lengths: vec![2, 3, 4, 5, 6, 7, 8], steps }
    }

    fn vocabulary(&self) -> usize {
        FIRST as usize + SYMBOLS
    }

    fn tokens(&self, length: usize) -> usize {
        length * (length + 1)
    }

    fn lengths(&self) -> std::ops::RangeInclusive<usize> {
        2..=LARGEST
    }

    fn places(&self, length: usize) -> Option<Vec<[usize; 2]>> {
        let width = length + 1;
        Some((0..self.tokens(length)).map(|token| [token / width, token % width]).collect())
    }

    fn example(&self, length: usize, _: Part, draws: &mut Draws) -> Example {
        let cells: Vec<usize> = (0..length * length).map(|_| draws.below(SYMBOLS)).collect();
        let cells = symbols(&cells);
        let (mut ids, mut targets) = (Vec::new(), Vec::new());
        for (row, own) in cells.chunks(length).enumerate() {
            ids.extend(own);
            ids.push(END);
            match row.checked_sub(1) {
                Some(above) => targets.extend(&cells[above * length..][..length]),
                None => targets.extend(vec![IGNORE; length]),
            }
            targets.push(IGNORE);
        }
        Example { ids, targets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_stands_above() {
        for key in 0..200 {
            let length = 2 + key as usize % 7;
            let Example { ids, targets } = Grid.example(length, Part::Train, &mut Draws::new(&[key]));
            let places = Grid.places(length).unwrap();
            assert_eq!((ids.len(), places.len()), (Grid.tokens(length), Grid.tokens(length)));
            let at = |place: [usize; 2]| ids[places.iter().position(|&own| own == place).unwrap()];
            for (&target, &[row, column]) in targets.iter().zip(&places) {
                match row {
                    0 => assert_eq!(target, IGNORE),
                    _ if column == length => assert_eq!(target, IGNORE),
                    _ => assert_eq!(target, at([row - 1, column])),
                }
            }
            assert!(ids.iter().filter(|&&id| id == END).count() == length && at([0, length]) == END);
        }
    }
}
