//! What stands on the last layer: language models, classifiers, question answering, multiple choice; and the pooler.

use super::parameters::Parameters;
use super::products::{Norm, in_pieces, linear, vector};
use crate::blueprint::{Blueprint, HeadKind, Judged, SummaryOf};
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Part, Real, cap};

/// A head.
pub(super) struct Head<T: Real, B: Backend> {
    /// What stands before the scores, where anything does.
    transform: Option<Transform<T, B>>,
    scores: Scorer<T, B>,
}

/// The products of a head.
enum Scorer<T: Real, B: Backend> {
    None,
    /// The vocabulary.
    Language(B::Matrix<T>),
    /// A product and an activation where the family has them; then the labels.
    Text {
        dense: Option<B::Matrix<T>>,
        out: B::Matrix<T>,
    },
    Token(B::Matrix<T>),
    Question(B::Matrix<T>),
    Choice {
        summary: Option<B::Matrix<T>>,
        classifier: B::Matrix<T>,
    },
}

/// A product, an activation and a norm.
struct Transform<T: Real, B: Backend> {
    dense: B::Matrix<T>,
    activation: Activation,
    norm: Norm<T, B>,
}

/// Hidden states `[batch, length, width]`, and which of their tokens are real.
pub(super) struct Hidden<'a, T: Real, B: Backend> {
    pub states: &'a B::Buffer<T>,
    pub batch: usize,
    pub length: usize,
    pub mask: Option<&'a [bool]>,
}

impl<T: Real, B: Backend> Head<T, B> {
    pub fn load(device: &B, source: &impl Parameters<T>, blueprint: &Blueprint) -> Result<Self> {
        let (names, width, classes) = (blueprint.family.names(), blueprint.width, blueprint.classes());
        let product = |name: &str, outputs: usize, has_bias: bool| {
            linear(device, source, &[name.to_string()], [outputs, width], has_bias)
        };
        let transform = match blueprint.transform() {
            Some(activation) => {
                let [dense, norm] = names.transform;
                Some(Transform {
                    dense: product(dense, blueprint.embedding, blueprint.output.transform_has_bias)?,
                    activation,
                    norm: Norm::load(device, source, blueprint, norm, blueprint.embedding)?,
                })
            }
            None => None,
        };
        let scores = match blueprint.head {
            HeadKind::None => Scorer::None,
            HeadKind::MaskedLm | HeadKind::CausalLm => Scorer::Language(output(device, source, blueprint)?),
            HeadKind::SequenceClassification => {
                let [dense, out] = names.text;
                let dense = names.judges_by_first().then(|| product(dense, width, true)).transpose()?;
                Scorer::Text { dense, out: product(out, classes, names.text_has_bias)? }
            }
            HeadKind::TokenClassification => Scorer::Token(product(names.token, classes, true)?),
            HeadKind::QuestionAnswering => Scorer::Question(product(names.question, 2, true)?),
            HeadKind::MultipleChoice => {
                let [summary, classifier] = names.choice;
                let summary = blueprint.summary.has_projection.then(|| product(summary, width, true));
                Scorer::Choice { summary: summary.transpose()?, classifier: product(classifier, 1, true)? }
            }
        };
        Ok(Head { transform, scores })
    }

