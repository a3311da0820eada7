//! The normalizer, the pre-tokenizer and the decoder of a `tokenizer.json`, one step at a time. A file may ask for steps that
//! each double the text, or for patterns that never come to an end: after each step its length is looked at, and then and
//! between matches the clock.

use super::foreign::{check_time, stop};
use serde::{Deserialize, Deserializer, de};
use tokenizers::normalizers::Replace;
use tokenizers::pattern::{Invert, Pattern};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::utils::SysRegex;
use tokenizers::{
    Decoder, DecoderWrapper, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    Offsets, PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

/// How many times longer a normalizer may make a text. (Unicode's own make some characters eleven times longer.)
const NORMALIZED: usize = 16;
/// The same for a pre-tokenizer, and for a decoder. (Bytes become characters of one or two, blanks one of three.)
const CUT: usize = 4;
/// Bytes that may come of a text in any case.
const LEAST: usize = 256;

/// Checks the time, and the length of a text that had another before.
fn check(before: usize, now: usize, growth: usize) {
    check_time();
    if now > before.saturating_mul(growth).saturating_add(LEAST) {
        stop(format!(
            "it makes {now} bytes or more of {before}; expected at most {growth} times as many, check the file"
        ));
    }
}

/// What is looked for.
pub(super) enum Search {
    Text(String),
    Regex { regex: SysRegex, source: String },
}

impl Search {
    pub fn new(text: Option<&str>, regex: Option<&str>) -> tokenizers::Result<Self> {
        match (text, regex) {
            (Some(text), _) => Ok(Search::Text(text.to_owned())),
            (None, regex) => {
                let source = regex.unwrap_or_default().to_owned();
                Ok(Search::Regex { regex: SysRegex::new(&source)?, source })
            }
        }
    }

    /// All of a text, the parts that match and those between them, as the tokenizers crate has it.
    pub fn parts(&self, text: &str) -> Vec<(Offsets, bool)> {
        if text.is_empty() {
            return vec![((0, 0), false)];
        }
        let (mut parts, mut end) = (Vec::new(), 0);
        let mut add = |(start, stop): Offsets| {
            check_time();
            if end != start {
                parts.push(((end, start), false));
            }
            parts.push(((start, stop), true));
            end = stop;
        };
        match self {
            Search::Text(part) => text.match_indices(part).for_each(|(at, part)| add((at, at + part.len()))),
            Search::Regex { regex, .. } => regex.find_iter(text).for_each(&mut add),
        }
        if end != text.len() {
            parts.push(((end, text.len()), false));
        }
        parts
    }
}

impl Pattern for &Search {
    fn find_matches(&self, inside: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        Ok(self.parts(inside))
    }
}

/// The parts of one text, found beforehand.
struct FoundParts(Vec<(Offsets, bool)>);

impl Pattern for FoundParts {
    fn find_matches(&self, _: &str) -> tokenizers::Result<Vec<(Offsets, bool)>> {
        Ok(self.0.clone())
    }
}

/// What is put in the place of what.
pub(super) struct Swap {
    pub search: Search,
    content: String,
}

impl Swap {
    fn new(replace: &Replace) -> tokenizers::Result<Self> {
        // The crate shows the pattern nowhere else.
        let fields = serde_json::to_value(replace)?;
        let pattern = |kind: &str| fields["pattern"][kind].as_str();
        let search = Search::new(pattern("String"), pattern("Regex"))?;
        Ok(Swap { search, content: replace.content.clone() })
    }

    /// How long the text becomes that has these parts.
    fn length(&self, parts: &[(Offsets, bool)]) -> usize {
        let length = |&((start, end), is_match): &(Offsets, bool)| {
            if is_match { self.content.len() } else { end - start }
        };
        parts.iter().map(length).sum()
    }
}

/// A step of a normalizer.
pub(super) enum Change {
    Swap(Swap),
    Other(NormalizerWrapper),
}

/// A normalizer.
pub(super) struct Normalization(pub Vec<Change>);

impl Normalization {
    fn add(&mut self, step: NormalizerWrapper) -> tokenizers::Result<()> {
        match step {
            NormalizerWrapper::Sequence(steps) => steps.into_iter().try_for_each(|step| self.add(step))?,
            NormalizerWrapper::Replace(replace) => self.0.push(Change::Swap(Swap::new(&replace)?)),
            other => self.0.push(Change::Other(other)),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Normalization {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut steps = Normalization(Vec::new());
        steps.add(NormalizerWrapper::deserialize(source)?).map_err(de::Error::custom)?;
        Ok(steps)
    }
}

impl Normalizer for Normalization {
    fn normalize(&self, text: &mut NormalizedString) -> tokenizers::Result<()> {
        let before = text.get().len();
        for step in &self.0 {
            match step {
                Change::Swap(swap) => {
                    let parts = swap.search.parts(text.get());
                    check(before, swap.length(&parts), NORMALIZED);
                    text.replace(FoundParts(parts), &swap.content)?;
                }
                Change::Other(step) => {
                    step.normalize(text)?;
                    check(before, text.get().len(), NORMALIZED);
                }
            }
        }
        Ok(())
    }
}

/// A step of a pre-tokenizer.
pub(super) enum Cut {
    Split { search: Search, split: Split },
    Other(PreTokenizerWrapper),
}

/// A pre-tokenizer.
pub(super) struct PreTokenization(pub Vec<Cut>);

impl PreTokenization {
    fn add(&mut self, step: PreTokenizerWrapper) -> tokenizers::Result<()> {
        match step {
            PreTokenizerWrapper::Sequence(steps) => steps.into_iter().try_for_each(|step| self.add(step))?,
            PreTokenizerWrapper::Split(split) => {
                let search = match &split.pattern {
                    SplitPattern::String(text) => Search::new(Some(text), None)?,
                    SplitPattern::Regex(regex) => Search::new(None, Some(regex))?,
                };
                self.0.push(Cut::Split { search, split });
            }
            other => self.0.push(Cut::Other(other)),
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for PreTokenization {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut steps = PreTokenization(Vec::new());
        steps.add(PreTokenizerWrapper::deserialize(source)?).map_err(de::Error::custom)?;
        Ok(steps)
    }
}

impl PreTokenizer for PreTokenization {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        let length = |text: &PreTokenizedString| -> usize {
            let parts = text.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
            parts.iter().map(|(part, _, _)| part.len()).sum()
        };
        let before = length(text);
        for step in &self.0 {
            match step {
                Cut::Split { search, split } if split.invert => {
                    text.split(|_, part| part.split(Invert(search), split.behavior))?;
                }
                Cut::Split { search, split } => text.split(|_, part| part.split(search, split.behavior))?,
                Cut::Other(step) => {
                    step.pre_tokenize(text)?;
                    check(before, length(text), CUT);
                }
            }
        }
        Ok(())
    }
}

/// A step of a decoder.
enum Back {
    Swap(Swap),
    Other(DecoderWrapper),
}

/// A decoder.
pub(super) struct Decoding(Vec<Back>);

impl Decoding {
    fn add(&mut self, step: &DecoderWrapper) -> tokenizers::Result<()> {
        match step {
            DecoderWrapper::Sequence(steps) => {
                steps.get_decoders().iter().try_for_each(|step| self.add(step))?
            }
            DecoderWrapper::Replace(replace) => self.0.push(Back::Swap(Swap::new(replace)?)),
            other => self.0.push(Back::Other(other.clone())),
        }
        Ok(())
    }

    /// What pieces within a word begin with, where that is all there is to it.
    pub fn prefix(&self) -> Option<&str> {
        match &self.0[..] {
            [Back::Other(DecoderWrapper::WordPiece(decoder))] => Some(&decoder.prefix),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Decoding {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let mut steps = Decoding(Vec::new());
        steps.add(&DecoderWrapper::deserialize(source)?).map_err(de::Error::custom)?;
        Ok(steps)
    }
}

impl Decoder for Decoding {
    fn decode_chain(&self, mut tokens: Vec<String>) -> tokenizers::Result<Vec<String>> {
        let length = |tokens: &[String]| tokens.iter().map(String::len).sum();
        let before: usize = length(&tokens);
        for step in &self.0 {
            match step {
                Back::Swap(swap) => {
                    let mut now = length(&tokens);
                    for token in &mut tokens {
                        let parts = swap.search.parts(token);
                        now = now - token.len() + swap.length(&parts);
                        check(before, now, CUT);
                        let kept = |((start, end), is_match)| {
                            if is_match { &swap.content } else { &token[start..end] }
                        };
                        *token = parts.into_iter().map(kept).collect();
                    }
                }
                Back::Other(step) => {
                    tokens = step.decode_chain(tokens)?;
                    check(before, length(&tokens), CUT);
                }
            }
        }
        Ok(tokens)
    }
}
