//! The names of a decoder's tensors, and the check that a file has them.

use super::super::heads::HeadKind;
use super::super::parameters::{Expected, Named, check_pairing};
use super::config::DecoderConfig;
use crate::error::Result;
use crate::weights::Weights;
use rope::Pairing;

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

/// Checks that a file has what a model asks for, in its shapes and the model's own pairing, and nothing that nothing asks
/// for.
pub(crate) fn check(config: &DecoderConfig, weights: &Weights) -> Result<()> {
    check_pairing(weights, Pairing::Half)?;
    named(weights).check_all(
        &expected(config, weights.len()),
        |name| Ok(is_derived(name, config.tie_word_embeddings)),
        |missing, unexpected| match unexpected.is_empty() && missing == [OUTPUT] {
            true => {
                "the weights have no output of their own: where it is the word embeddings, config.json has \
                 \"tie_word_embeddings\": true"
            }
            false => "the weights do not fit the configuration",
        },
    )
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

/// The tensors that a model asks for. Layers that cannot all be among so many `tensors` are not listed.
fn expected(config: &DecoderConfig, tensors: usize) -> Vec<Expected> {
    let (hidden, wide, labels) = (config.hidden_size, config.intermediate_size, config.num_labels);
    let (query, key, dim) = (config.query_width(), config.key_width(), config.head_dim);
    let words = vec![config.vocab_size, hidden];
    let mut all = vec![("model.embed_tokens.weight".to_string(), words.clone())];
    all.push(("model.norm.weight".into(), vec![hidden]));
    match config.head() {
        HeadKind::None => {}
        HeadKind::SequenceClassification => all.push((SCORE.into(), vec![labels, hidden])),
        HeadKind::TokenClassification => {
            all.extend([(SCORE.into(), vec![labels, hidden]), (SCORE_BIAS.into(), vec![labels])]);
        }
        _ if config.tie_word_embeddings => {}
        _ => all.push((OUTPUT.into(), words)),
    }
    for layer in 0..config.num_hidden_layers.min(tensors + 1) {
        let mut add = |part: &str, shape: Vec<usize>, has_bias: bool| {
            if has_bias {
                all.push((format!("model.layers.{layer}.{part}.bias"), vec![shape[0]]));
            }
            all.push((format!("model.layers.{layer}.{part}.weight"), shape));
        };
        for (part, width) in [("q_proj", query), ("k_proj", key), ("v_proj", key)] {
            add(&format!("self_attn.{part}"), vec![width, hidden], config.attention_bias);
        }
        add("self_attn.o_proj", vec![hidden, query], config.output_bias);
        if config.head_norms {
            add("self_attn.q_norm", vec![dim], false);
            add("self_attn.k_norm", vec![dim], false);
        }
        add("mlp.gate_proj", vec![wide, hidden], config.mlp_bias);
        add("mlp.up_proj", vec![wide, hidden], config.mlp_bias);
        add("mlp.down_proj", vec![hidden, wide], config.mlp_bias);
        add("input_layernorm", vec![hidden], false);
        add("post_attention_layernorm", vec![hidden], false);
    }
    all
}
