//! The tensors that a blueprint asks for, where they are in a file, and the check that a file has them and no others.

use super::{Blueprint, Family, HeadKind, HeadNorms, Names, NormKind, NormPlace};
use crate::encoding::{Encoding, Evaluated};
use crate::error::{Error, Result};
use crate::model::Parameters;
use crate::ops::memory::is_available;
use crate::ops::{Memory, Real};
use crate::weights::{self, Target, Weights, recorded_pairing};
use rope::Pairing;
use std::collections::HashSet;

/// A tensor that a blueprint asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name, in a model that has a head.
    pub name: String,
    /// Its shape in a file.
    pub shape: Vec<usize>,
    /// What it belongs to.
    pub part: Part,
}

/// What a tensor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Embeddings and layers.
    Body,
    /// What stands on the last layer.
    Head,
    /// The position encoding.
    Encoding,
}

/// Tensors in the making.
struct List {
    tensors: Vec<Asked>,
    norm: NormKind,
    part: Part,
}

impl List {
    fn add(&mut self, name: String, shape: &[usize]) {
        self.tensors.push(Asked { name, shape: shape.into(), part: self.part });
    }

    /// A product `[outputs, inputs]` with or without a bias.
    fn product(&mut self, name: &str, [outputs, inputs]: [usize; 2], has_bias: bool) {
        self.add(format!("{name}.weight"), &[outputs, inputs]);
        if has_bias {
            self.add(format!("{name}.bias"), &[outputs]);
        }
    }

    /// A norm, with the parameters that it has.
    fn norm(&mut self, name: &str, width: usize) {
        if self.norm != NormKind::Bare {
            self.add(format!("{name}.weight"), &[width]);
        }
        if self.norm == NormKind::Layer {
            self.add(format!("{name}.bias"), &[width]);
        }
    }
}

impl Blueprint {
    /// The tensors of a model, under the names that one with a head has.
    pub fn tensors(&self) -> Vec<Asked> {
        self.tensors_of(usize::MAX)
    }

    /// The same for at most so many layers, the first ones.
    fn tensors_of(&self, most: usize) -> Vec<Asked> {
        let layers = self.layers.min(most);
        let (names, width, embedding) = (self.family.names(), self.width, self.embedding);
        let mut list = List { tensors: Vec::new(), norm: self.norms.kind, part: Part::Body };
        list.add(format!("{}.weight", names.words), &[self.vocabulary, embedding]);
        if !names.carried.is_empty() {
            list.add(names.carried.into(), &[width]);
        }
        if self.types > 0 {
            list.add(format!("{}.weight", names.types), &[self.types, embedding]);
        }
        if self.norms.of_embeddings {
            list.norm(names.embedding_norm, self.normed_embedding());
        }
        if embedding != width {
            list.product(names.project, [width, embedding], !self.projects_first);
        }
        for layer in 0..layers {
            self.layer_tensors(names, layer, &mut list);
        }
        if let Some(own) = self.convolution {
            let [product, norm] = names.convolution;
            list.product(product, [width, own.kernel * width], true);
            list.norm(norm, width);
        }
        if self.norms.at_end {
            list.norm(names.last_norm, width);
        }
        list.part = Part::Head;
        self.head_tensors(names, &mut list);
        list.part = Part::Encoding;
        let encodings = self.layer_encodings(layers);
        for entry in Evaluated::<f32>::layout(&self.encoding, &encodings, &self.encoded_sizes(1)).entries() {
            let name = self.of_encoding(&entry.name);
            // Some are the layers' own.
            if !(self.encoding.shares_projections() && list.tensors.iter().any(|asked| asked.name == name)) {
                list.add(name.into_owned(), &entry.shape);
            }
        }
        for asked in &mut list.tensors {
            asked.shape = self.arrangement(&asked.name, &asked.shape).shape(&asked.shape);
        }
        if let Some(encoder) = &self.encoder {
            // The word embeddings are those of both.
            list.tensors.extend(encoder.tensors_of(most).into_iter().skip(1));
        }
        list.tensors
    }

