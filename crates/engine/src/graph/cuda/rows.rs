//! Rows side by side, and one vector for each text.

use super::{Lowered, Lowering};
use crate::graph::Value;
use crate::graph::rows::{Beside, Last, Means};
use crate::ops::cuda::training::rows::{self, Columns, Pool, Texts};

impl Beside {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let (parts, out) = (self.parts, self.out);
        let firsts: Vec<usize> =
            parts.iter().scan(0, |first, part| Some(std::mem::replace(first, *first + part.width))).collect();
        let storage = lowering.place(parts[0]).storage;
        let arithmetic = storage.arithmetic();
        let result = lowering.make(out, storage);
        let columns = move |rows, first| Columns { rows, width: out.width, first };
        let own = |rows, part: Value| Columns { rows, width: part.width, first: 0 };
        for (part, &first) in parts.iter().zip(&firsts) {
            let (from, size) = (own(lowering.place(*part).span, *part), [part.rows, part.width]);
            lowering.forward(move |gpu| {
                let kernels = &gpu.training()?.rows;
                rows::copy_columns(kernels, gpu, arithmetic, &from, &columns(result, first), size, false)
            });
        }
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            for (part, &first) in parts.iter().zip(&firsts) {
                let (sum, accumulate) = lowering.contribute(*part);
                let (to, size) = (own(sum, *part), [part.rows, part.width]);
                lowering.backward(move |gpu| {
                    let kernels = &gpu.training()?.rows;
                    rows::copy_columns(kernels, gpu, arithmetic, &columns(dy, first), &to, size, accumulate)
                });
            }
            Ok(())
        }))
    }
}

impl Means {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        lower_pool(lowering, Pool::Mean, self.x, self.length, self.out)
    }
}

impl Last {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        lower_pool(lowering, Pool::Last, self.x, self.length, self.out)
    }
}

fn lower_pool(lowering: &mut Lowering, pool: Pool, x: Value, length: usize, out: Value) -> Lowered {
    let place = lowering.place(x);
    let arithmetic = place.storage.arithmetic();
    let result = lowering.make(out, place.storage);
    let (batch, width) = (out.rows, x.width);
    let texts = Texts { mask: lowering.mask(batch, length), batch, length, width };
    lowering.forward(move |gpu| {
        let kernels = &gpu.training()?.rows;
        rows::pool(kernels, gpu, arithmetic, pool, &texts, place.span, result)
    });
    Ok(Box::new(move |lowering| {
        let Some(dy) = lowering.gradient(out) else { return Ok(()) };
        let (dx, accumulate) = lowering.contribute(x);
        lowering.backward(move |gpu| {
            let kernels = &gpu.training()?.rows;
            rows::pool_backward(kernels, gpu, arithmetic, pool, &texts, dy, dx, accumulate)
        });
        Ok(())
    }))
}
