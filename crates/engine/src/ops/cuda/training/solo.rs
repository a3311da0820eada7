//! An attention by itself, as a training step runs it: to time it, and to look at what it gives.

use super::super::{Arithmetic, Cuda};
use super::attention::{Attention, Gradients};
use super::fused::Fused;
use super::{Launcher, Masks, Scalars, tensor};
use crate::error::{Error, Result};
use gpu::{Block, Event, Span};
use half::bf16;

/// What an attention is over. Scores are divided by the root of the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoloShape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of a sequence.
    pub length: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub key_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Whether a token sees only what came before.
    pub is_causal: bool,
}

impl SoloShape {
    /// Numbers of queries, keys and values side by side, `[batch · length, (heads + 2 · key_heads) · head_dim]`.
    pub fn joined(&self) -> usize {
        self.batch * self.length * (self.heads + 2 * self.key_heads) * self.head_dim
    }

    /// Numbers of results, `[batch · length, heads · head_dim]`.
    pub fn out(&self) -> usize {
        self.batch * self.length * self.heads * self.head_dim
    }

    /// Queries of all heads.
    fn rows(&self) -> usize {
        self.batch * self.length * self.heads
    }
}

/// An attention in `bf16` with its memory, forward and backward.
pub struct Solo {
    shape: SoloShape,
    attention: Attention,
    gradients: Gradients,
    fused: Option<Fused>,
    memory: Block,
    gpu: Cuda,
}

/// What an attention gave.
#[derive(Clone, Debug)]
pub struct SoloResults {
    /// `[batch · length, heads · head_dim]`
    pub out: Vec<f32>,
    /// The logarithms of sums, `[batch · length, heads]`.
    pub lse: Vec<f32>,
    /// Of queries, keys and values, as they are.
    pub gradient: Vec<f32>,
}

/// Bytes to which everything is aligned.
const ALIGNED: usize = 256;

impl Solo {
    /// An attention over queries, keys and values, and the gradient of its results; all are rounded to `bf16`. It runs beside what
    /// the GPU does otherwise.
    pub fn new(gpu: &Cuda, shape: SoloShape, joined: &[f32], slope: &[f32]) -> Result<Solo> {
        Solo::with(gpu, shape, joined, slope, |gpu, attention| {
            Fused::find(gpu, attention, || [Span::NOTHING; 2])
        })
    }

    /// The same where something else says whether cuDNN computes it.
    pub(super) fn with(
        gpu: &Cuda,
        shape: SoloShape,
        joined: &[f32],
        slope: &[f32],
        choose: impl FnOnce(&Cuda, &Attention) -> Result<Option<Fused>>,
    ) -> Result<Solo> {
        assert_eq!([joined.len(), slope.len()], [shape.joined(), shape.out()], "the shape of an attention");
        gpu.training()?;
        let gpu = gpu.beside()?;
        let SoloShape { batch, length, heads, key_heads, head_dim, is_causal } = shape;
        let masks = vec![u64::MAX; batch * length.div_ceil(64)];
        let sizes = [
            shape.joined() * 2,
            shape.out() * 2,
            shape.out() * 2,
            shape.joined() * 2,
            shape.rows() * size_of::<f32>(),
            size_of_val(&masks[..]),
            size_of::<Scalars>(),
        ];
        let mut used = 0;
        let offsets = sizes.map(|bytes| {
            used += bytes.next_multiple_of(ALIGNED);
            used - bytes.next_multiple_of(ALIGNED)
        });
        let place = |base: u64, index: usize| Span::new(base + offsets[index] as u64, sizes[index]);
        let attention = |base: u64| Attention {
            arithmetic: Arithmetic::Bf16,
            batch,
            length,
            heads,
            key_heads,
            head_dim,
            is_causal,
            window: None,
            scale: (1.0 / (head_dim as f64).sqrt()) as f32,
            joined: place(base, 0),
            out: place(base, 1),
            lse: place(base, 4),
            mask: place(base, 5),
            scalars: place(base, 6),
            dropout: 0.0,
            site: 0,
            content: Span::NOTHING,
            position: Span::NOTHING,
            bias: None,
            query: None,
            key: None,
            value: None,
            segments: None,
        };
        // The places are not known yet, and all that counts of them is that they are aligned.
        let fused = choose(&gpu, &attention(ALIGNED as u64))?;
        let is_tensor = tensor::fits(&attention(ALIGNED as u64), gpu.device().shared_bytes());
        if !is_tensor && !fused.is_some_and(Fused::goes_back) {
            let why = format!(
                "heads of {head_dim} features are not for tensor cores here; use 8 to 128, in eights"
            );
            return Err(Error::Device(why));
        }
        let own = if is_tensor { tensor::scratch(&attention(ALIGNED as u64)) } else { 0 };
        let scratch = fused.map_or(0, |fused| fused.scratch(&gpu)).max(own);
        let memory = Block::zeros(gpu.queue(), used + scratch)?;
        let attention = attention(memory.pointer());
        let base = memory.pointer();
        let gradients = Gradients {
            out: place(base, 2),
            joined: place(base, 3),
            scratch: Span::new(base + used as u64, scratch),
            ..Gradients::default()
        };
        let short = |numbers: &[f32]| numbers.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>();
        memory.upload(attention.joined, &short(joined))?;
        memory.upload(gradients.out, &short(slope))?;
        memory.upload(attention.mask, &masks)?;
        Ok(Solo { shape, attention, gradients, fused, memory, gpu })
    }

