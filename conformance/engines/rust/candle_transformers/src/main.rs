//! candle-transformers on the CPU: the rotary modules of its models that a program can call, each made as its model makes it, in the
//! type of the model's weights. They take a first position and tokens in a row, so that they are asked token by token.
//!
//! - `phi3::RotaryEmbedding`: Phi-3's configurations, and plain ones;
//! - `deepseek2::DeepSeekV2RotaryEmbedding`: it leaves neighbours where they are, which the scores do not notice as q and k agree; they
//!   are brought into halves here, as the kit has them;
//! - `mimi::transformer::RotaryEmbedding`: a plain one whose width is not the whole head's.

use ask_kit::{Array, Case, Error, Kind, run};
use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::{deepseek2, mimi, phi3};
use serde_json::{Value, json};

/// A table of more rows is not made.
const MOST: usize = 200_000;

fn turn(case: &Case, kind: Kind, x: &Array) -> std::result::Result<Option<Array>, Error> {
    let Some(positions) = case.row() else { return Ok(None) };
    if case.length() > MOST {
        return Ok(None);
    }
    let dtype = match kind {
        Kind::F32 => DType::F32,
        Kind::F16 => DType::F16,
        Kind::Bf16 => DType::BF16,
    };
    let input = Tensor::from_slice(&x.values, &x.shape, &Device::Cpu)?.to_dtype(dtype)?;
    let Some(turned) = rotation(case, dtype)?.map(|rotate| by_token(&input, positions, rotate)).transpose()? else {
        return Ok(None);
    };
    let values = turned.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(Some(Array { shape: x.shape, values }))
}

/// Turns `[1, heads, 1, head_dim]` at a position.
type Rotation = Box<dyn Fn(&Tensor, usize) -> Result<Tensor>>;

/// The module for a configuration.
fn rotation(case: &Case, dtype: DType) -> std::result::Result<Option<Rotation>, Error> {
    let (settings, cpu) = (&case.rope, &Device::Cpu);
    let is_whole = settings.rotary_dim == settings.head_dim;
    match (settings.rule.as_str(), settings.pairing.as_str()) {
        ("default" | "longrope", "half") if case.config["model_type"] == "phi3" || case.name == "default-half" => {
            // What the module does not read has to be there.
            let mut config = json!({
                "vocab_size": 1, "hidden_act": "silu", "intermediate_size": 1, "num_hidden_layers": 1,
                "num_key_value_heads": 1, "rms_norm_eps": 1e-5,
            });
            for (name, value) in &case.config {
                config[name] = value.clone();
            }
            let config: phi3::Config = serde_json::from_value(config)?;
            let module = phi3::RotaryEmbedding::new(dtype, &config, cpu)?;
            Ok(Some(Box::new(move |x, at| Ok(module.apply_rotary_emb_qkv(x, x, at)?.0))))
        }
        ("default" | "yarn", "interleaved_to_half") if is_whole => {
            let scaling = match case.config.get("rope_scaling") {
                None => None,
                // Its type has no default for what the file may leave out.
                Some(scaling) => Some(serde_json::from_value::<deepseek2::DeepSeekV2RopeScaling>(scaling.clone())?),
            };
            let config = deepseek2::DeepSeekV2RopeConfig {
                rope_scaling: scaling,
                max_position_embeddings: case.config["max_position_embeddings"].as_u64().unwrap_or(0) as usize,
                rope_theta: case.base() as f32,
                qk_rope_head_dim: settings.rotary_dim,
            };
            let module = deepseek2::DeepSeekV2RotaryEmbedding::new(&config, dtype, cpu)?;
            Ok(Some(Box::new(move |x, at| to_halves(&module.forward(x, x, at)?.0))))
        }
        ("default", "half") if is_whole && case.config.get("rope_parameters").is_none_or(Value::is_null) => {
            let module =
                mimi::transformer::RotaryEmbedding::new(settings.head_dim, case.length(), case.base() as f32, cpu)?;
            Ok(Some(Box::new(move |x, at| module.apply_rotary_emb(x, at))))
        }
        _ => Ok(None),
    }
}

fn by_token(x: &Tensor, positions: &[u64], rotate: Rotation) -> Result<Tensor> {
    let tokens = positions.iter().enumerate();
    let turned: Vec<Tensor> = tokens
        .map(|(token, &at)| rotate(&x.narrow(2, token, 1)?.contiguous()?, at as usize))
        .collect::<Result<_>>()?;
    Tensor::cat(&turned, 2)
}

/// Features 0, 2, 4, … and then 1, 3, 5, ….
fn to_halves(x: &Tensor) -> Result<Tensor> {
    let (batch, heads, tokens, dim) = x.dims4()?;
    let pairs = x.reshape((batch, heads, tokens, dim / 2, 2))?.transpose(3, 4)?.contiguous()?;
    pairs.reshape((batch, heads, tokens, dim))
}

fn main() -> std::result::Result<(), Error> {
    run(&["candle-transformers"], &[Kind::F32, Kind::F16, Kind::Bf16], turn)
}
