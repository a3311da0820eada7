//! Which rope dictionary counts: the file's under its newer or older name, the class's own, one for all layers or one for
//! each layer type.

use super::fields::{Fields, plain};
use super::{Context, Reader, rule};
use crate::error::{Error, Result};
use serde_json::{Map, Value, json};

/// A rope dictionary for each layer type; `None` for layers without rope.
pub(super) type Dictionaries = Vec<(Option<String>, Option<Value>)>;

/// More layer types than any model has.
const MAX_LAYER_TYPES: usize = 16;

/// Types whose flat files give the two bases of their layer types in fields of their own.
const GEMMA_3: &[&str] = &["gemma3_text", "gemma3n_text", "t5gemma2_text", "t5gemma2_decoder"];
const MODERN_BERT: &[&str] = &["modernbert", "modernbert-decoder"];
/// Types that read nested dictionaries alone, each as it stands.
pub(super) const NESTED: &[&str] = &[
    "beam",
    "diffusion_gemma_text",
    "embedding_gemma2_text",
    "gemma4_text",
    "gemma4_unified_text",
    "laguna",
    "mellum",
    "mimo_v2_flash",
    "neomme",
    "step3p5",
    "zaya",
];
/// Types that read no dictionary: their rotation is a constant of the code.
const WITHOUT_DICTIONARY: &[&str] = &["roformer", "gptj", "codegen", "esm"];
/// The length that MiniMind is trained at.
const MINIMIND_LENGTH: u64 = 2048;

/// The entries of a rope dictionary that is nested by layer type: one whose keys are none of a rule's.
fn by_layer(value: &Value) -> Option<Dictionaries> {
    let map = value.as_object()?;
    let nested = map.values().any(Value::is_object) && !map.keys().any(|key| rule::is_known(key));
    let some = |value: &Value| Some(value.clone()).filter(|value| !value.is_null());
    nested.then(|| map.iter().map(|(key, value)| (Some(key.clone()), some(value))).collect())
}

/// A nested dictionary without the keys of a rule that published files of two types have beside their layer types.
fn without_leftovers(given: &Value) -> Value {
    let mut given = given.clone();
    if let Value::Object(map) = &mut given
        && map.iter().any(|(key, value)| value.is_object() && !rule::is_known(key))
    {
        map.retain(|key, value| value.is_object() || !["rope_type", "rope_theta"].contains(&key.as_str()));
    }
    given
}

/// The object of a key, if it says anything.
fn filled<'a>(fields: &Fields<'a>, key: &str) -> Result<Option<&'a Value>> {
    let is_filled = fields.object(key)?.is_some_and(|object| !object.is_empty());
    Ok(if is_filled { fields.get(key) } else { None })
}

