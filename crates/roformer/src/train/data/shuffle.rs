//! An order of rows by chance, the same for a key, in no memory: the n-th row of it is computed.

use crate::graph::mix;

/// A permutation of `0..len`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shuffle {
    len: u64,
    /// Half the bits of a number below the next power of four.
    half: u32,
    key: u64,
}

impl Shuffle {
    pub fn new(len: u64, key: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Shuffle { len, half: bits.div_ceil(2).max(1), key: mix(key) }
    }

    /// What stands at a place below `len`. Feistel's rounds permute the numbers below a power of four; those that are too
    /// large go through them again, and so those that are not are permuted among themselves.
    pub fn at(&self, place: u64) -> u64 {
        let low = (1u64 << self.half) - 1;
        let mut number = place;
        loop {
            let (mut left, mut right) = (number >> self.half, number & low);
            for round in 0..4 {
                (left, right) = (right, left ^ (mix(self.key ^ (right << 3) ^ round) & low));
            }
            number = left << self.half | right;
            if number < self.len {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shuffle;

    #[test]
    fn every_row_comes_once_and_keys_differ() {
        for len in [1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097] {
            let order = |key| (0..len).map(|place| Shuffle::new(len, key).at(place)).collect::<Vec<_>>();
            let mut sorted = order(7);
            sorted.sort_unstable();
            assert_eq!(sorted, (0..len).collect::<Vec<_>>());
            if len > 16 {
                assert_ne!(order(7), order(8));
                assert_ne!(order(7), (0..len).collect::<Vec<_>>());
            }
        }
        // Far too many to list: any place will do.
        let far = Shuffle::new(u64::MAX >> 2, 1);
        assert_ne!(far.at(0), far.at(1));
    }
}
