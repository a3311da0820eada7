//! Attention for training on a GPU against that of the CPU, in `f64`.

use super::super::check::{Gpu, STORAGES, gpu, plain_attention, words};
use super::*;
use crate::attention::softmax::{Heads, Mask, Reach, Shape};
use crate::attention::{self, Bias, Dropout, Place, Table, TermGradients, Workspace};
use crate::ops::check::list;
use gpu::{Block, Plain};
use half::bf16;

/// What changes from step to step, as the kernels read it.
const SEED: u64 = 5;
const STEP: u64 = 2;
const SITE: u64 = 9;

/// u, v, b, R, R′, V, z and E.
const NAMES: [&str; 8] = ["u", "v", "b", "R", "R′", "V", "z", "E"];
/// The number of each.
const ALL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    length: usize,
    heads: usize,
    key_heads: usize,
    head_dim: usize,
    is_causal: bool,
    window: Option<usize>,
    /// A bit for each of [`NAMES`]; z comes with E.
    terms: u32,
    /// Whether heads share the tables.
    is_shared: bool,
    dropout: f64,
    is_training: bool,
    hidden: Hidden,
}

#[derive(Clone, Copy, Debug)]
enum Hidden {
    Nothing,
    /// Some here and there, and all of the first sequence.
    Holes,
    /// The end of later sequences.
    Ends,
}

impl Case {
    fn width(&self) -> usize {
        (self.heads + 2 * self.key_heads) * self.head_dim
    }

    fn has(&self, which: usize) -> bool {
        self.terms >> which.min(6) & 1 == 1
    }

    fn table_heads(&self) -> usize {
        if self.is_shared { 1 } else { self.heads }
    }

    /// The rows of b, R, R′ and V: how many, and which for each distance.
    fn rows(&self, which: usize) -> (usize, Vec<u32>) {
        let (length, all) = (self.length as i64, 2 * self.length - 1);
        let distances = 1 - length..length;
        match which {
            2 => (7, distances.map(|r| r.rem_euclid(7) as u32).collect()),
            3 => (all, distances.map(|r| (r + length - 1) as u32).collect()),
            4 => (all, distances.map(|r| (length - 1 - r) as u32).collect()),
            _ => (9, distances.map(|r| (r.clamp(-4, 4) + 4) as u32).collect()),
        }
    }

    /// How many numbers a term has.
    fn count(&self, which: usize) -> usize {
        match which {
            0 | 1 | 6 => self.heads * self.head_dim,
            7 => 2 * self.heads * self.head_dim,
            2 => self.heads * self.rows(2).0,
            _ => self.rows(which).0 * self.table_heads() * self.head_dim,
        }
    }

    fn is_there(&self, sequence: usize, token: usize) -> bool {
        match self.hidden {
            Hidden::Nothing => true,
            Hidden::Holes => token % 3 != 1 && (sequence > 0 || self.batch == 1),
            Hidden::Ends => token < self.length - 5 * sequence % self.length,
        }
    }

    /// The segments of tokens.
    fn segments(&self) -> Vec<u32> {
        (0..self.batch * self.length).map(|token| (token * token / 3 % 4) as u32).collect()
    }

    fn mask(&self) -> Vec<bool> {
        let tokens = (0..self.batch).flat_map(|b| (0..self.length).map(move |token| (b, token)));
        tokens.map(|(sequence, token)| self.is_there(sequence, token)).collect()
    }
}

/// All that an attention gives: results, `lse`, the gradients of queries, keys and values, and of the terms.
struct Given {
    out: Vec<f64>,
    lse: Vec<f64>,
    joined: Vec<f64>,
    terms: [Vec<f64>; 8],
}

/// The numbers of a case: joined, the gradient of the results, the terms.
struct Numbers {
    joined: Vec<f32>,
    dout: Vec<f32>,
    terms: [Vec<f32>; 8],
}

