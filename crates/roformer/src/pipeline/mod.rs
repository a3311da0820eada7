//! Text in, answers out: a model with its tokenizer.
//!
//! [`Pipeline::load`] takes a folder or a name on the hub. Every task has a form for one text and a form for many, whose
//! name ends in `_all`: that one sorts the texts by length, runs them in batches that waste little on padding, and gives a
//! result for each text in the order they came. A text that cannot be used is an error of its own and spoils no other.
//! [`Pipeline::load_on`] and [`Pipeline::open_on`] run the model on another device, such as a GPU.
//!
//! ```no_run
//! let roformer = roformer::Pipeline::load("junnyu/roformer_chinese_base")?;
//! for guess in roformer.fill_mask("今天[MASK]很好，我想去公园玩。", 5)? {
//!     println!("{} {:.3}", guess.token, guess.score);
//! }
//! # Ok::<(), roformer::Error>(())
//! ```

mod answer;
mod batch;
mod classify;
mod continuation;
mod embed;
mod fill_mask;
mod generate;
mod rank;
mod reader;
mod sample;
mod spans;

pub use crate::sentence::{Pooling, cosine};
pub use answer::Answer;
pub use batch::fits_packed;
pub use classify::{Label, TokenLabel};
pub use embed::{Embed, Prompt};
pub use fill_mask::Guess;
pub use generate::{Completion, Generate, Paraphrase};
pub use rank::{Query, Ranked};
pub use reader::{Pending, Reader};
pub use spans::{Span, spans};

use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::hub;
use crate::model::Model;
use crate::ops::{Backend, Cpu};
use crate::sentence::Recipe;
use crate::tokenizer::{Tokenizer, Unknown};
use embed::Layer;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A model with its tokenizer. The model runs on a device; what comes before and after it, on the CPU.
pub struct Pipeline<B: Backend = Cpu> {
    model: Model<f32, B>,
    tokenizer: Tokenizer,
    /// What the folder says is done with texts, and the modules after the pooling, with their weights.
    recipe: Recipe,
    layers: Vec<Layer>,
    max_tokens: Option<usize>,
    /// Tokens of a batch, padding included, where the caller has said.
    batch_tokens: Option<usize>,
    /// Whether each text runs alone.
    is_one_by_one: bool,
    /// Tokens of texts so far, and those of them that are unknown.
    seen: [AtomicU64; 2],
}

/// Tokens of a batch whose texts are padded: enough that texts of nearly one length find each other.
const BATCH_TOKENS: usize = 2048;

/// Tokens of a batch of texts that are not padded: enough that products run at full speed, few enough that activations stay in the
/// caches, for a thread and at least.
const PACKED_TOKENS: [usize; 2] = [64, 512];

/// Texts with more tokens are refused unless the caller says where to cut: attention to so many takes hours.
const MAX_TOKENS: usize = 1 << 16;

impl Pipeline {
    /// Loads a model from a folder, or by its name on the hub: from the local cache, or downloaded into it.
    pub fn load(model: &str) -> Result<Self> {
        Self::load_on(Cpu::default(), model)
    }

    /// Loads a model from a folder with a `config.json`, weights and the files of its tokenizer.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_on(Cpu::default(), folder)
    }
}

impl<B: Backend> Pipeline<B> {
    /// Loads a model as [`load`](Pipeline::load) does, to run on a device.
    pub fn load_on(device: B, model: &str) -> Result<Self> {
        Self::open_on(device, hub::find(model, &hub::Options::default())?)
    }

    /// Loads a model as [`open`](Pipeline::open) does, to run on a device.
    pub fn open_on(device: B, folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_changed(device, folder, Ok)
    }

