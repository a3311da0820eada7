//! Rotary embedding of a value in place, with fixed or learned frequencies.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;
use crate::ops::rotate::{Heads, backward, forward};
use rope::{Positions, Rope, Schedule, Table};

/// A rotation of queries and keys.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// The rotary embedding.
    pub rope: Rope,
    /// Frequencies that are learned, `[1, pairs]` each, in place of the rope's own: one list for all heads, or one for each key
    /// head and the queries that meet it. None where they are fixed.
    pub frequencies: Vec<Value>,
    /// Whether values turn too.
    pub values: bool,
}

impl Rotation {
    /// A rotation at the rope's own frequencies, of queries and keys alone.
    pub fn fixed(rope: Rope) -> Self {
        Rotation { rope, frequencies: Vec::new(), values: false }
    }
}

/// Which vectors turn: heads `first .. first + count` of every token of `[batch · length, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The first number of a row that turns.
    pub first: usize,
    /// Heads.
    pub heads: usize,
    /// Tokens of a text.
    pub length: usize,
    /// Whether they are keys, which xPos scales the other way.
    pub are_keys: bool,
}

impl<T: Real> Builder<T> {
    /// Turns heads of `x` in place, as many with each list of learned frequencies. Nothing else may read `x` as it was before.
    pub fn rotate(
        &mut self,
        x: Value,
        rotation: &Rotation,
        columns: Columns,
        longest: usize,
    ) -> rope::Result<()> {
        let Rotation { rope, frequencies, .. } = rotation;
        let gradient = vec![0.0; rope.pairs()];
        if frequencies.is_empty() {
            let table = table(rope, longest, &columns)?;
            self.add(Rotate { x, table, frequencies: None, columns, places: None, gradient });
            return Ok(());
        }
        let first = rope.frequencies(None).inv_freq().to_vec();
        let builder = Rope::builder(rope.head_dim()).pairing(rope.pairing());
        let given = builder.rotary_dim(rope.rotary_dim()).schedule(Schedule::Given(first)).build()?;
        let table = table::<T>(&given, longest, &columns)?;
        let heads = columns.heads / frequencies.len();
        for (index, &own) in frequencies.iter().enumerate() {
            let first = columns.first + index * heads * rope.head_dim();
            let (columns, gradient) = (Columns { first, heads, ..columns }, gradient.clone());
            let (table, frequencies) = (table.clone(), Some(own));
            self.add(Rotate { x, table, frequencies, columns, places: None, gradient });
        }
        Ok(())
    }
}

impl<T: Real> Builder<T> {
    /// Multiplies heads of `x` in place by the scales of a table ([`Table::scaling`]), which has a row for every place in a
    /// text, whatever its positions are. Nothing else may read `x` as it was before.
    pub fn scale_heads(&mut self, x: Value, table: Table<T>, columns: Columns) {
        let places = Some((0..columns.length as u32).collect());
        self.add(Rotate { x, table, frequencies: None, columns, places, gradient: Vec::new() });
    }

    /// Turns heads of `x` in place as a rope does, with the token at each place of a text, `[length]`, at a given position. Nothing
    /// else may read `x` as it was before.
    pub fn rotate_to(
        &mut self,
        x: Value,
        rope: &Rope,
        columns: Columns,
        positions: Vec<u32>,
    ) -> rope::Result<()> {
        let longest = positions.iter().max().map_or(1, |&last| last as usize + 1);
        let (table, places) = (table(rope, longest, &columns)?, Some(positions));
        self.add(Rotate { x, table, frequencies: None, columns, places, gradient: Vec::new() });
        Ok(())
    }
}

/// Rows for every position that a token can stand at; rules that follow the length of a text are told it.
fn table<T: Real>(rope: &Rope, longest: usize, columns: &Columns) -> rope::Result<Table<T>> {
    let (range, length) = (0..longest as i64, columns.length as u64);
    if rope.xpos().is_some() {
        let (queries, keys) = rope.xpos_tables::<T>(range, length)?;
        return Ok(if columns.are_keys { keys } else { queries });
    }
    rope.table::<T>(range, length)
}

/// Why a rotation cannot fail.
const CHECKED: &str = "sizes were checked when the graph was made, positions when they were set";

pub(super) struct Rotate<T> {
    pub(super) x: Value,
    pub(super) table: Table<T>,
    pub(super) frequencies: Option<Value>,
    pub(super) columns: Columns,
    /// The rows that the tokens of a text take, by their places, where those are not the batch's positions.
    pub(super) places: Option<Vec<u32>>,
    pub(super) gradient: Vec<f64>,
}

impl<T: Real> Rotate<T> {
    /// Where what turns stands in the value.
    fn heads(&self) -> Heads {
        let Columns { first, heads, length, .. } = self.columns;
        let (width, dim) = (self.x.width, self.table.rope().head_dim());
        Heads {
            offset: first,
            shape: [self.x.rows / length, length, heads, dim],
            steps: [length * width, width, dim],
        }
    }
}

impl<T> Rotate<T> {
    fn rows<'a>(&'a self, positions: &'a [u32]) -> Positions<'a> {
        match &self.places {
            Some(places) => Positions::ids(&places[..]),
            None if positions.is_empty() => Positions::From(0),
            None => Positions::ids(positions),
        }
    }
}

impl<T: Real> Operation<T> for Rotate<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        if let Some(frequencies) = self.frequencies {
            let given = values.get(frequencies).iter().map(|theta| theta.to_f64());
            // Frequencies that are no longer numbers leave the table as it was; the loss tells.
            let _ = self.table.refill_given(given);
        }
        let (heads, this) = (self.heads(), &*self);
        values.write(self.x, |values, numbers| {
            let rows = this.table.at(this.rows(&values.batch.positions));
            rows.and_then(|rows| forward(&rows, numbers, &heads)).expect(CHECKED);
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut gradient = std::mem::take(&mut self.gradient);
        let (heads, y, this) = (self.heads(), values.get(self.x), &*self);
        gradient.fill(0.0);
        gradients.add(self.x, |_, dy| {
            let learned = this.frequencies.map(|_| (y, &mut gradient[..]));
            let rows = this.table.at(this.rows(&values.batch.positions));
            rows.and_then(|rows| backward(&rows, dy, &heads, learned)).expect(CHECKED);
        });
        if let Some(frequencies) = self.frequencies {
            gradients.add(frequencies, |_, sum| {
                sum.iter_mut().zip(&gradient).for_each(|(sum, &gradient)| *sum += T::of(gradient));
            });
        }
        self.gradient = gradient;
    }

    lowered_in_cuda!();
}
