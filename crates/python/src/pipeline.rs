//! Models on texts. Every task takes a list of texts and gives a list; what they look like in Python is written there.

use crate::error::raised;
use crate::numbers::{Numbers, array};
use crate::stream::{How, Stream};
use crate::vectors::Vectors;
use crate::whole::Whole;
use crate::work::{Leave, Teller, Work, finish};
use pyo3::prelude::*;
use roformer::model::HeadKind;
use roformer::ops::{Backend, Cpu, Cuda};
use roformer::pipeline::{Answer, Guess, Label, Paraphrase, TokenLabel};
use roformer::{Device, hub};
use roformer_cli::library::Characters;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// A model with its tokenizer, on a device.
#[pyclass(frozen, module = "rotary")]
pub(crate) struct Pipeline(Arc<Opened>);

#[allow(clippy::large_enum_variant, reason = "each lies in an Arc of its own")]
enum Opened {
    Cpu(roformer::Pipeline<Cpu>),
    Cuda(roformer::Pipeline<Cuda>),
}

/// Evaluates an expression with a pipeline, wherever it runs.
macro_rules! on {
    ($opened:expr, |$pipeline:ident| $body:expr) => {
        match $opened {
            Opened::Cpu($pipeline) => $body,
            Opened::Cuda($pipeline) => $body,
        }
    };
}

/// Texts that are worked on together, as the command takes them: enough for batches of like length, few enough that progress is
/// told and Ctrl-C ends the work soon.
const WINDOW: usize = 512;

/// No text is added to those of as many bytes.
const WINDOW_BYTES: usize = 1 << 20;

/// The number of texts that are done.
type Done = usize;

/// What has a length.
trait Long {
    fn bytes(&self) -> usize;
}

impl Long for String {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl Long for Pair {
    fn bytes(&self) -> usize {
        self.0.len() + self.1.len()
    }
}

/// Takes texts window by window through a task. What is wrong with one of several comes with its place.
fn windows<T: Long, R>(
    teller: &Teller<Done>,
    texts: &[T],
    task: impl Fn(&[T]) -> Vec<roformer::Result<R>>,
) -> Result<Vec<R>, String> {
    let mut results = Vec::with_capacity(texts.len());
    while results.len() < texts.len() {
        let mut bytes = 0;
        let fits = |text: &&T| {
            let before = bytes;
            bytes += text.bytes();
            before < WINDOW_BYTES
        };
        let rest = &texts[results.len()..];
        let window = &rest[..rest.iter().take(WINDOW).take_while(fits).count()];
        for result in task(window) {
            let place = results.len();
            results.push(result.map_err(|error| match texts.len() {
                1 => error.to_string(),
                _ => format!("text {place}: {error}"),
            })?);
        }
        if !teller.tell(results.len()) {
            break;
        }
    }
    Ok(results)
}

/// Does work on so many texts to its end.
fn done<R: Send + 'static>(
    py: Python<'_>,
    total: usize,
    progress: Option<Bound<'_, PyAny>>,
    work: impl FnOnce(&Teller<Done>) -> Result<R, String> + Send + 'static,
) -> PyResult<R> {
    let told = |done: Done| match &progress {
        Some(progress) => progress.call1((done, total)).map(drop),
        None => Ok(()),
    };
    finish(py, Leave::AtOnce, work, told)?.map_err(raised)
}

fn words(error: roformer::Error) -> String {
    error.to_string()
}

/// What is told of a download: a file, its bytes that are here, all of them.
type Came = (String, u64, Option<u64>);

/// A text and another.
type Pair = (String, String);