impl Numbers {
    fn new(case: &Case, arithmetic: Arithmetic) -> Numbers {
        let tokens = case.batch * case.length;
        let stored = |seed, len| {
            let round = |x: f32| {
                if arithmetic == Arithmetic::Bf16 { bf16::from_f32(x).to_f32() } else { x }
            };
            list::<f32>(seed, len).into_iter().map(round).collect()
        };
        Numbers {
            joined: stored(1, tokens * case.width()),
            dout: stored(2, tokens * case.heads * case.head_dim),
            terms: ALL.map(|which| list(3 + which as u64, case.count(which))),
        }
    }
}

fn on_processor(case: &Case, numbers: &Numbers) -> Given {
    let Case { batch, length, heads, key_heads, head_dim, .. } = *case;
    let wide = |list: &[f32]| list.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (joined, dout) = (wide(&numbers.joined), wide(&numbers.dout));
    let terms = numbers.terms.each_ref().map(|term| wide(term));
    let (token, sequence) = (case.width(), length * case.width());
    let offsets = [0, heads * head_dim, (heads + key_heads) * head_dim];
    let [q, k, v] = offsets.map(|offset| Heads { data: &joined[offset..], token, sequence });
    let (mask, segments) = (case.mask(), case.segments());
    let index = [2, 3, 4, 5].map(|which| case.rows(which).1);
    let term = |which: usize| case.has(which).then_some(&terms[which][..]);
    let table = |which: usize| {
        let table = Table { values: &terms[which], heads: case.table_heads(), index: &index[which - 2] };
        case.has(which).then_some(table)
    };
    let attention = attention::Attention {
        shape: Shape { batch, queries: length, keys: length, heads, key_heads, head_dim },
        q,
        k,
        v,
        mask: Mask {
            keys: Some(&mask),
            reach: if case.is_causal { Reach::Causal } else { Reach::All },
            window: case.window,
            ..Mask::default()
        },
        terms: attention::Terms {
            scale: Some(f64::from(scale(case))),
            cap: None,
            content: term(0),
            position: term(1),
            bias: term(2).map(|values| Bias { values, index: &index[0] }),
            query: table(3),
            key: table(4),
            value: table(5),
            segments: term(6).zip(term(7)).map(|(query, vectors)| attention::Segments {
                query,
                vectors,
                ids: &segments,
            }),
            ..attention::Terms::default()
        },
        dropout: (case.dropout > 0.0 && case.is_training).then_some(Dropout {
            probability: case.dropout,
            seed: SEED,
            step: STEP,
            site: SITE,
        }),
    };
    let mut workspace = Workspace::new().unwrap();
    let (mut out, mut lse) = (vec![0.0; dout.len()], vec![0.0; batch * length * heads]);
    assert!(attention.forward(&mut out, &mut lse, &mut workspace));
    let mut given = vec![0.0; joined.len()];
    let mut sums = ALL.map(|which| vec![0.0; case.count(which)]);
    let mut parts = sums.each_mut().map(|sum| Some(&mut sum[..]));
    for (which, part) in parts.iter_mut().enumerate() {
        if !case.has(which) {
            *part = None;
        }
    }
    let [content, position, bias, query, key, value, segment_query, segment_vectors] = parts;
    let [q, k, v] = offsets.map(|offset| Place { buffer: 0, offset, token, sequence });
    let gradients = attention::Gradients {
        buffers: &mut [&mut given],
        accumulate: false,
        q,
        k,
        v,
        terms: TermGradients {
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            ..TermGradients::default()
        },
    };
    assert!(attention.backward((&dout, &out, &lse), gradients, &mut workspace));
    Given { out, lse, joined: given, terms: sums }
}

fn scale(case: &Case) -> f32 {
    1.0 / (case.head_dim as f32).sqrt()
}

/// A GPU that stores tokens' numbers in one way.
struct Storing {
    gpu: &'static Gpu,
    arithmetic: Arithmetic,
}

impl Storing {
    /// The first GPU, storing f32 and bf16; none where there is none.
    fn all() -> Vec<Storing> {
        let of = |gpu| STORAGES.map(|arithmetic| Storing { gpu, arithmetic });
        gpu().into_iter().flat_map(of).collect()
    }

    fn kernels(&self, work: &Attention) -> &Kernels {
        self.gpu.kernels().attention(work.has_terms()).unwrap()
    }

    fn is_bf16(&self) -> bool {
        self.arithmetic == Arithmetic::Bf16
    }

