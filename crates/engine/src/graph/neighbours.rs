//! Each token beside its neighbours: what a convolution over a text is a product of.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::ops::Real;

impl<T: Real> Builder<T> {
    /// The `count` tokens around each token side by side, `[batch · length, count · width]`: as many before it as after it.
    /// What is not of the text, or not real, is 0.
    pub fn neighbours(&mut self, x: Value, length: usize, count: usize) -> Value {
        let out = self.value(x.rows, count * x.width);
        self.add(Neighbours { x, length, count, out });
        out
    }
}

pub(super) struct Neighbours {
    x: Value,
    length: usize,
    count: usize,
    out: Value,
}

impl Neighbours {
    /// The place of each neighbour of a token; `None` for those that are 0.
    fn places<'a, T: Real>(
        &self,
        values: &'a Values<T>,
        token: usize,
    ) -> impl Iterator<Item = Option<usize>> + use<'a, T> {
        let (place, before, length) = (token % self.length, self.count / 2, self.length);
        let mask = &values.batch.mask;
        (0..self.count).map(move |neighbour| {
            let own = (place + neighbour).checked_sub(before).filter(|&own| own < length)?;
            let own = token - place + own;
            (mask.is_empty() || mask[own]).then_some(own)
        })
    }
}

impl<T: Real> Operation<T> for Neighbours {
    fn forward(&mut self, values: &mut Values<T>) {
        let width = self.x.width;
        values.write(self.out, |values, out| {
            for (token, out) in out.chunks_mut(self.out.width).enumerate() {
                for (out, place) in out.chunks_mut(width).zip(self.places(values, token)) {
                    match place {
                        Some(place) => out.copy_from_slice(&values.get(self.x)[place * width..][..width]),
                        None => out.fill(T::ZERO),
                    }
                }
            }
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let width = self.x.width;
        gradients.add(self.x, |gradients, dx| {
            for (token, dy) in gradients.get(self.out).chunks(self.out.width).enumerate() {
                for (dy, place) in dy.chunks(width).zip(self.places(values, token)) {
                    let Some(place) = place else { continue };
                    let dx = &mut dx[place * width..][..width];
                    dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx += dy);
                }
            }
        });
    }
}
