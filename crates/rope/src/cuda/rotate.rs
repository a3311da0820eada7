//! Rotating queries and keys on a GPU: the interface of the CPU's `rotate.rs`, with a stream.

use super::kernels::Number;
use super::launch::{self, Tensor};
use super::table::Rows;
use super::view::{View, ViewMut};
use crate::Shape;
use crate::error::{Error, Result};
use crate::rotate::Turn;
use gpu::{Device, Stream};

impl Rows<'_> {
    /// Rotates every vector of `x` in place. Returns when the work is in the stream.
    pub fn rotate<T: Number>(&self, stream: &Stream, turn: Turn, x: &mut ViewMut<T>) -> Result<()> {
        self.check(x.shape)?;
        self.on(stream, [x.device, None, None, None])?;
        launch::rotate::<T>(self, stream, turn, &Tensor::in_place(x), None)
    }

    /// Rotates queries and keys in place, in one launch. They share positions, so batch and length agree; heads may
    /// differ.
    pub fn rotate_pair<T: Number>(
        &self,
        stream: &Stream,
        turn: Turn,
        q: &mut ViewMut<T>,
        k: &mut ViewMut<T>,
    ) -> Result<()> {
        self.check_pair(q.shape, k.shape)?;
        self.on(stream, [q.device, k.device, None, None])?;
        launch::rotate::<T>(self, stream, turn, &Tensor::in_place(q), Some(&Tensor::in_place(k)))
    }

    /// Rotates every vector of `x` into `y`, which has the same shape. Features that do not turn are copied.
    pub fn rotate_to<T: Number>(
        &self,
        stream: &Stream,
        turn: Turn,
        x: &View<T>,
        y: &mut ViewMut<T>,
    ) -> Result<()> {
        self.check(x.shape)?;
        same_shape(x.shape, y.shape)?;
        self.on(stream, [x.device, y.device, None, None])?;
        launch::rotate::<T>(self, stream, turn, &Tensor::between(x, y), None)
    }

    /// Rotates queries and keys into others of their shapes, in one launch.
    pub fn rotate_pair_to<T: Number>(
        &self,
        stream: &Stream,
        turn: Turn,
        (q, k): (&View<T>, &View<T>),
        (to_q, to_k): (&mut ViewMut<T>, &mut ViewMut<T>),
    ) -> Result<()> {
        self.check_pair(q.shape, k.shape)?;
        same_shape(q.shape, to_q.shape)?;
        same_shape(k.shape, to_k.shape)?;
        self.on(stream, [q.device, k.device, to_q.device, to_k.device])?;
        let (q, k) = (Tensor::between(q, to_q), Tensor::between(k, to_k));
        launch::rotate::<T>(self, stream, turn, &q, Some(&k))
    }

    #[inline]
    fn check_pair(&self, queries: Shape, keys: Shape) -> Result<()> {
        self.check(queries)?;
        self.check(keys)?;
        if (queries.batch, queries.length) != (keys.batch, keys.length) {
            let expected = format!("batch and length of {queries}");
            return Err(Error::shape("keys beside queries", keys.to_string(), expected));
        }
        Ok(())
    }

    /// Checks that all is on the table's GPU.
    #[inline]
    pub(super) fn on(&self, stream: &Stream, views: [Option<&Device>; 4]) -> Result<()> {
        self.table.device.same(stream.device(), "a stream")?;
        Ok(views.into_iter().flatten().try_for_each(|device| self.table.device.same(device, "a view"))?)
    }
}

fn same_shape(x: Shape, y: Shape) -> Result<()> {
    match x == y {
        true => Ok(()),
        false => Err(Error::shape("rotate_to", y.to_string(), x.to_string())),
    }
}
