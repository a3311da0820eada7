//! What stands on the encoder: language models, classifiers, question answering, multiple choice.

use super::config::RoFormerConfig;
use super::layer::{Norm, linear, vector};
use super::parameters::Parameters;
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Memory, Part, Real};

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
pub(super) enum Head<T: Real, B: Backend> {
    None,
    /// Dense, activation and norm, which RoFormerV2 has not; then the vocabulary.
    Language {
        transform: Option<(B::Matrix<T>, Norm<T, B>)>,
        decoder: B::Matrix<T>,
    },
    Sequence {
        dense: B::Matrix<T>,
        out: B::Matrix<T>,
    },
    Token(B::Matrix<T>),
    Question(B::Matrix<T>),
    Choice {
        summary: Option<B::Matrix<T>>,
        classifier: B::Matrix<T>,
    },
}

impl<T: Real, B: Backend> Head<T, B> {
    /// `words` are the word embeddings, `[vocabulary, embedding]`, for a tied output.
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        config: &RoFormerConfig,
        kind: HeadKind,
        words: &[T],
    ) -> Result<Self> {
        let (hidden, embedding) = (config.hidden_size, config.embedding_size);
        // Heads have biases where the layers have none.
        let one =
            |name: &str, outputs: usize| linear(device, source, &[name.to_string()], [outputs, hidden], true);
        Ok(match kind {
            HeadKind::None => Head::None,
            HeadKind::MaskedLm | HeadKind::CausalLm => {
                let name = "cls.predictions.transform";
                let transform = match config.rms_norm {
                    true if embedding != hidden => {
                        return Err(Error::Config {
                            field: "embedding_size".into(),
                            value: embedding.to_string(),
                            expected: format!(
                                "{hidden}, as hidden_size: RoFormerV2's output reads hidden states"
                            ),
                        });
                    }
                    true => None,
                    false => {
                        let norm =
                            Norm::load(device, source, config, &format!("{name}.LayerNorm"), embedding)?;
                        Some((one(&format!("{name}.dense"), embedding)?, norm))
                    }
                };
                Head::Language { transform, decoder: decoder(device, source, config, words)? }
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

    /// Scores for hidden states `[batch, length, hidden]`.
    pub fn forward(
        &self,
        device: &B,
        config: &RoFormerConfig,
        hidden: &B::Buffer<T>,
        [batch, length]: [usize; 2],
        scores: Scores,
    ) -> Result<Option<Logits<T>>> {
        let (width, tokens) = (config.hidden_size, batch * length);
        let memory = |rows: usize, width: usize| {
            device.zeros(rows.saturating_mul(width)).map_err(Error::for_want_of("the scores"))
        };
        let each = |matrix: &B::Matrix<T>, x: &B::Buffer<T>, activation, rows, outputs| {
            let mut out = memory(rows, outputs)?;
            device.product(matrix, x, activation, &mut out)?;
            Ok::<_, Error>(out)
        };
        let pick = |token: usize| pick(device, hidden, [batch, length, width], token);
        let plain = Activation::Identity;
        if matches!(scores, Scores::At([])) {
            return Ok(None);
        }
        let (scores, shape) = match self {
            Head::None => return Ok(None),
            Head::Language { transform, decoder } => {
                let vocabulary = config.vocab_size;
                let mut picked = None;
                let (rows, shape) = match scores {
                    Scores::All => (tokens, vec![batch, length, vocabulary]),
                    Scores::At(list) => {
                        let rows = picked.insert(memory(list.len(), width)?);
                        for (row, &token) in list.iter().enumerate() {
                            let at = (row * width, width, width);
                            let from =
                                Part { buffer: hidden, offset: token * width, token: width, sequence: width };
                            device.copy(from, rows, at, [1, 1, width])?;
                        }
                        (list.len(), vec![list.len(), vocabulary])
                    }
                };
                let x = picked.as_ref().unwrap_or(hidden);
                let out = match transform {
                    None => each(decoder, x, plain, rows, vocabulary)?,
                    Some((dense, norm)) => {
                        let mut x = each(dense, x, config.hidden_act, rows, config.embedding_size)?;
                        norm.apply(device, &mut x, None)?;
                        each(decoder, &x, plain, rows, vocabulary)?
                    }
                };
                (out, shape)
            }
            Head::Sequence { dense, out } => {
                let x = each(dense, &pick(0)?, config.hidden_act, batch, width)?;
                (each(out, &x, plain, batch, config.num_labels)?, vec![batch, config.num_labels])
            }
            Head::Token(out) => {
                let labels = config.num_labels;
                (each(out, hidden, plain, tokens, labels)?, vec![batch, length, labels])
            }
            Head::Question(out) => (each(out, hidden, plain, tokens, 2)?, vec![batch, length, 2]),
            Head::Choice { summary, classifier } => {
                let mut x = match config.summary_type.as_str() {
                    "first" => pick(0)?,
                    "mean" => {
                        let mut out = memory(batch, width)?;
                        device.mean(hidden, [batch, length, width], &mut out)?;
                        out
                    }
                    _ => pick(length - 1)?,
                };
                if let Some(summary) = summary {
                    x = each(summary, &x, config.summary_activation, batch, width)?;
                }
                (each(classifier, &x, plain, batch, 1)?, vec![batch])
            }
        };
        let list = device.list(&scores, shape.iter().product());
        let scores = list.map_err(Error::for_want_of("the scores"))?;
        Ok(Some(Logits { scores, shape }))
    }
}

/// The output layer of a language model: the word embeddings where it is tied.
fn decoder<T: Real, B: Backend>(
    device: &B,
    source: &impl Parameters<T>,
    config: &RoFormerConfig,
    words: &[T],
) -> Result<B::Matrix<T>> {
    let (vocabulary, embedding) = (config.vocab_size, config.embedding_size);
    let out_of_memory = || Error::Memory { what: "the output layer" };
    let mut decoder = device.matrix(vocabulary, embedding).map_err(Error::for_want_of("the output layer"))?;
    let bias = match config.tie_word_embeddings {
        true => {
            device.set_rows(&mut decoder, 0, words)?;
            "cls.predictions.bias"
        }
        false => {
            let mut rows = Memory::zeros(vocabulary * embedding).ok_or_else(out_of_memory)?;
            source.read("cls.predictions.decoder.weight", &[vocabulary, embedding], &mut rows)?;
            device.set_rows(&mut decoder, 0, &rows)?;
            "cls.predictions.decoder.bias"
        }
    };
    if !config.rms_norm {
        device.set_bias(&mut decoder, 0, &vector(source, bias, vocabulary)?)?;
    }
    Ok(decoder)
}

/// One token of every sequence of `[batch, length, width]`: `[batch, width]`.
fn pick<T: Real, B: Backend>(
    device: &B,
    hidden: &B::Buffer<T>,
    [batch, length, width]: [usize; 3],
    token: usize,
) -> Result<B::Buffer<T>> {
    let mut out = device.zeros(batch * width).map_err(Error::for_want_of("the scores"))?;
    let from = Part { buffer: hidden, offset: token * width, token: width, sequence: length * width };
    device.copy(from, &mut out, (0, width, width), [batch, 1, width])?;
    Ok(out)
}

/// RoFormer-Sim's vector of a text: a product of the first token's hidden state.
pub(super) struct Pooler<T: Real, B: Backend>(B::Matrix<T>);

impl<T: Real, B: Backend> Pooler<T, B> {
    pub fn load(device: &B, source: &impl Parameters<T>, config: &RoFormerConfig) -> Result<Self> {
        let (hidden, name) = (config.hidden_size, "roformer.pooler.dense".to_string());
        Ok(Pooler(linear(device, source, &[name], [hidden, hidden], true)?))
    }

    /// `[batch, hidden]` from hidden states `[batch, length, hidden]`.
    pub fn forward(
        &self,
        device: &B,
        config: &RoFormerConfig,
        hidden: &B::Buffer<T>,
        [batch, length]: [usize; 2],
    ) -> Result<Vec<T>> {
        let (width, what) = (config.hidden_size, "the pooled output");
        let first = pick(device, hidden, [batch, length, width], 0)?;
        let mut out = device.zeros(batch * width).map_err(Error::for_want_of(what))?;
        device.product(&self.0, &first, config.pooler_activation, &mut out)?;
        device.list(&out, batch * width).map_err(Error::for_want_of(what))
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
