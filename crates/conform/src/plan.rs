//! A plan: all that a rotation depends on, in a form that can be made wrong in one place and left right in the others.

use crate::case::{Meaning, Theta, per_token};
use crate::dtype::Dtype;
use crate::judge::{Angles, Level, Rounding};
use rope::Pairing;

/// How q and k are turned, rightly or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub(crate) head_dim: usize,
    /// The two features that each pair is read from, the two it is written to, and the row of positions it turns by.
    pub(crate) pairs: Vec<Pair>,
    /// A row for each axis.
    pub(crate) positions: Vec<Vec<f64>>,
    /// Queries and keys.
    pub(crate) sides: [Side; 2],
    pub(crate) turn: Turn,
    pub(crate) narrow: Narrow,
    /// Whether heads are taken for tokens.
    pub(crate) by_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub read: (usize, usize),
    pub write: (usize, usize),
    pub axis: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Side {
    /// The frequencies at each token, one for each pair.
    pub theta: Vec<Vec<Theta>>,
    /// What rotated features are multiplied by.
    pub factor: f64,
    /// What the others are.
    pub rest: f64,
    /// Whether anything is turned at all.
    pub turns: bool,
}

/// What is made of a pair (x, y), with c and s the cosine and sine of its angle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Turn {
    /// (x·c − y·s, y·c + x·s)
    Forward,
    /// (x·c + y·s, y·c − x·s)
    Backward,
    /// (x·s − y·c, y·s + x·c)
    Swapped,
    /// (x·c + y·s, y·c + x·s)
    Unsigned,
    /// Forward two times.
    Twice,
}

/// What is rounded on the way, and to what.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Narrow {
    pub position: Option<Format>,
    pub frequency: Option<Format>,
    pub angle: Option<Format>,
    pub table: Option<Format>,
}

/// A format that something is rounded to on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Format {
    Is(Dtype),
    /// 11 bits with the range of an `f32`: what a GPU's products of matrices read an `f32` as.
    Tf32,
}

impl Format {
    fn round(self, value: f64) -> f64 {
        match self {
            Format::Is(dtype) => dtype.round(value),
            Format::Tf32 => {
                let bits = (value as f32).to_bits();
                let half = 0xfff + ((bits >> 13) & 1);
                f64::from(f32::from_bits((bits.wrapping_add(half)) & !0x1fff))
            }
        }
    }
}

/// One feature of a turned vector.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Its value.
    pub value: f64,
    /// The length of the pair that it belongs to: what an error is measured by.
    pub scale: f64,
    /// The magnitude of the angle that it was turned by.
    pub angle: f64,
}

impl Plan {
    /// What the case's configuration means.
    pub fn right(meaning: &Meaning) -> Plan {
        let rope = &meaning.rope;
        let factor = rope.schedule().attention_factor();
        let side = |side: usize| Side {
            theta: per_token(rope, &meaning.lengths[side]).unwrap_or_default(),
            factor,
            rest: 1.0,
            turns: true,
        };
        let mut plan = Plan {
            head_dim: rope.head_dim(),
            pairs: Vec::new(),
            positions: meaning
                .case
                .positions
                .iter()
                .map(|row| row.iter().map(|&at| at as f64).collect())
                .collect(),
            sides: [side(0), side(1)],
            turn: Turn::Forward,
            narrow: Narrow::default(),
            by_head: false,
        };
        plan.place(rope.pairing(), rope.rotary_offset(), rope.pairs(), &rope.axis_of_pairs());
        plan
    }

    /// Lays the pairs out in a slice of the head.
    pub(crate) fn place(&mut self, pairing: Pairing, offset: usize, pairs: usize, axes: &[usize]) {
        let written = if pairing == Pairing::Interleaved { pairing } else { Pairing::Half };
        self.pairs = (0..pairs)
            .map(|pair| {
                let (a, b) = pairing.features(pair, pairs);
                let (c, d) = written.features(pair, pairs);
                let axis = axes.get(pair).copied().unwrap_or(0);
                Pair { read: (offset + a, offset + b), write: (offset + c, offset + d), axis }
            })
            .collect();
    }

    /// Gives each token of both sides these frequencies.
    pub(crate) fn set_theta(&mut self, theta: [Vec<Vec<Theta>>; 2]) {
        let [q, k] = theta;
        self.sides[0].theta = q;
        self.sides[1].theta = k;
    }

    /// Whether every pair has a frequency and a row of positions: of two mistakes one may take from the other what it needs.
    pub(crate) fn is_whole(&self) -> bool {
        let rows = self.sides.iter().flat_map(|side| &side.theta);
        rows.map(Vec::len).all(|length| length == self.pairs.len())
            && self.pairs.iter().all(|pair| pair.axis < self.positions.len())
    }

