//! Tensors → parameters, by their names.

use super::super::{Form, Network};
use crate::encoding::Encoding;
use crate::error::{Error, Result};
use crate::graph::Parameters;
use crate::model::decoder::names;
use crate::model::parameters::{Named, check_pairing, is_derived, verdict};
use crate::ops::Real;
use crate::weights::{Target, Weights};
use std::collections::HashSet;

/// What was not found in a checkpoint, and what was not used of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Parameters that the checkpoint does not have: those of a head, or of an encoding. They keep their numbers.
    pub missing: Vec<String>,
    /// Tensors that nothing asks for: those of another head.
    pub unused: Vec<String>,
}

impl Network {
    /// Reads the tensors of a checkpoint into parameters laid out as `layout` says, `[layout.len()]`.
    ///
    /// Names may have the prefix of a model with a head (`roformer.`, `model.`) or not; older ones of norms, and those of
    /// parallel modules, are read by [`Weights::of_model`]. A head of the task that the checkpoint does not have keeps the numbers it has. A tensor of another
    /// shape is an error that names it, and so is anything but a head that is missing or unexpected; then nothing, or a
    /// part, has been read.
    pub fn load<T: Real + Target>(
        &self,
        weights: &Weights,
        layout: &Parameters,
        out: &mut [T],
    ) -> Result<Loaded> {
        if let Encoding::Rotary(rotary) = &self.encoding {
            check_pairing(weights, rotary.pairing)?;
        }
        if out.len() != layout.len() {
            return Err(Error::input("the number of parameters", out.len(), layout.len().to_string()));
        }
        let (is_tied, (prefix, first)) = (self.form.is_tied(), self.prefix());
        let source = Named::with(weights, prefix, first);
        let mut loaded = Loaded::default();
        let (mut found, mut missing, mut unexpected) = (Vec::new(), Vec::new(), Vec::new());
        for entry in layout.entries() {
            match source.own(&entry.name) {
                name if weights.get(name).is_some() => found.push((entry, name)),
                _ if self.is_body(&entry.name) => missing.push(entry.name.clone()),
                _ => loaded.missing.push(entry.name.clone()),
            }
        }
        let used: HashSet<&str> = found.iter().map(|&(_, name)| name).collect();
        for name in weights.names().filter(|name| !used.contains(name)) {
            let full = if source.is_bare() { format!("{prefix}{name}") } else { name.to_string() };
            if name.ends_with("embed_positions.weight") {
                source.check_positions(name, self.head_dim)?;
            } else if !is_derived(name, is_tied) && !names::is_derived(name, is_tied) {
                let list = if self.is_body(&full) { &mut unexpected } else { &mut loaded.unused };
                list.push(name.to_string());
            }
        }
        if !missing.is_empty() || !unexpected.is_empty() {
            let verdict = match self.form {
                Form::RoFormer(form) => verdict(weights, &missing, &unexpected, form.has_plain_norms),
                _ => "the weights do not fit the configuration",
            };
            return Err(Error::Tensors { missing, unexpected, verdict: verdict.into() });
        }
        for (entry, name) in found {
            weights.read(name, &entry.shape, &mut out[entry.range.clone()])?;
        }
        Ok(loaded)
    }

    /// What stands before the names of all but the head, in a model that has one; and a tensor of every model.
    fn prefix(&self) -> (&'static str, &'static str) {
        match self.form {
            Form::RoFormer(_) => ("roformer.", "embeddings.word_embeddings.weight"),
            Form::Plain => ("", "embed.weight"),
            Form::Llama(_) => ("model.", "embed_tokens.weight"),
        }
    }

    /// Whether a parameter is neither a head's nor an encoding's.
    fn is_body(&self, name: &str) -> bool {
        match self.form {
            Form::RoFormer(_) => name.starts_with("roformer.") && !name.starts_with("roformer.pooler."),
            Form::Plain => name.starts_with("embed.") || name.starts_with("blocks."),
            Form::Llama(_) => name.starts_with("model."),
        }
    }
}
