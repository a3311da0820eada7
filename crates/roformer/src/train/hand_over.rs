//! The network of some settings, and the files by which others load it.

use super::settings::{FormName, Settings};
use crate::encoding::{Encoding, Rotary};
use crate::error::{Error, Result};
use crate::network::{Form, LlamaForm, Mixing, Network, RoFormerForm, Task};
use rope::{Pairing, Rope};
use serde_json::{Map, Value, json};

/// Positions that transformers' RoFormer makes a table for; its own default.
const ROFORMER_POSITIONS: usize = 1536;

/// Whether models with this encoding can be loaded: by transformers, and by the commands that run models.
pub fn is_loadable(encoding: &str) -> bool {
    encoding == "rotary"
}

/// The network of some settings.
pub(super) fn network(settings: &Settings, vocabulary: usize) -> Result<Network> {
    let (width, heads) = (settings.width, settings.heads);
    let mut encoding = Encoding::all()
        .into_iter()
        .find(|encoding| encoding.name() == settings.encoding)
        .ok_or_else(|| Error::input("encoding", &settings.encoding, "the name of a position encoding"))?;
    let (form, wide, epsilon) = match settings.form {
        FormName::RoFormer => {
            let form = Form::RoFormer(RoFormerForm::default());
            (form, 4 * width, 1e-12)
        }
        FormName::Llama => {
            if let Encoding::Rotary(rotary) = encoding {
                encoding = Encoding::Rotary(Rotary { pairing: Pairing::Half, ..rotary });
            }
            // Three matrices of 8/3 widths have the size of two of four.
            let wide = (8 * width).div_ceil(3).next_multiple_of(32);
            (Form::Llama(LlamaForm::default()), wide, 1e-6)
        }
    };
    Ok(Network {
        form,
        vocabulary,
        width,
        layers: settings.layers,
        heads,
        key_heads: heads,
        head_dim: width / heads,
        wide,
        epsilon,
        is_causal: true,
        encoding,
        mixing: Mixing::Softmax,
        dropout: settings.dropout,
        task: Task::Language,
    })
}

/// Positions that transformers makes a table for.
fn positions(settings: &Settings) -> usize {
    settings.block.max(ROFORMER_POSITIONS)
}

/// A tensor that is not trained: its name, shape and numbers.
pub(super) type Fixed = (&'static str, [usize; 2], Vec<f32>);

/// The table that transformers' RoFormer keeps with its weights, a row a position: sines, then cosines. It makes one itself
/// where there is none, but says so in a way that sounds like a loss.
pub(super) fn fixed(network: &Network, settings: &Settings) -> Result<Option<Fixed>> {
    if settings.form != FormName::RoFormer || !is_loadable(&settings.encoding) {
        return Ok(None);
    }
    let (rows, dim) = (positions(settings), network.head_dim);
    let table = Rope::builder(dim).build()?.table::<f32>(0..rows as i64, None)?;
    let (sines, cosines) = (table.sin().chunks(dim / 2), table.cos().chunks(dim / 2));
    let numbers = sines.zip(cosines).flat_map(|(sines, cosines)| sines.iter().chain(cosines)).copied();
    Ok(Some(("roformer.encoder.embed_positions.weight", [rows, dim], numbers.collect())))
}

/// `config.json` of a network.
pub(super) fn config(network: &Network, settings: &Settings) -> Value {
    let own = match settings.form {
        FormName::RoFormer => json!({
            "model_type": "roformer",
            "architectures": ["RoFormerForCausalLM"],
            "is_decoder": true,
            "embedding_size": network.width,
            "hidden_act": "gelu",
            "hidden_dropout_prob": network.dropout,
            "attention_probs_dropout_prob": network.dropout,
            "layer_norm_eps": network.epsilon,
            "type_vocab_size": 2,
            "rotary_value": false,
            "max_position_embeddings": positions(settings),
        }),
        FormName::Llama => json!({
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "hidden_act": "silu",
            "rms_norm_eps": network.epsilon,
            "num_key_value_heads": network.key_heads,
            "head_dim": network.head_dim,
            "rope_theta": 10_000.0,
            "attention_bias": false,
            "mlp_bias": false,
            "max_position_embeddings": settings.block,
            // Its class takes ids 1 and 2 where nothing is said.
            "bos_token_id": 2,
            "eos_token_id": 3,
        }),
    };
    let shared = json!({
        "vocab_size": network.vocabulary,
        "hidden_size": network.width,
        "num_hidden_layers": network.layers,
        "num_attention_heads": network.heads,
        "intermediate_size": network.wide,
        "initializer_range": 0.02,
        "tie_word_embeddings": true,
        "pad_token_id": 0,
    });
    let parts = [own, shared].into_iter().filter_map(|part| match part {
        Value::Object(part) => Some(part),
        _ => None,
    });
    let mut all: Map<String, Value> = parts.flatten().collect();
    if !is_loadable(&settings.encoding) {
        // Loaded as the type that it resembles it would run, rotated, and be wrong. No program knows this type.
        all.insert("model_type".into(), json!(format!("{}-{}", settings.form.name(), settings.encoding)));
        all.insert("position_encoding".into(), json!(settings.encoding));
    }
    Value::Object(all)
}
