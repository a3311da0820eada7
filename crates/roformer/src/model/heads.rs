//! What stands on the encoder: language models, classifiers, question answering, multiple choice.

use super::config::RoFormerConfig;
use super::layer::{Norm, linear, vector};
use super::parameters::Parameters;
use crate::error::{Error, Result};
use crate::ops::{Activation, Matrix, Memory, Real};

/// The heads that Hugging Face defines for RoFormer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// None: the encoder alone.
    None,
    /// A score of every token of the vocabulary at every position.
    MaskedLm,
    /// The same, for the next token.
    CausalLm,
    /// A score of every label for the whole text.
    SequenceClassification,
    /// A score of every label at every position.
    TokenClassification,
    /// How likely an answer starts and ends at every position.
    QuestionAnswering,
    /// A score of each of several texts.
    MultipleChoice,
}

impl HeadKind {
    /// From an entry of `architectures`.
    pub fn from_architecture(name: &str) -> Option<Self> {
        Some(match name {
            "RoFormerModel" => HeadKind::None,
            "RoFormerForMaskedLM" => HeadKind::MaskedLm,
            "RoFormerForCausalLM" => HeadKind::CausalLm,
            "RoFormerForSequenceClassification" => HeadKind::SequenceClassification,
            "RoFormerForTokenClassification" => HeadKind::TokenClassification,
            "RoFormerForQuestionAnswering" => HeadKind::QuestionAnswering,
            "RoFormerForMultipleChoice" => HeadKind::MultipleChoice,
            _ => return None,
        })
    }
}

/// The parameters of a head.
pub(super) enum Head<T> {
    None,
    /// Dense, activation, norm, then the vocabulary.
    Language {
        transform: Matrix<T>,
        norm: Norm<T>,
        decoder: Matrix<T>,
    },
    Sequence {
        dense: Matrix<T>,
        out: Matrix<T>,
    },
    Token(Matrix<T>),
    Question(Matrix<T>),
    Choice {
        summary: Option<Matrix<T>>,
        classifier: Matrix<T>,
    },
}

impl<T: Real> Head<T> {
    pub fn load(
        source: &impl Parameters<T>,
        config: &RoFormerConfig,
        kind: HeadKind,
        words: &[T],
    ) -> Result<Self> {
        let (hidden, embedding) = (config.hidden_size, config.embedding_size);
        let one = |name: &str, outputs: usize| linear(source, &[name.to_string()], outputs, hidden);
        Ok(match kind {
            HeadKind::None => Head::None,
            HeadKind::MaskedLm | HeadKind::CausalLm => {
                let mut decoder = Matrix::zeros(config.vocab_size, embedding)
                    .ok_or(Error::Memory { what: "the output layer" })?;
                // A tied output is the word embeddings, and its bias has a name of its own.
                let bias = match config.tie_word_embeddings {
                    true => {
                        decoder.set_rows(0, words);
                        "cls.predictions.bias"
                    }
                    false => {
                        let shape = [config.vocab_size, embedding];
                        let mut rows = Memory::zeros(shape[0] * shape[1])
                            .ok_or(Error::Memory { what: "the output layer" })?;
                        source.read("cls.predictions.decoder.weight", &shape, &mut rows)?;
                        decoder.set_rows(0, &rows);
                        "cls.predictions.decoder.bias"
                    }
                };
                decoder.set_bias(0, &vector(source, bias, config.vocab_size)?);
                let norm = "cls.predictions.transform.LayerNorm";
                Head::Language {
                    transform: one("cls.predictions.transform.dense", embedding)?,
                    norm: Norm::load(source, norm, embedding, config.layer_norm_eps)?,
                    decoder,
                }
            }
            HeadKind::SequenceClassification => Head::Sequence {
                dense: one("classifier.dense", hidden)?,
                out: one("classifier.out_proj", config.num_labels)?,
            },
            HeadKind::TokenClassification => Head::Token(one("classifier", config.num_labels)?),
            HeadKind::QuestionAnswering => Head::Question(one("qa_outputs", 2)?),
            HeadKind::MultipleChoice => Head::Choice {
                summary: match config.summary_use_proj {
                    true => Some(one("sequence_summary.summary", hidden)?),
                    false => None,
                },
                classifier: one("classifier", 1)?,
            },
        })
    }

    /// Scores for hidden states `[batch, length, hidden]`, and how many there are to each row.
    pub fn forward(
        &self,
        config: &RoFormerConfig,
        hidden: &[T],
        batch: usize,
        length: usize,
    ) -> Result<Option<Logits<T>>> {
        let width = config.hidden_size;
        let memory = |len: usize| Memory::zeros(len).ok_or(Error::Memory { what: "the scores" });
        let each = |matrix: &Matrix<T>, x: &[T], activation: Activation| -> Result<Memory<T>> {
            let mut out = memory(x.len() / matrix.inputs() * matrix.outputs())?;
            matrix.apply(x, &mut out, activation);
            Ok(out)
        };
        // One vector a sequence.
        let pick = |token: usize| -> Vec<T> {
            (0..batch).flat_map(|b| hidden[(b * length + token) * width..][..width].iter().copied()).collect()
        };
        let (scores, shape) = match self {
            Head::None => return Ok(None),
            Head::Language { transform, norm, decoder } => {
                let mut x = each(transform, hidden, config.hidden_act)?;
                norm.apply(&mut x, &[]);
                (each(decoder, &x, Activation::Identity)?, vec![batch, length, config.vocab_size])
            }
            Head::Sequence { dense, out } => {
                let x = each(dense, &pick(0), config.hidden_act)?;
                (each(out, &x, Activation::Identity)?, vec![batch, config.num_labels])
            }
            Head::Token(out) => {
                (each(out, hidden, Activation::Identity)?, vec![batch, length, config.num_labels])
            }
            Head::Question(out) => (each(out, hidden, Activation::Identity)?, vec![batch, length, 2]),
            Head::Choice { summary, classifier } => {
                let mut x = match config.summary_type.as_str() {
                    "first" => pick(0),
                    "mean" => {
                        let scale = T::ONE / T::of(length as f64);
                        let mean = |b: usize, feature: usize| {
                            let token = |t: usize| hidden[(b * length + t) * width + feature];
                            (0..length).map(token).sum::<T>() * scale
                        };
                        (0..batch).flat_map(|b| (0..width).map(move |feature| mean(b, feature))).collect()
                    }
                    _ => pick(length - 1),
                };
                if let Some(summary) = summary {
                    x = each(summary, &x, config.summary_activation)?.to_vec();
                }
                (each(classifier, &x, Activation::Identity)?, vec![batch])
            }
        };
        Ok(Some(Logits { scores: scores.to_vec(), shape }))
    }
}

/// Scores and their shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits<T> {
    /// Row by row.
    pub scores: Vec<T>,
    /// `[batch, length, vocabulary or labels]`, `[batch, labels]`, or `[batch]` for multiple choice.
    pub shape: Vec<usize>,
}
