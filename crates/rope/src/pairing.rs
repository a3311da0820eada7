//! Which two features form a pair, and how to move projection weights from one pairing to another.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// Which two of the d rotary features of a head form pair j.
///
/// The pairings are not interchangeable: the same weights under another pairing are another model. They are equivalent
/// only after the q and k projections have been permuted, see [`permute_projection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Pairing {
    /// Features 2j and 2j+1: RoFormer, GPT-J, GLM, Cohere.
    Interleaved,
    /// Features j and j+d/2: GPT-NeoX, Llama, Qwen, MiniMind.
    Half,
    /// Read as [`Interleaved`](Pairing::Interleaved), written as [`Half`](Pairing::Half): RoFormer_pytorch, DeepSeek.
    /// Scores are those of either; rotated vectors come out in another order. Its inverse and its backward read halves
    /// and write interleaved.
    InterleavedToHalf,
}

/// Where the two features of each pair stand in memory: the two layouts that a kernel reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Interleaved,
    Half,
}

impl Order {
    /// The indices of the two features of `pair` within the rotary features.
    #[inline(always)]
    pub fn features(self, pair: usize, pairs: usize) -> (usize, usize) {
        match self {
            Order::Interleaved => (2 * pair, 2 * pair + 1),
            Order::Half => (pair, pair + pairs),
        }
    }
}

impl Pairing {
    /// The two features of a head that form pair j of so many pairs, as they stand before the rotation.
    ///
    /// ```
    /// use rope::Pairing;
    ///
    /// assert_eq!(Pairing::Interleaved.features(1, 64), (2, 3));
    /// assert_eq!(Pairing::Half.features(1, 64), (1, 65));
    /// ```
    pub fn features(self, pair: usize, pairs: usize) -> (usize, usize) {
        self.input().features(pair, pairs)
    }

    /// The order of a vector before the rotation; projection weights are in this order.
    pub(crate) fn input(self) -> Order {
        match self {
            Pairing::Interleaved | Pairing::InterleavedToHalf => Order::Interleaved,
            Pairing::Half => Order::Half,
        }
    }

    /// The order of a vector after the rotation; cached keys are in this order.
    pub(crate) fn output(self) -> Order {
        match self {
            Pairing::Interleaved => Order::Interleaved,
            Pairing::Half | Pairing::InterleavedToHalf => Order::Half,
        }
    }

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Pairing::Interleaved => "interleaved",
            Pairing::Half => "half",
            Pairing::InterleavedToHalf => "interleaved_to_half",
        }
    }
}

impl fmt::Display for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pairing {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        [Pairing::Interleaved, Pairing::Half, Pairing::InterleavedToHalf]
            .into_iter()
            .find(|pairing| pairing.name() == name)
            .ok_or_else(|| {
                Error::argument("pairing", format!("`{name}`"), "interleaved, half or interleaved_to_half")
            })
    }
}

/// The heads that a projection's rows belong to, and which of their features are rotary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLayout {
    /// Heads in the projection: those of q, or those of k (which may be fewer).
    pub heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Rotary features of a head, an even number; the others are left alone.
    pub rotary_dim: usize,
    /// Where they begin.
    pub rotary_offset: usize,
}

/// Permutes a q or k projection from one pairing to another, so that the model's scores stay what they were.
///
/// `weight` is `[heads · head_dim, columns]`, row by row (Hugging Face's `q_proj.weight`); a bias is a weight of one
/// column. `out` has the same shape. Permuting back is the same call with `from` and `to` exchanged. What counts is the
/// order in which a pairing reads a vector, so `Interleaved` and `InterleavedToHalf` share their weights.
///
/// ```
/// use rope::{HeadLayout, Pairing, permute_projection};
///
/// let bias = [0.0, 0.1, 1.0, 1.1, 2.0, 2.1]; // one head, three pairs, side by side
/// let mut out = [0.0; 6];
/// let head = HeadLayout { heads: 1, head_dim: 6, rotary_dim: 6, rotary_offset: 0 };
/// permute_projection(&bias, &mut out, 1, head, Pairing::Interleaved, Pairing::Half)?;
/// assert_eq!(out, [0.0, 1.0, 2.0, 0.1, 1.1, 2.1]);
/// # Ok::<(), rope::Error>(())
/// ```
pub fn permute_projection<T: Copy>(
    weight: &[T],
    out: &mut [T],
    columns: usize,
    head: HeadLayout,
    from: Pairing,
    to: Pairing,
) -> Result<()> {
    let HeadLayout { heads, head_dim, rotary_dim, rotary_offset } = head;
    if !rotary_dim.is_multiple_of(2) {
        return Err(Error::argument("rotary_dim", rotary_dim, "an even number"));
    }
    if rotary_offset.checked_add(rotary_dim).is_none_or(|end| end > head_dim) {
        let value = format!("{rotary_offset} with rotary_dim {rotary_dim}");
        return Err(Error::argument("rotary_offset", value, format!("a slice within head_dim {head_dim}")));
    }
    let size = heads.checked_mul(head_dim).and_then(|rows| rows.checked_mul(columns));
    if size != Some(weight.len()) || weight.len() != out.len() {
        return Err(Error::shape(
            "permute_projection",
            format!("a weight of {} and an output of {} elements", weight.len(), out.len()),
            format!("{heads} heads × {head_dim} features × {columns} columns for both"),
        ));
    }
    out.copy_from_slice(weight);
    if weight.is_empty() {
        return Ok(());
    }
    let (from, to, pairs) = (from.input(), to.input(), rotary_dim / 2);
    for head in 0..heads {
        for pair in 0..pairs {
            let (sources, targets) = (from.features(pair, pairs), to.features(pair, pairs));
            for (source, target) in [(sources.0, targets.0), (sources.1, targets.1)] {
                let row = |feature: usize| (head * head_dim + rotary_offset + feature) * columns;
                let (source, target) = (row(source), row(target));
                out[target..target + columns].copy_from_slice(&weight[source..source + columns]);
            }
        }
    }
    Ok(())
}
