//! Where a model's parameters come from: a file, or an integer hash.

use super::config::RoFormerConfig;
use super::heads::HeadKind;
use crate::error::{Error, Result};
use crate::ops::Real;
use crate::weights::{Target, Weights};

/// A source of tensors by name.
pub trait Parameters<T>: Sync {
    /// Reads a tensor of this shape into `out`, row by row.
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()>;
}

impl<T: Real + Target> Parameters<T> for Weights {
    fn read(&self, name: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        Ok(Weights::read(self, name, shape, out)?)
    }
}

/// Checks that a file has what a model asks for, and nothing that nothing asks for.
pub(super) fn check(weights: &Weights, config: &RoFormerConfig, kind: HeadKind) -> Result<()> {
    let expected = expected_names(config, kind);
    let missing: Vec<String> = expected.iter().filter(|name| weights.get(name).is_none()).cloned().collect();
    let is_derived = |name: &str| {
        // Position tables and what older versions saved beside them: made again here.
        name.ends_with("embed_positions.weight")
            || name.ends_with("rotary_emb.inv_freq")
            || name.ends_with("position_ids")
            || name.starts_with("cls.predictions.decoder.")
            || (name == "cls.predictions.bias" && !config.tie_word_embeddings)
    };
    let unexpected: Vec<String> = weights
        .names()
        .filter(|name| !expected.iter().any(|e| e == name) && !is_derived(name))
        .map(str::to_string)
        .collect();
    if missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    let verdict = if !missing.is_empty()
        && missing.iter().all(|name| name.ends_with("bias") || name.contains("LayerNorm"))
    {
        "the weights have no biases or norms: this is RoFormerV2, which is another model"
    } else if unexpected.iter().any(|name| name.starts_with("roformer.pooler")) {
        "the weights have a pooler: this is RoFormer-Sim, which is not supported yet"
    } else {
        "the weights do not fit the configuration"
    };
    Err(Error::Tensors { missing, unexpected, verdict: verdict.to_string() })
}

/// The names of the tensors that a model asks for.
fn expected_names(config: &RoFormerConfig, kind: HeadKind) -> Vec<String> {
    let mut names = Vec::new();
    let mut both = |name: String| names.extend([format!("{name}.weight"), format!("{name}.bias")]);
    both("roformer.embeddings.LayerNorm".into());
    if config.embedding_size != config.hidden_size {
        both("roformer.embeddings_project".into());
    }
    for layer in 0..config.num_hidden_layers {
        let cross = config.is_decoder && config.add_cross_attention;
        for attention in if cross { &["attention", "crossattention"][..] } else { &["attention"] } {
            for part in ["self.query", "self.key", "self.value", "output.dense", "output.LayerNorm"] {
                both(format!("roformer.encoder.layer.{layer}.{attention}.{part}"));
            }
        }
        for part in ["intermediate.dense", "output.dense", "output.LayerNorm"] {
            both(format!("roformer.encoder.layer.{layer}.{part}"));
        }
    }
    match kind {
        HeadKind::None => {}
        HeadKind::MaskedLm | HeadKind::CausalLm => {
            both("cls.predictions.transform.dense".into());
            both("cls.predictions.transform.LayerNorm".into());
            if !config.tie_word_embeddings {
                both("cls.predictions.decoder".into());
            }
        }
        HeadKind::SequenceClassification => {
            both("classifier.dense".into());
            both("classifier.out_proj".into());
        }
        HeadKind::TokenClassification => both("classifier".into()),
        HeadKind::QuestionAnswering => both("qa_outputs".into()),
        HeadKind::MultipleChoice => {
            both("classifier".into());
            if config.summary_use_proj {
                both("sequence_summary.summary".into());
            }
        }
    }
    for table in ["word", "token_type"] {
        names.push(format!("roformer.embeddings.{table}_embeddings.weight"));
    }
    if matches!(kind, HeadKind::MaskedLm | HeadKind::CausalLm) && config.tie_word_embeddings {
        names.push("cls.predictions.bias".into());
    }
    names
}

/// Parameters made from their names: the same everywhere, with nothing to store. For tests and timings; the rule is in
/// `golden/README.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hashed;

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
                _ if name.ends_with("LayerNorm.weight") => 1.0 + unit / 4.0,
                _ if shape.len() == 1 => unit / 8.0,
                _ if name.contains("embeddings") => unit,
                _ => unit * scale,
            };
            *out = T::of(f64::from(value));
        }
        Ok(())
    }
}
