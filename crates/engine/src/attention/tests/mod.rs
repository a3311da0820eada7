//! Attention for training against the formula written out: values, gradients, tiles, threads, memory.

mod naive;

use super::softmax::{Heads, Shape, attend};
use super::*;
use crate::ops::Real;
use naive::{BIAS, Case, NAMES, Rows};

/// Numbers from −1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A case with the terms of these bits: u, v, b, R, R′, V, E, B, g, C, and maps of tokens. Tables are shared by the heads where `shared`.
fn case(shape: Shape, terms: u32, shared: bool, rows: [Rows; 4]) -> Case {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = shape;
    let tables = if shared { 1 } else { heads };
    let table_heads = [heads, tables, tables, tables];
    let table = |which: usize| rows[which].count(&shape) * table_heads[which] * head_dim;
    let sizes = [
        batch * queries * heads * head_dim,
        batch * keys * key_heads * head_dim,
        batch * keys * key_heads * head_dim,
        heads * head_dim,
        heads * head_dim,
        rows[0].count(&shape) * heads,
        table(1),
        table(2),
        table(3),
        heads * head_dim,
        2 * heads * head_dim,
        heads * keys * keys,
        batch * keys * heads,
        // Few rows, so that some keys are beyond the last.
        4 * head_dim,
        batch * keys * key_heads * head_dim,
        batch * keys * key_heads,
    ];
    let mut values = [0; 16].map(|_| None);
    for (which, (values, size)) in values.iter_mut().zip(sizes).enumerate() {
        // z comes with E, and both where every query has a segment.
        let bit = if which > 9 { (which - 4).min(10) } else { which.saturating_sub(3) };
        if which < 3 || terms >> bit & 1 == 1 && (bit < 6 || queries <= keys) {
            *values = Some(numbers(size, which as u64 + 7));
        }
    }
    // Maps that lengthen nothing.
    for w in values[14].iter_mut().flat_map(|w| w.chunks_exact_mut(head_dim)) {
        let length = w.iter().map(|x| x * x).sum::<f64>().sqrt();
        w.iter_mut().for_each(|x| *x /= length);
    }
    let prefixes = (0..batch).map(|b| 2 + 3 * b).collect();
    let segments = (0..batch * keys).map(|token| (token * token / 3 % 4) as u32).collect();
    Case {
        shape,
        values,
        segments,
        rows,
        table_heads,
        hidden: None,
        prefixes,
        reach: 0,
        window: None,
        chunk: None,
        starts: (0..batch).map(|b| 2 * b).collect(),
        dropout: None,
        cap: None,
    }
}

const ROWS: [Rows; 4] = [Rows::Wrapped(5), Rows::All, Rows::Reversed, Rows::Clipped(3)];

fn shape([batch, queries, keys, heads, key_heads, head_dim]: [usize; 6]) -> Shape {
    Shape { batch, queries, keys, heads, key_heads, head_dim }
}

fn dropout() -> Option<Dropout> {
    Some(Dropout { probability: 0.3, seed: 5, step: 2, site: 9 })
}

/// Keys with holes, and all hidden from the first sequence where there are several.
fn hidden(shape: &Shape) -> Option<Vec<bool>> {
    let Shape { batch, keys, .. } = *shape;
    let there = |i: usize| (batch == 1 || i >= keys) && i % 3 != 1 && i % keys > 2 && i % keys + 2 < keys;
    Some((0..batch * keys).map(there).collect())
}

