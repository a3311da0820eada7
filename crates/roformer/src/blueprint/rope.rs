//! The rotary embedding in the `config.json` of Llama and its relatives, both ways.

use super::Family;
use super::fields::Fields;
use crate::encoding::Rotary;
use crate::error::Result;
use rope::{Axes, Pairing, Ramp, Rope, Schedule};
use serde_json::{Map, Value, json};

/// The rope, from the file and what the class takes where it is silent.
pub(super) fn read(fields: &Fields, family: Family, [width, heads]: [usize; 2]) -> Result<Rope> {
    let mut map = fields.0.clone();
    map.insert("model_type".into(), family.model_type().into());
    map.insert("hidden_size".into(), width.into());
    map.insert("num_attention_heads".into(), heads.into());
    let bytes = Value::Object(map).to_string();
    let rope = Rope::from_hf(bytes.as_bytes())?.only()?.clone();
    if rope.pairing() != Pairing::Half || *rope.axes() != Axes::One {
        let expected = format!("one axis, pairing {}", Pairing::Half);
        return Err(fields.error("rope_scaling", expected));
    }
    Ok(rope)
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
