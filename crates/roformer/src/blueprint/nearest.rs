//! Which known family a model of an unknown one is most like.

use super::family::{self, Family};
use super::fields::object;
use super::tensors::Named;
use crate::weights::Weights;
use std::collections::BTreeSet;

/// The known family that a model is most like, by the names of its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The family.
    pub family: Family,
    /// How many tensors have the names that the family's have.
    pub shared: usize,
    /// Tensors that the family has and the file has not.
    pub missing: Vec<String>,
    /// Tensors that the file has and the family has not.
    pub unexpected: Vec<String>,
}

impl Nearest {
    /// The family whose tensors are most like those of a file, its `config.json` read as that family's; `None` where not even
    /// half of the names are known.
    pub fn find(config: &[u8], weights: &Weights) -> Option<Nearest> {
        let all = Family::NAMED.into_iter().filter_map(|family| Self::of(family, config, weights));
        let nearest = all.max_by_key(|nearest| (nearest.shared, usize::MAX - nearest.missing.len()))?;
        (2 * nearest.shared >= weights.names().count()).then_some(nearest)
    }

    /// What a file has in common with a family.
    fn of(family: Family, config: &[u8], weights: &Weights) -> Option<Nearest> {
        let mut map = object(config).ok()?;
        map.insert("model_type".into(), family.model_type().into());
        // Classes have names of their own.
        map.remove("architectures");
        let blueprint = family::read(map, Some(weights)).ok()?;
        let source = Named::new(weights, family.names());
        let asked: BTreeSet<String> =
            blueprint.tensors().iter().map(|asked| source.own(&asked.name).to_string()).collect();
        let has: BTreeSet<String> = weights.names().map(str::to_string).collect();
        let difference = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect();
        Some(Nearest {
            family,
            shared: asked.intersection(&has).count(),
            missing: difference(&asked, &has),
            unexpected: difference(&has, &asked),
        })
    }
}

impl std::fmt::Display for Nearest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let some = |list: &[String]| match list {
            [] => "none".to_string(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        let all = self.shared + self.unexpected.len();
        write!(f, "the nearest family that is known is {}: ", self.family.model_type())?;
        write!(f, "{} of {all} tensors have its names; ", self.shared)?;
        write!(f, "missing: {}; others: {}", some(&self.missing), some(&self.unexpected))
    }
}