    fn layer_tensors(&self, names: &Names, layer: usize, list: &mut List) {
        let (width, query, key) = (self.width, self.query_width(), self.key_width());
        let name = |part: &str| names.of_layer(layer, part);
        for (name, rows) in names.joined(layer, "weight", [query, key, key]) {
            list.add(name, &[rows, width]);
        }
        if self.biases.queries {
            for (name, rows) in names.joined(layer, "bias", [query, key, key]) {
                list.add(name, &[rows]);
            }
        }
        if self.head_norms == HeadNorms::Weighted {
            names.head_norms.iter().for_each(|part| list.norm(&name(part), self.head_dim));
        }
        if self.has_segment_scores {
            names.segments.iter().zip([1, 2]).for_each(|(part, rows)| list.add(name(part), &[rows, query]));
        }
        let behind = |kind: &str| names.behind(layer, kind, width);
        behind("weight").into_iter().for_each(|(name, rows)| list.add(name, &[rows, query]));
        if self.biases.output {
            behind("bias").into_iter().for_each(|(name, rows)| list.add(name, &[rows]));
        }
        if !(layer == 0 && self.norms.skips_first) {
            list.norm(&name(names.attention_norm), width);
        }
        if self.norms.place == NormPlace::Around {
            names.after.iter().for_each(|part| list.norm(&name(part), width));
        }
        if self.has_cross_attention {
            let [products @ .., output, norm] = &names.cross;
            for part in products {
                list.product(&name(part), [query, width], self.biases.queries);
            }
            list.product(&name(output), [width, query], self.biases.queries);
            list.norm(&name(norm), width);
        }
        let ups = |kind: &str| names.ups(layer, kind, self.wide, self.is_gated);
        ups("weight").into_iter().for_each(|(name, rows)| list.add(name, &[rows, width]));
        if self.biases.wide {
            ups("bias").into_iter().for_each(|(name, rows)| list.add(name, &[rows]));
        }
        list.product(&name(names.down), [width, self.wide], self.biases.wide);
        // One norm may serve both blocks, where they are side by side.
        if names.feed_forward_norm != names.attention_norm {
            list.norm(&name(names.feed_forward_norm), width);
        }
    }

    fn head_tensors(&self, names: &Names, list: &mut List) {
        let (width, embedding, classes) = (self.width, self.embedding, self.classes());
        if self.pooler.is_some() {
            list.product(names.pooler, [width, width], true);
        }
        if self.transform().is_some() {
            list.product(names.transform[0], [embedding, width], self.output.transform_has_bias);
            list.norm(names.transform[1], embedding);
        }
        match self.head {
            HeadKind::None => {}
            HeadKind::MaskedLm | HeadKind::CausalLm => match self.output.is_tied {
                true if self.output.has_bias => list.add(names.tied_bias.into(), &[self.vocabulary]),
                true => {}
                false => list.product(names.output, [self.vocabulary, embedding], self.output.has_bias),
            },
            HeadKind::SequenceClassification => {
                let [first, last] = names.text;
                if names.judges_by_first() {
                    list.product(first, [width, width], true);
                }
                list.product(last, [classes, width], names.text_has_bias);
            }
            HeadKind::TokenClassification => list.product(names.token, [classes, width], true),
            HeadKind::QuestionAnswering => list.product(names.question, [2, width], true),
            HeadKind::MultipleChoice => {
                let [summary, classifier] = names.choice;
                if self.summary.has_projection {
                    list.product(summary, [width, width], true);
                }
                list.product(classifier, [1, width], true);
            }
        }
    }

    /// Checks that a file has the tensors that a blueprint asks for, in their shapes and the model's own pairing, and nothing
    /// that nothing asks for: all that is checked before numbers are read.
    pub fn check_weights(&self, weights: &Weights) -> Result<()> {
        self.check_pairing(weights)?;
        let source = Named::new(weights, self.family.names());
        // Layers that cannot all be there are not listed.
        let asked = self.tensors_of(weights.len() + 1);
        let own: HashSet<&str> = asked.iter().map(|asked| source.own(&asked.name)).collect();
        let is_missing = |name: &&&str| weights.get(name).is_none();
        let mut missing: Vec<String> = own.iter().filter(is_missing).map(|name| name.to_string()).collect();
        missing.sort();
        let mut unexpected = Vec::new();
        for name in weights.names().filter(|&name| !own.contains(name)) {
            if !self.is_derived(&source, name)? {
                unexpected.push(name.to_string());
            }
        }
        if !(missing.is_empty() && unexpected.is_empty()) {
            let verdict = self.verdict(weights, &missing, &unexpected).into();
            return Err(Error::Tensors { missing, unexpected, verdict });
        }
        asked.iter().try_for_each(|asked| source.check_shape(source.own(&asked.name), &asked.shape))
    }

