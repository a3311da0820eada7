//! Linear attention of whole sequences and its gradients, as [`attend`](crate::attention::linear::attend) and
//! [`attend_backward`](crate::attention::linear::attend_backward) of the CPU with an ε of 0.

use super::{Launcher, THREADS, narrow};
use crate::error::{Error, Result};
use crate::ops::cuda::Arithmetic;
use gpu::{Function, Module, Size, Span};

/// Bytes of shared memory that a block may have: on compute capability 9.0, on 8.0, on all from 8.0 on.
const LIMITS: [usize; 3] = [227 << 10, 163 << 10, 99 << 10];
/// Bytes up to which two blocks fit on a multiprocessor of every chip but the smallest.
const HALF: usize = 80 << 10;
/// Tokens at a time.
const CHUNKS: [usize; 3] = [64, 32, 16];

/// The kernels of this part: `[forward, backward]` of `f32` and of `bf16`.
pub(crate) struct Kernels {
    kernels: [[Function; 2]; 2],
    /// Bytes of shared memory that the chip gives a block.
    limit: usize,
}

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let pair = |kind: &str| -> gpu::Result<[Function; 2]> {
            let find = |name: &str| module.function(&format!("linear_{name}_{kind}"));
            Ok([find("forward")?, find("backward")?])
        };
        let kernels = [pair("f32")?, pair("bf16")?];
        let allow = |bytes: usize| kernels.iter().flatten().all(|one| one.allow_shared(bytes).is_ok());
        let limit = LIMITS.into_iter().find(|&bytes| allow(bytes)).unwrap_or(48 << 10);
        Ok(Kernels { kernels, limit })
    }
}

/// Queries and keys of the numerator, those of the denominator, values.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// qn, kn, qd, kd `[batch · length, heads · features]`, v `[batch · length, heads · value_dim]`; any of them may be the same.
    pub inputs: [Span; 5],
    /// `[batch, length / 64 rounded up]`, `u64`: a bit a key.
    pub mask: Span,
    /// As v.
    pub out: Span,
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub features: usize,
    pub value_dim: usize,
    pub is_causal: bool,
}

/// What goes back, and where to.
#[derive(Clone, Copy)]
pub(crate) struct Back {
    /// The gradient of the output.
    pub dout: Span,
    /// Where the gradients of the inputs go, in their order, and whether they are added to what is there. Those of qn
    /// and qd may be the same, and those of kn and kd: then their sum is set if either is to be set, else added.
    pub gradients: [(Span, bool); 5],
    /// [`scratch`] bytes.
    pub scratch: Span,
}

/// Bytes of scratch that [`backward`] needs.
pub(crate) fn scratch(work: &Work) -> usize {
    2 * work.batch * work.heads * work.length * size_of::<f32>()
}

/// As `Attention` in kernels/linear.cu.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Arguments {
    inputs: [u64; 5],
    mask: u64,
    out: u64,
    dout: u64,
    gradients: [u64; 5],
    kept: u64,
    accumulate: [u32; 5],
    length: u32,
    heads: u32,
    features: u32,
    value_dim: u32,
    words: u32,
    chunk: u32,
    is_causal: u32,
    is_wide: u32,
}

const _: () = assert!(size_of::<Arguments>() == 168);

impl Work {
    /// Bytes of shared memory: what `Head` in kernels/linear.cu takes.
    fn shared(&self, chunk: usize, is_back: bool) -> usize {
        let padded = |width: usize| (width.div_ceil(4) | 1) * 4;
        let (m, e, pairs) = (padded(self.features), padded(self.value_dim), padded(chunk));
        let rows = if is_back { 4 * m + 3 * e } else { 3 * m + 2 * e };
        let state = self.features.next_multiple_of(4) * e;
        (state + chunk * (rows + pairs) + m + 2 * pairs) * size_of::<f32>()
    }

    /// Tokens at a time, and bytes of shared memory.
    fn choose(&self, limit: usize, is_back: bool) -> Result<(usize, usize)> {
        // No more tokens than there are: the smallest chunk that has room for all of them is the largest to consider.
        let longest = CHUNKS.into_iter().rfind(|&chunk| chunk >= self.length).unwrap_or(CHUNKS[0]);
        let fit = |most: usize| {
            let sizes = CHUNKS.into_iter().filter(|&chunk| chunk <= longest);
            sizes.map(|chunk| (chunk, self.shared(chunk, is_back))).find(|&(_, bytes)| bytes <= most)
        };
        fit(HALF.min(limit)).or_else(|| fit(limit)).ok_or_else(|| {
            let (m, e) = (self.features, self.value_dim);
            let why = format!("linear attention with {m} features and values of {e} numbers a head");
            Error::Device(why + ": too many for this GPU's shared memory; use fewer, or the CPU")
        })
    }

