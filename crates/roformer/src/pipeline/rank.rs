//! What is near a query: by vectors, or by a cross-encoder that reads the query with each text.

use super::batch::Row;
use super::{Embed, Pending, Pipeline, Prompt, Reader};
use crate::error::{Error, Result};
use crate::ops::Backend;
use rayon::prelude::*;

/// A text and how near it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Which of the texts.
    pub index: usize,
    /// Its score: the similarity with the query, or what a cross-encoder says of the two.
    pub score: f32,
}

/// A query that texts are scored against.
pub struct Query<'a> {
    options: Embed<'a>,
    form: Form,
}

enum Form {
    Vector(Vec<f32>),
    /// The text with its prompt, for a cross-encoder.
    Text(String),
}

impl<B: Backend> Pipeline<B> {
    /// Whether pairs of texts are scored by a model that reads both at once.
    pub fn is_cross_encoder(&self) -> bool {
        self.recipe.pairs.is_some()
    }

    /// Makes a query of a text, for [`nearness`](Self::nearness). The prompt of the options is the query's; where none is asked
    /// for, it is the folder's prompt for queries.
    pub fn query<'a>(&self, text: &str, options: Embed<'a>) -> Result<Query<'a>> {
        if let (true, Some(dimensions)) = (self.is_cross_encoder(), options.dimensions) {
            let expected = "none: a cross-encoder scores texts without vectors";
            return Err(Error::input("the number of dimensions", dimensions, expected));
        }
        let form = match self.is_cross_encoder() {
            true => Form::Text(format!("{}{text}", self.reader().prompt_text(options.prompt)?)),
            false => {
                let prompt = match options.prompt {
                    Prompt::Usual => Prompt::Query,
                    prompt => prompt,
                };
                Form::Vector(self.embed(text, Embed { prompt, ..options })?)
            }
        };
        Ok(Query { options, form })
    }

    /// How near texts are to a query. Their prompt is the folder's for documents.
    pub fn nearness(&self, query: &Query, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<f32>> {
        match (&query.form, &self.recipe.pairs) {
            (Form::Text(text), Some(pairs)) => {
                let judged = self.run_all(self.reader().judge_all(text, texts));
                let score = |number: f32| {
                    let mut score = [number];
                    pairs.activation.apply(&mut score);
                    score[0]
                };
                judged.into_iter().map(|number| number.map(score)).collect()
            }
            (Form::Vector(vector), _) => {
                let options = Embed { prompt: Prompt::Document, ..query.options };
                let function = self.similarity_function();
                let vectors = self.embed_all(texts, options).into_iter();
                vectors.map(|other| Ok(function.of(vector, &other?))).collect()
            }
            (Form::Text(_), None) => {
                let foreign = || Error::input("the query", "of a cross-encoder", "a query of this pipeline");
                texts.iter().map(|_| Err(foreign())).collect()
            }
        }
    }

    /// Texts by how near they are to a query, the nearest first; of equal ones the earlier.
    pub fn rank(&self, query: &str, texts: &[impl AsRef<str> + Sync]) -> Result<Vec<Ranked>> {
        let query = self.query(query, Embed::default())?;
        let scores = self.nearness(&query, texts).into_iter().enumerate();
        let ranked = scores.map(|(index, score)| Ok(Ranked { index, score: score? }));
        let mut ranked = ranked.collect::<Result<Vec<_>>>()?;
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(ranked)
    }
}

impl Reader<'_> {
    /// What a cross-encoder says of a query and each text: the number itself, before the folder's activation.
    pub fn judge_all(&self, query: &str, texts: &[impl AsRef<str> + Sync]) -> Vec<Result<Pending<f32>>> {
        let Some(pairs) = &self.recipe.pairs else {
            let wanted = "a cross-encoder: a classifier with one label";
            return texts.iter().map(|_| Err(self.lacks("scores of pairs", wanted))).collect();
        };
        let most = self.max_tokens.or(pairs.longest);
        let read = |text: &str| {
            let encoding = self.encode_cut(query, Some(text), most)?;
            Ok(Pending::new(encoding, Vec::new(), |_: Reader, _, row: Row| {
                Ok(row.scores.first().copied().unwrap_or(f32::NAN))
            }))
        };
        texts.par_iter().map(|text| read(text.as_ref())).collect()
    }
}
