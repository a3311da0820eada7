//! What a batch brings: copied to the GPU at once, from memory that both can reach.

use super::lowering::Lowering;
use crate::graph::{Batch, IGNORE};
use crate::ops::cuda::training::Scalars;
use gpu::Span;

/// Fills bytes from a batch.
type Fill = Box<dyn Fn(&Batch, &mut [u8]) + Send>;

struct Feed {
    name: String,
    offset: usize,
    bytes: usize,
    fill: Fill,
}

/// All that a batch brings, one after the other, after the scalars.
pub(super) struct Feeds {
    all: Vec<Feed>,
    bytes: usize,
}

impl Feeds {
    pub fn new() -> Feeds {
        Feeds { all: Vec::new(), bytes: size_of::<Scalars>() }
    }

    /// Bytes of everything.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills everything but the scalars.
    pub fn fill(&self, batch: &Batch, out: &mut [u8]) {
        for feed in &self.all {
            (feed.fill)(batch, &mut out[feed.offset..][..feed.bytes]);
        }
    }
}

/// Writes whole numbers of 32 bits.
pub(super) fn write(numbers: impl IntoIterator<Item = u32>, out: &mut [u8]) {
    for (out, number) in out.chunks_exact_mut(4).zip(numbers) {
        out.copy_from_slice(&number.to_ne_bytes());
    }
}

/// Rows in the order of their ids, which are below the size of the vocabulary; those with the same id in their own order.
fn in_order(ids: &[u32], vocabulary: usize, out: &mut [u8]) {
    // Kernels read the row of each id.
    let is_known = |&id: &u32| (id as usize) < vocabulary;
    assert!(ids.len() * 4 == out.len() && ids.iter().all(is_known), "an id of the vocabulary for each row");
    let mut starts = vec![0u32; vocabulary + 1];
    for &id in ids {
        starts[id as usize + 1] += 1;
    }
    for index in 0..vocabulary {
        starts[index + 1] += starts[index];
    }
    for (row, &id) in (0u32..).zip(ids) {
        let place = &mut starts[id as usize];
        out[*place as usize * 4..][..4].copy_from_slice(&row.to_ne_bytes());
        *place += 1;
    }
}

/// The segments of a batch: all 0 where there are none.
fn types(batch: &Batch, count: usize) -> Vec<u32> {
    if batch.types.is_empty() { vec![0; count] } else { batch.types.clone() }
}

impl Lowering<'_> {
    /// Bytes that a batch brings, filled anew for each; those of the same name are the same.
    pub(crate) fn feed(
        &mut self,
        name: impl Into<String>,
        bytes: usize,
        fill: impl Fn(&Batch, &mut [u8]) + Send + 'static,
    ) -> Span {
        let (name, feeds) = (name.into(), &mut self.feeds);
        let offset = match feeds.all.iter().find(|feed| feed.name == name) {
            Some(feed) => feed.offset,
            None => {
                let offset = feeds.bytes;
                feeds.bytes += bytes.next_multiple_of(16);
                feeds.all.push(Feed { name, offset, bytes, fill: Box::new(fill) });
                offset
            }
        };
        self.inputs.from(offset).first(bytes)
    }

    /// Segments, `[count]`.
    pub(crate) fn segments(&mut self, count: usize) -> Span {
        self.feed("types", 4 * count, move |batch, out| write(types(batch, count), out))
    }

    /// Ids or segments, and the rows in their order: both `[count]`.
    pub(crate) fn ids(&mut self, is_type: bool, count: usize, vocabulary: usize) -> [Span; 2] {
        if is_type {
            let ids = self.segments(count);
            let order = self.feed("types in order", 4 * count, move |batch, out| {
                in_order(&types(batch, count), vocabulary, out);
            });
            return [ids, order];
        }
        let ids = self.feed("ids", 4 * count, |batch, out| write(batch.ids.iter().copied(), out));
        let order =
            self.feed("ids in order", 4 * count, move |batch, out| in_order(&batch.ids, vocabulary, out));
        [ids, order]
    }

    /// Targets `[count]`, each of them a class or [`IGNORE`].
    pub(crate) fn targets(&mut self, count: usize, classes: usize) -> Span {
        self.feed("targets", 4 * count, move |batch, out| {
            let targets = batch.targets.iter().copied();
            // A kernel reads the score of each.
            let is_class = |target: u32| target == IGNORE || (target as usize) < classes;
            assert!(targets.clone().all(is_class), "targets among the classes");
            write(targets.chain(std::iter::repeat(IGNORE)), out);
        })
    }

    /// Which tokens are real: words of 64 bits, `[texts, ⌈length / 64⌉]`.
    pub(crate) fn mask(&mut self, texts: usize, length: usize) -> Span {
        let words = length.div_ceil(64);
        self.feed("mask", 8 * texts * words, move |batch, out| {
            for (index, out) in out.chunks_exact_mut(8).enumerate() {
                let (text, first) = (index / words, index % words * 64);
                let tokens = text * length + first..text * length + length.min(first + 64);
                let word = tokens.rev().fold(0u64, |word, token| {
                    word << 1 | u64::from(batch.mask.get(token).copied().unwrap_or(true))
                });
                out.copy_from_slice(&word.to_ne_bytes());
            }
        })
    }

    /// How many tokens of each text are real, where those are the first ones: `[texts]`.
    pub(crate) fn counts(&mut self, texts: usize, length: usize) -> Span {
        self.length = Some(length);
        self.feed("counts", 4 * texts, move |batch, out| {
            let count = |text: &[bool]| text.iter().filter(|&&is_real| is_real).count() as u32;
            let given = batch.mask.chunks(length.max(1)).map(count);
            write(given.chain(std::iter::repeat(length as u32)), out);
        })
    }

    /// Where tokens stand, `[length]`.
    pub(crate) fn positions(&mut self, length: usize) -> Span {
        self.feed("positions", 4 * length, move |batch, out| {
            let given = &batch.positions;
            let place = |index: usize| given.get(index).copied().unwrap_or(index as u32);
            write((0..length).map(place), out);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_the_order_of_their_ids() {
        let mut out = vec![0; 4 * 6];
        in_order(&[3, 0, 3, 1, 0, 3], 5, &mut out);
        let rows: Vec<u32> =
            out.chunks(4).map(|bytes| u32::from_ne_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(rows, [1, 4, 3, 0, 2, 5]);
    }
}