    /// Checks that the queries and keys of a file are in the model's own pairing, where it says in which.
    pub(crate) fn check_pairing(&self, weights: &Weights) -> Result<()> {
        let expected = match &self.encoding {
            Encoding::Rotary(rotary) => rotary.pairing,
            Encoding::Extend(own) => own.rotary.pairing,
            _ => return Ok(()),
        };
        check_pairing(weights, expected)
    }

    /// Whether a tensor is made from others, or again by whoever loads the file. A table of positions that is carried along
    /// must be what it is taken for.
    pub(crate) fn is_derived(&self, source: &Named, name: &str) -> Result<bool> {
        if self.family == Family::RoFormer && name.ends_with("encoder.embed_positions.weight") {
            source.check_positions(name, self.head_dim)?;
            return Ok(true);
        }
        let names = self.family.names();
        let is_output = |part: &str| name.strip_prefix(names.output) == Some(part);
        let is_copy = match self.output.is_tied {
            true => is_output(".weight") || is_output(".bias") && names.tied_bias != names.output_bias,
            false => name == names.tied_bias && names.tied_bias != names.output_bias,
        };
        let full = source.full(name);
        let is_unused = names.unused.iter().any(|prefix| full.starts_with(prefix));
        Ok(name.ends_with("rotary_emb.inv_freq") || name.ends_with("position_ids") || is_copy || is_unused)
    }

    /// Whether a tensor of this name would belong to embeddings or layers, whether it is asked for or not.
    pub(crate) fn is_of_body(&self, name: &str) -> bool {
        let names = self.family.names();
        let is_pooler = !names.pooler.is_empty() && name.starts_with(names.pooler);
        let is_within = match names.prefix {
            "" => name.starts_with(names.words) || name.starts_with(names.layer),
            prefix => name.starts_with(prefix),
        };
        is_within && !is_pooler
    }

    /// What it means that tensors are missing from a file, or unexpected.
    pub(crate) fn verdict(
        &self,
        weights: &Weights,
        missing: &[String],
        unexpected: &[String],
    ) -> &'static str {
        let output = format!("{}.weight", self.family.names().output);
        if unexpected.is_empty() && missing == [output] {
            return "the weights have no output of their own: where it is the word embeddings, config.json has \
                    \"tie_word_embeddings\": true";
        }
        let parts = [".bias", "LayerNorm", "predictions.transform."];
        let is_v1 = |name: &String| parts.iter().any(|part| name.contains(part));
        let is_head = |name: &String| HEADS.iter().any(|head| name.starts_with(head));
        // One that is missing is a loss; RoFormerV2's layers have none at all. (Its heads have.)
        let has_biases =
            || weights.names().any(|name| name.contains("encoder.layer.") && name.ends_with(".bias"));
        let is_bare = self.norms.kind == NormKind::Bare;
        match (missing.is_empty(), unexpected.is_empty()) {
            _ if self.family != Family::RoFormer => "the weights do not fit the configuration",
            (false, _) if !is_bare && missing.iter().all(is_v1) && !has_biases() => {
                "the weights have no biases: this is RoFormerV2, and the configuration the first RoFormer's; \
                 RoFormerV2's config.json has \"norm_type\": \"rms_norm\" and \"use_bias\": false"
            }
            (true, false) if is_bare && unexpected.iter().all(is_v1) => {
                "the weights have biases or norms: this is the first RoFormer, and the configuration RoFormerV2's"
            }
            (false, true) if missing.iter().all(is_head) => {
                "the weights have no head, or a part of one, where `architectures` in config.json names one; without a head \
                 it is [\"RoFormerModel\"]"
            }
            _ => "the weights do not fit the configuration",
        }
    }
}

/// What the names of a RoFormer's head begin with.
const HEADS: [&str; 4] = ["cls.", "classifier.", "qa_outputs.", "sequence_summary."];

/// Checks that the queries and keys of a file are in this pairing, where it says in which.
fn check_pairing(weights: &Weights, expected: Pairing) -> Result<()> {
    match recorded_pairing(weights.path()).filter(|&pairing| pairing != expected) {
        None => Ok(()),
        Some(pairing) => Err(Error::File {
            path: weights.path().to_owned(),
            reason: format!(
                "its queries and keys are in the pairing `{pairing}`; expected {expected}: \
                 convert the weights to the pairing {expected}"
            ),
        }),
    }
}

/// The tensors of a file (of [`Weights::of_model`]) under the names that a model with a head has.
pub(crate) struct Named<'a> {
    weights: &'a Weights,
    names: &'static Names,
    /// Whether the file is of the bare model, whose names have no prefix.
    is_bare: bool,
}

