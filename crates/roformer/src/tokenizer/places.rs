//! Where a text can be cut so that the tokens before the cut are those of the whole text.
//!
//! A cut is made before a mark (a blank or one of a few signs) that stands alone between letters or digits, with two of them
//! before it: `..wx|,y..`. What comes before such a cut is the same with and without what comes after it, if
//!
//! - no added token holds a letter with the mark after it, or takes the blanks behind it;
//! - the normalizer goes character by character there: every step of it that is known does, because the mark stands alone, and
//!   one that replaces what it finds does if it finds no letters;
//! - no pattern of the pre-tokenizer has a match that reaches over the cut;
//! - and either the pre-tokenizer cuts there too, so that the model never sees both sides at once; or the model joins pieces of
//!   its vocabulary (BPE, Unigram), has the mark as a piece, and no piece with a letter and the mark after it.
//!
//! All of that is looked up in the tokenizer. A mark of which it cannot be shown is not used, and a text without a place to cut
//! is read to its end.

use super::files::LIMIT;
use super::steps::{Change, Cut, PreTokenization, Search};
use super::{File, Rule, foreign};
use std::ops::RangeInclusive;
use tokenizers::pre_tokenizers::PreTokenizerWrapper as Step;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior as Behavior;
use tokenizers::{AddedToken, Model, ModelWrapper, NormalizedString, Normalizer, NormalizerWrapper};

/// What a text may be cut before. None of them is part of a word for jieba, for a pattern's `\w`, or in Unicode.
const MARKS: [char; 8] = [' ', '\n', ',', '，', '。', '、', '！', '？'];

/// Characters that are letters or digits in every version of Unicode, and in no normal form anything else.
pub(super) const PLAIN: [RangeInclusive<char>; 4] =
    ['0'..='9', 'A'..='Z', 'a'..='z', '\u{4e00}'..='\u{9fa5}'];

/// Candidates that are looked at before a text is given up: one in use fits nearly always.
const TRIES: usize = 64;

/// Bytes that looking at one character may take the time of.
const PROBE: usize = 64;

pub(super) fn is_plain(character: char) -> bool {
    PLAIN.iter().any(|range| range.contains(&character))
}

/// What the letter before a mark must be besides.
#[derive(Clone, Copy, PartialEq)]
enum Letter {
    /// Nothing: the mark is where the pre-tokenizer cuts.
    Any,
    /// Part of a match of one of the pre-tokenizer's patterns: those end before the mark.
    Matched,
    /// A piece of the vocabulary: what stands for an unknown letter might be joined with anything.
    Piece,
}

/// The marks before which texts can be cut.
pub(super) struct Places {
    marks: Vec<(char, Letter)>,
    /// Blanks that the normalizer puts around a letter are cut at like marks.
    drops_blanks: bool,
}

impl Places {
    /// What can be shown of a tokenizer.
    pub fn of(rule: &Rule) -> Self {
        let found = foreign::run(LIMIT as usize, || match rule {
            // Both of our rules cut at every mark and drop blanks.
            Rule::Pieces(pieces) => {
                let added: Vec<AddedToken> = pieces.get_added_tokens_decoder().into_values().collect();
                let marks = MARKS
                    .into_iter()
                    .filter_map(|mark| normal(rule, &added, mark).map(|_| (mark, Letter::Any)));
                Some(Places { marks: marks.collect(), drops_blanks: true })
            }
            Rule::File(file) => of_file(rule, file),
        });
        found.ok().flatten().unwrap_or(Places { marks: Vec::new(), drops_blanks: false })
    }

