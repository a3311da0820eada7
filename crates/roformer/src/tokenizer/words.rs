//! Words of a text, before they are cut into pieces: jieba's for RoFormer, BERT's for models of single characters.

use jieba_rs::Jieba;
use std::collections::HashSet;
use std::sync::OnceLock;
use tokenizers::normalizer::Range;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{NormalizedString, PreTokenizedString, PreTokenizer};

/// How a normalised text becomes words.
pub(super) enum Words {
    /// RoFormer's rule: a word of jieba's is kept if it is one of these entries of the vocabulary, and is cut at its
    /// Chinese characters if not. Entries that the cut leaves as they are need not be listed.
    Jieba(HashSet<String>),
    /// BERT's rule: cut at whitespace and around punctuation.
    Bert,
}

impl Words {
    /// RoFormer's rule for a vocabulary.
    pub(super) fn jieba<'a>(vocabulary: impl Iterator<Item = &'a str>) -> Self {
        Words::Jieba(vocabulary.filter(|word| !is_whole(word)).map(str::to_owned).collect())
    }
}

impl PreTokenizer for Words {
    fn pre_tokenize(&self, text: &mut PreTokenizedString) -> tokenizers::Result<()> {
        match self {
            Words::Bert => BertPreTokenizer.pre_tokenize(text),
            Words::Jieba(kept) => text.split(|_, part| Ok(split(&part, kept))),
        }
    }
}

/// Jieba with its dictionary, which is unpacked once in a process, when it is first asked for.
pub(super) fn dictionary() -> &'static Jieba {
    static JIEBA: OnceLock<Jieba> = OnceLock::new();
    JIEBA.get_or_init(Jieba::new)
}

fn split(text: &NormalizedString, kept: &HashSet<String>) -> Vec<NormalizedString> {
    let mut parts = Vec::new();
    let mut push = |start: usize, end: usize| parts.extend(text.slice(Range::Normalized(start..end)));
    // Without the hidden Markov model: words that are not in the dictionary stay single characters, as in training.
    for word in dictionary().cut(text.get(), false) {
        if is_whole(word.word) || kept.contains(word.word) {
            push(word.byte_start, word.byte_end);
            continue;
        }
        for part in cut_at_chinese(word.word) {
            push(word.byte_start + part.start, word.byte_start + part.end);
        }
    }
    parts
}

/// The words of a text by jieba's dictionary, as [`Words::Jieba`] sees them.
pub(crate) fn jieba_words(text: &str) -> impl Iterator<Item = &str> {
    dictionary().cut(text, false).into_iter().map(|word| word.word)
}

/// The words of a text where no vocabulary says what one is: what stands between whitespace, and of Chinese the words of jieba's
/// dictionary. What the dictionary lists as a phrase is cut at its characters, as [`super::Tokenizer`] does with what its
/// vocabulary lacks.
///
/// ```
/// use roformer::tokenizer::words;
///
/// assert_eq!(words("我爱你"), ["我", "爱", "你"]);
/// assert_eq!(words("旋转位置编码 in RoFormer"), ["旋转", "位置", "编码", "in", "RoFormer"]);
/// ```
pub fn words(text: &str) -> Vec<&str> {
    /// Phrases in common use, by the dictionary's tags.
    const PHRASE: &str = "l";
    let mut words = Vec::new();
    for part in text.split_whitespace() {
        if !part.chars().any(is_chinese) {
            words.push(part);
            continue;
        }
        for tagged in dictionary().tag(part, false) {
            match tagged.tag {
                PHRASE => words.extend(cut_at_chinese(tagged.word).into_iter().map(|at| &tagged.word[at])),
                _ => words.push(tagged.word),
            }
        }
    }
    words
}

/// The Chinese characters of a word, and what stands between them and whitespace: byte offsets.
pub(crate) fn cut_at_chinese(word: &str) -> Vec<std::ops::Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, character) in word.char_indices() {
        let (after, space) = (at + character.len_utf8(), character.is_whitespace());
        if space || is_chinese(character) {
            if start < at {
                parts.push(start..at);
            }
            if !space {
                parts.push(at..after);
            }
            start = after;
        }
    }
    if start < word.len() {
        parts.push(start..word.len());
    }
    parts
}

/// Whether cutting at Chinese characters and whitespace would leave a word as it is.
pub(crate) fn is_whole(word: &str) -> bool {
    let mut characters = word.chars();
    match (characters.next(), characters.next()) {
        (Some(only), None) => !only.is_whitespace(),
        _ => !word.chars().any(|c| c.is_whitespace() || is_chinese(c)),
    }
}

/// What BERT counts as a Chinese character, in the ranges of the tokenizers crate. (U+2B820 to U+2B91F belong to one of
/// the blocks, but not to its range there.)
pub(crate) fn is_chinese(character: char) -> bool {
    matches!(character,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}'
        | '\u{2b920}'..='\u{2ceaf}'
        | '\u{2f800}'..='\u{2fa1f}')
}

/// Where the words of a text begin, by jieba's dictionary: byte offsets, rising.
pub(crate) fn word_starts(text: &str) -> Vec<usize> {
    dictionary().cut(text, false).iter().map(|word| word.byte_start).collect()
}