#[pymethods]
impl Pipeline {
    /// Loads a model from a folder, or by its name on the hub.
    #[new]
    fn new(
        py: Python<'_>,
        model: String,
        device: String,
        dtype: String,
        revision: Option<String>,
        max_tokens: Option<Whole>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let max_tokens = max_tokens.map(|tokens| tokens.size("max_tokens")).transpose()?;
        if max_tokens == Some(0) {
            return Err(raised("max_tokens is 0; expected at least 1"));
        }
        let load = move |teller: &Teller<Came>| {
            let device = roformer_cli::library::device(&device, &dtype, false)?;
            let tell = |progress: hub::Progress<'_>| {
                teller.tell((progress.file.to_string(), progress.done, progress.total));
            };
            let revision = revision.as_deref();
            let options = hub::Options { revision, progress: Some(&tell), ..hub::Options::default() };
            let folder = hub::find(&model, &options).map_err(words)?;
            let opened = match device {
                Device::Cpu(cpu) => open(cpu, &folder, max_tokens).map(Opened::Cpu),
                Device::Cuda(gpu) => open(gpu, &folder, max_tokens).map(Opened::Cuda),
            };
            opened.map(|opened| Pipeline(Arc::new(opened))).map_err(words)
        };
        let told = |came: Came| match &progress {
            Some(progress) => progress.call1(came).map(drop),
            None => Ok(()),
        };
        finish(py, Leave::AtOnce, load, told)?.map_err(raised)
    }

    /// How many numbers a vector has that is made so.
    fn dimensions(&self, vectors: Vectors) -> PyResult<usize> {
        let embed = vectors.embed().map_err(raised)?;
        on!(&*self.0, |pipeline| pipeline.dimensions(&embed)).map_err(raised)
    }

    /// What to say of texts so far, a large share of which the vocabulary does not have.
    fn warning(&self) -> Option<String> {
        on!(&*self.0, |pipeline| pipeline.unknown().warning())
    }

    /// The vectors of texts, an array `[texts, dimensions]` of float32.
    fn embed<'py>(
        &self,
        py: Python<'py>,
        texts: Vec<String>,
        vectors: Vectors,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (count, width, opened) = (texts.len(), self.dimensions(vectors.clone())?, Arc::clone(&self.0));
        let rows = done(py, count, progress, move |teller| {
            let embed = vectors.embed().map_err(words)?;
            let rows =
                on!(&*opened, |pipeline| windows(teller, &texts, |texts| pipeline.embed_all(texts, embed)));
            Ok(rows?.concat())
        })?;
        array(py, Numbers::singles(rows, vec![count, width]))
    }

    /// How alike the texts of pairs are.
    fn similarity(
        &self,
        py: Python<'_>,
        pairs: Vec<Pair>,
        vectors: Vectors,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<f32>> {
        self.dimensions(vectors.clone())?;
        let opened = Arc::clone(&self.0);
        done(py, pairs.len(), progress, move |teller| {
            let embed = vectors.embed().map_err(words)?;
            on!(&*opened, |pipeline| windows(teller, &pairs, |pairs| pipeline.similarity_all(pairs, embed)))
        })
    }

    /// Texts by how near they are to a query, the nearest first: their places and scores.
    fn rank(
        &self,
        py: Python<'_>,
        query: String,
        texts: Vec<String>,
        vectors: Vectors,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(usize, f32)>> {
        let opened = Arc::clone(&self.0);
        let scores = done(py, texts.len(), progress, move |teller| {
            on!(&*opened, |pipeline| {
                let embed = vectors.embed().map_err(words)?;
                let query = pipeline.query(&query, embed).map_err(|error| format!("the query: {error}"))?;
                windows(teller, &texts, |texts| pipeline.nearness(&query, texts))
            })
        })?;
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(ranked)
    }

    /// The likeliest tokens behind the masks of texts: each as its token, its id, its score and the text with it.
    #[allow(clippy::type_complexity, reason = "what Python makes objects of")]
    fn fill_mask(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        top_k: Whole,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Vec<(String, u32, f32, String)>>> {
        let (top_k, opened) = (top_k.size("top_k")?, Arc::clone(&self.0));
        let guesses = done(py, texts.len(), progress, move |teller| {
            on!(&*opened, |pipeline| windows(teller, &texts, |texts| pipeline.fill_mask_all(texts, top_k)))
        })?;
        let tuple = |Guess { score, id, token, text }| (token, id, score, text);
        Ok(guesses.into_iter().map(|guesses| guesses.into_iter().map(tuple).collect()).collect())
    }

    /// Whether the model labels tokens, and not whole texts.
    fn labels_tokens(&self) -> bool {
        on!(&*self.0, |pipeline| pipeline.model().head()) == HeadKind::TokenClassification
    }

    /// The labels of texts, or of pairs of them, the likeliest first.
    fn classify(
        &self,
        py: Python<'_>,
        texts: Either,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Vec<(String, f32)>>> {
        let opened = Arc::clone(&self.0);
        let total = match &texts {
            Either::Texts(texts) => texts.len(),
            Either::Pairs(pairs) => pairs.len(),
        };
        let labels = done(py, total, progress, move |teller| {
            on!(&*opened, |pipeline| match &texts {
                Either::Texts(texts) => windows(teller, texts, |texts| pipeline.classify_all(texts)),
                Either::Pairs(pairs) => windows(teller, pairs, |pairs| pipeline.classify_pairs(pairs)),
            })
        })?;
        let tuple = |Label { label, score }| (label, score);
        Ok(labels.into_iter().map(|labels| labels.into_iter().map(tuple).collect()).collect())
    }

    /// The likeliest label of every token of texts: the label, its score, and the token's place in characters.
    #[allow(clippy::type_complexity, reason = "what Python makes objects of")]
    fn classify_tokens(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Vec<(String, f32, usize, usize)>>> {
        let opened = Arc::clone(&self.0);
        done(py, texts.len(), progress, move |teller| {
            let found = on!(&*opened, |pipeline| {
                windows(teller, &texts, |texts| pipeline.classify_tokens_all(texts))
            })?;
            let placed = texts.iter().zip(found).map(|(text, tokens)| {
                let mut characters = Characters::new(text);
                let place = |TokenLabel { label, score, start, end }| {
                    (label, score, characters.at(start), characters.at(end))
                };
                tokens.into_iter().map(place).collect()
            });
            Ok(placed.collect())
        })
    }

    /// The parts of contexts that answer questions: the text, its score, and its place in characters.
    fn answer(
        &self,
        py: Python<'_>,
        questions: Vec<Pair>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<(String, f32, usize, usize)>> {
        let opened = Arc::clone(&self.0);
        done(py, questions.len(), progress, move |teller| {
            let answers = on!(&*opened, |pipeline| {
                windows(teller, &questions, |questions| pipeline.answer_all(questions))
            })?;
            let placed = questions.iter().zip(answers).map(|((_, context), answer)| {
                let mut characters = Characters::new(context);
                let Answer { score, text, start, end } = answer;
                (text, score, characters.at(start), characters.at(end))
            });
            Ok(placed.collect())
        })
    }

    /// What follows a text, or whatever the model was trained to write, piece by piece.
    fn generate(&self, text: String, how: How) -> PyResult<Stream> {
        let (how, opened) = (how.generate()?, Arc::clone(&self.0));
        let work = Work::begin(move |teller: &Teller<String>| {
            let on_text = |piece: &str| match teller.tell(piece.to_string()) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            };
            on!(&*opened, |pipeline| pipeline.generate_while(&text, &how, on_text)).map_err(words)
        })?;
        Ok(Stream::of(work))
    }

    /// Other texts that say the same, the nearest first, with their scores.
    fn paraphrase(
        &self,
        py: Python<'_>,
        text: String,
        count: Whole,
        how: How,
    ) -> PyResult<Vec<(String, f32)>> {
        let (how, opened) = (how.generate()?, Arc::clone(&self.0));
        let count = match count.0 {
            count @ 1..=1000 => count as usize,
            count => return Err(raised(format!("count is {count}; expected from 1 to 1000"))),
        };
        let found = done(py, 1, None, move |_| {
            on!(&*opened, |pipeline| pipeline.paraphrase(&text, count, &how)).map_err(words)
        })?;
        Ok(found.into_iter().map(|Paraphrase { text, score }| (text, score)).collect())
    }
}

fn open<B: Backend>(
    device: B,
    folder: &Path,
    max_tokens: Option<usize>,
) -> roformer::Result<roformer::Pipeline<B>> {
    let pipeline = roformer::Pipeline::open_on(device, folder)?;
    Ok(match max_tokens {
        Some(tokens) => pipeline.max_tokens(tokens),
        None => pipeline,
    })
}

/// Texts, or pairs of them.
#[derive(FromPyObject)]
enum Either {
    Texts(Vec<String>),
    Pairs(Vec<Pair>),
}
