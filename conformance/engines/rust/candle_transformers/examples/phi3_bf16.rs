//! Phi-3 in bfloat16: are positions 256 and 257 told apart? What `docs/conformance.md` shows of candle-transformers.

use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::phi3::{Config, RotaryEmbedding};

fn main() -> Result<()> {
    let config: Config = serde_json::from_str(
        r#"{"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 512, "rope_theta": 10000.0,
            "vocab_size": 1, "hidden_act": "silu", "intermediate_size": 1, "num_hidden_layers": 1, "rms_norm_eps": 1e-5}"#,
    )
    .map_err(candle_core::Error::wrap)?;
    let rope = RotaryEmbedding::new(DType::BF16, &config, &Device::Cpu)?; // as its model does with weights in bfloat16
    let x = Tensor::ones((1, 1, 1, 8), DType::BF16, &Device::Cpu)?;
    let at = |position| rope.apply_rotary_emb_qkv(&x, &x, position)?.0.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    println!("{}", at(256)? == at(257)?); // expected false: the positions differ
    Ok(())
}
