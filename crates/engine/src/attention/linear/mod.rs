//! Linear attention: time and memory that grow with the length, not with its square.
//!
//! Softmax attention weighs value j for query i by exp(q_i·k_j / √d). Where the weight is instead an inner product of
//! features, φ(q_i)·φ(k_j), the sum over keys does not depend on the query and is made once: S = Σ_j φ(k_j) v_jᵀ. With m
//! features and values of e numbers that costs O(L·m·e) instead of O(L²·(m + e)).
//!
//! RoFormer (Eq. 19) rotates the features in the numerator and leaves the denominator as it is:
//!
//! ```text
//! out_i = Σ_j (R_i φ(q_i))·(R_j φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j)
//! ```
//!
//! Rotated features have inner products of either sign, and their sum may be 0 or less; the un-rotated one is positive
//! where φ is. The price: the weights no longer sum to 1, some are negative, and an output may leave the convex hull of
//! the values. So numerator and denominator have their own features here ([`Inputs`]): `qn`, `kn` and `qd`, `kd`. The other
//! form in use, rotate first and then φ (φ(R_i q_i) in both), passes the same ones twice; it does not depend on
//! distances alone, because φ and R do not commute.
//!
//! The work for one head of one sequence is one task and its order of additions depends on the sizes alone, so the
//! result has the same bits on any number of threads. There are no key heads shared between query heads: who has them
//! repeats their features.
//!
//! A bias b_(i−j) on the scores, as T5 has it, has no place here; [`quadratic`] says why.
//!
//! - [`Map`]: φ. [`Favor`]: random features whose inner products are softmax's weights on average.
//! - [`attend`], [`attend_backward`]: whole sequences.
//! - [`State`]: token by token.

mod backward;
mod favor;
mod features;
mod forward;
mod inference;
mod quadratic;
mod rows;
mod state;
#[cfg(test)]
mod tests;
mod workspace;

pub use backward::attend_backward;
pub use favor::Favor;
pub use features::{Map, Shift};
pub use forward::attend;
pub(crate) use inference::{Carried, Features, infer};
pub use quadratic::quadratic;
pub use state::State;
pub use workspace::Workspace;

/// Sizes of a linear attention; none but `batch` and `length` may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Tokens of a sequence, which are both queries and keys.
    pub length: usize,
    /// Heads, of queries, keys and values alike.
    pub heads: usize,
    /// m: features of a query or a key of one head.
    pub features: usize,
    /// e: numbers of a value of one head.
    pub value_dim: usize,
}

/// Features of queries and keys, `[batch, length, heads, features]`, and values, `[batch, length, heads, value_dim]`, each
/// without gaps.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    /// Features of queries in the numerator; R_i φ(q_i) in RoFormer.
    pub qn: &'a [T],
    /// Features of keys in the numerator; R_j φ(k_j) in RoFormer.
    pub kn: &'a [T],
    /// Features of queries in the denominator; φ(q_i) in RoFormer.
    pub qd: &'a [T],
    /// Features of keys in the denominator; φ(k_j) in RoFormer.
    pub kd: &'a [T],
    /// Values.
    pub v: &'a [T],
}

/// Where the gradients of [`Inputs`] go, in the same shapes. What was there is overwritten.
///
/// Where two inputs come from the same features their gradients add up: of φ(q) in RoFormer it is Rᵀ·`qn` + `qd`.
#[derive(Debug)]
pub struct Gradients<'a, T> {
    /// Of the features of queries in the numerator.
    pub qn: &'a mut [T],
    /// Of the features of keys in the numerator.
    pub kn: &'a mut [T],
    /// Of the features of queries in the denominator.
    pub qd: &'a mut [T],
    /// Of the features of keys in the denominator.
    pub kd: &'a mut [T],
    /// Of the values.
    pub v: &'a mut [T],
}

/// Which keys are summed over, and what is added to the denominator.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Query i sees keys j ≤ i; else all.
    pub causal: bool,
    /// `[batch, length]`: whether a key is there. Padding is left out of both sums, whatever is in its memory, and its
    /// gradients are 0. All are there if there is no mask.
    pub keys: Option<&'a [bool]>,
    /// Added to the denominator. It keeps the division tame where features can all be tiny; but it pulls outputs towards
    /// 0 by eps / Σ, so features that were scaled by a common factor ([`Shift`]) need 0 to give the same outputs.
    /// Where the denominator is 0 all the same (no key to see), outputs and gradients are 0.
    pub eps: f64,
}

impl Default for Options<'_> {
    /// All keys, no padding, and an `eps` of 1e-6: nothing beside the sums that elu + 1 makes.
    fn default() -> Self {
        Options { causal: false, keys: None, eps: 1e-6 }
    }
}

impl Shape {
    /// Heads of all sequences.
    fn tasks(&self) -> usize {
        self.batch * self.heads
    }

    /// Checks that everything has its size.
    fn check<T>(&self, inputs: &Inputs<T>, options: &Options, out: &[T]) {
        assert!(self.heads * self.features * self.value_dim > 0, "an attention without heads or features");
        let tokens = self.batch * self.length * self.heads;
        for features in [inputs.qn, inputs.kn, inputs.qd, inputs.kd] {
            assert_eq!(features.len(), tokens * self.features, "the features of an attention");
        }
        assert_eq!(inputs.v.len(), tokens * self.value_dim, "the values of an attention");
        assert_eq!(out.len(), tokens * self.value_dim, "the output of an attention");
        let keys = self.batch * self.length;
        assert!(options.keys.is_none_or(|mask| mask.len() == keys), "a mask has an entry for every key");
    }
}
