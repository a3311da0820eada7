//! Transformer-XL and XLNet (Dai, Yang et al. 2019): the score of (x + p)W(x + p)ᵀ multiplied out, absolute codes replaced by
//! relative ones, their products with constants by learned vectors: (q_i + u)·k_j + (q_i + v)·W_R·R_(i−j), R sines and
//! cosines of the distance. No distance is clipped, unless it is asked for, and values are left alone.

use super::sinusoidal::sinusoid;
use super::{Encode, Sizes, Terms, by_distance, check_rows};
use crate::error::Result;
use crate::graph::{Builder, Init, TableTerm};
use crate::ops::Real;

/// XLNet's encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XlNet {
    /// Distances beyond it are taken for it.
    pub clamp: Option<usize>,
}

impl<T: Real> Encode<T> for XlNet {
    fn check(&self, _: &Sizes) -> Result<()> {
        check_rows("the clamp of xlnet", self.clamp.unwrap_or(0))
    }

    fn terms(&self, builder: &mut Builder<T>, layer: usize, sizes: &Sizes) -> Terms {
        let (length, width, heads) = (sizes.length, sizes.width, sizes.heads * sizes.head_dim);
        let reach = self.clamp.unwrap_or(length).min(length - 1) as i64;
        let codes: Vec<f64> = (-reach..=reach)
            .flat_map(|distance| (0..width).map(move |feature| sinusoid(distance as f64, feature, width)))
            .collect();
        let codes = builder.constant(2 * reach as usize + 1, width, &codes);
        let name = |part: &str| format!("position.xlnet.{layer}.{part}");
        let mut add =
            |part: &str, shape: &[usize]| builder.parameters().add(name(part), shape, Init::Normal(0.02));
        let weight = add("relative.weight", &[heads, width]);
        let (content, position) = (add("content", &[1, heads]), add("position", &[1, heads]));
        let table = builder.linear(codes, weight, None, heads);
        let index = by_distance(length, |distance| (distance.clamp(-reach, reach) + reach) as u32);
        Terms {
            query: Some(TableTerm { table, index }),
            content: Some(builder.lift(content, 1, heads)),
            position: Some(builder.lift(position, 1, heads)),
            ..Terms::default()
        }
    }
}
