//! A WordPiece vocabulary from the words of a text: characters first, then the pair of pieces that stands together most
//! often, joined, again and again. The same text gives the same vocabulary; ties go to the pieces that came first.
//!
//! Chinese is written without spaces, and BERT's rule takes its characters one by one. Where a text is Chinese the
//! vocabulary is one for RoFormer's rule instead: jieba's words, of which the vocabulary has the most useful whole, and the
//! characters of the others.

use crate::error::{Error, Result};
use crate::tokenizer::{cut_at_chinese, is_chinese, is_whole, jieba_words};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// The special tokens, which come first.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// A pair that stands together less often is not joined.
const LEAST: i64 = 2;

/// Words longer than BERT's tokenizer ever cuts into pieces are unknown to it.
const LONGEST: usize = 100;

/// More different words than fit in a reasonable memory.
const MOST_WORDS: usize = 20 << 20;

/// How often words stand in a text.
type Counts = BTreeMap<String, i64>;

/// Words of a text, and how often each stands there.
#[derive(Default)]
pub(super) struct Words {
    /// By BERT's rule, of texts without Chinese characters and of those with some.
    plain: Counts,
    mixed: Counts,
    /// Those with some, by jieba.
    jieba: Counts,
    /// Letters of any script, those outside ASCII, and the Chinese ones among them.
    letters: [u64; 3],
}

impl Words {
    /// Counts the words of a text.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let mut chinese = 0;
        for character in text.chars().filter(|character| character.is_alphabetic()) {
            self.letters[0] += 1;
            self.letters[1] += u64::from(!character.is_ascii());
            chinese += u64::from(is_chinese(character));
        }
        self.letters[2] += chinese;
        let wrong = |error: tokenizers::Error| Error::input("the text", error.to_string(), "text of words");
        let cut = bert_cut(text).map_err(wrong)?;
        let words = cut.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
        let counts = if chinese > 0 { &mut self.mixed } else { &mut self.plain };
        words.iter().for_each(|(word, _, _)| count(counts, word, 1));
        if chinese > 0 {
            let mut clean = NormalizedString::from(text);
            cleaner(false).normalize(&mut clean).map_err(wrong)?;
            jieba_words(clean.get()).for_each(|word| count(&mut self.jieba, word, 1));
        }
        match self.plain.len() + self.mixed.len() + self.jieba.len() > MOST_WORDS {
            true => Err(Error::memory("the different words of the text")),
            false => Ok(()),
        }
    }

    /// Whether the text is Chinese: a tenth of its letters or more, and most of those outside ASCII. (Jieba takes the words of
    /// other scripts letter by letter, and Japanese has more kana than Chinese characters.)
    fn is_chinese(&self) -> bool {
        let [all, other, chinese] = self.letters;
        10 * chinese >= all && 2 * chinese > other
    }

    /// A vocabulary of at most `size` tokens, or of all characters if there are more.
    pub fn vocabulary(&self, size: usize) -> Vec<String> {
        let (words, chinese) =
            if self.is_chinese() { self.for_roformer() } else { (self.for_bert(), Vec::new()) };
        let mut pieces: Vec<String> = SPECIAL.map(str::to_owned).to_vec();
        let firsts: BTreeSet<char> = words.keys().filter_map(|word| word.chars().next()).collect();
        let others: BTreeSet<char> = words.keys().flat_map(|word| word.chars().skip(1)).collect();
        pieces.extend(firsts.union(&others).map(char::to_string));
        pieces.extend(others.iter().map(|char| format!("##{char}")));
        let mut joining = Joining::new(&words, &pieces);
        let mut numbers: HashMap<String, u32> = pieces.iter().cloned().zip(0..).collect();
        let mut chinese = chinese.into_iter().peekable();
        let mut pair = joining.most_frequent();
        while pieces.len() < size {
            // A word or a pair, whichever saves more tokens of the text.
            let saved = pair.map_or(0, |(count, _)| count);
            if let Some((_, word)) = chinese.next_if(|(gain, _)| *gain >= saved) {
                pieces.push(word.to_owned());
                continue;
            }
            let Some((_, (left, right))) = pair else { break };
            let tail = &pieces[right as usize];
            let joined = format!("{}{}", pieces[left as usize], tail.strip_prefix("##").unwrap_or(tail));
            // There may be two ways to the same piece.
            let number = *numbers.entry(joined.clone()).or_insert(pieces.len() as u32);
            if number as usize == pieces.len() {
                pieces.push(joined);
            }
            joining.join((left, right), number);
            pair = joining.most_frequent();
        }
        pieces
    }

    /// Words by BERT's rule.
    fn for_bert(&self) -> Counts {
        let mut words = self.plain.clone();
        self.mixed.iter().for_each(|(word, &times)| count(&mut words, word, times));
        words
    }

    /// Words by RoFormer's rule as they are cut where the vocabulary has no Chinese words; and those words, with the tokens
    /// that each would save, the most first.
    fn for_roformer(&self) -> (Counts, Vec<(i64, &str)>) {
        let (mut words, mut chinese) = (Counts::new(), Vec::new());
        for (word, &times) in &self.plain {
            jieba_words(word).for_each(|part| count(&mut words, part, times));
        }
        for (word, &times) in &self.jieba {
            if is_whole(word) {
                count(&mut words, word, times);
                continue;
            }
            let parts = cut_at_chinese(word);
            parts.iter().for_each(|part| count(&mut words, &word[part.clone()], times));
            if times >= LEAST && parts.len() > 1 {
                chinese.push((times * (parts.len() as i64 - 1), word.as_str()));
            }
        }
        chinese.sort_by_key(|&(gain, word)| (Reverse(gain), word));
        (words, chinese)
    }

    /// The files of a tokenizer with a vocabulary of at most `size` tokens.
    pub fn files(&self, size: usize) -> Vec<(String, Vec<u8>)> {
        let class = if self.is_chinese() { "RoFormerTokenizer" } else { "BertTokenizer" };
        let config = json!({
            "tokenizer_class": class, "do_lower_case": false, "strip_accents": false,
            "tokenize_chinese_chars": true, "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
            "sep_token": "[SEP]", "mask_token": "[MASK]",
        });
        let lines: String =
            self.vocabulary(size).into_iter().flat_map(|token| [token, "\n".into()]).collect();
        vec![
            ("vocab.txt".into(), lines.into_bytes()),
            ("tokenizer_config.json".into(), format!("{config:#}\n").into_bytes()),
        ]
    }
}

