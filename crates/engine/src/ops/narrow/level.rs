//! The instruction sets that products in fewer bits are written for.

use std::sync::OnceLock;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What any CPU runs.
    Portable,
    #[cfg(target_arch = "x86_64")]
    /// AVX2 with FMA: 16 bits are widened, 8 bits multiplied in pairs.
    Avx2,
    #[cfg(target_arch = "x86_64")]
    /// AVX-512 with BF16 and VNNI, which multiply and add two numbers of 16 bits or four of 8 at once.
    Avx512,
    #[cfg(target_arch = "x86_64")]
    /// AMX, which multiplies whole tiles.
    Amx,
}

impl Level {
    /// All that this machine can run, the best last.
    pub fn available() -> Vec<Level> {
        #[allow(unused_mut, reason = "other machines have the portable loops alone")]
        let mut levels = vec![Level::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            if has!("avx2") && has!("fma") {
                levels.push(Level::Avx2);
                let has_avx512 = has!("avx512f") && has!("avx512vl") && has!("avx512dq") && has!("avx512bw");
                if has_avx512 && has!("avx512bf16") && has!("avx512vnni") {
                    levels.push(Level::Avx512);
                    if super::amx::is_lent() {
                        levels.push(Level::Amx);
                    }
                }
            }
        }
        levels
    }

    /// The best, found once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| *Level::available().last().unwrap_or(&Level::Portable))
    }

    /// Bytes of x that stay in the second-level cache beside the panels that pass by: half of 2 MB, which machines with AMX have, and a
    /// good third of 1 MB.
    pub(super) fn cached_bytes(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Amx => 1 << 20,
            _ => 3 << 17,
        }
    }

    /// Outputs of a panel.
    pub(crate) fn width(self) -> usize {
        match self {
            Level::Portable => super::portable::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => super::avx2::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => super::avx512::WIDTH,
            #[cfg(target_arch = "x86_64")]
            Level::Amx => super::amx::WIDTH,
        }
    }
}
