//! `Rope`: one rotary embedding, from its settings to its frequencies and tables.

use crate::element::Precision;
use crate::error::{Error, Result, brief};
use crate::kernel::MAX_ROTARY_DIM;
use crate::pairing::Pairing;
use crate::parity;
use crate::schedule::{AnglePrecision, Ladder, Schedule};
use crate::table::Table;
use crate::wide::Wide;
use std::ops::Range;

/// One rotary position embedding: which features turn, in which pairs, at which frequencies.
///
/// ```
/// use rope::{Pairing, Positions, Rope, Turn, ViewMut};
///
/// let rope = Rope::builder(4).base(10_000.0).pairing(Pairing::Interleaved).build()?;
/// let table = rope.table::<f32>(0..16, None)?;
/// let mut x = [1.0, 2.0, 3.0, 4.0]; // one token of one head, standing at position 2
/// let mut view = ViewMut::blhd(&mut x, [1, 1, 1, 4])?;
/// table.at(Positions::From(2))?.rotate(Turn::Forward, &mut view)?;
/// assert_eq!(x.map(|value| (value * 1e4_f32).round() / 1e4), [-2.2347, 0.077, 2.9194, 4.0592]);
/// # Ok::<(), rope::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    head_dim: usize,
    rotary_dim: usize,
    rotary_offset: usize,
    pairing: Pairing,
    /// One axis' frequencies; an axial rope repeats them.
    ladder: Ladder,
    schedule: Schedule,
    precision: AnglePrecision,
    axes: Axes,
    xpos: Option<XPos>,
}

/// How the pairs are shared out between the axes of a position that has several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields))]
pub enum Axes {
    /// A position is one number.
    #[default]
    One,
    /// M-RoPE (Qwen2-VL): the first `sections[0]` pairs follow axis 0 (time), the next axis 1 (height), … The sections
    /// add up to all pairs.
    Sections(Vec<usize>),
    /// Interleaved M-RoPE (Qwen3-VL): pair j follows axis j mod n as long as j / n is below that axis' section; all
    /// others follow axis 0.
    Interleaved(Vec<usize>),
    /// Every axis has an equal share of the pairs with frequencies of its own, starting again at 1: images.
    Axial {
        /// How many axes: 2 for images.
        axes: usize,
    },
}

/// xPos (Sun et al. 2022): q is scaled by ζ_j^((m−reference)/scale_base) and k by its inverse, with
/// ζ_j = (2j + 0.4·d)/(1.4·d), so that scores decay with distance. The reference is an absolute position: cached keys
/// stay valid as the sequence grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XPos {
    /// The position at which nothing is scaled.
    pub reference: f64,
    /// Over how many positions the scale acts once. 512.
    pub scale_base: f64,
}

impl Default for XPos {
    fn default() -> Self {
        XPos { reference: 0.0, scale_base: 512.0 }
    }
}

/// The frequencies of a [`Rope`] for one sequence length, fastest pair first as a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frequencies {
    pub(crate) high: Vec<f64>,
    pub(crate) low: Vec<f64>,
    pub(crate) attention_factor: f64,
    pub(crate) precision: AnglePrecision,
}

impl Frequencies {
    /// θ_j for each pair: the nearest `f64`.
    pub fn inv_freq(&self) -> &[f64] {
        &self.high
    }

    /// What [`inv_freq`](Frequencies::inv_freq) leaves of the exact θ_j.
    pub fn rest(&self) -> &[f64] {
        &self.low
    }

    /// The scale of rotated vectors.
    pub fn attention_factor(&self) -> f64 {
        self.attention_factor
    }
}

/// Settings of a [`Rope`] that is being made. See [`Rope::builder`].
#[derive(Clone, Debug)]
pub struct RopeBuilder {
    head_dim: usize,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
    exponent_dim: Option<usize>,
    base: f64,
    pairing: Pairing,
    schedule: Schedule,
    precision: AnglePrecision,
    axes: Axes,
    xpos: Option<XPos>,
}

impl RopeBuilder {
    /// The base of the frequencies, Hugging Face's `rope_theta`. 10000 if not set.
    pub fn base(mut self, base: f64) -> Self {
        self.base = base;
        self
    }

