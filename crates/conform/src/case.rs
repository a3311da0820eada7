//! A case: a configuration, positions, and the queries and keys that are made from its name.

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::plan::Plan;
use rope::{Axes, HfConfig, HfOptions, Rope, Schedule};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Heads of queries and of keys in every case.
pub const HEADS: [usize; 2] = [2, 1];
/// Of a case that somebody made, at most so many tokens are read.
const MOST_TOKENS: usize = 4096;

/// A question: this model, these positions; how are q and k turned?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it is called. Its tensors are called after it.
    pub name: String,
    /// What it is about, to choose cases by: the rule, the pairing, `partial`, `mrope`, `long`, `cache`.
    pub tags: Vec<String>,
    /// What goes wrong here and not elsewhere, in words.
    #[serde(default)]
    pub isolates: String,
    /// The model's `config.json`.
    pub config: Value,
    /// Which of the model's layers, where they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_type: Option<String>,
    /// One row of positions for each axis: one row, or three (time, height, width). A position per token.
    pub positions: Vec<Vec<i64>>,
    /// A sequence of this length went through the same module before, and is to leave no trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// The tokens come in so many calls of so many tokens each, and the keys are those in the cache after the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<Vec<usize>>,
    /// What the configuration comes to, for those who read no configurations. Written, never read.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "ignored")]
    pub rope: Option<Resolved>,
}

/// Steps over what is written for others.
fn ignored<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Option<Resolved>, D::Error> {
    serde::de::IgnoredAny::deserialize(from).map(|_| None)
}

/// What a configuration comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resolved {
    /// The rule's name.
    pub rule: &'static str,
    /// Features of a head.
    pub head_dim: usize,
    /// Features of a head that turn.
    pub rotary_dim: usize,
    /// Where they begin.
    pub rotary_offset: usize,
    /// Which two features form a pair: `half`, `interleaved`, or `interleaved_to_half`.
    pub pairing: &'static str,
    /// What rotated vectors are multiplied by.
    pub attention_factor: f64,
    /// The length that the frequencies are for: the largest position and one.
    pub sequence_length: u64,
    /// The angle of pair j at position 1, at that length.
    pub inv_freq: Vec<f64>,
    /// Which row of positions each pair turns by, where there is more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub axis_of_pair: Vec<usize>,
}

/// A case with its configuration read.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// The case.
    pub case: Case,
    /// Its rope.
    pub rope: Rope,
    /// What the file names as the longest sequence.
    pub longest: Option<u64>,
    /// The length of the sequence when a token's query, and its key, is turned for good.
    pub lengths: [Vec<u64>; 2],
}

impl Case {
    /// Reads the case's configuration.
    pub fn meaning(&self) -> Result<Meaning> {
        let refuse = |why: String| Error::new(format!("case `{}`: {why}", self.name));
        let bytes = self.config.to_string();
        let config = HfConfig::read(bytes.as_bytes(), &HfOptions::default())
            .map_err(|error| refuse(error.to_string()))?;
        let longest = config.max_position_embeddings;
        let set = config.ropes().map_err(|error| refuse(error.to_string()))?;
        let rope = match &self.layer_type {
            None => set.only().map_err(|error| refuse(error.to_string()))?,
            Some(name) => set
                .layer(name)
                .map_err(|error| refuse(error.to_string()))?
                .ok_or_else(|| refuse(format!("layers of type {name} do not turn; expected some that do")))?,
        };
        let (axes, tokens) = (rope.axis_count(), self.positions.first().map_or(0, Vec::len));
        if self.positions.len() != axes || self.positions.iter().any(|row| row.len() != tokens) {
            let rows = self.positions.len();
            return Err(refuse(format!("{rows} rows of positions; expected {axes} of the same length")));
        }
        if tokens == 0 || tokens > MOST_TOKENS {
            return Err(refuse(format!("{tokens} tokens; expected from 1 to {MOST_TOKENS}")));
        }
        if let Some(position) = self.positions.iter().flatten().find(|at| !(0..=1 << 40).contains(*at)) {
            return Err(refuse(format!("the position {position}; expected from 0 to 2^40")));
        }
        let calls = self.calls.clone().unwrap_or_else(|| vec![tokens]);
        if calls.iter().try_fold(0usize, |sum, &call| sum.checked_add(call)) != Some(tokens) {
            return Err(refuse(format!("calls of {calls:?} tokens; expected {tokens} in all")));
        }
        // A query is turned when its token comes; a key counts as it is in the cache at the end.
        let length_to = |end: usize| {
            let seen = self.positions.iter().flat_map(|row| row[..end].iter());
            seen.max().map_or(1, |&last| last as u64 + 1)
        };
        let ends = calls.iter().scan(0, |end, &call| {
            *end += call;
            Some((call, *end))
        });
        let q = ends.flat_map(|(call, end)| std::iter::repeat_n(length_to(end), call)).collect();
        let k = vec![length_to(tokens); tokens];
        Ok(Meaning { case: self.clone(), rope: rope.clone(), longest, lengths: [q, k] })
    }
}