    fn launch(
        &self,
        kernels: &Kernels,
        gpu: &Launcher,
        arithmetic: Arithmetic,
        back: Option<&Back>,
    ) -> Result<()> {
        let (chunk, shared) = self.choose(kernels.limit, back.is_some())?;
        let vectors = self.batch * self.length * self.heads * arithmetic.size();
        let bytes = |index: usize| vectors * if index < 4 { self.features } else { self.value_dim };
        let all = |spans: [Span; 5]| -> Result<[u64; 5]> {
            let mut places = [0; 5];
            for (index, (place, span)) in places.iter_mut().zip(spans).enumerate() {
                *place = gpu.at(span, bytes(index))?;
            }
            Ok(places)
        };
        let mut arguments = Arguments {
            inputs: all(self.inputs)?,
            mask: gpu.at(self.mask, self.batch * self.length.div_ceil(64) * size_of::<u64>())?,
            out: gpu.at(self.out, bytes(4))?,
            length: narrow(self.length)?,
            heads: narrow(self.heads)?,
            features: narrow(self.features)?,
            value_dim: narrow(self.value_dim)?,
            words: narrow(self.length.div_ceil(64))?,
            chunk: narrow(chunk)?,
            is_causal: self.is_causal.into(),
            ..Arguments::default()
        };
        if let Some(back) = back {
            arguments.dout = gpu.at(back.dout, bytes(4))?;
            arguments.kept = gpu.at(back.scratch, scratch(self))?;
            arguments.gradients = all(back.gradients.map(|(span, _)| span))?;
            arguments.accumulate = back.gradients.map(|(_, accumulate)| accumulate.into());
        }
        let wide = |width: usize| (width * arithmetic.size()).is_multiple_of(16);
        let is_aligned =
            arguments.inputs.iter().chain([&arguments.dout]).all(|place| place.is_multiple_of(16));
        arguments.is_wide = (is_aligned && wide(self.features) && wide(self.value_dim)).into();
        let kernel =
            &kernels.kernels[usize::from(arithmetic == Arithmetic::Bf16)][usize::from(back.is_some())];
        let size = Size::new(self.batch * self.heads, [THREADS, 1]).shared(shared);
        // SAFETY: memory of these sizes.
        unsafe { gpu.launch(kernel, size, (arguments,)) }
    }
}

/// out_i = Σ_j (qn_i·kn_j) v_j / Σ_j qd_i·kd_j over the keys that i sees; 0 where the denominator is.
pub(crate) fn forward(kernels: &Kernels, gpu: &Launcher, arithmetic: Arithmetic, work: &Work) -> Result<()> {
    work.launch(kernels, gpu, arithmetic, None)
}

/// The gradients of all inputs. The output is not read.
pub(crate) fn backward(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    work: &Work,
    back: &Back,
) -> Result<()> {
    work.launch(kernels, gpu, arithmetic, Some(back))
}

#[cfg(test)]
mod tests {
    use super::super::check::{Gpu, STORAGES, close, done, gpu, mask, numbers, words};
    use super::*;
    use crate::attention::linear::{Gradients, Inputs, Options, Shape, Workspace, attend, attend_backward};