    /// What computes it.
    pub fn origin(&self) -> String {
        let own = "kernels of this program";
        match self.fused {
            None => own.into(),
            Some(fused) if fused.goes_back() => self.gpu.attention_origin(),
            Some(_) => format!("{}, and back {own}", self.gpu.attention_origin()),
        }
    }

    /// Bytes that it works in besides.
    pub fn workspace(&self) -> usize {
        self.gradients.scratch.bytes()
    }

    /// Gives results, or gradients, to the stream.
    fn launch(&self, is_backward: bool) -> Result<()> {
        let Solo { attention, gradients, .. } = self;
        let gpu = &Launcher::new(&self.gpu, &self.memory).with_masks(Masks::All);
        let is_done = match self.fused {
            Some(fused) if is_backward => fused.backward(gpu, attention, gradients)?,
            Some(fused) => fused.forward(gpu, attention, gradients.scratch)?,
            None => false,
        };
        if is_done {
            return Ok(());
        }
        let kernels = gpu.training()?.tensor(attention.arithmetic)?;
        // SAFETY: no biases, whose indices are all that is promised.
        unsafe {
            match is_backward {
                false => tensor::forward(kernels, gpu, attention),
                true => tensor::backward(kernels, gpu, attention, gradients),
            }
        }
    }

    /// Forward and backward once.
    pub fn results(&self) -> Result<SoloResults> {
        self.launch(false)?;
        self.launch(true)?;
        let short = |span: Span, len: usize| -> Result<Vec<f32>> {
            let mut list = vec![bf16::ZERO; len];
            self.memory.download(span, &mut list)?;
            Ok(list.into_iter().map(bf16::to_f32).collect())
        };
        let mut lse = vec![0f32; self.shape.rows()];
        self.memory.download(self.attention.lse, &mut lse)?;
        let out = short(self.attention.out, self.shape.out())?;
        Ok(SoloResults { out, lse, gradient: short(self.gradients.joined, self.shape.joined())? })
    }

    /// Milliseconds of the GPU's clock of one way, forward or backward, in each of some rounds: recordings of several, one after
    /// the other, of which a round has as many as take some 10 ms. [`results`](Solo::results) comes first.
    pub fn milliseconds(&mut self, is_backward: bool, rounds: usize) -> Result<Vec<f64>> {
        let stream = self.gpu.queue().stream();
        let events = [Event::new(self.gpu.device())?, Event::new(self.gpu.device())?];
        let time = |work: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
            stream.record(&events[0])?;
            work()?;
            stream.record(&events[1])?;
            Ok(f64::from(events[1].milliseconds_since(&events[0])?))
        };
        self.launch(is_backward)?;
        let one = time(&mut || self.launch(is_backward))?;
        let count = (10.0 / one.max(1e-3)).ceil().clamp(1.0, 100.0) as usize;
        let mut graph = stream.capture(|| (0..count).try_for_each(|_| self.launch(is_backward)))?;
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..=rounds {
            // SAFETY: all memory is this attention's, and the work is waited for.
            times.push(time(&mut || Ok(unsafe { graph.launch(stream) }?))? / count as f64);
        }
        Ok(times.split_off(1))
    }
}
