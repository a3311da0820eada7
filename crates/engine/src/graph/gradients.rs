//! The gradients of a step: those of parameters in one flat buffer, those of values in memory that is handed on.
//!
//! A value's gradient has memory from when the first operation that read the value gives to it until the operation that
//! wrote the value has used it. Then the memory goes to another gradient of the same size. So a backward pass works in a few
//! buffers, which stay in the caches, however many layers there are.

use super::{Parameter, Value};
use crate::error::{Error, Result};
use crate::ops::{Memory, Real, pass};
use std::ops::Range;

/// Why a gradient has no memory to lend.
const LENT: &str = "a gradient is not used while it is lent";

/// The gradient of a value.
enum Slot<T> {
    /// Nothing has come back to the value yet.
    Empty,
    Lent,
    Held(Memory<T>),
}

/// The gradients of values and parameters.
pub struct Gradients<T: Real> {
    values: Vec<Slot<T>>,
    /// Memory of gradients that were used.
    free: Vec<Memory<T>>,
    /// As many zeros as any value has numbers: the gradient of what nothing has come back to.
    zeros: Memory<T>,
    pub(super) parameters: Memory<T>,
    /// The loss, as the backward pass found it.
    pub(super) loss: f64,
}

impl<T: Real> Gradients<T> {
    /// For values of these sizes and so many parameters.
    pub(super) fn new(sizes: &[usize], parameters: usize) -> Result<Self> {
        let zeros = |len: usize| Memory::zeros(len).ok_or(Error::Memory { what: "a training step" });
        Ok(Gradients {
            values: sizes.iter().map(|_| Slot::Empty).collect(),
            free: Vec::with_capacity(sizes.len()),
            zeros: zeros(sizes.iter().copied().max().unwrap_or(0))?,
            parameters: zeros(parameters)?,
            loss: 0.0,
        })
    }

    /// The gradient of a value.
    pub fn get(&self, value: Value) -> &[T] {
        read(&self.values, &self.zeros, value)
    }

    /// The gradient of a parameter, to add to, and that of a value, to read.
    pub fn parameter(&mut self, parameter: Parameter, value: Value) -> (&mut [T], &[T]) {
        self.parameters(parameter.range(), value)
    }

    /// The gradients of parameters that stand one after another, to add to, and that of a value, to read.
    pub fn parameters(&mut self, range: Range<usize>, value: Value) -> (&mut [T], &[T]) {
        let ([parameters], read) = self.each_parameter([range], value);
        (parameters, read)
    }

    /// The gradients of several parameters, to add to, and that of a value, to read.
    pub(super) fn each_parameter<const N: usize>(
        &mut self,
        ranges: [Range<usize>; N],
        value: Value,
    ) -> ([&mut [T]; N], &[T]) {
        let parameters = self.parameters.get_disjoint_mut(ranges);
        let read = read(&self.values, &self.zeros, value);
        (parameters.expect("parameters of one operation do not overlap"), read)
    }

    /// Adds to the gradient of a value; `add` can read all others.
    pub fn add(&mut self, value: Value, add: impl FnOnce(&Self, &mut [T])) {
        self.add_each([value], |gradients, [sum]| add(gradients, sum));
    }

    /// Adds to the gradients of several different values at once.
    pub fn add_each<const N: usize>(&mut self, values: [Value; N], add: impl FnOnce(&Self, [&mut [T]; N])) {
        let mut lent = values.map(|value| self.lend_zeroed(value));
        add(self, lent.each_mut().map(|memory| &mut memory[..]));
        for (value, memory) in values.into_iter().zip(lent) {
            self.take_back(value, memory);
        }
    }

    /// As [`add`](Gradients::add), without zeros to begin with: `give` is told whether to add to what there is (`true`), or
    /// to set it.
    pub fn contribute(&mut self, value: Value, give: impl FnOnce(&Self, &mut [T], bool)) {
        let (mut memory, accumulate) = self.lend(value);
        give(self, &mut memory, accumulate);
        self.take_back(value, memory);
    }

    /// Makes the gradient of one value that of another of the same size, or adds it. Afterwards the first has none.
    pub(super) fn hand_over(&mut self, from: Value, to: Value) {
        let memory = match std::mem::replace(&mut self.values[from.index], Slot::Empty) {
            Slot::Empty => return,
            Slot::Held(memory) => memory,
            Slot::Lent => panic!("{LENT}"),
        };
        match &mut self.values[to.index] {
            slot @ Slot::Empty => *slot = Slot::Held(memory),
            Slot::Held(sum) => {
                pass::add_backward(&memory, sum, true);
                self.free.push(memory);
            }
            Slot::Lent => panic!("{LENT}"),
        }
    }

