//! Which of the texts that wait run together.

use roformer::pipeline::fits_packed;

/// What a batch may be.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Tokens at most, padding included where there is any; a single text may have more.
    pub tokens: usize,
    /// Texts at most.
    pub texts: usize,
    /// Tokens, padding included, below which a batch takes no longer for more of them: on a GPU the time of its launches.
    pub free: usize,
    /// Whether texts of several lengths run without padding.
    pub packs: bool,
}

/// Tokens of padding with which a text may still join. A batch of its own would cost it the reading of all weights, which takes as long as
/// some 20 tokens in f32 on two cores, and three times as many with narrower weights; but the next batch may fit it better. Over queues of
/// mixed lengths 12 came within a twentieth of the least cost, whichever of the two holds.
const JOINS: usize = 12;

/// Which texts of these lengths run next. The first, whose turn it is, is always among them. Where there is no padding those that follow
/// it come along. Else they are in the order of their lengths, and others come along by how near their lengths are to its own, as long as
/// each brings little padding, or at most a sixteenth of the batch is, or the batch is so small that padding takes no time.
pub fn pick(lengths: &[usize], shape: Shape) -> Vec<usize> {
    let Some(&first) = lengths.first() else { return Vec::new() };
    if shape.packs {
        return follow(lengths, shape);
    }
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    // Of equal lengths the earlier; the first is before all of its own length.
    order.sort_by_key(|&index| (lengths[index], index));
    let seed = order.iter().position(|&index| index == 0).unwrap_or(0);
    let (mut low, mut high) = (seed, seed + 1);
    let mut real = first;
    loop {
        let longest = lengths[order[high - 1]];
        // The nearer neighbour first.
        let below = low.checked_sub(1).map(|next| lengths[order[next]]);
        let above = order.get(high).map(|&next| lengths[next]);
        let (takes_above, length) = match (below, above) {
            (None, None) => break,
            (Some(below), None) => (false, below),
            (None, Some(above)) => (true, above),
            (Some(below), Some(above)) => match above - first <= first - below {
                true => (true, above),
                false => (false, below),
            },
        };
        let texts = high - low + 1;
        let padded = texts * longest.max(length);
        let brought = padded - (texts - 1) * longest - length;
        let is_lean = brought <= JOINS || padded <= shape.free || 15 * padded <= 16 * (real + length);
        if texts > shape.texts || padded > shape.tokens || !is_lean {
            break;
        }
        real += length;
        if takes_above { high += 1 } else { low -= 1 }
    }
    order[low..high].to_vec()
}

/// The first texts, as many as may run together.
fn follow(lengths: &[usize], shape: Shape) -> Vec<usize> {
    let (mut tokens, mut longest) = (0, 0);
    let fits = |&(index, &length): &(usize, &usize)| {
        (tokens, longest) = (tokens + length, longest.max(length));
        index == 0 || index < shape.texts && fits_packed(shape.tokens, tokens, (index + 1) * longest)
    };
    lengths.iter().enumerate().take_while(fits).map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { tokens: 512, texts: 100, free: 0, packs: false };

    #[test]
    fn without_padding_those_that_follow_come_along() {
        let shape = Shape { packs: true, ..SHAPE };
        assert_eq!(pick(&[100, 7, 300, 98, 101, 1], shape), [0, 1, 2, 3]);
        assert_eq!(pick(&[600, 1], shape), [0]);
        assert_eq!(pick(&[1, 1, 1], Shape { texts: 2, ..shape }), [0, 1]);
        assert_eq!(pick(&[], shape), [0; 0]);
        // What stands beside a long text where a head is given all texts with their padding.
        assert!(pick(&[vec![400], vec![1; 100]].concat(), shape).len() < 12);
    }

    fn lengths(all: &[usize], picked: &[usize]) -> Vec<usize> {
        picked.iter().map(|&index| all[index]).collect()
    }

    #[test]
    fn the_one_whose_turn_it_is_takes_those_of_its_length_along() {
        let all = [100, 7, 98, 300, 101, 100, 8];
        assert_eq!(lengths(&all, &pick(&all, SHAPE)), [98, 100, 100, 101]);
        assert_eq!(pick(&[], SHAPE), [0; 0]);
        assert_eq!(pick(&[5], SHAPE), [0]);
    }

    #[test]
    fn one_text_runs_whatever_its_length() {
        assert_eq!(pick(&[1000, 1000], SHAPE), [0]);
    }

    #[test]
    fn short_texts_run_together_rather_than_alone() {
        let all = [20, 3, 10, 500];
        assert_eq!(lengths(&all, &pick(&all, SHAPE)), [10, 20]);
        assert_eq!(lengths(&[9, 3, 5], &pick(&[9, 3, 5], SHAPE)), [3, 5, 9]);
    }

    #[test]
    fn padding_that_takes_no_time_keeps_nobody_out() {
        let all = [20, 90, 50, 100, 150];
        let shape = Shape { free: 400, ..SHAPE };
        assert_eq!(lengths(&all, &pick(&all, shape)), [20, 50, 90, 100]);
        assert_eq!(lengths(&all, &pick(&all, SHAPE)), [20]);
    }

    /// Over many queues: the first is in, no bound is broken, no text twice.
    #[test]
    fn no_bound_is_broken() {
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        for _ in 0..2000 {
            let all: Vec<usize> = (0..1 + random(60)).map(|_| 1 + random(400)).collect();
            let shape = Shape { tokens: 64 + random(600), texts: 1 + random(20), ..SHAPE };
            let mut picked = pick(&all, shape);
            let real: usize = lengths(&all, &picked).iter().sum();
            let padded = picked.len() * lengths(&all, &picked).iter().max().unwrap();
            assert!(picked.contains(&0), "{all:?}");
            assert!(picked.len() == 1 || padded <= shape.tokens && picked.len() <= shape.texts);
            // Both allowances together.
            let most = 16 * real + 15 * JOINS * (picked.len() - 1);
            assert!(15 * padded <= most, "{all:?} {picked:?}");
            picked.sort_unstable();
            picked.dedup();
            assert_eq!(lengths(&all, &picked).iter().sum::<usize>(), real);
        }
    }
}