    /// The first place to cut a text from a byte on; its end if there is none.
    pub fn next(&self, rule: &Rule, text: &str, from: usize) -> usize {
        let Some(rest) = (from..text.len()).find_map(|at| text.get(at..)).filter(|_| !self.marks.is_empty())
        else {
            return text.len();
        };
        let start = text.len() - rest.len();
        let mut tries = 0;
        let mut before = ['\0'; 3];
        for (at, character) in rest.char_indices() {
            let [first, second, mark] = before;
            if is_plain(first)
                && is_plain(second)
                && is_plain(character)
                && let Some(&(_, letter)) = self.marks.iter().find(|(known, _)| *known == mark)
            {
                if self.fits(rule, second, letter) {
                    return start + at - mark.len_utf8();
                }
                tries += 1;
                if tries == TRIES {
                    break;
                }
            }
            before = [second, mark, character];
        }
        text.len()
    }

    /// Whether a letter is what it must be before a mark.
    fn fits(&self, rule: &Rule, letter: char, wanted: Letter) -> bool {
        let fits = || {
            let text = normalized(rule, &letter.to_string())?;
            let text = if self.drops_blanks { text.trim_end() } else { &text };
            let last = text.chars().next_back().filter(|&c| is_plain(c))?;
            let file = match rule {
                Rule::Pieces(_) => return Some(true),
                Rule::File(file) => file,
            };
            Some(match wanted {
                Letter::Any => true,
                Letter::Matched => patterns(file).any(|search| search.takes(last)),
                Letter::Piece => file.get_model().token_to_id(&last.to_string()).is_some(),
            })
        };
        foreign::run(PROBE, fits).ok().flatten().unwrap_or(false)
    }
}

fn of_file(rule: &Rule, file: &File) -> Option<Places> {
    if !file.get_normalizer().is_none_or(|steps| steps.0.iter().all(is_local)) {
        return None;
    }
    let added: Vec<AddedToken> = file.get_added_tokens_decoder().into_values().collect();
    let steps = file.get_pre_tokenizer().map_or(&[][..], |PreTokenization(steps)| steps);
    let pieces = joins_pieces(file.get_model()).then(|| file.get_model().get_vocab());
    let marks = MARKS.into_iter().filter_map(|mark| {
        let (letter, seen) = before(steps, normal(rule, &added, mark)?)?;
        let is_apart = || {
            let (pieces, mark) = (pieces.as_ref()?, seen?);
            let known = pieces.contains_key(mark.encode_utf8(&mut [0; 4]) as &str);
            Some(known && !pieces.keys().any(|piece| has_pair(piece, mark)))
        };
        match letter {
            Some(Letter::Any) => Some((mark, Letter::Any)),
            _ if is_apart() == Some(true) => Some((mark, Letter::Piece)),
            letter => letter.map(|letter| (mark, letter)),
        }
    });
    let drops_blanks = matches!(
        steps.first(),
        Some(Cut::Other(Step::BertPreTokenizer(_) | Step::Whitespace(_) | Step::WhitespaceSplit(_)))
    );
    Some(Places { marks: marks.collect(), drops_blanks })
}

/// Whether a step of a normalizer makes the same of a text before a place to cut, whatever follows.
fn is_local(step: &Change) -> bool {
    use NormalizerWrapper::*;
    match step {
        Change::Swap(swap) => swap.search.spares_plain(),
        Change::Other(
            BertNormalizer(_) | StripNormalizer(_) | StripAccents(_) | NFC(_) | NFD(_) | NFKC(_) | NFKD(_)
            | Lowercase(_) | Nmt(_) | Precompiled(_) | Prepend(_) | ByteLevel(_),
        ) => true,
        Change::Other(_) => false,
    }
}

/// The mark as the normalizer leaves it, where that is one character and no added token stands in the way.
fn normal(rule: &Rule, added: &[AddedToken], mark: char) -> Option<char> {
    let text = normalized(rule, &format!("aa{mark}aa"))?;
    let middle = text.split_once("aa")?.1.strip_suffix("aa")?;
    let mut characters = middle.chars();
    let (normal, None) = (characters.next()?, characters.next()) else { return None };
    let is_free = added.iter().all(|token| {
        let takes_blanks = token.rstrip && token.content.ends_with(is_plain);
        let plain = normalized(rule, &token.content);
        !takes_blanks && !has_pair(&token.content, mark) && plain.is_some_and(|text| !has_pair(&text, normal))
    });
    is_free.then_some(normal)
}

