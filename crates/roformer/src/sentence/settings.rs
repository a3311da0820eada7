//! The files beside `modules.json`: prompts, similarity, the longest text, letters made small.

use super::fields::Fields;
use super::{Activation, CONFIG, Similarity, blueprint};
use crate::error::{Error, Result};
use crate::files::broken;
use crate::weights::brief;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// What may stand before a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// The prompts by name.
    pub named: BTreeMap<String, String>,
    /// The name of the one that is used where none is asked for.
    pub default: Option<String>,
}

impl Prompts {
    /// The prompt of this name.
    pub fn get(&self, name: &str) -> Result<&str> {
        let expected = || {
            let names: Vec<_> = self.named.keys().map(|name| brief(name)).collect();
            match names.is_empty() {
                true => "no name: the folder of the model has no prompts".into(),
                false => format!("one of those of the model: {}", names.join(", ")),
            }
        };
        let found = self.named.get(name).map(String::as_str);
        found.ok_or_else(|| Error::input("the name of the prompt", brief(name), expected()))
    }

    /// The prompt where none is asked for; the empty one where there is none.
    pub fn usual(&self) -> &str {
        self.default.as_deref().map_or("", |name| self.known(name))
    }

    /// The prompt of this name, or the empty one.
    pub(crate) fn known(&self, name: &str) -> &str {
        self.named.get(name).map_or("", String::as_str)
    }
}

const SETTINGS: &str = "config_sentence_transformers.json";

/// The models by which older versions named the file that says how a transformer reads texts; the first is today's.
const MODELS: [&str; 7] = ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"];

fn reading(model: &str) -> String {
    format!("sentence_{model}_config.json")
}

/// The files that are read here, beside the model.
#[cfg(feature = "hub")]
pub(super) fn names() -> impl Iterator<Item = String> {
    std::iter::once(SETTINGS.to_owned()).chain(MODELS.into_iter().map(reading))
}

/// `config_sentence_transformers.json`.
pub(super) struct Settings {
    fields: Fields,
    pub is_cross_encoder: bool,
}

impl Settings {
    pub fn read(folder: &Path) -> Result<Settings> {
        let fields = Fields::read_if_there(&folder.join(SETTINGS))?;
        let is_cross_encoder = match fields.text("model_type")? {
            None | Some("SentenceTransformer") => false,
            Some("CrossEncoder") => true,
            Some(_) => return Err(fields.wrong("model_type", "SentenceTransformer or CrossEncoder")),
        };
        Ok(Settings { fields, is_cross_encoder })
    }

    pub fn prompts(&self) -> Result<Prompts> {
        let mut named = BTreeMap::new();
        for (name, text) in self.fields.object("prompts")?.into_iter().flatten() {
            let text = match text {
                Value::Null => "",
                Value::String(text) => text,
                _ => return Err(self.fields.wrong("prompts", "an object of strings")),
            };
            named.insert(name.clone(), text.to_owned());
        }
        if !self.is_cross_encoder {
            // The library has these two of every model, so that a query never gets the default that is meant for texts.
            for name in ["query", "document"] {
                named.entry(name.to_owned()).or_default();
            }
        }
        let default = self.fields.text("default_prompt_name")?.map(str::to_owned);
        if default.as_ref().is_some_and(|name| !named.contains_key(name)) {
            return Err(self.fields.wrong("default_prompt_name", "the name of one of the `prompts`"));
        }
        Ok(Prompts { named, default })
    }

    pub fn similarity(&self) -> Result<Similarity> {
        let Some(name) = self.fields.text("similarity_fn_name")? else { return Ok(Similarity::default()) };
        let found = Similarity::ALL.into_iter().find(|similarity| similarity.name() == name);
        let expected = "cosine, dot, euclidean or manhattan";
        found.ok_or_else(|| self.fields.wrong("similarity_fn_name", expected))
    }

    /// How many numbers of a vector are kept.
    pub fn dimensions(&self) -> Result<Option<usize>> {
        self.fields.size("truncate_dim")
    }

    pub fn activation(&self) -> Result<Option<Activation>> {
        let refused = |reason| broken(self.fields.path(), reason);
        let class = self.fields.text("activation_fn")?;
        class.map(|class| Activation::from_class(class).map_err(refused)).transpose()
    }
}