    /// Loads a model to run as another than its file says, with the same weights ([`Model::load_changed`]).
    pub fn open_changed(
        device: B,
        folder: impl AsRef<Path>,
        change: impl FnOnce(Blueprint) -> Result<Blueprint> + Send,
    ) -> Result<Self> {
        let recipe = Recipe::read(folder)?;
        let folder = &recipe.transformer;
        let tokenizer = || {
            let tokenizer = match recipe.lowers_case {
                true => Tokenizer::load_lowercased(folder)?,
                false => Tokenizer::load(folder)?,
            };
            tokenizer.prepare();
            Ok(tokenizer)
        };
        let (model, tokenizer): (_, Result<Tokenizer>) =
            rayon::join(|| Model::load_changed(device, folder, change), tokenizer);
        let pipeline = Self::new(model?, tokenizer?)?;
        let layers = recipe.vectors.iter().flat_map(|vectors| &vectors.steps).map(Layer::load);
        let pipeline = Pipeline { layers: layers.collect::<Result<_>>()?, recipe, ..pipeline };
        if pipeline.recipe.vectors.is_some() {
            // A module that does not fit those before it is refused now and not with the first text.
            pipeline.dimensions(&Embed::default())?;
        }
        Ok(pipeline)
    }

    /// From its parts.
    pub fn new(model: impl Into<Model<f32, B>>, tokenizer: Tokenizer) -> Result<Self> {
        let model = model.into();
        let (tokens, vocabulary) = (tokenizer.len(), model.blueprint().vocabulary);
        if tokens > vocabulary {
            let expected = format!("at most the {vocabulary} of the model: they do not belong together");
            return Err(Error::input("the tokenizer's vocabulary", tokens, expected));
        }
        let (recipe, layers) = (Recipe::default(), Vec::new());
        let (max_tokens, batch_tokens, is_one_by_one) = (None, None, false);
        let seen = Default::default();
        Ok(Pipeline { model, tokenizer, recipe, layers, max_tokens, batch_tokens, is_one_by_one, seen })
    }

    /// Cuts texts to this many tokens, `[CLS]` and `[SEP]` included. Without it texts are cut where a folder of
    /// sentence-transformers says so; else nothing is cut, and a text of more than 65,536 tokens is an error.
    pub fn max_tokens(self, tokens: usize) -> Self {
        Pipeline { max_tokens: Some(tokens), ..self }
    }

    /// Runs texts in batches of at most this many tokens, padding included. A single text may have more. Otherwise they are 2048, which
    /// is few for a large GPU; and on a CPU where texts need no padding 64 for each thread, from 512 to 2048.
    pub fn batch_tokens(self, tokens: usize) -> Self {
        Pipeline { batch_tokens: Some(tokens.max(1)), ..self }
    }

    /// Tokens of a batch, as [`batch_tokens`](Self::batch_tokens) says.
    pub fn tokens_at_a_time(&self) -> usize {
        let [each, least] = PACKED_TOKENS;
        self.batch_tokens.unwrap_or_else(|| match self.packs_texts() {
            true => (each * rayon::current_num_threads()).clamp(least, BATCH_TOKENS),
            false => BATCH_TOKENS,
        })
    }

    /// Runs each text alone, never several at a time. On a GPU, where the order of sums depends on the size of a batch, a text then has the same
    /// bits whatever the other texts are, and many short texts take longer. On the CPU a text has them in any batch.
    pub fn one_by_one(self) -> Self {
        Pipeline { is_one_by_one: true, ..self }
    }

    /// The model.
    pub fn model(&self) -> &Model<f32, B> {
        &self.model
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// What the folder of the model says is done with texts.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// How many tokens of the texts so far the vocabulary did not have.
    pub fn unknown(&self) -> Unknown {
        let [tokens, unknown] = [0, 1].map(|index: usize| self.seen[index].load(Ordering::Relaxed));
        Unknown { tokens, unknown }
    }
}

/// The result of a task on one text.
fn only<T>(mut results: Vec<Result<T>>) -> Result<T> {
    results.pop().unwrap_or_else(|| Err(Error::input("the text", "none", "one")))
}

/// Probabilities in place of scores.
fn softmax(scores: &mut [f32]) {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut total = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        total += f64::from(*score);
    }
    scores.iter_mut().for_each(|score| *score = (f64::from(*score) / total) as f32);
}

/// The indices of the `count` largest numbers, from the largest on; equal ones in their order.
fn largest(numbers: &[f32], count: usize) -> Vec<usize> {
    let falling = |a: &usize, b: &usize| numbers[*b].total_cmp(&numbers[*a]).then(a.cmp(b));
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    if count < order.len() {
        order.select_nth_unstable_by(count, falling);
        order.truncate(count);
    }
    order.sort_unstable_by(falling);
    order
}
