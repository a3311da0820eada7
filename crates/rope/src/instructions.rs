//! How far loops may go in vector instructions: to the best that the machine has, or less where somebody asks for it.

use crate::error::{Error, Result};
use std::ffi::OsStr;

/// Sets of vector instructions, each with all before it.
///
/// Loops take the best set that the machine has. Machines of several kinds give the same bits where all are held to one set that
/// all have: `ROPE_INSTRUCTIONS=avx2` in the environment of a program, read when its first loop runs. (Rotation itself has the same
/// bits with every set; sums of many products, as models are made of, have not.)
///
/// ```
/// use rope::Instructions;
///
/// assert_eq!(Instructions::named("avx2")?, Instructions::Avx2);
/// assert!(Instructions::Avx2 < Instructions::Avx512);
/// assert!(Instructions::named("mmx").is_err());
/// # Ok::<(), rope::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instructions {
    /// What the compiler makes of plain Rust.
    Portable,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512, with its BF16 and VNNI where they are needed and there.
    Avx512,
    /// AMX, the tiles of Intel's servers.
    Amx,
}

impl Instructions {
    /// The environment variable that names the most that loops may use.
    pub const VARIABLE: &'static str = "ROPE_INSTRUCTIONS";

    const NAMED: [(&'static str, Instructions); 4] = [
        ("portable", Instructions::Portable),
        ("avx2", Instructions::Avx2),
        ("avx512", Instructions::Avx512),
        ("amx", Instructions::Amx),
    ];

    /// The set of this name: `portable`, `avx2`, `avx512` or `amx`.
    pub fn named(name: &str) -> Result<Self> {
        let expected = || {
            let names: Vec<&str> = Self::NAMED.iter().map(|(name, _)| *name).collect();
            format!("one of {}", names.join(", "))
        };
        Self::NAMED
            .iter()
            .find_map(|&(known, set)| (known == name).then_some(set))
            .ok_or_else(|| Error::argument(Self::VARIABLE, name, expected()))
    }

    /// The most that loops may use: what the environment names, or everything where it names nothing. A program that wants to refuse a name
    /// that is none asks here; loops take such a name for none.
    pub fn limit() -> Result<Self> {
        match std::env::var_os(Self::VARIABLE) {
            None => Ok(Instructions::Amx),
            Some(name) => Self::named(&OsStr::to_string_lossy(&name)),
        }
    }

    /// Of the loops that a machine can run, the best last, the best that the environment allows. `None` if there is none.
    pub fn best<L: Copy>(available: &[L], needs: impl Fn(L) -> Instructions) -> Option<L> {
        Self::limit().unwrap_or(Instructions::Amx).best_of(available, needs)
    }

    /// The same with this as the most that is allowed.
    fn best_of<L: Copy>(self, available: &[L], needs: impl Fn(L) -> Instructions) -> Option<L> {
        available.iter().rev().copied().find(|&level| needs(level) <= self)
    }
}

#[cfg(test)]
mod tests {
    use super::Instructions::{self, Amx, Avx2, Avx512, Portable};

    #[test]
    fn the_best_that_is_allowed_and_there() {
        let best = |limit: Instructions, available: &[Instructions]| limit.best_of(available, |level| level);
        assert_eq!(best(Amx, &[Portable, Avx2, Avx512]), Some(Avx512));
        assert_eq!(best(Avx2, &[Portable, Avx2, Avx512]), Some(Avx2));
        assert_eq!(best(Avx512, &[Portable, Avx2]), Some(Avx2));
        assert_eq!(best(Portable, &[Portable, Avx2, Avx512, Amx]), Some(Portable));
        assert_eq!(best(Portable, &[Avx2]), None);
    }
}
