//! From a Hugging Face `config.json` to ropes: which dictionary counts, what a missing field means, which pairing.
//!
//! Reads version 4 files (`rope_theta`, `rope_scaling`) and version 5 files (`rope_parameters`, flat or nested per layer
//! type) the way transformers 5.22 reads them. What transformers reads silently in a surprising way is read the same
//! way here, with a warning; what it cannot use is an error that names the field.

mod fields;
mod models;
mod rule;

use crate::error::{Error, Result};
use crate::pairing::Pairing;
use crate::rope::{Rope, RopeBuilder};
use crate::schedule::AnglePrecision;
use fields::{Fields, plain};
use models::{Head, Model, PairingRule};
use serde_json::Value;

/// A configuration larger than this is not one.
pub const MAX_CONFIG_BYTES: usize = 16 << 20;

/// How to read a configuration.
#[derive(Clone, Debug, Default)]
pub struct HfOptions {
    /// Overrides the pairing that follows from `model_type`.
    pub pairing: Option<Pairing>,
    /// Keys of the rope dictionary to pass over although no rule reads them.
    pub allow_unknown: Vec<String>,
    /// How angles are formed.
    pub angle_precision: AnglePrecision,
}

/// What a configuration says about rotary embedding.
#[derive(Clone, Debug)]
pub struct HfConfig {
    /// The `model_type` whose rules were followed.
    pub model_type: Option<String>,
    /// The nested object that was followed, if any: `text_config`.
    pub section: Option<String>,
    /// The pairing, unless `model_type` is unknown and none was given.
    pub pairing: Option<Pairing>,
    /// The longest sequence the file says the model takes.
    pub max_position_embeddings: Option<u64>,
    /// One entry for the whole model, or one a layer type.
    pub layers: Vec<HfLayer>,
    /// What is odd but usable.
    pub warnings: Vec<String>,
}

/// The rotary embedding of one layer type.
#[derive(Clone, Debug)]
pub struct HfLayer {
    /// The layer type, or `None` where all layers share one rope.
    pub layer_type: Option<String>,
    /// Hugging Face's name of the rule, older names resolved; `None` for layers without rotary embedding.
    pub rope_type: Option<String>,
    /// `None` for layers without rotary embedding. With an unknown pairing this is a rope in halves, whose
    /// frequencies are right.
    pub rope: Option<Rope>,
    /// The length the frequencies were trained at, where the rule names one apart from `max_position_embeddings`.
    pub original_length: Option<u64>,
}

/// The ropes of a model, by layer type.
#[derive(Clone, Debug)]
pub struct RopeSet {
    layers: Vec<HfLayer>,
    warnings: Vec<String>,
}

impl RopeSet {
    /// The rope of a model all of whose layers share one.
    pub fn only(&self) -> Result<&Rope> {
        match &self.layers[..] {
            [HfLayer { rope: Some(rope), .. }] => Ok(rope),
            layers => {
                let names: Vec<_> = layers.iter().filter_map(|layer| layer.layer_type.as_deref()).collect();
                Err(Error::argument(
                    "model",
                    format!("one with the layer types {names:?}"),
                    "one rope for all layers",
                ))
            }
        }
    }

    /// The rope of a layer type; `None` if it has none. An unknown layer type is an error.
    pub fn layer(&self, layer_type: &str) -> Result<Option<&Rope>> {
        let found = self.layers.iter().find(|layer| layer.layer_type.as_deref() == Some(layer_type));
        let names: Vec<_> = self.layers.iter().filter_map(|layer| layer.layer_type.as_deref()).collect();
        let error = || Error::argument("layer_type", layer_type, format!("one of {names:?}"));
        found.map(|layer| layer.rope.as_ref()).ok_or_else(error)
    }

    /// All layer types.
    pub fn layers(&self) -> &[HfLayer] {
        &self.layers
    }

    /// What was odd but usable.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl Rope {
    /// Reads the ropes of a model from its Hugging Face `config.json`.
    ///
    /// ```
    /// use rope::Rope;
    ///
    /// let config = br#"{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}"#;
    /// let set = Rope::from_hf(config)?;
    /// assert_eq!(set.only()?.head_dim(), 128);
    /// # Ok::<(), rope::Error>(())
    /// ```
    pub fn from_hf(config: &[u8]) -> Result<RopeSet> {
        HfConfig::read(config, &HfOptions::default())?.ropes()
    }
}

