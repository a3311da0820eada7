//! Frequencies × positions → rows of cosines and sines: a value that holds everything it depends on.

use crate::element::Precision;
use crate::error::{Error, Result, brief};
use crate::kernel::fill::{BLOCK, Offsets};
use crate::kernel::{self, Level};
use crate::pairing::{Order, Pairing};
use crate::position::{Covered, Positions, check_positions};
use crate::rope::{Axes, Frequencies, Rope};
use crate::rotate::{CosSin, Rows};
use crate::schedule::AnglePrecision;
use crate::trig::{Angle, MAX_ANGLE};
use crate::wide::Wide;
use std::fmt;
use std::ops::Range;

/// Cosines and sines of a [`Rope`], scaled by its attention factor: a row for each position, an entry for each pair.
///
/// The numbers are the nearest to the true values: |table − exact| ≤ 0.51·2^-24 for an attention factor of 1, at every
/// position to 2^31 (except under [`AnglePrecision::F32`]).
#[derive(Clone, Debug)]
pub struct Table<P> {
    rope: Rope,
    covered: Covered,
    /// `[rows, pairs]`
    cos: Vec<P>,
    sin: Vec<P>,
    /// The same with the inverse scale, where there is one: what turns vectors back.
    undo: Option<(Vec<P>, Vec<P>)>,
    frequencies: Frequencies,
    /// Whether rows have scales of their own, which neither the rope nor the frequencies tell.
    is_scaled: bool,
    /// Memory for a refill, and for frequencies that are given.
    spare: Frequencies,
    given: Vec<f64>,
    offsets: Offsets,
    scratch: Vec<Wide>,
}

impl<P: Precision> Table<P> {
    fn new(rope: &Rope) -> Self {
        Table {
            rope: rope.clone(),
            covered: Covered::Listed { rows: 0 },
            cos: Vec::new(),
            sin: Vec::new(),
            undo: None,
            frequencies: Frequencies::default(),
            is_scaled: false,
            spare: Frequencies::default(),
            given: Vec::new(),
            offsets: Offsets::default(),
            scratch: Vec::new(),
        }
    }

    /// Makes room for this many rows, in memory that is there already where possible. All or nothing: without the memory
    /// the table stays as it was.
    fn resize(&mut self, covered: Covered, scaled: bool) -> Result<()> {
        let (rows, pairs) = (covered.rows(), self.rope.pairs());
        let lists = if scaled { 4 } else { 2 };
        let bytes = rows as u128 * pairs as u128 * lists * size_of::<P>() as u128;
        let entries = rows.checked_mul(pairs).ok_or(Error::Memory { bytes })?;
        let mut undo = self.undo.take().unwrap_or_default();
        let reserve = |list: &mut Vec<P>| list.try_reserve_exact(entries.saturating_sub(list.len())).is_ok();
        let fits = reserve(&mut self.cos)
            && reserve(&mut self.sin)
            && (!scaled || (reserve(&mut undo.0) && reserve(&mut undo.1)));
        if !fits {
            self.undo = Some(undo).filter(|undo| !undo.0.is_empty());
            return Err(Error::Memory { bytes });
        }
        self.cos.resize(entries, P::default());
        self.sin.resize(entries, P::default());
        if scaled {
            undo.0.resize(entries, P::default());
            undo.1.resize(entries, P::default());
            self.undo = Some(undo);
        }
        self.covered = covered;
        Ok(())
    }

    fn load_frequencies(&mut self, length: Option<u64>) {
        self.rope.frequencies_into(length, &mut self.scratch, &mut self.frequencies);
    }

    pub(crate) fn range(rope: &Rope, positions: Range<i64>, length: Option<u64>) -> Result<Self> {
        let mut table = Table::new(rope);
        table.refill(positions, length)?;
        Ok(table)
    }

    /// Rebuilds the table for other positions or another sequence length. Memory is allocated only if there are more
    /// rows than there ever were.
    pub fn refill(&mut self, positions: Range<i64>, sequence_length: impl Into<Option<u64>>) -> Result<()> {
        let covered = check_range(&positions)?;
        if self.rope.xpos().is_some() {
            return Err(Error::argument(
                "rope",
                "one with xPos scaling",
                "one without: queries and keys need tables of their own, from `xpos_tables`",
            ));
        }
        // Into the spare ones, so that a refill that fails changes nothing. Axes that all stand at the same position
        // turn as one: the text part of a multi-axis model.
        self.rope.frequencies_into(sequence_length.into(), &mut self.scratch, &mut self.spare);
        self.spare.check_angles([positions.start as f64, positions.end as f64].into_iter())?;
        let factor = self.spare.attention_factor;
        self.resize(covered, factor != 1.0)?;
        std::mem::swap(&mut self.frequencies, &mut self.spare);
        self.is_scaled = false;
        if self.frequencies.precision == AnglePrecision::Exact && covered.rows() > BLOCK {
            let entries = BLOCK * self.rope.pairs();
            self.offsets.cos.resize(entries, 0.0);
            self.offsets.sin.resize(entries, 0.0);
            kernel::fill_offsets(&self.frequencies.high, &self.frequencies.low, &mut self.offsets);
        }
        let Table { cos, sin, undo, frequencies, offsets, .. } = self;
        fill_range(frequencies, offsets, positions.start, factor, cos, sin);
        if let Some((cos, sin)) = undo {
            fill_range(frequencies, offsets, positions.start, 1.0 / factor, cos, sin);
        }
        Ok(())
    }

