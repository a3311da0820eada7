//! Network → `config.json`, parameters → tensors: what transformers and the commands that run models load.

use super::Network;
use crate::blueprint::{Arrangement, Family, positions_table};
use crate::error::{Error, Result};
use crate::graph::Parameters;
use serde_json::Value;
use std::borrow::Cow;

/// A tensor to be handed over.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers, row by row.
    pub numbers: Cow<'a, [f32]>,
}

impl Network {
    /// The `config.json` of the network, as [`Blueprint::to_config`](crate::blueprint::Blueprint::to_config) writes it, with
    /// the head that the task trains.
    pub fn to_config(&self, longest: usize, labels: &[String]) -> Result<Value> {
        self.described().to_config(longest, self.dropout, labels)
    }

    /// All tensors of the network, from parameters laid out as `layout` says: those that are trained, and what transformers
    /// keeps beside them. `longest` is that of [`to_config`](Network::to_config).
    pub fn tensors<'a>(
        &self,
        layout: &Parameters,
        parameters: &'a [f32],
        longest: usize,
    ) -> Result<Vec<Tensor<'a>>> {
        if parameters.len() != layout.len() {
            return Err(Error::input("the number of parameters", parameters.len(), layout.len().to_string()));
        }
        let mut tensors: Vec<Tensor> = Vec::with_capacity(layout.entries().len() + 1);
        for entry in layout.entries() {
            let own = &parameters[entry.range.clone()];
            let arrangement = self.blueprint.arrangement(&entry.name, &entry.shape);
            let numbers = match arrangement {
                Arrangement::Same => Cow::Borrowed(own),
                _ => {
                    let mut kept = vec![0.0; own.len()];
                    arrangement.give(&entry.shape, own, &mut kept);
                    Cow::Owned(kept)
                }
            };
            let shape = arrangement.shape(&entry.shape);
            tensors.push(Tensor { name: entry.name.clone(), shape, numbers });
        }
        if !self.blueprint.family.is_encoder() {
            return Ok(tensors);
        }
        // Where the output is not tied, transformers has its bias twice and reads this one.
        let names = self.blueprint.family.names();
        let own = format!("{}.bias", names.output);
        let is_twice = names.tied_bias != own;
        if let Some(bias) = tensors.iter().find(|tensor| is_twice && tensor.name == own) {
            tensors.push(Tensor { name: names.tied_bias.into(), ..bias.clone() });
        }
        if self.blueprint.family == Family::RoFormer && self.blueprint.has_own_encoding() {
            let (shape, numbers) = positions_table(&self.blueprint, longest)?;
            let name = "roformer.encoder.embed_positions.weight".into();
            tensors.push(Tensor { name, shape, numbers: numbers.into() });
        }
        Ok(tensors)
    }
}