impl Meaning {
    /// Tokens of the case.
    pub fn tokens(&self) -> usize {
        self.case.positions[0].len()
    }

    /// The shape of the queries (0) or keys (1): batch, heads, tokens, features.
    pub fn shape(&self, side: usize) -> [usize; 4] {
        [1, HEADS[side], self.tokens(), self.rope.head_dim()]
    }

    /// The queries (0) or keys (1): odd multiples of 1/64 within ±2, which every type holds exactly.
    pub fn input(&self, side: usize) -> Vec<f64> {
        let letter = ["q", "k"][side];
        let seed = hash(&format!("{}.{letter}", self.case.name));
        let count = self.shape(side).iter().product::<usize>() as u64;
        (0..count).map(|index| (2.0 * (mix(seed, index) % 128) as f64 - 127.0) / 64.0).collect()
    }

    /// The queries and keys turned, exactly.
    pub fn expected(&self) -> [Vec<f64>; 2] {
        let plan = Plan::right(self);
        [0, 1].map(|side| plan.turn(side, &self.input(side)).iter().map(|element| element.value).collect())
    }

    /// What the configuration comes to.
    pub fn resolved(&self) -> Resolved {
        let length = self.lengths[1][0];
        let frequencies = self.rope.frequencies(length);
        let axes = if self.rope.axes() == &Axes::One { Vec::new() } else { self.rope.axis_of_pairs() };
        Resolved {
            rule: self.rope.schedule().name(),
            head_dim: self.rope.head_dim(),
            rotary_dim: self.rope.rotary_dim(),
            rotary_offset: self.rope.rotary_offset(),
            pairing: self.rope.pairing().name(),
            attention_factor: frequencies.attention_factor(),
            sequence_length: length,
            inv_freq: frequencies.inv_freq().to_vec(),
            axis_of_pair: axes,
        }
    }

    /// The frequencies of each token under another base or rule, or `None` where they cannot be had: each in two parts.
    pub(crate) fn frequencies(
        &self,
        base: f64,
        schedule: &Schedule,
        lengths: &[u64],
    ) -> Option<Vec<Vec<Theta>>> {
        let dim = self.rope.rotary_dim();
        let builder = Rope::builder(dim).base(base).schedule(schedule.clone()).axes(self.rope.axes().clone());
        per_token(&builder.build().ok()?, lengths)
    }
}

/// A frequency as a rounded part and what the rounding left.
pub(crate) type Theta = (f64, f64);

/// A rope's frequencies at the length of each token.
pub(crate) fn per_token(rope: &Rope, lengths: &[u64]) -> Option<Vec<Vec<Theta>>> {
    let mut rows: Vec<Vec<Theta>> = Vec::with_capacity(lengths.len());
    for (token, &length) in lengths.iter().enumerate() {
        if token > 0 && lengths[token - 1] == length {
            rows.push(rows[token - 1].clone());
            continue;
        }
        let at = rope.frequencies(length);
        rows.push(at.inv_freq().iter().copied().zip(at.rest().iter().copied()).collect());
    }
    Some(rows)
}

/// The name of a case's tensor.
pub fn tensor_name(case: &str, dtype: Option<Dtype>, side: usize) -> String {
    let letter = ["q", "k"][side];
    match dtype {
        Some(dtype) => format!("{case}.{dtype}.{letter}"),
        None => format!("{case}.{letter}"),
    }
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// SplitMix64's finisher.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed ^ index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
