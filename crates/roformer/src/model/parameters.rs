//! Where a model's parameters come from: a file, or an integer hash.

use super::config::RoFormerConfig;
use super::heads::HeadKind;
use crate::error::{Error, Result};
use crate::ops::memory::is_available;
use crate::ops::{Memory, Real};
use crate::weights::{Target, Weights, recorded_pairing};
use rope::Pairing;
use std::collections::HashSet;

/// A source of tensors by name.
pub trait Parameters<T>: Sync {
    /// Reads a tensor of this shape into `out`, row by row.
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()>;
    /// Checks the shape of a tensor, before memory for it is asked for. A source without shapes has nothing to check.
    fn check(&self, _name: &str, _shape: &[usize]) -> Result<()> {
        Ok(())
    }
}

/// The weights of a file, under the names that a model with a head has.
pub(crate) struct Named<'a> {
    weights: &'a Weights,
    /// What stands before the names of the bare model, without its head.
    prefix: &'static str,
    /// Whether the file is of the bare model, whose names have no prefix.
    bare: bool,
}

impl<'a> Named<'a> {
    pub fn new(weights: &'a Weights) -> Self {
        Named::with(weights, "roformer.", "embeddings.word_embeddings.weight")
    }

    /// For models with this prefix, of whose tensors `first` is one.
    pub fn with(weights: &'a Weights, prefix: &'static str, first: &str) -> Self {
        Named { weights, prefix, bare: weights.get(first).is_some() }
    }

    /// Whether the file is of the bare model.
    pub fn is_bare(&self) -> bool {
        self.bare
    }

    /// Whether the file has a pooler, as RoFormer-Sim's have.
    pub fn has_pooler(&self) -> bool {
        self.weights.get(self.own("roformer.pooler.dense.weight")).is_some()
    }

    /// The name in the file.
    pub fn own<'n>(&self, name: &'n str) -> &'n str {
        // The bias of a tied output may be there under the output's own name alone, as transformers reads it too.
        let has = |name: &str| self.weights.get(name).is_some();
        match name {
            TIED_BIAS if !has(TIED_BIAS) && has(OUTPUT_BIAS) => OUTPUT_BIAS,
            _ if self.bare => name.strip_prefix(self.prefix).unwrap_or(name),
            _ => name,
        }
    }
}

/// The bias of a language model's output, where that is the word embeddings.
const TIED_BIAS: &str = "cls.predictions.bias";
/// The same where it is not.
const OUTPUT_BIAS: &str = "cls.predictions.decoder.bias";

impl<T: Real + Target> Parameters<T> for Named<'_> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        Ok(self.weights.read(self.own(name), shape, out)?)
    }
    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        self.check_shape(self.own(name), shape)
    }
}

/// A tensor that a model asks for: its name in a model with a head, and its shape.
pub(crate) type Expected = (String, Vec<usize>);