    /// Scores for hidden states.
    pub fn forward(
        &self,
        device: &B,
        blueprint: &Blueprint,
        hidden: &Hidden<T, B>,
        scores: Scores,
    ) -> Result<Option<Logits<T>>> {
        let Hidden { states, batch, length, .. } = *hidden;
        let (width, tokens, classes) = (blueprint.width, batch * length, blueprint.classes());
        let each = |matrix: &B::Matrix<T>, x: &B::Buffer<T>, activation, rows: usize, outputs: usize| {
            let mut out = memory(device, rows, outputs)?;
            device.product(matrix, x, activation, &mut out)?;
            Ok::<_, Error>(out)
        };
        let plain = Activation::Identity;
        if matches!(scores, Scores::At([])) {
            return Ok(None);
        }
        // What the transform makes of rows of hidden states; the rows themselves where there is none.
        let transformed = |x: &B::Buffer<T>, rows: usize| match &self.transform {
            None => Ok(None),
            Some(Transform { dense, activation, norm }) => {
                let mut x = each(dense, x, *activation, rows, blueprint.embedding)?;
                norm.apply(device, &mut x, None)?;
                Ok::<_, Error>(Some(x))
            }
        };
        let (scores, shape) = match &self.scores {
            Scorer::None => return Ok(None),
            Scorer::Language(output) => {
                let vocabulary = blueprint.vocabulary;
                let mut picked = None;
                let (rows, shape) = match scores {
                    Scores::All => (tokens, vec![batch, length, vocabulary]),
                    Scores::At(list) => {
                        picked = Some(pick(device, states, width, list.iter().copied())?);
                        (list.len(), vec![list.len(), vocabulary])
                    }
                };
                let x = picked.as_ref().unwrap_or(states);
                let made = transformed(x, rows)?;
                (each(output, made.as_ref().unwrap_or(x), plain, rows, vocabulary)?, shape)
            }
            Scorer::Text { dense, out } => {
                let read =
                    (0..batch).map(|text| text * length + hidden.judged(text, dense.is_some(), blueprint));
                let activation = blueprint.text_activation();
                let mut x = match blueprint.judged {
                    Judged::Token | Judged::Last => pick(device, states, width, read)?,
                    Judged::Mean => hidden.means(device, states, width)?,
                    Judged::MeanOfFirst => {
                        let made = dense.as_ref().map(|dense| each(dense, states, activation, tokens, width));
                        hidden.means(device, made.transpose()?.as_ref().unwrap_or(states), width)?
                    }
                };
                if let Some(dense) = dense.as_ref().filter(|_| blueprint.judged != Judged::MeanOfFirst) {
                    x = each(dense, &x, activation, batch, width)?;
                }
                let x = transformed(&x, batch)?.unwrap_or(x);
                (each(out, &x, plain, batch, classes)?, vec![batch, classes])
            }
            Scorer::Token(out) | Scorer::Question(out) => {
                let scores = if blueprint.head == HeadKind::QuestionAnswering { 2 } else { classes };
                let made = transformed(states, tokens)?;
                let out = each(out, made.as_ref().unwrap_or(states), plain, tokens, scores)?;
                (out, vec![batch, length, scores])
            }
            Scorer::Choice { summary, classifier } => {
                let at = |token: usize| (0..batch).map(move |text| text * length + token);
                let mut x = match blueprint.summary.of {
                    SummaryOf::First => pick(device, states, width, at(0))?,
                    SummaryOf::Last => pick(device, states, width, at(length - 1))?,
                    SummaryOf::FirstReal => {
                        let is_real = |text: usize, token: &usize| {
                            hidden.mask.is_none_or(|mask| mask[text * length + token])
                        };
                        let first = |text| (0..length).find(|token| is_real(text, token)).unwrap_or(0);
                        let read = (0..batch).map(|text| text * length + first(text));
                        pick(device, states, width, read)?
                    }
                    SummaryOf::MeanReal => hidden.means(device, states, width)?,
                    SummaryOf::Mean => {
                        let mut out = memory(device, batch, width)?;
                        device.mean(states, [batch, length, width], &mut out)?;
                        out
                    }
                };
                if let Some(summary) = summary {
                    x = each(summary, &x, blueprint.summary.activation, batch, width)?;
                }
                let x = transformed(&x, batch)?.unwrap_or(x);
                (each(classifier, &x, plain, batch, 1)?, vec![batch])
            }
        };
        let list = device.list(&scores, shape.iter().product());
        let mut scores = list.map_err(Error::for_want_of("the scores"))?;
        if let (Some(limit), true) = (blueprint.output.cap, blueprint.head.is_language_model()) {
            cap::apply(&mut scores, limit);
        }
        Ok(Some(Logits { scores, shape }))
    }
}

impl<T: Real, B: Backend> Hidden<'_, T, B> {
    /// The token that a text is judged by: its first, or where that is asked for or the text causal, the last real one.
    fn judged(&self, text: usize, is_by_first: bool, blueprint: &Blueprint) -> usize {
        let is_by_last = blueprint.judged == Judged::Last || blueprint.is_causal() && !is_by_first;
        if !is_by_last {
            return 0;
        }
        let is_real = |token: &usize| self.mask.is_none_or(|mask| mask[text * self.length + token]);
        (0..self.length).rev().find(is_real).unwrap_or(self.length - 1)
    }
}

