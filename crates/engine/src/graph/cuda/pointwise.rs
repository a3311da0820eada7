//! Norms, activations and dropout.

use super::{Lowered, Lowering};
use crate::graph::Value;
use crate::graph::pointwise::{Activate, Dropout, Gate, Norm, Times};
use crate::graph::rows::Scaled;
use crate::ops::Real;
use crate::ops::cuda::training::norm::{self, NormGradients};
use crate::ops::norm::training::Kind;
use gpu::Span;

impl<T: Real> Norm<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (x, weight, bias, out) = (self.x, self.weight, self.bias, self.out);
        let place = lowering.place(x);
        let work = norm::Norm {
            storage: place.storage,
            x: place.span,
            weight: lowering.parameter(weight),
            constant: 1.0,
            bias: bias.map_or(Span::NOTHING, |bias| lowering.parameter(bias)),
            is_layer: self.kind == Kind::Layer,
            epsilon: self.epsilon,
            rows: x.rows,
            width: x.width,
        };
        forward(lowering, work, out);
        Ok(Box::new(move |lowering| {
            let dweight = lowering.parameter_gradient(weight);
            let dbias = bias.map_or(Span::NOTHING, |bias| lowering.parameter_gradient(bias));
            backward(lowering, work, x, out, [dweight, dbias]);
            Ok(())
        }))
    }
}

impl<T: Real> Scaled<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (x, out) = (self.x, self.out);
        let place = lowering.place(x);
        let work = norm::Norm {
            storage: place.storage,
            x: place.span,
            weight: Span::NOTHING,
            constant: self.weight.first().map_or(1.0, |weight| weight.to_f64() as f32),
            bias: Span::NOTHING,
            is_layer: false,
            epsilon: self.epsilon,
            rows: x.rows,
            width: x.width,
        };
        forward(lowering, work, out);
        Ok(Box::new(move |lowering| {
            backward(lowering, work, x, out, [Span::NOTHING; 2]);
            Ok(())
        }))
    }
}

fn forward(lowering: &mut Lowering, work: norm::Norm, out: Value) {
    let result = lowering.make(out, work.storage);
    lowering.forward(move |gpu| gpu.norm_rows(&work, result));
}

fn backward(lowering: &mut Lowering, work: norm::Norm, x: Value, out: Value, [dweight, dbias]: [Span; 2]) {
    let Some(dy) = lowering.gradient(out) else { return };
    let dx = lowering.contribute(x);
    let (scratch, counter) = (lowering.scratch(work.scratch()), lowering.counters(size_of::<u32>()));
    let given = NormGradients { dy, dx, dweight, dbias, scratch, counter };
    lowering.backward(move |gpu| gpu.norm_rows_back(&work, &given));
}

impl Activate {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Activate { x, activation, out } = *self;
        let (place, len) = (lowering.place(x), x.size());
        let result = lowering.make(out, place.storage);
        lowering.forward(move |gpu| gpu.activate(place.storage, activation, place.span, result, len, false));
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            lowering.backward(move |gpu| gpu.activate(place.storage, activation, place.span, dy, len, true));
            lowering.hand_over(out, x);
            Ok(())
        }))
    }
}

impl Gate {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Gate { x, activation, out } = *self;
        let (place, len, width) = (lowering.place(x), out.size(), out.width);
        let result = lowering.make(out, place.storage);
        lowering.forward(move |gpu| gpu.gate(place.storage, activation, [place.span, result], len, width));
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            lowering.set_gradient(x, |lowering, dx| {
                lowering.backward(move |gpu| {
                    gpu.gate_back(place.storage, activation, [place.span, dy, dx], len, width)
                });
            });
            Ok(())
        }))
    }
}

impl Times {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Times { x, factor } = *self;
        let (place, len) = (lowering.place(x), x.size());
        lowering.forward(move |gpu| gpu.times(place.storage, place.span, len, factor));
        Ok(Box::new(move |lowering| {
            let Some(dx) = lowering.gradient(x) else { return Ok(()) };
            lowering.backward(move |gpu| gpu.times(place.storage, dx, len, factor));
            Ok(())
        }))
    }
}

impl Dropout {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Dropout { x, probability, site } = *self;
        let (place, len, scalars) = (lowering.place(x), x.size(), lowering.scalars());
        lowering
            .forward(move |gpu| gpu.drop_some(place.storage, place.span, len, probability, site, scalars));
        Ok(Box::new(move |lowering| {
            let Some(dx) = lowering.gradient(x) else { return Ok(()) };
            lowering.backward(move |gpu| gpu.drop_some(place.storage, dx, len, probability, site, scalars));
            Ok(())
        }))
    }
}
