//! Feature maps of linear attention, as [`Map`](crate::attention::linear::Map) of the CPU, on whole batches.

use super::{Launcher, THREADS, narrow};
use crate::error::{Error, Result};
use crate::ops::cuda::Arithmetic;
use gpu::{Function, Module, Size, Span};

/// Tokens of a block, and numbers of its share of the projections: as in kernels/features.cu.
const TOKENS: usize = 32;
const PART: usize = 32 * 65;
/// Bytes of shared memory that every chip from compute capability 8.0 on has.
const SHARED: usize = 96 << 10;

/// A map.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Map {
    /// elu(x) + 1.
    Elu,
    /// Softmax over the features of a row.
    Softmax,
    /// e^(x − shift).
    Exp,
    /// FAVOR+ without an eps.
    Favor {
        /// [`Favor::projections`](crate::attention::linear::Favor::projections) `[features, dim]`, as `f32`.
        projections: Span,
        features: usize,
    },
}

/// φ of every head: x `[batch · length, heads · dim]` → y `[batch · length, heads · features]`.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub map: Map,
    pub x: Span,
    pub y: Span,
    /// `[batch, length / 64 rounded up]`, `u64`: a bit a token. Read for keys alone.
    pub mask: Span,
    /// [`scratch`] bytes; of the way forward.
    pub scratch: Span,
    pub batch: usize,
    pub length: usize,
    pub heads: usize,
    pub dim: usize,
    /// Keys of a head share their shift, the largest exponent of those that are real, and padding gets features of 0; a query
    /// has its own largest.
    pub are_keys: bool,
}

/// The kernels for one type of numbers. Pairs are for numbers one by one, and for 16 bytes at a time.
struct Set {
    elu: [Function; 2],
    softmax: Function,
    exp: Function,
    favor: Function,
    exp_largest: Function,
    favor_largest: Function,
    backward: [Function; 2],
    softmax_backward: Function,
    favor_backward: Function,
}

/// The kernels of this part.
pub(crate) struct Kernels([Set; 2]);

impl Kernels {
    pub fn load(module: &Module) -> gpu::Result<Kernels> {
        let set = |kind: &str| -> gpu::Result<Set> {
            let find = |name: &str| module.function(&format!("features_{name}_{kind}"));
            let pair = |name: &str| -> gpu::Result<[Function; 2]> {
                Ok([find(name)?, module.function(&format!("features_{name}_{kind}_wide"))?])
            };
            let large = |name: &str| -> gpu::Result<Function> {
                let kernel = find(name)?;
                kernel.allow_shared(SHARED)?;
                Ok(kernel)
            };
            Ok(Set {
                elu: pair("elu")?,
                softmax: large("softmax")?,
                exp: large("exp")?,
                favor: large("favor")?,
                exp_largest: large("exp_largest")?,
                favor_largest: large("favor_largest")?,
                backward: pair("backward")?,
                softmax_backward: find("softmax_backward")?,
                favor_backward: large("favor_backward")?,
            })
        };
        Ok(Kernels([set("f32")?, set("bf16")?]))
    }

    fn set(&self, arithmetic: Arithmetic) -> &Set {
        &self.0[usize::from(arithmetic == Arithmetic::Bf16)]
    }
}

/// As `Features` in kernels/features.cu.
#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    x: u64,
    y: u64,
    dy: u64,
    dx: u64,
    projections: u64,
    mask: u64,
    largest: u64,
    length: u32,
    heads: u32,
    dim: u32,
    features: u32,
    words: u32,
    blocks: u32,
    are_keys: u32,
    accumulate: u32,
    shrink: f32,
    scale: f32,
}

const _: () = assert!(size_of::<Arguments>() == 96);

/// Bytes of scratch that [`forward`] needs.
pub(crate) fn scratch(work: &Work) -> usize {
    let has_shift = work.are_keys && matches!(work.map, Map::Exp | Map::Favor { .. });
    if has_shift { work.batch * work.heads * work.length.div_ceil(TOKENS) * size_of::<f32>() } else { 0 }
}

