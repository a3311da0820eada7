//! Llama 4's text part, without experts: Llama with adjacent pairs, heads normed after they are rotated, layers whose texts
//! are cut into pieces, and layers without positions, whose queries grow with the text.

use super::super::fields::Fields;
use super::super::tensors::Named;
use super::super::{
    Biases, Blueprint, Direction, HeadKind, HeadNorms, Local, Names, NoPe, NormKind, Norms, Output,
    Temperature, rope,
};
use super::layer_types::{self, CHUNKED};
use super::{Family, head, llama, object};
use crate::encoding::{Encoding, Rotary};
use crate::error::Result;
use crate::weights::Weights;
use serde_json::{Map, Value, json};

pub(super) const NAMES: Names = Names {
    gate: "feed_forward.gate_proj",
    up: "feed_forward.up_proj",
    down: "feed_forward.down_proj",
    ..llama::NAMES
};

/// The heads that its classes have.
const HEADS: [HeadKind; 2] = [HeadKind::CausalLm, HeadKind::None];

pub(super) fn read(fields: &Fields, weights: Option<&Weights>) -> Result<Blueprint> {
    let family = Family::Llama4;
    let width = fields.size("hidden_size", 5120, 1)?;
    let heads = fields.size("num_attention_heads", 40, 1)?;
    let layers = fields.size("num_hidden_layers", 48, 0)?;
    refuse_experts(fields, layers)?;
    fields.size("head_dim", 128, 1)?;
    let rope = rope::read(fields, family, [width, heads])?;
    if rope.rotary_dim() != rope.head_dim() {
        return Err(fields.error("rope_parameters", "no partial_rotary_factor: all features of a head turn"));
    }
    let are_still = no_positions(fields, layers)?;
    let are_cut = layer_types::read(fields, layers, CHUNKED)?;
    let are_cut = are_cut.unwrap_or_else(|| are_still.iter().map(|is_still| !is_still).collect());
    let chunk = fields.size("attention_chunk_size", 8192, 1)?;
    if fields.0.get("attention_chunk_size").is_some_and(Value::is_null) {
        return Err(fields.error("attention_chunk_size", "a whole number: its class cuts texts into pieces"));
    }
    let temperature = Temperature {
        every: fields.size("floor_scale", 8192, 1)?,
        strength: match fields.get("attn_scale") {
            None => 0.1,
            Some(given) => match given.as_f64().filter(|scale| *scale >= 0.0 && scale.is_finite()) {
                Some(scale) => scale,
                None => return Err(fields.error("attn_scale", "a number of at least 0")),
            },
        },
    };
    let is_tuned = fields.boolean("attn_temperature_tuning", true)?;
    let source = weights.map(|weights| Named::new(weights, &NAMES));
    let is_bare = source.as_ref().is_some_and(Named::is_bare);
    let has_bias = fields.boolean("attention_bias", false)?;
    let parts = Blueprint::without_parts(family);
    Ok(Blueprint {
        vocabulary: fields.size("vocab_size", 202_048, 1)?,
        embedding: width,
        width,
        layers,
        heads,
        key_heads: match fields.0.get("num_key_value_heads") {
            None => 8,
            Some(_) => fields.size("num_key_value_heads", heads, 1)?,
        },
        head_dim: rope.head_dim(),
        wide: fields.size(family.field("inner width"), 16_384, 1)?,
        is_gated: true,
        activation: fields.activation("hidden_act", "silu")?,
        norms: Norms {
            kind: NormKind::Rms,
            epsilon: fields.fraction("rms_norm_eps", 1e-5)?,
            at_end: true,
            ..parts.norms
        },
        biases: Biases { queries: has_bias, output: has_bias, wide: false },
        head_norms: match fields.boolean("use_qk_norm", true)? {
            true => HeadNorms::Bare,
            false => HeadNorms::None,
        },
        direction: Direction::Causal,
        encoding: Encoding::Rotary(Rotary::of(&rope)),
        local: are_cut.contains(&true).then_some(Local {
            layers: are_cut,
            window: None,
            chunk: Some(chunk),
            encoding: None,
        }),
        nope: are_still
            .contains(&true)
            .then_some(NoPe { layers: are_still, temperature: is_tuned.then_some(temperature) }),
        longest: fields.positions(131_072),
        output: Output { is_tied: fields.boolean("tie_word_embeddings", false)?, ..parts.output },
        head: head(fields, family, &HEADS)?.unwrap_or(match is_bare {
            true => HeadKind::None,
            false => HeadKind::CausalLm,
        }),
        labels: fields.labels()?,
        ends: fields.token_ids("eos_token_id")?,
        ..parts
    })
}