/// Counts a word, unless it is one that the tokenizer never cuts.
fn count(counts: &mut Counts, word: &str, times: i64) {
    if word.is_empty() || word.chars().nth(LONGEST).is_some() {
        return;
    }
    match counts.get_mut(word) {
        Some(count) => *count += times,
        None => drop(counts.insert(word.to_owned(), times)),
    }
}

/// What a tokenizer does to a text before it looks for words; for BERT with spaces around Chinese characters.
fn cleaner(spaces: bool) -> BertNormalizer {
    BertNormalizer::new(true, spaces, Some(false), false)
}

/// A text as BERT's tokenizer cuts it.
fn bert_cut(text: &str) -> tokenizers::Result<PreTokenizedString> {
    let mut cut = PreTokenizedString::from(text);
    cut.normalize(|part| cleaner(true).normalize(part))?;
    BertPreTokenizer.pre_tokenize(&mut cut)?;
    Ok(cut)
}

type Pair = (u32, u32);

/// Words as pieces, and how often each pair of pieces stands together.
struct Joining {
    words: Vec<(Vec<u32>, i64)>,
    counts: HashMap<Pair, i64>,
    /// The words that a pair stands in, or stood in once.
    places: HashMap<Pair, BTreeSet<u32>>,
    /// Pairs by their counts, some of which are out of date.
    queue: BinaryHeap<(i64, Reverse<Pair>)>,
}

impl Joining {
    fn new(words: &Counts, pieces: &[String]) -> Self {
        let numbers: HashMap<&str, u32> = pieces.iter().map(String::as_str).zip(0..).collect();
        let split = |word: &str| -> Vec<u32> {
            let mut name = String::new();
            let mut number = |(index, char): (usize, char)| {
                name.clear();
                name.push_str(if index == 0 { "" } else { "##" });
                name.push(char);
                numbers.get(name.as_str()).copied()
            };
            word.chars().enumerate().filter_map(&mut number).collect()
        };
        let words = words.iter().map(|(word, &count)| (split(word), count)).collect();
        let mut joining =
            Joining { words, counts: HashMap::new(), places: HashMap::new(), queue: BinaryHeap::new() };
        for index in 0..joining.words.len() as u32 {
            joining.count(index, 1);
        }
        joining.queue = joining.counts.iter().map(|(&pair, &count)| (count, Reverse(pair))).collect();
        joining
    }

