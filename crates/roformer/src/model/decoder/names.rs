//! The names of a decoder's tensors, and the check that a file has them.

use super::super::heads::HeadKind;
use super::super::parameters::{Named, check_pairing};
use super::config::DecoderConfig;
use crate::error::{Error, Result};
use crate::weights::Weights;
use rope::Pairing;
use std::collections::HashSet;

/// The tensors of a file under the names that a model with a head has (`model.…`).
pub(crate) fn named(weights: &Weights) -> Named<'_> {
    Named::with(weights, "model.", "embed_tokens.weight")
}

/// What the tensors say that `config.json` does not.
pub(crate) fn complete(config: &mut DecoderConfig, weights: &Weights) {
    let source = named(weights);
    if config.model_type == "minimind" {
        config.head_norms = weights.get(source.own("model.layers.0.self_attn.q_norm.weight")).is_some();
    }
    let has = |name: &str| weights.get(name).is_some();
    config.architecture.get_or_insert(match () {
        () if source.is_bare() => HeadKind::None,
        () if has(SCORE_BIAS) => HeadKind::TokenClassification,
        () if has(SCORE) => HeadKind::SequenceClassification,
        () => HeadKind::CausalLm,
    });
}

/// Checks that a file has what a model asks for, in the model's own pairing, and nothing that nothing asks for.
pub(super) fn check(config: &DecoderConfig, weights: &Weights) -> Result<()> {
    check_pairing(weights, Pairing::Half)?;
    let source = named(weights);
    let expected: HashSet<String> =
        expected_names(config, weights.len()).iter().map(|name| source.own(name).to_string()).collect();
    let mut missing: Vec<String> =
        expected.iter().filter(|name| weights.get(name).is_none()).cloned().collect();
    missing.sort();
    let unexpected: Vec<String> = weights
        .names()
        .filter(|&name| !expected.contains(name) && !is_derived(name, config.tie_word_embeddings))
        .map(str::to_string)
        .collect();
    if missing.is_empty() && unexpected.is_empty() {
        return Ok(());
    }
    let verdict = match unexpected.is_empty() && missing == [OUTPUT] {
        true => {
            "the weights have no output of their own: where it is the word embeddings, config.json has \
             \"tie_word_embeddings\": true"
        }
        false => "the weights do not fit the configuration",
    };
    Err(Error::Tensors { missing, unexpected, verdict: verdict.into() })
}

/// The output of a language model that is not tied.
pub(super) const OUTPUT: &str = "lm_head.weight";
/// The output of a classifier, of texts or of tokens; that of tokens has a bias.
pub(super) const SCORE: &str = "score.weight";
pub(super) const SCORE_BIAS: &str = "score.bias";

/// Whether a tensor is made from others, or again by whoever loads the file.
pub(crate) fn is_derived(name: &str, is_tied: bool) -> bool {
    name.ends_with("rotary_emb.inv_freq") || (is_tied && name == OUTPUT)
}

/// The names of the tensors that a model asks for. Layers that cannot all be among so many `tensors` are not listed.
fn expected_names(config: &DecoderConfig, tensors: usize) -> Vec<String> {
    let mut names = vec!["model.embed_tokens.weight".to_string(), "model.norm.weight".into()];
    match config.head() {
        HeadKind::None => {}
        HeadKind::SequenceClassification => names.push(SCORE.into()),
        HeadKind::TokenClassification => names.extend([SCORE.into(), SCORE_BIAS.into()]),
        _ if config.tie_word_embeddings => {}
        _ => names.push(OUTPUT.into()),
    }
    for layer in 0..config.num_hidden_layers.min(tensors + 1) {
        let mut add = |part: &str, has_bias: bool| {
            names.push(format!("model.layers.{layer}.{part}.weight"));
            if has_bias {
                names.push(format!("model.layers.{layer}.{part}.bias"));
            }
        };
        for part in ["q_proj", "k_proj", "v_proj"] {
            add(&format!("self_attn.{part}"), config.attention_bias);
        }
        add("self_attn.o_proj", config.output_bias);
        if config.head_norms {
            add("self_attn.q_norm", false);
            add("self_attn.k_norm", false);
        }
        for part in ["gate_proj", "up_proj", "down_proj"] {
            add(&format!("mlp.{part}"), config.mlp_bias);
        }
        add("input_layernorm", false);
        add("post_attention_layernorm", false);
    }
    names
}
