//! Norms, activations and dropout.

use super::sums::Writer;
use super::{Lowered, Lowering};
use crate::graph::Value;
use crate::graph::pointwise::{Activate, Dropout, Gate, Norm, Times};
use crate::graph::rows::Scaled;
use crate::ops::Real;
use crate::ops::cuda::training::norm::{self, NormGradients};
use crate::ops::cuda::training::pointwise::Slope;
use crate::ops::cuda::training::sums::Parts;
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
            backward(lowering, work, x, out, Some([dweight, dbias]));
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
            backward(lowering, work, x, out, None);
            Ok(())
        }))
    }
}

fn forward(lowering: &mut Lowering, work: norm::Norm, out: Value) {
    let result = lowering.make(out, work.storage);
    lowering.forward(move |gpu| gpu.norm_rows(&work, result));
}

fn backward(lowering: &mut Lowering, work: norm::Norm, x: Value, out: Value, gradients: Option<[Span; 2]>) {
    let Some(dy) = lowering.gradient(out) else { return };
    let dx = lowering.contribute(x);
    let (parts, vector) = (work.parts(dy, dx.0), work.width * size_of::<f32>());
    let partials = gradients.map_or(Span::NOTHING, |_| lowering.memory(parts * norm::SUMS * vector));
    let given = NormGradients { dy, dx, partials };
    lowering.backward(move |gpu| gpu.norm_rows_back(&work, &given));
    let Some(gradients) = gradients else { return };
    for (index, out) in gradients.into_iter().enumerate().filter(|(_, out)| !out.is_nothing()) {
        let partials = partials.from(index * vector);
        lowering.add_parts(Parts { partials, parts, step: norm::SUMS * work.width, out, count: work.width });
    }
    lowering.can_sum(dx.0, [work.rows, work.width], Writer::Norm { partials, parts });
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
            let (rows, width) = (x.rows, x.width);
            let slope = Slope { storage: place.storage, activation, x: place.span, dy, rows, width };
            lowering.can_sum(dy, [rows, width], Writer::Slope(slope));
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
