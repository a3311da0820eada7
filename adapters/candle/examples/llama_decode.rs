//! Decoding with a KV cache in candle: the rotary embedding of a `config.json`, a prompt at once and then a token at a time, in bf16.
//!
//! `cargo run --release -p rope-candle --example llama_decode [config.json]`

use candle_core::{D, DType, Device, Error, Result, Tensor};
use rope_candle::{Positions, RotaryEmbedding, Rows};

const HEADS: usize = 32;
const KEY_HEADS: usize = 8;
const PROMPT: usize = 100;
const CONTEXT: usize = 116;

/// Stands for the output of a projection: `[batch, length, heads · head_dim]`, seen as `[batch, heads, length, head_dim]`.
fn projection(tokens: std::ops::Range<usize>, heads: usize, head_dim: usize, seed: f32) -> Result<Tensor> {
    let first = tokens.start * heads * head_dim;
    let numbers: Vec<f32> =
        (first..tokens.end * heads * head_dim).map(|i| (seed + i as f32 * 0.731).sin()).collect();
    let x = Tensor::from_vec(numbers, (1, tokens.len(), heads, head_dim), &Device::Cpu)?;
    x.to_dtype(DType::BF16)?.transpose(1, 2)
}

/// One layer's attention: queries over all keys and values so far.
struct Layer {
    keys: Tensor,
    values: Tensor,
}

impl Layer {
    fn attend(&mut self, tokens: std::ops::Range<usize>, rows: &Rows, head_dim: usize) -> Result<Tensor> {
        // No `contiguous` before the rotation: it reads any layout and writes the one that attention wants.
        let q = rows.rotate(&projection(tokens.clone(), HEADS, head_dim, 0.1)?)?;
        let k = rows.rotate(&projection(tokens.clone(), KEY_HEADS, head_dim, 0.2)?)?;
        self.keys = Tensor::cat(&[&self.keys, &k], 2)?;
        self.values =
            Tensor::cat(&[&self.values, &projection(tokens.clone(), KEY_HEADS, head_dim, 0.3)?], 2)?;
        // Heads that share keys and values lie beside each other.
        let (length, all) = (tokens.len(), tokens.end);
        let q = q.reshape((KEY_HEADS, HEADS / KEY_HEADS * length, head_dim))?.to_dtype(DType::F32)?;
        let (k, v) = (self.keys.get(0)?.to_dtype(DType::F32)?, self.values.get(0)?.to_dtype(DType::F32)?);
        let scores = (q.matmul(&k.t()?)? / (head_dim as f64).sqrt())?;
        let scores = scores.reshape((HEADS, length, all))?;
        let later = |at: usize| at % all > tokens.start + at / all;
        let mask: Vec<f32> =
            (0..length * all).map(|at| if later(at) { f32::NEG_INFINITY } else { 0.0 }).collect();
        let scores = scores.broadcast_add(&Tensor::from_vec(mask, (length, all), &Device::Cpu)?)?;
        let weights = candle_nn::ops::softmax(&scores, D::Minus1)?;
        let y = weights.reshape((KEY_HEADS, HEADS / KEY_HEADS * length, all))?.matmul(&v)?;
        y.reshape((HEADS, length, head_dim))
    }
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/llama-3.1-8b.json").into());
    let config = std::fs::read(&path).map_err(|error| Error::msg(format!("{path}: {error}")))?;
    let rope = RotaryEmbedding::from_config(&config, CONTEXT)?;
    let head_dim = rope.rope().head_dim();
    println!(
        "{head_dim} features a head, {} of them turn, {}",
        rope.rope().rotary_dim(),
        rope.rope().schedule()
    );

    let empty = Tensor::zeros((1, KEY_HEADS, 0, head_dim), DType::BF16, &Device::Cpu)?;
    let layer = || Layer { keys: empty.clone(), values: empty.clone() };
    let mut cached = layer();
    // Rows are made once for a forward pass, and serve all layers.
    let mut outputs = vec![cached.attend(0..PROMPT, &rope.at(Positions::From(0))?, head_dim)?];
    for token in PROMPT..CONTEXT {
        outputs.push(cached.attend(token..token + 1, &rope.at(Positions::From(token))?, head_dim)?);
    }
    println!("prompt of {PROMPT} tokens at once, then {} one by one", CONTEXT - PROMPT);

    // The whole sequence at once gives the same keys, bit for bit, and the same outputs.
    let mut whole = layer();
    let expected = whole.attend(0..CONTEXT, &rope.at(Positions::From(0))?, head_dim)?;
    let numbers = |x: &Tensor| x.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>();
    assert_eq!(numbers(&cached.keys)?, numbers(&whole.keys)?);
    let difference =
        (Tensor::cat(&outputs, 1)? - expected)?.abs()?.flatten_all()?.max(0)?.to_scalar::<f32>()?;
    println!("cached keys have the bits of the whole sequence at once; outputs differ by {difference:.0e}");
    assert!(difference < 1e-5);
    Ok(())
}
