//! Position encodings of models that are run: codes that are added, and attention with position terms. Their kernels are
//! compiled by NVRTC for the GPU that is there, and kept on disk, when a model with such an encoding is first run.

use super::arguments::{Sizes, Vectors};
use super::attend::steps;
use super::kernels::narrow;
use super::{Arithmetic, Buffer, Cuda, check_mask};
use crate::attention::softmax::{Mask, Shape};
use crate::error::{Error, Result};
use crate::ops::{Part, Real, TermRows, Terms};
use gpu::{Device, Function, Module, Size};

/// The source.
const SOURCE: &str = concat!(include_str!("kernels/types.cu"), include_str!("kernels/encodings.cu"));

/// Threads of a block of `attend_terms`.
const THREADS: usize = 128;

/// The kernels, for `f32` and for `bf16`.
pub(super) struct Encodings {
    add_rows: [Function; 2],
    attend_terms: [Function; 2],
}

/// As `AddRows` in kernels/encodings.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct AddRows {
    x: u64,
    rows: u64,
    count: u64,
    period: u64,
}

/// As `TermRows` in kernels/encodings.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RowArguments {
    values: u64,
    index: u64,
    rows: u32,
    heads: u32,
}

/// As `Termed` in kernels/encodings.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Termed {
    vectors: Vectors,
    content: u64,
    position: u64,
    /// Bias, query, key and value table.
    tables: [RowArguments; 4],
    segment_query: u64,
    segment_vectors: u64,
    segments: u64,
    sizes: Sizes,
    scale: f32,
    /// 0: none.
    cap: f32,
}

const _: () =
    assert!(size_of::<AddRows>() == 32 && size_of::<RowArguments>() == 24 && size_of::<Termed>() == 272);

impl Encodings {
    /// Compiles the kernels, or finds them compiled.
    pub fn load(device: &Device) -> Result<Encodings> {
        let module = Module::compile(device, SOURCE, &[])?.ok_or_else(|| {
            Error::Device(
                "NVRTC is not found or too old for this GPU, which models with other encodings than rotary need: install the \
                 CUDA toolkit's libnvrtc, or the Python package nvidia-cuda-nvrtc; or use the CPU"
                    .into(),
            )
        })?;
        let both = |name: &str| -> gpu::Result<[Function; 2]> {
            Ok([module.function(&format!("f32_{name}"))?, module.function(&format!("bf16_{name}"))?])
        };
        Ok(Encodings { add_rows: both("add_rows")?, attend_terms: both("attend_terms")? })
    }
}

impl Cuda {
    /// Which of two kernels is for numbers as this stores them.
    fn own<'a>(&self, both: &'a [Function; 2]) -> &'a Function {
        &both[usize::from(self.0.arithmetic == Arithmetic::Bf16)]
    }

    /// x ← x + rows, as [`Backend::add_rows`](crate::ops::Backend::add_rows) has it.
    pub(super) fn add_code_rows<T: Real>(
        &self,
        x: &Buffer<T>,
        rows: &Buffer<T>,
        first: usize,
        [batch, length, width]: [usize; 3],
    ) -> Result<()> {
        let (period, size) = (length * width, self.0.arithmetic.size());
        assert!(batch * period <= x.len && first * width + period <= rows.len, "shapes of codes");
        if batch * period == 0 {
            return Ok(());
        }
        let (x, rows) = (x.at(0, size), rows.at(first * width, size));
        let work = AddRows { x, rows, count: (batch * period) as u64, period: period as u64 };
        let kernel = self.own(&self.encodings()?.add_rows);
        // SAFETY: the kernel's one argument; both buffers are as long as was checked.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), Size::each(batch * period), (work,)) }?)
    }

    /// Attention with position terms.
    pub(super) fn attend_terms<T: Real>(
        &self,
        shape: &Shape,
        [q, k, v]: [Part<'_, Buffer<T>>; 3],
        mask: &Mask,
        terms: &Terms<'_, Buffer<T>>,
        out: &Buffer<T>,
    ) -> Result<()> {
        let Shape { batch, queries, keys, heads, head_dim, .. } = *shape;
        check_mask(mask, keys)?;
        for (is_there, encoding) in [
            (terms.pairs.is_some(), "fire"),
            (terms.gate.is_some(), "forget"),
            (terms.counted.is_some(), "contextual"),
            (terms.path.is_some(), "path"),
        ] {
            if is_there {
                return Err(Error::Device(format!(
                    "the encoding {encoding} has no form for a GPU; use the CPU"
                )));
            }
        }
        let window = mask.window;
        let places = self.places(shape, [&q, &k, &v], mask, out);
        if out.len == 0 {
            return Ok(());
        }
        let size = self.0.arithmetic.size();
        let vectors = |count: usize, vectors: Option<&Buffer<T>>| {
            let len = count * heads * head_dim;
            assert!(vectors.is_none_or(|vectors| vectors.len == len), "vectors for every head");
            vectors.map_or(0, |vectors| vectors.at(0, size))
        };
        // What is shared must stay until this is launched: no other pass may put its own before.
        let mut state = self.state();
        let (mask, prefixes, reach) = state.mask(mask, keys)?;
        let mut table = |number: usize, rows: &Option<TermRows<'_, Buffer<T>>>, is_bias: bool| {
            let Some(TermRows { values, width, index }) = rows else { return Ok(RowArguments::default()) };
            let count = if is_bias { *width } else { values.len / width };
            assert!(index.len() == queries + keys - 1, "a row for every distance");
            assert!(index.iter().all(|&row| (row as usize) < count), "rows within their table");
            let index = state.index(number, index)?;
            let heads = narrow(if is_bias { 1 } else { width / head_dim })?;
            Ok::<_, Error>(RowArguments { values: values.at(0, size), index, rows: narrow(count)?, heads })
        };
        let tables = [
            table(0, &terms.bias, true)?,
            table(1, &terms.query, false)?,
            table(2, &terms.key, false)?,
            table(3, &terms.value, false)?,
        ];
        let segments = match &terms.segments {
            Some(own) => {
                assert!(queries <= keys && own.ids.len() == batch * keys, "a segment for every token");
                state.segments(own.ids)?
            }
            None => 0,
        };
        let steps = steps([&q, &k, &v]);
        let [q, k, v] = places;
        let work = Termed {
            vectors: Vectors { q, k, v, out: out.at(0, size), steps, mask, prefixes },
            content: vectors(1, terms.content),
            position: vectors(1, terms.position),
            tables,
            segment_query: vectors(1, terms.segments.as_ref().map(|own| own.query)),
            segment_vectors: vectors(2, terms.segments.as_ref().map(|own| own.vectors)),
            segments,
            sizes: Sizes::new(shape, reach, window)?,
            scale: terms.scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt()) as f32,
            cap: terms.cap.unwrap_or(0.0) as f32,
        };
        let blocks = batch * heads * queries;
        narrow(blocks)?;
        let shared = (3 * head_dim + THREADS + 32) * size_of::<f32>();
        let launch = Size::new(blocks, [THREADS, 1]).shared(shared);
        let kernel = self.own(&self.encodings()?.attend_terms);
        // SAFETY: vectors and tables lie within their buffers, indices within their tables; mask, prefixes and indices have
        // the shape's sizes.
        Ok(unsafe { kernel.launch(self.0.queue.stream(), launch, (work,)) }?)
    }
}
