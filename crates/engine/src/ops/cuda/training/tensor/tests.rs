//! The kernels against the CPU's attention, and cuDNN's: in `bf16` on inputs that it holds, in TF32 on any `f32`.

use super::super::Masks;
use super::super::attention::Rows;
use super::super::check::{Gpu, done, gpu, numbers, plain_attention, words};
use super::super::fused::Fused;
use super::*;
use crate::attention::softmax::{Heads, Mask, Reach, Shape};
use crate::attention::{self, Bias, Dropout, Place, TermGradients, Terms, Workspace};
use crate::ops::check::list;
use gpu::Span;

/// What there are kernels for.
const BOTH: [Arithmetic; 2] = [Arithmetic::Bf16, Arithmetic::Tf32];

/// Sizes and settings of a case: batch, length, heads, key heads, features.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Case {
    pub arithmetic: Arithmetic,
    pub sizes: [usize; 5],
    pub is_causal: bool,
    pub window: Option<usize>,
    pub has_holes: bool,
    /// How many tokens of each sequence are there, if not all.
    pub counts: &'static [usize],
    /// Rows of the biases, if there are any.
    pub bias: Option<usize>,
    pub dropout: f64,
    pub is_training: bool,
}

/// What computes an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum By {
    Kernels,
    Cudnn,
    /// The same with sums that have no order.
    Unordered,
    /// cuDNN forward, the kernels back.
    Both,
}

/// Results, logarithms, and the gradients of the joined inputs and of the biases.
struct Given {
    out: Vec<f32>,
    lse: Vec<f32>,
    joined: Vec<f32>,
    bias: Vec<f32>,
}

struct Inputs {
    case: Case,
    joined: Vec<f32>,
    dout: Vec<f32>,
    mask: Vec<bool>,
    bias: Vec<f32>,
    index: Vec<u32>,
}

/// What gradients of biases are added to.
const BEFORE: f32 = 0.5;

impl Inputs {
    fn new(case: Case) -> Inputs {
        let [batch, length, heads, key_heads, dim] = case.sizes;
        let short = |seed, len| numbers(case.arithmetic, seed, len);
        let rows = case.bias.unwrap_or(0);
        // The first sequence is empty where there are several.
        let is_there = |at: usize| match case.counts.get(at / length) {
            Some(&count) => at % length < count,
            None => !case.has_holes || (at % 3 != 1 && (batch == 1 || at >= length)),
        };
        let row = |entry: usize| (entry + rows / 2).saturating_sub(length - 1).min(rows.max(1) - 1) as u32;
        Inputs {
            case,
            joined: short(1, batch * length * (heads + 2 * key_heads) * dim),
            dout: short(2, batch * length * heads * dim),
            mask: (0..batch * length).map(is_there).collect(),
            bias: list::<f32>(3, heads * rows),
            index: (0..2 * length - 1).map(row).collect(),
        }
    }

    fn on_processor(&self) -> Given {
        let [batch, length, heads, key_heads, dim] = self.case.sizes;
        let width = (heads + 2 * key_heads) * dim;
        let offsets = [0, heads * dim, (heads + key_heads) * dim];
        let part =
            |offset: usize| Heads { data: &self.joined[offset..], token: width, sequence: length * width };
        let bias = self.case.bias.map(|_| Bias { values: &self.bias, index: &self.index });
        let dropout = Dropout { probability: self.case.dropout, seed: 5, step: 2, site: 9 };
        let attention = attention::Attention {
            shape: Shape { batch, queries: length, keys: length, heads, key_heads, head_dim: dim },
            q: part(offsets[0]),
            k: part(offsets[1]),
            v: part(offsets[2]),
            mask: Mask {
                keys: Some(&self.mask),
                reach: if self.case.is_causal { Reach::Causal } else { Reach::All },
                window: self.case.window,
                ..Mask::default()
            },
            terms: Terms { bias, ..Terms::default() },
            dropout: (self.case.is_training && self.case.dropout > 0.0).then_some(dropout),
        };
        let mut workspace = Workspace::new().unwrap();
        let (mut out, mut lse) = (vec![0.0; self.dout.len()], vec![0.0; batch * length * heads]);
        assert!(attention.forward(&mut out, &mut lse, &mut workspace));
        let (mut joined, mut dbias) = (vec![0.0; self.joined.len()], vec![BEFORE; self.bias.len()]);
        let place = |offset| Place { buffer: 0, offset, token: width, sequence: length * width };
        let gradients = attention::Gradients {
            buffers: &mut [&mut joined[..]],
            accumulate: false,
            q: place(offsets[0]),
            k: place(offsets[1]),
            v: place(offsets[2]),
            terms: TermGradients { bias: bias.map(|_| &mut dbias[..]), ..TermGradients::default() },
        };
        assert!(attention.backward((&self.dout, &out, &lse), gradients, &mut workspace));
        Given { out, lse, joined, bias: dbias }
    }

