//! What operations share: small inputs on the GPU, tables of rotations, the times of a pass.

use crate::attention::softmax::{Mask, Reach};
use crate::error::Result;
use gpu::{Block, Event, Plain, Queue};
use rope::cuda::Table;
use std::sync::Arc;

/// Tables kept at a time.
const TABLES: usize = 8;

pub(super) struct State {
    queue: Arc<Queue>,
    /// Ids of the tokens that are embedded, and their segments.
    pub ids: Input<u32>,
    pub types: Input<u32>,
    /// `[batch, words]`: a bit a key.
    mask: Input<u64>,
    prefixes: Input<u32>,
    /// Which row of a table each distance takes: of the four tables that an attention may have.
    indices: [Input<u32>; 4],
    tables: Vec<Table>,
    begin: Event,
    end: Event,
    /// Whether the beginning of a pass has been marked, and its end.
    marked: (bool, bool),
}

/// Small numbers that are the same for many operations: copied to the GPU when they change.
pub(super) struct Input<V> {
    now: Vec<V>,
    block: Block,
}

impl<V: Plain + PartialEq> Input<V> {
    fn new(queue: &Arc<Queue>) -> Result<Self> {
        Ok(Input { now: Vec::new(), block: Block::new(queue, 0)? })
    }

    /// The address of these numbers on the GPU. In the stream's order they stay until others are put.
    pub fn put(&mut self, queue: &Arc<Queue>, numbers: &[V]) -> Result<u64> {
        if self.now != numbers {
            let bytes = size_of_val(numbers);
            self.now.clear();
            if bytes > self.block.bytes() {
                self.block = Block::new(queue, bytes.next_power_of_two())?;
            }
            self.block.upload(self.block.span(), numbers)?;
            self.now.extend_from_slice(numbers);
        }
        Ok(self.block.pointer())
    }
}

/// A bit for each of `keys` keys of each sequence, in words of 64.
fn words(mask: &[bool], keys: usize) -> Vec<u64> {
    let word = |part: &[bool]| part.iter().rev().fold(0, |word, &there| word << 1 | u64::from(there));
    mask.chunks(keys.max(1)).flat_map(|row| row.chunks(64).map(word)).collect()
}

impl State {
    pub fn new(queue: &Arc<Queue>) -> Result<State> {
        let event = || Event::new(queue.device());
        Ok(State {
            queue: queue.clone(),
            ids: Input::new(queue)?,
            types: Input::new(queue)?,
            mask: Input::new(queue)?,
            prefixes: Input::new(queue)?,
            indices: [Input::new(queue)?, Input::new(queue)?, Input::new(queue)?, Input::new(queue)?],
            tables: Vec::new(),
            begin: event()?,
            end: event()?,
            marked: (false, false),
        })
    }

    /// The addresses of a mask's words and prefixes, 0 where there are none, and the number of its reach.
    pub fn mask(&mut self, mask: &Mask, keys: usize) -> Result<(u64, u64, u32)> {
        let bits = match mask.keys {
            Some(list) => self.mask.put(&self.queue, &words(list, keys))?,
            None => 0,
        };
        Ok(match mask.reach {
            Reach::All => (bits, 0, 0),
            Reach::Causal => (bits, 0, 1),
            Reach::Prefix(prefixes) => {
                let prefixes: Vec<u32> =
                    prefixes.iter().map(|&prefix| u32::try_from(prefix).unwrap_or(u32::MAX)).collect();
                (bits, self.prefixes.put(&self.queue, &prefixes)?, 2)
            }
        })
    }

    /// The address of the segments of tokens.
    pub fn segments(&mut self, ids: &[u32]) -> Result<u64> {
        self.types.put(&self.queue, ids)
    }

    /// The address of the rows that distances take, of the table with this number.
    pub fn index(&mut self, table: usize, rows: &[u32]) -> Result<u64> {
        self.indices[table].put(&self.queue, rows)
    }

    /// The table on the GPU.
    pub fn table(&mut self, table: &rope::Table<f32>) -> rope::Result<&Table> {
        let index = match self.tables.iter().position(|kept| kept.holds(table)) {
            Some(index) => index,
            None => {
                let (device, stream) = (self.queue.device(), self.queue.stream());
                // Steps of a decoder: as many rows of the same rope, at other positions.
                let same = |kept: &Table| kept.rows() == table.rows() && kept.rope() == table.rope();
                match self.tables.iter().position(same) {
                    Some(index) if self.tables[index].refill(stream, table).is_ok() => index,
                    _ => {
                        let new = Table::new(device, table)?;
                        if self.tables.len() >= TABLES {
                            self.tables.remove(0);
                        }
                        self.tables.push(new);
                        self.tables.len() - 1
                    }
                }
            }
        };
        Ok(&self.tables[index])
    }

    /// Marks the beginning of a forward pass.
    pub fn begin(&mut self) -> gpu::Result<()> {
        self.marked = (true, false);
        self.queue.stream().record(&self.begin)
    }

    /// Marks its end, the first time after its beginning.
    pub fn end(&mut self) -> gpu::Result<()> {
        if self.marked != (true, false) {
            return Ok(());
        }
        self.marked = (true, true);
        self.queue.stream().record(&self.end)
    }

    pub fn pass_milliseconds(&self) -> Option<f64> {
        let time = || self.end.milliseconds_since(&self.begin).ok().map(f64::from);
        if self.marked == (true, true) { time() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn masks_become_bits_in_order() {
        let mut mask = vec![true; 2 * 70];
        (mask[0], mask[69], mask[70 + 64]) = (false, false, false);
        assert_eq!(words(&mask, 70), [!1, 0b011111, !0, 0b111110]);
        assert_eq!(words(&[], 0), [0u64; 0]);
    }
}