    /// Takes other frequencies, one per pair, for a rope that was given its own ([`Schedule::Given`](crate::Schedule::Given)),
    /// and fills the rows of the same positions anew: for frequencies that are learned. Memory is allocated the first two
    /// times alone; frequencies that are refused change nothing.
    pub fn refill_given(&mut self, frequencies: impl IntoIterator<Item = f64>) -> Result<()> {
        let Covered::Range { start, rows } = self.covered else {
            return Err(Error::argument("positions", "listed one by one", "those of a range table"));
        };
        self.given.clear();
        self.given.extend(frequencies);
        self.rope.swap_given(&mut self.given)?;
        let refilled = self.refill(start..start + rows as i64, None);
        if refilled.is_err() {
            self.rope.swap_given(&mut self.given)?;
        }
        refilled
    }

    pub(crate) fn listed(rope: &Rope, positions: &[f64], length: Option<u64>) -> Result<Self> {
        if rope.xpos().is_some() {
            let expected = "one without: queries and keys need tables of their own, from `xpos_tables`";
            return Err(Error::argument("rope", "one with xPos scaling", expected));
        }
        let axes = rope.axis_count();
        if !positions.len().is_multiple_of(axes) {
            let got = format!("{} positions", positions.len());
            return Err(Error::shape("table_of", got, format!("a multiple of {axes}: [axes, rows]")));
        }
        check_positions(positions.iter().copied())?;
        let rows = positions.len() / axes;
        let mut table = Table::new(rope);
        table.load_frequencies(length);
        table.frequencies.check_angles(positions.iter().copied())?;
        let factor = table.frequencies.attention_factor;
        table.resize(Covered::Listed { rows }, factor != 1.0)?;
        let axis = rope.axis_of_pairs();
        table.fill_rows(
            |frequencies, row, pair| frequencies.angle(positions[axis[pair] * rows + row], pair),
            |_, _| factor,
        );
        Ok(table)
    }

    pub(crate) fn xpos(rope: &Rope, positions: Range<i64>, length: Option<u64>, sign: f64) -> Result<Self> {
        let Some(xpos) = rope.xpos() else {
            return Err(Error::argument("rope", "one without xPos scaling", "one with it, or `Rope::table`"));
        };
        let covered = check_range(&positions)?;
        let mut table = Table::new(rope);
        table.load_frequencies(length);
        let ends = [positions.start as f64, positions.end as f64];
        table.frequencies.check_angles(ends.into_iter())?;
        let (factor, dim) = (table.frequencies.attention_factor, rope.rotary_dim() as f64);
        let position = |row: usize| (positions.start + row as i64) as f64;
        let scale = |row: usize, pair: usize| {
            let zeta = (2.0 * pair as f64 + 0.4 * dim) / (1.4 * dim);
            factor * zeta.powf(sign * (position(row) - xpos.reference) / xpos.scale_base)
        };
        // ζ is smallest for pair 0, so if its scale fits at both ends, both ways, all do.
        for row in [0, covered.rows().saturating_sub(1)] {
            let fits = |scale: f64| P::from_f64(scale).to_f64().is_finite();
            if !fits(scale(row, 0)) || !fits(1.0 / scale(row, 0)) {
                let expected =
                    "positions nearer to the reference: the scale of xPos leaves the range of the type";
                return Err(Error::argument("position", brief(position(row)), expected));
            }
        }
        table.resize(covered, true)?;
        table.is_scaled = true;
        table.fill_rows(|frequencies, row, pair| frequencies.angle(position(row), pair), scale);
        Ok(table)
    }