    fn on(&self, gpu: &Gpu, by: By) -> Given {
        let Case { arithmetic, sizes: [batch, length, heads, key_heads, head_dim], .. } = self.case;
        let scalars = gpu.put(&[5u64, 2, u64::from(self.case.is_training), 0]);
        let (mask, index, bias) =
            (gpu.put(&words(&self.mask, length)), gpu.put(&self.index), gpu.put(&self.bias));
        let (joined, dout) = (gpu.store(arithmetic, &self.joined), gpu.store(arithmetic, &self.dout));
        let (out, lse) = (
            gpu.store(arithmetic, &vec![9.0; self.dout.len()]),
            gpu.put(&vec![9f32; batch * length * heads]),
        );
        let rows = |rows| Rows { values: bias.span(), rows, heads, index: index.span() };
        let attention = Attention {
            batch,
            length,
            heads,
            key_heads,
            head_dim,
            is_causal: self.case.is_causal,
            window: self.case.window,
            scale: (1.0 / (head_dim as f64).sqrt()) as f32,
            joined: joined.span(),
            out: out.span(),
            lse: lse.span(),
            mask: mask.span(),
            scalars: scalars.span(),
            dropout: self.case.dropout,
            site: 9,
            bias: self.case.bias.map(rows),
            ..plain_attention(arithmetic)
        };
        let all = gpu.put(&vec![length as u32; batch]);
        let counts =
            self.mask.chunks(length).map(|text| text.iter().filter(|&&is_there| is_there).count() as u32);
        let counts = gpu.put(&counts.collect::<Vec<_>>());
        let fused = (by != By::Kernels).then(|| {
            Fused::whatever_length(gpu.cuda(), &attention, [all.span(), counts.span()])
                .expect("cuDNN has a plan")
        });
        let fused = fused.map(|fused| match by {
            By::Unordered => fused.unordered(),
            By::Both => fused.without_backward(),
            _ => fused,
        });
        let bytes = scratch(&attention).max(fused.map_or(0, |fused| fused.scratch(gpu.cuda())));
        let scratch = gpu.put(&vec![0xFFu8; bytes]);
        let (djoined, dbias) =
            (gpu.store(arithmetic, &vec![9.0; self.joined.len()]), gpu.put(&vec![BEFORE; self.bias.len()]));
        let gradients = Gradients {
            out: dout.span(),
            joined: djoined.span(),
            bias: dbias.span(),
            scratch: scratch.span(),
            ..Gradients::default()
        };
        let kernels = gpu.kernels().tensor(arithmetic).unwrap();
        let launcher = gpu.launcher().with_masks(Masks::of(&self.mask, length));
        let [is_forth, is_back] = match fused {
            Some(fused) => [
                fused.forward(&launcher, &attention, scratch.span()).unwrap(),
                fused.backward(&launcher, &attention, &gradients).unwrap(),
            ],
            None => [false; 2],
        };
        assert_eq!([is_forth, is_back], [by != By::Kernels, ![By::Kernels, By::Both].contains(&by)]);
        // SAFETY: indices below the number of rows.
        unsafe {
            if !is_forth {
                done(forward(kernels, &launcher, &attention));
            }
            if !is_back {
                done(backward(kernels, &launcher, &attention, &gradients));
            }
        }
        Given {
            out: gpu.fetch(arithmetic, &out, self.dout.len()),
            lse: gpu.get(&lse, batch * length * heads),
            joined: gpu.fetch(arithmetic, &djoined, self.joined.len()),
            bias: gpu.get(&dbias, self.bias.len()),
        }
    }
}

/// Within `units` of rounding in the case's arithmetic, of the largest number, or of `least` where all are smaller.
fn close(what: &str, case: Case, got: &[f32], expected: &[f32], units: f32, least: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let largest = expected.iter().filter(|x| x.is_finite()).fold(least, |a, b| a.max(b.abs()));
    let rounding = if case.arithmetic == Arithmetic::Bf16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
    let bound = units * rounding * largest;
    for (index, (&a, &b)) in got.iter().zip(expected).enumerate() {
        let is_close = a == b || (a - b).abs() <= bound;
        assert!(is_close, "{what} of {case:?} at {index} of {}: {a} but {b}, bound {bound}", got.len());
    }
}

fn check(gpu: &Gpu, case: Case) {
    check_by(gpu, case, By::Kernels);
}

