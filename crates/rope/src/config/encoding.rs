//! Models that are not rotary: what they use instead. `other.tsv` has the classes of transformers 5.22.2 that have no
//! rotary embedding of one axis; some rotary classes have it only where the file says so.

use super::fields::plain;
use super::{Context, Reader};
use crate::error::Result;
use std::fmt;

/// How a model tells positions apart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Rotary embedding, in some layers at least.
    Rotary,
    /// A learned vector for each position, added to the embeddings.
    Learned,
    /// Fixed sines and cosines, added to the embeddings.
    Sinusoidal,
    /// ALiBi: a penalty on the scores that grows with the distance.
    Alibi,
    /// A learned bias on the scores for each distance or range of distances, as in T5.
    Bias,
    /// Vectors for distances that enter the scores, as in Transformer-XL and DeBERTa.
    Relative,
    /// None: order enters by recurrence, by convolution, or by the causal mask alone.
    None,
    /// Rotary embedding with several axes, for images and films, which is not read from configurations.
    Axes,
    /// Rotary embedding in a way of the class's own, which is not read from configurations.
    Unread,
    /// None that is rotary: all that is known of the class.
    Other,
    /// One of this project's encodings, by its name in `position_encoding`.
    Named(String),
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Rotary => "rotary embedding",
            Encoding::Learned => "learned: a trained vector for each position is added to the embeddings",
            Encoding::Sinusoidal => "sinusoidal: fixed sines and cosines are added to the embeddings",
            Encoding::Alibi => "ALiBi: scores are lowered in proportion to the distance",
            Encoding::Bias => "relative bias: a learned number for each distance is added to the scores",
            Encoding::Relative => "relative: vectors that stand for distances enter the scores",
            Encoding::None => "none: order enters by recurrence, by convolution, or by the causal mask alone",
            Encoding::Axes => "rotary over the axes of images, which is not read from a config.json",
            Encoding::Unread => "rotary in a way of its class's own, which is not read from a config.json",
            Encoding::Other => "its class has no rotary embedding",
            Encoding::Named(name) => return write!(f, "{name}, as `position_encoding` says"),
        })
    }
}

/// The encoding of a class that is not rotary.
fn of_class(model_type: &str) -> Option<Encoding> {
    let mut lines = include_str!("other.tsv").lines().skip(1).filter_map(|line| line.split_once('\t'));
    let (_, encoding) = lines.find(|(name, _)| *name == model_type)?;
    Some(match encoding {
        "learned" => Encoding::Learned,
        "sinusoidal" => Encoding::Sinusoidal,
        "alibi" => Encoding::Alibi,
        "bias" => Encoding::Bias,
        "relative" => Encoding::Relative,
        "none" => Encoding::None,
        "axes" => Encoding::Axes,
        "unread" => Encoding::Unread,
        _ => Encoding::Other,
    })
}

impl Reader<'_> {
    /// How the model tells positions apart.
    pub(super) fn encoding(&self, ctx: &Context, model_type: Option<&str>) -> Result<Encoding> {
        let top = &ctx.top;
        if let Some(name) = top.string("position_encoding")? {
            // A model of this project: those that turn are read as ropes.
            let turns = ["rotary", "receptive", "xpos", "randomised"].contains(&name);
            return Ok(if turns { Encoding::Rotary } else { Encoding::Named(plain(name)) });
        }
        if top.boolean("alibi")? == Some(true) {
            return Ok(Encoding::Alibi);
        }
        let kind = top.string("position_embedding_type")?;
        let by_name = |kind: &str| match kind {
            "absolute" => Some(Encoding::Learned),
            "alibi" => Some(Encoding::Alibi),
            kind if kind.starts_with("relative") => Some(Encoding::Relative),
            _ => None,
        };
        let class = model_type.and_then(of_class);
        Ok(match model_type.unwrap_or("") {
            "esm" if kind != Some("rotary") => kind.and_then(by_name).unwrap_or(Encoding::Learned),
            "granitemoehybrid" if kind != Some("rope") => Encoding::None,
            "zamba2" if top.boolean("use_mem_rope")? != Some(true) => Encoding::None,
            // Two models of one type: the 7B turns, the 13B (40 heads, 5120 wide) has ALiBi.
            "baichuan" if self.is_baichuan_13b(ctx)? => Encoding::Alibi,
            _ if class.is_some() => kind.and_then(by_name).or(class).unwrap_or(Encoding::Other),
            // A type that is not known, which says itself that it does not turn.
            _ if ctx.model.is_none() => kind.and_then(by_name).unwrap_or(Encoding::Rotary),
            _ => Encoding::Rotary,
        })
    }

    fn is_baichuan_13b(&self, ctx: &Context) -> Result<bool> {
        let (hidden, heads) = (ctx.top.count("hidden_size")?, ctx.top.count("num_attention_heads")?);
        Ok(hidden == Some(5120) && heads == Some(40))
    }
}
