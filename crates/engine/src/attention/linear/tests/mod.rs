//! Linear attention against its definition.

mod features;
mod gradients;
mod paper;

use super::*;
use crate::graph::mix;
use crate::ops::Real;
use crate::ops::dropout::GAMMA;

/// Numbers in [−1, 1) from a seed (splitmix64).
pub(super) fn numbers(seed: u64, len: usize) -> Vec<f64> {
    let first = seed.wrapping_mul(0xD134_2543_DE82_EF95);
    let state = |index: usize| first.wrapping_add((index as u64).wrapping_mul(GAMMA));
    (0..len).map(|index| (mix(state(index)) >> 11) as f64 / (1u64 << 52) as f64 - 1.0).collect()
}

/// Inputs of all five kinds; features of the denominator are positive.
#[derive(Clone)]
pub(super) struct Lists<T> {
    pub qn: Vec<T>,
    pub kn: Vec<T>,
    pub qd: Vec<T>,
    pub kd: Vec<T>,
    pub v: Vec<T>,
}

impl<T: Real> Lists<T> {
    pub fn new(shape: &Shape) -> Self {
        let tokens = shape.batch * shape.length * shape.heads;
        let list = |seed, width, least: f64| {
            numbers(seed, tokens * width)
                .iter()
                .map(|&x| T::of(if least > 0.0 { x.abs() + least } else { x }))
                .collect()
        };
        let (m, e) = (shape.features, shape.value_dim);
        Lists {
            qn: list(1, m, 0.0),
            kn: list(2, m, 0.0),
            qd: list(3, m, 0.1),
            kd: list(4, m, 0.1),
            v: list(5, e, 0.0),
        }
    }

    pub fn zeros(shape: &Shape) -> Self {
        let tokens = shape.batch * shape.length * shape.heads;
        let list = |width| vec![T::ZERO; tokens * width];
        let (m, e) = (shape.features, shape.value_dim);
        Lists { qn: list(m), kn: list(m), qd: list(m), kd: list(m), v: list(e) }
    }

    pub fn inputs(&self) -> Inputs<'_, T> {
        Inputs { qn: &self.qn, kn: &self.kn, qd: &self.qd, kd: &self.kd, v: &self.v }
    }

    pub fn gradients(&mut self) -> Gradients<'_, T> {
        Gradients { qn: &mut self.qn, kn: &mut self.kn, qd: &mut self.qd, kd: &mut self.kd, v: &mut self.v }
    }

    pub fn all(&self) -> [(&'static str, &[T]); 5] {
        [("qn", &self.qn), ("kn", &self.kn), ("qd", &self.qd), ("kd", &self.kd), ("v", &self.v)]
    }

    /// Token `token` of every sequence: `[batch, 1, heads, ..]`.
    fn token(&self, shape: &Shape, token: usize) -> Self {
        let pick = |x: &[T], width: usize| {
            let step = shape.heads * width;
            let row = |sequence| x[(sequence * shape.length + token) * step..][..step].to_vec();
            (0..shape.batch).flat_map(row).collect()
        };
        let (m, e) = (shape.features, shape.value_dim);
        Lists {
            qn: pick(&self.qn, m),
            kn: pick(&self.kn, m),
            qd: pick(&self.qd, m),
            kd: pick(&self.kd, m),
            v: pick(&self.v, e),
        }
    }
}

/// Lengths around chunks and stripes, odd sizes of heads.
pub(super) fn shapes() -> Vec<Shape> {
    [
        (1, 1, 1, 1, 1),
        (2, 2, 3, 4, 5),
        (2, 63, 2, 7, 3),
        (1, 64, 2, 16, 16),
        (1, 65, 1, 5, 9),
        (2, 200, 3, 17, 8),
        (1, 513, 2, 6, 7),
    ]
    .map(|(batch, length, heads, features, value_dim)| Shape { batch, length, heads, features, value_dim })
    .to_vec()
}

/// Padding here and there and at the end of a sequence; the first tokens of the last sequence are padding as well.
pub(super) fn padding(shape: &Shape) -> Vec<bool> {
    let there = |i: usize| {
        let (sequence, token) = (i / shape.length, i % shape.length);
        token % 5 != 3 && token * 10 < shape.length * 9 + 10 && (sequence == 0 || token > 2)
    };
    (0..shape.batch * shape.length).map(there).collect()
}