    fn compare(gpu: &Gpu, arithmetic: Arithmetic, shape: Shape, causal: bool, is_shared: bool) {
        let kernels = &gpu.kernels().linear().unwrap().linear;
        let Shape { batch, length, heads, features, value_dim } = shape;
        let tokens = batch * length * heads;
        let positive =
            |seed| numbers(arithmetic, seed, tokens * features).into_iter().map(f32::abs).collect();
        let [qn, kn, mut qd, mut kd] = [1, 2, 3, 4].map(positive) as [Vec<f32>; 4];
        if is_shared {
            (qd, kd) = (qn.clone(), kn.clone());
        }
        let (v, dout) =
            (numbers(arithmetic, 5, tokens * value_dim), numbers(arithmetic, 6, tokens * value_dim));
        let is_real = mask(batch, length);
        let inputs = Inputs { qn: &qn, kn: &kn, qd: &qd, kd: &kd, v: &v };
        let options = Options { causal, keys: Some(&is_real), eps: 0.0 };
        let mut workspace = Workspace::new().unwrap();
        let mut out = vec![0.0; v.len()];
        assert!(attend(&shape, &inputs, &options, &mut out, &mut workspace));
        let mut exact = [&qn, &kn, &qd, &kd, &v].map(|input| vec![0.0; input.len()]);
        let [a, b, c, d, e] = exact.each_mut().map(|gradient| &mut gradient[..]);
        let given = Gradients { qn: a, kn: b, qd: c, kd: d, v: e };
        assert!(attend_backward(&shape, &inputs, &options, &dout, given, &mut workspace));

        let what = format!("{shape:?} causal: {causal}");
        let there = [&qn, &kn, &qd, &kd, &v].map(|input| gpu.store(arithmetic, input));
        let (mask, dout) = (gpu.put(&words(&is_real, length)), gpu.store(arithmetic, &dout));
        let place = gpu.store(arithmetic, &vec![9.0; out.len()]);
        let work = Work {
            inputs: there.each_ref().map(|block| block.span()),
            mask: mask.span(),
            out: place.span(),
            batch,
            length,
            heads,
            features,
            value_dim,
            is_causal: causal,
        };
        done(forward(kernels, &gpu.launcher(), arithmetic, &work));
        let units = if arithmetic == Arithmetic::Bf16 { 2.0 } else { 8.0 * (length as f32).sqrt() + 64.0 };
        close(&what, arithmetic, &gpu.fetch(arithmetic, &place, out.len()), &out, units);

        let before =
            [7, 8, 9, 10, 11].map(|seed| numbers(arithmetic, seed, tokens * features.max(value_dim)));
        let adds = [false, true, true, false, true];
        let blocks = before.each_ref().map(|before| gpu.store(arithmetic, before));
        let mut gradients = [0, 1, 2, 3, 4].map(|index| (blocks[index].span(), adds[index]));
        if is_shared {
            // One of the two that share a place sets it.
            (gradients[2].0, gradients[3].0) = (gradients[0].0, gradients[1].0);
        }
        let scratch = gpu.put(&vec![f32::NAN; scratch(&work) / 4]);
        let back = Back { dout: dout.span(), gradients, scratch: scratch.span() };
        done(backward(kernels, &gpu.launcher(), arithmetic, &work, &back));
        for index in 0..5 {
            let mut expected = exact[index].clone();
            if is_shared && index < 4 {
                let other = exact[(index + 2) % 4].iter();
                expected.iter_mut().zip(other).for_each(|(sum, other)| *sum += other);
            } else if adds[index] {
                expected.iter_mut().zip(&before[index]).for_each(|(sum, before)| *sum += before);
            }
            let block = if is_shared && index < 4 { index % 2 } else { index };
            let got = gpu.fetch(arithmetic, &blocks[block], expected.len());
            close(&format!("{what} gradient {index}"), arithmetic, &got, &expected, 4.0 * units);
        }
    }

    #[test]
    fn attention_and_gradients_are_those_of_the_processor() {
        let Some(gpu) = gpu() else { return };
        for arithmetic in STORAGES {
            for (causal, is_shared) in [(false, false), (false, true), (true, false), (true, true)] {
                for [batch, length, heads, features, value_dim] in [
                    [1, 2, 1, 2, 1],
                    [3, 37, 2, 6, 5],
                    [3, 200, 2, 32, 32],
                    [2, 130, 1, 100, 64],
                    [2, 70, 1, 256, 128],
                ] {
                    let shape = Shape { batch, length, heads, features, value_dim };
                    compare(gpu, arithmetic, shape, causal, is_shared);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let sizes = Work {
            inputs: [Span::NOTHING; 5],
            mask: Span::NOTHING,
            out: Span::NOTHING,
            batch: 1,
            length: 100,
            heads: 1,
            features: 256,
            value_dim: 128,
            is_causal: true,
        };
        assert!(sizes.choose(LIMITS[0], true).is_ok_and(|(chunk, _)| chunk == 16));
        let Err(error) = (Work { features: 512, ..sizes }).choose(LIMITS[0], true) else {
            panic!("512 × 128 numbers of f32 are 256 KB")
        };
        assert!(error.to_string().contains("512 features"));
    }
}