/// Refuses layers of experts: those that the file lists, or every so many where it lists none.
fn refuse_experts(fields: &Fields, layers: usize) -> Result<()> {
    let expected = "[], a list without layers: experts are not supported";
    let has_experts = match fields.get("moe_layers") {
        None => layers >= fields.size("interleave_moe_layer_step", 1, 1)?,
        Some(list) => {
            let list = list.as_array().ok_or_else(|| fields.error("moe_layers", expected))?;
            list.iter().any(|layer| layer.as_u64().is_none_or(|layer| layer < layers as u64))
        }
    };
    if has_experts { Err(fields.error("moe_layers", expected)) } else { Ok(()) }
}

/// Which layers have no positions: the file has a 0 for each of them, or it is every so many.
fn no_positions(fields: &Fields, layers: usize) -> Result<Vec<bool>> {
    let every = fields.size("no_rope_layer_interval", 4, 1)?;
    let list = match fields.get("no_rope_layers") {
        None => None,
        Some(list) => {
            Some(list.as_array().ok_or_else(|| wrong(fields, layers))?).filter(|list| !list.is_empty())
        }
    };
    let Some(list) = list else { return Ok((1..=layers).map(|layer| layer % every == 0).collect()) };
    let is_still = |turns: &Value| match turns.as_u64() {
        Some(turns @ (0 | 1)) => Some(turns == 0),
        _ => None,
    };
    // One that is longer is that of a model with more layers.
    let list: Option<Vec<bool>> = list.iter().take(layers).map(is_still).collect();
    list.filter(|list| list.len() == layers).ok_or_else(|| wrong(fields, layers))
}

fn wrong(fields: &Fields, layers: usize) -> crate::error::Error {
    let expected = format!("1, or 0 where there is no rotary embedding, for each of the {layers} layers");
    fields.error("no_rope_layers", expected)
}

pub(super) fn write(blueprint: &Blueprint, longest: usize, dropout: f64) -> Map<String, Value> {
    let (nope, local) = (blueprint.nope.as_ref(), blueprint.local.as_ref());
    let temperature = nope.and_then(|nope| nope.temperature);
    let turns: Vec<u8> =
        (0..blueprint.layers).map(|layer| blueprint.nope_of(layer).is_none().into()).collect();
    let mut all = object(json!({
        "hidden_act": blueprint.activation.name(),
        "rms_norm_eps": blueprint.norms.epsilon,
        "num_key_value_heads": blueprint.key_heads,
        "head_dim": blueprint.head_dim,
        "attention_bias": blueprint.biases.queries,
        "attention_dropout": dropout,
        "max_position_embeddings": longest,
        "use_qk_norm": blueprint.head_norms == HeadNorms::Bare,
        "no_rope_layers": turns,
        "attn_temperature_tuning": temperature.is_some(),
        "moe_layers": [],
    }));
    if let Some(Temperature { every, strength }) = temperature {
        all.extend(object(json!({"floor_scale": every, "attn_scale": strength})));
    }
    if let Some(chunk) = local.and_then(|local| local.chunk) {
        all.insert("attention_chunk_size".into(), chunk.into());
    }
    if let Encoding::Rotary(rotary) = &blueprint.encoding {
        let parameters = rope::parameters(blueprint.family, rotary, blueprint.head_dim);
        all.insert("rope_parameters".into(), parameters);
    }
    all.extend(layer_types::write(blueprint, CHUNKED));
    all
}