/// Results and the gradients of all values, by the blocked attention. Gradients are added to what is there: k and v lie side
/// by side in one buffer, q in another, or in the same where there are as many queries as keys.
fn run<T: Real>(case: &Case, dout: &[f64]) -> (Vec<f64>, [Vec<f64>; 16]) {
    let Shape { batch, queries, keys, heads, key_heads, head_dim } = case.shape;
    let is_fused = queries == keys;
    let cast = |list: &[f64]| list.iter().map(|&x| T::of(x)).collect::<Vec<T>>();
    let wide = |list: &[T]| list.iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
    let values = case.values.clone().map(|values| values.map(|values| cast(&values)));
    let (query_width, key_width) = (heads * head_dim, key_heads * head_dim);
    let query_token = if is_fused { query_width + 2 * key_width } else { query_width + 1 };
    let key_token = if is_fused { query_token } else { 2 * key_width };
    let place =
        |buffer, offset, token, tokens: usize| Place { buffer, offset, token, sequence: tokens * token };
    let (last, first) = if is_fused { (0, query_width) } else { (1, 0) };
    let places = [
        place(0, 0, query_token, queries),
        place(last, first, key_token, keys),
        place(last, first + key_width, key_token, keys),
    ];
    let widths = [query_width, key_width, key_width];
    let tokens = [queries, keys, keys];
    let mut buffers = vec![vec![T::of(9.0); batch * queries * query_token]];
    if !is_fused {
        buffers.push(vec![T::of(9.0); batch * keys * key_token]);
    }
    // Which number of a buffer belongs to which of an input.
    let at = |which: usize, n: usize| {
        let (token, column) = (n / widths[which], n % widths[which]);
        let place = places[which];
        let (sequence, token) = (token / tokens[which], token % tokens[which]);
        place.offset + sequence * place.sequence + token * place.token + column
    };
    for which in 0..3 {
        for (n, &x) in values[which].as_ref().unwrap().iter().enumerate() {
            buffers[places[which].buffer][at(which, n)] = x;
        }
    }
    let index = case.rows.map(|rows| {
        let distances = 1 - queries as i64..keys as i64;
        distances.map(|r| rows.row(&case.shape, r) as u32).collect::<Vec<u32>>()
    });
    let table = |which: usize| {
        let values = values[which].as_deref()?;
        Some(Table { values, heads: case.table_heads[which - BIAS], index: &index[which - BIAS] })
    };
    let input = |which: usize| {
        let Place { buffer, offset, token, sequence } = places[which];
        Heads { data: &buffers[buffer][offset..], token, sequence }
    };
    let attention = Attention {
        shape: case.shape,
        q: input(0),
        k: input(1),
        v: input(2),
        mask: case.mask(),
        terms: Terms {
            scale: None,
            cap: case.cap,
            content: values[3].as_deref(),
            position: values[4].as_deref(),
            bias: values[BIAS].as_deref().map(|values| Bias { values, index: &index[0] }),
            query: table(6),
            key: table(7),
            value: table(8),
            segments: values[9].as_deref().zip(values[10].as_deref()).map(|(query, vectors)| Segments {
                query,
                vectors,
                ids: &case.segments,
            }),
            pairs: values[11].as_deref().map(|values| Pairs { values, places: keys }),
            gate: values[12].as_deref().map(|data| Heads { data, token: heads, sequence: keys * heads }),
            counted: values[13].as_deref(),
            path: values[14].as_deref().zip(values[15].as_deref()).map(|(w, z)| {
                let part = |data, width: usize| Heads { data, token: width, sequence: keys * width };
                Path { w: part(w, key_width), z: part(z, key_heads) }
            }),
        },
        dropout: case.dropout,
    };
    let mut workspace = Workspace::new().unwrap();
    let mut out = vec![T::of(9.0); batch * queries * query_width];
    let mut lse = vec![T::of(9.0); batch * queries * heads];
    assert!(attention.forward(&mut out, &mut lse, &mut workspace));
    let before = T::of(0.5);
    let dout = cast(dout);
    let mut backward = |before: T, accumulate: bool| {
        let mut given: Vec<Vec<T>> = buffers.iter().map(|buffer| vec![before; buffer.len()]).collect();
        let mut terms = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
            .map(|which| values[which].as_ref().map(|x| vec![before; x.len()]));
        let [
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            pairs,
            gate,
            counted,
            w,
            z,
        ] = terms.each_mut().map(Option::as_deref_mut);
        let mut buffers: Vec<&mut [T]> = given.iter_mut().map(Vec::as_mut_slice).collect();
        let [q, k, v] = places;
        let terms_given = TermGradients {
            content,
            position,
            bias,
            query,
            key,
            value,
            segment_query,
            segment_vectors,
            pairs,
            gate,
            counted,
            path: w.zip(z).map(|(w, z)| PathGradients { w, z }),
        };
        let gradients = Gradients { buffers: &mut buffers, accumulate, q, k, v, terms: terms_given };
        assert!(attention.backward((&dout, &out, &lse), gradients, &mut workspace));
        (given, terms)
    };
    // Set, they are what they are when added to nothing, whatever was there.
    let ([added, set], (given, terms)) =
        ([backward(T::ZERO, true).0, backward(before, false).0], backward(before, true));
    for which in 0..3 {
        for n in 0..values[which].as_ref().unwrap().len() {
            let (buffer, at) = (places[which].buffer, at(which, n));
            assert!(added[buffer][at] == set[buffer][at]);
        }
    }
    let mut found = [0; 16].map(|_| Vec::new());
    for (which, found) in found.iter_mut().enumerate() {
        let list: Vec<T> = match which {
            0..3 => {
                let count = values[which].as_ref().unwrap().len();
                (0..count).map(|n| given[places[which].buffer][at(which, n)]).collect()
            }
            _ => terms[which - 3].clone().unwrap_or_default(),
        };
        *found = wide(&list).iter().map(|x| x - 0.5).collect();
    }
    if !is_fused {
        // The gap after each query belongs to nobody.
        assert!(given[0].iter().skip(query_width).step_by(query_token).all(|&x| x == before));
    }
    (wide(&out), found)
}

