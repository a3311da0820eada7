//! The tables of a rope, written to memory that somebody else has made: torch's.

use crate::error::raised;
use crate::rope::Rope;
use pyo3::prelude::*;
use rope::{Pairing, Precision};

/// What `rotary.torch` asks of a rope: features of a head, those that turn, the first of them, the pairing as `rotate` numbers it, and
/// the attention factor.
#[pyfunction]
pub(crate) fn features(rope: &Rope) -> (usize, usize, usize, u8, f64) {
    let rope = &rope.0;
    let pairing = match rope.pairing() {
        Pairing::Half => 0,
        Pairing::Interleaved => 1,
        Pairing::InterleavedToHalf => 2,
    };
    let factor = rope.frequencies(None).attention_factor();
    (rope.head_dim(), rope.rotary_dim(), rope.rotary_offset(), pairing, factor)
}

/// The frequencies, one per pair.
#[pyfunction]
pub(crate) fn frequencies(rope: &Rope) -> Vec<f64> {
    rope.0.frequencies(None).inv_freq().to_vec()
}

/// Writes the cosines and sines of positions 0 to `rows`, both `[rows, pairs]`, to two addresses: as float64 where `is_double`, else
/// float32. The memory must be there, and nobody else's while this runs; `rotary.torch` sees to that.
#[pyfunction]
pub(crate) fn fill_table(
    py: Python,
    rope: &Rope,
    rows: usize,
    sequence_length: Option<u64>,
    is_double: bool,
    cos: usize,
    sin: usize,
) -> PyResult<()> {
    py.detach(|| match is_double {
        true => fill::<f64>(&rope.0, rows, sequence_length, cos, sin),
        false => fill::<f32>(&rope.0, rows, sequence_length, cos, sin),
    })
}

fn fill<P: Precision>(
    rope: &rope::Rope,
    rows: usize,
    sequence_length: Option<u64>,
    cos: usize,
    sin: usize,
) -> PyResult<()> {
    let end = i64::try_from(rows).map_err(raised)?;
    let table = rope.table::<P>(0..end, sequence_length).map_err(raised)?;
    for (address, numbers) in [(cos, table.cos()), (sin, table.sin())] {
        if numbers.is_empty() {
            continue;
        }
        if address == 0 || !address.is_multiple_of(size_of::<P>()) {
            return Err(raised(format!("a table at address {address:#x}; expected memory for {rows} rows")));
        }
        // SAFETY: the caller made the memory for as many numbers of this type, and nobody else has it.
        unsafe { std::ptr::copy_nonoverlapping(numbers.as_ptr(), address as *mut P, numbers.len()) };
    }
    Ok(())
}
