//! Sentences: their words as vectors, and the projections that make queries, keys and values of them.

use super::check;
use crate::error::{Error, Result};
use roformer::graph::mix;
use roformer::ops::linear;
use serde::{Deserialize, Serialize};

/// Features of a word. No fewer than [`MOST`], so that a value can tell which word it came from.
pub const FEATURES: usize = 16;
/// The most words of a sentence.
pub const MOST: usize = 12;
/// The seeds of the projections to queries, keys and values. Any would do; with these the first sentence has scores of all
/// sizes.
pub const QUERY: u64 = 52;
/// Of keys.
pub const KEY: u64 = 16;
/// Of values.
pub const VALUE: u64 = 3;
/// The most bytes of a sentence.
const LONGEST: usize = 400;

/// A sentence.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// The sentence.
    pub text: String,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { text: "我爱你".into() }
    }
}

/// What a sentence is cut into.
#[derive(Clone, Debug, Serialize)]
pub struct Cut {
    /// Its words.
    pub words: Vec<String>,
}

/// The words of a sentence, as the other figures see them.
pub fn cut(ask: &Ask) -> Result<Cut> {
    Ok(Cut { words: words(&ask.text)? })
}

/// The words of a sentence: what stands between spaces, and Chinese by jieba's dictionary.
pub fn words(text: &str) -> Result<Vec<String>> {
    if text.len() > LONGEST {
        return Err(Error::refused(
            format!("the sentence has {} bytes; expected at most {LONGEST}", text.len()),
            format!("句子有 {} 字节；最多 {LONGEST} 字节", text.len()),
        ));
    }
    let words: Vec<String> = roformer::tokenizer::words(text).into_iter().map(str::to_string).collect();
    match words.len() {
        1..=MOST => Ok(words),
        count => Err(Error::refused(
            format!("the sentence has {count} words; expected 1 to {MOST}"),
            format!("句子有 {count} 个词；应为 1 到 {MOST} 个"),
        )),
    }
}

/// A vector for each word, `[words, FEATURES]`: the same word has the same vector, wherever it stands.
pub fn vectors(words: &[String]) -> Vec<f64> {
    let seed = |word: &String| word.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    words.iter().flat_map(|word| check::normal(seed(word), FEATURES)).collect()
}

/// A projection, `[FEATURES, FEATURES]`, that leaves vectors about as long as they are.
pub fn projection(seed: u64) -> Vec<f64> {
    let scale = (FEATURES as f64).sqrt().recip();
    check::normal(seed, FEATURES * FEATURES).into_iter().map(|weight| scale * weight).collect()
}

/// Vectors `[rows, FEATURES]` through a projection.
pub fn project(vectors: &[f64], projection: &[f64]) -> Vec<f64> {
    products(vectors, projection, 1.0)
}

/// scale·a·bᵀ: each row of a `[m, FEATURES]` with each row of b `[n, FEATURES]`, as `[m, n]`.
pub fn products(a: &[f64], b: &[f64], scale: f64) -> Vec<f64> {
    let (m, n) = (a.len() / FEATURES, b.len() / FEATURES);
    let mut out = vec![0.0; m * n];
    linear::forward(a, b, None, None, &mut out, [m, FEATURES, n]);
    out.iter_mut().for_each(|product| *product *= scale);
    out
}

/// Numbers as rows of so many.
pub fn rows(numbers: &[f64], width: usize) -> Vec<Vec<f64>> {
    numbers.chunks_exact(width).map(<[f64]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_have_equal_vectors() {
        let words = words("  the dog\tbites the  man ").unwrap();
        assert_eq!(words, ["the", "dog", "bites", "the", "man"]);
        let vectors = rows(&vectors(&words), FEATURES);
        assert_eq!(vectors[0], vectors[3]);
        assert_ne!(vectors[1], vectors[4]);
        assert!(vectors.iter().flatten().all(|x| x.is_finite()));
    }

    #[test]
    fn chinese_is_cut_into_words() {
        let cut = |text: &str| cut(&Ask { text: text.into() }).unwrap().words;
        assert_eq!(cut("我爱你"), ["我", "爱", "你"]);
        assert_eq!(cut("你爱我"), ["你", "爱", "我"]);
        assert_eq!(cut("RoFormer 用旋转位置编码"), ["RoFormer", "用", "旋转", "位置", "编码"]);
        assert_eq!(cut("the dog, 狗"), ["the", "dog,", "狗"]);
    }

    #[test]
    fn products_are_inner_products() {
        let (a, b) = (check::normal(1, 2 * FEATURES), check::normal(2, 3 * FEATURES));
        let got = products(&a, &b, 0.25);
        for (row, column) in (0..2).flat_map(|row| (0..3).map(move |column| (row, column))) {
            let (a, b) = (&a[row * FEATURES..][..FEATURES], &b[column * FEATURES..][..FEATURES]);
            let wanted: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / 4.0;
            assert!((got[3 * row + column] - wanted).abs() < 1e-13);
        }
    }

    #[test]
    fn sentences_without_end_are_refused() {
        assert!(words("").unwrap_err().to_string().contains("0 words"));
        assert!(words(&"a ".repeat(13)).unwrap_err().to_string().contains("13 words"));
        assert!(words(&"a".repeat(401)).unwrap_err().to_string().contains("401 bytes"));
        assert_eq!(words(&"啊 ".repeat(12)).unwrap().len(), 12);
    }
}