    /// Which features form a pair. Half if not set.
    pub fn pairing(mut self, pairing: Pairing) -> Self {
        self.pairing = pairing;
        self
    }

    /// How many features of a head turn: an even number. All if not set.
    pub fn rotary_dim(mut self, rotary_dim: usize) -> Self {
        self.rotary_dim = Some(rotary_dim);
        self
    }

    /// The first feature that turns. 0 if not set; some models turn the last ones.
    pub fn rotary_offset(mut self, rotary_offset: usize) -> Self {
        self.rotary_offset = rotary_offset;
        self
    }

    /// The rule that makes the frequencies.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// How angles are formed. Exactly if not set.
    pub fn angle_precision(mut self, precision: AnglePrecision) -> Self {
        self.precision = precision;
        self
    }

    /// Positions with several axes.
    pub fn axes(mut self, axes: Axes) -> Self {
        self.axes = axes;
        self
    }

    /// xPos scaling: tables come from [`Rope::xpos_tables`].
    pub fn xpos(mut self, xpos: XPos) -> Self {
        self.xpos = Some(xpos);
        self
    }

    /// Hugging Face's odd rotary dimensions: the exponent keeps the odd number, one more feature turns.
    #[cfg(feature = "hf")]
    pub(crate) fn exponent_dim(mut self, dim: usize) -> Self {
        self.exponent_dim = Some(dim);
        self
    }

    /// Checks the settings.
    pub fn build(self) -> Result<Rope> {
        let head_dim = self.head_dim;
        let rotary_dim = self.rotary_dim.unwrap_or(head_dim);
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) || rotary_dim > MAX_ROTARY_DIM {
            let name = if self.rotary_dim.is_some() { "rotary_dim" } else { "head_dim" };
            let expected = format!("an even number from 2 to {MAX_ROTARY_DIM}");
            return Err(Error::argument(name, rotary_dim, expected));
        }
        if self.rotary_offset.checked_add(rotary_dim).is_none_or(|end| end > head_dim) {
            let value = format!("{} with rotary_dim {rotary_dim}", self.rotary_offset);
            return Err(Error::argument(
                "rotary_offset",
                value,
                format!("a slice within head_dim {head_dim}"),
            ));
        }
        let pairs = rotary_dim / 2;
        let share = match &self.axes {
            Axes::One => 1,
            Axes::Sections(sections) | Axes::Interleaved(sections) => {
                let sum = sections.iter().try_fold(0usize, |sum, &section| sum.checked_add(section));
                if sum != Some(pairs) || sections.len() > 16 {
                    let expected = format!("at most 16 sections that add up to the {pairs} pairs");
                    return Err(Error::argument("sections", format!("{sections:?}"), expected));
                }
                1
            }
            Axes::Axial { axes } => {
                if *axes == 0 || !pairs.is_multiple_of(*axes) {
                    let expected = format!("a divisor of the {pairs} pairs");
                    return Err(Error::argument("axes", axes, expected));
                }
                *axes
            }
        };
        let dim = self.exponent_dim.unwrap_or(rotary_dim) / share;
        let ladder = Ladder { base: self.base, dim, pairs: pairs / share };
        self.schedule.validate(&ladder)?;
        let is_sound =
            |xpos: &XPos| xpos.reference.is_finite() && xpos.scale_base.is_finite() && xpos.scale_base > 0.0;
        if let Some(xpos) = self.xpos.filter(|xpos| !is_sound(xpos)) {
            let expected = "a finite reference and a positive scale_base";
            return Err(Error::argument("xpos", format!("{xpos:?}"), expected));
        }
        let rope = Rope {
            head_dim,
            rotary_dim,
            rotary_offset: self.rotary_offset,
            pairing: self.pairing,
            ladder,
            schedule: self.schedule,
            precision: self.precision,
            axes: self.axes,
            xpos: self.xpos,
        };
        // Rules that depend on the length are furthest from ordinary numbers at the longest; and the precision may be
        // changed later.
        let lengths = if rope.schedule.depends_on_length() { &[None, Some(u64::MAX)][..] } else { &[None] };
        let odd = lengths.iter().find_map(|&length| {
            let exact = rope.clone().with_angle_precision(AnglePrecision::Exact).frequencies(length).high;
            let ladder = &rope.ladder;
            let single = parity::frequencies(&rope.schedule, ladder, length, &exact[..ladder.pairs]);
            exact.into_iter().chain(single.into_iter().map(f64::from)).find(|theta| !theta.is_finite())
        });
        let Some(theta) = odd else { return Ok(rope) };
        let (name, value) = match rope.schedule {
            Schedule::ReceptiveField { rho, .. } => ("rho", rho),
            Schedule::DynamicNtk { factor, .. } | Schedule::NtkAware { factor } => ("factor", factor),
            _ => ("base", rope.ladder.base),
        };
        let expected = format!("one whose frequencies are ordinary numbers; one of them would be {theta}");
        Err(Error::argument(name, brief(value), expected))
    }
}

