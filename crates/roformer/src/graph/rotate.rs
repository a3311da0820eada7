//! Rotary embedding of a value in place, with fixed or learned frequencies.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;
use rope::{Positions, Rope, Schedule, Table, Turn, View, ViewMut};

/// A rotation of queries and keys.
#[derive(Clone, Debug)]
pub struct Turned {
    /// The rotary embedding.
    pub rope: Rope,
    /// Frequencies that are learned, `[1, pairs]`, in place of the rope's own.
    pub frequencies: Option<Value>,
    /// Whether values turn too.
    pub values: bool,
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
    /// Turns heads of `x` in place. Nothing else may read `x` as it was before.
    pub fn rotate(
        &mut self,
        x: Value,
        turned: &Turned,
        columns: Columns,
        longest: usize,
    ) -> rope::Result<()> {
        let rope = turned.rope.clone();
        let table = table(&rope, longest, &columns)?;
        let gradient = vec![0.0; rope.pairs()];
        self.push(Rotate { x, rope, table, frequencies: turned.frequencies, columns, longest, gradient });
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

struct Rotate<T> {
    x: Value,
    rope: Rope,
    table: Table<T>,
    frequencies: Option<Value>,
    columns: Columns,
    longest: usize,
    gradient: Vec<f64>,
}

impl<T: Real> Rotate<T> {
    /// `[batch, length, heads, head_dim]` and its steps.
    fn view(&self) -> ([usize; 4], [usize; 3]) {
        let Columns { heads, length, .. } = self.columns;
        let (width, dim) = (self.x.width, self.rope.head_dim());
        ([self.x.rows / length, length, heads, dim], [length * width, width, dim])
    }

    fn turn(&self, turn: Turn, positions: &[u32], numbers: &mut [T]) {
        let (shape, steps) = self.view();
        let turned = ViewMut::strided(&mut numbers[self.columns.first..], shape, steps)
            .and_then(|mut view| self.table.at(rows(positions))?.rotate(turn, &mut view));
        turned.expect("the sizes were checked when the graph was made, the positions when they were set");
    }
}

fn rows(positions: &[u32]) -> Positions<'_> {
    if positions.is_empty() { Positions::From(0) } else { Positions::ids(positions) }
}

impl<T: Real> Operation<T> for Rotate<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        if let Some(frequencies) = self.frequencies {
            let given = values.get(frequencies).iter().map(|theta| theta.to_f64()).collect();
            let rope = Rope::builder(self.rope.head_dim())
                .pairing(self.rope.pairing())
                .rotary_dim(self.rope.rotary_dim())
                .schedule(Schedule::Given(given))
                .build();
            // Frequencies that are no longer numbers leave the table as it was; the loss tells.
            if let Ok(table) = rope.and_then(|rope| table(&rope, self.longest, &self.columns)) {
                self.table = table;
            }
        }
        let this = &*self;
        values.write(self.x, |values, numbers| this.turn(Turn::Forward, &values.batch.positions, numbers));
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let positions = &values.batch.positions;
        if let Some(frequencies) = self.frequencies {
            let ((shape, steps), first) = (self.view(), self.columns.first);
            let (y, dy) = (&values.get(self.x)[first..], &gradients.get(self.x)[first..]);
            self.gradient.fill(0.0);
            let views =
                View::strided(y, shape, steps).and_then(|y| Ok((y, View::strided(dy, shape, steps)?)));
            let added = views.and_then(|(y, dy)| {
                self.table.at(rows(positions))?.frequency_gradient(&y, &dy, &mut self.gradient)
            });
            added.expect("the sizes were checked when the graph was made");
            let gradient = &self.gradient;
            gradients.add(frequencies, |_, sum| {
                sum.iter_mut().zip(gradient).for_each(|(sum, &gradient)| *sum += T::of(gradient));
            });
        }
        let this = &*self;
        gradients.add(self.x, |_, numbers| this.turn(Turn::Backward, positions, numbers));
    }
}
