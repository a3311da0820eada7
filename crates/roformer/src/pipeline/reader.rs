//! What comes before the model and after it: texts become tokens, and what the model gives becomes an answer.

use super::batch::Row;
use super::embed::Layer;
use super::{MAX_TOKENS, Pipeline};
use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::model::HeadKind;
use crate::ops::{Backend, Span};
use crate::sentence::Recipe;
use crate::tokenizer::{Encoding, Tokenizer, Unknown};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads texts for a model, wherever that runs. Its methods have the names of the pipeline's and give, in place of answers, what
/// waits for the model: [`Pipeline::run_all`] makes answers of them, those of many callers in one batch.
///
/// ```no_run
/// # use roformer::{Pipeline, pipeline::Embed};
/// let roformer = Pipeline::load("junnyu/roformer_chinese_sim_char_base")?;
/// let pending = roformer.reader().cut_to(512).embed_all(&["今天天气不错"], Embed::default());
/// let vectors = roformer.run_all(pending);
/// # Ok::<(), roformer::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Reader<'p> {
    pub(super) tokenizer: &'p Tokenizer,
    pub(super) blueprint: &'p Blueprint,
    pub(super) head: HeadKind,
    pub(super) recipe: &'p Recipe,
    pub(super) layers: &'p [Layer],
    pub(super) max_tokens: Option<usize>,
    cuts_front: bool,
    seen: &'p [AtomicU64; 2],
}

/// A text that has been read and waits for the model: its tokens, and what is made of what the model gives for them.
pub struct Pending<T> {
    pub(super) encoding: Encoding,
    /// The tokens that a language model scores.
    pub(super) places: Vec<usize>,
    /// What is read of the hidden states.
    pub(super) states: Wanted,
    pub(super) finish: Finish<T>,
}

/// What an answer is made of, of the hidden states of a text.
pub(super) enum Wanted {
    /// All of them.
    All,
    /// What these spans of its tokens come to; none where the answer is made of scores.
    Pooled(Vec<Span>),
}

/// What makes an answer. It is handed a reader, and does not hold one, so that it can wait in a queue for any copy of its model.
pub(super) type Finish<T> = Box<dyn FnOnce(Reader, &Encoding, Row) -> Result<T> + Send>;

impl<T: 'static> Pending<T> {
    pub(super) fn new(
        encoding: Encoding,
        places: Vec<usize>,
        finish: impl FnOnce(Reader, &Encoding, Row) -> Result<T> + Send + 'static,
    ) -> Self {
        Pending { encoding, places, states: Wanted::Pooled(Vec::new()), finish: Box::new(finish) }
    }

    /// The same with an answer that is made of hidden states.
    pub(super) fn of(self, states: Wanted) -> Self {
        Pending { states, ..self }
    }

    /// How many tokens the model will read.
    pub fn tokens(&self) -> usize {
        self.encoding.len()
    }

    /// The same with something else made of the answer, right after the model.
    pub fn map<U: 'static>(self, change: impl FnOnce(T) -> U + Send + 'static) -> Pending<U> {
        let Pending { encoding, places, states, finish } = self;
        Pending::new(encoding, places, move |reader, encoding, row| finish(reader, encoding, row).map(change))
            .of(states)
    }
}

impl<B: Backend> Pipeline<B> {
    /// What reads texts for this model.
    pub fn reader(&self) -> Reader<'_> {
        Reader {
            tokenizer: &self.tokenizer,
            blueprint: self.model.blueprint(),
            head: self.model.head(),
            recipe: &self.recipe,
            layers: &self.layers,
            max_tokens: self.max_tokens,
            cuts_front: false,
            seen: &self.seen,
        }
    }
}

impl<'p> Reader<'p> {
    /// The same, cutting texts to this many tokens, as [`Pipeline::max_tokens`] does.
    pub fn cut_to(self, tokens: usize) -> Self {
        Reader { max_tokens: Some(tokens), ..self }
    }

    /// The same, cutting single texts at their beginning in place of their end.
    pub fn cut_in_front(self) -> Self {
        Reader { cuts_front: true, ..self }
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &'p Tokenizer {
        self.tokenizer
    }