impl HfConfig {
    /// The ropes, unless the pairing is unknown.
    pub fn ropes(self) -> Result<RopeSet> {
        if self.pairing.is_none() {
            return Err(Error::Field {
                field: "model_type".into(),
                value: self.model_type.map_or("missing".into(), |name| format!("\"{}\"", plain(&name))),
                expected: "a known model type, or a pairing given in HfOptions: \
                           interleaved and half are different models"
                    .into(),
            });
        }
        Ok(RopeSet { layers: self.layers, warnings: self.warnings })
    }

    /// Reads a configuration.
    pub fn read(config: &[u8], options: &HfOptions) -> Result<HfConfig> {
        if config.len() > MAX_CONFIG_BYTES {
            return Err(Error::Json(format!(
                "{} bytes; a config.json has at most {MAX_CONFIG_BYTES}",
                config.len()
            )));
        }
        let value: Value = serde_json::from_slice(config).map_err(|error| Error::Json(error.to_string()))?;
        let Value::Object(map) = &value else {
            return Err(Error::Json("a JSON value that is not an object".into()));
        };
        let mut reader = Reader { options, warnings: Vec::new() };
        let (top, section, model_type) = reader.descend(Fields::new(map, ""))?;
        let model = model_type.as_deref().and_then(models::find);
        let pairing = reader.pairing(&top, model.as_ref())?;
        let names =
            ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"];
        let max_position_embeddings = top.count_of(&names)?.map(|(_, count)| count);
        let ctx = Context { top, model, max_position_embeddings, nested: false };
        let mut layers = Vec::new();
        for (layer_type, dictionary) in reader.dictionaries(&ctx)? {
            let spec = match dictionary {
                Some(dictionary) => {
                    let map =
                        dictionary.as_object().ok_or_else(|| Error::Json("a rope dictionary".into()))?;
                    let nested = layer_type.is_some();
                    let path = reader.dictionary_path(&ctx, layer_type.as_deref());
                    Some(reader.layer(
                        &Context { nested, ..ctx.clone() },
                        &Fields::new(map, path),
                        layer_type.as_deref(),
                    )?)
                }
                None => None,
            };
            layers.push(match spec {
                Some(Spec { builder, rule, original_length, sources }) => {
                    let pairing = pairing.unwrap_or(Pairing::Half);
                    let builder = builder.pairing(pairing).angle_precision(options.angle_precision);
                    let rope = builder.build().map_err(|error| sources.rename(error))?;
                    HfLayer { layer_type, rope_type: Some(rule), rope: Some(rope), original_length }
                }
                None => HfLayer { layer_type, rope_type: None, rope: None, original_length: None },
            });
        }
        let mut warnings = reader.warnings;
        warnings.dedup();
        Ok(HfConfig { model_type, section, pairing, max_position_embeddings, layers, warnings })
    }
}

/// What a rope dictionary says.
struct Spec {
    builder: RopeBuilder,
    /// Hugging Face's name of the rule.
    rule: String,
    /// The length the frequencies were trained at, where the rule needs one.
    original_length: Option<u64>,
    sources: Sources,
}

/// The fields of a file that the builder's arguments come from, so that its errors name the field.
#[derive(Default)]
struct Sources(Vec<(&'static str, String)>);

impl Sources {
    fn add(&mut self, argument: &'static str, field: String) {
        self.0.push((argument, field));
    }

    fn rename(&self, error: Error) -> Error {
        let Error::Argument { name, value, expected } = error else { return error };
        match self.0.iter().find(|(argument, _)| *argument == name) {
            Some((_, field)) => Error::Field { field: field.clone(), value, expected },
            None => Error::Argument { name, value, expected },
        }
    }
}

/// All that a layer's rope depends on besides its dictionary.
#[derive(Clone)]
struct Context<'a> {
    top: Fields<'a>,
    model: Option<Model>,
    max_position_embeddings: Option<u64>,
    /// Whether the dictionary is one of several, by layer type.
    nested: bool,
}

impl Context<'_> {
    fn is(&self, names: &[&str]) -> bool {
        self.model.as_ref().is_some_and(|model| names.contains(&model.name))
    }
}