    fn put<N: Plain>(&self, list: &[N]) -> Block {
        self.gpu.put(list)
    }

    /// Tokens' numbers.
    fn store(&self, list: &[f32]) -> Block {
        self.gpu.store(self.arithmetic, list)
    }

    fn fetch(&self, block: &Block, len: usize) -> Vec<f64> {
        self.gpu.fetch(self.arithmetic, block, len).into_iter().map(f64::from).collect()
    }

    fn run(&self, case: &Case, numbers: &Numbers) -> Given {
        let Case { batch, length, heads, key_heads, head_dim, .. } = *case;
        let tokens = batch * length;
        let nothing = |len: usize| self.store(&vec![f32::NAN; len]);
        let (joined, dout) = (self.store(&numbers.joined), self.store(&numbers.dout));
        let (out, given) = (nothing(numbers.dout.len()), nothing(numbers.joined.len()));
        let lse = self.put(&vec![f32::NAN; tokens * heads]);
        let (mask, scalars) =
            (self.put(&words(&case.mask(), length)), self.put(&[SEED, STEP, case.is_training.into(), 0]));
        let terms = numbers.terms.each_ref().map(|term| self.put(&term[..]));
        // Gradients of terms are added to.
        let sums = numbers.terms.each_ref().map(|term| self.put(&vec![1f32; term.len()]));
        let index = [2, 3, 4, 5].map(|which| self.put(&case.rows(which).1));
        let segments = self.put(&case.segments());
        let rows = |which: usize| {
            case.has(which).then(|| Rows {
                values: terms[which].span(),
                rows: case.rows(which).0,
                heads: if which == 2 { heads } else { case.table_heads() },
                index: index[which - 2].span(),
            })
        };
        let one = |list: &[Block; 8], which: usize| {
            if case.has(which) { list[which].span() } else { Span::NOTHING }
        };
        let work = Attention {
            arithmetic: self.arithmetic,
            batch,
            length,
            heads,
            key_heads,
            head_dim,
            is_causal: case.is_causal,
            window: case.window,
            scale: scale(case),
            joined: joined.span(),
            out: out.span(),
            lse: lse.span(),
            mask: mask.span(),
            scalars: scalars.span(),
            dropout: case.dropout,
            site: SITE,
            content: one(&terms, 0),
            position: one(&terms, 1),
            bias: rows(2),
            query: rows(3),
            key: rows(4),
            value: rows(5),
            segments: case.has(6).then(|| Segments {
                ids: segments.span(),
                query: terms[6].span(),
                vectors: terms[7].span(),
            }),
        };
        let scratch = self.put(&vec![f32::NAN; scratch(&work) / 4]);
        let gradients = Gradients {
            out: dout.span(),
            joined: given.span(),
            content: one(&sums, 0),
            position: one(&sums, 1),
            bias: one(&sums, 2),
            query: one(&sums, 3),
            key: one(&sums, 4),
            value: one(&sums, 5),
            segment_query: one(&sums, 6),
            segment_vectors: one(&sums, 7),
            scratch: scratch.span(),
        };
        let launcher = &self.gpu.launcher();
        // SAFETY: indices below the number of rows.
        unsafe {
            forward(self.kernels(&work), launcher, &work).unwrap();
            backward(self.kernels(&work), launcher, &work, &gradients).unwrap();
        }
        let added = |which: usize| {
            let list = self.gpu.get::<f32>(&sums[which], case.count(which)).into_iter();
            list.map(|x| f64::from(x) - 1.0).collect()
        };
        Given {
            out: self.fetch(&out, numbers.dout.len()),
            lse: self.gpu.get::<f32>(&lse, tokens * heads).into_iter().map(f64::from).collect(),
            joined: self.fetch(&given, numbers.joined.len()),
            terms: ALL.map(added),
        }
    }

