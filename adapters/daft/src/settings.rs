//! What decides the vectors.

use daft_ext::prelude::{DaftError, DaftResult};
use roformer::ops::Precision;
use roformer::pipeline::{Embed, Prompt};
use serde::Deserialize;

/// The settings of a call, by the names that `rotary.corpus.Settings` has for them.
#[derive(Clone, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A folder, or a name on the hub.
    pub model: String,
    dtype: Option<String>,
    max_tokens: Option<i64>,
    prompt: Option<String>,
    prompt_name: Option<String>,
    pooling: Option<String>,
    #[serde(default)]
    normalize: bool,
    dimensions: Option<i64>,
}

impl Settings {
    /// Reads them from the second argument of a call.
    pub fn read(text: &str) -> DaftResult<Settings> {
        let settings: Settings = serde_json::from_str(text)
            .map_err(|error| DaftError::TypeError(format!("the settings cannot be read: {error}")))?;
        for (name, number) in [("max_tokens", settings.max_tokens), ("dimensions", settings.dimensions)] {
            if let Some(number) = number.filter(|&number| number < 1) {
                return Err(DaftError::TypeError(format!("{name} is {number}; expected at least 1")));
            }
        }
        if settings.prompt.is_some() && settings.prompt_name.is_some() {
            return Err(DaftError::TypeError(
                "prompt and prompt_name are both given; expected one of them".into(),
            ));
        }
        Ok(settings)
    }

    /// Where texts are cut.
    pub fn max_tokens(&self) -> Option<usize> {
        self.max_tokens.map(most)
    }

    /// What the model computes in.
    pub fn precision(&self) -> DaftResult<Precision> {
        let named = |name: &str| {
            [Precision::F32, Precision::Bf16, Precision::Int8].into_iter().find(|is| is.name() == name)
        };
        match self.dtype.as_deref() {
            None => Ok(Precision::F32),
            Some("auto") => Ok(Precision::fastest()),
            Some(name) => named(name).ok_or_else(|| {
                DaftError::TypeError(format!("dtype is {name:?}; expected f32, bf16, int8 or auto"))
            }),
        }
    }

    /// How vectors are made.
    pub fn embed(&self) -> DaftResult<Embed<'_>> {
        let prompt = match (&self.prompt, &self.prompt_name) {
            (Some(text), _) => Prompt::Text(text),
            (None, Some(name)) => Prompt::Named(name),
            (None, None) => Prompt::Usual,
        };
        let pooling = self.pooling.as_deref().map(str::parse).transpose()?;
        Ok(Embed { pooling, normalize: self.normalize, prompt, dimensions: self.dimensions.map(most) })
    }

    /// Whether a model that was opened for others is the one for these.
    pub fn has_model_of(&self, other: &Settings) -> bool {
        let model = |of: &Settings| (of.model.clone(), of.dtype.clone(), of.max_tokens);
        model(self) == model(other)
    }
}

/// A number of at least 1.
fn most(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