impl Work {
    fn arguments(
        &self,
        gpu: &Launcher,
        arithmetic: Arithmetic,
        (dy, dx, accumulate): (Span, Span, bool),
    ) -> Result<Arguments> {
        let (projections, features) = match self.map {
            Map::Favor { projections, features } => (gpu.floats(projections, features * self.dim)?, features),
            _ => (0, self.dim),
        };
        let vectors = self.batch * self.length * self.heads * arithmetic.size();
        Ok(Arguments {
            x: gpu.at(self.x, vectors * self.dim)?,
            y: gpu.at(self.y, vectors * features)?,
            dy: gpu.maybe(dy, vectors * features)?,
            dx: gpu.maybe(dx, vectors * self.dim)?,
            projections,
            mask: gpu.at(self.mask, self.batch * self.length.div_ceil(64) * size_of::<u64>())?,
            largest: gpu.at(self.scratch, scratch(self))?,
            length: narrow(self.length)?,
            heads: narrow(self.heads)?,
            dim: narrow(self.dim)?,
            features: narrow(features)?,
            words: narrow(self.length.div_ceil(64))?,
            blocks: narrow(self.length.div_ceil(TOKENS))?,
            are_keys: self.are_keys.into(),
            accumulate: accumulate.into(),
            shrink: (self.dim as f64).powf(-0.25) as f32,
            scale: if projections == 0 { 1.0 } else { (features as f64).sqrt().recip() as f32 },
        })
    }

    /// A block for every head of some tokens.
    fn size(&self) -> Result<Size> {
        let numbers = match self.map {
            Map::Favor { features, .. } => TOKENS * ((features | 1) + (self.dim | 1)) + PART,
            _ => TOKENS * (self.dim | 1),
        };
        let shared = numbers * size_of::<f32>();
        if shared > SHARED {
            let why =
                format!("features of heads of {} numbers do not fit in a GPU's shared memory", self.dim);
            return Err(Error::Device(why + "; use fewer, or the CPU"));
        }
        let blocks = self.batch * self.heads * self.length.div_ceil(TOKENS);
        Ok(Size::new(blocks, [THREADS, 1]).shared(shared))
    }

    /// All numbers of x, and how many a thread takes: 16 bytes where all addresses allow it.
    fn each(&self, arithmetic: Arithmetic, places: &[Span]) -> (u64, usize) {
        let numbers = self.batch * self.length * self.heads * self.dim;
        let count = 16 / arithmetic.size();
        let is_wide = numbers.is_multiple_of(count) && places.iter().all(|place| place.is_aligned(16));
        (numbers as u64, if is_wide { count } else { 1 })
    }
}

/// y = φ(x).
pub(crate) fn forward(kernels: &Kernels, gpu: &Launcher, arithmetic: Arithmetic, work: &Work) -> Result<()> {
    let none = (Span::NOTHING, Span::NOTHING, false);
    let (set, arguments) = (kernels.set(arithmetic), work.arguments(gpu, arithmetic, none)?);
    let (kernel, largest) = match work.map {
        Map::Elu => {
            let (numbers, count) = work.each(arithmetic, &[work.x, work.y]);
            let kernel = &set.elu[usize::from(count > 1)];
            let size = Size::each((numbers as usize).div_ceil(count));
            // SAFETY: memory of these sizes.
            return unsafe { gpu.launch(kernel, size, (arguments, numbers)) };
        }
        Map::Softmax => (&set.softmax, None),
        Map::Exp => (&set.exp, Some(&set.exp_largest)),
        Map::Favor { .. } => (&set.favor, Some(&set.favor_largest)),
    };
    // SAFETY: memory of these sizes.
    unsafe {
        if let Some(largest) = largest.filter(|_| work.are_keys) {
            gpu.launch(largest, work.size()?, (arguments,))?;
        }
        gpu.launch(kernel, work.size()?, (arguments,))
    }
}

