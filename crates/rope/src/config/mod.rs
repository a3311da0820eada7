//! From a Hugging Face `config.json` to ropes: which dictionary counts, what a missing field means, which pairing.
//!
//! Reads version 4 files (`rope_theta`, `rope_scaling`) and version 5 files (`rope_parameters`, flat or nested per layer
//! type) the way transformers 5.22 reads them. What transformers reads silently in a surprising way is read the same
//! way here, with a warning; what it cannot use is an error that names the field.

mod dictionaries;
mod encoding;
mod fields;
mod head;
mod json;
mod models;
mod rule;

use crate::error::{Error, Result};
use crate::pairing::Pairing;
use crate::rope::{Rope, RopeBuilder};
use crate::schedule::AnglePrecision;
pub use encoding::Encoding;
use fields::{Fields, plain};
pub use json::{MAX_CONFIG_BYTES, parse};
use models::{Model, PairingRule};
use serde_json::Value;

/// How to read a configuration.
#[derive(Clone, Debug, Default)]
pub struct HfOptions {
    /// Overrides the pairing that follows from `model_type`.
    pub pairing: Option<Pairing>,
    /// Keys of the rope dictionary that are ignored although no rule reads them; others that no rule reads are errors.
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
    /// How the model tells positions apart. Where that is not by rotary embedding there is one layer without rope.
    pub encoding: Encoding,
    /// The longest sequence the model takes: as the file says, else as its class does.
    pub max_position_embeddings: Option<u64>,
    /// One entry for the whole model, or one for each layer type.
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
    /// The ropes, unless the model is not rotary or the pairing is unknown.
    pub fn ropes(self) -> Result<RopeSet> {
        if self.encoding != Encoding::Rotary {
            return Err(Error::NotRotary {
                model_type: self.model_type.map_or("missing".into(), |name| plain(&name)),
                encoding: self.encoding,
            });
        }
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
        let mut value = parse(config)?;
        models::fill_text_part(&mut value);
        let Value::Object(map) = &value else {
            return Err(Error::Json("a JSON value that is not an object".into()));
        };
        let mut reader = Reader { options, warnings: Vec::new() };
        let (top, section, model_type) = reader.descend(Fields::new(map, ""))?;
        let model = own_type(&top, model_type.as_deref())?.and_then(models::find);
        let mut ctx = Context { top, model, max_position_embeddings: None, nested: false };
        ctx.max_position_embeddings = reader.longest(&ctx)?;
        let encoding = reader.encoding(&ctx, model_type.as_deref())?;
        let max_position_embeddings = ctx.max_position_embeddings;
        if encoding != Encoding::Rotary {
            let layers =
                vec![HfLayer { layer_type: None, rope_type: None, rope: None, original_length: None }];
            let (pairing, warnings) = (None, reader.warnings);
            return Ok(HfConfig {
                model_type,
                section,
                pairing,
                encoding,
                max_position_embeddings,
                layers,
                warnings,
            });
        }
        let pairing = reader.pairing(&ctx)?;
        let mut layers = Vec::new();
        for (layer_type, dictionary) in reader.dictionaries(&ctx)? {
            let spec = match dictionary {
                Some(dictionary) => {
                    let map =
                        dictionary.as_object().ok_or_else(|| Error::Json("a rope dictionary".into()))?;
                    let nested = layer_type.is_some();
                    let path = reader.dictionary_path(&ctx, layer_type.as_deref());
                    let ctx = Context { nested, ..ctx.clone() };
                    Some(reader.rule(&ctx, &Fields::new(map, path), layer_type.as_deref())?)
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
        Ok(HfConfig { model_type, section, pairing, encoding, max_position_embeddings, layers, warnings })
    }
}

/// The `model_type` whose rules are followed: of a model of this project, `llama-receptive`, the type that it resembles.
fn own_type<'a>(top: &Fields, model_type: Option<&'a str>) -> Result<Option<&'a str>> {
    let encoding = top.string("position_encoding")?;
    let resembled =
        encoding.zip(model_type).and_then(|(name, own)| own.strip_suffix(name)?.strip_suffix('-'));
    Ok(resembled.or(model_type))
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

impl<'a> Context<'a> {
    fn is(&self, names: &[&str]) -> bool {
        self.model.as_ref().is_some_and(|model| names.contains(&model.name))
    }

    /// The encoding that a model of this project names.
    fn own_encoding(&self) -> Result<Option<&'a str>> {
        self.top.string("position_encoding")
    }

    /// The names under which a field is read: its own and the class's; every one that is in use where the class is unknown.
    fn names(&self, field: &'static str, others: &[&'static str]) -> Vec<&'static str> {
        match &self.model {
            Some(model) => model.names(field),
            None => std::iter::once(field).chain(others.iter().copied()).collect(),
        }
    }
}

