//! A small Llama in candle, all of it differentiable, that is given its rotation.

use candle_core::{D, DType, Device, Result, Tensor, Var};

pub const LAYERS: usize = 4;
pub const HIDDEN: usize = 512;
pub const HEADS: usize = 8;
pub const KEY_HEADS: usize = 4;
pub const HEAD_DIM: usize = HIDDEN / HEADS;
const INNER: usize = 1376;
pub const WORDS: usize = 1024;

/// Rotates x, `[batch, heads, length, head_dim]`.
pub type Rotate<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;

pub struct Llama {
    embedding: Var,
    layers: Vec<Layer>,
    output: Var,
}

struct Layer {
    q: Var,
    k: Var,
    v: Var,
    o: Var,
    gate: Var,
    up: Var,
    down: Var,
}

impl Llama {
    pub fn new() -> Result<Self> {
        let mut seed = 0u64;
        let mut weight = |inputs: usize, outputs: usize| {
            seed += 1;
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let scale = (3.0 / inputs as f64).sqrt();
            let mut number = || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 11) as f64 / 2f64.powi(52) - 1.0) * scale
            };
            let numbers: Vec<f32> = (0..inputs * outputs).map(|_| number() as f32).collect();
            Var::from_tensor(&Tensor::from_vec(numbers, (inputs, outputs), &Device::Cpu)?)
        };
        let embedding = weight(WORDS, HIDDEN)?;
        let layers = (0..LAYERS).map(|_| {
            Ok(Layer {
                q: weight(HIDDEN, HIDDEN)?,
                k: weight(HIDDEN, KEY_HEADS * HEAD_DIM)?,
                v: weight(HIDDEN, KEY_HEADS * HEAD_DIM)?,
                o: weight(HIDDEN, HIDDEN)?,
                gate: weight(HIDDEN, INNER)?,
                up: weight(HIDDEN, INNER)?,
                down: weight(INNER, HIDDEN)?,
            })
        });
        let layers = layers.collect::<Result<_>>()?;
        Ok(Llama { embedding, layers, output: weight(HIDDEN, WORDS)? })
    }

    pub fn parameters(&self) -> Vec<&Var> {
        let mut all = vec![&self.embedding, &self.output];
        for Layer { q, k, v, o, gate, up, down } in &self.layers {
            all.extend([q, k, v, o, gate, up, down]);
        }
        all
    }

    /// The mean loss of the next word: `words` is `[batch, length + 1]`.
    pub fn loss(&self, words: &Tensor, rotate: Rotate) -> Result<Tensor> {
        let (batch, length) = (words.dim(0)?, words.dim(1)? - 1);
        let inputs = words.narrow(1, 0, length)?.flatten_all()?;
        let targets = words.narrow(1, 1, length)?.flatten_all()?;
        let mut x = self.embedding.index_select(&inputs, 0)?;
        let mask = mask(length)?;
        for layer in &self.layers {
            x = (&x + layer.attention(&norm(&x)?, (batch, length), &mask, rotate)?)?;
            let y = norm(&x)?;
            let inner = (y.matmul(&layer.gate)?.silu()? * y.matmul(&layer.up)?)?;
            x = (&x + inner.matmul(&layer.down)?)?;
        }
        candle_nn::loss::cross_entropy(&norm(&x)?.matmul(&self.output)?, &targets)
    }
}

impl Layer {
    /// `x` is `[batch · length, hidden]`.
    fn attention(
        &self,
        x: &Tensor,
        (batch, length): (usize, usize),
        mask: &Tensor,
        rotate: Rotate,
    ) -> Result<Tensor> {
        let heads = |weight: &Var, heads: usize| {
            let x = x.matmul(weight)?.reshape((batch, length, heads, HEAD_DIM))?;
            x.transpose(1, 2)?.contiguous()
        };
        let (q, k) = (rotate(&heads(&self.q, HEADS)?)?, rotate(&heads(&self.k, KEY_HEADS)?)?);
        let shared = |x: Tensor| {
            let x = x.unsqueeze(2)?.broadcast_as((batch, KEY_HEADS, HEADS / KEY_HEADS, length, HEAD_DIM))?;
            x.contiguous()?.reshape((batch, HEADS, length, HEAD_DIM))
        };
        let (k, v) = (shared(k)?, shared(heads(&self.v, KEY_HEADS)?)?);
        let scores = (q.matmul(&k.transpose(2, 3)?.contiguous()?)? / (HEAD_DIM as f64).sqrt())?;
        let weights = candle_nn::ops::softmax(&scores.broadcast_add(mask)?, D::Minus1)?;
        let y = weights.matmul(&v)?.transpose(1, 2)?.contiguous()?;
        y.reshape((batch * length, HIDDEN))?.matmul(&self.o)
    }
}

/// RMS norm without a weight.
fn norm(x: &Tensor) -> Result<Tensor> {
    x.broadcast_div(&(x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?)
}

/// −∞ where a word would see one that comes after it.
fn mask(length: usize) -> Result<Tensor> {
    let mask: Vec<f32> = (0..length * length)
        .map(|at| if at % length > at / length { f32::NEG_INFINITY } else { 0.0 })
        .collect();
    Tensor::from_vec(mask, (length, length), &Device::Cpu)?.to_dtype(DType::F32)
}
