//! The number types that can be rotated, and the two that tables are made of.

use crate::kernel::Kernel;
use half::{bf16, f16};

/// A number that queries and keys are made of: `f32`, `f64`, `half::f16` or `half::bf16`. Sealed.
///
/// 16-bit numbers are rotated in `f32` and rounded once, to nearest, ties to even. NaN stays NaN; infinities, −0 and
/// subnormal numbers are kept.
#[expect(private_bounds, reason = "the kernels seal the trait")]
pub trait Element: Copy + Default + Send + Sync + Kernel + 'static {
    /// What the table and the arithmetic are made of: `f64` for `f64`, else `f32`.
    type Table: Precision;
    #[doc(hidden)]
    fn widen(self) -> Self::Table;
    #[doc(hidden)]
    fn narrow(wide: Self::Table) -> Self;
}

/// A number that tables are made of: `f32` or `f64`. Sealed.
pub trait Precision:
    Element<Table = Self>
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Neg<Output = Self>
{
    #[doc(hidden)]
    fn from_f64(value: f64) -> Self;
    #[doc(hidden)]
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($type:ty, $table:ty, $widen:expr, $narrow:expr) => {
        impl Element for $type {
            type Table = $table;
            #[inline(always)]
            fn widen(self) -> $table {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(wide: $table) -> Self {
                $narrow(wide)
            }
        }
    };
}

element!(f32, f32, |x| x, |x| x);
element!(f64, f64, |x| x, |x| x);
element!(f16, f32, f16::to_f32, f16::from_f32);
element!(bf16, f32, bf16::to_f32, bf16::from_f32);

impl Precision for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Precision for f64 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
}
