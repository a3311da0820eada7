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
        if self.bare { name.strip_prefix(self.prefix).unwrap_or(name) } else { name }
    }
}

impl<T: Real + Target> Parameters<T> for Named<'_> {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        Ok(self.weights.read(self.own(name), shape, out)?)
    }
    fn check(&self, name: &str, shape: &[usize]) -> Result<()> {
        match self.weights.get(self.own(name)) {
            Some(tensor) if tensor.shape() != shape => Err(Error::Weights(crate::weights::Error::Shape {
                path: self.weights.path().into(),
                tensor: self.own(name).into(),
                found: tensor.shape().into(),
                expected: shape.into(),
            })),
            _ => Ok(()),
        }
    }
}

impl Named<'_> {
    /// Checks that the file has what a model asks for, and nothing that nothing asks for.
    pub fn check(&self, config: &RoFormerConfig, kind: HeadKind) -> Result<()> {
        let weights = self.weights;
        // Layers that cannot all be there are not listed.
        let config = &RoFormerConfig {
            num_hidden_layers: config.num_hidden_layers.min(weights.len() + 1),
            pooler: self.has_pooler(),
            ..config.clone()
        };
        let expected: HashSet<String> =
            expected_names(config, kind).iter().map(|name| self.own(name).to_string()).collect();
        let mut missing: Vec<String> =
            expected.iter().filter(|name| weights.get(name).is_none()).cloned().collect();
        missing.sort();
        let mut unexpected = Vec::new();
        for name in weights.names().filter(|&name| !expected.contains(name)) {
            if name.ends_with("embed_positions.weight") {
                self.check_positions(name, config.head_dim())?;
            } else if !is_derived(name, config.tie_word_embeddings) {
                unexpected.push(name.to_string());
            }
        }
        if missing.is_empty() && unexpected.is_empty() {
            return Ok(());
        }
        let verdict = verdict(&missing, &unexpected, config.rms_norm).to_string();
        Err(Error::Tensors { missing, unexpected, verdict })
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
pub(crate) fn verdict(missing: &[String], unexpected: &[String], has_plain_norms: bool) -> &'static str {
    let parts = [".bias", "LayerNorm", "predictions.transform."];
    let is_v1 = |name: &String| parts.iter().any(|part| name.contains(part));
    if !missing.is_empty() && missing.iter().all(is_v1) {
        "the weights have no biases or norms: this is RoFormerV2, and the configuration the first RoFormer's; \
         RoFormerV2's config.json has \"norm_type\": \"rms_norm\" and \"use_bias\": false"
    } else if has_plain_norms && missing.is_empty() && unexpected.iter().all(is_v1) {
        "the weights have biases or norms: this is the first RoFormer, and the configuration RoFormerV2's"
    } else {
        "the weights do not fit the configuration"
    }
}

/// Whether a tensor is made from others, or again by whoever loads the file.
pub(crate) fn is_derived(name: &str, is_tied: bool) -> bool {
    name.ends_with("rotary_emb.inv_freq")
        || name.ends_with("position_ids")
        || (is_tied && name.starts_with("cls.predictions.decoder."))
        || (!is_tied && name == "cls.predictions.bias")
}

/// The names of the tensors that a model asks for.
fn expected_names(config: &RoFormerConfig, kind: HeadKind) -> Vec<String> {
    let mut names = Vec::new();
    let mut add = |name: String, has_weight: bool, has_bias: bool| {
        let parts = [("weight", has_weight), ("bias", has_bias)];
        names.extend(parts.iter().filter(|part| part.1).map(|(part, _)| format!("{name}.{part}")));
    };
    let has_norm = !config.rms_norm;
    add("roformer.embeddings.LayerNorm".into(), has_norm, has_norm);
    if config.embedding_size != config.hidden_size {
        add("roformer.embeddings_project".into(), true, true);
    }
    if config.pooler {
        add("roformer.pooler.dense".into(), true, true);
    }
    for layer in 0..config.num_hidden_layers {
        let cross = config.is_decoder && config.add_cross_attention;
        for attention in if cross { &["attention", "crossattention"][..] } else { &["attention"] } {
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                add(format!("roformer.encoder.layer.{layer}.{attention}.{part}"), true, config.use_bias);
            }
            add(format!("roformer.encoder.layer.{layer}.{attention}.output.LayerNorm"), has_norm, has_norm);
        }
        for part in ["intermediate.dense", "output.dense"] {
            add(format!("roformer.encoder.layer.{layer}.{part}"), true, config.use_bias);
        }
        add(format!("roformer.encoder.layer.{layer}.output.LayerNorm"), has_norm, has_norm);
    }
    match kind {
        HeadKind::None => {}
        HeadKind::MaskedLm | HeadKind::CausalLm => {
            if has_norm {
                add("cls.predictions.transform.dense".into(), true, true);
                add("cls.predictions.transform.LayerNorm".into(), true, true);
            }
            if !config.tie_word_embeddings {
                add("cls.predictions.decoder".into(), true, has_norm);
            }
        }
        HeadKind::SequenceClassification => {
            add("classifier.dense".into(), true, true);
            add("classifier.out_proj".into(), true, true);
        }
        HeadKind::TokenClassification => add("classifier".into(), true, true),
        HeadKind::QuestionAnswering => add("qa_outputs".into(), true, true),
        HeadKind::MultipleChoice => {
            add("classifier".into(), true, true);
            if config.summary_use_proj {
                add("sequence_summary.summary".into(), true, true);
            }
        }
    }
    for table in ["word", "token_type"] {
        names.push(format!("roformer.embeddings.{table}_embeddings.weight"));
    }
    let is_language_model = matches!(kind, HeadKind::MaskedLm | HeadKind::CausalLm);
    if is_language_model && config.tie_word_embeddings && has_norm {
        names.push("cls.predictions.bias".into());
    }
    names
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