    /// Sines and cosines as the last call has them, a row for each token: without the attention factor.
    pub(crate) fn table(&self) -> (Vec<f64>, Vec<f64>) {
        let rows = self.sides[1].theta.iter().enumerate();
        let entries = rows.flat_map(|(token, row)| {
            let pairs = self.pairs.iter().zip(row);
            pairs.map(move |(pair, &theta)| self.narrow.sin_cos(self.positions[pair.axis][token], theta))
        });
        entries.unzip()
    }

    /// The queries (0) or keys (1), `[heads, tokens, features]`, turned in `f64` with angles that are as good.
    pub fn turn(&self, side: usize, input: &[f64]) -> Vec<Element> {
        let (tokens, dim) = (self.positions[0].len(), self.head_dim);
        let setting = &self.sides[side];
        let mut out = Vec::with_capacity(input.len());
        let mut table = vec![(0.0, 1.0, 0.0); self.pairs.len()];
        for (row, x) in input.chunks_exact(dim).enumerate() {
            let (head, token) = (row / tokens, row % tokens);
            let start = out.len();
            let rest = setting.rest;
            out.extend(x.iter().map(|&x| Element { value: rest * x, scale: (rest * x).abs(), angle: 0.0 }));
            if !setting.turns {
                continue;
            }
            let at = if self.by_head { head } else { token };
            for (j, (pair, entry)) in self.pairs.iter().zip(&mut table).enumerate() {
                let position = self.positions[pair.axis][at];
                let (sine, cosine) = self.narrow.sin_cos(position, setting.theta[token][j]);
                *entry = (sine, cosine, (position * setting.theta[token][j].0).abs());
            }
            for (pair, &(sine, cosine, angle)) in self.pairs.iter().zip(&table) {
                let (x0, x1) = (x[pair.read.0], x[pair.read.1]);
                let factor = setting.factor;
                let (y0, y1) = match self.turn {
                    Turn::Forward => (x0 * cosine - x1 * sine, x1 * cosine + x0 * sine),
                    Turn::Backward => (x0 * cosine + x1 * sine, x1 * cosine - x0 * sine),
                    Turn::Swapped => (x0 * sine - x1 * cosine, x1 * sine + x0 * cosine),
                    Turn::Unsigned => (x0 * cosine + x1 * sine, x1 * cosine + x0 * sine),
                    Turn::Twice => {
                        let (c, s) = (cosine * cosine - sine * sine, 2.0 * sine * cosine);
                        (factor * (x0 * c - x1 * s), factor * (x1 * c + x0 * s))
                    }
                };
                // Two turns have the errors of two.
                let length = if self.turn == Turn::Twice { 2.0 * factor * factor } else { factor };
                let scale = (length * x0.hypot(x1)).abs();
                out[start + pair.write.0] = Element { value: factor * y0, scale, angle };
                out[start + pair.write.1] = Element { value: factor * y1, scale, angle };
            }
        }
        out
    }
}

impl Narrow {
    /// The same, and what is left is as an implementation of this precision has it.
    pub(crate) fn or(self, level: Level, dtype: Dtype) -> Narrow {
        let angle = (level.angles == Angles::F32).then_some(Format::Is(Dtype::F32));
        let table = (level.rounding == Rounding::Each).then_some(Format::Is(dtype));
        Narrow {
            position: self.position.or(angle),
            frequency: self.frequency.or(angle),
            angle: self.angle.or(angle),
            table: self.table.or(table),
        }
    }

    /// Sine and cosine of position · frequency.
    fn sin_cos(self, position: f64, theta: Theta) -> (f64, f64) {
        let round = |format: Option<Format>, value: f64| format.map_or(value, |format| format.round(value));
        let (sine, cosine) = if self.position.is_some() || self.frequency.is_some() || self.angle.is_some() {
            let product = round(self.position, position) * round(self.frequency, theta.0);
            round(self.angle, product).sin_cos()
        } else {
            // The product is a rounded part and a rest, which is small: sin(a + r) = sin a · cos r + cos a · sin r.
            let rounded = position * theta.0;
            let rest = position.mul_add(theta.0, -rounded) + position * theta.1;
            let ((s, c), (s_rest, c_rest)) = (rounded.sin_cos(), rest.sin_cos());
            (s * c_rest + c * s_rest, c * c_rest - s * s_rest)
        };
        (round(self.table, sine), round(self.table, cosine))
    }
}