impl Rope {
    /// Starts a rope for heads of `head_dim` features.
    pub fn builder(head_dim: usize) -> RopeBuilder {
        RopeBuilder {
            head_dim,
            rotary_dim: None,
            rotary_offset: 0,
            exponent_dim: None,
            base: 10_000.0,
            pairing: Pairing::Half,
            schedule: Schedule::Default,
            precision: AnglePrecision::Exact,
            axes: Axes::One,
            xpos: None,
        }
    }

    /// Features of a head.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Features of a head that turn.
    pub fn rotary_dim(&self) -> usize {
        self.rotary_dim
    }

    /// The first feature that turns.
    pub fn rotary_offset(&self) -> usize {
        self.rotary_offset
    }

    /// Pairs of features: half of the rotary dimension.
    pub fn pairs(&self) -> usize {
        self.rotary_dim / 2
    }

    /// Which features form a pair.
    pub fn pairing(&self) -> Pairing {
        self.pairing
    }

    /// The base of the frequencies.
    pub fn base(&self) -> f64 {
        self.ladder.base
    }

    /// The rule that makes the frequencies.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// How angles are formed.
    pub fn angle_precision(&self) -> AnglePrecision {
        self.precision
    }

    /// The axes of a position.
    pub fn axes(&self) -> &Axes {
        &self.axes
    }

    /// xPos scaling, if any.
    pub fn xpos(&self) -> Option<XPos> {
        self.xpos
    }

    /// The same rope without its rule: θ_j = base^(−2j/d), in the same precision.
    pub fn without_rule(mut self) -> Self {
        // The default rule takes whatever another rule took.
        self.schedule = Schedule::Default;
        self
    }

    /// The same rope with another way of forming angles.
    pub fn with_angle_precision(mut self, precision: AnglePrecision) -> Self {
        self.precision = precision;
        self
    }

    pub(crate) fn set_pairing(&mut self, pairing: Pairing) {
        self.pairing = pairing;
    }

    pub(crate) fn set_angle_precision(&mut self, precision: AnglePrecision) {
        self.precision = precision;
    }

    /// The frequencies for a sequence of `sequence_length` tokens. The length matters to the dynamic and LongRoPE rules
    /// alone; `None` is the length the model was trained at.
    pub fn frequencies(&self, sequence_length: impl Into<Option<u64>>) -> Frequencies {
        let mut frequencies = Frequencies::default();
        self.frequencies_into(sequence_length.into(), &mut Vec::new(), &mut frequencies);
        frequencies
    }

    /// As [`frequencies`](Rope::frequencies), into memory that is there already.
    pub(crate) fn frequencies_into(
        &self,
        sequence_length: Option<u64>,
        scratch: &mut Vec<Wide>,
        frequencies: &mut Frequencies,
    ) {
        self.schedule.exact(&self.ladder, sequence_length, scratch);
        let Frequencies { high, low, attention_factor, precision } = frequencies;
        *attention_factor = self.schedule.attention_factor();
        *precision = self.precision;
        high.clear();
        low.clear();
        let repeats = self.pairs() / self.ladder.pairs;
        for _ in 0..repeats {
            high.extend(scratch.iter().map(|theta| theta.hi));
            low.extend(scratch.iter().map(|theta| theta.lo));
        }
        if self.precision == AnglePrecision::F32 {
            let single = parity::frequencies(
                &self.schedule,
                &self.ladder,
                sequence_length,
                &high[..self.ladder.pairs],
            );
            for (pair, high) in high.iter_mut().enumerate() {
                *high = f64::from(single[pair % self.ladder.pairs]);
            }
            low.fill(0.0);
        }
    }