fn gradient_of_results(case: &Case) -> Vec<f64> {
    numbers(case.shape.batch * case.shape.queries * case.shape.heads * case.shape.head_dim, 99)
}

/// The largest difference relative to the largest number, or to 1 if that is smaller.
fn difference(got: &[f64], exact: &[f64]) -> f64 {
    assert_eq!(got.len(), exact.len());
    let largest = exact.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
    got.iter().zip(exact).fold(0.0, |worst: f64, (x, y)| match (x - y).abs() {
        difference if difference.is_nan() => f64::INFINITY,
        difference => worst.max(difference / largest),
    })
}

fn check<T: Real>(case: &Case, bound: f64) {
    let dout = gradient_of_results(case);
    let (out, gradients) = run::<T>(case, &dout);
    let (exact, exact_gradients) = case.run(Some(&dout));
    let about = || {
        (
            case.shape,
            case.rows,
            case.reach,
            case.window,
            case.chunk,
            case.cap,
            case.values.each_ref().map(Option::is_some),
        )
    };
    let worst = difference(&out, &exact);
    assert!(worst <= bound, "out: {worst} {:?}", about());
    for (name, (got, exact)) in NAMES.iter().zip(gradients.iter().zip(&exact_gradients)) {
        let worst = difference(got, exact);
        assert!(worst <= bound, "{name}: {worst} {:?}", about());
    }
}

/// Every term alone, none, and all.
const TERMS: [u32; 18] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 513, 1024, 1025, 10, 63, COUNTED, PATH];
/// All that there are with what is counted, and with maps of tokens: no query counts on the way over a path.
const COUNTED: u32 = 1023;
const PATH: u32 = 1535;

#[test]
fn every_term_under_every_mask_is_the_formula() {
    for sizes in [[2, 5, 5, 4, 2, 3], [1, 3, 7, 2, 2, 4], [2, 7, 4, 2, 1, 2], [1, 1, 1, 1, 1, 1]] {
        let shape = shape(sizes);
        for terms in TERMS {
            for (reach, is_hidden, drops) in (0..12).map(|n| (n % 3, n / 3 % 2 == 1, n / 6 == 1)) {
                let mut case = case(shape, terms, terms == 8 || is_hidden, ROWS);
                case.reach = reach;
                case.hidden = if is_hidden { hidden(&shape) } else { None };
                case.dropout = if drops { dropout() } else { None };
                for cap in [None, Some(0.4)] {
                    (case.cap, case.chunk) = (cap, None);
                    for window in [None, Some(1), Some(2), Some(4)] {
                        case.window = window;
                        check::<f64>(&case, 1e-12);
                        check::<f32>(&case, 2e-5);
                    }
                    for chunk in [1, 2, 4] {
                        case.chunk = Some(chunk);
                        check::<f64>(&case, 1e-12);
                    }
                }
            }
        }
    }
}