impl Reader<'_> {
    /// Where the dictionary of a layer type was read, for messages.
    pub(super) fn dictionary_path(&self, ctx: &Context, layer_type: Option<&str>) -> String {
        let is_filled = |key| ctx.top.get(key).and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        let path = ctx.top.path(if is_filled("rope_scaling") { "rope_scaling" } else { "rope_parameters" });
        layer_type.map_or(path.clone(), |layer| format!("{path}.{}", plain(layer)))
    }

    /// The rope dictionaries of a model: one, or one for each layer type, `None` for layers without rope.
    pub(super) fn dictionaries(&mut self, ctx: &Context) -> Result<Dictionaries> {
        let top = &ctx.top;
        self.warn_about_exceptions(ctx)?;
        if let Some(name) = ctx.own_encoding()? {
            return Ok(vec![(None, Some(self.own_dictionary(name)))]);
        }
        // As transformers reads it: a rope_scaling that says something replaces rope_parameters.
        let mut given = filled(top, "rope_scaling")?.or(filled(top, "rope_parameters")?);
        if ctx.is(&["cohere2_moe"]) && filled(top, "rope_scaling")?.is_some() {
            self.warn("`rope_scaling` is ignored by this model's class, which reads `rope_parameters`");
            given = filled(top, "rope_parameters")?;
        }
        let newer = filled(top, "rope_parameters")?;
        let cleaned;
        if let (true, Some(value)) = (ctx.is(&["zaya", "cohere_compass_text"]), given) {
            cleaned = without_leftovers(value);
            given = Some(&cleaned);
        }
        match ctx.model.as_ref().map_or("", |model| model.name) {
            "minimind" => return Ok(vec![(None, Some(self.minimind(ctx)?))]),
            "internlm" if given.is_none() => return Ok(vec![(None, Some(internlm(ctx)?))]),
            "deepseek_v4" => return self.deepseek_v4(ctx),
            "step3p5" | "ultrabert" if top.get("rope_theta").is_some_and(Value::is_array) => {
                return self.listed(ctx, given);
            }
            "step3p5" if newer.and_then(by_layer).is_none() => return self.listed(ctx, given),
            "step3p5" => given = newer,
            "neomme" if filled(top, "rope_scaling")?.is_none() => return self.completed(ctx, newer),
            _ => {}
        }
        if ctx.is(WITHOUT_DICTIONARY) {
            if given.is_some() {
                let path = self.dictionary_path(ctx, None);
                self.warn(format!(
                    "`{path}` is ignored by this model's class, which has one rule in its code"
                ));
            }
            return Ok(vec![(None, Some(json!({})))]);
        }
        if ctx.is(GEMMA_3) || ctx.is(MODERN_BERT) || ctx.is(&["olmo3"]) {
            return self.merged(ctx);
        }
        if let Some(layers) = given.and_then(by_layer) {
            return self.checked(ctx, layers).and_then(|layers| with_files_part(ctx, layers));
        }
        let default = self.class_default(ctx)?;
        if let Some(layers) = default.as_ref().and_then(by_layer) {
            if given.is_some() {
                let key =
                    if filled(top, "rope_scaling")?.is_some() { "rope_scaling" } else { "rope_parameters" };
                return Err(top.error(key, "an object per layer type, as this model's class needs it"));
            }
            if top.has("rope_theta") {
                self.warn(
                    "`rope_theta` is ignored by this model's class; its layer types have bases of their own",
                );
            }
            return with_files_part(ctx, layers);
        }
        // An empty one is one all the same: it says no more than the class's base.
        let is_empty = top.object("rope_parameters")?.is_some_and(|fields| fields.is_empty());
        let dictionary = given.cloned().or_else(|| {
            let default = default.filter(|_| !is_empty)?;
            if top.has("rope_theta") && default.get("rope_theta").is_some() {
                self.warn("`rope_theta` without a rope dictionary is ignored by this model's class");
            }
            self.warn(format!("no rope dictionary in the file: the class's own is used, {default}"));
            Some(default)
        });
        Ok(vec![(None, Some(dictionary.unwrap_or_else(|| json!({}))))])
    }

    fn class_default(&self, ctx: &Context) -> Result<Option<Value>> {
        let json =
            ctx.model.as_ref().filter(|model| model.text.is_none()).and_then(|model| model.rope_parameters);
        json.map(|json| serde_json::from_str(json).map_err(|error| Error::Json(error.to_string())))
            .transpose()
    }

    /// Checks that the layer types of a nested dictionary are dictionaries.
    fn checked(&self, ctx: &Context, layers: Dictionaries) -> Result<Dictionaries> {
        if layers.len() > MAX_LAYER_TYPES {
            let expected = format!("at most {MAX_LAYER_TYPES} layer types");
            let value = format!("an object of {}", layers.len());
            return Err(Error::Field { field: self.dictionary_path(ctx, None), value, expected });
        }
        for (layer, value) in &layers {
            if let Some(value) = value.as_ref().filter(|value| !value.is_object()) {
                return Err(Error::Field {
                    field: self.dictionary_path(ctx, layer.as_deref()),
                    value: plain(&value.to_string()),
                    expected: "an object or null: a layer type".into(),
                });
            }
        }
        Ok(layers)
    }

    /// Classes that complete what the file has for each layer type, and add a flat `rope_scaling` to it.
    fn merged(&mut self, ctx: &Context) -> Result<Dictionaries> {
        let top = &ctx.top;
        let (is_gemma, is_bert) = (ctx.is(GEMMA_3), ctx.is(MODERN_BERT));
        let given = filled(top, "rope_parameters")?;
        match given.map(by_layer) {
            Some(Some(layers)) => self.checked(ctx, layers).map(drop)?,
            Some(None) => self.warn("`rope_parameters` has no layer types: this model's class ignores it"),
            None => {}
        }
        let scaling = filled(top, "rope_scaling")?;
        if scaling.and_then(by_layer).is_some() {
            self.warn("`rope_scaling` has layer types: this model's class ignores them there");
        }
        let defaults = self.class_default(ctx)?;
        let mut layers = defaults.as_ref().and_then(by_layer).unwrap_or_default();
        let is_layer = |key: &String| defaults.as_ref().is_some_and(|layers| layers.get(key).is_some());
        for (layer_type, dictionary) in &mut layers {
            let layer = layer_type.as_deref().unwrap_or("");
            let full = layer == "full_attention";
            let Some(Value::Object(default)) = dictionary else { continue };
            let own = given.and_then(|given| given.get(layer)).filter(|own| !own.is_null());
            let mut map = match own {
                Some(Value::Object(own)) => own.clone(),
                _ => Map::from_iter([("rope_type".to_string(), json!("default"))]),
            };
            if let (Some(Value::Object(scaling)), true) = (scaling, full || is_bert) {
                if scaling.contains_key("type")
                    && !scaling.contains_key("rope_type")
                    && map.contains_key("rope_type")
                {
                    self.warn(
                        "`rope_scaling.type` without `rope_type` is ignored by this model's class: \
                         the layers are read as unscaled",
                    );
                }
                let rest = scaling.iter().filter(|(key, _)| !is_layer(key));
                map.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
            }
            let key = match (is_gemma, is_bert, full) {
                (true, _, true) => Some("rope_theta"),
                (true, _, false) => Some("rope_local_base_freq"),
                (_, true, true) => Some("global_rope_theta"),
                (_, true, false) => Some("local_rope_theta"),
                (false, false, full) => full.then_some("rope_theta"),
            };
            if map.get("rope_theta").is_none_or(Value::is_null) {
                let base = key.map(|key| top.base(key)).transpose()?.flatten().map(Value::from);
                map.insert("rope_theta".into(), base.unwrap_or_else(|| default["rope_theta"].clone()));
            }
            *dictionary = Some(Value::Object(map));
        }
        if ctx.is(&["olmo3"]) && top.has("rope_theta") {
            self.warn("a flat `rope_theta` reaches full-attention layers alone; sliding layers keep 500000");
        }
        Ok(layers)
    }

    /// A class that completes what the file has for each layer type, and reads no other shape.
    fn completed(&mut self, ctx: &Context, given: Option<&Value>) -> Result<Dictionaries> {
        let base = ctx.top.base("rope_theta")?;
        let defaults = self.class_default(ctx)?;
        let mut layers = defaults.as_ref().and_then(by_layer).unwrap_or_default();
        for (layer_type, dictionary) in &mut layers {
            let layer = layer_type.as_deref().unwrap_or("");
            let Some(Value::Object(map)) = dictionary else { continue };
            if let Some(base) = base {
                map.insert("rope_theta".into(), base.into());
            }
            if let Some(Value::Object(own)) = given.and_then(|given| given.get(layer)) {
                if !own.contains_key("rope_type") && own.contains_key("type") {
                    self.warn("`type` without `rope_type` is ignored by this model's class");
                }
                map.extend(own.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        Ok(layers)
    }

    /// Classes that take a base for each layer, and a scaling for the layers of full attention.
    fn listed(&mut self, ctx: &Context, given: Option<&Value>) -> Result<Dictionaries> {
        let top = &ctx.top;
        let expected = "a number, or a list of one for each layer";
        let types: Vec<&str> = match top.get("layer_types") {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            _ if ctx.is(&["ultrabert"]) => {
                let layers = top.count("num_hidden_layers")?.unwrap_or(32).min(1024);
                (1..=layers)
                    .map(|layer| ["full_attention", "sliding_attention"][usize::from(layer % 3 > 0)])
                    .collect()
            }
            _ => vec!["full_attention"],
        };
        let list = |key: &str, layer: usize| match top.get(key) {
            Some(Value::Array(list)) => {
                list.get(layer).and_then(Value::as_f64).ok_or_else(|| top.error(key, expected)).map(Some)
            }
            Some(value) => value.as_f64().ok_or_else(|| top.error(key, expected)).map(Some),
            None => Ok(None),
        };
        let mut layers: Dictionaries = Vec::new();
        for (layer, name) in types.iter().enumerate().take(1024) {
            if layers.iter().any(|(known, _)| known.as_deref() == Some(name)) {
                continue;
            }
            let mut map = Map::from_iter([("rope_type".to_string(), json!("default"))]);
            for (field, key) in
                [("rope_theta", "rope_theta"), ("partial_rotary_factors", "partial_rotary_factor")]
            {
                if let Some(number) = list(field, layer)? {
                    map.insert(key.into(), number.into());
                }
            }
            let scaling = filled(top, "rope_scaling")?.and(given).and_then(Value::as_object);
            if let Some(scaling) = scaling.filter(|_| *name == "full_attention") {
                let rest = scaling.iter().filter(|(key, _)| !types.contains(&key.as_str()));
                map.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
            } else if given.is_some() && scaling.is_none() {
                self.warn("`rope_parameters` has no layer types: this model's class ignores it");
            }
            layers.push((Some(name.to_string()), Some(Value::Object(map))));
        }
        self.checked(ctx, layers)
    }

    /// DeepSeek-V4: plain layers, and layers of compressed attention with a base and a scaling of their own.
    fn deepseek_v4(&mut self, ctx: &Context) -> Result<Dictionaries> {
        let top = &ctx.top;
        let given = filled(top, "rope_scaling")?.or(filled(top, "rope_parameters")?);
        let layer = |name| given.and_then(|given| given.get(name)).filter(|layer| layer.is_object()).cloned();
        let head_dim = top.count("head_dim")?.unwrap_or(512) as f64;
        let part = match (top.number("partial_rotary_factor")?, top.count("qk_rope_head_dim")?) {
            (Some(part), _) => part,
            (None, Some(slice)) => slice as f64 / head_dim,
            (None, None) => 0.125,
        };
        if let (Some(main), Some(compress)) = (layer("main"), layer("compress")) {
            let layers = vec![(Some("main".into()), Some(main)), (Some("compress".into()), Some(compress))];
            return Ok(with_part(part, layers, false));
        }
        let base = top.base("rope_theta")?.unwrap_or(10_000.0);
        let main = json!({"rope_type": "default", "rope_theta": base, "partial_rotary_factor": part});
        let mut compress = given.and_then(Value::as_object).cloned().unwrap_or_default();
        compress.retain(|key, _| rule::is_known(key));
        let base = top.base("compress_rope_theta")?.unwrap_or(160_000.0);
        compress.insert("rope_theta".into(), base.into());
        compress.insert("partial_rotary_factor".into(), part.into());
        if !compress.contains_key("rope_type") {
            let older = compress.get("type").cloned();
            compress.insert("rope_type".into(), older.unwrap_or_else(|| json!("default")));
        }
        if compress["rope_type"] == "yarn" && !compress.contains_key("attention_factor") {
            compress.insert("attention_factor".into(), json!(1.0));
        }
        Ok(vec![(Some("main".into()), Some(main)), (Some("compress".into()), Some(Value::Object(compress)))])
    }

    /// MiniMind's class makes the settings itself and passes over those in the file: with `inference_rope_scaling`, and
    /// more positions than it is trained at, a YaRN without attention factor.
    fn minimind(&mut self, ctx: &Context) -> Result<Value> {
        let longest = ctx.max_position_embeddings.unwrap_or(32_768);
        let is_scaled = ctx.top.boolean("inference_rope_scaling")? == Some(true);
        if !is_scaled && filled(&ctx.top, "rope_scaling")?.is_some() {
            self.warn(
                "`rope_scaling` is ignored by this model's class, which reads `inference_rope_scaling`",
            );
        }
        Ok(match is_scaled && longest > MINIMIND_LENGTH {
            true => json!({
                "rope_type": "yarn", "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.0,
                "original_max_position_embeddings": MINIMIND_LENGTH,
            }),
            false => json!({}),
        })
    }

    /// The rule of one of this project's encodings that turn.
    fn own_dictionary(&mut self, name: &str) -> Value {
        match name {
            "receptive" => {
                self.warn(
                    "alpha and rho are learned for each layer and stand with the weights, as position.receptive.N: \
                     shown at their first values, 0.1 and 0.5",
                );
                json!({"rope_type": "receptive-field", "alpha": 0.1, "rho": 0.5})
            }
            "xpos" => {
                self.warn("xPos: queries and keys are also scaled by their positions");
                json!({})
            }
            "randomised" => {
                self.warn("positions are drawn from a longer range in training");
                json!({})
            }
            _ => json!({}),
        }
    }
}

/// Gives layer types the file's `partial_rotary_factor` in classes that read their dictionaries as they stand, in the
/// order of the layer types' names.
fn with_files_part(ctx: &Context, mut layers: Dictionaries) -> Result<Dictionaries> {
    let part = if ctx.is(NESTED) { ctx.top.number("partial_rotary_factor")? } else { None };
    let Some(part) = part else { return Ok(layers) };
    layers.sort_by(|(a, _), (b, _)| a.cmp(b));
    // Step-3.5's class spreads it before it looks at the layers, if the newer dictionary has them.
    let is_everywhere =
        ctx.is(&["step3p5"]) && filled(&ctx.top, "rope_parameters")?.and_then(by_layer).is_some();
    Ok(with_part(part, layers, is_everywhere))
}

/// Gives layer types a part of the head where their class does: from the first on that has a rule other than the default,
/// or all of them.
fn with_part(part: f64, mut layers: Dictionaries, is_everywhere: bool) -> Dictionaries {
    let mut is_seen = is_everywhere;
    for map in layers.iter_mut().filter_map(|(_, dictionary)| dictionary.as_mut()?.as_object_mut()) {
        let rule = map.get("rope_type").or(map.get("type")).and_then(Value::as_str);
        is_seen |= rule.is_some_and(|rule| rule != "default");
        if is_seen && !map.contains_key("partial_rotary_factor") {
            map.insert("partial_rotary_factor".into(), part.into());
        }
    }
    layers
}

/// The first InternLM's own dictionary, `rotary`.
fn internlm(ctx: &Context) -> Result<Value> {
    let Some(rotary) = ctx.top.object("rotary")? else { return Ok(json!({})) };
    let mut dictionary = json!({"rope_theta": rotary.base("base")?.unwrap_or(10_000.0)});
    match rotary.string("type")?.unwrap_or("origin") {
        "origin" => {}
        "dynamic" => {
            dictionary["rope_type"] = json!("dynamic");
            dictionary["factor"] = json!(rotary.positive("scaling_factor")?.unwrap_or(1.0));
        }
        _ => return Err(rotary.error("type", "origin or dynamic")),
    }
    Ok(dictionary)
}
