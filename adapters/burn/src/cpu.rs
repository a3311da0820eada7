//! The CPU's memory under a tensor as rope sees it, rotated where it is or into new memory.
#![cfg_attr(
    not(any(feature = "flex", feature = "ndarray")),
    allow(dead_code, reason = "for backends on the CPU alone")
)]

use crate::turning::{Order, Turning};
use crate::{Result, refused};
use burn::tensor::Element;
use rope::{Precision, Rows, View, ViewMut};

/// A type that a tensor's numbers may have.
pub(crate) trait Number: Element + rope::Element<Table: Tabled> + bytemuck::Pod {}
impl<T: Element + rope::Element<Table: Tabled> + bytemuck::Pod> Number for T {}

/// A precision that tables have.
pub(crate) trait Tabled: Precision {
    fn rows(rows: &crate::Rows) -> Result<Rows<'_, Self>>;
}

impl Tabled for f32 {
    fn rows(rows: &crate::Rows) -> Result<Rows<'_, Self>> {
        rows.tables().single().at(rows.positions())
    }
}

impl Tabled for f64 {
    fn rows(rows: &crate::Rows) -> Result<Rows<'_, Self>> {
        rows.tables().double()?.at(rows.positions())
    }
}

/// `[batch, length, heads, head_dim]`, and how far apart neighbours along the first three are.
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    shape: [usize; 4],
    strides: [usize; 3],
}

impl Order {
    /// The geometry of a tensor; none if its features do not stand side by side, an axis is walked backwards, or the axes between batch
    /// and length are not one in memory.
    pub fn geometry(self, dims: &[usize], strides: &[isize]) -> Option<Geometry> {
        let (&[ref outer @ .., a, head_dim], &[ref by_outer @ .., by_a, by_feature]) = (dims, strides) else {
            return None;
        };
        if by_feature != 1 && head_dim > 1 {
            return None;
        }
        let (batch, by_batch) = (outer.first().unwrap_or(&1), by_outer.first().unwrap_or(&0));
        let inner = outer.iter().zip(by_outer).skip(1);
        let (b, by_b) = merged(inner)?;
        let by = |stride: isize| usize::try_from(stride).ok();
        let (by_batch, by_a, by_b) = (by(*by_batch)?, by(by_a)?, by(by_b)?);
        Some(match self {
            Order::Bhld => Geometry { shape: [*batch, a, b, head_dim], strides: [by_batch, by_a, by_b] },
            Order::Blhd => Geometry { shape: [*batch, b, a, head_dim], strides: [by_batch, by_b, by_a] },
        })
    }
}

/// Axes as one: its size, and how far apart its neighbours are.
fn merged<'a>(axes: impl DoubleEndedIterator<Item = (&'a usize, &'a isize)>) -> Option<(usize, isize)> {
    let (mut count, mut by) = (1usize, 0isize);
    for (&size, &stride) in axes.rev().filter(|(size, _)| **size != 1) {
        if count == 1 {
            by = stride;
        } else if by.checked_mul(isize::try_from(count).ok()?)? != stride {
            return None;
        }
        count = count.checked_mul(size)?;
    }
    Some((count, by))
}

impl Turning {
    /// Rotates a tensor where it is; `false`, and nothing done, where numbers share memory: a tensor that repeats some.
    pub fn in_place<T: Number>(&self, memory: &mut [T], geometry: Geometry) -> Result<bool> {
        let Ok(mut view) = ViewMut::strided(memory, geometry.shape, geometry.strides) else {
            return Ok(false);
        };
        T::Table::rows(&self.rows)?.rotate(self.turn, &mut view)?;
        Ok(true)
    }

    /// Rotates a tensor into new memory, contiguous in the order of its axes.
    pub fn fresh<T: Number>(&self, memory: &[T], geometry: Geometry) -> Result<Vec<T>> {
        let x = View::strided(memory, geometry.shape, geometry.strides)?;
        let rows = T::Table::rows(&self.rows)?;
        Ok(match self.order {
            Order::Bhld => rows.rotated_bhld(self.turn, &x)?,
            Order::Blhd => rows.rotated_blhd(self.turn, &x)?,
        })
    }
}

/// Refuses to copy what has no room in memory: a tensor that repeats a few numbers may have any shape, and to copy it would end the
/// process.
pub(crate) fn check_room<T>(dims: &[usize]) -> Result<()> {
    let bytes = dims.iter().try_fold(size_of::<T>(), |bytes, &size| bytes.checked_mul(size));
    match bytes.filter(|&bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok()) {
        Some(_) => Ok(()),
        None => Err(refused(dims, "one that fits in memory")),
    }
}
