//! PoPE (Gopalakrishnan et al. 2025, arXiv 2509.10534): what a feature says is a magnitude, ln(1 + e^x), and where it stands a phase, t·θ.
//! In rotary embedding the two are mixed: the angle of a pair comes from what is read as well. The score is
//! Σ_c μ(q_c)·μ(k_c)·cos((t − s)·θ_c − δ_c)/√d, with a frequency for each feature and a learned phase δ_c for each feature of a key head.

use super::{Encode, Sizes, Terms};
use crate::error::Result;
use crate::graph::{Builder, Init, PolarTerm, Rotation};
use crate::ops::Real;
use rope::{Pairing, Rope};

/// Magnitudes that turn by their positions alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pope {
    /// The base of the frequencies.
    pub base: f64,
    /// Whether keys have a learned phase for each feature, 0 at first.
    pub has_phases: bool,
}

impl Default for Pope {
    fn default() -> Self {
        Pope { base: 10_000.0, has_phases: true }
    }
}

impl Pope {
    /// The rotation of pairs: as many as a head has features.
    pub fn rope(&self, head_dim: usize) -> Result<Rope> {
        Ok(Rope::builder(2 * head_dim).base(self.base).pairing(Pairing::Interleaved).build()?)
    }
}

impl<T: Real> Encode<T> for Pope {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        self.rope(sizes.head_dim).map(drop)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let Ok(rope) = self.rope(sizes.head_dim) else { return Terms::default() };
        let phases = self.has_phases.then(|| {
            let shape = [sizes.key_heads, sizes.head_dim];
            let name = format!("position.pope.{layer}.phases");
            let phases = builder.parameters().add(name, &shape, Init::Constant(0.0));
            builder.lift(phases, shape[0], shape[1])
        });
        Terms { rotation: Some(Rotation::fixed(rope)), polar: Some(PolarTerm { phases }), ..Terms::default() }
    }
}