impl<T: Real, B: Backend> Hidden<'_, T, B> {
    /// The means over the texts' real tokens of rows `[batch, length, width]`: `[batch, width]`.
    fn means(&self, device: &B, rows: &B::Buffer<T>, width: usize) -> Result<B::Buffer<T>> {
        let Hidden { batch, length, mask, .. } = *self;
        let list = device.list(rows, batch * length * width).map_err(Error::for_want_of("the scores"))?;
        let mut means = vec![T::ZERO; batch * width];
        for (text, mean) in means.chunks_exact_mut(width).enumerate() {
            let is_real = |token: &usize| mask.is_none_or(|mask| mask[text * length + token]);
            let real: Vec<usize> = (0..length).filter(is_real).collect();
            for &token in &real {
                let row = &list[(text * length + token) * width..][..width];
                mean.iter_mut().zip(row).for_each(|(mean, &x)| *mean += x);
            }
            let count = T::of(real.len().max(1) as f64);
            mean.iter_mut().for_each(|mean| *mean = *mean / count);
        }
        let mut out = memory(device, batch, width)?;
        device.upload(&means, &mut out)?;
        Ok(out)
    }
}

/// The output layer of a language model: the word embeddings where it is tied.
fn output<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    blueprint: &Blueprint,
) -> Result<B::Matrix<T>> {
    let (names, shape) = (blueprint.family.names(), [blueprint.vocabulary, blueprint.embedding]);
    let matrix = device.matrix(shape[0], shape[1]);
    let mut matrix = matrix.map_err(Error::for_want_of("the output layer"))?;
    let name = if blueprint.output.is_tied { names.words } else { names.output };
    in_pieces(source, &format!("{name}.weight"), shape, |first, rows| {
        if blueprint.output_scale != 1.0 {
            rows.iter_mut().for_each(|x| *x *= T::of(blueprint.output_scale));
        }
        Ok(device.set_rows(&mut matrix, first, rows)?)
    })?;
    if blueprint.output.has_bias {
        let bias = match blueprint.output.is_tied {
            true => names.tied_bias.to_string(),
            false => format!("{}.bias", names.output),
        };
        device.set_bias(&mut matrix, 0, &vector(source, &bias, shape[0])?)?;
    }
    Ok(matrix)
}

/// Some rows of `[…, width]`.
fn pick<T: Real, B: Backend>(
    device: &B,
    from: &B::Buffer<T>,
    width: usize,
    rows: impl ExactSizeIterator<Item = usize>,
) -> Result<B::Buffer<T>> {
    let mut out = memory(device, rows.len(), width)?;
    for (row, from_row) in rows.enumerate() {
        let part = Part { buffer: from, offset: from_row * width, token: width, sequence: width };
        device.copy(part, &mut out, (row * width, width, width), [1, 1, width])?;
    }
    Ok(out)
}

fn memory<T: Real, B: Backend>(device: &B, rows: usize, width: usize) -> Result<B::Buffer<T>> {
    let len = rows.checked_mul(width).ok_or(Error::memory("the scores"))?;
    device.zeros(len).map_err(Error::for_want_of("the scores"))
}

/// RoFormer-Sim's vector of a text: a product of the first token's hidden state.
pub(super) struct Pooler<T: Real, B: Backend>(B::Matrix<T>, Activation);

impl<T: Real, B: Backend> Pooler<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        blueprint: &Blueprint,
        activation: Activation,
    ) -> Result<Self> {
        let (width, name) = (blueprint.width, blueprint.family.names().pooler.to_string());
        Ok(Pooler(linear(device, source, &[name], [width, width], true)?, activation))
    }

    /// `[batch, width]` from hidden states.
    pub fn forward(&self, device: &B, hidden: &Hidden<T, B>, width: usize) -> Result<Vec<T>> {
        let Hidden { states, batch, length, .. } = *hidden;
        let first = pick(device, states, width, (0..batch).map(|text| text * length))?;
        let mut out = memory(device, batch, width)?;
        device.product(&self.0, &first, self.1, &mut out)?;
        device.list(&out, batch * width).map_err(Error::for_want_of("the pooled output"))
    }
}

/// Which tokens a language model scores: a vocabulary of scores for each token of a batch is much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scores<'a> {
    /// All of them.
    #[default]
    All,
    /// Those at these places of `[batch · length]`; the scores are then `[places, vocabulary]`. Other heads than a
    /// language model's score all the same, or nothing where the list is empty.
    At(&'a [usize]),
}

/// Scores and their shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits<T> {
    /// Row by row.
    pub scores: Vec<T>,
    /// `[batch, length, vocabulary or labels]`, `[batch, labels]`, or `[batch]` for multiple choice; `[places, vocabulary]`
    /// where only some tokens were asked for.
    pub shape: Vec<usize>,
}