    /// A table that turns nothing and multiplies the vectors at position p by `scale(p)`, a number other than 0: for queries
    /// whose scores grow with the text. Heads have `head_dim` features.
    ///
    /// ```
    /// use rope::Table;
    ///
    /// let table = Table::<f32>::scaling(4, 1..4, |position| 0.5 * position as f64)?;
    /// assert_eq!(table.cos(), [0.5, 0.5, 1.0, 1.0, 1.5, 1.5]);
    /// assert_eq!(table.sin(), [0.0; 6]);
    /// # Ok::<(), rope::Error>(())
    /// ```
    pub fn scaling(
        head_dim: usize,
        positions: Range<i64>,
        scale: impl Fn(i64) -> f64 + Sync,
    ) -> Result<Self> {
        let covered = check_range(&positions)?;
        let mut table = Table::new(&Rope::builder(head_dim).build()?);
        table.load_frequencies(None);
        table.resize(covered, true)?;
        table.is_scaled = true;
        let still = Angle { rounded: 0.0, rest: 0.0 };
        table.fill_rows(|_, _, _| still, |row, _| scale(positions.start + row as i64));
        Ok(table)
    }

    pub(crate) fn rerotation(
        (rope, from, length): (&Rope, &[f64], Option<u64>),
        (target, to, target_length): (&Rope, &[f64], Option<u64>),
    ) -> Result<Self> {
        if from.len() != to.len() {
            return Err(Error::shape(
                "rerotation",
                format!("{} positions", to.len()),
                format!("{}", from.len()),
            ));
        }
        check_positions(from.iter().chain(to).copied())?;
        let features = |rope: &Rope| (rope.head_dim(), rope.rotary_offset(), rope.rotary_dim());
        if features(rope) != features(target) || rope.pairing().output() != target.pairing().output() {
            return Err(Error::argument(
                "target",
                "a rope over other features",
                "one with the same head_dim, rotary slice and output order",
            ));
        }
        if [rope, target].iter().any(|rope| rope.xpos().is_some() || *rope.axes() != Axes::One) {
            return Err(Error::argument("rope", "one with xPos or several axes", "one with neither"));
        }
        let (old, new) = (rope.frequencies(length), target.frequencies(target_length));
        old.check_angles(from.iter().copied())?;
        new.check_angles(to.iter().copied())?;
        let mut table = Table::new(target);
        table.rope.set_pairing(match target.pairing().output() {
            Order::Interleaved => Pairing::Interleaved,
            Order::Half => Pairing::Half,
        });
        // The difference of two angles is formed in f64 even where each is an f32 product.
        table.rope.set_angle_precision(AnglePrecision::Exact);
        let factor = new.attention_factor / old.attention_factor;
        table.resize(Covered::Listed { rows: from.len() }, factor != 1.0)?;
        table.frequencies = new.clone();
        table.frequencies.precision = AnglePrecision::Exact;
        table.frequencies.attention_factor = factor;
        let angle = |_: &Frequencies, row: usize, pair: usize| {
            let (to, from) = (new.angle(to[row], pair), old.angle(from[row], pair));
            let difference = Wide { hi: to.rounded, lo: to.rest } - Wide { hi: from.rounded, lo: from.rest };
            Angle { rounded: difference.hi, rest: difference.lo }
        };
        table.fill_rows(angle, |_, _| factor);
        Ok(table)
    }

    /// Fills all rows one by one: `angle` and `scale` of each row and pair.
    fn fill_rows(
        &mut self,
        angle: impl Fn(&Frequencies, usize, usize) -> Angle + Sync,
        scale: impl Fn(usize, usize) -> f64 + Sync,
    ) {
        let (level, pairs) = (Level::best(), self.rope.pairs());
        let Table { cos, sin, undo, frequencies, .. } = self;
        let frequencies = &*frequencies;
        let fill = |row: usize, cos: &mut [P], sin: &mut [P], invert: bool| {
            let scale = |pair| if invert { 1.0 / scale(row, pair) } else { scale(row, pair) };
            let angle = |pair| angle(frequencies, row, pair);
            kernel::fill_row(level, frequencies.precision, angle, scale, cos, sin);
        };
        each_chunk(cos, sin, pairs, |row, cos, sin| fill(row, cos, sin, false));
        if let Some((cos, sin)) = undo {
            each_chunk(cos, sin, pairs, |row, cos, sin| fill(row, cos, sin, true));
        }
    }

    /// Rows for the tokens of an input.
    pub fn at<'a>(&'a self, positions: Positions<'a>) -> Result<Rows<'a, P>> {
        self.covered.check(&positions)?;
        let (rope, covered) = (&self.rope, self.covered);
        Ok(Rows { rope, covered, cos_sin: (&self.cos, &self.sin), undo: self.undo(), positions })
    }

