//! Texts of which only the beginning is kept: no more is read than that takes.

use super::places::Places;
use super::{Encoding, Tokenizer};
use crate::error::Result;

/// Bytes that are read for each token that is kept, and in any case. More tokens than not are shorter.
const BYTES_PER_TOKEN: usize = 8;
const LEAST: usize = 1 << 12;

impl Tokenizer {
    /// One text or two, as [`encode`](Self::encode) or [`encode_pair`](Self::encode_pair) gives them, cut to `max_tokens` as by
    /// [`Encoding::truncate`]: the same tokens, in the time that the beginning takes.
    ///
    /// ```no_run
    /// # fn main() -> roformer::Result<()> {
    /// let tokenizer = roformer::tokenizer::Tokenizer::load("chinese_roformer_base")?;
    /// let book = std::fs::read_to_string("book.txt").unwrap();
    /// let beginning = tokenizer.encode_cut(&book, None, 512)?;
    /// assert!(beginning.len() <= 512);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A text is read to a place where a cut does not change the tokens before it, such as a blank between two words. Where
    /// there is none, or the rules of a `tokenizer.json` are not known to allow it, it is read to its end.
    pub fn encode_cut(&self, text: &str, pair: Option<&str>, max_tokens: usize) -> Result<Encoding> {
        let (mut encoding, _) = self.encode_beginning(text, pair, max_tokens)?;
        encoding.truncate(max_tokens);
        Ok(encoding)
    }

    /// The beginnings of texts, long enough to be cut to `max_tokens`; and the bytes of each that were read.
    fn encode_beginning(
        &self,
        text: &str,
        pair: Option<&str>,
        max_tokens: usize,
    ) -> Result<(Encoding, [usize; 2])> {
        let texts = [text, pair.unwrap_or_default()];
        let first = max_tokens.saturating_mul(BYTES_PER_TOKEN).saturating_add(LEAST);
        let mut read = texts.map(|text| self.end(text, first));
        // A text that is cut is read to more tokens than this.
        let mut wanted = [max_tokens; 2];
        loop {
            let [beginning, other] = [0, 1].map(|index: usize| &texts[index][..read[index]]);
            let encoding = match pair {
                None => self.encode(beginning)?,
                Some(_) => self.encode_pair(beginning, other)?,
            };
            let count = |text| encoding.sequence.iter().filter(|&&sequence| sequence == Some(text)).count();
            let counts = [count(0), count(1)];
            let is_cut = [0, 1].map(|index: usize| read[index] < texts[index].len());
            let is_short = [0, 1].map(|index: usize| is_cut[index] && counts[index] <= wanted[index]);
            if is_short != [false; 2] {
                for index in (0..2).filter(|&index| is_short[index]) {
                    read[index] = self.end(texts[index], read[index].saturating_mul(2));
                }
                continue;
            }
            // Of two texts that are both cut the longer one keeps an odd token: the one with fewer bytes is read to its
            // end, and the other one until it has more tokens or none are left.
            let room = max_tokens.saturating_sub(encoding.len() - counts[0] - counts[1]);
            let few = usize::from(texts[1].len() < texts[0].len());
            let is_open =
                is_cut != [false; 2] && room % 2 == 1 && counts.iter().all(|&count| count > room / 2);
            if is_open && is_cut[few] {
                read[few] = texts[few].len();
            } else if is_open && is_cut[1 - few] && counts[1 - few] <= counts[few] {
                wanted[1 - few] = counts[few];
            } else {
                return Ok((encoding, read));
            }
        }
    }

    /// Where a text can be cut from a byte on: its end if nowhere.
    fn end(&self, text: &str, from: usize) -> usize {
        match from < text.len() {
            true => self.places.get_or_init(|| Places::of(&self.rule)).next(&self.rule, text, from),
            false => text.len(),
        }
    }
}

#[cfg(test)]
mod tests;
