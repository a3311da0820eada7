//! Text in, answers out: the small models of `examples/models`, which travel in the executable, and a decoder.

use crate::common::gpus;
use crate::models::close;
use crate::words;
use roformer::blueprint::Blueprint;
use roformer::model::{Hashed, Model};
use roformer::ops::{Arithmetic, Backend, Cpu, Cuda};
use roformer::pipeline::{Embed, Generate, Guess, Pooling, TokenLabel};
use roformer::tokenizer::Tokenizer;
use roformer::{Pipeline, Result};
use std::path::PathBuf;

/// Names and contents of files.
type Files = [(&'static str, &'static [u8])];

/// The files of a model.
macro_rules! model {
    ($name:literal) => {
        &[
            model!($name, "config.json"),
            model!($name, "model.safetensors"),
            model!($name, "tokenizer_config.json"),
            model!($name, "vocab.txt"),
        ]
    };
    ($name:literal, $file:literal) => {
        ($file, include_bytes!(concat!("../../../../examples/models/", $name, "/", $file)))
    };
}

const MLM: &Files = model!("tiny-mlm");
const V2: &Files = model!("tiny-v2");
const SIM: &Files = model!("tiny-sim");
const CLASSIFIER: &Files = model!("tiny-classifier");
const NER: &Files = model!("tiny-ner");
const QA: &Files = model!("tiny-qa");
const GPT: &Files = model!("tiny-gpt");