/// A rope dictionary for each layer type; `None` for layers without rope.
type Dictionaries = Vec<(Option<String>, Option<Value>)>;

/// More layer types than any model has.
const MAX_LAYER_TYPES: usize = 16;

/// The entries of a rope dictionary that is nested by layer type: one whose keys are none of a rule's.
fn by_layer(value: &Value) -> Option<Dictionaries> {
    let map = value.as_object()?;
    let nested = map.values().any(Value::is_object) && !map.keys().any(|key| rule::is_known(key));
    let entry = |(key, value): (&String, &Value)| {
        (Some(key.clone()), Some(value.clone()).filter(|value| !value.is_null()))
    };
    nested.then(|| map.iter().map(entry).collect())
}

/// Types whose flat files give the two bases of their layer types in fields of their own.
const GEMMA_3: &[&str] = &["gemma3_text", "gemma3n_text", "t5gemma2_text", "t5gemma2_decoder"];
const MODERN_BERT: &[&str] = &["modernbert", "modernbert-decoder"];
/// Types whose classes read `rotary_emb_base` and `rotary_pct` instead of the usual names.
const NEOX: &[&str] = &["gpt_neox", "gpt_neox_japanese"];
/// Types whose base is a constant in the code.
const FIXED_BASE: &[&str] = &["roformer", "gptj", "codegen"];
/// Types that read "su" and "yarn" as LongRoPE.
const PHI_3: &[&str] = &["phi3", "phi4_multimodal"];

