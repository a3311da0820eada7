//! Projections of queries and keys, permuted from one pairing to another; and how a file says that they were.

use super::write::zeros;
use crate::error::{Failure, Outcome};
use roformer::weights::Weights;
use rope::{HeadLayout, HfConfig, HfOptions, Pairing, permute_projection};
use serde_json::Value;
use std::path::Path;

/// Models whose projections of queries and keys are matrices of their own, with nothing after them that is tied to the
/// order of features. (Norms of each head's queries would have to be permuted too.)
const SEPARATE: [&str; 5] = ["llama", "mistral", "mixtral", "qwen2", "qwen2_moe"];

/// From one pairing to another.
pub struct Change {
    /// The pairing of the model's own definition.
    pub model: Pairing,
    from: Pairing,
    pub to: Pairing,
    /// Of one head; how many there are is told by each tensor.
    head: HeadLayout,
    /// What stands before `.weight` and `.bias`, for queries and for keys.
    ends: [&'static str; 2],
}

impl Change {
    /// What leads to the pairing `to`, from the one that the file gives or else the model's own.
    pub fn new(
        config: Option<&[u8]>,
        path: &Path,
        own: Option<Pairing>,
        to: Pairing,
    ) -> Result<Self, Failure> {
        let fail = |message: &str| Failure::Input(format!("{}: {message}", path.display()));
        let Some(config) = config else {
            return Err(fail("does not exist; --pairing needs it, for the width of a head"));
        };
        let read = HfConfig::read(config, &HfOptions::default()).map_err(|error| fail(&error.to_string()))?;
        let fields: Value = rope::config::parse(config).map_err(|error| fail(&error.to_string()))?;
        if fields["rotary_value"] == true {
            return Err(fail("`rotary_value` is true; --pairing permutes queries and keys, not values"));
        }
        let kind = read.model_type.clone().unwrap_or_default();
        let ends = match kind.as_str() {
            "roformer" => [".attention.self.query", ".attention.self.key"],
            kind if SEPARATE.contains(&kind) && read.section.is_none() => {
                [".self_attn.q_proj", ".self_attn.k_proj"]
            }
            _ => {
                let kind = kind.escape_debug();
                let known = SEPARATE.join(", ");
                return Err(fail(&format!("`model_type` is \"{kind}\"; --pairing knows roformer, {known}")));
            }
        };
        let set = read.ropes()?;
        let rope = set.only().map_err(|error| fail(&error.to_string()))?;
        let head = HeadLayout {
            heads: 1,
            head_dim: rope.head_dim(),
            rotary_dim: rope.rotary_dim(),
            rotary_offset: rope.rotary_offset(),
        };
        Ok(Change { model: rope.pairing(), from: own.unwrap_or(rope.pairing()), to, head, ends })
    }

    /// Whether this tensor is a projection of queries or keys that are rotated.
    pub fn concerns(&self, name: &str) -> bool {
        let stem = name.strip_suffix(".weight").or(name.strip_suffix(".bias"));
        stem.is_some_and(|stem| self.ends.iter().any(|end| stem.ends_with(end)))
    }

    /// That there is something to permute, and that it has whole heads.
    pub fn check(&self, weights: &Weights, names: &[&str]) -> Outcome {
        let fail = |message: String| Failure::Input(format!("{}: {message}", weights.path().display()));
        let mut found = false;
        for tensor in names.iter().filter(|name| self.concerns(name)) {
            let shape = weights.get(tensor).map_or(&[][..], |tensor| tensor.shape());
            let rows = shape.first().copied().unwrap_or(0);
            if rows == 0 || !rows.is_multiple_of(self.head.head_dim) {
                let expected = format!("rows for heads of {} features", self.head.head_dim);
                return Err(fail(format!(
                    "`{}` has shape {shape:?}; expected {expected}",
                    tensor.escape_debug()
                )));
            }
            found = true;
        }
        match found {
            true => Ok(()),
            false => Err(fail(format!("no tensor named …{}.weight; nothing to permute", self.ends[0]))),
        }
    }

    /// The permuted numbers of a tensor of this shape.
    pub fn apply(&self, shape: &[usize], numbers: &[f32]) -> Result<Vec<f32>, Failure> {
        let [rows, columns @ ..] = shape else {
            return Err(Failure::Other("a projection without rows".into()));
        };
        let head = HeadLayout { heads: rows / self.head.head_dim, ..self.head };
        let mut out = zeros(numbers.len())?;
        permute_projection(numbers, &mut out, columns.iter().product(), head, self.from, self.to)?;
        Ok(out)
    }
}
