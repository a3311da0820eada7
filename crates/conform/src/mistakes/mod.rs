//! The mistakes that are known: each changes a right plan in one place, and has a name, a sentence and a cure.

mod factor;
mod frequencies;
mod lengths;
mod pairing;
mod positions;
mod precision;
mod rules;
mod slice;

use crate::case::Meaning;
use crate::plan::Plan;

/// One way of getting it wrong.
#[derive(Clone, Copy)]
pub struct Mistake {
    /// Its name, in reports and in JSON.
    pub name: &'static str,
    /// What was done: the end of a sentence that begins with "the implementation".
    pub does: &'static str,
    /// What to do instead.
    pub cure: &'static str,
    /// Whether it is a loss of bits. A number that lies between two others is then rounded up here and down there by
    /// implementations that differ in a last bit, so that a few elements may be elsewhere.
    pub is_rounding: bool,
    /// Makes the plan wrong; false where the mistake cannot be made.
    pub(crate) apply: fn(&Meaning, &mut Plan) -> bool,
}

impl std::fmt::Debug for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// An entry of the table.
const fn mistake(
    name: &'static str,
    does: &'static str,
    cure: &'static str,
    apply: fn(&Meaning, &mut Plan) -> bool,
) -> Mistake {
    Mistake { name, does, cure, is_rounding: false, apply }
}

/// Every known mistake.
pub fn all() -> impl Iterator<Item = &'static Mistake> {
    [
        pairing::MISTAKES,
        positions::MISTAKES,
        frequencies::MISTAKES,
        precision::MISTAKES,
        factor::MISTAKES,
        slice::MISTAKES,
        rules::MISTAKES,
        lengths::MISTAKES,
    ]
    .into_iter()
    .flatten()
}

/// The mistake of this name.
pub fn find(name: &str) -> Option<&'static Mistake> {
    all().find(|mistake| mistake.name == name)
}