struct Reader<'a> {
    options: &'a HfOptions,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Follows nested text configurations. Returns the object, its path and its `model_type`.
    fn descend<'v>(&mut self, mut at: Fields<'v>) -> Result<(Fields<'v>, Option<String>, Option<String>)> {
        let mut section: Option<String> = None;
        let mut model_type = at.string("model_type")?.map(str::to_string);
        'down: loop {
            for key in ["text_config", "language_config", "llm_config", "thinker_config", "vlm_config"] {
                let Some(inner) = at.object(key)?.filter(|inner| !inner.is_empty()) else { continue };
                let own = inner.string("model_type")?.map(str::to_string);
                let assumed = model_type.as_deref().and_then(models::find).and_then(|model| model.text);
                model_type = own.or(assumed.map(str::to_string)).or(model_type);
                section = Some(at.path(key));
                at = inner;
                continue 'down;
            }
            break;
        }
        if let Some(section) = &section {
            self.warn(format!("read from `{section}`, the text part of the model"));
        } else if let Some(text) = model_type.as_deref().and_then(models::find).and_then(|model| model.text) {
            // A flat file of a multi-modal model: the text part's fields stand at the top.
            model_type = Some(text.to_string());
        }
        Ok((at, section, model_type))
    }

    fn pairing(&mut self, top: &Fields, model: Option<&Model>) -> Result<Option<Pairing>> {
        if let Some(pairing) = self.options.pairing {
            return Ok(Some(pairing));
        }
        let interleave = top.boolean("rope_interleave")?;
        Ok(match model.map(|model| model.pairing) {
            Some(PairingRule::Fixed(pairing)) => Some(pairing),
            Some(PairingRule::RopeInterleave) if interleave.unwrap_or(true) => {
                Some(Pairing::InterleavedToHalf)
            }
            Some(PairingRule::RopeInterleave) => Some(Pairing::Half),
            Some(PairingRule::Reversed) => {
                self.warn(
                    "this model type turns backwards: pass negative positions, or rotate with Turn::Backward",
                );
                Some(Pairing::Half)
            }
            None => {
                let name = top.string("model_type")?;
                let name = name.map_or("missing".into(), |name| format!("\"{}\"", plain(name)));
                self.warn(format!(
                    "`model_type` is {name}, which is not known here, so the pairing is not either: \
                     give --pairing interleaved, half or interleaved_to_half"
                ));
                None
            }
        })
    }

    /// Where the dictionary of a layer type was read, for messages.
    fn dictionary_path(&self, ctx: &Context, layer_type: Option<&str>) -> String {
        let scaling =
            ctx.top.get("rope_scaling").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        let path = ctx.top.path(if scaling { "rope_scaling" } else { "rope_parameters" });
        layer_type.map_or(path.clone(), |layer| format!("{path}.{}", plain(layer)))
    }

    /// The rope dictionaries of a model: one, or one a layer type, `None` for layers without rope.
    fn dictionaries(&mut self, ctx: &Context) -> Result<Dictionaries> {
        let top = &ctx.top;
        if top.boolean("alibi")? == Some(true) {
            self.warn("`alibi` is true: this model has no rotary embedding");
            return Ok(vec![(None, None)]);
        }
        self.warn_about_exceptions(ctx)?;
        // As transformers reads it: a rope_scaling that says something replaces rope_parameters.
        let given = match top.object("rope_scaling")?.filter(|fields| !fields.is_empty()) {
            Some(_) => top.get("rope_scaling"),
            None => top
                .object("rope_parameters")?
                .filter(|fields| !fields.is_empty())
                .and(top.get("rope_parameters")),
        };
        let default: Option<Value> = match ctx.model.as_ref().and_then(|model| model.rope_parameters) {
            Some(json) => Some(serde_json::from_str(json).map_err(|error| Error::Json(error.to_string()))?),
            None => None,
        };
        if let Some(layers) = given.and_then(by_layer) {
            let path = |layer: &str| self.dictionary_path(ctx, Some(layer));
            if layers.len() > MAX_LAYER_TYPES {
                let expected = format!("at most {MAX_LAYER_TYPES} layer types");
                let value = format!("an object of {}", layers.len());
                return Err(Error::Field { field: self.dictionary_path(ctx, None), value, expected });
            }
            for (layer, value) in &layers {
                if value.as_ref().is_some_and(|value| !value.is_object()) {
                    let value = value.as_ref().map_or(String::new(), |value| plain(&value.to_string()));
                    let field = path(layer.as_deref().unwrap_or(""));
                    return Err(Error::Field {
                        field,
                        value,
                        expected: "an object or null: a layer type".into(),
                    });
                }
            }
            return Ok(layers);
        }
        match default.as_ref().and_then(by_layer) {
            Some(layers) => self.layered_from_flat(ctx, layers, given),
            None => {
                let dictionary = given.cloned().or_else(|| {
                    let default = default?;
                    if top.has("rope_theta") {
                        self.warn("`rope_theta` beside no rope dictionary is ignored by this model's class");
                    }
                    self.warn(format!("no rope dictionary in the file: the class's own is used, {default}"));
                    Some(default)
                });
                Ok(vec![(None, Some(dictionary.unwrap_or_else(|| Value::Object(Default::default()))))])
            }
        }
    }

    /// A file without layer types for a class that has them: its older shape.
    fn layered_from_flat(
        &mut self,
        ctx: &Context,
        mut layers: Dictionaries,
        given: Option<&Value>,
    ) -> Result<Dictionaries> {
        let top = &ctx.top;
        let flat_scaling = top.object("rope_scaling")?.is_some_and(|fields| !fields.is_empty());
        let is_gemma = ctx.is(GEMMA_3);
        let is_bert = ctx.is(MODERN_BERT);
        let is_olmo = ctx.is(&["olmo3"]);
        if given.is_some() && !(flat_scaling && (is_gemma || is_bert || is_olmo)) {
            let expected = "an object per layer type, as this model's class needs it";
            return Err(top.error(if flat_scaling { "rope_scaling" } else { "rope_parameters" }, expected));
        }
        for (layer_type, dictionary) in &mut layers {
            let full = layer_type.as_deref() == Some("full_attention");
            let Some(Value::Object(map)) = dictionary else { continue };
            let base = match (is_gemma, is_bert, is_olmo) {
                (true, ..) if full => top.base("rope_theta")?,
                (true, ..) => top.base("rope_local_base_freq")?,
                (_, true, _) if full => top.base("global_rope_theta")?,
                (_, true, _) => top.base("local_rope_theta")?,
                (_, _, true) if full => top.base("rope_theta")?,
                _ => None,
            };
            if let Some(base) = base {
                map.insert("rope_theta".into(), base.into());
            }
            if let (Some(Value::Object(scaling)), true) = (given, full || is_bert) {
                if scaling.contains_key("type") && !scaling.contains_key("rope_type") {
                    self.warn(
                        "`rope_scaling.type` without `rope_type` is ignored by this model's class: \
                         the layers are read as unscaled",
                    );
                }
                let rest = scaling.iter().filter(|(key, _)| key.as_str() != "type");
                map.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
            }
        }
        if is_olmo && top.has("rope_theta") {
            self.warn("a flat `rope_theta` reaches full-attention layers alone; sliding layers keep 500000");
        } else if !is_gemma && !is_bert && top.has("rope_theta") {
            self.warn(
                "`rope_theta` is ignored by this model's class; its layer types have bases of their own",
            );
        }
        Ok(layers)
    }

    /// Settings outside the dictionary that take some layers out.
    fn warn_about_exceptions(&mut self, ctx: &Context) -> Result<()> {
        for key in ["no_rope_layers", "layer_rope_theta", "rope_scaling_layers", "partial_rotary_factors"] {
            if ctx.top.get(key).is_some_and(|value| value.as_array().is_some_and(|list| !list.is_empty())) {
                self.warn(format!("`{key}` changes some layers; what is shown holds for the others"));
            }
        }
        if ctx.is(&["smollm3", "llama4_text"]) && !ctx.top.has("no_rope_layers") {
            self.warn("every fourth layer of this model type has no rotary embedding");
        }
        if ctx.top.boolean("rotary_value")? == Some(true) {
            self.warn("`rotary_value` is true: values are rotated as well as queries and keys");
        }
        Ok(())
    }

    /// The width of a head, or of its rotary slice in latent attention, and the field it comes from.
    fn head_dim(&self, ctx: &Context, layer_type: Option<&str>) -> Result<(usize, String)> {
        let top = &ctx.top;
        let head = ctx.model.as_ref().map_or(Head::Derived, |model| model.head);
        let (names, default): (&[&str], Option<usize>) = match head {
            // A wider head for full attention is a field of its own.
            Head::Default { global: Some(global), .. } if layer_type == Some("full_attention") => {
                (&["global_head_dim"], Some(global))
            }
            Head::Latent(dim) => (&["head_dim", "qk_rope_head_dim"], Some(dim)),
            Head::KvChannels(dim) => (&["head_dim", "kv_channels"], Some(dim)),
            Head::Default { dim, .. } => (&["head_dim"], Some(dim)),
            Head::Derived if ctx.model.is_none() => {
                (&["qk_rope_head_dim", "head_dim", "attention_head_dim"], None)
            }
            Head::Derived if ctx.is(&["zamba2"]) => (&["attention_head_dim"], None),
            Head::Derived => (&["head_dim"], None),
        };
        match (top.count_of(names)?, default) {
            (Some((name, dim)), _) => return Ok((dim as usize, top.path(name))),
            (None, Some(dim)) => return Ok((dim, top.path(names[0]))),
            (None, None) => {}
        }
        let hidden = top.count_of(&["hidden_size", "n_embd", "d_model"])?;
        let (name, hidden) = hidden
            .ok_or_else(|| top.error("head_dim", "head_dim, or hidden_size and num_attention_heads"))?;
        let names = ["num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_num_attention_heads"];
        let heads = top.count_of(&names)?;
        let (heads_name, heads) =
            heads.ok_or_else(|| top.error("num_attention_heads", "a whole number: hidden_size / heads"))?;
        let hidden = if ctx.is(&["zamba2"]) { hidden.saturating_mul(2) } else { hidden };
        if !hidden.is_multiple_of(heads) {
            let expected = format!("a multiple of `{heads_name}`, which is {heads}, or a head_dim");
            return Err(top.error(name, expected));
        }
        Ok(((hidden / heads) as usize, top.path(name)))
    }

    /// The rope of one layer type.
    fn layer(&mut self, ctx: &Context, dictionary: &Fields, layer_type: Option<&str>) -> Result<Spec> {
        let head_dim = self.head_dim(ctx, layer_type)?;
        self.rule(ctx, dictionary, head_dim)
    }
}
