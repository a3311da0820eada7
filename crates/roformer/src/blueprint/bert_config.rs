//! `bert_config.json`, the configuration in BERT's first release, which bert4keras and the releases of RoFormer keep; as the
//! `config.json` of transformers.
//!
//! It gives sizes, under the names that transformers has too, and leaves to the program that loads it which model it is. The
//! tensors tell: BERT has vectors of positions, RoFormerV2 neither biases nor parameters of norms, RoFormer-Sim a pooler that
//! no head for pairs of texts was trained with. What a file says itself is believed. It has to where RoFormer-GPT is meant,
//! whose tensors are those of RoFormer: `"is_decoder": true`.

use super::fields::{self, Fields};
use super::{Blueprint, Family};
use crate::error::{Error, Result};
use crate::weights::{self, Weights};
use serde_json::{Map, Value};
use std::path::Path;

/// What a folder may have in place of `config.json`.
const FILE: &str = "bert_config.json";

impl Blueprint {
    /// The `config.json` of a folder or, where there is only a `bert_config.json`, what it is as a `config.json`, completed by
    /// what the weights beside it show.
    pub fn config_of(folder: impl AsRef<Path>) -> Result<Vec<u8>> {
        let folder = folder.as_ref();
        let (path, older) = (folder.join("config.json"), folder.join(FILE));
        // A link that leads nowhere counts as there: opening it names the file that is missing.
        if path.symlink_metadata().is_ok() || older.symlink_metadata().is_err() {
            return fields::read_config(&path);
        }
        let map = fields::object(&fields::read_config(&older)?).map_err(|error| match error {
            Error::File { reason, .. } => Error::File { path: older.clone(), reason },
            other => other,
        })?;
        let weights = match Weights::of_model(folder) {
            Ok(weights) => Some(weights),
            // Who wants to run it hears of it; its sizes can be told without.
            Err(weights::Error::NoWeights { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let all = match weights {
            Some(weights) => completed(map, &weights)?,
            None => named(map, Family::RoFormer),
        };
        Ok(format!("{:#}\n", Value::Object(all)).into_bytes())
    }
}

/// The fields with the model's family, unless they say it.
fn named(mut map: Map<String, Value>, family: Family) -> Map<String, Value> {
    map.entry("model_type").or_insert(family.model_type().into());
    map
}

/// The fields with what the tensors show, except where they say it themselves.
fn completed(map: Map<String, Value>, weights: &Weights) -> Result<Map<String, Value>> {
    let has = |part: &str| weights.names().any(|name| name.contains(part));
    let family = if has("embeddings.position_embeddings.") { Family::Bert } else { Family::RoFormer };
    let mut map = named(map, family);
    if map["model_type"] != family.model_type() {
        return Ok(map);
    }
    let is_decoder = Fields(&map).boolean("is_decoder", false)?;
    let (has_norms, has_output) = (has("LayerNorm."), has("cls.predictions."));
    let mut say = |field: &str, value: Value| {
        map.entry(field).or_insert(value);
    };
    if family == Family::Bert {
        say("architectures", vec![if has_output { "BertForMaskedLM" } else { "BertModel" }].into());
        return Ok(map);
    }
    if !has_norms {
        say("norm_type", "rms_norm".into());
    }
    if !weights.names().any(|name| name.contains("encoder.layer.") && name.ends_with(".bias")) {
        say("use_bias", false.into());
    }
    // A pooler is trained by the head that tells whether a text follows another, or compares texts itself.
    let has_pooler = has("pooler.dense.");
    let is_compared = has_pooler && !weights.left_out().iter().any(|name| name.contains("seq_relationship"));
    if has_pooler {
        say("add_pooling_layer", true.into());
        say("pooler_activation", if is_compared { "linear" } else { "tanh" }.into());
    }
    let class = match () {
        // RoFormerV2's output has no tensors of its own.
        () if has_norms && !has_output => "RoFormerModel",
        () if is_decoder || is_compared => "RoFormerForCausalLM",
        () => "RoFormerForMaskedLM",
    };
    say("architectures", vec![class].into());
    Ok(map)
}