    fn check(&self, case: Case) {
        let numbers = Numbers::new(&case, self.arithmetic);
        let (got, expected) = (self.run(&case, &numbers), on_processor(&case, &numbers));
        // f32: sums of up to some hundred numbers. bf16: what is stored is rounded once, and the sums of result times
        // gradient, which the gradient of every score contains, come from rounded results.
        let (bound, gradients) = if self.is_bf16() { (1.0 / 200.0, 1.0 / 40.0) } else { (1e-5, 2e-5) };
        // Terms sum those of all sequences, and most of what is summed cancels.
        let sums = if self.is_bf16() { 1.0 / 20.0 } else { gradients };
        close(&format!("out of {case:?}"), &got.out, &expected.out, bound);
        close(&format!("lse of {case:?}"), &got.lse, &expected.lse, 1e-5);
        close(&format!("joined of {case:?}"), &got.joined, &expected.joined, gradients);
        for (which, (got, expected)) in got.terms.iter().zip(&expected.terms).enumerate() {
            close(&format!("{} of {case:?}", NAMES[which]), got, expected, sums);
        }
    }
}

/// Within a bound of the largest number, or of 1.
fn close(what: &str, got: &[f64], expected: &[f64], bound: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let finite = expected.iter().filter(|x| x.is_finite());
    let largest = finite.fold(1f64, |largest, x| largest.max(x.abs()));
    for (index, (&a, &b)) in got.iter().zip(expected).enumerate() {
        let is_close = a == b || (a - b).abs() <= bound * largest;
        assert!(is_close, "{what} at {index} of {}: {a} but {b}, largest {largest}", got.len());
    }
}

const CASE: Case = Case {
    batch: 3,
    length: 40,
    heads: 2,
    key_heads: 1,
    head_dim: 32,
    is_causal: false,
    window: None,
    terms: 0,
    is_shared: false,
    dropout: 0.0,
    is_training: true,
    hidden: Hidden::Ends,
};

#[test]
fn lengths_and_heads() {
    for gpu in Storing::all() {
        for length in [1, 3, 20, 33, 40, 64, 65, 130, 257] {
            for (terms, is_causal) in [(0, false), (0, true), (127, false), (127, true)] {
                gpu.check(Case { length, terms, is_causal, ..CASE });
                for window in [Some(2), Some(7), Some(40), Some(100)] {
                    gpu.check(Case { length, terms, is_causal, window, ..CASE });
                }
                gpu.check(Case { length, terms, is_causal, hidden: Hidden::Holes, dropout: 0.2, ..CASE });
            }
        }
        for head_dim in [1, 4, 7, 8, 16, 32, 48, 64, 100, 128] {
            for (terms, length) in [(0, 20), (0, 50), (0, 100), (127, 20), (127, 50), (127, 100)] {
                let (heads, key_heads, is_shared) = (6, 2, head_dim % 8 == 0);
                gpu.check(Case { head_dim, terms, length, heads, key_heads, is_shared, ..CASE });
                gpu.check(Case { head_dim, terms, length, dropout: 0.4, hidden: Hidden::Nothing, ..CASE });
            }
        }
    }
}

#[test]
fn each_term_by_itself() {
    for gpu in Storing::all() {
        for which in 0..7 {
            for length in [5, 40, 64, 90] {
                for (is_shared, is_causal) in [(false, false), (true, true)] {
                    let case = Case { length, is_shared, is_causal, terms: 1 << which, ..CASE };
                    gpu.check(case);
                    // v is nothing without R.
                    gpu.check(Case { terms: 1 << which | 1 << 3, dropout: 0.1, ..case });
                }
            }
        }
    }
}

#[test]
fn only_training_drops() {
    for gpu in Storing::all() {
        for length in [40, 70] {
            gpu.check(Case { length, dropout: 0.5, is_training: false, ..CASE });
        }
    }
}

#[test]
fn heads_that_are_too_wide_are_refused() {
    for gpu in Storing::all() {
        let work = Attention { head_dim: 129, ..plain_attention(gpu.arithmetic) };
        let launcher = &gpu.gpu.launcher();
        // SAFETY: no tables.
        let results = unsafe {
            let forward = forward(gpu.kernels(&work), launcher, &work);
            [forward, backward(gpu.kernels(&work), launcher, &work, &Gradients::default())]
        };
        for result in results {
            let error = result.err().unwrap();
            assert!(error.to_string().contains("heads of 129 features"), "{error}");
        }
    }
}