/// A folder with files, gone when this is.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &Files) -> Self {
        let thread = std::thread::current().name().unwrap_or("test").replace("::", "-");
        let folder = std::env::temp_dir().join(format!("roformer-cuda-{}-{thread}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A model on the CPU and on a GPU.
fn open(gpu: &Cuda, files: &Files) -> (Pipeline, Pipeline<Cuda>) {
    let folder = Folder::new(files);
    (Pipeline::open(&folder.0).unwrap(), Pipeline::open_on(gpu.clone(), &folder.0).unwrap())
}

/// Texts of very different lengths, in no order: several batches, padded and not.
fn texts() -> Vec<String> {
    let parts = ["今天天气很好。", "我喜欢北京", "", "小明住在上海，他喜欢看书。", "hello ", "好", "🦀"];
    (0..60).map(|i| parts[i % parts.len()].repeat(1 + (i * 7 + 3) % 13)).collect()
}

/// Probabilities that the small models are sure of, by as much as rounding moves them.
fn near(what: &str, gpu: &Cuda, got: f32, expected: f32) {
    let bound = match gpu.arithmetic() {
        Arithmetic::F32 => 1e-5,
        Arithmetic::Tf32 => 1e-2,
        Arithmetic::Bf16 => 5e-2,
    };
    assert!((got - expected).abs() <= bound, "{what} on {gpu:?}: {got} but {expected}");
}

fn greedy(max_tokens: usize) -> Generate {
    Generate { max_tokens, temperature: 0.0, ..Generate::default() }
}

#[test]
fn one_by_one_a_text_has_its_own_bits() {
    for gpu in &gpus() {
        let alone = open(gpu, SIM).1.one_by_one();
        let texts = texts();
        let (options, bits) = (Embed::default(), |vector: Result<Vec<f32>>| -> Vec<u32> {
            vector.into_iter().flatten().map(f32::to_bits).collect()
        });
        for (text, vector) in texts.iter().zip(alone.embed_all(&texts, options)) {
            assert_eq!(bits(vector), bits(alone.embed(text, options)), "{text} on {gpu:?}");
        }
    }
}

#[test]
fn vectors() {
    for gpu in &gpus() {
        for (files, poolings) in [
            (MLM, &[Pooling::Cls, Pooling::Mean][..]),
            (V2, &[Pooling::Mean]),
            (SIM, &[Pooling::Pooler, Pooling::Cls]),
            (GPT, &[Pooling::Mean]),
        ] {
            let (processor, pipeline) = open(gpu, files);
            for &pooling in poolings {
                let options = Embed { pooling: Some(pooling), normalize: true, ..Embed::default() };
                let all = |vectors: Vec<Result<Vec<f32>>>| -> Vec<f32> {
                    vectors.into_iter().flat_map(Result::unwrap).collect()
                };
                let got = all(pipeline.embed_all(&texts(), options));
                close(&format!("{pooling:?}"), gpu, &got, &all(processor.embed_all(&texts(), options)));
            }
        }
    }
}

#[test]
fn nearness() {
    for gpu in &gpus() {
        let (processor, pipeline) = open(gpu, SIM);
        let (query, texts) = ("苹果多少钱？", ["去机场怎么走？", "苹果的价格是多少？", "香蕉怎么卖？"]);
        let expected = processor.rank(query, &texts).unwrap();
        for (got, expected) in pipeline.rank(query, &texts).unwrap().iter().zip(&expected) {
            assert_eq!(got.index, expected.index, "{gpu:?}");
            near("rank", gpu, got.score, expected.score);
        }
        let alike = pipeline.similarity(query, texts[1]).unwrap();
        near("similarity", gpu, alike, processor.similarity(query, texts[1]).unwrap());
    }
}

#[test]
fn masks() {
    for gpu in &gpus() {
        for (files, text) in [
            (MLM, "今天[MASK]很好，我们去公园散步。"),
            (MLM, "中国的首都是[MASK]。"),
            (V2, "今天天[MASK]很好。"),
        ] {
            let (processor, pipeline) = open(gpu, files);
            // All tokens, in the order of their ids.
            let all = |mut guesses: Vec<Guess>| {
                guesses.sort_by_key(|guess| guess.id);
                guesses
            };
            let expected = processor.fill_mask(text, usize::MAX).unwrap();
            let got = pipeline.fill_mask(text, usize::MAX).unwrap();
            assert_eq!(got[0].text, expected[0].text, "{gpu:?}");
            assert_eq!(got.len(), expected.len());
            for (got, expected) in all(got).iter().zip(all(expected)) {
                assert_eq!((got.id, &got.token), (expected.id, &expected.token));
                near(&expected.text, gpu, got.score, expected.score);
            }
        }
    }
}

#[test]
fn labels_and_answers() {
    for gpu in &gpus() {
        let (processor, pipeline) = open(gpu, CLASSIFIER);
        let texts = ["这部电影很好看。", "服务员的态度很差。"];
        for (got, expected) in pipeline.classify_all(&texts).into_iter().zip(processor.classify_all(&texts)) {
            for (got, expected) in got.unwrap().iter().zip(&expected.unwrap()) {
                assert_eq!(got.label, expected.label, "{gpu:?}");
                near("a text's label", gpu, got.score, expected.score);
            }
        }
        let (processor, pipeline) = open(gpu, NER);
        let text = "小明住在北京。";
        let (got, expected) =
            (pipeline.classify_tokens(text).unwrap(), processor.classify_tokens(text).unwrap());
        assert!(!got.is_empty() && got.len() == expected.len());
        for (got, expected) in got.iter().zip(&expected) {
            let place = |label: &TokenLabel| (label.start, label.end);
            assert_eq!((&got.label, place(got)), (&expected.label, place(expected)), "{gpu:?}");
            near("a token's label", gpu, got.score, expected.score);
        }
        let (processor, pipeline) = open(gpu, QA);
        let (question, context) = ("小明住在哪里？", "小明住在北京。小红住在上海。");
        let (got, expected) =
            (pipeline.answer(question, context).unwrap(), processor.answer(question, context).unwrap());
        assert_eq!((got.text, got.start), (expected.text, expected.start), "{gpu:?}");
        near("an answer", gpu, got.score, expected.score);
    }
}

/// Where the likeliest token is so by far, every arithmetic writes the same text; elsewhere `f32` does.
#[test]
fn continuations() {
    for gpu in &gpus() {
        let is_exact = gpu.arithmetic() == Arithmetic::F32;
        for (files, text, is_clear) in [
            (GPT, "中国的首都", true),
            (GPT, "今天天气", false),
            (SIM, "苹果多少钱？", false),
            (SIM, "广州和深圳哪个好？", false),
        ] {
            let (processor, pipeline) = open(gpu, files);
            let mut streamed = String::new();
            let got = pipeline.generate(text, &greedy(20), |piece| streamed.push_str(piece)).unwrap();
            assert!(got == streamed && !got.is_empty(), "{got} streamed as {streamed}");
            if is_exact || is_clear {
                assert_eq!(got, processor.generate(text, &greedy(20), |_| {}).unwrap(), "{gpu:?}: {text}");
            }
            if is_exact {
                let drawn = Generate { max_tokens: 12, seed: 7, ..Generate::default() };
                let expected = processor.generate(text, &drawn, |_| {}).unwrap();
                assert_eq!(pipeline.generate(text, &drawn, |_| {}).unwrap(), expected, "drawn");
            }
        }
        // Several rows from the cache of one.
        let (processor, pipeline) = open(gpu, SIM);
        let paraphrases = pipeline.paraphrase("苹果多少钱？", 4, &Generate::default()).unwrap();
        assert!(!paraphrases.is_empty());
        if is_exact {
            let expected = processor.paraphrase("苹果多少钱？", 4, &Generate::default()).unwrap();
            assert_eq!(paraphrases.len(), expected.len());
            for (got, expected) in paraphrases.iter().zip(&expected) {
                assert_eq!(got.text, expected.text);
                near("a paraphrase", gpu, got.score, expected.score);
            }
        }
    }
}

const DECODER: &str = r#"{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
    "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 40}"#;

/// A decoder with random weights, whose words are w0, w1 and so on.
fn decoder<B: Backend>(device: B) -> Pipeline<B> {
    let folder = Folder::new(&[]);
    std::fs::write(folder.0.join("tokenizer.json"), words::tokenizer(40)).unwrap();
    let blueprint = Blueprint::from_config(DECODER.as_bytes()).unwrap();
    Pipeline::new(Model::on(device, blueprint, &Hashed).unwrap(), Tokenizer::load(&folder.0).unwrap())
        .unwrap()
}

#[test]
fn a_decoder() {
    for gpu in &gpus() {
        let (processor, pipeline) = (decoder(Cpu::default()), decoder(gpu.clone()));
        let text = "w3 w14 w15 w9";
        let vector = processor.embed(text, Embed::default()).unwrap();
        close("a decoder's vector", gpu, &pipeline.embed(text, Embed::default()).unwrap(), &vector);
        let written = pipeline.generate(text, &greedy(6), |_| {}).unwrap();
        assert!(!written.is_empty());
        if gpu.arithmetic() == Arithmetic::F32 {
            assert_eq!(written, processor.generate(text, &greedy(6), |_| {}).unwrap());
        }
    }
}

/// A cache that no GPU has room for is an error, and the next text is written as before.
#[test]
fn memory_that_is_not_there() {
    for gpu in &gpus() {
        // One of its own: another test's call would be told.
        let gpu = Cuda::new(0, gpu.arithmetic()).unwrap();
        let (_, pipeline) = open(&gpu, GPT);
        let before = pipeline.generate("中国的首都", &greedy(20), |_| {}).unwrap();
        let error = pipeline.generate("中国的首都", &greedy(1 << 31), |_| {}).unwrap_err().to_string();
        assert!(error.contains("the cache") && error.contains("MB asked for"), "{error}");
        assert!(!error.contains('\n'), "{error}");
        assert_eq!(pipeline.generate("中国的首都", &greedy(20), |_| {}).unwrap(), before);
    }
}