impl<'a> Named<'a> {
    pub fn new(weights: &'a Weights, names: &'static Names) -> Self {
        let words = names.words.strip_prefix(names.prefix).unwrap_or(names.words);
        let is_bare = !names.prefix.is_empty() && weights.get(&format!("{words}.weight")).is_some();
        Named { weights, names, is_bare }
    }

    /// Whether the file is of the bare model.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.weights.get(self.own(name)).is_some()
    }

    /// The name in the file.
    pub fn own<'n>(&self, name: &'n str) -> &'n str {
        let Names { prefix, tied_bias, output_bias, .. } = *self.names;
        let has = |name: &str| self.weights.get(name).is_some();
        match name {
            // The bias of a tied output may be there under the output's own name alone, as transformers reads it too.
            _ if name == tied_bias && !has(tied_bias) && has(output_bias) => output_bias,
            _ if self.is_bare => name.strip_prefix(prefix).unwrap_or(name),
            _ if has(name) => name,
            _ => {
                let other = self.names.others.iter().find(|(ours, theirs)| *ours == name && has(theirs));
                other.map_or(name, |(_, theirs)| theirs)
            }
        }
    }

    /// The name of a tensor of the file as a model with a head has it.
    pub fn full(&self, name: &str) -> String {
        if self.is_bare { format!("{}{name}", self.names.prefix) } else { name.to_string() }
    }

    /// Checks the shape and the type of a tensor, if it is there.
    fn check_shape(&self, name: &str, shape: &[usize]) -> Result<()> {
        let Some(tensor) = self.weights.get(name) else { return Ok(()) };
        let (path, tensor_name) = (self.weights.path().into(), name.into());
        if tensor.shape() != shape {
            let (found, expected) = (tensor.shape().into(), shape.into());
            return Err(weights::Error::Shape { path, tensor: tensor_name, found, expected }.into());
        }
        match tensor.is_weights() {
            true => Ok(()),
            false => Err(weights::Error::Type { path, tensor: tensor_name, found: tensor.dtype() }.into()),
        }
    }

    /// Checks a table of positions that a file carries along: sines, then cosines, of position·10000^(−2j/d). It is not
    /// used; but a file in which it is another one is of another model.
    fn check_positions(&self, name: &str, dim: usize) -> Result<()> {
        let shape = self.weights.get(name).map(|tensor| tensor.shape().to_vec()).unwrap_or_default();
        let wrong = |found: String| Error::Tensors {
            missing: Vec::new(),
            unexpected: vec![name.to_string()],
            verdict: format!("the table of positions is not RoFormer's: {found}"),
        };
        let [rows, columns] = shape[..] else { return Err(wrong(format!("its shape is {shape:?}"))) };
        // An expanded tensor can claim any size in a small file.
        if columns != dim || rows > 1 << 20 || !is_available(4 * (rows * columns) as u128) {
            return Err(wrong(format!("its shape is {shape:?}, with heads of {dim} features")));
        }
        let table = Memory::<f32>::zeros(rows * columns);
        let mut table = table.ok_or(Error::memory("the table of positions"))?;
        self.weights.read(name, &shape, &mut table)?;
        for (position, row) in table.chunks_exact(dim).enumerate() {
            for (feature, &value) in row.iter().enumerate() {
                let pair = feature % (dim / 2);
                let angle = position as f64 * 10_000f64.powf(-2.0 * pair as f64 / dim as f64);
                let exact = if feature < dim / 2 { angle.sin() } else { angle.cos() };
                // Half a unit of an f16 near 1, the coarsest type it is saved in (bf16 is coarser: a whole 2^-8).
                let is_near = (f64::from(value) - exact).abs() <= 1.0 / 256.0;
                if !is_near {
                    return Err(wrong(format!(
                        "{value} at position {position}, feature {feature}, where {exact:.4} is right"
                    )));
                }
            }
        }
        Ok(())
    }
}

impl<T: Real + Target> Parameters<T> for Named<'_> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        Ok(self.weights.read(self.own(name), shape, out)?)
    }

    fn read_rows(&self, name: &str, shape: &[usize], first: usize, out: &mut [T]) -> Result<()> {
        Ok(self.weights.read_rows(self.own(name), shape, first, out)?)
    }

    fn is_in_rows(&self, name: &str, _shape: &[usize]) -> bool {
        self.weights.is_in_rows(self.own(name))
    }

    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.check_shape(self.own(name), shape)
    }
}
