//! The texts of requests, in the forms that clients send them.

use crate::ask::Cut;
use schemars::JsonSchema;
use serde::Deserialize;

/// One text or several, or their tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a text, a list of texts, a list of tokens, or a list of lists of tokens"
)]
pub enum Inputs {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    Lists(Vec<Vec<u32>>),
}

/// The same as a list of one kind.
pub enum Items {
    Texts(Vec<String>),
    Tokens(Vec<Vec<u32>>),
}

impl Inputs {
    pub fn items(self) -> Items {
        match self {
            Inputs::Text(text) => Items::Texts(vec![text]),
            Inputs::Texts(texts) => Items::Texts(texts),
            Inputs::Tokens(tokens) => Items::Tokens(vec![tokens]),
            Inputs::Lists(lists) => Items::Tokens(lists),
        }
    }
}

impl Items {
    pub fn len(&self) -> usize {
        match self {
            Items::Texts(texts) => texts.len(),
            Items::Tokens(lists) => lists.len(),
        }
    }

    /// Characters, or tokens where there are no characters.
    pub fn characters(&self) -> usize {
        match self {
            Items::Texts(texts) => characters(texts),
            Items::Tokens(lists) => lists.iter().map(Vec::len).sum(),
        }
    }
}

/// One text or several.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    /// As a list, and whether it was one text alone.
    pub fn list(self) -> (Vec<String>, bool) {
        match self {
            Texts::One(text) => (vec![text], true),
            Texts::Many(texts) => (texts, false),
        }
    }
}

/// How many characters texts have.
pub fn characters(texts: &[impl AsRef<str>]) -> usize {
    texts.iter().map(|text| text.as_ref().chars().count()).sum()
}

/// Where a text that is too long is cut.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Direction {
    #[serde(alias = "left")]
    Left,
    #[default]
    #[serde(alias = "right")]
    Right,
}

impl Direction {
    pub fn cut(self, truncate: Option<bool>) -> Cut {
        Cut { truncate, in_front: self == Direction::Left }
    }
}

/// For fields that are true where nothing is said.
pub fn yes() -> bool {
    true
}
