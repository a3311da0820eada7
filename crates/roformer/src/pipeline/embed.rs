//! Vectors of texts, made as the model's folder says.

use super::batch::Row;
use super::reader::Wanted;
use super::{Pending, Pipeline, Reader, only};
use crate::error::{Error, Result};
use crate::ops::Backend;
use crate::sentence::{Pooling, Product, Similarity, Step};
use crate::tokenizer::Encoding;
use rayon::prelude::*;
use std::sync::Arc;

/// How texts are embedded. What is not given is as the folder of the model says, if it is one of sentence-transformers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embed<'a> {
    /// The pooling; else the folder's, else the model's pooler, or the mean where there is none.
    pub pooling: Option<Pooling>,
    /// Whether vectors are scaled to length 1, after all else.
    pub normalize: bool,
    /// What stands before a text.
    pub prompt: Prompt<'a>,
    /// How many numbers of a vector are kept, the first ones; else as many as the folder says, else all.
    pub dimensions: Option<usize>,
}

/// What stands before a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prompt<'a> {
    /// The folder's default prompt, if it has one.
    #[default]
    Usual,
    /// The folder's prompt for queries, if it has one.
    Query,
    /// The folder's prompt for what queries look for, if it has one.
    Document,
    /// The folder's prompt of this name.
    Named(&'a str),
    /// This text.
    Text(&'a str),
}

/// A module after the pooling, with its weights.
pub(super) enum Layer {
    Dense(Product),
    Normalize,
}

impl Layer {
    pub fn load(step: &Step) -> Result<Layer> {
        Ok(match step {
            Step::Dense(dense) => Layer::Dense(dense.load()?),
            Step::Normalize => Layer::Normalize,
        })
    }
}

/// What is done with the texts of one call.
struct Plan {
    poolings: Vec<Pooling>,
    /// Tokens of the prompt that are not pooled.
    skipped: usize,
    dimensions: usize,
    normalize: bool,
}

impl<B: Backend> Pipeline<B> {
    /// The vector of a text, `[dimensions]`.
    pub fn embed(&self, text: &str, options: Embed) -> Result<Vec<f32>> {
        only(self.embed_all(&[text], options))
    }

    /// The vectors of many texts.
    pub fn embed_all(&self, texts: &[impl AsRef<str> + Sync], options: Embed) -> Vec<Result<Vec<f32>>> {
        self.run_all(self.reader().embed_all(texts, options))
    }

    /// The vectors of all tokens of many texts, special ones included: the last hidden states as they are.
    pub fn embed_tokens_all(
        &self,
        texts: &[impl AsRef<str> + Sync],
        prompt: Prompt,
    ) -> Vec<Result<Vec<Vec<f32>>>> {
        self.run_all(self.reader().embed_tokens_all(texts, prompt))
    }

    /// How many numbers a vector has that is made so.
    pub fn dimensions(&self, options: &Embed) -> Result<usize> {
        self.reader().dimensions(options)
    }

    /// How vectors of this model are compared.
    pub fn similarity_function(&self) -> Similarity {
        self.reader().similarity_function()
    }

    /// How alike two texts are: their vectors, compared as the folder of the model says, or by their cosine.
    pub fn similarity(&self, a: &str, b: &str) -> Result<f32> {
        only(self.similarity_all(&[(a, b)], Embed::default()))
    }

    /// The same for many pairs.
    pub fn similarity_all(
        &self,
        pairs: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
        options: Embed,
    ) -> Vec<Result<f32>> {
        let texts: Vec<&str> = pairs.iter().flat_map(|(a, b)| [a.as_ref(), b.as_ref()]).collect();
        let mut vectors = self.embed_all(&texts, options).into_iter();
        let pair = || Some((vectors.next()?, vectors.next()?));
        let function = self.similarity_function();
        std::iter::from_fn(pair).map(|(a, b)| Ok(function.of(&a?, &b?))).collect()
    }
}

impl<'p> Reader<'p> {
    /// The vectors of many texts.
    pub fn embed_all(
        &self,
        texts: &[impl AsRef<str> + Sync],
        options: Embed,
    ) -> Vec<Result<Pending<Vec<f32>>>> {
        let Ok((plan, prompt)) = self.plan(&options) else {
            // No text can be used, and each has its own error.
            return texts.iter().filter_map(|_| self.plan(&options).err()).map(Err).collect();
        };
        let plan = Arc::new(plan);
        let encodings = self.encode_prompted(texts, prompt);
        encodings.into_iter().map(|encoding| self.vector_of(encoding?, plan.clone())).collect()
    }

    /// The vectors of many texts that are tokens already, special ones included. No prompt stands before them.
    pub fn embed_ids_all(
        &self,
        texts: &[impl AsRef<[u32]> + Sync],
        options: Embed,
    ) -> Vec<Result<Pending<Vec<f32>>>> {
        let options = Embed { prompt: Prompt::Text(""), ..options };
        let Ok((plan, _)) = self.plan(&options) else {
            return texts.iter().filter_map(|_| self.plan(&options).err()).map(Err).collect();
        };
        let plan = Arc::new(plan);
        texts.iter().map(|ids| self.vector_of(self.take_ids(ids.as_ref())?, plan.clone())).collect()
    }

    /// The vectors of all tokens of many texts, special ones included.
    pub fn embed_tokens_all(
        &self,
        texts: &[impl AsRef<str> + Sync],
        prompt: Prompt,
    ) -> Vec<Result<Pending<Vec<Vec<f32>>>>> {
        let Ok(prompt) = self.prompt_text(prompt) else {
            return texts.iter().filter_map(|_| self.prompt_text(prompt).err()).map(Err).collect();
        };
        let rows = |encoding| {
            Pending::new(encoding, Vec::new(), |reader: Reader, _, row: Row| {
                Ok(row.states.chunks_exact(reader.blueprint.width).map(<[f32]>::to_vec).collect())
            })
            .of(Wanted::All)
        };
        self.encode_prompted(texts, prompt).into_iter().map(|encoding| encoding.map(rows)).collect()
    }

    /// How many numbers a vector has that is made so.
    pub fn dimensions(&self, options: &Embed) -> Result<usize> {
        Ok(self.plan(options)?.0.dimensions)
    }

    /// How vectors of this model are compared.
    pub fn similarity_function(&self) -> Similarity {
        self.recipe.vectors.as_ref().map_or(Similarity::default(), |vectors| vectors.similarity)
    }

    /// The tokens of many texts behind a prompt.
    fn encode_prompted(&self, texts: &[impl AsRef<str> + Sync], prompt: &str) -> Vec<Result<Encoding>> {
        match prompt {
            "" => self.encode_all(texts),
            prompt => {
                let prompted = |text: &str| self.encode(&format!("{prompt}{text}"), None);
                texts.par_iter().map(|text| prompted(text.as_ref())).collect()
            }
        }
    }

    /// The text of a prompt.
    pub(super) fn prompt_text<'a>(&self, prompt: Prompt<'a>) -> Result<&'a str>
    where
        'p: 'a,
    {
        let prompts = &self.recipe.prompts;
        match prompt {
            Prompt::Usual => Ok(prompts.usual()),
            Prompt::Query => Ok(prompts.known("query")),
            Prompt::Document => Ok(prompts.known("document")),
            Prompt::Named(name) => prompts.get(name),
            Prompt::Text(text) => Ok(text),
        }
    }

    /// What is done, and the prompt that stands before the texts.
    fn plan<'a>(&self, options: &Embed<'a>) -> Result<(Plan, &'a str)>
    where
        'p: 'a,
    {
        let vectors = self.recipe.vectors.as_ref();
        let poolings = match (options.pooling, vectors) {
            (Some(pooling), _) => vec![pooling],
            (None, Some(vectors)) => vectors.poolings.clone(),
            (None, None) if self.blueprint.pooler.is_some() => vec![Pooling::Pooler],
            (None, None) => vec![Pooling::Mean],
        };
        let prompt = self.prompt_text(options.prompt)?;
        let skipped = match vectors {
            Some(vectors) if !vectors.includes_prompt && !prompt.is_empty() => self.prompt_tokens(prompt)?,
            _ => 0,
        };
        let width = self.width(poolings.len() * self.blueprint.width)?;
        let dimensions = match (options.dimensions, vectors.and_then(|vectors| vectors.dimensions)) {
            (Some(dimensions), _) if dimensions == 0 || dimensions > width => {
                let expected = format!("from 1 to {width}, which a vector of this model has");
                return Err(Error::input("the number of dimensions", dimensions, expected));
            }
            (Some(dimensions), _) => dimensions,
            (None, folder) => folder.map_or(width, |dimensions| dimensions.min(width)),
        };
        Ok((Plan { poolings, skipped, dimensions, normalize: options.normalize }, prompt))
    }

    /// How many tokens of a text are those of the prompt before it. What ends a text does not count.
    fn prompt_tokens(&self, prompt: &str) -> Result<usize> {
        let encoding = match self.max_tokens.or(self.recipe.longest) {
            Some(tokens) => self.tokenizer.encode_cut(prompt, None, tokens)?,
            None => self.tokenizer.encode(prompt)?,
        };
        let ends = encoding.ids.last().is_some_and(|&id| self.tokenizer.is_special(id));
        Ok(encoding.len() - usize::from(ends))
    }

    /// The numbers of a vector after the modules, from those before them.
    fn width(&self, mut width: usize) -> Result<usize> {
        for layer in self.layers {
            if let Layer::Dense(dense) = layer {
                width = dense.width_of(width)?;
            }
        }
        Ok(width)
    }

    /// A text whose vector is asked for.
    fn vector_of(&self, encoding: Encoding, plan: Arc<Plan>) -> Result<Pending<Vec<f32>>> {
        let tokens = encoding.len();
        let of_tokens = plan.poolings.iter().filter(|&&pooling| !self.is_made_by_model(pooling));
        let spans = of_tokens.map(|pooling| pooling.span(tokens, plan.skipped)).collect::<Result<_>>()?;
        let finish = move |reader: Reader, _: &Encoding, row: Row| reader.vector(&plan, row);
        Ok(Pending::new(encoding, Vec::new(), finish).of(Wanted::Pooled(spans)))
    }

    /// Whether a pooling is the model's own, and not of its tokens.
    fn is_made_by_model(&self, pooling: Pooling) -> bool {
        pooling == Pooling::Pooler && self.blueprint.pooler.is_some()
    }

    /// The vector of a text, from what the model made of it.
    fn vector(&self, plan: &Plan, row: Row) -> Result<Vec<f32>> {
        let mut vector = Vec::new();
        let mut of_tokens = row.states.chunks_exact(self.blueprint.width);
        for &pooling in &plan.poolings {
            let own = row.pooled.filter(|_| self.is_made_by_model(pooling));
            vector.extend_from_slice(own.or_else(|| of_tokens.next()).unwrap_or_default());
        }
        for layer in self.layers {
            match layer {
                Layer::Dense(dense) => vector = dense.apply(&vector)?,
                Layer::Normalize => normalize(&mut vector),
            }
        }
        // Cut after the folder's own scaling and before the caller's: so it is in sentence-transformers.
        vector.truncate(plan.dimensions);
        if plan.normalize {
            normalize(&mut vector);
        }
        Ok(vector)
    }
}

/// Scales a vector to length 1, unless it is zero.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}
