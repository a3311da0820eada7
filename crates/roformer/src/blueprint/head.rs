//! What stands on the last layer.

use crate::ops::Activation;

/// The heads that Hugging Face defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadKind {
    /// None: the layers alone.
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
    /// What stands behind the name of a family in an entry of `architectures`.
    pub(crate) const CLASSES: [(HeadKind, &'static str); 7] = [
        (HeadKind::None, "Model"),
        (HeadKind::MaskedLm, "ForMaskedLM"),
        (HeadKind::CausalLm, "ForCausalLM"),
        (HeadKind::SequenceClassification, "ForSequenceClassification"),
        (HeadKind::TokenClassification, "ForTokenClassification"),
        (HeadKind::QuestionAnswering, "ForQuestionAnswering"),
        (HeadKind::MultipleChoice, "ForMultipleChoice"),
    ];

    /// The class of a family that has this head.
    pub(crate) fn class(self) -> &'static str {
        HeadKind::CLASSES.iter().find(|(kind, _)| *kind == self).map_or("Model", |(_, class)| class)
    }

    /// Whether it scores the vocabulary.
    pub fn is_language_model(self) -> bool {
        matches!(self, HeadKind::MaskedLm | HeadKind::CausalLm)
    }
}

/// What the scores of a classifier of texts mean (`problem_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// A text has one of the labels: softmax.
    OneLabel,
    /// A text has any of them: a probability each. Also for a single label, where the file does not say.
    SeveralLabels,
    /// The scores are what was asked for.
    Regression,
}

/// The labels of a classifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    /// How many there are.
    pub count: usize,
    /// Their names (`id2label`), where they have any; see [`name`](Self::name).
    pub names: Vec<Option<String>>,
    /// What their scores mean.
    pub problem: Problem,
}

impl Default for Labels {
    fn default() -> Self {
        Labels { count: 2, names: Vec::new(), problem: Problem::OneLabel }
    }
}

impl Labels {
    /// The name of a label, `LABEL_0` and so on where there is none.
    pub fn name(&self, label: usize) -> String {
        let name = self.names.get(label).cloned().flatten();
        name.unwrap_or_else(|| format!("LABEL_{label}"))
    }
}

/// What a classifier of texts reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Judged {
    /// The first token; the last where the model is causal.
    #[default]
    Token,
    /// The last token, whatever the direction.
    Last,
    /// The mean of the tokens.
    Mean,
    /// The mean of what its first product makes of each token.
    MeanOfFirst,
}

/// What a multiple-choice head reads of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Of which tokens.
    pub of: SummaryOf,
    /// Whether it is projected first.
    pub has_projection: bool,
    /// The activation after that projection.
    pub activation: Activation,
}

/// The tokens that a summary is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryOf {
    /// The last one.
    Last,
    /// The first one.
    First,
    /// The mean of all.
    Mean,
    /// The first one that is not padding.
    FirstReal,
    /// The mean of those that are not padding.
    MeanReal,
}

impl Default for Summary {
    fn default() -> Self {
        Summary { of: SummaryOf::Last, has_projection: false, activation: Activation::Identity }
    }
}
