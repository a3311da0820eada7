//! The attention of the formula, all against all, in `f64`.

use super::super::dropout::{Dropout, Keep};
use super::super::softmax::{Chunks, Mask, Reach, Shape};

/// From distances to rows of a table.
#[derive(Clone, Copy, Debug)]
pub enum Rows {
    /// A row for each distance.
    All,
    /// As `All`, from the last distance on: d(j, i).
    Reversed,
    /// Distances of at most this; further ones share the last rows.
    Clipped(i64),
    /// Over and over the same rows.
    Wrapped(i64),
}

impl Rows {
    pub fn count(self, shape: &Shape) -> usize {
        match self {
            Rows::All | Rows::Reversed => shape.queries + shape.keys - 1,
            Rows::Clipped(most) => 2 * most as usize + 1,
            Rows::Wrapped(count) => count as usize,
        }
    }

    /// The row for a distance.
    pub fn row(self, shape: &Shape, distance: i64) -> usize {
        (match self {
            Rows::All => distance + shape.queries as i64 - 1,
            Rows::Reversed => shape.keys as i64 - 1 - distance,
            Rows::Clipped(most) => distance.clamp(-most, most) + most,
            Rows::Wrapped(count) => distance.rem_euclid(count),
        }) as usize
    }
}

pub const NAMES: [&str; 16] =
    ["q", "k", "v", "u", "v_h", "b", "R", "R′", "V", "z", "E", "B", "g", "C", "w", "z of β"];
pub const BIAS: usize = 5;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[derive(Clone)]
pub struct Case {
    pub shape: Shape,
    /// q, k, v, u, v, b, R, R′, V, z, E, B, g, C, and w and z of the maps of tokens, each without gaps.
    pub values: [Option<Vec<f64>>; 16],
    /// c
    pub segments: Vec<u32>,
    /// How b, R, R′ and V find their rows, and how many heads they have.
    pub rows: [Rows; 4],
    pub table_heads: [usize; 4],
    pub hidden: Option<Vec<bool>>,
    pub prefixes: Vec<usize>,
    pub reach: usize,
    pub window: Option<usize>,
    pub chunk: Option<usize>,
    pub starts: Vec<usize>,
    pub dropout: Option<Dropout>,
    pub cap: Option<f64>,
}

