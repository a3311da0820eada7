//! Linear attention and its feature maps.

use super::{Builder, Gradients, Operation, Value, Values};
use crate::attention::linear::{self, Favor, Inputs, Map, Options, Shape, Shift};
use crate::error::Result;
use crate::ops::{Real, pass};

/// A feature map by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureMap {
    /// elu(x) + 1.
    #[default]
    Elu,
    /// Softmax over the features; for queries.
    Softmax,
    /// e^x; for keys.
    Exp,
    /// FAVOR+ with so many random features, drawn from a seed.
    Favor {
        /// Random features: an even number.
        features: usize,
        /// Where they come from.
        seed: u64,
    },
}

impl FeatureMap {
    /// How many features it makes of a head.
    pub fn features(self, head_dim: usize) -> usize {
        match self {
            FeatureMap::Favor { features, .. } => features,
            _ => head_dim,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FeatureMap::Elu => "elu",
            FeatureMap::Softmax => "softmax",
            FeatureMap::Exp => "exp",
            FeatureMap::Favor { .. } => "favor",
        }
    }

    pub(crate) fn map<T: Real>(self, head_dim: usize) -> Result<Map<T>> {
        Ok(match self {
            FeatureMap::Elu => Map::Elu1,
            FeatureMap::Softmax => Map::Softmax,
            FeatureMap::Exp => Map::Exp,
            FeatureMap::Favor { features, seed } => Map::Favor(Favor::new(head_dim, features, 0.0, seed)?),
        })
    }
}

/// A form of linear attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearForm {
    /// What queries pass through.
    pub queries: FeatureMap,
    /// What keys pass through.
    pub keys: FeatureMap,
    /// Whether rotation comes before the feature maps, as many have it, and so in the denominator too. The RoFormer paper
    /// rotates features, in the numerator alone.
    pub rotates_before: bool,
}

impl Default for LinearForm {
    fn default() -> Self {
        LinearForm { queries: FeatureMap::Elu, keys: FeatureMap::Elu, rotates_before: false }
    }
}

impl LinearForm {
    /// Features of what is rotated, for heads of so many: of the features that the maps make, or of the head where it is
    /// rotated first.
    pub fn rotated(self, head_dim: usize) -> usize {
        if self.rotates_before { head_dim } else { self.queries.features(head_dim) }
    }
}

impl<T: Real> Builder<T> {
    /// A copy of a value, to be changed in place.
    pub fn copy(&mut self, x: Value) -> Value {
        self.columns(x, 0, x.width)
    }

    /// φ of every head: x `[batch · length, heads · head_dim]` → `[batch · length, heads · features]`. Nothing else may read x.
    pub fn features(
        &mut self,
        x: Value,
        heads: usize,
        length: usize,
        map: FeatureMap,
        are_keys: bool,
    ) -> Result<Value> {
        let dim = x.width / heads;
        let out = self.value(x.rows, heads * map.features(dim));
        let (shifts, spent) = (vec![T::ZERO; x.rows / length * heads], vec![T::ZERO; out.size()]);
        self.add(Features { x, heads, length, map: map.map(dim)?, are_keys, shifts, spent, out });
        Ok(out)
    }

    /// Σ (qn·kn)v / Σ qd·kd over the keys that a query sees: queries and keys of the numerator and of the denominator, each
    /// `[batch · length, heads · features]`, values `[batch · length, heads · value_dim]`.
    pub fn attend_linear(
        &mut self,
        numerator: [Value; 2],
        denominator: [Value; 2],
        values: Value,
        heads: usize,
        length: usize,
        is_causal: bool,
    ) -> Value {
        let out = self.value(values.rows, values.width);
        let shape = Shape {
            batch: values.rows / length,
            length,
            heads,
            features: numerator[0].width / heads,
            value_dim: values.width / heads,
        };
        let inputs = [numerator[0], numerator[1], denominator[0], denominator[1], values];
        let gradients = inputs.map(|value| vec![T::ZERO; value.size()]);
        self.add(Linear { inputs, shape, is_causal, out, workspace: None, gradients });
        out
    }
}