impl Named<'_> {
    /// Checks that the file has what a model asks for, and nothing that nothing asks for.
    pub fn check(&self, config: &RoFormerConfig, kind: HeadKind) -> Result<()> {
        // Layers that cannot all be there are not listed.
        let config = &RoFormerConfig {
            num_hidden_layers: config.num_hidden_layers.min(self.weights.len() + 1),
            pooler: self.has_pooler(),
            ..config.clone()
        };
        self.check_all(
            &expected(config, kind),
            |name| match name.ends_with("embed_positions.weight") {
                true => self.check_positions(name, config.head_dim()).map(|()| true),
                false => Ok(is_derived(name, config.tie_word_embeddings)),
            },
            |missing, unexpected| verdict(self.weights, missing, unexpected, config.rms_norm),
        )
    }

    /// Checks names, then types and shapes: all that is checked before numbers are read. `is_left` says of a tensor that
    /// nothing asks for whether it may be there, `verdict` what it means that some are missing and some unexpected.
    pub fn check_all(
        &self,
        expected: &[Expected],
        is_left: impl Fn(&str) -> Result<bool>,
        verdict: impl Fn(&[String], &[String]) -> &'static str,
    ) -> Result<()> {
        let own: HashSet<&str> = expected.iter().map(|(name, _)| self.own(name)).collect();
        let is_missing = |name: &&&str| self.weights.get(name).is_none();
        let mut missing: Vec<String> = own.iter().filter(is_missing).map(|name| name.to_string()).collect();
        missing.sort();
        let mut unexpected = Vec::new();
        for name in self.weights.names().filter(|&name| !own.contains(name)) {
            if !is_left(name)? {
                unexpected.push(name.to_string());
            }
        }
        if !(missing.is_empty() && unexpected.is_empty()) {
            let verdict = verdict(&missing, &unexpected).to_string();
            return Err(Error::Tensors { missing, unexpected, verdict });
        }
        expected.iter().try_for_each(|(name, shape)| self.check_shape(self.own(name), shape))
    }

    /// Checks the shape and the type of a tensor, if it is there.
    fn check_shape(&self, name: &str, shape: &[usize]) -> Result<()> {
        let Some(tensor) = self.weights.get(name) else { return Ok(()) };
        let (path, tensor_name) = (self.weights.path().into(), name.into());
        if tensor.shape() != shape {
            let (found, expected) = (tensor.shape().into(), shape.into());
            let error = crate::weights::Error::Shape { path, tensor: tensor_name, found, expected };
            return Err(error.into());
        }
        match tensor.dtype().is_float() {
            true => Ok(()),
            false => {
                Err(crate::weights::Error::Type { path, tensor: tensor_name, found: tensor.dtype() }.into())
            }
        }
    }

    /// Checks a table of positions that a file carries along: sines, then cosines, of position·10000^(−2j/d). It is not
    /// used; but a file in which it is another one is of another model.
    pub fn check_positions(&self, name: &str, dim: usize) -> Result<()> {
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
        let mut table = table.ok_or(Error::Memory { what: "the table of positions" })?;
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

/// Checks that the queries and keys of a file are in the model's own pairing, where it says in which.
pub(crate) fn check_pairing(weights: &Weights, expected: Pairing) -> Result<()> {
    match recorded_pairing(weights.path()).filter(|&pairing| pairing != expected) {
        None => Ok(()),
        Some(pairing) => Err(Error::File {
            path: weights.path().display().to_string(),
            reason: format!(
                "its queries and keys are in the pairing `{pairing}`; expected {expected}: \
                 use roformer convert --pairing {expected}"
            ),
        }),
    }
}

/// What it means that tensors are missing from a RoFormer's weights, or unexpected.
pub(crate) fn verdict(
    weights: &Weights,
    missing: &[String],
    unexpected: &[String],
    has_plain_norms: bool,
) -> &'static str {
    let parts = [".bias", "LayerNorm", "predictions.transform."];
    let is_v1 = |name: &String| parts.iter().any(|part| name.contains(part));
    let is_head = |name: &String| HEADS.iter().any(|head| name.starts_with(head));
    // One that is missing is a loss; RoFormerV2's layers have none at all. (Its heads have.)
    let has_biases =
        || weights.names().any(|name| name.contains("encoder.layer.") && name.ends_with(".bias"));
    match (missing.is_empty(), unexpected.is_empty()) {
        (false, _) if !has_plain_norms && missing.iter().all(is_v1) && !has_biases() => {
            "the weights have no biases: this is RoFormerV2, and the configuration the first RoFormer's; \
             RoFormerV2's config.json has \"norm_type\": \"rms_norm\" and \"use_bias\": false"
        }
        (true, false) if has_plain_norms && unexpected.iter().all(is_v1) => {
            "the weights have biases or norms: this is the first RoFormer, and the configuration RoFormerV2's"
        }
        (false, true) if missing.iter().all(is_head) => {
            "the weights have no head, or a part of one, where `architectures` in config.json names one; without a head \
             it is [\"RoFormerModel\"]"
        }
        _ => "the weights do not fit the configuration",
    }
}

/// What the names of a head's tensors begin with.
const HEADS: [&str; 4] = ["cls.", "classifier.", "qa_outputs.", "sequence_summary."];

/// Whether a tensor is made from others, or again by whoever loads the file.
pub(crate) fn is_derived(name: &str, is_tied: bool) -> bool {
    name.ends_with("rotary_emb.inv_freq")
        || name.ends_with("position_ids")
        || (is_tied && name.starts_with("cls.predictions.decoder."))
        || (!is_tied && name == "cls.predictions.bias")
}