#[test]
fn sizes_around_those_of_tiles_are_the_formula() {
    let sizes = [1, 2, 63, 64, 65, 127, 128, 129, 130, 200];
    for (n, queries) in sizes.into_iter().enumerate() {
        for keys in [queries, sizes[(n * 7 + 3) % sizes.len()]] {
            let shape = shape([1, queries, keys, 2, 1, 3]);
            for (reach, rows) in [
                (1, ROWS),
                (0, [Rows::All, Rows::Clipped(20), Rows::Clipped(7), Rows::All]),
                (2, [Rows::Clipped(70), Rows::Wrapped(3), Rows::Wrapped(70), Rows::Reversed]),
            ] {
                for terms in [COUNTED, PATH] {
                    let mut case = case(shape, terms, reach == 2, rows);
                    case.reach = reach;
                    case.hidden = if reach == 0 { hidden(&shape) } else { None };
                    case.dropout = if reach == 1 { None } else { dropout() };
                    for window in [None, Some(5), Some(90)] {
                        case.window = window;
                        check::<f64>(&case, 1e-12);
                    }
                    case.window = None;
                    for (chunk, cap) in [(5, None), (64, Some(1.3)), (90, None)] {
                        (case.chunk, case.cap) = (Some(chunk), cap);
                        check::<f64>(&case, 1e-12);
                    }
                }
            }
        }
    }
    for terms in [COUNTED, PATH] {
        let mut large = case(shape([2, 130, 300, 4, 2, 8]), terms, false, ROWS);
        large.reach = 1;
        for cap in [None, Some(0.7)] {
            large.cap = cap;
            check::<f64>(&large, 1e-12);
            check::<f32>(&large, 2e-5);
        }
    }
    check::<f64>(&case(shape([2, 130, 130, 4, 2, 16]), 0, false, ROWS), 1e-12);
}