pub(super) fn options(mask: &[bool]) -> Vec<Options<'_>> {
    let mut all = Vec::new();
    for causal in [false, true] {
        for keys in [None, Some(mask)] {
            for eps in [0.0, 1e-2] {
                all.push(Options { causal, keys, eps });
            }
        }
    }
    all
}

pub(super) fn attended<T: Real>(shape: &Shape, lists: &Lists<T>, options: &Options) -> Vec<T> {
    let mut out = vec![T::of(7.0); lists.v.len()];
    assert!(attend(shape, &lists.inputs(), options, &mut out, &mut Workspace::new().unwrap()));
    out
}

pub(super) fn close<T: Real>(got: &[T], wanted: &[f64], bound: f64, what: &str) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let difference = (got.to_f64() - wanted).abs();
        assert!(difference <= bound * (1.0 + wanted.abs()), "{what}: {got:?}, not {wanted}, at {index}");
    }
}

#[test]
fn states_and_chunks_give_what_all_pairs_give() {
    for shape in shapes() {
        let (wide, narrow) = (Lists::<f64>::new(&shape), Lists::<f32>::new(&shape));
        let mask = padding(&shape);
        for options in options(&mask) {
            let what = format!("{shape:?} causal {} mask {}", options.causal, options.keys.is_some());
            let mut exact = vec![0.0; wide.v.len()];
            quadratic(&shape, &wide.inputs(), &options, None, &mut exact);
            close(&attended(&shape, &wide, &options), &exact, 1e-12, &what);
            close(&attended(&shape, &narrow, &options), &exact, 1e-5, &what);
        }
    }
}

#[test]
fn all_pairs_are_the_formula() {
    let shape = Shape { batch: 1, length: 2, heads: 1, features: 2, value_dim: 1 };
    let lists = Lists {
        qn: vec![1.0, 2.0, 3.0, -1.0],
        kn: vec![0.5, 1.0, -1.0, 2.0],
        qd: vec![1.0, 1.0, 2.0, 1.0],
        kd: vec![1.0, 3.0, 2.0, 2.0],
        v: vec![10.0, 20.0],
    };
    let options = Options { eps: 0.5, ..Options::default() };
    let mut out = [0.0; 2];
    quadratic(&shape, &lists.inputs(), &options, None, &mut out);
    // Query 0: scores 2.5 and 3, totals 4 and 4. Query 1: scores 0.5 and −5, totals 5 and 6.
    close(&out, &[(25.0 + 60.0) / 8.5, (5.0 - 100.0) / 11.5], 1e-15, "two tokens");
    // A bias of ln 2 from query 0 to key 1, and of ln 3 from query 1 to key 0.
    let bias = [0.0, 2f64.ln(), 3f64.ln(), 0.0];
    quadratic(&shape, &lists.inputs(), &options, Some(&bias), &mut out);
    close(&out, &[(25.0 + 120.0) / 12.5, (15.0 - 100.0) / 21.5], 1e-15, "two tokens with a bias");
    let causal = Options { causal: true, ..options };
    quadratic(&shape, &lists.inputs(), &causal, Some(&bias), &mut out);
    close(&out, &[25.0 / 4.5, (15.0 - 100.0) / 21.5], 1e-15, "two tokens, causal");
}

#[test]
fn what_lies_in_padding_is_never_read() {
    for causal in [false, true] {
        let shape = Shape { batch: 2, length: 70, heads: 2, features: 6, value_dim: 5 };
        let mask = padding(&shape);
        let options = Options { causal, keys: Some(&mask), eps: 1e-6 };
        let clean = Lists::<f64>::new(&shape);
        let mut spoilt = clean.clone();
        for token in (0..mask.len()).filter(|&token| !mask[token]) {
            spoilt.kn[token * 12..][..12].fill(f64::NAN);
            spoilt.kd[token * 12..][..12].fill(f64::NAN);
            spoilt.v[token * 10..][..10].fill(f64::NAN);
        }
        assert!(attended(&shape, &clean, &options) == attended(&shape, &spoilt, &options));
    }
    // No key to see: zeros, not 0/0.
    let shape = Shape { batch: 1, length: 3, heads: 1, features: 2, value_dim: 2 };
    let options = Options { keys: Some(&[false; 3]), eps: 0.0, causal: true };
    assert_eq!(attended(&shape, &Lists::<f64>::new(&shape), &options), [0.0; 6]);
}