/// The tensors that a model asks for.
fn expected(config: &RoFormerConfig, kind: HeadKind) -> Vec<Expected> {
    let (hidden, embedding, wide) = (config.hidden_size, config.embedding_size, config.intermediate_size);
    let (vocabulary, labels) = (config.vocab_size, config.num_labels);
    let is_language_model = matches!(kind, HeadKind::MaskedLm | HeadKind::CausalLm);
    let mut all = Vec::new();
    // The embeddings first: of all that is of another size they say most.
    for (table, rows) in [("word", vocabulary), ("token_type", config.type_vocab_size)] {
        all.push((format!("roformer.embeddings.{table}_embeddings.weight"), vec![rows, embedding]));
    }
    // A product from so many inputs to so many outputs.
    let mut product = |name: &str, outputs: usize, inputs: usize, has_bias: bool| {
        all.push((format!("{name}.weight"), vec![outputs, inputs]));
        if has_bias {
            all.push((format!("{name}.bias"), vec![outputs]));
        }
    };
    let mut norms = Vec::new();
    norms.push(("roformer.embeddings.LayerNorm".to_string(), embedding));
    if embedding != hidden {
        product("roformer.embeddings_project", hidden, embedding, true);
    }
    if config.pooler {
        product("roformer.pooler.dense", hidden, hidden, true);
    }
    for layer in 0..config.num_hidden_layers {
        let layer = format!("roformer.encoder.layer.{layer}");
        let cross = config.is_decoder && config.add_cross_attention;
        for attention in if cross { &["attention", "crossattention"][..] } else { &["attention"] } {
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                product(&format!("{layer}.{attention}.{part}"), hidden, hidden, config.use_bias);
            }
            norms.push((format!("{layer}.{attention}.output.LayerNorm"), hidden));
        }
        product(&format!("{layer}.intermediate.dense"), wide, hidden, config.use_bias);
        product(&format!("{layer}.output.dense"), hidden, wide, config.use_bias);
        norms.push((format!("{layer}.output.LayerNorm"), hidden));
    }
    match kind {
        HeadKind::None => {}
        HeadKind::MaskedLm | HeadKind::CausalLm => {
            if !config.rms_norm {
                product("cls.predictions.transform.dense", embedding, hidden, true);
                norms.push(("cls.predictions.transform.LayerNorm".into(), embedding));
            }
            if !config.tie_word_embeddings {
                product("cls.predictions.decoder", vocabulary, embedding, !config.rms_norm);
            }
        }
        HeadKind::SequenceClassification => {
            product("classifier.dense", hidden, hidden, true);
            product("classifier.out_proj", labels, hidden, true);
        }
        HeadKind::TokenClassification => product("classifier", labels, hidden, true),
        HeadKind::QuestionAnswering => product("qa_outputs", 2, hidden, true),
        HeadKind::MultipleChoice => {
            product("classifier", 1, hidden, true);
            if config.summary_use_proj {
                product("sequence_summary.summary", hidden, hidden, true);
            }
        }
    }
    if is_language_model && config.tie_word_embeddings && !config.rms_norm {
        all.push((TIED_BIAS.into(), vec![vocabulary]));
    }
    let parts = norms.into_iter().filter(|_| !config.rms_norm);
    let parts = parts
        .flat_map(|(name, width)| ["weight", "bias"].map(|part| (format!("{name}.{part}"), vec![width])));
    all.extend(parts);
    all
}

/// Parameters made from their names: the same everywhere, with nothing to store. For tests and timings; the rule is in
/// `golden/README.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

/// How the names of norms' weights end.
const NORMS: [&str; 4] = ["LayerNorm.weight", "norm.weight", "norm1.weight", "norm2.weight"];

impl<T: Real> Parameters<T> for Hashed {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        let seed = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let inputs = shape.last().copied().unwrap_or(1);
        let halvings = (usize::BITS - inputs.leading_zeros()).saturating_sub(1) / 2;
        let scale = 0.5f32.powi(halvings as i32);
        for (index, out) in out.iter_mut().enumerate() {
            let mut z = seed ^ (index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            let unit = ((z >> 40) as f32 - 8_388_608.0) / 8_388_608.0;
            let value = match name {
                _ if NORMS.iter().any(|norm| name.ends_with(norm)) => 1.0 + unit / 4.0,
                _ if shape.len() == 1 => unit / 8.0,
                _ if name.contains("embeddings") => unit,
                _ => unit * scale,
            };
            *out = T::of(f64::from(value));
        }
        Ok(())
    }
}
