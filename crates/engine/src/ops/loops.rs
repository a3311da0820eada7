//! The CPU's loops of a forward pass, compiled once for both number types.
//!
//! As with operations of a graph (`graph/compiled.rs`): a generic loop is compiled anew in every crate that uses it. Here
//! this crate compiles all of them for `f32` and for `f64`, and whoever runs a model calls them.

use super::backend::{HeadRows, LinearWork};
use super::{Activation, Matrix, Real, activation, norm, prenorm};
use crate::attention::kept::Kept;
use crate::attention::linear::{Carried, infer};
use crate::attention::softmax::{self, Heads, Mask, Shape};
use crate::attention::{self, Attention};
use crate::error::Result;
use crate::graph::{Angles, TurnedHeads};

/// Queries, keys and values.
pub(crate) type QueriesKeysValues<'a, T> = (Heads<'a, T>, Heads<'a, T>, Heads<'a, T>);

/// Writes the trait and implements it for both number types. A function that was inlined elsewhere would be compiled there.
macro_rules! loops {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:expr;)*) => {
        /// A number type for which the loops are compiled here.
        pub(crate) trait Loops: Sized {
            $($(#[$about])* fn $name($($argument: $type),*) $(-> $out)? where Self: Real;)*
        }
        loops!(f32: $(fn $name($($argument: $type),*) $(-> $out)? = $body;)*);
        loops!(f64: $(fn $name($($argument: $type),*) $(-> $out)? = $body;)*);
    };
    ($number:ty: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $out:ty)? = $body:expr;)*) => {
        impl Loops for $number {
            $(#[inline(never)] fn $name($($argument: $type),*) $(-> $out)? { $body($($argument),*) })*
        }
    };
}

loops! {
    /// out = activation(x·Wᵀ + bias).
    fn product(matrix: &Matrix<Self>, x: &[Self], out: &mut [Self], activation: Activation) = Matrix::apply;
    /// x ← norm(x + residual)·weight + bias.
    fn layer_norm(x: &mut [Self], residual: &[Self], weight: &[Self], bias: &[Self], epsilon: f64) = norm::layer_norm;
    /// x ← (x + residual)/√(mean of squares + ε)·weight.
    fn rms_norm(x: &mut [Self], residual: &[Self], weight: &[Self], epsilon: f64) = norm::rms_norm;
    /// x ← x + delta, out = its norm.
    fn add_norm(
        x: &mut [Self],
        delta: &[Self],
        weight: &[Self],
        bias: Option<&[Self]>,
        epsilon: f64,
        out: &mut [Self],
    ) = prenorm::add_norm;
    /// Norms of single heads.
    fn rms_norm_heads(x: &mut [Self], heads: HeadRows, weight: &[Self], epsilon: f64) = prenorm::rms_norm_heads;
    /// activation(gate)·up.
    fn gate(gate_up: &[Self], wide: usize, activation: Activation, out: &mut [Self]) = activation::gate;
    /// Softmax attention without position terms; whether there was memory for it.
    fn attend(
        shape: &Shape,
        qkv: QueriesKeysValues<'_, Self>,
        mask: &Mask,
        scale: Option<f64>,
        out: &mut [Self],
        workspace: &softmax::Workspace<Self>,
    ) -> bool = softmax::attend;
    /// The same to keys and values that are kept.
    fn attend_kept(
        shape: &Shape,
        queries_and_kept: (Heads<'_, Self>, &Kept),
        mask: &Mask,
        scale: Option<f64>,
        out: &mut [Self],
        workspace: &softmax::Workspace<Self>,
    ) -> bool = softmax::attend_kept;
    /// Softmax attention with position terms; whether there was memory for it.
    fn attend_with_terms(
        attention: &Attention<Self>,
        out: &mut [Self],
        lse: &mut [Self],
        workspace: &mut attention::Workspace<Self>,
    ) -> bool = Attention::forward;
    /// Linear attention.
    fn attend_linear(
        work: &LinearWork<'_, Self>,
        joined_and_turns: (&[Self], Option<&[Self]>),
        state: Option<&mut Carried<Self>>,
        out: &mut [Self],
    ) -> Result<()> = infer;
    /// Angles that sum up over tokens.
    fn sum_angles(
        angles: &Angles,
        z: &[Self],
        kept: Option<&mut [Self]>,
        batch: usize,
        out: &mut [Self],
    ) -> Result<()> = Angles::sum;
    /// Heads that turn by given numbers.
    fn turn(heads: &TurnedHeads, turns: &[Self], x: &mut [Self]) = TurnedHeads::forward;
}