/// Whether a plain character has the mark after it.
fn has_pair(text: &str, mark: char) -> bool {
    text.match_indices(mark).any(|(at, _)| text[..at].ends_with(is_plain))
}

fn normalized(rule: &Rule, text: &str) -> Option<String> {
    let mut text = NormalizedString::from(text);
    match rule {
        Rule::Pieces(pieces) => pieces.get_normalizer().map(|normalizer| normalizer.normalize(&mut text)),
        Rule::File(file) => file.get_normalizer().map(|normalizer| normalizer.normalize(&mut text)),
    }
    .unwrap_or(Ok(()))
    .ok()?;
    Some(text.get().to_owned())
}

/// The patterns that a text is cut at on both sides.
fn patterns(file: &File) -> impl Iterator<Item = &Search> {
    let steps = file.get_pre_tokenizer().map_or(&[][..], |PreTokenization(steps)| steps);
    steps.iter().filter_map(|step| match step {
        Cut::Split { search, split } if cuts_around(split.behavior) => Some(search),
        _ => None,
    })
}

fn cuts_around(behavior: Behavior) -> bool {
    matches!(behavior, Behavior::Isolated | Behavior::Removed)
}

/// What the letter before a mark must be for a pre-tokenizer to cut between the two, if it does at all; and the mark as the
/// model sees it, if it is one character. `None` where a step might look over the cut.
fn before(steps: &[Cut], mark: char) -> Option<(Option<Letter>, Option<char>)> {
    let (mut letter, mut seen) = (None, Some(mark));
    let is_mark = MARKS.contains(&mark);
    for (index, step) in steps.iter().enumerate() {
        let is_last = index + 1 == steps.len();
        let cuts = match step {
            Cut::Split { search, .. } if !search.keeps_apart(mark) => return None,
            Cut::Split { search, split } if cuts_around(split.behavior) => {
                letter = letter.or(Some(Letter::Matched));
                search.takes(mark)
            }
            Cut::Split { .. } => false,
            Cut::Other(Step::BertPreTokenizer(_) | Step::Whitespace(_)) => is_mark,
            Cut::Other(Step::WhitespaceSplit(_)) => mark.is_whitespace(),
            Cut::Other(Step::Punctuation(step)) => {
                is_mark && !mark.is_whitespace() && cuts_around(step.behavior)
            }
            Cut::Other(Step::Delimiter(step)) => step.delimiter == mark,
            Cut::Other(Step::Digits(_)) => false,
            // Steps that write other characters come last, as everywhere in use: those after them would see these.
            Cut::Other(Step::Metaspace(step)) if is_last => {
                let blank = step.get_replacement();
                seen = Some(if mark == ' ' { blank } else { mark });
                step.get_split() && seen == Some(blank)
            }
            Cut::Other(Step::ByteLevel(step)) if is_last => {
                seen = None;
                step.use_regex && is_mark
            }
            Cut::Other(_) => return None,
        };
        if cuts {
            letter = Some(Letter::Any);
        }
    }
    Some((letter, seen))
}

/// Whether a model makes of a text what it makes of its parts, where no piece reaches from one into the next.
fn joins_pieces(model: &ModelWrapper) -> bool {
    match model {
        ModelWrapper::BPE(model) => {
            // With `ignore_merges` a part that is a piece stays one; the others mark where a part begins or ends.
            let marks_parts = model.continuing_subword_prefix.is_some() || model.end_of_word_suffix.is_some();
            !marks_parts && !model.ignore_merges && model.dropout.is_none()
        }
        ModelWrapper::Unigram(model) => model.alpha.is_none(),
        ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => false,
    }
}