pub(in super::super) fn check_by(gpu: &Gpu, case: Case, by: By) {
    let inputs = Inputs::new(case);
    let (got, expected) = (inputs.on(gpu, by), inputs.on_processor());
    // Weights are rounded, and so are results: two units. Logarithms are f32, from exponentials of some 22 bits. In TF32 inputs
    // are rounded instead of results, and scores are products of such.
    let (inputs_units, lse_units) =
        if case.arithmetic == Arithmetic::Bf16 { (1.0, 0.005) } else { (2.0, 2.0) };
    close("out", case, &got.out, &expected.out, 2.0 * inputs_units, 0.1);
    close("lse", case, &got.lse, &expected.lse, lse_units, 1.0);
    // Besides those, δ has the rounding of results: all that there is where a query sees one key and scores have no gradient.
    close("joined", case, &got.joined, &expected.joined, 6.0 * inputs_units, 1.0);
    close("bias", case, &got.bias, &expected.bias, 8.0 * inputs_units, 4.0);
    if by == By::Unordered {
        return;
    }
    // No luck in the order of sums.
    let again = inputs.on(gpu, by);
    assert_eq!((got.out, got.lse, got.joined), (again.out, again.lse, again.joined), "{case:?}");
}

pub(in super::super) const PLAIN: Case = Case {
    arithmetic: Arithmetic::Bf16,
    sizes: [0; 5],
    is_causal: false,
    window: None,
    has_holes: false,
    counts: &[],
    bias: None,
    dropout: 0.0,
    is_training: true,
};

#[test]
fn lengths_and_features() {
    let Some(gpu) = gpu() else { return };
    for arithmetic in BOTH {
        for length in [1, 3, 40, 48, 63, 64, 65, 130, 200] {
            for dim in [8, 16, 32, 40, 64, 128] {
                for is_causal in [false, true] {
                    check(gpu, Case { arithmetic, sizes: [2, length, 3, 3, dim], is_causal, ..PLAIN });
                }
            }
        }
    }
    for dim in [4, 12, 20, 100] {
        check(gpu, Case { arithmetic: Arithmetic::Tf32, sizes: [2, 70, 2, 2, dim], ..PLAIN });
    }
}

#[test]
fn shared_keys_and_holes() {
    let Some(gpu) = gpu() else { return };
    for arithmetic in BOTH {
        for length in [5, 64, 100, 257] {
            for (heads, key_heads) in [(4, 2), (6, 1), (2, 2)] {
                for is_causal in [false, true] {
                    let sizes = [3, length, heads, key_heads, 64];
                    check(gpu, Case { arithmetic, sizes, is_causal, has_holes: true, ..PLAIN });
                }
            }
        }
    }
}

#[test]
fn biases_and_dropout() {
    let Some(gpu) = gpu() else { return };
    for arithmetic in BOTH {
        for length in [1, 40, 64, 150] {
            for (bias, dropout) in [(Some(2 * length - 1), 0.0), (Some(5), 0.3), (None, 0.3)] {
                for (is_causal, is_training, dim) in
                    [(true, true, 32), (false, true, 64), (false, false, 128)]
                {
                    let case = Case { arithmetic, is_causal, bias, dropout, is_training, ..PLAIN };
                    check(gpu, Case { sizes: [2, length, 4, 4, dim], has_holes: length > 1, ..case });
                    check(gpu, Case { sizes: [2, length, 4, 2, dim], ..case });
                }
            }
        }
    }
}

#[test]
fn what_fits() {
    let attention = Attention {
        batch: 2,
        length: 65,
        heads: 4,
        key_heads: 2,
        head_dim: 40,
        ..plain_attention(Arithmetic::Bf16)
    };
    let fits = |attention: &Attention| fits(attention, 227 << 10);
    let rows = Some(Rows { values: Span::NOTHING, rows: 1, heads: 1, index: Span::NOTHING });
    assert!(fits(&attention) && fits(&Attention { bias: rows, dropout: 0.1, ..attention }));
    assert!(!fits(&Attention { arithmetic: Arithmetic::F32, ..attention }));
    for head_dim in [0, 20, 136] {
        assert!(!fits(&Attention { head_dim, ..attention }));
    }
    assert!(
        !fits(&Attention { query: rows, ..attention })
            && !fits(&Attention { content: Span::new(1, 0), ..attention })
    );
    assert!(
        !fits(&Attention { scale: -1.0, ..attention })
            && !fits(&Attention { joined: Span::new(8, 0), ..attention })
    );
    assert_eq!(scratch(&attention), 2 * 4 * 128 * 8);
    let rounded = Attention { arithmetic: Arithmetic::Tf32, head_dim: 20, ..attention };
    assert!(fits(&rounded) && !fits(&Attention { head_dim: 22, ..rounded }));
    // Wide heads of f32 need more memory than most chips have for a block.
    let wide = Attention { head_dim: 128, ..rounded };
    assert!(fits(&wide) && !super::fits(&wide, 99 << 10));
    assert!(super::fits(&Attention { head_dim: 128, bias: rows, ..attention }, 99 << 10));
}