/// How a transformer reads texts: `sentence_bert_config.json`, or what older versions called it.
#[derive(Default)]
pub(super) struct Reading {
    max_seq_length: Option<usize>,
    pub lowers_case: bool,
}

impl Reading {
    pub fn read(transformer: &Path, is_cross_encoder: bool) -> Result<Reading> {
        for name in MODELS.map(reading) {
            let fields = Fields::read_if_there(&transformer.join(name))?;
            if !fields.is_empty() {
                return Self::from_fields(&fields, is_cross_encoder);
            }
        }
        Ok(Reading::default())
    }

    fn from_fields(fields: &Fields, is_cross_encoder: bool) -> Result<Reading> {
        fields.only(&[
            "max_seq_length",
            "do_lower_case",
            "transformer_task",
            "module_output_name",
            "modality_config",
            "unpad_inputs",
            "model_args",
            "model_kwargs",
            "tokenizer_args",
            "processor_kwargs",
            "config_args",
            "config_kwargs",
            "processing_kwargs",
            "query_length",
            "document_length",
            "query_expansion",
        ])?;
        let (task, output, name) = match is_cross_encoder {
            true => ("sequence-classification", "logits", "scores"),
            false => ("feature-extraction", "last_hidden_state", "token_embeddings"),
        };
        for (field, expected) in [("transformer_task", task), ("module_output_name", name)] {
            if fields.text(field)?.is_some_and(|found| found != expected) {
                return Err(fields.wrong(field, expected));
            }
        }
        let way = serde_json::json!({ "text": { "method": "forward", "method_output_name": output } });
        if fields.get("modality_config").is_some_and(|found| *found != way) {
            // Chat templates and pictures are read by other ways.
            return Err(fields.wrong("modality_config", &format!("{way}: texts are read as they are")));
        }
        for field in ["query_length", "document_length", "query_expansion"] {
            if fields.get(field).is_some() {
                return Err(fields.wrong(field, "nothing: it is not done here"));
            }
        }
        // Where and in which numbers a model runs is not the folder's to say; anything else would change what it computes.
        let harmless = ["torch_dtype", "dtype", "attn_implementation", "device_map", "add_pooling_layer"];
        let sizes = ["model_max_length", "padding_side"];
        for (names, known) in [
            (["model_args", "model_kwargs"], &harmless[..]),
            (["tokenizer_args", "processor_kwargs"], &sizes),
            (["config_args", "config_kwargs"], &[]),
            (["processing_kwargs", "processing_kwargs"], &[]),
        ] {
            for field in names {
                let mut inner = fields.object(field)?.into_iter().flat_map(|map| map.keys());
                if inner.any(|name| !known.contains(&name.as_str()) && name != "trust_remote_code") {
                    return Err(fields.wrong(field, "nothing that changes how texts are read or computed"));
                }
            }
        }
        let given = |field: &str| fields.object(field).ok()??.get("model_max_length")?.as_u64();
        let given = given("tokenizer_args").or_else(|| given("processor_kwargs"));
        let max_seq_length = match given {
            Some(tokens) => Some(tokens as usize),
            None => fields.size("max_seq_length")?,
        };
        Ok(Reading { max_seq_length, lowers_case: fields.boolean("do_lower_case", false)? })
    }

    /// The tokens of the longest text: as many as the file says; else the fewer of what the tokenizer takes and what the model
    /// has positions for.
    pub fn longest(&self, transformer: &Path) -> Result<Option<usize>> {
        if self.max_seq_length.is_some() {
            return Ok(self.max_seq_length);
        }
        let tokenizer = Fields::read_if_there(&transformer.join("tokenizer_config.json"))?;
        let taken = tokenizer.size("model_max_length")?.unwrap_or(usize::MAX);
        let config = Fields::read_if_there(&transformer.join(CONFIG))?;
        let positions = match config.get("max_position_embeddings") {
            // None at all, as XLNet's says.
            Some(value) if value.as_i64() == Some(-1) => None,
            Some(_) => config.size("max_position_embeddings")?,
            None => blueprint(transformer).map(|blueprint| blueprint.longest),
        };
        let longest = taken.min(positions.unwrap_or(usize::MAX));
        Ok(Some(longest).filter(|&tokens| tokens < usize::MAX))
    }
}
