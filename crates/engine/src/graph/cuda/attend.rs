//! Softmax attention over joined queries, keys and values, with its position terms.

use super::{Lowered, Lowering};
use crate::error::Error;
use crate::graph::Value;
use crate::graph::attend::{Attend, Softmax, TableTerm};
use crate::ops::Real;
use crate::ops::cuda::product::Storage;
use crate::ops::cuda::training::attention::{self, Attention, Gradients, Rows, Segments};
use crate::ops::cuda::training::fused::Fused;
use crate::ops::cuda::training::tensor;
use crate::ops::cuda::{Arithmetic, check_cap, check_chunks, no_encoder};
use gpu::Span;

impl<T: Real> Softmax<T> {
    pub(in crate::graph) fn lower_to(&self, lowering: &mut Lowering) -> Lowered {
        let Attend {
            joined,
            batch,
            heads,
            key_heads,
            head_dim,
            is_causal,
            window,
            chunk,
            dropout,
            ref terms,
            distant,
        } = self.attend;
        let length = joined.rows / batch;
        check_chunks(chunk, length)?;
        check_cap(terms.cap)?;
        if self.is_of_source {
            return Err(no_encoder());
        }
        for (is_there, encoding) in [
            (terms.pairs.is_some(), "fire"),
            (terms.gate.is_some(), "forget"),
            (terms.counted.is_some(), "contextual"),
            (terms.path.is_some(), "path"),
            (distant.is_some(), "extend"),
        ] {
            if is_there {
                return Err(Error::Device(format!(
                    "the encoding {encoding} has no form for a GPU; use the CPU"
                )));
            }
        }
        let place = lowering.place(joined);
        let [bias, query, key, value] = [&terms.bias, &terms.query, &terms.key, &terms.value];
        let mut rows = |term: &Option<TableTerm>, is_bias: bool| {
            term.as_ref().map(|term| {
                let rows = if is_bias { term.table.width } else { term.table.rows };
                assert!(
                    term.index.iter().all(|&row| (row as usize) < rows),
                    "a table has the rows of its index"
                );
                Rows {
                    values: lowering.place(term.table).span,
                    rows,
                    heads: if is_bias { heads } else { term.table.width / head_dim },
                    index: lowering.constant(&term.index),
                }
            })
        };
        let [bias, query, key, value] =
            [rows(bias, true), rows(query, false), rows(key, false), rows(value, false)];
        let vectors = |value: Option<Value>| value.map_or(Span::NOTHING, |value| lowering.place(value).span);
        let (content, position) = (vectors(terms.content), vectors(terms.position));
        let [.., segment_query, segment_vectors] = terms.values().map(vectors);
        let segments = terms.segments.map(|_| Segments {
            ids: lowering.segments(batch * length),
            query: segment_query,
            vectors: segment_vectors,
        });
        let work = Attention {
            arithmetic: match (place.storage, lowering.gpu.arithmetic()) {
                (Storage::F32, Arithmetic::Tf32) => Arithmetic::Tf32,
                (storage, _) => storage.arithmetic(),
            },
            batch,
            length,
            heads,
            key_heads,
            head_dim,
            is_causal,
            window: window.filter(|&window| window < length),
            scale: terms.scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt()) as f32,
            joined: place.span,
            out: lowering.make(self.out, place.storage),
            lse: lowering.make(self.lse, Storage::F32),
            mask: lowering.mask(batch, length),
            scalars: lowering.scalars(),
            dropout,
            site: self.site,
            content,
            position,
            bias,
            query,
            key,
            value,
            segments,
        };
        // cuDNN where it is there and takes it, else tensor cores where they can be had.
        let gpu = lowering.gpu;
        let counts = || [lowering.constant(&vec![length as u32; batch]), lowering.counts(batch, length)];
        let fused = Fused::find(gpu, &work, counts)?;
        let fused_scratch = fused.map_or(0, |fused| fused.scratch(gpu));
        let (is_tensor, has_terms) = (tensor::fits(&work, gpu.device().shared_bytes()), work.has_terms());
        let scratch = lowering.scratch(fused_scratch);
        lowering.forward(move |gpu| {
            if let Some(fused) = fused
                && fused.forward(gpu, &work, scratch)?
            {
                return Ok(());
            }
            // SAFETY: indices below the number of rows, as was asserted.
            unsafe {
                match is_tensor {
                    true => tensor::forward(gpu.training()?.tensor(work.arithmetic)?, gpu, &work),
                    false => attention::forward(gpu.training()?.attention(has_terms)?, gpu, &work),
                }
            }
        });
        let (out, learned) = (self.out, terms.values());
        Ok(Box::new(move |lowering| {
            let Some(dy) = lowering.gradient(out) else { return Ok(()) };
            let [content, position, bias, query, key, value, segment_query, segment_vectors] =
                learned.map(|value| {
                    let learned = value.filter(|&value| !lowering.is_constant(value));
                    learned.map_or(Span::NOTHING, |value| lowering.add_to(value))
                });
            let bytes = if is_tensor { tensor::scratch(&work) } else { attention::scratch(&work) };
            let scratch = lowering.scratch(bytes.max(fused_scratch));
            lowering.set_gradient(joined, |lowering, joined| {
                let given = Gradients {
                    out: dy,
                    joined,
                    content,
                    position,
                    bias,
                    query,
                    key,
                    value,
                    segment_query,
                    segment_vectors,
                    scratch,
                };
                lowering.backward(move |gpu| {
                    if let Some(fused) = fused
                        && fused.backward(gpu, &work, &given)?
                    {
                        return Ok(());
                    }
                    // SAFETY: as above.
                    unsafe {
                        match is_tensor {
                            true => {
                                tensor::backward(gpu.training()?.tensor(work.arithmetic)?, gpu, &work, &given)
                            }
                            false => {
                                let kernels = gpu.training()?.attention(has_terms)?;
                                attention::backward(kernels, gpu, &work, &given)
                            }
                        }
                    }
                });
            });
            Ok(())
        }))
    }
}