    /// Lends the memory of a gradient, and says whether it is to be added to (`true`) or set.
    pub(super) fn lend(&mut self, value: Value) -> (Memory<T>, bool) {
        match std::mem::replace(&mut self.values[value.index], Slot::Lent) {
            Slot::Held(memory) => (memory, true),
            Slot::Empty => {
                let fitting = self.free.iter().position(|memory| memory.len() == value.size());
                let memory = fitting.map(|index| self.free.swap_remove(index));
                // Memory is asked for in the first pass, and its lack is a panic: nothing in a step can be undone.
                (memory.or_else(|| Memory::zeros(value.size())).expect("memory for a gradient"), false)
            }
            Slot::Lent => panic!("{LENT}"),
        }
    }

    /// Lends the memory of a gradient to add to.
    pub(super) fn lend_zeroed(&mut self, value: Value) -> Memory<T> {
        let (mut memory, is_written) = self.lend(value);
        if !is_written {
            memory.fill(T::ZERO);
        }
        memory
    }

    /// Takes a gradient back that was lent and has been written.
    pub(super) fn take_back(&mut self, value: Value, memory: Memory<T>) {
        self.values[value.index] = Slot::Held(memory);
    }

    /// Forgets the gradients of some values.
    pub(super) fn release(&mut self, values: Range<usize>) {
        for slot in &mut self.values[values] {
            if let Slot::Held(memory) = std::mem::replace(slot, Slot::Empty) {
                self.free.push(memory);
            }
        }
    }
}

fn read<'a, T: Real>(values: &'a [Slot<T>], zeros: &'a [T], value: Value) -> &'a [T] {
    match &values[value.index] {
        Slot::Held(memory) => memory,
        Slot::Empty => &zeros[..value.size()],
        Slot::Lent => panic!("{LENT}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(index: usize) -> Value {
        Value { index, rows: 2, width: 3 }
    }

    fn gradients() -> Gradients<f64> {
        Gradients::new(&[6, 6, 6, 6], 4).unwrap()
    }

    #[test]
    fn what_came_first_is_set_and_the_rest_added() {
        let mut gradients = gradients();
        let [a, b] = [value(0), value(1)];
        // Memory with something in it, which must not show.
        gradients.contribute(a, |_, sum, _| sum.fill(7.0));
        gradients.release(0..1);
        assert_eq!(gradients.get(a), [0.0; 6]);
        gradients.add(a, |gradients, sum| {
            assert_eq!(gradients.get(b), [0.0; 6]);
            sum[0] += 1.0;
        });
        gradients.contribute(b, |_, sum, accumulate| {
            assert!(!accumulate);
            sum.fill(2.0);
        });
        gradients.contribute(a, |gradients, sum, accumulate| {
            assert!(accumulate);
            sum[1] += gradients.get(b)[1];
        });
        assert_eq!(gradients.get(a), [1.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_gradient_is_handed_over_or_added() {
        let mut gradients = gradients();
        let [a, b, c] = [value(0), value(1), value(2)];
        gradients.hand_over(a, b);
        assert!(matches!(gradients.values[1], Slot::Empty));
        gradients.contribute(a, |_, sum, _| sum.fill(2.0));
        let memory = gradients.get(a).as_ptr();
        gradients.hand_over(a, b);
        assert_eq!(gradients.get(b).as_ptr(), memory);
        assert_eq!((gradients.get(a), gradients.get(b)), (&[0.0; 6][..], &[2.0; 6][..]));
        gradients.contribute(c, |_, sum, _| sum.fill(3.0));
        gradients.hand_over(c, b);
        assert_eq!((gradients.get(c), gradients.get(b)), (&[0.0; 6][..], &[5.0; 6][..]));
    }

    #[test]
    fn memory_is_handed_on() {
        let mut gradients = gradients();
        for _ in 0..3 {
            for index in 0..4 {
                gradients.contribute(value(index), |_, sum, _| sum.fill(1.0));
                // Two at a time.
                gradients.release(index.saturating_sub(1)..index);
            }
            gradients.release(0..4);
            assert_eq!(gradients.free.len(), 2);
        }
    }

    #[test]
    #[should_panic(expected = "while it is lent")]
    fn what_is_lent_is_not_read() {
        gradients().add(value(0), |gradients, _| {
            gradients.get(value(0));
        });
    }
}
