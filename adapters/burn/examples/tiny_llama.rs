//! A tiny Llama in burn that decodes with a KV cache: the rotary embedding is that of a real `config.json`, the weights are chance.
//!
//! `cargo run --release -p rope-burn --example tiny_llama [config.json]`

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, RmsNorm, RmsNormConfig};
use burn::tensor::activation::{silu, softmax};
use burn::tensor::{Bool, Device, Int, Tensor};
use rope_burn::rotary::Result;
use rope_burn::{Positions, RotaryEmbedding, RotaryEmbeddingConfig, Rows};

const WORDS: usize = 500;
const HIDDEN: usize = 64;
const LAYERS: usize = 2;
const HEADS: usize = 4;
const KEY_HEADS: usize = 2;
const CONTEXT: usize = 64;

#[derive(Module, Debug)]
struct Llama {
    embedding: Embedding,
    layers: Vec<Layer>,
    norm: RmsNorm,
    output: Linear,
    rope: RotaryEmbedding,
}

#[derive(Module, Debug)]
struct Layer {
    attention_norm: RmsNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// Keys, rotated, and values of the tokens so far: `[1, KEY_HEADS, length, head_dim]` both.
type Cache = Vec<Option<[Tensor<4>; 2]>>;

impl Llama {
    fn new(config: &RotaryEmbeddingConfig, device: &Device) -> Result<Self> {
        let linear = |from, to| LinearConfig::new(from, to).with_bias(false).init(device);
        let norm = || RmsNormConfig::new(HIDDEN).init(device);
        let head_dim = config.head_dim;
        let layer = |_| Layer {
            attention_norm: norm(),
            q: linear(HIDDEN, HEADS * head_dim),
            k: linear(HIDDEN, KEY_HEADS * head_dim),
            v: linear(HIDDEN, KEY_HEADS * head_dim),
            o: linear(HEADS * head_dim, HIDDEN),
            norm: norm(),
            gate: linear(HIDDEN, 3 * HIDDEN),
            up: linear(HIDDEN, 3 * HIDDEN),
            down: linear(3 * HIDDEN, HIDDEN),
        };
        Ok(Llama {
            embedding: EmbeddingConfig::new(WORDS, HIDDEN).init(device),
            layers: (0..LAYERS).map(layer).collect(),
            norm: norm(),
            output: linear(HIDDEN, WORDS),
            rope: config.init(device)?,
        })
    }

    /// Scores of the word after each of `words`, which come after those in the cache: `[words, WORDS]`.
    fn forward(&self, words: &[i32], cache: &mut Cache, device: &Device) -> Result<Tensor<2>> {
        let past = cache[0].as_ref().map_or(0, |[keys, _]| keys.dims()[2]);
        let rows = self.rope.at(Positions::From(past))?; // once for all layers
        let words = Tensor::<1, Int>::from_ints(words, device).unsqueeze();
        let mut x = self.embedding.forward(words);
        for (layer, cached) in self.layers.iter().zip(cache) {
            x = x.clone() + layer.attend(layer.attention_norm.forward(x), &rows, cached)?;
            let y = layer.norm.forward(x.clone());
            x = x + layer.down.forward(silu(layer.gate.forward(y.clone())) * layer.up.forward(y));
        }
        Ok(self.output.forward(self.norm.forward(x)).squeeze_dim(0))
    }
}

impl Layer {
    /// `x` is `[1, length, HIDDEN]`.
    fn attend(&self, x: Tensor<3>, rows: &Rows, cached: &mut Option<[Tensor<4>; 2]>) -> Result<Tensor<3>> {
        let [_, length, _] = x.dims();
        let heads = |y: Tensor<3>, heads: usize| {
            let head_dim = y.dims()[2] / heads;
            y.reshape([1, length, heads, head_dim])
        };
        // Rotated where the projections wrote them: nothing is copied.
        let q = rows.rotate_blhd(heads(self.q.forward(x.clone()), HEADS))?.swap_dims(1, 2);
        let k = rows.rotate_blhd(heads(self.k.forward(x.clone()), KEY_HEADS))?.swap_dims(1, 2);
        let v = heads(self.v.forward(x), KEY_HEADS).swap_dims(1, 2);
        let [keys, values] = match cached.take() {
            None => [k, v],
            Some([keys, values]) => [Tensor::cat(vec![keys, k], 2), Tensor::cat(vec![values, v], 2)],
        };
        *cached = Some([keys.clone(), values.clone()]);
        let [_, _, all, head_dim] = keys.dims();
        // Heads that share keys and values lie beside each other.
        let shared = |x: Tensor<4>| {
            let x = x.unsqueeze_dim::<5>(2).expand([1, KEY_HEADS, HEADS / KEY_HEADS, all, head_dim]);
            x.reshape([1, HEADS, all, head_dim])
        };
        let scores = q.matmul(shared(keys).transpose()) / (head_dim as f64).sqrt();
        let later = Tensor::<2, Bool>::tril_mask([length, all], (all - length) as i64, &scores.device());
        let weights = softmax(scores.mask_fill(later.unsqueeze(), f32::NEG_INFINITY), 3);
        let y = weights.matmul(shared(values)).swap_dims(1, 2).reshape([1, length, HEADS * head_dim]);
        Ok(self.o.forward(y))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1);
    let path = path.unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/llama-3.1-8b.json").into());
    let text = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let config = RotaryEmbeddingConfig::from_hf(&text, CONTEXT)?;
    let device = Device::flex();
    device.seed(7);
    let llama = Llama::new(&config, &device)?;
    println!("{}", llama.rope);

    let mut words = vec![1, 42, 17, 256, 99];
    let prompt = words.len();
    let mut cache: Cache = vec![None; LAYERS];
    let mut scores = vec![llama.forward(&words, &mut cache, &device)?];
    for _ in 0..8 {
        let last = scores[scores.len() - 1].clone();
        let next = last.clone().slice_dim(0, last.dims()[0] - 1..last.dims()[0]).argmax(1);
        words.push(next.into_scalar::<i32>());
        scores.push(llama.forward(&words[words.len() - 1..], &mut cache, &device)?);
    }
    println!("prompt {:?}, then {:?}", &words[..prompt], &words[prompt..]);

    // A model of another chance with this one's record is this one; and all words at once give what they gave one by one.
    let other = Llama::new(&config, &device)?.load_record(llama.clone().into_record());
    let whole = other.forward(&words, &mut vec![None; LAYERS], &device)?;
    let difference = (Tensor::cat(scores, 0) - whole).abs().max().into_scalar::<f32>();
    println!("all {} words at once: scores differ by {difference:.0e} at most", words.len());
    if difference > 1e-4 {
        return Err("the cache and the whole sequence differ".into());
    }
    Ok(())
}
