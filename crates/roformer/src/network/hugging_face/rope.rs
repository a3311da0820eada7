//! The rotary embedding in a decoder's `config.json`, both ways.

use crate::encoding::Rotary;
use crate::error::{Error, Result};
use rope::{Ramp, Rope, Schedule};
use serde_json::{Map, Value, json};

/// The encoding that turns as a rope does.
pub(super) fn rotary(rope: &Rope) -> Result<Rotary> {
    let rotary = Rotary {
        base: rope.base(),
        pairing: rope.pairing(),
        schedule: rope.schedule().clone(),
        rotary_dim: Some(rope.rotary_dim()).filter(|&dim| dim != rope.head_dim()),
        values: false,
        is_learned: false,
    };
    match rotary.rope(rope.head_dim())? == *rope {
        true => Ok(rotary),
        false => Err(Error::Config {
            field: "rope_parameters".into(),
            value: format!("a rotation of {} features of {}", rope.rotary_dim(), rope.head_dim()),
            expected: "one of an even number, from the first on: others are run, but not trained".into(),
        }),
    }
}

/// What a `config.json` says of an encoding: `rope_theta`, `rope_scaling`, and `max_position_embeddings`, which is `longest`
/// unless the rule reads something else there. A rule that has no name there is left out.
pub(super) fn fields(rotary: &Rotary, head_dim: usize, longest: usize) -> Map<String, Value> {
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