    /// Takes other frequencies for those it was given, and gives those back. What it refuses changes nothing.
    pub(crate) fn swap_given(&mut self, frequencies: &mut Vec<f64>) -> Result<()> {
        let Schedule::Given(list) = &mut self.schedule else {
            let expected = "one whose frequencies were given";
            return Err(Error::argument("rope", format!("one with the rule {}", self.schedule), expected));
        };
        std::mem::swap(list, frequencies);
        let checked = self.schedule.validate(&self.ladder);
        if let (Err(_), Schedule::Given(list)) = (&checked, &mut self.schedule) {
            std::mem::swap(list, frequencies);
        }
        checked
    }

    /// How many axes a position has.
    pub fn axis_count(&self) -> usize {
        match &self.axes {
            Axes::One => 1,
            Axes::Sections(sections) | Axes::Interleaved(sections) => sections.len(),
            Axes::Axial { axes } => *axes,
        }
    }

    /// The axis that each pair follows.
    pub fn axis_of_pairs(&self) -> Vec<usize> {
        let pairs = self.pairs();
        match &self.axes {
            Axes::One => vec![0; pairs],
            Axes::Sections(sections) => {
                let repeat = |(axis, &section)| std::iter::repeat_n(axis, section);
                sections.iter().enumerate().flat_map(repeat).collect()
            }
            Axes::Interleaved(sections) => {
                let axes = sections.len();
                let axis = |pair: usize| match pair / axes < sections[pair % axes] {
                    true => pair % axes,
                    false => 0,
                };
                (0..pairs).map(axis).collect()
            }
            Axes::Axial { axes } => (0..pairs).map(|pair| pair / (pairs / axes)).collect(),
        }
    }

    /// A table of cosines and sines for a range of positions.
    ///
    /// `P` is `f32`, or `f64` for `f64` data. See [`frequencies`](Rope::frequencies) for the length.
    pub fn table<P: Precision>(
        &self,
        positions: Range<i64>,
        sequence_length: impl Into<Option<u64>>,
    ) -> Result<Table<P>> {
        Table::range(self, positions, sequence_length.into())
    }

    /// A table with one row for each listed position, which may be negative or fractional, or have several axes.
    ///
    /// `positions` is `[axes, rows]`: all rows of axis 0, then all of axis 1, … Used with [`Positions::Rows`] or
    /// [`Positions::BatchRows`].
    ///
    /// [`Positions::Rows`]: crate::Positions::Rows
    /// [`Positions::BatchRows`]: crate::Positions::BatchRows
    pub fn table_of<P: Precision>(
        &self,
        positions: &[f64],
        sequence_length: impl Into<Option<u64>>,
    ) -> Result<Table<P>> {
        Table::listed(self, positions, sequence_length.into())
    }

    /// The tables of a rope with xPos scaling: the first for queries, the second for keys.
    pub fn xpos_tables<P: Precision>(
        &self,
        positions: Range<i64>,
        sequence_length: impl Into<Option<u64>>,
    ) -> Result<(Table<P>, Table<P>)> {
        let length = sequence_length.into();
        Ok((Table::xpos(self, positions.clone(), length, 1.0)?, Table::xpos(self, positions, length, -1.0)?))
    }

    /// A table that moves keys already rotated by this rope to other positions, to another rope, or both, without
    /// computing them again: after a context shift, or when the dynamic or LongRoPE rule changes with the length.
    ///
    /// Row i turns by `to[i]`·θ′ − `from[i]`·θ and scales by the ratio of the attention factors. Used with
    /// [`Positions::Rows`](crate::Positions::Rows) on keys as this rope leaves them. The two ropes must turn the same
    /// features in the same output order.
    pub fn rerotation<P: Precision>(
        &self,
        from: &[f64],
        sequence_length: impl Into<Option<u64>>,
        target: &Rope,
        to: &[f64],
        target_length: impl Into<Option<u64>>,
    ) -> Result<Table<P>> {
        Table::rerotation((self, from, sequence_length.into()), (target, to, target_length.into()))
    }
}
