//! Three mistakes that users of candle have met, shown with candle's own code or its formula, and gone with ours.

mod common;

use candle_core::{D, DType, Result, Tensor, Var};
use common::{CPU, Random, largest, numbers};
use rope::{Pairing, Rope};
use rope_candle::{Positions, RotaryEmbedding};

/// huggingface/candle#3568: the fused functions have no gradient, and nothing says so.
#[test]
fn gradients_are_not_cut() -> Result<()> {
    let x = Var::from_tensor(&Random(1).tensor((1, 2, 3, 4), DType::F32)?)?;
    let embedding = RotaryEmbedding::new(&Rope::builder(4).build().expect("a rope"), 8)?;
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    let cut = candle_nn::rotary_emb::rope(&x, &cos, &sin)?;
    assert!(
        cut.sqr()?.sum_all()?.backward()?.get(&x).is_none(),
        "candle has mended this: say so in the README"
    );
    for y in [rope_candle::rope(&x, &cos, &sin)?, embedding.at(Positions::From(0))?.rotate(&x)?] {
        // |y|² = |x|², so its gradient is 2x.
        let gradients = y.sqr()?.sum_all()?.backward()?;
        let gradient = numbers(gradients.get(&x).expect("a gradient"))?;
        assert!(largest(&gradient, &numbers(&(&*x * 2.0)?)?) < 1e-6);
    }
    Ok(())
}

/// huggingface/candle#3520: positions and frequencies in bf16, so that angles at long range are noise.
#[test]
fn tables_are_not_made_in_16_bits() -> Result<()> {
    let (base, dim, length) = (1e6f32, 128, 16384);
    // The formula of candle-transformers' qwen2.rs with a model in bf16.
    let frequencies: Vec<f32> = (0..dim).step_by(2).map(|i| 1.0 / base.powf(i as f32 / dim as f32)).collect();
    let frequencies = Tensor::from_vec(frequencies, (1, dim / 2), &CPU)?.to_dtype(DType::BF16)?;
    let positions = Tensor::arange(0u32, length as u32, &CPU)?.to_dtype(DType::BF16)?.reshape((length, 1))?;
    let noise = positions.broadcast_mul(&frequencies)?.cos()?;

    let config = br#"{"model_type": "qwen2", "head_dim": 128, "rope_theta": 1000000.0}"#;
    let embedding = RotaryEmbedding::from_config(config, length)?;
    let (cos, _) = embedding.cos_sin(&CPU)?;
    let theta = embedding.rope().frequencies(None);
    let exact: Vec<f64> = (0..length)
        .flat_map(|p| theta.inv_freq().iter().map(move |theta| (p as f64 * theta).cos()))
        .collect();
    assert!(largest(&numbers(&noise)?, &exact) > 1.9);
    assert!(largest(&numbers(&cos)?, &exact) < 2f64.powi(-24));

    // The cosine of the example in that report: position 15962, the fastest pair.
    let x = Tensor::zeros((1, 1, 1, dim), DType::BF16, &CPU)?;
    let one = Tensor::ones((1, 1, 1, 1), DType::BF16, &CPU)?;
    let x = x.slice_assign(&[0..1, 0..1, 0..1, 0..1], &one)?;
    let y = numbers(&embedding.at(Positions::From(15962))?.rotate(&x)?)?;
    assert!((y[0] - 15962f64.cos()).abs() < 2f64.powi(-8));
    Ok(())
}

/// huggingface/candle#3949: a model of halves (Mimi) was rotated by neighbours. A `config.json` says which it is.
#[test]
fn pairing_follows_from_the_model() -> Result<()> {
    let config = br#"{"model_type": "mimi", "hidden_size": 512, "num_attention_heads": 8, "head_dim": 64, "rope_theta": 10000.0}"#;
    let embedding = RotaryEmbedding::from_config(config, 32)?;
    assert_eq!(embedding.rope().pairing(), Pairing::Half);
    let x = Random(3).tensor((1, 8, 32, 64), DType::F32)?;
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    let y = embedding.at(Positions::From(0))?.rotate(&x)?;
    let right = candle_nn::rotary_emb::rope(&x, &cos, &sin)?;
    let wrong = candle_nn::rotary_emb::rope_i(&x, &cos, &sin)?;
    assert_eq!(numbers(&y)?, numbers(&right)?);
    assert!(largest(&numbers(&y)?, &numbers(&wrong)?) > 1.0);
    // And a model of neighbours is rotated by neighbours.
    let config = br#"{"model_type": "gptj", "n_embd": 64, "n_head": 1, "rotary_dim": 64}"#;
    let embedding = RotaryEmbedding::from_config(config, 32)?;
    assert_eq!(embedding.rope().pairing(), Pairing::Interleaved);
    let (cos, sin) = embedding.cos_sin(&CPU)?;
    let x = x.narrow(1, 0, 1)?.contiguous()?;
    let y = embedding.at(Positions::From(0))?.rotate(&x)?;
    assert_eq!(numbers(&y)?, numbers(&candle_nn::rotary_emb::rope_i(&x, &cos, &sin)?)?);
    assert_eq!(x.dim(D::Minus1)?, 64);
    Ok(())
}