    /// Adds the pairs of a word, or takes them away.
    fn count(&mut self, index: u32, sign: i64) {
        let (pieces, count) = &self.words[index as usize];
        for pair in pieces.windows(2).map(|pair| (pair[0], pair[1])) {
            *self.counts.entry(pair).or_default() += sign * count;
            if sign > 0 {
                self.places.entry(pair).or_default().insert(index);
            }
        }
    }

    /// The pair that stands together most often, and how often.
    fn most_frequent(&mut self) -> Option<(i64, Pair)> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.counts.get(&pair).copied().unwrap_or(0);
            if now == count && now >= LEAST {
                return Some((count, pair));
            }
            if now >= LEAST && now < count {
                self.queue.push((now, Reverse(pair)));
            }
        }
        None
    }

    /// Puts one piece in the place of a pair, everywhere.
    fn join(&mut self, pair: Pair, piece: u32) {
        let mut changed = BTreeSet::new();
        for index in self.places.remove(&pair).unwrap_or_default() {
            self.count(index, -1);
            let pieces = &mut self.words[index as usize].0;
            let (mut read, mut write) = (0, 0);
            while read < pieces.len() {
                let is_pair = read + 1 < pieces.len() && (pieces[read], pieces[read + 1]) == pair;
                pieces[write] = if is_pair { piece } else { pieces[read] };
                read += if is_pair { 2 } else { 1 };
                write += 1;
            }
            pieces.truncate(write);
            self.count(index, 1);
            let pieces = &self.words[index as usize].0;
            changed.extend(
                pieces.windows(2).map(|pair| (pair[0], pair[1])).filter(|p| p.0 == piece || p.1 == piece),
            );
        }
        for pair in changed {
            self.queue.push((self.counts[&pair], Reverse(pair)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Words;

    #[test]
    fn frequent_pairs_are_joined_first() {
        let mut words = Words::default();
        words.add("low low low lower lowest, newer newer 天气好").unwrap();
        let vocabulary = words.vocabulary(1000);
        let place = |token: &str| vocabulary.iter().position(|known| known == token);
        // lo stands there five times, as w follows it: both before er, which is there three times.
        assert!(place("lo") < place("low") && place("low") < place("##er"), "{vocabulary:?}");
        for token in ["[MASK]", "l", "##w", "天", "newer", ","] {
            assert!(place(token).is_some(), "{token}");
        }
        // Once is too rare, and Chinese characters stand alone.
        assert!(place("lowest").is_none() && place("天气").is_none());
        assert_eq!(vocabulary, words.vocabulary(1000));
        assert_eq!(words.vocabulary(20).len(), words.vocabulary(0).len().max(20));
    }

    #[test]
    fn chinese_words_are_learned_whole() {
        let mut words = Words::default();
        words
            .add(
                &"今天天气很好，我们去北京大学看书。今天的天气真好，卡拉OK不错 hello world hello。".repeat(3),
            )
            .unwrap();
        words.add("hello there, hello again").unwrap();
        let vocabulary = words.vocabulary(1000);
        let place = |token: &str| vocabulary.iter().position(|known| known == token);
        for token in ["今天天气", "北京大学", "卡拉", "天气", "hello", "天", "卡", "OK", "##n"]
        {
            assert!(place(token).is_some(), "{token} is not in {vocabulary:?}");
        }
        // What RoFormer's rule never asks for: pieces within Chinese words, and what is not one of jieba's.
        assert!(
            vocabulary.iter().all(|token| !token.starts_with("##") || token.is_ascii()),
            "{vocabulary:?}"
        );
        assert!(place("气很").is_none() && place("今天天").is_none());
        // 北京大学 saves three tokens each time, 天气 one.
        assert!(place("北京大学") < place("天气"));
        let config = words.files(1000)[1].1.clone();
        assert!(String::from_utf8(config).unwrap().contains("RoFormerTokenizer"));
    }

    #[test]
    fn other_scripts_stay_with_berts_rule() {
        for text in
            ["привет мир, 天气", "これはとてもいい天気ですね", "hello world, this is a test of 天气", ""]
        {
            let mut words = Words::default();
            words.add(text).unwrap();
            assert!(!words.is_chinese(), "{text}");
        }
        let mut words = Words::default();
        words.add("GPT是一种语言模型 with a few words in English").unwrap();
        assert!(words.is_chinese());
    }

    #[test]
    fn no_token_is_listed_twice() {
        let mut words = Words::default();
        words.add(&"aaaa aaa aa abab ababab baba ".repeat(9)).unwrap();
        let vocabulary = words.vocabulary(100);
        let mut sorted = vocabulary.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), vocabulary.len());
    }
}
