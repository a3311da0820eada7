//! The rotary embedding in a `config.json`, both ways.

use super::Family;
use super::family::{FULL, SLIDING};
use super::fields::Fields;
use crate::encoding::Rotary;
use crate::error::Result;
use rope::config::RopeSet;
use rope::{Axes, Ramp, Rope, Schedule};
use serde_json::{Map, Value, json};

/// The rope, from the file and what the class takes where it is silent.
pub(super) fn read(fields: &Fields, family: Family, [width, heads]: [usize; 2]) -> Result<Rope> {
    let rope = read_all(fields, family, [width, heads])?.only()?.clone();
    check(fields, family, &rope)?;
    Ok(rope)
}

/// The ropes of layers that see all tokens and of layers with a window, where they have ropes of their own.
pub(super) fn read_both(fields: &Fields, family: Family, [width, heads]: [usize; 2]) -> Result<[Rope; 2]> {
    let all = read_all(fields, family, [width, heads])?;
    let one = |kind: &str| match all.layer(kind)? {
        Some(rope) => check(fields, family, rope).map(|()| rope.clone()),
        None => Err(fields.error("rope_parameters", format!("those of {kind}"))),
    };
    Ok([one(FULL)?, one(SLIDING)?])
}

fn read_all(fields: &Fields, family: Family, [width, heads]: [usize; 2]) -> Result<RopeSet> {
    let mut map = fields.0.clone();
    map.insert("model_type".into(), family.model_type().into());
    map.insert(family.field("width").into(), width.into());
    map.insert(family.field("heads").into(), heads.into());
    let bytes = Value::Object(map).to_string();
    Ok(Rope::from_hf(bytes.as_bytes())?)
}

fn check(fields: &Fields, family: Family, rope: &Rope) -> Result<()> {
    match rope.pairing() == family.pairing() && *rope.axes() == Axes::One {
        true => Ok(()),
        false => Err(fields.error("rope_scaling", format!("one axis, pairing {}", family.pairing()))),
    }
}

/// The `rope_parameters` that say an encoding. A rule that has no name there is left out.
pub(super) fn parameters(family: Family, rotary: &Rotary, head_dim: usize) -> Value {
    let all = write(rotary, head_dim, 1);
    let mut parameters = match all.get("rope_scaling") {
        Some(Value::Object(scaling)) => scaling.clone(),
        _ => Map::new(),
    };
    parameters.entry("rope_type").or_insert("default".into());
    parameters.insert("rope_theta".into(), rotary.base.into());
    // Their classes turn a part where nothing is said.
    if matches!(family, Family::GptNeoX | Family::Glm4) {
        let part = rotary.rotary_dim.map_or(1.0, |dim| dim as f64 / head_dim as f64);
        parameters.insert("partial_rotary_factor".into(), part.into());
    }
    Value::Object(parameters)
}

/// What a `config.json` says of an encoding: `rope_theta`, `rope_scaling`, and `max_position_embeddings`, which is `longest`
/// unless the rule reads something else there. A rule that has no name there is left out.
pub(super) fn write(rotary: &Rotary, head_dim: usize, longest: usize) -> Map<String, Value> {
    let mut longest = longest as u64;
    let mut scaling = match &rotary.schedule {
        Schedule::Linear { factor } => json!({"rope_type": "linear", "factor": factor}),
        Schedule::DynamicNtk { factor, trained_length } => {
            longest = *trained_length;
            json!({"rope_type": "dynamic", "factor": factor})
        }
        Schedule::Yarn(yarn) => json!({
            "rope_type": "yarn",
            "factor": yarn.factor,
            "original_max_position_embeddings": yarn.original_length,
            "beta_fast": yarn.beta_fast,
            "beta_slow": yarn.beta_slow,
            "truncate": yarn.ramp == Ramp::Index { truncate: true },
            "attention_factor": yarn.attention_factor,
            "mscale": yarn.mscale,
            "mscale_all_dim": yarn.mscale_all_dim,
        }),
        Schedule::LongRope(longrope) => json!({
            "rope_type": "longrope",
            "factor": longrope.factor,
            "original_max_position_embeddings": longrope.original_length,
            "short_factor": longrope.short,
            "long_factor": longrope.long,
            "attention_factor": longrope.attention_factor,
        }),
        Schedule::Llama3(llama) => json!({
            "rope_type": "llama3",
            "factor": llama.factor,
            "original_max_position_embeddings": llama.original_length,
            "low_freq_factor": llama.low_freq_factor,
            "high_freq_factor": llama.high_freq_factor,
        }),
        Schedule::Proportional { fraction, factor } => {
            json!({"rope_type": "proportional", "factor": factor, "partial_rotary_factor": fraction})
        }
        _ => json!({"rope_type": "default"}),
    };
    let mut all = Map::new();
    all.insert("max_position_embeddings".into(), longest.into());
    all.insert("rope_theta".into(), rotary.base.into());
    if let Value::Object(scaling) = &mut scaling {
        if let Some(dim) = rotary.rotary_dim {
            let part = dim as f64 / head_dim as f64;
            scaling.insert("partial_rotary_factor".into(), part.into());
        }
        scaling.retain(|_, value| !value.is_null());
        if scaling.len() > 1 {
            all.insert("rope_scaling".into(), json!(scaling));
        }
    }
    all
}
