//! The instruction sets that products in fewer bits are written for.

use rope::Instructions;
use std::sync::OnceLock;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What any CPU runs.
    Portable,
    #[cfg(target_arch = "x86_64")]
    /// AVX2 with FMA: 16 bits are widened to 32, and 8 to 16.
    Avx2,
    #[cfg(target_arch = "x86_64")]
    /// AVX-512 with VNNI, which multiplies and adds four numbers of 8 bits at once; 16 bits as with AVX2.
    Vnni,
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
                if has_avx512 && has!("avx512vnni") {
                    levels.push(Level::Vnni);
                }
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

    /// The best that may be used, found once.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(|| Instructions::best(&Level::available(), Level::needs).unwrap_or(Level::Portable))
    }

    /// Whether there are instructions that multiply numbers of 16 bits.
    pub(crate) fn has_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 | Level::Amx => true,
            _ => false,
        }
    }

    fn needs(self) -> Instructions {
        match self {
            Level::Portable => Instructions::Portable,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => Instructions::Avx2,
            #[cfg(target_arch = "x86_64")]
            Level::Vnni | Level::Avx512 => Instructions::Avx512,
            #[cfg(target_arch = "x86_64")]
            Level::Amx => Instructions::Amx,
        }
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
}