    /// What the model is.
    pub fn blueprint(&self) -> &'p Blueprint {
        self.blueprint
    }

    /// The head that the model has.
    pub fn head(&self) -> HeadKind {
        self.head
    }

    /// What the folder of the model says is done with texts.
    pub fn recipe(&self) -> &'p Recipe {
        self.recipe
    }

    /// The tokens of a text, or of two, cut where asked or where the folder says.
    pub(super) fn encode(&self, text: &str, pair: Option<&str>) -> Result<Encoding> {
        self.encode_cut(text, pair, self.max_tokens.or(self.recipe.longest))
    }

    /// The same, cut to so many tokens.
    pub(super) fn encode_cut(&self, text: &str, pair: Option<&str>, most: Option<usize>) -> Result<Encoding> {
        let encoding = match (pair, most) {
            (None, Some(tokens)) if self.cuts_front => {
                let mut encoding = self.tokenizer.encode(text)?;
                encoding.truncate_front(tokens);
                encoding
            }
            (_, Some(tokens)) => self.tokenizer.encode_cut(text, pair, tokens)?,
            (None, None) => self.tokenizer.encode(text)?,
            (Some(pair), None) => self.tokenizer.encode_pair(text, pair)?,
        };
        if self.max_tokens.is_none() && encoding.len() > MAX_TOKENS {
            let expected = format!("at most {MAX_TOKENS}; set `max_tokens` to cut longer texts");
            return Err(Error::input("the number of tokens of a text", encoding.len(), expected));
        }
        if encoding.ids.is_empty() {
            return Err(Error::input("the text", "without tokens", "at least one"));
        }
        let mut seen = Unknown::default();
        let of_text = encoding.ids.iter().zip(&encoding.sequence).filter(|(_, text)| text.is_some());
        seen.add(of_text.map(|(&id, _)| id), self.tokenizer.unk_id());
        self.seen[0].fetch_add(seen.tokens, Ordering::Relaxed);
        self.seen[1].fetch_add(seen.unknown, Ordering::Relaxed);
        Ok(encoding)
    }

    /// Tokens that somebody else has made, special ones included, as one text. They are cut as a text is.
    pub(super) fn take_ids(&self, ids: &[u32]) -> Result<Encoding> {
        let vocabulary = self.blueprint.vocabulary;
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
            return Err(Error::input(
                "a token",
                id,
                format!("less than {vocabulary}, the vocabulary's size"),
            ));
        }
        if ids.is_empty() {
            return Err(Error::input("the text", "without tokens", "at least one"));
        }
        let most = self.max_tokens.or(self.recipe.longest).unwrap_or(MAX_TOKENS);
        let kept = ids.len().min(most);
        let ids = if self.cuts_front { &ids[ids.len() - kept..] } else { &ids[..kept] };
        Ok(Encoding {
            ids: ids.to_vec(),
            token_types: vec![0; kept],
            offsets: vec![(0, 0); kept],
            sequence: vec![Some(0); kept],
        })
    }

    /// The tokens of many texts, on all threads.
    pub(super) fn encode_all(&self, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<Encoding>> {
        texts.par_iter().map(|text| self.encode(text.as_ref(), None)).collect()
    }

    /// Refuses a task that the model has no head for.
    pub(super) fn require(&self, task: &'static str, fits: bool, wanted: &str) -> Result<()> {
        if fits { Ok(()) } else { Err(self.lacks(task, wanted)) }
    }

    /// That the model has no head for a task.
    pub(super) fn lacks(&self, task: &'static str, wanted: &str) -> Error {
        let has = match self.head {
            HeadKind::None => "no head",
            HeadKind::MaskedLm => "a masked language model's head",
            HeadKind::CausalLm => "a causal language model's head",
            HeadKind::SequenceClassification => "a head that classifies texts",
            HeadKind::TokenClassification => "a head that classifies tokens",
            HeadKind::QuestionAnswering => "a head that answers questions",
            HeadKind::MultipleChoice => "a head for multiple choice",
        };
        Error::input(task, format!("asked of a model with {has}"), wanted)
    }

    /// Whether the model scores the vocabulary.
    pub(super) fn is_language_model(&self) -> bool {
        matches!(self.head, HeadKind::MaskedLm | HeadKind::CausalLm)
    }
}
