//! A text as a model reads it.

/// One text or two as tokens. All fields have one entry per token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoding {
    /// The tokens' numbers in the vocabulary.
    pub ids: Vec<u32>,
    /// The segments: 0 for the first text and the special tokens around it, 1 for the second.
    pub token_types: Vec<u32>,
    /// Where a token stands in its text: from this byte to before that one; `(0, 0)` for a special token that was added.
    pub offsets: Vec<(usize, usize)>,
    /// Which text a token comes from: 0 or 1; none for a special token that was added. One that is written in the text
    /// belongs to the text.
    pub sequence: Vec<Option<u8>>,
}

impl Encoding {
    /// How many tokens there are, special ones included.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Cuts texts at their ends until `max_tokens` are left in all. Special tokens that were added stay, even if there
    /// are more than `max_tokens` of them.
    ///
    /// Of two texts the longer one is cut down to the length of the other first, then both alike; an odd token goes to
    /// the one that was longer, to the second if they were of equal length. This is transformers' `longest_first`.
    ///
    /// ```
    /// # use roformer::tokenizer::Encoding;
    /// let mut encoding = Encoding {
    ///     ids: vec![101, 7, 8, 9, 102],
    ///     token_types: vec![0; 5],
    ///     offsets: vec![(0, 0), (0, 3), (3, 6), (6, 9), (0, 0)],
    ///     sequence: vec![None, Some(0), Some(0), Some(0), None],
    /// };
    /// encoding.truncate(4);
    /// assert_eq!(encoding.ids, [101, 7, 8, 102]);
    /// ```
    pub fn truncate(&mut self, max_tokens: usize) {
        if self.len() <= max_tokens {
            return;
        }
        let count = |text| self.sequence.iter().filter(|&&sequence| sequence == Some(text)).count();
        let lengths = [count(0), count(1)];
        let room = max_tokens.saturating_sub(self.len() - lengths[0] - lengths[1]);
        let longer = usize::from(lengths[1] >= lengths[0]);
        let shorter = lengths[1 - longer].min(room / 2);
        let mut left = [shorter; 2];
        left[longer] = room - shorter;
        let keep: Vec<bool> = self
            .sequence
            .iter()
            .map(|sequence| match sequence {
                None => true,
                Some(text) => {
                    let left = &mut left[usize::from(*text != 0)];
                    let keep = *left > 0;
                    *left = left.saturating_sub(1);
                    keep
                }
            })
            .collect();
        retain(&mut self.ids, &keep);
        retain(&mut self.token_types, &keep);
        retain(&mut self.offsets, &keep);
        retain(&mut self.sequence, &keep);
    }

    /// Cuts one text at its beginning until `max_tokens` are left in all; special tokens that were added stay.
    ///
    /// ```
    /// # use roformer::tokenizer::Encoding;
    /// let mut encoding = Encoding {
    ///     ids: vec![101, 7, 8, 9, 102],
    ///     token_types: vec![0; 5],
    ///     offsets: vec![(0, 0), (0, 3), (3, 6), (6, 9), (0, 0)],
    ///     sequence: vec![None, Some(0), Some(0), Some(0), None],
    /// };
    /// encoding.truncate_front(4);
    /// assert_eq!(encoding.ids, [101, 8, 9, 102]);
    /// ```
    pub fn truncate_front(&mut self, max_tokens: usize) {
        let mut surplus = self.len().saturating_sub(max_tokens);
        let mut keep = vec![true; self.len()];
        for (keep, _) in keep.iter_mut().zip(&self.sequence).filter(|(_, sequence)| sequence.is_some()) {
            *keep = surplus == 0;
            surplus = surplus.saturating_sub(1);
        }
        retain(&mut self.ids, &keep);
        retain(&mut self.token_types, &keep);
        retain(&mut self.offsets, &keep);
        retain(&mut self.sequence, &keep);
    }

    /// [`offsets`](Self::offsets) in characters instead of bytes, as transformers gives them. `second` is `""` where
    /// there was one text.
    ///
    /// ```
    /// # use roformer::tokenizer::Encoding;
    /// let encoding = Encoding {
    ///     ids: vec![7, 8],
    ///     token_types: vec![0; 2],
    ///     offsets: vec![(0, 6), (6, 9)],
    ///     sequence: vec![Some(0); 2],
    /// };
    /// assert_eq!(encoding.characters("今天好", ""), [(0, 2), (2, 3)]);
    /// ```
    pub fn characters(&self, first: &str, second: &str) -> Vec<(usize, usize)> {
        // Of a text that was cut only the beginning counts.
        let tables = [(first, 0u8), (second, 1)].map(|(text, number)| {
            let of_text = self.offsets.iter().zip(&self.sequence).filter(|(_, of)| **of == Some(number));
            let end = of_text.map(|(offsets, _)| offsets.1).max().unwrap_or(0);
            characters_before(text.get(..end).unwrap_or(text))
        });
        self.offsets
            .iter()
            .zip(&self.sequence)
            .map(|(&(start, end), sequence)| match sequence {
                None => (0, 0),
                Some(text) => {
                    let table = &tables[usize::from(*text != 0)];
                    let at = |byte: usize| table[byte.min(table.len() - 1)];
                    (at(start), at(end))
                }
            })
            .collect()
    }
}

/// For every byte of a text, and for its end, how many characters stand before the one that it belongs to.
fn characters_before(text: &str) -> Vec<usize> {
    let mut table = Vec::with_capacity(text.len() + 1);
    for (index, character) in text.chars().enumerate() {
        table.extend(std::iter::repeat_n(index, character.len_utf8()));
    }
    table.push(table.last().map_or(0, |last| last + 1));
    table
}

fn retain<T>(values: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    values.retain(|_| keep.next().copied().unwrap_or(true));
}
