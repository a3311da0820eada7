//! A WordPiece vocabulary from the words of a text: characters first, then the pair of pieces that stands together most
//! often, joined, again and again. The same text gives the same vocabulary; ties go to the pieces that came first.

use crate::error::{Error, Result};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::{Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

/// The special tokens, which come first.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// A pair that stands together less often is not joined.
const LEAST: i64 = 2;

/// Words longer than BERT's tokenizer ever cuts into pieces are unknown to it.
const LONGEST: usize = 100;

/// More different words than fit in a reasonable memory.
const MOST_WORDS: usize = 20 << 20;

/// Words of a text, and how often each stands there.
#[derive(Default)]
pub(super) struct Words {
    counts: BTreeMap<String, i64>,
}

impl Words {
    /// Counts the words of a text, as BERT's tokenizer cuts it.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let cut = |text: &str| {
            let mut cut = PreTokenizedString::from(text);
            cut.normalize(|part| BertNormalizer::new(true, true, Some(false), false).normalize(part))?;
            BertPreTokenizer.pre_tokenize(&mut cut)?;
            tokenizers::Result::Ok(cut)
        };
        let cut = cut(text).map_err(|error| Error::input("the text", error.to_string(), "text of words"))?;
        for (word, _, _) in cut.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            if word.chars().nth(LONGEST).is_some() || word.is_empty() {
                continue;
            }
            if let Some(count) = self.counts.get_mut(word) {
                *count += 1;
            } else if self.counts.len() >= MOST_WORDS {
                return Err(Error::Memory { what: "the different words of the text" });
            } else {
                self.counts.insert(word.to_owned(), 1);
            }
        }
        Ok(())
    }

    /// A vocabulary of at most `size` tokens, or of all characters if there are more.
    pub fn vocabulary(&self, size: usize) -> Vec<String> {
        let mut pieces: Vec<String> = SPECIAL.map(str::to_owned).to_vec();
        let firsts: BTreeSet<char> = self.counts.keys().filter_map(|word| word.chars().next()).collect();
        let others: BTreeSet<char> = self.counts.keys().flat_map(|word| word.chars().skip(1)).collect();
        pieces.extend(firsts.union(&others).map(char::to_string));
        pieces.extend(others.iter().map(|char| format!("##{char}")));
        let mut joining = Joining::new(self, &pieces);
        let mut numbers: HashMap<String, u32> = pieces.iter().cloned().zip(0..).collect();
        while pieces.len() < size {
            let Some((left, right)) = joining.most_frequent() else { break };
            let tail = &pieces[right as usize];
            let joined = format!("{}{}", pieces[left as usize], tail.strip_prefix("##").unwrap_or(tail));
            // There may be two ways to the same piece.
            let number = *numbers.entry(joined.clone()).or_insert(pieces.len() as u32);
            if number as usize == pieces.len() {
                pieces.push(joined);
            }
            joining.join((left, right), number);
        }
        pieces
    }
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
    fn new(words: &Words, pieces: &[String]) -> Self {
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
        let words = words.counts.iter().map(|(word, &count)| (split(word), count)).collect();
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

    fn most_frequent(&mut self) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.counts.get(&pair).copied().unwrap_or(0);
            if now == count && now >= LEAST {
                return Some(pair);
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

/// The files of a tokenizer with this vocabulary.
pub(super) fn files(vocabulary: &[String]) -> Vec<(String, Vec<u8>)> {
    let config = json!({
        "tokenizer_class": "BertTokenizer", "do_lower_case": false, "strip_accents": false,
        "tokenize_chinese_chars": true, "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]",
        "sep_token": "[SEP]", "mask_token": "[MASK]",
    });
    let lines: String = vocabulary.iter().flat_map(|token| [token, "\n"]).collect();
    vec![
        ("vocab.txt".into(), lines.into_bytes()),
        ("tokenizer_config.json".into(), format!("{config:#}\n").into_bytes()),
    ]
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
