//! No encoding: attention sees a set of tokens, unless a causal mask tells it their order.

use super::Encode;
use crate::ops::Real;

/// No encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoPositions;

impl<T: Real> Encode<T> for NoPositions {}
