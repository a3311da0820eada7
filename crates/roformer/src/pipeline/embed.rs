//! Vectors of texts, and what is near what.

use super::batch::{Row, nowhere};
use super::{Pipeline, only};
use crate::error::{Error, Result};
use crate::ops::Backend;
use crate::tokenizer::Encoding;

/// How the vectors of tokens become one of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The vector of the first token, `[CLS]`.
    Cls,
    /// The mean over all tokens, `[CLS]` and `[SEP]` included.
    Mean,
    /// The model's own pooler, which RoFormer-Sim has.
    Pooler,
}

/// How texts are embedded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Embed {
    /// The pooling; the model's pooler if it is not given, or the mean where there is none.
    pub pooling: Option<Pooling>,
    /// Whether vectors are scaled to length 1.
    pub normalize: bool,
}

/// A text and how near it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Which of the texts.
    pub index: usize,
    /// Its cosine with the query.
    pub score: f32,
}

impl<B: Backend> Pipeline<B> {
    /// The vector of a text, `[hidden]`.
    pub fn embed(&self, text: &str, options: Embed) -> Result<Vec<f32>> {
        only(self.embed_all(&[text], options))
    }

    /// The vectors of many texts.
    pub fn embed_all(&self, texts: &[impl AsRef<str> + Sync], options: Embed) -> Vec<Result<Vec<f32>>> {
        let has_pooler = self.model.blueprint().pooler.is_some();
        let pooling = options.pooling.unwrap_or(if has_pooler { Pooling::Pooler } else { Pooling::Mean });
        self.each(self.encode_all(texts), nowhere, |_: &Encoding, row: Row| {
            let width = self.model.blueprint().width;
            let mut vector = match pooling {
                Pooling::Cls => row.hidden[..width].to_vec(),
                Pooling::Mean => mean(row.hidden, width),
                Pooling::Pooler => match row.pooled {
                    Some(pooled) => pooled.to_vec(),
                    None => {
                        return Err(Error::input(
                            "the pooling",
                            "pooler",
                            "cls or mean: this model has no pooler (RoFormer-Sim has one)",
                        ));
                    }
                },
            };
            if options.normalize {
                let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                if length > 0.0 {
                    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
                }
            }
            Ok(vector)
        })
    }

    /// How alike two texts are: the cosine of their vectors.
    pub fn similarity(&self, a: &str, b: &str) -> Result<f32> {
        only(self.similarity_all(&[(a, b)]))
    }

    /// The same for many pairs.
    pub fn similarity_all(
        &self,
        pairs: &[(impl AsRef<str> + Sync, impl AsRef<str> + Sync)],
    ) -> Vec<Result<f32>> {
        let texts: Vec<&str> = pairs.iter().flat_map(|(a, b)| [a.as_ref(), b.as_ref()]).collect();
        let mut vectors = self.embed_all(&texts, Embed::default()).into_iter();
        let pair = || Some((vectors.next()?, vectors.next()?));
        std::iter::from_fn(pair).map(|(a, b)| Ok(cosine(&a?, &b?))).collect()
    }

    /// Texts by how near they are to a query, the nearest first.
    pub fn rank(&self, query: &str, texts: &[impl AsRef<str> + Sync]) -> Result<Vec<Ranked>> {
        let query = self.embed(query, Embed::default())?;
        let vectors = self.embed_all(texts, Embed::default()).into_iter().enumerate();
        let ranked = vectors.map(|(index, vector)| Ok(Ranked { index, score: cosine(&query, &vector?) }));
        let mut ranked = ranked.collect::<Result<Vec<_>>>()?;
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(ranked)
    }
}

/// The mean of rows, in f64.
fn mean(rows: &[f32], width: usize) -> Vec<f32> {
    let mut total = vec![0.0f64; width];
    for row in rows.chunks_exact(width) {
        total.iter_mut().zip(row).for_each(|(total, &x)| *total += f64::from(x));
    }
    let count = (rows.len() / width) as f64;
    total.iter().map(|total| (total / count) as f32).collect()
}

/// The cosine of the angle between two vectors; 0 where one of them is 0.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { (dot(a, b) / lengths) as f32 } else { 0.0 }
}