    /// The cosines and sines of the inverse, where an attention factor makes them others.
    #[inline]
    pub(crate) fn undo(&self) -> Option<CosSin<'_, P>> {
        self.undo.as_ref().map(|(cos, sin)| (&cos[..], &sin[..]))
    }

    /// Whether rows have scales of their own.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_scaled(&self) -> bool {
        self.is_scaled
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn covered(&self) -> Covered {
        self.covered
    }

    /// The rope that the table was made from.
    pub fn rope(&self) -> &Rope {
        &self.rope
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.covered.rows()
    }

    /// The frequencies that the table was made from.
    pub fn frequencies(&self) -> &Frequencies {
        &self.frequencies
    }

    /// Cosines `[rows, pairs]`, times the attention factor.
    pub fn cos(&self) -> &[P] {
        &self.cos
    }

    /// Sines `[rows, pairs]`, times the attention factor.
    pub fn sin(&self) -> &[P] {
        &self.sin
    }
}

impl<P> fmt::Display for Table<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rope = &self.rope;
        write!(
            f,
            "rope table: {}, rotary_dim {} of {}, base {}, schedule {}, pairing {}, attention factor {}",
            self.covered,
            rope.rotary_dim(),
            rope.head_dim(),
            rope.base(),
            rope.schedule(),
            rope.pairing(),
            self.frequencies.attention_factor,
        )?;
        if self.is_scaled { write!(f, ", rows with scales of their own") } else { Ok(()) }
    }
}

impl Frequencies {
    /// Checks that the angles at these positions can be computed: larger ones have no digits left after the point.
    fn check_angles(&self, positions: impl Iterator<Item = f64>) -> Result<()> {
        let farthest = positions.fold(0.0, |farthest: f64, position| farthest.max(position.abs()));
        let fastest = self.high.iter().fold(0.0, |fastest: f64, theta| fastest.max(theta.abs()));
        if farthest * fastest <= MAX_ANGLE {
            return Ok(());
        }
        let expected = format!("at most 2^52 / {}, the fastest frequency", brief(fastest));
        Err(Error::argument("position", brief(farthest), expected))
    }

    /// The angle of a pair at a position.
    #[inline(always)]
    pub(crate) fn angle(&self, position: f64, pair: usize) -> Angle {
        match self.precision {
            AnglePrecision::Exact => Angle::product(position, self.high[pair], self.low[pair]),
            AnglePrecision::F32 => Angle::product_f32(position, self.high[pair]),
        }
    }
}

/// Fills rows for the positions from `start` on, scaled by `scale`.
fn fill_range<P: Precision>(
    frequencies: &Frequencies,
    offsets: &Offsets,
    start: i64,
    scale: f64,
    cos: &mut [P],
    sin: &mut [P],
) {
    let (level, pairs) = (Level::best(), frequencies.high.len());
    let exact = frequencies.precision == AnglePrecision::Exact;
    if exact && cos.len() > BLOCK * pairs {
        let both = (&frequencies.high[..], &frequencies.low[..]);
        each_chunk(cos, sin, BLOCK * pairs, |block, cos, sin| {
            let first = (start + (block * BLOCK) as i64) as f64;
            kernel::fill_block(level, both, offsets, first, scale, cos, sin);
        });
    } else {
        each_chunk(cos, sin, pairs, |row, cos, sin| {
            let position = (start + row as i64) as f64;
            let angle = |pair| frequencies.angle(position, pair);
            kernel::fill_row(level, frequencies.precision, angle, |_| scale, cos, sin);
        });
    }
}

/// Calls `fill(index, cos, sin)` on every chunk of `size` entries, over the threads of the current pool if there are
/// many.
fn each_chunk<P: Precision>(
    cos: &mut [P],
    sin: &mut [P],
    size: usize,
    fill: impl Fn(usize, &mut [P], &mut [P]) + Sync,
) {
    #[cfg(feature = "rayon")]
    if cos.len() >= 1 << 15 {
        use rayon::prelude::*;
        // Chunks that are single rows are too small to hand out one by one.
        let least = (1usize << 12).div_ceil(size);
        let chunks = cos.par_chunks_mut(size).zip(sin.par_chunks_mut(size)).enumerate();
        return chunks.with_min_len(least).for_each(|(index, (cos, sin))| fill(index, cos, sin));
    }
    for (index, (cos, sin)) in cos.chunks_mut(size).zip(sin.chunks_mut(size)).enumerate() {
        fill(index, cos, sin);
    }
}

fn check_range(positions: &Range<i64>) -> Result<Covered> {
    let Range { start, end } = *positions;
    if start > end {
        return Err(Error::argument(
            "positions",
            format!("{start}..{end}"),
            "a range that does not run backwards",
        ));
    }
    check_positions([start as f64, end as f64].into_iter())?;
    Ok(Covered::Range { start, rows: (end - start) as usize })
}
