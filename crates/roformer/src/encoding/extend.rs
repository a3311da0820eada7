//! Rotary embedding that reaches beyond the distances of training: keys within a window stand where they stand, and further ones are
//! all as far as the window (ReRoPE, Su 2023, kexue.fm/archives/9708) or are counted in groups of tokens (Self-Extend, Jin et al. 2024,
//! arXiv 2401.01325). Both are meant for a model that was trained without: `Blueprint::extended` makes one of any with rotary
//! embedding, and nothing has to be learned anew.

use super::rotary::Rotary;
use super::{Encode, Sizes, Terms, check_rows};
use crate::error::{Error, Result};
use crate::graph::{Builder, Far};
use crate::ops::Real;

/// Rotary embedding whose far distances are held at a window, or counted in groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Extend {
    /// From which distance on, and what becomes of it.
    pub far: Far,
    /// The rotary embedding within the window.
    pub rotary: Rotary,
}

impl Default for Extend {
    fn default() -> Self {
        Extend { far: Far { window: 16, group: None }, rotary: Rotary::default() }
    }
}

impl<T: Real> Encode<T> for Extend {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        if !sizes.is_causal {
            let expected = "a causal model: what is far lies before a token";
            return Err(Error::input("extend", "asked for without a causal mask", expected));
        }
        let Far { window, group } = self.far;
        if window == 0 {
            return Err(Error::input("the window", window, "at least 1 token, which is near"));
        }
        check_rows("the window", window)?;
        if let Some(group) = group.filter(|&group| group < 2) {
            return Err(Error::input("the group", group, "at least 2 tokens; 0 for no groups"));
        }
        check_rows("the group", group.unwrap_or(0))?;
        if self.rotary.is_learned {
            let expected = "fixed ones: a position for near keys and one for far ones turn by the same";
            return Err(Error::input("the frequencies of extend", "learned", expected));
        }
        if self.rotary.schedule.depends_on_length() {
            let expected = "one that does not change with the length of a text";
            return Err(Error::input(
                "the rule of frequencies",
                format!("{:?}", self.rotary.schedule),
                expected,
            ));
        }
        Encode::<T>::check(&self.rotary, sizes)
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        Terms { far: Some(self.far), ..self.rotary.terms(builder, layer, sizes) }
    }
}
