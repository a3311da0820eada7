//! Encodings and attentions that no family has of its own: how a `config.json` of this project says them.
//!
//! `position_encoding` is the encoding with its settings (`rotary:base=500`), `linear_attention` the feature maps; `model_type` has both behind the family's
//! name (`roformer-alibi`, `llama-xpos-linear`), so that nobody takes such a model for one of the family.

use super::super::fields::Fields;
use super::super::{Blueprint, LinearForm, Local, Mixing};
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::graph::FeatureMap;
use serde_json::{Map, Value, json};

/// What a file says of its own.
#[derive(Default)]
pub(super) struct Own {
    encoding: Option<Encoding>,
    form: Option<LinearForm>,
}

impl Own {
    /// The blueprint of the family with what the file says of its own.
    pub fn apply(self, blueprint: Blueprint) -> Result<Blueprint> {
        // Another encoding is that of all layers.
        let is_own = self.encoding.is_some();
        let local =
            blueprint.local.map(|local| Local { encoding: local.encoding.filter(|_| !is_own), ..local });
        Ok(Blueprint {
            local,
            encoding: self.encoding.unwrap_or(blueprint.encoding),
            mixing: self.form.map_or(blueprint.mixing, Mixing::Linear),
            ..blueprint
        })
    }
}

/// Takes what a file says of its own out of it; what is left is a file of the family.
pub(super) fn take(map: &mut Map<String, Value>) -> Result<Own> {
    let fields = Fields(map);
    let encoding = match fields.get("position_encoding") {
        None => None,
        Some(label) => {
            let encoding = Encoding::parse(label.as_str().unwrap_or_default());
            Some(encoding.map_err(|error| match error {
                Error::Input { expected, .. } => fields.error("position_encoding", expected),
                other => other,
            })?)
        }
    };
    let form = match fields.get("linear_attention") {
        None => None,
        Some(Value::Object(settings)) => Some(read_form(&Fields(settings))?),
        Some(_) => return Err(fields.error("linear_attention", "an object with feature maps")),
    };
    let own = Own { encoding, form };
    let suffix = suffix(own.encoding.as_ref(), own.form);
    if !suffix.is_empty() {
        let family = fields.string("model_type", "")?.strip_suffix(&suffix).map(str::to_string);
        let expected =
            || format!("one that ends with {suffix}, for its position_encoding and linear_attention");
        let family = family.ok_or_else(|| fields.error("model_type", expected()))?;
        map.insert("model_type".into(), family.into());
        map.remove("position_encoding");
        map.remove("linear_attention");
    }
    Ok(own)
}

/// Says what the family's own file does not.
pub(super) fn write(blueprint: &Blueprint, all: &mut Map<String, Value>) {
    let encoding = Some(&blueprint.encoding).filter(|_| !blueprint.has_own_encoding());
    let form = match blueprint.mixing {
        Mixing::Softmax => None,
        Mixing::Linear(form) => Some(form),
    };
    let suffix = suffix(encoding, form);
    all.insert("model_type".into(), format!("{}{suffix}", blueprint.family.model_type()).into());
    if let Some(encoding) = encoding {
        all.insert("position_encoding".into(), encoding.label().into());
    }
    if let Some(form) = form {
        all.insert("linear_attention".into(), write_form(form));
    }
}

/// What stands behind the family's name.
fn suffix(encoding: Option<&Encoding>, form: Option<LinearForm>) -> String {
    let encoding = encoding.map_or(String::new(), |encoding| format!("-{}", encoding.name()));
    encoding + if form.is_some() { "-linear" } else { "" }
}

fn read_form(fields: &Fields) -> Result<LinearForm> {
    let map = |field: &str| {
        Ok(match fields.string(field, "elu")? {
            "elu" => FeatureMap::Elu,
            "softmax" => FeatureMap::Softmax,
            "exp" => FeatureMap::Exp,
            "favor" => FeatureMap::Favor {
                features: fields.size("features", 64, 2)?,
                seed: fields.size("seed", 0, 0)? as u64,
            },
            _ => return Err(fields.error(field, "elu, softmax, exp or favor")),
        })
    };
    Ok(LinearForm {
        queries: map("queries")?,
        keys: map("keys")?,
        rotates_before: fields.boolean("rotates_before", false)?,
    })
}

fn write_form(form: LinearForm) -> Value {
    let mut all = json!({
        "queries": form.queries.name(),
        "keys": form.keys.name(),
        "rotates_before": form.rotates_before,
    });
    if let FeatureMap::Favor { features, seed } = form.queries {
        (all["features"], all["seed"]) = (features.into(), seed.into());
    }
    all
}
