//! Phi-3's LongRoPE: which way do its factors go? What `docs/conformance.md` shows of candle-transformers.

use candle_core::{DType, Device, Result, Tensor};
use candle_transformers::models::phi3::{Config, RotaryEmbedding};

fn main() -> Result<()> {
    let config: Config = serde_json::from_str(
        r#"{"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 32, "rope_theta": 10000.0,
            "original_max_position_embeddings": 16,
            "rope_scaling": {"type": "longrope", "short_factor": [2, 2, 2, 2], "long_factor": [4, 4, 4, 4]},
            "vocab_size": 1, "hidden_act": "silu", "intermediate_size": 1, "num_hidden_layers": 1, "rms_norm_eps": 1e-5}"#,
    )
    .map_err(candle_core::Error::wrap)?;
    let rope = RotaryEmbedding::new(DType::F32, &config, &Device::Cpu)?;
    let x = Tensor::eye(8, DType::F32, &Device::Cpu)?.narrow(0, 0, 1)?.reshape((1, 1, 1, 8))?;
    let y = rope.apply_rotary_emb_qkv(&x, &x, 1)?.0.flatten_all()?.to_vec1::<f32>()?;
    // Expected 0.5, the angle divided by its factor, and 1.118, the attention factor √(1 + ln 2 / ln 16).
    println!("{:.3} {:.3}", y[4].atan2(y[0]), y[4].hypot(y[0]));
    Ok(())
}
