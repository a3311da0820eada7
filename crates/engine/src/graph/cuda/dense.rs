//! Linear layers, sums, columns, and values that are given.

use super::{Lowered, Lowering};
use crate::error::{Error, Result};
use crate::graph::Value;
use crate::graph::dense::{Columns, Concatenate, Constant, Every, Lift, Linear, Sum};
use crate::ops::Real;
use crate::ops::cuda::product::{Epilogue, Key, Storage};
use crate::ops::cuda::training::rows::{self, Codes};
use crate::ops::cuda::training::{Launcher, Spans};
use gpu::Span;

/// A product of tokens' rows and a weight, or one of the two of its way back.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub key: Key,
    pub places: Spans,
    /// The bias in `f32`, where there is one.
    pub bias: Span,
}

impl Product {
    /// out `[rows, outputs]` = x `[rows, inputs]` · weightᵀ, the sizes being rows, inputs and outputs.
    pub fn forward(storage: Storage, sizes: [usize; 3], x: Span, weight: Span, out: Span) -> Self {
        let key = Key::of_layer(storage, sizes, Epilogue::Nothing);
        let bias = Span::NOTHING;
        let places = Spans { left: x, right: weight, bias, added: out, share: 0.0, out };
        Product { key, places, bias }
    }

    /// dx `[rows, inputs]` = dy `[rows, outputs]` · weight, or added to what is there.
    pub fn to_input(
        storage: Storage,
        [rows, inputs, outputs]: [usize; 3],
        dy: Span,
        weight: Span,
        (dx, accumulate): (Span, bool),
    ) -> Self {
        let mut product = Self::forward(storage, [rows, outputs, inputs], dy, weight, dx);
        product.key.is_right_transposed = false;
        product.places.share = f32::from(u8::from(accumulate));
        product
    }

    /// dweight `[outputs, inputs]` += dyᵀ · x, in `f32`.
    pub fn to_weight(
        storage: Storage,
        [rows, inputs, outputs]: [usize; 3],
        dy: Span,
        x: Span,
        dweight: Span,
    ) -> Self {
        let mut product = Self::forward(storage, [outputs, rows, inputs], dy, x, dweight);
        (product.key.is_left_transposed, product.key.is_right_transposed) = (true, false);
        product.key.result = Storage::F32;
        product.places.share = 1.0;
        product
    }

    pub fn launch(&self, gpu: &Launcher) -> Result<()> {
        let Product { key, places, bias } = *self;
        if gpu.multiply(key, &places)? {
            return Ok(());
        }
        let plain = Key { epilogue: Epilogue::Nothing, ..key };
        if plain == key || !gpu.multiply(plain, &places)? {
            let Key { rows, columns, depth, .. } = key;
            let why = format!("cuBLASLt has no product [{rows}, {depth}] · [{depth}, {columns}]");
            return Err(Error::Device(why));
        }
        // Shapes that cuBLASLt has no bias for.
        let codes = Codes { codes: bias, rows: 1, width: key.columns };
        let out = rows::Columns { rows: places.out, width: key.columns, first: 0 };
        let kernels = &gpu.training()?.rows;
        rows::add_codes(kernels, gpu, key.result.arithmetic(), places.out, &codes, &out, key.rows)
    }
}

impl Linear {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Linear { x, weight, bias, residual, out } = *self;
        let sizes = [x.rows, x.width, out.width];
        let place = lowering.place(x);
        let (storage, input) = (place.storage, place.span);
        let factor = lowering.factor(weight, storage);
        let result = lowering.make(out, storage);
        let mut product = Product::forward(storage, sizes, input, factor, result);
        if let Some(bias) = bias {
            product.key.epilogue = Epilogue::Bias;
            product.places.bias = lowering.factor(bias, storage);
            product.bias = lowering.parameter(bias);
        }
        if let Some(residual) = residual {
            product.places.added = lowering.place(residual).span;
            product.places.share = 1.0;
        }
        lowering.forward(move |gpu| product.launch(gpu));
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            // First: what has just written dy may sum its columns too.
            if let Some(bias) = bias {
                let dbias = lowering.parameter_gradient(bias);
                lowering.sum_columns(storage, dy, [out.rows, out.width], dbias);
            }
            if !lowering.is_constant(x) {
                let dx = lowering.contribute(x);
                let product = Product::to_input(storage, sizes, dy, factor, dx);
                lowering.backward(move |gpu| product.launch(gpu));
            }
            let dweight = lowering.parameter_gradient(weight);
            let product = Product::to_weight(storage, sizes, dy, input, dweight);
            lowering.backward(move |gpu| product.launch(gpu));
            if let Some(residual) = residual {
                lowering.hand_over(out, residual);
            }
            Ok(())
        }))
    }
}

