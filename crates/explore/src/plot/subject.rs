//! Which rope a plot shows: one of a size and a base, or a model's.

use super::within;
use crate::error::{Error, Result};
use crate::figures::check;
use lab::chart::number;
use rope::{HfConfig, HfOptions, Rope};

/// The rope that a plot shows.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The rope.
    pub rope: Rope,
    /// The length that its rule was made from, where it names one.
    pub original: Option<u64>,
    /// The longest sequence that the model takes, where that is known.
    pub longest: Option<u64>,
    /// What it is, for headings.
    pub(super) name: String,
}

impl Subject {
    /// A rope without a rule.
    pub fn plain(dim: usize, base: f64) -> Result<Self> {
        let rope = check::rope(dim, base)?;
        let name = format!("d = {dim}, base {}", number(base));
        Ok(Subject { rope, original: None, longest: None, name })
    }

    /// A rope with a receptive field: every frequency θⱼ is α/10000^ρ + (1−α)·θⱼ.
    pub fn field(dim: usize, base: f64, alpha: f64, rho: f64) -> Result<Self> {
        let rope = check::field(dim, base, alpha, rho)?;
        let name = format!("d = {dim}, base {}, α = {}, ρ = {}", number(base), number(alpha), number(rho));
        Ok(Subject { rope, original: None, longest: None, name })
    }

    /// The rope of a Hugging Face `config.json`; of one of its layer types, where it has several.
    pub fn of_config(config: &[u8], layer_type: Option<&str>) -> Result<Self> {
        let config = HfConfig::read(config, &HfOptions::default())?;
        let ropes = || config.layers.iter().filter(|layer| layer.rope.is_some());
        let names: Vec<&str> = ropes().filter_map(|layer| layer.layer_type.as_deref()).collect();
        let found = match layer_type {
            Some(name) => ropes().find(|layer| layer.layer_type.as_deref() == Some(name)),
            None if ropes().count() == 1 => ropes().next(),
            None => None,
        };
        let Some((layer, rope)) = found.and_then(|layer| Some((layer, layer.rope.clone()?))) else {
            return Err(Error::new(match (layer_type, names.is_empty()) {
                (_, true) if ropes().count() == 0 => {
                    format!("the configuration is of a model without rotary embedding ({})", config.encoding)
                }
                (Some(name), true) => format!("the layer type is {name:?}, but all layers share one rope"),
                (Some(name), false) => format!("the layer type is {name:?}; expected one of {names:?}"),
                (None, _) => format!("the layer types {names:?} have ropes of their own; name one of them"),
            }));
        };
        within("the rotary dimension", rope.rotary_dim(), 2..=2048)?;
        let model = config.model_type.as_deref().unwrap_or("model");
        // A name from a file is as long as somebody made it.
        let model: String = model
            .chars()
            .chain(layer.layer_type.iter().flat_map(|name| " ".chars().chain(name.chars())))
            .take(40)
            .collect();
        let name = format!("{model}: d = {}, base {}", rope.rotary_dim(), number(rope.base()));
        Ok(Subject { original: layer.original_length, longest: config.max_position_embeddings, name, rope })
    }

    /// Its frequencies at a length, fastest first: `[pairs]`.
    pub(super) fn theta(&self, length: impl Into<Option<u64>>) -> Vec<f64> {
        self.rope.frequencies(length).inv_freq().to_vec()
    }
}