pub(super) struct Features<T> {
    pub(super) x: Value,
    pub(super) heads: usize,
    pub(super) length: usize,
    pub(super) map: Map<T>,
    pub(super) are_keys: bool,
    pub(super) shifts: Vec<T>,
    /// The gradient of the features, which the way back uses up.
    pub(super) spent: Vec<T>,
    pub(super) out: Value,
}

impl<T: Real> Operation<T> for Features<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let Features { x, heads, length, map, are_keys, shifts, out, .. } = self;
        let (x, heads, length) = (*x, *heads, *length);
        values.write(*out, |values, out| {
            let mask = &values.batch.mask;
            let shift = match are_keys {
                true => Shift::Largest { keys: (!mask.is_empty()).then_some(&mask[..]), shifts },
                false => Shift::Row,
            };
            map.forward([x.rows / length, length, heads], values.get(x), shift, out);
        });
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let Features { x, heads, map, spent, out, .. } = self;
        let (x, out) = (*x, *out);
        spent.copy_from_slice(gradients.get(out));
        gradients.contribute(x, |_, dx, _| {
            map.backward(x.rows * *heads, values.get(x), values.get(out), spent, dx);
        });
    }

    lowered_in_cuda!();
}

pub(super) struct Linear<T> {
    /// Queries and keys of the numerator, those of the denominator, values.
    pub(super) inputs: [Value; 5],
    pub(super) shape: Shape,
    pub(super) is_causal: bool,
    pub(super) out: Value,
    pub(super) workspace: Option<linear::Workspace<T>>,
    /// The gradients of the inputs of this attention alone; two of them may be the same value.
    pub(super) gradients: [Vec<T>; 5],
}

impl<T: Real> Linear<T> {
    fn inputs<'a>(&self, values: &'a Values<T>) -> (Inputs<'a, T>, Options<'a>) {
        let [qn, kn, qd, kd, v] = self.inputs.map(|value| values.get(value));
        let mask = &values.batch.mask;
        let keys = (!mask.is_empty()).then_some(&mask[..]);
        // Features may carry a common factor, which cancels only without an ε.
        (Inputs { qn, kn, qd, kd, v }, Options { causal: self.is_causal, keys, eps: 0.0 })
    }

    fn workspace(&mut self) -> linear::Workspace<T> {
        self.workspace.take().or_else(linear::Workspace::new).expect("memory for attention")
    }
}

impl<T: Real> Operation<T> for Linear<T> {
    fn forward(&mut self, values: &mut Values<T>) {
        let mut workspace = self.workspace();
        let this = &*self;
        values.write(this.out, |values, out| {
            let (inputs, options) = this.inputs(values);
            assert!(
                linear::attend(&this.shape, &inputs, &options, out, &mut workspace),
                "memory for attention"
            );
        });
        self.workspace = Some(workspace);
    }

    fn backward(&mut self, values: &Values<T>, gradients: &mut Gradients<T>) {
        let mut workspace = self.workspace();
        let mut own = std::mem::take(&mut self.gradients);
        let [qn, kn, qd, kd, v] = own.each_mut().map(|gradient| &mut gradient[..]);
        let (inputs, options) = self.inputs(values);
        let (dout, given) = (gradients.get(self.out), linear::Gradients { qn, kn, qd, kd, v });
        let done = linear::attend_backward(&self.shape, &inputs, &options, dout, given, &mut workspace);
        assert!(done, "memory for attention");
        for (value, own) in self.inputs.into_iter().zip(&own) {
            gradients.contribute(value, |_, sum, accumulate| pass::add_backward(own, sum, accumulate));
        }
        (self.gradients, self.workspace) = (own, Some(workspace));
    }

    lowered_in_cuda!();
}
