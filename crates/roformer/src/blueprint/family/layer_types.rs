//! `layer_types` of a `config.json`, both ways: which layers see all tokens, and which do not.

use super::super::Blueprint;
use super::super::fields::Fields;
use super::object;
use crate::error::Result;
use serde_json::{Map, Value, json};

/// A layer that sees all tokens, one with a window, and one that sees pieces of a text, in `layer_types`.
pub(in crate::blueprint) const FULL: &str = "full_attention";
pub(in crate::blueprint) const SLIDING: &str = "sliding_attention";
pub(super) const CHUNKED: &str = "chunked_attention";

/// Which layers are `local` by `layer_types` (they have a window, or see pieces of a text), where the file has it.
pub(super) fn read(fields: &Fields, layers: usize, local: &str) -> Result<Option<Vec<bool>>> {
    let Some(list) = fields.get("layer_types") else { return Ok(None) };
    let kind = |kind: &Value| match kind.as_str() {
        Some(FULL) => Some(false),
        Some(kind) if kind == local => Some(true),
        _ => None,
    };
    let kinds = list.as_array().and_then(|list| list.iter().map(kind).collect::<Option<Vec<bool>>>());
    match kinds.filter(|kinds| kinds.len() == layers) {
        Some(kinds) => Ok(Some(kinds)),
        None => {
            Err(fields.error("layer_types", format!("{FULL} or {local} for each of the {layers} layers")))
        }
    }
}

/// The same the other way.
pub(super) fn write(blueprint: &Blueprint, local: &str) -> Map<String, Value> {
    let kind = |layer: usize| if blueprint.local_of(layer).is_some() { local } else { FULL };
    let kinds: Vec<&str> = (0..blueprint.layers).map(kind).collect();
    object(json!({"layer_types": kinds}))
}