/// dx from dy, with x and y as [`forward`] left them. The shift counts as a constant. Sets dx, or adds to it.
pub(crate) fn backward(
    kernels: &Kernels,
    gpu: &Launcher,
    arithmetic: Arithmetic,
    work: &Work,
    dy: Span,
    (dx, accumulate): (Span, bool),
) -> Result<()> {
    let (set, arguments) = (kernels.set(arithmetic), work.arguments(gpu, arithmetic, (dy, dx, accumulate))?);
    // SAFETY of all: memory of these sizes.
    match work.map {
        Map::Elu | Map::Exp => {
            let (numbers, count) = work.each(arithmetic, &[work.x, work.y, dy, dx]);
            let is_elu = u32::from(work.map == Map::Elu);
            let size = Size::each((numbers as usize).div_ceil(count));
            // SAFETY: as above.
            unsafe { gpu.launch(&set.backward[usize::from(count > 1)], size, (arguments, numbers, is_elu)) }
        }
        Map::Softmax => {
            let size = work.size()?.shared(0);
            // SAFETY: as above.
            unsafe { gpu.launch(&set.softmax_backward, size, (arguments,)) }
        }
        // SAFETY: as above.
        Map::Favor { .. } => unsafe { gpu.launch(&set.favor_backward, work.size()?, (arguments,)) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::check::{Gpu, STORAGES, close, done, gpu, mask, numbers, words};
    use super::*;
    use crate::attention::linear::{Favor, Map as OnProcessor, Shift};

    fn compare(gpu: &Gpu, arithmetic: Arithmetic, map: &OnProcessor<f32>, sizes: [usize; 4], are_keys: bool) {
        let kernels = &gpu.kernels().linear().unwrap().features;
        let [batch, length, heads, dim] = sizes;
        let (features, rows) = (map.features(dim), batch * length * heads);
        let name = ["elu", "softmax", "exp", "favor"][match map {
            OnProcessor::Elu1 => 0,
            OnProcessor::Softmax => 1,
            OnProcessor::Exp => 2,
            OnProcessor::Favor(_) => 3,
        }];
        let what = format!("{name} {sizes:?} → {features}, keys: {are_keys}");
        let x = numbers(arithmetic, 1, rows * dim);
        let (dy, before) = (numbers(arithmetic, 2, rows * features), numbers(arithmetic, 3, rows * dim));
        let is_real = mask(batch, length);
        let (mut y, mut shifts) = (vec![0.0; rows * features], vec![0.0; batch * heads]);
        let shift = match are_keys {
            true => Shift::Largest { keys: Some(&is_real), shifts: &mut shifts },
            false => Shift::Row,
        };
        map.forward([batch, length, heads], &x, shift, &mut y);
        let projections = match map {
            OnProcessor::Favor(favor) => gpu.put(favor.projections()),
            _ => gpu.put(&[0f32]),
        };
        let on_gpu = match map {
            OnProcessor::Elu1 => Map::Elu,
            OnProcessor::Softmax => Map::Softmax,
            OnProcessor::Exp => Map::Exp,
            OnProcessor::Favor(_) => Map::Favor { projections: projections.span(), features },
        };
        let (x_there, y_there) =
            (gpu.store(arithmetic, &x), gpu.store(arithmetic, &vec![9.0; rows * features]));
        let mask = gpu.put(&words(&is_real, length));
        let mut work = Work {
            map: on_gpu,
            x: x_there.span(),
            y: y_there.span(),
            mask: mask.span(),
            scratch: Span::NOTHING,
            batch,
            length,
            heads,
            dim,
            are_keys,
        };
        let scratch = gpu.put(&vec![f32::NAN; scratch(&work) / 4]);
        work.scratch = scratch.span();
        done(forward(kernels, &gpu.launcher(), arithmetic, &work));
        let got = gpu.fetch(arithmetic, &y_there, y.len());
        // An exponent is rounded dim times, and its error is the feature's relative one.
        close(
            &what,
            arithmetic,
            &got,
            &y,
            if arithmetic == Arithmetic::Bf16 { 2.0 } else { 8.0 * dim as f32 },
        );
        // From the features that the GPU has, so that their rounding does not count.
        for accumulate in [false, true] {
            let (mut spent, mut dx) = (dy.clone(), vec![0.0; rows * dim]);
            map.backward(rows, &x, &got, &mut spent, &mut dx);
            if accumulate {
                dx.iter_mut().zip(&before).for_each(|(dx, before)| *dx += before);
            }
            let (dy_there, dx_there) = (gpu.store(arithmetic, &dy), gpu.store(arithmetic, &before));
            let place = (dx_there.span(), accumulate);
            done(backward(kernels, &gpu.launcher(), arithmetic, &work, dy_there.span(), place));
            let units = 16.0 * (features as f32).sqrt();
            close(
                &format!("{what} back"),
                arithmetic,
                &gpu.fetch(arithmetic, &dx_there, dx.len()),
                &dx,
                units,
            );
        }
    }

    #[test]
    fn maps_are_those_of_the_processor() {
        let Some(gpu) = gpu() else { return };
        for arithmetic in STORAGES {
            for are_keys in [false, true] {
                for sizes in [[1, 1, 1, 2], [3, 37, 2, 5], [3, 130, 3, 32], [2, 64, 2, 64]] {
                    let favor =
                        |features| OnProcessor::Favor(Favor::new(sizes[3], features, 0.0, 7).unwrap());
                    let maps =
                        [OnProcessor::Elu1, OnProcessor::Softmax, OnProcessor::Exp, favor(6), favor(100)];
                    for map in maps {
                        compare(gpu, arithmetic, &map, sizes, are_keys);
                    }
                }
            }
        }
    }
}