impl Sum {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Sum { a, b, out } = *self;
        let (first, second) = (lowering.place(a), lowering.place(b));
        let storage = first.storage;
        let result = lowering.make(out, storage);
        let is_code = second.storage == Storage::F32 && (a.rows != b.rows || storage != Storage::F32);
        let (texts, width) = (a.rows / b.rows, a.width);
        if is_code {
            let codes = Codes { codes: second.span, rows: b.rows, width };
            lowering.forward(move |gpu| {
                let columns = rows::Columns { rows: result, width, first: 0 };
                let kernels = &gpu.training()?.rows;
                rows::add_codes(kernels, gpu, storage.arithmetic(), first.span, &codes, &columns, texts)
            });
        } else {
            let len = out.size();
            lowering.forward(move |gpu| gpu.add(storage, first.span, second.span, result, len));
        }
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            if is_code && !lowering.is_constant(b) {
                let (codes, accumulate) = lowering.contribute(b);
                let codes = Codes { codes, rows: b.rows, width };
                lowering.backward(move |gpu| {
                    let columns = rows::Columns { rows: dy, width, first: 0 };
                    let kernels = &gpu.training()?.rows;
                    let arithmetic = storage.arithmetic();
                    rows::add_codes_backward(kernels, gpu, arithmetic, &columns, &codes, texts, accumulate)
                });
            } else if !is_code {
                let (sum, accumulate) = lowering.contribute(b);
                let columns = |rows| rows::Columns { rows, width, first: 0 };
                let (from, to, size) = (columns(dy), columns(sum), [a.rows, width]);
                lowering.backward(move |gpu| {
                    let kernels = &gpu.training()?.rows;
                    rows::copy_columns(kernels, gpu, storage.arithmetic(), &from, &to, size, accumulate)
                });
            }
            lowering.hand_over(out, a);
            Ok(())
        }))
    }
}

impl Concatenate {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Concatenate { x, codes, out } = *self;
        let (input, code) = (lowering.place(x), lowering.place(codes));
        let (storage, texts) = (input.storage, x.rows / codes.rows);
        let arithmetic = storage.arithmetic();
        let result = lowering.make(out, storage);
        let columns = move |rows, first| rows::Columns { rows, width: out.width, first };
        let own = move |rows| rows::Columns { rows, width: x.width, first: 0 };
        lowering.forward(move |gpu| {
            let kernels = &gpu.training()?.rows;
            let (from, size) = (own(input.span), [x.rows, x.width]);
            rows::copy_columns(kernels, gpu, arithmetic, &from, &columns(result, 0), size, false)?;
            let codes = Codes { codes: code.span, rows: codes.rows, width: codes.width };
            rows::add_codes(kernels, gpu, arithmetic, Span::NOTHING, &codes, &columns(result, x.width), texts)
        });
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            let (dx, accumulate) = lowering.contribute(x);
            lowering.backward(move |gpu| {
                let kernels = &gpu.training()?.rows;
                let (from, size) = (columns(dy, 0), [x.rows, x.width]);
                rows::copy_columns(kernels, gpu, arithmetic, &from, &own(dx), size, accumulate)
            });
            if !lowering.is_constant(codes) {
                let (gradient, accumulate) = lowering.contribute(codes);
                let gradient = Codes { codes: gradient, rows: codes.rows, width: codes.width };
                lowering.backward(move |gpu| {
                    let kernels = &gpu.training()?.rows;
                    let from = columns(dy, x.width);
                    rows::add_codes_backward(kernels, gpu, arithmetic, &from, &gradient, texts, accumulate)
                });
            }
            Ok(())
        }))
    }
}

impl Columns {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        lower_columns(lowering, self.x, [self.x.width, self.first], self.out)
    }
}

impl Every {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Every { x, first, step, out } = *self;
        // Every `step`-th row is a column of rows `step` times as wide.
        lower_columns(lowering, x, [step * x.width, first * x.width], out)
    }
}

/// Columns of x, read as rows of `width` numbers, from `first` on: as many as out has.
fn lower_columns(lowering: &mut Lowering, x: Value, [width, first]: [usize; 2], out: Value) -> Lowered {
    let columns = move |rows| rows::Columns { rows, width, first };
    let own = move |rows| rows::Columns { rows, width: out.width, first: 0 };
    let size = [out.rows, out.width];
    let place = lowering.place(x);
    let arithmetic = place.storage.arithmetic();
    let result = lowering.make(out, place.storage);
    lowering.forward(move |gpu| {
        let kernels = &gpu.training()?.rows;
        rows::copy_columns(kernels, gpu, arithmetic, &columns(place.span), &own(result), size, false)
    });
    Ok(Box::new(move |lowering| {
        let Some(dy) = lowering.gradient(out) else { return Ok(()) };
        // Other columns may get their part from others.
        let dx = lowering.add_to(x);
        lowering.backward(move |gpu| {
            let kernels = &gpu.training()?.rows;
            rows::copy_columns(kernels, gpu, arithmetic, &own(dy), &columns(dx), size, true)
        });
        Ok(())
    }))
}

impl Lift {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        lowering.alias(self.out, self.parameter);
        Ok(Box::new(|_| Ok(())))
    }
}

impl<T: Real> Constant<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let numbers: Vec<f32> = self.numbers.iter().map(|number| number.to_f64() as f32).collect();
        let address = lowering.constant(&numbers);
        lowering.given(self.out, address);
        Ok(Box::new(|_| Ok(())))
    }
}
