//! `roformer bench generate`: text token by token, which is bound by reading the weights once for each.

use super::{median, seconds};
use rayon::prelude::*;
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Input, Model};
use roformer::ops::{Cpu, Memory, Precision};
use roformer::{Error, Result};
use serde_json::json;

/// A decoder of the Llama form with made-up weights.
struct Decoder {
    name: &'static str,
    width: usize,
    layers: usize,
    heads: usize,
    wide: usize,
    vocabulary: usize,
}

/// Of 0.1 and 0.5 thousand million parameters.
const DECODERS: [Decoder; 2] = [
    Decoder { name: "llama-0.1b", width: 768, layers: 12, heads: 12, wide: 2048, vocabulary: 32_000 },
    Decoder { name: "llama-0.5b", width: 1280, layers: 22, heads: 20, wide: 3456, vocabulary: 32_000 },
];

/// Tokens that follow the prompt one by one.
const WRITTEN: usize = 48;
/// Those of a turn.
const TURN: usize = 8;

/// One line of the benchmark.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The model.
    pub model: &'static str,
    /// What it computes in.
    pub precision: Precision,
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Tokens per second, one text: the median over tokens.
    pub tokens_s: f64,
    /// Bytes of weights that are read per second, in thousand millions.
    pub gb_s: f64,
    /// The same of a loop that reads memory and does nothing else, on the same threads.
    pub roofline_gb_s: f64,
    /// The time of that loop over that of a token: the median over turns.
    pub fraction: f64,
}

/// Measures both decoders in a precision, behind a prompt of so many tokens, on the current rayon pool; `report` sees each line as it
/// comes.
pub fn run(precision: Precision, prompt: usize, mut report: impl FnMut(Sample)) -> Result<()> {
    for decoder in &DECODERS {
        let model = Model::<f32>::on(Cpu { precision }, decoder.blueprint(prompt + WRITTEN)?, &Hashed)?;
        let ids: Vec<u32> = (0..prompt + WRITTEN).map(|i| (i * 7919 % decoder.vocabulary) as u32).collect();
        let mut cache = model.cache(1, ids.len())?;
        let input = |ids| Input { ids, batch: 1, token_types: None, mask: None };
        model.step(&input(&ids[..prompt]), None, &mut cache)?;
        let bytes = (model.layer_bytes() + decoder.output_bytes(precision)) as f64;
        let roofline = Roofline::new(bytes as usize)?;
        let (mut times, mut floors, mut fractions, mut last) = (Vec::new(), Vec::new(), Vec::new(), None);
        // The two take turns: a machine whose memory is busier for a while is so for both.
        for turn in ids[prompt..].chunks(TURN) {
            let first = times.len();
            for id in turn.chunks(1) {
                let mut outcome = None;
                times.push(seconds(|| outcome = Some(model.step(&input(id), None, &mut cache))));
                last = outcome.transpose()?;
            }
            let floor = roofline.fastest();
            floors.push(floor);
            fractions.push(floor / median(&times[first..]));
        }
        check(&model, &ids, last.map(|output| output.last_hidden_state))?;
        let time = median(&times);
        report(Sample {
            model: decoder.name,
            precision,
            prompt,
            tokens_s: 1.0 / time,
            gb_s: bytes / time / 1e9,
            roofline_gb_s: bytes / median(&floors) / 1e9,
            fraction: median(&fractions),
        });
    }
    Ok(())
}

/// What the last step gave must be what the whole text gives at once, up to the order of sums.
fn check(model: &Model, ids: &[u32], last: Option<Vec<f32>>) -> Result<()> {
    let whole = model.forward(&Input { ids, batch: 1, token_types: None, mask: None })?.last_hidden_state;
    let whole = &whole[whole.len() - model.blueprint().width..];
    let square = |x: f32| f64::from(x) * f64::from(x);
    let length: f64 = whole.iter().map(|&x| square(x)).sum();
    let apart: f64 = last.iter().flatten().zip(whole).map(|(a, b)| square(a - b)).sum();
    match last.is_some() && apart <= 1e-3 * length {
        true => Ok(()),
        false => Err(Error::input("a timed result", "not what the whole text gives", "the same vector")),
    }
}

impl Decoder {
    fn blueprint(&self, tokens: usize) -> Result<Blueprint> {
        let Decoder { width, layers, heads, wide, vocabulary, .. } = *self;
        let config = json!({
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": wide, "vocab_size": vocabulary, "tie_word_embeddings": true,
            "max_position_embeddings": tokens,
        });
        Blueprint::from_config(config.to_string().as_bytes())
    }

    /// The bytes of the output layer's weight.
    fn output_bytes(&self, precision: Precision) -> usize {
        let size = match precision {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
            Precision::Int8 => 1,
        };
        self.vocabulary * self.width * size
    }
}

/// A loop that reads as many bytes as a token's weights are, on all threads, and does nothing else.
struct Roofline(Memory<f32>);

impl Roofline {
    fn new(bytes: usize) -> Result<Self> {
        let mut memory = Memory::zeros(bytes / 4).ok_or_else(|| Error::memory("the benchmark"))?;
        memory.par_chunks_mut(PART).for_each(|part| part.fill(1.0));
        Ok(Roofline(memory))
    }

    /// The time of the fastest of a few passes, over one and over several streams of a thread at a time, because machines differ in
    /// which of them is faster.
    fn fastest(&self) -> f64 {
        [1, 2, 4, 8, 1, 2, 4, 8].map(|streams| self.pass(streams)).into_iter().fold(f64::INFINITY, f64::min)
    }

    fn pass(&self, streams: usize) -> f64 {
        let sum = |part: &[f32]| {
            let stream = part.len() / streams;
            let mut lanes = [0.0f32; LINE];
            for line in (0..stream / LINE).map(|line| line * LINE) {
                for first in (0..streams).map(|index| index * stream + line) {
                    lanes.iter_mut().zip(&part[first..first + LINE]).for_each(|(lane, x)| *lane += x);
                }
            }
            lanes.iter().sum::<f32>()
        };
        seconds(|| {
            std::hint::black_box(self.0.par_chunks(PART).map(sum).sum::<f32>());
        })
    }
}

/// Numbers that a thread reads at a time, and those of them that are added at once.
const PART: usize = 1 << 18;
const LINE: usize = 32;
