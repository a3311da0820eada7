//! Linear attention and its feature maps.

use super::{Lowered, Lowering};
use crate::attention::linear::Map;
use crate::graph::linear::{Features, Linear};
use crate::ops::Real;
use crate::ops::cuda::training::{features, linear};
use gpu::Span;

impl<T: Real> Features<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (x, out) = (self.x, self.out);
        let (place, batch) = (lowering.place(x), x.rows / self.length);
        let map = match &self.map {
            Map::Elu1 => features::Map::Elu,
            Map::Softmax => features::Map::Softmax,
            Map::Exp => features::Map::Exp,
            Map::Favor(favor) => {
                let numbers: Vec<f32> = favor.projections().iter().map(|x| x.to_f64() as f32).collect();
                features::Map::Favor { projections: lowering.constant(&numbers), features: favor.features() }
            }
        };
        let mut work = features::Work {
            map,
            x: place.span,
            y: lowering.make(out, place.storage),
            mask: lowering.mask(batch, self.length),
            scratch: Span::NOTHING,
            batch,
            length: self.length,
            heads: self.heads,
            dim: x.width / self.heads,
            are_keys: self.are_keys,
        };
        work.scratch = lowering.scratch(features::scratch(&work));
        let arithmetic = place.storage.arithmetic();
        lowering.forward(move |gpu| {
            features::forward(&gpu.training()?.linear()?.features, gpu, arithmetic, &work)
        });
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            let dx = lowering.contribute(x);
            lowering.backward(move |gpu| {
                features::backward(&gpu.training()?.linear()?.features, gpu, arithmetic, &work, dy, dx)
            });
            Ok(())
        }))
    }
}

impl<T: Real> Linear<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (inputs, out, shape) = (self.inputs, self.out, self.shape);
        let places = inputs.map(|input| lowering.place(input));
        let (storage, arithmetic) = (places[4].storage, places[4].storage.arithmetic());
        let work = linear::Work {
            inputs: places.map(|place| place.span),
            mask: lowering.mask(shape.batch, shape.length),
            out: lowering.make(out, storage),
            batch: shape.batch,
            length: shape.length,
            heads: shape.heads,
            features: shape.features,
            value_dim: shape.value_dim,
            is_causal: self.is_causal,
        };
        lowering
            .forward(move |gpu| linear::forward(&gpu.training()?.linear()?.linear, gpu, arithmetic, &work));
        Ok(Box::new(move |lowering| {
            let Some(dout) = lowering.gradient(out) else { return Ok(()) };
            // Where two are the same value, the first sets its gradient and the second adds to it.
            let gradients = inputs.map(|input| lowering.contribute(input));
            let back = linear::Back { dout, gradients, scratch: lowering.scratch(linear::scratch(&work)) };
            lowering.backward(move |gpu| {
                linear::backward(&gpu.training()?.linear()?.linear, gpu, arithmetic, &work, &back)
            });
            Ok(())
        }))
    }
}