#[test]
fn gradients_are_those_of_finite_differences() {
    for (sizes, shared) in [([2, 4, 4, 2, 1, 3], false), ([1, 3, 6, 2, 2, 2], true)] {
        let shape = shape(sizes);
        for (terms, cap) in TERMS.into_iter().flat_map(|terms| [(terms, None), (terms, Some(0.6))]) {
            let mut case = case(shape, terms, shared, ROWS);
            case.cap = cap;
            case.reach = usize::from(shared);
            case.dropout = if terms >= 63 { dropout() } else { None };
            let dout = gradient_of_results(&case);
            let (_, gradients) = run::<f64>(&case, &dout);
            for (which, gradient) in gradients.iter().enumerate() {
                for (n, got) in gradient.iter().enumerate() {
                    let mut loss = |step: f64| -> f64 {
                        let value = &mut case.values[which].as_mut().unwrap()[n];
                        let before = *value;
                        *value += step;
                        let (out, _) = case.run(None);
                        case.values[which].as_mut().unwrap()[n] = before;
                        out.iter().zip(&dout).map(|(x, y)| x * y).sum()
                    };
                    let step = 1e-5;
                    let wanted = (loss(step) - loss(-step)) / (2.0 * step);
                    assert!((got - wanted).abs() < 1e-8, "{}[{n}]: {got} {wanted}", NAMES[which]);
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_bits() {
    for terms in [COUNTED, PATH] {
        let mut case = case(shape([3, 130, 130, 4, 2, 8]), terms, true, ROWS);
        case.reach = 1;
        case.dropout = dropout();
        let dout = gradient_of_results(&case);
        let of = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| run::<f32>(&case, &dout))
        };
        let one = of(1);
        assert!(one == of(2) && one == of(3));
    }
}

#[test]
fn without_terms_it_is_what_inference_computes() {
    let shape = shape([2, 70, 200, 4, 2, 16]);
    let mut case = case(shape, 0, false, ROWS);
    case.reach = 1;
    case.hidden = hidden(&shape);
    let (out, _) = run::<f32>(&case, &gradient_of_results(&case));
    let cast = |which: usize| -> Vec<f32> {
        case.values[which].as_ref().unwrap().iter().map(|&x| x as f32).collect()
    };
    let (q, k, v) = (cast(0), cast(1), cast(2));
    let heads =
        |data, heads: usize, tokens: usize| Heads { data, token: heads * 16, sequence: tokens * heads * 16 };
    let mut inference = vec![0.0; q.len()];
    let all = (heads(&q[..], 4, 70), heads(&k[..], 2, 200), heads(&v[..], 2, 200));
    assert!(attend(&shape, all, &case.mask(), None, &mut inference, &softmax::Workspace::new().unwrap()));
    let inference: Vec<f64> = inference.into_iter().map(f64::from).collect();
    assert!(difference(&out, &inference) < 1e-6);
}

#[test]
fn memory_grows_with_the_length_and_not_its_square() {
    let bytes = |length: usize| {
        let shape = shape([1, length, length, 1, 1, 4]);
        let numbers = vec![0.5f32; length * 4 * 2];
        let index: Vec<u32> = (0..2 * length as u32 - 1).collect();
        let input = Heads { data: &numbers[..], token: 4, sequence: length * 4 };
        let table = Some(Table { values: &numbers, heads: 1, index: &index });
        let terms = Terms { query: table, key: table, value: table, ..Terms::default() };
        let mask = softmax::Mask::default();
        let attention = Attention { shape, q: input, k: input, v: input, mask, terms, dropout: None };
        let (mut out, mut lse) = (vec![0.0; length * 4], vec![0.0; length]);
        let mut workspace = Workspace::new().unwrap();
        let mut table_gradients = [0; 3].map(|_| numbers.clone());
        let mut all = vec![0.0f32; length * 12];
        let mut held = [0; 2];
        // Twice: the second time takes no more.
        for held in &mut held {
            assert!(attention.forward(&mut out, &mut lse, &mut workspace));
            let [query, key, value] = table_gradients.each_mut().map(|x| Some(&mut x[..]));
            let terms = TermGradients { query, key, value, ..TermGradients::default() };
            let place =
                |which: usize| Place { buffer: 0, offset: which * 4, token: 12, sequence: length * 12 };
            let (q, k, v) = (place(0), place(1), place(2));
            let gradients = Gradients { buffers: &mut [&mut all], accumulate: false, q, k, v, terms };
            assert!(attention.backward((&out.clone(), &out, &lse), gradients, &mut workspace));
            *held = workspace.bytes();
        }
        assert_eq!(held[0], held[1]);
        held[0]
    };
    let [short, long] = [1024, 2048].map(bytes);
    // Three tables with two rows a token, and for each thread keys and values: vectors of four numbers of four bytes.
    assert_eq!(long - short, 1024 * (6 + 2 * rayon::current_num_threads()) * 4 * 4);
    assert!(long < 2048 * 2048 * 4);
}

#[test]
fn without_keys_there_are_zeros() {
    let shape = shape([2, 3, 0, 2, 1, 2]);
    let q = vec![1.0f64; 24];
    let none = Heads { data: &[][..], token: 2, sequence: 0 };
    let attention = Attention {
        shape,
        q: Heads { data: &q, token: 4, sequence: 12 },
        k: none,
        v: none,
        mask: softmax::Mask::default(),
        terms: Terms::default(),
        dropout: dropout(),
    };
    let mut workspace = Workspace::new().unwrap();
    let (mut out, mut lse) = (vec![9.0; 24], vec![9.0; 12]);
    assert!(attention.forward(&mut out, &mut lse, &mut workspace));
    assert!(out == [0.0; 24] && lse == [f64::NEG_INFINITY; 12]);
    let mut dq = vec![0.5; 24];
    let place = |buffer| Place { buffer, offset: 0, token: 4, sequence: 12 };
    let terms = TermGradients::default();
    let buffers: &mut [&mut [f64]] = &mut [&mut dq, &mut []];
    let gradients = Gradients { buffers, accumulate: true, q: place(0), k: place(1), v: place(1), terms };
    assert!(attention.backward((&q, &out, &lse), gradients, &mut workspace));
    assert_eq!(dq, [0.5; 24]);
}