/// Types whose classes read `rotary_emb_base` and `rotary_pct` instead of the usual names.
const NEOX: &[&str] = &["gpt_neox", "gpt_neox_japanese", "qwen"];
/// Types whose base is a constant in the code.
const FIXED_BASE: &[&str] = &["roformer", "gptj", "codegen"];
/// Types that read "su" and "yarn" as LongRoPE.
const PHI_3: &[&str] = &["phi3", "phi4_multimodal"];

struct Reader<'a> {
    options: &'a HfOptions,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The longest sequence that the model takes.
    fn longest(&mut self, ctx: &Context) -> Result<Option<u64>> {
        let others = ["n_positions", "max_seq_len", "seq_length", "model_max_length"];
        let names = ctx.names("max_position_embeddings", &others);
        if let Some((_, count)) = ctx.top.count_of(&names)? {
            return Ok(Some(count));
        }
        let assumed = ctx.model.as_ref().and_then(|model| model.positions);
        if let Some(assumed) = assumed {
            self.warn(format!(
                "no `max_position_embeddings` in the file: {assumed} is taken, as its class assumes"
            ));
        }
        Ok(assumed)
    }

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
            // Speech and translation models whose text part is what writes.
            let writer = match model_type.as_deref() {
                Some("dia") => "decoder_config",
                Some("t5gemma" | "t5gemma2") => "decoder",
                _ => "text_config",
            };
            for key in
                ["text_config", "language_config", "llm_config", "thinker_config", "vlm_config", writer]
            {
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
        }
        // A flat file of a multi-modal model has the text part's fields at the top; some name the whole's type inside.
        if let Some(text) = model_type.as_deref().and_then(models::find).and_then(|model| model.text) {
            model_type = Some(text.to_string());
        }
        Ok((at, section, model_type))
    }

    fn pairing(&mut self, ctx: &Context) -> Result<Option<Pairing>> {
        let (top, model) = (&ctx.top, ctx.model.as_ref());
        if let Some(pairing) = self.options.pairing {
            return Ok(Some(pairing));
        }
        if ctx.own_encoding()?.is_some() {
            // This project's encodings pair neighbours, whatever the model around them resembles.
            return Ok(Some(Pairing::Interleaved));
        }
        if ctx.is(&["chatglm"]) && top.boolean("original_rope")? == Some(false) {
            return Ok(Some(Pairing::Half));
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
                    "`model_type` is {name}, which is not known here, so its pairing is unknown too: \
                     set `pairing` to interleaved, half or interleaved_to_half"
                ));
                None
            }
        })
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
        if ctx.is(&["qwen"]) {
            self.warn_about_qwen(ctx)?;
        }
        if ctx.is(&["chatglm"]) && ctx.top.boolean("position_encoding_2d")? == Some(true) {
            return Err(ctx
                .top
                .error("position_encoding_2d", "false: two positions for each token are not read"));
        }
        if ctx.top.boolean("rotary_value")? == Some(true) {
            self.warn("`rotary_value` is true: values are rotated as well as queries and keys");
        }
        Ok(())
    }

    /// The first Qwen stretches its base, and scales its queries, by rules of its own.
    fn warn_about_qwen(&mut self, ctx: &Context) -> Result<()> {
        let trained = ctx.top.count("seq_length")?.unwrap_or(2048);
        if ctx.top.boolean("use_dynamic_ntk")? != Some(false) {
            self.warn(format!(
                "`use_dynamic_ntk`: beyond {trained} tokens (`seq_length`) the base is multiplied by α^(d/(d−2)), \
                 α = 2^⌈log2(length/{trained}) + 1⌉ − 1; what is shown holds up to there"
            ));
        }
        if ctx.top.boolean("use_logn_attn")? != Some(false) {
            self.warn(format!(
                "`use_logn_attn`: queries beyond position {trained} are also multiplied by log(position)/log({trained}); \
                 that is not part of the rotation"
            ));
        }
        Ok(())
    }
}
