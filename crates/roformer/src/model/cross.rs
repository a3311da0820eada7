//! A layer's attention to another model's output.

use super::buffers::Buffers;
use super::parameters::Parameters;
use super::pass::{Other, Pass};
use super::products::{Norm, linear};
use crate::attention::softmax::{Mask, Shape};
use crate::blueprint::Blueprint;
use crate::error::{Error, Result};
use crate::ops::{Activation, Backend, Part, Real, Terms};

/// Attention to another model's output.
pub(super) struct Cross<T: Real, B: Backend> {
    query: B::Matrix<T>,
    key_value: B::Matrix<T>,
    output: B::Matrix<T>,
    norm: Norm<T, B>,
}

impl<T: Real, B: Backend> Cross<T, B> {
    pub fn load(
        device: &B,
        source: &impl Parameters<T>,
        blueprint: &Blueprint,
        layer: usize,
    ) -> Result<Self> {
        let names = blueprint.family.names();
        let (width, query) = (blueprint.width, blueprint.query_width());
        let name = |part: &str| names.of_layer(layer, part);
        let [queries, keys, values, output, own_norm] = names.cross;
        let product = |parts: &[&str], shape: [usize; 2]| {
            let parts: Vec<String> = parts.iter().map(|part| name(part)).collect();
            linear(device, source, &parts, shape, blueprint.biases.queries)
        };
        Ok(Cross {
            query: product(&[queries], [query, width])?,
            key_value: product(&[keys, values], [query, width])?,
            output: product(&[output], [width, query])?,
            norm: Norm::load(device, source, blueprint, &name(own_norm), width)?,
        })
    }

    /// The memory its weights take, in bytes.
    pub fn bytes(&self, device: &B) -> usize {
        [&self.query, &self.key_value, &self.output].map(|matrix| device.matrix_bytes(matrix)).iter().sum()
    }

    /// y ← norm(y + attention of y to the other model's output), or with norms before blocks x ← x + delta and delta the
    /// attention of norm(x). Its keys and values are kept in the slot.
    pub fn forward(
        &self,
        pass: &Pass<T, B>,
        other: &Other<T, B>,
        buffers: &mut Buffers<T, B>,
        slot: Option<&mut Option<B::Buffer<T>>>,
    ) -> Result<()> {
        let Pass { device, blueprint, batch, length, .. } = *pass;
        let (width, heads) = (blueprint.query_width(), blueprint.heads);
        let Buffers { x, y, delta, context, cross, attention, .. } = buffers;
        let is_before = blueprint.norms.place.is_before();
        if is_before {
            self.norm.apply_to(device, x, Some(&*delta), y)?;
        }
        let mut fresh = None;
        let slot = slot.unwrap_or(&mut fresh);
        let both = match slot {
            Some(both) => both,
            None => {
                let memory = device.zeros(batch * other.length * 2 * width);
                let mut both = memory.map_err(Error::for_want_of("attention"))?;
                device.product(&self.key_value, &other.hidden, Activation::Identity, &mut both)?;
                slot.insert(both)
            }
        };
        // No rotation here: the two sequences have no positions in common.
        device.product(&self.query, y, Activation::Identity, cross)?;
        let head_dim = blueprint.head_dim;
        let shape = Shape { batch, queries: length, keys: other.length, heads, key_heads: heads, head_dim };
        let query = Part { buffer: &*cross, offset: 0, token: width, sequence: length * width };
        let part = |part: usize| Part {
            buffer: &*both,
            offset: part * width,
            token: 2 * width,
            sequence: other.length * 2 * width,
        };
        let mask = Mask { keys: other.mask, ..Mask::default() };
        let terms = Terms { scale: blueprint.scale, ..Terms::default() };
        device
            .attend(&shape, [query, part(0), part(1)], &mask, &terms, context, attention)
            .map_err(Error::for_want_of("attention"))?;
        if is_before {
            return Ok(device.product(&self.output, context, Activation::Identity, delta)?);
        }
        device.product(&self.output, context, Activation::Identity, x)?;
        self.norm.apply(device, x, Some(y))?;
        std::mem::swap(x, y);
        Ok(())
    }
}
