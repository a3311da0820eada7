//! Numbers from a seed, for the tests beside the code and for those of the public interface.

#![allow(dead_code, reason = "each test draws what it wants")]

/// Numbers from a seed (splitmix64).
pub struct Random(pub u64);

/// What an element is made of.
pub enum Drawn {
    Number(f64),
    Bits(u64),
}

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in [−1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Numbers in [−1, 1).
    pub fn vector(&mut self, size: usize) -> Vec<f64> {
        (0..size).map(|_| self.unit()).collect()
    }

    /// Any bit pattern, with NaN, infinities, zeros and subnormal numbers far more often than by chance.
    pub fn strange(&mut self) -> Drawn {
        Drawn::Number(match self.next() % 16 {
            0 => f64::NAN,
            1 => f64::INFINITY,
            2 => f64::NEG_INFINITY,
            3 => -0.0,
            4 => 0.0,
            // Subnormal in every type once the table has been multiplied in, or after narrowing.
            5 => return Drawn::Bits(self.next() % 128),
            6..12 => (self.next() % 2001) as f64 / 500.0 - 2.0,
            _ => return Drawn::Bits(self.next()),
        })
    }
}