#[test]
fn token_by_token_is_the_same() {
    for shape in shapes() {
        let lists = Lists::<f64>::new(&shape);
        let mask = padding(&shape);
        let Shape { batch, length, heads, value_dim, .. } = shape;
        for keys in [None, Some(&mask[..])] {
            let options = Options { causal: true, keys, eps: 1e-6 };
            let exact = attended(&shape, &lists, &options);
            let (mut steps, mut state) = (vec![0.0; exact.len()], State::new(&shape).unwrap());
            let step = heads * value_dim;
            for token in 0..length {
                let there: Vec<bool> = (0..batch).map(|sequence| mask[sequence * length + token]).collect();
                let options = Options { keys: keys.map(|_| &there[..]), ..options };
                let mut out = vec![7.0; batch * step];
                state.step(&lists.token(&shape, token).inputs(), &options, &mut out);
                for (sequence, out) in out.chunks_exact(step).enumerate() {
                    steps[(sequence * length + token) * step..][..step].copy_from_slice(out);
                }
            }
            close(&steps, &exact, 1e-12, &format!("{shape:?}"));
        }
    }
}

#[test]
fn a_state_goes_on_where_a_prompt_ended() {
    let shape = Shape { batch: 1, length: 150, heads: 2, features: 6, value_dim: 5 };
    let lists = Lists::<f64>::new(&shape);
    let options = Options { causal: true, ..Options::default() };
    let exact = attended(&shape, &lists, &options);
    let mut workspace = Workspace::new().unwrap();
    let mut state = State::new(&shape).unwrap();
    let mut out = vec![0.0; exact.len()];
    // One sequence: a range of tokens is a range of memory.
    for tokens in [0..70, 70..71, 71..140] {
        let (f, e) = (tokens.start * 12..tokens.end * 12, tokens.start * 10..tokens.end * 10);
        let inputs = Inputs {
            qn: &lists.qn[f.clone()],
            kn: &lists.kn[f.clone()],
            qd: &lists.qd[f.clone()],
            kd: &lists.kd[f],
            v: &lists.v[e.clone()],
        };
        assert!(state.extend(tokens.len(), &inputs, &options, &mut out[e], &mut workspace));
    }
    // A common factor on all keys so far cancels once later keys have it too.
    for head in 0..2 {
        state.rescale(0, head, 0.125);
    }
    for token in 140..150 {
        let mut next = lists.token(&shape, token);
        next.kn.iter_mut().chain(&mut next.kd).for_each(|x| *x *= 0.125);
        let options = Options { eps: options.eps * 0.125, ..options };
        state.step(&next.inputs(), &options, &mut out[token * 10..][..10]);
    }
    close(&out, &exact, 1e-12, "a prompt in pieces");
    state.reset();
    assert!(state.s().iter().chain(state.z()).all(|&x| x == 0.0));
}

#[test]
fn threads_change_no_bit_and_memory_is_used_again() {
    let shape = Shape { batch: 2, length: 300, heads: 3, features: 16, value_dim: 12 };
    let lists = Lists::<f32>::new(&shape);
    let mask = padding(&shape);
    for causal in [false, true] {
        let options = Options { causal, keys: Some(&mask), eps: 1e-6 };
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let mut workspace = Workspace::new().unwrap();
                let (mut out, mut gradients) = (vec![0.0; lists.v.len()], Lists::zeros(&shape));
                let mut places = Vec::new();
                for _ in 0..2 {
                    // The larger of the two first, as in a second step of training.
                    let dout = &lists.v;
                    let written = gradients.gradients();
                    assert!(attend_backward(
                        &shape,
                        &lists.inputs(),
                        &options,
                        dout,
                        written,
                        &mut workspace
                    ));
                    assert!(attend(&shape, &lists.inputs(), &options, &mut out, &mut workspace));
                    places.push(workspace.memory.as_ptr());
                }
                assert_eq!(places[0], places[1], "memory was allocated again");
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
                let mut all = gradients.all().map(|(_, x)| bits(x)).to_vec();
                all.push(bits(&out));
                all
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(3), "threads change bits");
    }
}