impl Case {
    pub fn mask(&self) -> Mask<'_> {
        let reach = [Reach::All, Reach::Causal, Reach::Prefix(&self.prefixes)][self.reach];
        let chunks = self.chunk.map(|size| Chunks { size, starts: &self.starts });
        Mask { keys: self.hidden.as_deref(), reach, window: self.window, chunks, ..Mask::default() }
    }

    fn sees(&self, b: usize, i: usize, j: usize) -> bool {
        let Shape { queries, keys, .. } = self.shape;
        let past = j + queries <= i + keys;
        let is_near = self.window.is_none_or(|window| (j + queries).abs_diff(i + keys) < window);
        let piece = |token: i64, size: usize| (token - self.starts[b] as i64).div_euclid(size as i64).max(-1);
        let place = (i + keys).saturating_sub(queries) as i64;
        let is_together = self.chunk.is_none_or(|size| piece(j as i64, size) == piece(place, size));
        is_near
            && is_together
            && self.hidden.as_ref().is_none_or(|there| there[b * keys + j])
            && match self.reach {
                0 => true,
                1 => past,
                _ => past || j < self.prefixes[b],
            }
    }

    /// Where the number of b, or the vector of R, R′ or V (6 to 8), of a query and a key begins.
    fn vector(&self, which: usize, h: usize, i: usize, j: usize) -> usize {
        let Shape { queries, keys, head_dim, .. } = self.shape;
        let distance = i as i64 + keys as i64 - queries as i64 - j as i64;
        let heads = self.table_heads[which - BIAS];
        let row = self.rows[which - BIAS].row(&self.shape, distance);
        let head = if heads == 1 { 0 } else { h };
        if which == BIAS {
            head * self.rows[0].count(&self.shape) + row
        } else {
            (row * heads + head) * head_dim
        }
    }

    /// Where the vector of E of a query and a key begins.
    fn segment(&self, b: usize, h: usize, i: usize, j: usize) -> usize {
        let Shape { queries, keys, heads, head_dim, .. } = self.shape;
        let ids = &self.segments[b * keys..][..keys];
        // There is no term where there are more queries than keys.
        let own = (i + keys).checked_sub(queries).map_or(0, |place| ids[place]);
        (usize::from(own != ids[j]) * heads + h) * head_dim
    }

    /// Where the numbers of B for a query and a key, of g for the query and of g for the key are.
    fn places(&self, b: usize, h: usize, i: usize, j: usize) -> [usize; 3] {
        let Shape { queries, keys, heads, .. } = self.shape;
        // There are no such terms where there are more queries than keys.
        let Some(place) = (i + keys).checked_sub(queries) else { return [0; 3] };
        [(h * keys + place) * keys + j, (b * keys + place) * heads + h, (b * keys + j) * heads + h]
    }

    /// Results, and, given their gradient, that of every value.
    pub fn run(&self, dout: Option<&[f64]>) -> (Vec<f64>, [Vec<f64>; 16]) {
        let Shape { batch, queries, keys, heads, key_heads, head_dim: d } = self.shape;
        let scale = 1.0 / (d as f64).sqrt();
        let mut out = vec![0.0; batch * queries * heads * d];
        let mut gradients = [0; 16].map(|_| Vec::new());
        for (gradient, values) in gradients.iter_mut().zip(&self.values) {
            *gradient = vec![0.0; values.as_ref().map_or(0, Vec::len)];
        }
        let keep = self.dropout.as_ref().map(Keep::new);
        // An absent value is zeros.
        let get = |which: usize, at: usize| self.values[which].as_ref().map_or(0.0, |values| values[at]);
        for b in 0..batch {
            for h in 0..heads {
                for i in 0..queries {
                    let qi = ((b * queries + i) * heads + h) * d;
                    let kj = |j: usize| ((b * keys + j) * key_heads + h / (heads / key_heads)) * d;
                    let seen: Vec<usize> = (0..keys).filter(|&j| self.sees(b, i, j)).collect();
                    // The query as it meets each key: from its own place on through the maps of the tokens between.
                    let beta = |j: usize| 2.0 / (1.0 + (-get(15, kj(j) / d)).exp());
                    let has_map = |j: usize| self.values[14].is_some() && j + queries <= i + keys;
                    let w = |j: usize| (0..d).map(|c| get(14, kj(j) + c)).collect::<Vec<f64>>();
                    let mut state: Vec<f64> = (0..d).map(|c| get(0, qi + c) + get(3, h * d + c)).collect();
                    let mut met = vec![Vec::new(); keys];
                    for j in (0..keys).rev() {
                        met[j] = state.clone();
                        if has_map(j) {
                            let (w, factor) = (w(j), beta(j) * dot(&w(j), &state));
                            (0..d).for_each(|c| state[c] -= factor * w[c]);
                        }
                    }
                    let product = |j: usize| -> f64 { (0..d).map(|c| met[j][c] * get(1, kj(j) + c)).sum() };
                    // What the query counts from a key on, and the two rows of C that it is between.
                    let gate = |j: usize| 1.0 / (1.0 + (-scale * product(j)).exp());
                    let last = (self.values[13].as_ref().map_or(d, Vec::len) / d - 1) as f64;
                    let (mut places, mut sum) = (vec![0.0; keys], 0.0);
                    for &j in seen.iter().rev() {
                        sum += gate(j);
                        places[j] = sum.min(last);
                    }
                    let between =
                        |j: usize| (places[j].floor() as usize, places[j].ceil() as usize, places[j].fract());
                    let row = |row: usize| (0..d).map(|c| get(0, qi + c) * get(13, row * d + c)).sum::<f64>();
                    let counted = |j: usize| {
                        let (low, high, part) = between(j);
                        (1.0 - part) * row(low) + part * row(high)
                    };
                    let score = |j: usize| {
                        let (r, rk) = (self.vector(6, h, i, j), self.vector(7, h, i, j));
                        let e = self.segment(b, h, i, j);
                        let sum: f64 = (0..d)
                            .map(|c| {
                                let (q, k) = (get(0, qi + c), get(1, kj(j) + c));
                                met[j][c] * k
                                    + (q + get(4, h * d + c)) * get(6, r + c)
                                    + k * get(7, rk + c)
                                    + (q + get(9, h * d + c)) * get(10, e + c)
                            })
                            .sum();
                        let [pair, own, other] = self.places(b, h, i, j);
                        let gate = get(12, own) - get(12, other);
                        scale * sum
                            + get(BIAS, self.vector(BIAS, h, i, j))
                            + get(11, pair)
                            + gate
                            + counted(j)
                    };
                    let part = |j: usize| self.cap.map(|cap| (score(j) / cap).tanh());
                    let capped =
                        |j: usize| self.cap.zip(part(j)).map_or_else(|| score(j), |(c, part)| c * part);
                    let scores: Vec<f64> = seen.iter().map(|&j| capped(j)).collect();
                    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
                    let factor = |j: usize| {
                        let index = (((b * heads + h) * queries + i) * keys + j) as u64;
                        keep.map_or(1.0, |keep| if keep.keeps(index) { keep.scale } else { 0.0 })
                    };
                    let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp() / total).collect();
                    for (&j, p) in seen.iter().zip(&weights) {
                        for c in 0..d {
                            let value = get(2, kj(j) + c) + get(8, self.vector(8, h, i, j) + c);
                            out[qi + c] += p * factor(j) * value;
                        }
                    }
                    let Some(dout) = dout else { continue };
                    let dout = &dout[qi..qi + d];
                    let dp = |j: usize| {
                        let at = self.vector(8, h, i, j);
                        let sum: f64 = (0..d).map(|c| dout[c] * (get(2, kj(j) + c) + get(8, at + c))).sum();
                        sum * factor(j)
                    };
                    let mean: f64 = seen.iter().zip(&weights).map(|(&j, p)| p * dp(j)).sum();
                    let mut add = |which: usize, at: usize, x: f64| {
                        if let Some(sum) = gradients[which].get_mut(at) {
                            *sum += x;
                        }
                    };
                    // The gradient of a gate is that of all places that it is a part of.
                    let (mut given, mut dproducts) = (0.0, vec![0.0; keys]);
                    let slope = |j: usize| part(j).map_or(1.0, |part| 1.0 - part * part);
                    for (&j, p) in seen.iter().zip(&weights) {
                        let (ds, (low, high, part)) = (p * (dp(j) - mean) * slope(j), between(j));
                        given += ds * (row(high) - row(low));
                        dproducts[j] = scale * (ds + given * gate(j) * (1.0 - gate(j)));
                        for c in 0..d {
                            let q = get(0, qi + c);
                            add(
                                0,
                                qi + c,
                                ds * ((1.0 - part) * get(13, low * d + c) + part * get(13, high * d + c)),
                            );
                            add(13, low * d + c, ds * (1.0 - part) * q);
                            add(13, high * d + c, ds * part * q);
                        }
                    }
                    // Through the maps, from the first key to the query's own place.
                    let mut dstate = vec![0.0; d];
                    for j in 0..keys {
                        if has_map(j) {
                            let (w, beta, met) = (w(j), beta(j), &met[j]);
                            let (back, forth) = (dot(&w, &dstate), dot(&w, met));
                            add(15, kj(j) / d, -back * forth * beta * (1.0 - beta / 2.0));
                            for c in 0..d {
                                add(14, kj(j) + c, -beta * (forth * dstate[c] + back * met[c]));
                                dstate[c] -= beta * back * w[c];
                            }
                        }
                        for c in 0..d {
                            add(1, kj(j) + c, dproducts[j] * met[j][c]);
                            dstate[c] += dproducts[j] * get(1, kj(j) + c);
                        }
                    }
                    for (c, x) in dstate.iter().enumerate() {
                        add(0, qi + c, *x);
                        add(3, h * d + c, *x);
                    }
                    for (&j, p) in seen.iter().zip(&weights) {
                        let ds = p * (dp(j) - mean) * slope(j);
                        add(BIAS, self.vector(BIAS, h, i, j), ds);
                        let [pair, own, other] = self.places(b, h, i, j);
                        add(11, pair, ds);
                        add(12, own, ds);
                        add(12, other, -ds);
                        let (r, rk, rv) =
                            (self.vector(6, h, i, j), self.vector(7, h, i, j), self.vector(8, h, i, j));
                        let e = self.segment(b, h, i, j);
                        for (c, dout) in dout.iter().enumerate() {
                            let (q, k) = (get(0, qi + c), get(1, kj(j) + c));
                            let (v, z) = (get(4, h * d + c), get(9, h * d + c));
                            add(0, qi + c, scale * ds * (get(6, r + c) + get(10, e + c)));
                            add(1, kj(j) + c, scale * ds * get(7, rk + c));
                            add(2, kj(j) + c, p * factor(j) * dout);
                            add(4, h * d + c, scale * ds * get(6, r + c));
                            add(6, r + c, scale * ds * (q + v));
                            add(7, rk + c, scale * ds * k);
                            add(8, rv + c, p * factor(j) * dout);
                            add(9, h * d + c, scale * ds * get(10, e + c));
                            add(10, e + c, scale * ds * (q + z));
                        }
                    }
                }
            }
        }
        (out, gradients)
    }
}
