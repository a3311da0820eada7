//! For Rust's own tests: a function is asked every case and judged.

use crate::answers::Answers;
use crate::case::{Case, Meaning};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::judge::judge;
use crate::report::Report;

/// A number type that a function under test rotates.
pub trait Number: Copy {
    /// Its name here.
    const DTYPE: Dtype;
    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;
    /// Its value.
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($type:ty, $dtype:ident, $from:expr, $to:expr) => {
        impl Number for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            fn from_f64(value: f64) -> Self {
                $from(value)
            }
            fn to_f64(self) -> f64 {
                $to(self)
            }
        }
    };
}

number!(f64, F64, |value| value, |value| value);
number!(f32, F32, |value: f64| value as f32, f64::from);
number!(half::f16, F16, half::f16::from_f64, half::f16::to_f64);
number!(half::bf16, Bf16, half::bf16::from_f64, half::bf16::to_f64);

/// Asks a function every case and judges what it makes of q and k.
///
/// It gets the case and the queries and keys, `[heads, tokens, features]`, turns them in place and says whether it can: cases
/// that it returns `false` for are not answered.
///
/// ```
/// use rope::{HfConfig, HfOptions, Positions, Rope, Turn, ViewMut};
/// use rope_conformance::{check, small, tagged};
///
/// let cases = tagged(small(), &["default".into()])?;
/// let report = check(&cases, |meaning, q: &mut [f32], k: &mut [f32]| {
///     let rope = Rope::from_hf(meaning.case.config.to_string().as_bytes()).unwrap();
///     let positions: Vec<f64> = meaning.case.positions[0].iter().map(|&at| at as f64).collect();
///     let table = rope.only().unwrap().table_of::<f32>(&positions, None).unwrap();
///     let rows = table.at(Positions::Rows).unwrap();
///     for (side, x) in [q, k].into_iter().enumerate() {
///         rows.rotate(Turn::Forward, &mut ViewMut::bhld(x, meaning.shape(side)).unwrap()).unwrap();
///     }
///     true
/// })?;
/// assert!(report.is_right(), "{report}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check<T: Number>(
    cases: &[Case],
    mut rotate: impl FnMut(&Meaning, &mut [T], &mut [T]) -> bool,
) -> Result<Report> {
    let mut answers = Answers::default();
    for case in cases {
        let meaning = case.meaning()?;
        let [mut q, mut k] =
            [0, 1].map(|side| meaning.input(side).into_iter().map(T::from_f64).collect::<Vec<T>>());
        if rotate(&meaning, &mut q, &mut k) {
            answers.add(&meaning, T::DTYPE, [q, k].map(|x| x.into_iter().map(T::to_f64).collect()));
        }
    }
    judge(cases, &answers)
}
