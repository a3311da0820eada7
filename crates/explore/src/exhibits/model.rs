//! A real model: what its heads look at in a text.

use crate::error::{Error, Result};
use crate::figures::check::within;
use roformer::model::Input;
use roformer::ops::{AttentionWeights, Watched};
use roformer::tokenizer::Tokenizer;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// The most tokens of a text: more cells than anyone can see.
const MAX_TOKENS: usize = 128;
/// The most bytes of a text.
const MAX_TEXT: usize = 4096;

/// A model with its tokenizer, on a device that takes note of attention.
pub struct Model {
    name: String,
    tokenizer: Tokenizer,
    model: roformer::model::Model<f32, Watched>,
    watched: Watched,
    /// The text that was looked at last: another head of it needs no other forward pass.
    last: Mutex<Option<Arc<Looked>>>,
}

/// A text and the attention of all layers to it.
struct Looked {
    text: String,
    tokens: Vec<String>,
    layers: Vec<AttentionWeights>,
}

/// Which text, and which head.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The text.
    pub text: String,
    /// The layer, from 0.
    pub layer: usize,
    /// The head, from 0.
    pub head: usize,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { text: "The cat sat on the mat because it was tired.".into(), layer: 0, head: 0 }
    }
}

/// A model in short.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// As it was named.
    pub name: String,
    /// Layers.
    pub layers: usize,
    /// Heads of a layer.
    pub heads: usize,
}

/// One head's attention to a text, and all heads in one number each.
#[derive(Clone, Debug, Serialize)]
pub struct Attention {
    /// `[tokens]`
    pub tokens: Vec<String>,
    /// `[queries][keys]` of the head: each row sums to 1.
    pub weights: Vec<Vec<f32>>,
    /// The head's mean weight by how far back the key stands, `[distance]`; keys that stand after the query are not counted.
    pub by_distance: Vec<f64>,
    /// The mean distance |m − n| that each head looks over, `[layer][head]`.
    pub reach: Vec<Vec<f64>>,
    /// The weight that each head gives to the token before, on average, `[layer][head]`.
    pub previous: Vec<Vec<f64>>,
    /// The weight that each head gives to the first token, on average, `[layer][head]`.
    pub first: Vec<Vec<f64>>,
}

impl Model {
    /// Loads a model from a folder, with a name to be shown.
    pub fn open(name: &str, folder: &Path) -> Result<Model> {
        let tokenizer = Tokenizer::load(folder)?;
        let watched = Watched::default();
        let model = roformer::model::Model::load_on(watched.clone(), folder)?;
        Ok(Model { name: name.into(), tokenizer, model, watched, last: Mutex::new(None) })
    }

    /// Its name, and how many layers and heads it has.
    pub fn about(&self) -> About {
        let (layers, heads) = (self.model.blueprint().layers, self.model.blueprint().heads);
        About { name: self.name.clone(), layers, heads }
    }

    /// One head's attention to a text.
    pub fn attention(&self, ask: &Ask) -> Result<Attention> {
        let looked = self.look(&ask.text)?;
        let (layers, heads) =
            (looked.layers.len(), looked.layers.first().map_or(0, |layer| layer.shape.heads));
        within("layer", ask.layer, 0..=layers.saturating_sub(1))?;
        within("head", ask.head, 0..=heads.saturating_sub(1))?;
        let length = looked.tokens.len();
        let of = |layer: usize, head: usize| {
            looked.layers[layer].weights[head * length * length..(head + 1) * length * length].chunks(length)
        };
        let each = |measure: &dyn Fn(usize, usize, f64) -> f64| -> Vec<Vec<f64>> {
            let mean = |layer, head| {
                let rows = of(layer, head).enumerate();
                let cells = rows.flat_map(|(query, row)| {
                    row.iter().enumerate().map(move |(key, &weight)| (query, key, f64::from(weight)))
                });
                cells.map(|(query, key, weight)| measure(query, key, weight)).sum::<f64>() / length as f64
            };
            (0..layers).map(|layer| (0..heads).map(|head| mean(layer, head)).collect()).collect()
        };
        let weights: Vec<Vec<f32>> = of(ask.layer, ask.head).map(<[f32]>::to_vec).collect();
        let back = |distance: usize| {
            let sum: f64 = (distance..length).map(|query| f64::from(weights[query][query - distance])).sum();
            sum / (length - distance) as f64
        };
        Ok(Attention {
            tokens: looked.tokens.clone(),
            by_distance: (0..length).map(back).collect(),
            reach: each(&|query, key, weight| weight * query.abs_diff(key) as f64),
            // The first token has none before it, and is not counted against a head.
            previous: each(&|query, key, weight| {
                if query == key + 1 { weight * length as f64 / (length.max(2) - 1) as f64 } else { 0.0 }
            }),
            first: each(&|_, key, weight| if key == 0 { weight } else { 0.0 }),
            weights,
        })
    }

    /// Runs the model on a text, unless it was the last.
    fn look(&self, text: &str) -> Result<Arc<Looked>> {
        if text.len() > MAX_TEXT {
            return Err(Error::refused(
                format!("the text has {} bytes; expected at most {MAX_TEXT}", text.len()),
                format!("文本有 {} 字节；最多 {MAX_TEXT} 字节", text.len()),
            ));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looked) = last.as_ref().filter(|looked| looked.text == text) {
            return Ok(Arc::clone(looked));
        }
        let encoding = self.tokenizer.encode(text)?;
        let ids = &encoding.ids;
        if ids.is_empty() || ids.len() > MAX_TOKENS {
            let count = ids.len();
            return Err(Error::refused(
                format!("the text has {count} tokens; expected 1 to {MAX_TOKENS}"),
                format!("文本有 {count} 个 token；应为 1 到 {MAX_TOKENS} 个"),
            ));
        }
        self.watched.take();
        self.model.forward(&Input { ids, batch: 1, token_types: None, mask: None })?;
        let token = |&id: &u32| self.tokenizer.token(id).unwrap_or_else(|| format!("{id}"));
        let looked = Arc::new(Looked {
            text: text.into(),
            tokens: ids.iter().map(token).collect(),
            layers: self.watched.take(),
        });
        *last = Some(Arc::clone(&looked));
        Ok(looked)
    }
}
