//! The formulas of the encodings, for one query and one key at a time, without the library's encoding code.

use super::net::parameter;
use roformer::encoding::{
    Coupled, Deberta, DebertaTerms, Encoding, Gate, Kernel, Layers, Merge, Projections, Rotary, ShawTables,
};
use roformer::network::{Laid, Network};
use rope::{Pairing, Schedule};

/// A query and a key of one head, before anything was done to them, and where they stand.
pub struct Pair<'a> {
    pub q: &'a [f64],
    pub k: &'a [f64],
    pub head: usize,
    /// Places in the text.
    pub i: i64,
    pub j: i64,
    /// Positions, which may be others.
    pub m: f64,
    pub n: f64,
    /// What the layer read of each token of the text.
    pub read: &'a [Vec<f64>],
    /// The keys from this one on that the query sees.
    pub later: &'a [&'a [f64]],
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn row(table: &[f64], width: usize, row: usize) -> &[f64] {
    &table[row * width..(row + 1) * width]
}

/// W·x.
pub fn product(weight: &[f64], x: &[f64]) -> Vec<f64> {
    weight.chunks(x.len()).map(|row| dot(row, x)).collect()
}

/// P[k, 2i] = sin(k/10000^(2i/d)), P[k, 2i+1] = cos of the same.
pub fn code(position: f64, width: usize) -> Vec<f64> {
    let angle = |i: usize| position / 10_000f64.powf((i - i % 2) as f64 / width as f64);
    (0..width).map(|i| if i % 2 == 0 { angle(i).sin() } else { angle(i).cos() }).collect()
}

/// Term 1: an embedding at a position, of a token that so many digits end with.
pub fn embed(laid: &Laid<f64>, encoding: &Encoding, x: Vec<f64>, position: usize, digits: usize) -> Vec<f64> {
    let width = x.len();
    let learned = |k: usize| row(parameter(laid, "position.embedding.weight"), width, k).to_vec();
    let (p, merge) = match encoding {
        Encoding::Sinusoidal(own) => (code(position as f64, width), own.merge),
        Encoding::Learned(own) => (learned(position), own.merge),
        Encoding::Deberta(Deberta { is_absolute: true, .. }) => (learned(position), Merge::Add),
        Encoding::Abacus(own) | Encoding::Coupled(Coupled { numbers: own }) => {
            let table = parameter(laid, &format!("position.{}.weight", encoding.name()));
            (row(table, width, digits.min(own.places + own.shift)).to_vec(), Merge::Add)
        }
        Encoding::Hierarchical(own) => {
            let (n, alpha) = (parameter(laid, "position.embedding.weight").len() / width, own.alpha);
            let u = |k: usize| -> Vec<f64> {
                learned(k).iter().zip(learned(0)).map(|(p, p0)| (p - alpha * p0) / (1.0 - alpha)).collect()
            };
            let (i, j) = (u(position / n), u(position % n));
            (i.iter().zip(&j).map(|(i, j)| alpha * i + (1.0 - alpha) * j).collect(), own.merge)
        }
        _ => return x,
    };
    match merge {
        Merge::Add => plus(&x, &p),
        Merge::Concatenate => product(parameter(laid, "position.merge.weight"), &[x, p].concat()),
    }
}

/// θ for each pair of `dim` features that turn.
fn frequencies(rotary: &Rotary, dim: usize) -> Vec<f64> {
    let ladder = |base: f64| move |j: usize| base.powf(-2.0 * j as f64 / dim as f64);
    let (base, d, pairs) = (rotary.base, dim as f64, 0..dim / 2);
    let theta = ladder(base);
    match &rotary.schedule {
        Schedule::Default => pairs.map(theta).collect(),
        Schedule::Linear { factor } => pairs.map(|j| theta(j) / factor).collect(),
        Schedule::NtkAware { factor } => pairs.map(ladder(base * factor.powf(d / (d - 2.0)))).collect(),
        Schedule::Yarn(yarn) => {
            let length = yarn.original_length as f64;
            let at = |turns: f64| d * (length / (turns * std::f64::consts::TAU)).ln() / (2.0 * base.ln());
            let (low, high) = (at(yarn.beta_fast).floor().max(0.0), at(yarn.beta_slow).ceil().min(d - 1.0));
            let slow = |j: usize| ((j as f64 - low) / (high - low)).clamp(0.0, 1.0);
            pairs.map(|j| theta(j) * (1.0 - slow(j)) + theta(j) / yarn.factor * slow(j)).collect()
        }
        Schedule::Llama3(llama) => {
            let turns = |j: usize| llama.original_length as f64 * theta(j) / std::f64::consts::TAU;
            let (low, high) = (llama.low_freq_factor, llama.high_freq_factor);
            let fast = |j: usize| ((turns(j) - low) / (high - low)).clamp(0.0, 1.0);
            pairs.map(|j| theta(j) * fast(j) + theta(j) / llama.factor * (1.0 - fast(j))).collect()
        }
        Schedule::Proportional { fraction, factor } => {
            let turning = (fraction * d / 2.0) as usize;
            pairs.map(|j| if j < turning { theta(j) / factor } else { 0.0 }).collect()
        }
        Schedule::ReceptiveField { alpha, rho } => {
            pairs.map(|j| alpha / 10_000f64.powf(*rho) + (1.0 - alpha) * theta(j)).collect()
        }
        other => panic!("no formula here for {other:?}"),
    }
}

/// What turns: features of each pair, θ of each pair, the factor of rotated vectors, xPos's ζ of each pair.
pub struct Rotation {
    pairs: Vec<(usize, usize)>,
    theta: Vec<f64>,
    factor: f64,
    zeta: Vec<f64>,
    /// Tokens of a row, where the first half of the pairs turns by rows and the second by columns.
    side: Option<usize>,
    pub values: bool,
}

impl Rotation {
    /// That of an encoding for a key head of `dim` features; `None` where it turns nothing.
    pub fn of(laid: &Laid<f64>, encoding: &Encoding, dim: usize, key_head: usize) -> Option<Rotation> {
        let rotary = match encoding {
            Encoding::Rotary(rotary) => rotary.clone(),
            Encoding::ReceptiveField(own) => own.rotary.clone(),
            Encoding::Xpos(own) => Rotary { base: own.base, pairing: own.pairing, ..Rotary::default() },
            Encoding::Randomised(own) => own.rotary.clone(),
            Encoding::Pose(own) => own.rotary.clone(),
            Encoding::Extend(own) => own.rotary.clone(),
            Encoding::Forget(own) if own.is_rotary => Rotary::default(),
            Encoding::Abacus(own) | Encoding::Coupled(Coupled { numbers: own }) if own.is_rotary => {
                Rotary::default()
            }
            Encoding::High(own) => Rotary { part: Some(own.part), ..Rotary::default() },
            Encoding::Clipped(own) => Rotary { base: own.base, ..Rotary::default() },
            Encoding::Axial(own) => Rotary { base: own.base, ..Rotary::default() },
            // Of the first layer.
            Encoding::Layers(own) if own.every > 1 => Rotary { base: own.base, ..Rotary::default() },
            Encoding::Layers(Layers { far: Some(base), .. }) => Rotary { base: *base, ..Rotary::default() },
            _ => return None,
        };
        let rotary = &rotary;
        let turning = rotary.rotary_dim.unwrap_or(dim);
        let turning = rotary.part.map_or(turning, |part| 2 * (part * dim as f64 / 2.0) as usize);
        let mut theta = frequencies(rotary, turning);
        if rotary.is_learned {
            let own = if rotary.is_by_head { format!(".{key_head}") } else { String::new() };
            theta = parameter(laid, &format!("position.rotary.0.frequencies{own}")).to_vec();
        }
        let side = encoding.side();
        match encoding {
            Encoding::Axial(own) => {
                // Those of each axis: base^(−t/(d/4)).
                let each = turning / 4;
                theta = (0..2 * each).map(|j| own.base.powf(-((j % each) as f64) / each as f64)).collect();
            }
            Encoding::High(own) => {
                let (slowest, pairs) = (std::f64::consts::TAU / own.period, turning / 2);
                let at = |j: usize| (slowest.ln() * j as f64 / (pairs - 1).max(1) as f64).exp();
                theta = (0..pairs).map(at).collect();
            }
            Encoding::Clipped(own) => {
                let slowest = std::f64::consts::TAU / theta[theta.len() - 1];
                let width = own.width.unwrap_or(slowest / own.period);
                theta.iter_mut().for_each(|theta| {
                    let wavelength = std::f64::consts::TAU / *theta;
                    let along = (wavelength / own.period).ln() / width.ln();
                    let part = if wavelength <= own.period { 0.0 } else { along.clamp(0.0, 1.0) };
                    *theta *= (1.0 + (std::f64::consts::PI * part).cos()) / 2.0;
                });
            }
            _ => {}
        }
        if let Encoding::ReceptiveField(_) = encoding {
            let field = parameter(laid, "position.receptive.0");
            let alpha = (1.0 + (-field[0]).exp()).recip();
            let shared = alpha / 10_000f64.powf(field[1]);
            theta.iter_mut().for_each(|theta| *theta = shared + (1.0 - alpha) * *theta);
        }
        let (d, half) = (dim as f64, turning / 2);
        let zeta = |j: usize| match encoding {
            Encoding::Xpos(_) => (2.0 * j as f64 + 0.4 * d) / (1.4 * d),
            _ => 1.0,
        };
        let pair = |j: usize| match rotary.pairing {
            Pairing::Half => (j, j + half),
            _ => (2 * j, 2 * j + 1),
        };
        let factor = match &rotary.schedule {
            Schedule::Yarn(yarn) => 1.0 + 0.1 * yarn.factor.ln(),
            _ => 1.0,
        };
        Some(Rotation {
            pairs: (0..half).map(pair).collect(),
            theta,
            factor,
            zeta: (0..half).map(zeta).collect(),
            side,
            values: rotary.values,
        })
    }

    /// The score by the distance alone: Re[q·k*·e^(i(m−n)θ)] for each pair, the plain product for what does not turn.
    pub fn score(&self, q: &[f64], k: &[f64], distance: f64) -> f64 {
        let mut rest: Vec<bool> = vec![true; q.len()];
        let mut sum = 0.0;
        for ((&(a, b), theta), zeta) in self.pairs.iter().zip(&self.theta).zip(&self.zeta) {
            (rest[a], rest[b]) = (false, false);
            let (sin, cos) = (distance * theta).sin_cos();
            let turned = (q[a] * k[a] + q[b] * k[b]) * cos - (q[b] * k[a] - q[a] * k[b]) * sin;
            sum += self.factor.powi(2) * zeta.powf(distance / 512.0) * turned;
        }
        sum + (0..q.len()).filter(|&i| rest[i]).map(|i| q[i] * k[i]).sum::<f64>()
    }

    /// The score of a query and a key at their positions: by the distance, but for rows and columns, which it does not tell.
    pub fn meeting(&self, q: &[f64], k: &[f64], [m, n]: [f64; 2]) -> f64 {
        match self.side {
            Some(_) => dot(&self.turn(q, m), &self.turn(k, n)),
            None => self.score(q, k, m - n),
        }
    }

    /// x at a position.
    pub fn turn(&self, x: &[f64], position: f64) -> Vec<f64> {
        let mut out = x.to_vec();
        for (j, (&(a, b), theta)) in self.pairs.iter().zip(&self.theta).enumerate() {
            let place = match self.side.map(|side| side as f64) {
                Some(side) if 2 * j < self.pairs.len() => (position / side).floor(),
                Some(side) => position % side,
                None => position,
            };
            let (sin, cos) = (place * theta).sin_cos();
            out[a] = self.factor * (x[a] * cos - x[b] * sin);
            out[b] = self.factor * (x[a] * sin + x[b] * cos);
        }
        out
    }
}

/// θ_j·Σ (w·x + b) over the tokens of Selective RoPE that were read, for each pair of a key head.
fn angles<'a>(
    laid: &Laid<f64>,
    network: &Network,
    base: f64,
    key_head: usize,
    read: impl Iterator<Item = &'a Vec<f64>>,
) -> Vec<f64> {
    let [weight, bias] =
        ["weight", "bias"].map(|part| parameter(laid, &format!("position.selective.0.{part}")));
    let (width, pairs) = (network.blueprint.width, bias.len() / network.blueprint.key_heads);
    let mut angles = vec![0.0; pairs];
    for x in read {
        for (j, angle) in angles.iter_mut().enumerate() {
            let own = key_head * pairs + j;
            let z = dot(row(weight, width, own), x) + bias[own];
            *angle += base.powf(-(j as f64) / pairs as f64) * z;
        }
    }
    angles
}

/// x of a key head, turned by what was read up to its token.
pub fn selected(
    laid: &Laid<f64>,
    network: &Network,
    key_head: usize,
    read: &[Vec<f64>],
    x: &[f64],
) -> Vec<f64> {
    let Encoding::Selective(own) = network.blueprint.encoding else { panic!("no selective encoding") };
    let angles = angles(laid, network, own.base, key_head, read.iter());
    let pairs = x.chunks(2).zip(angles);
    let turn = |(x, angle): (&[f64], f64)| {
        let (sin, cos) = angle.sin_cos();
        [x[0] * cos - x[1] * sin, x[0] * sin + x[1] * cos]
    };
    pairs.flat_map(turn).collect()
}

/// x of a key head at a position, as FoPE turns it: by sums of cosines and of sines of all frequencies that turn within the period.
pub fn summed(network: &Network, key_head: usize, x: &[f64], position: f64) -> Vec<f64> {
    let Encoding::Fope(own) = network.blueprint.encoding else { panic!("no Fourier sums") };
    let all = (0..x.len() / 2).map(|j| own.base.powf(-2.0 * j as f64 / x.len() as f64));
    let theta: Vec<f64> = all.filter(|theta| theta * own.period >= std::f64::consts::TAU).collect();
    let (pairs, mut out) = (theta.len(), x.to_vec());
    for j in 0..pairs {
        let (mut cos, mut sin) = (0.0, 0.0);
        for (f, theta) in theta.iter().enumerate() {
            let [a, b] = own.coefficients([0, key_head, pairs], [f, j]);
            cos += a * (position * theta).cos();
            sin += b * (position * theta).sin();
        }
        (out[2 * j], out[2 * j + 1]) =
            (x[2 * j] * cos - x[2 * j + 1] * sin, x[2 * j] * sin + x[2 * j + 1] * cos);
    }
    out
}

/// T5's bucket, by its definition in logarithms; whole numbers of steps are not to be lost to rounding.
pub fn t5_bucket(distance: i64, is_causal: bool, buckets: usize, furthest: usize) -> usize {
    let (first, count, n) = match is_causal {
        true => (0, buckets, distance.max(0)),
        false => (if distance < 0 { buckets / 2 } else { 0 }, buckets / 2, distance.abs()),
    };
    let (n, exact) = (n as f64, (count / 2) as f64);
    if n < exact {
        return first + n as usize;
    }
    let steps = (n / exact).ln() / (furthest as f64 / exact).ln() * (count as f64 - exact);
    first + (count / 2 + (steps + 1e-9).floor() as usize).min(count - 1)
}

/// The slopes of ALiBi, as its authors compute them.
pub fn alibi_slopes(heads: usize) -> Vec<f64> {
    let floor = heads.ilog2();
    let lower = 1usize << floor;
    let ratio = 2f64.powf(-8.0 / lower as f64);
    let mut slopes: Vec<f64> = (1..=lower).map(|h| ratio.powi(h as i32)).collect();
    if lower < heads {
        slopes.extend(alibi_slopes(2 * lower).into_iter().step_by(2).take(heads - lower));
    }
    slopes
}

/// The score of a pair.
pub fn score(laid: &Laid<f64>, network: &Network, rotation: Option<&Rotation>, pair: &Pair) -> f64 {
    let (d, width) = (network.blueprint.head_dim, network.blueprint.width);
    let (root, distance) = ((d as f64).sqrt(), pair.i - pair.j);
    let &Pair { q, k, head, m, n, .. } = pair;
    let content = dot(q, k);
    let own = |name: &str| &parameter(laid, name)[head * d..(head + 1) * d];
    match &network.blueprint.encoding {
        Encoding::Shaw(shaw) => {
            let (left, right) = (shaw.left as i64, shaw.right as i64);
            (content + dot(q, &shaw_row(laid, shaw.tables, "key", -distance, left, right, d))) / root
        }
        Encoding::XlNet(xlnet) => {
            let reach = xlnet.clamp.map_or(i64::MAX, |clamp| clamp as i64);
            let distance = distance.clamp(-reach, reach);
            let weight = parameter(laid, "position.xlnet.0.relative.weight");
            let relative = product(row(weight, d * width, head), &code(distance as f64, width));
            let (u, v) = (own("position.xlnet.0.content"), own("position.xlnet.0.position"));
            (content + dot(q, &relative) + dot(u, k) + dot(v, &relative)) / root
        }
        Encoding::T5(t5) => {
            let bucket = t5_bucket(distance, network.blueprint.is_causal(), t5.buckets, t5.furthest);
            let bias = parameter(laid, "position.t5.weight")[head * t5.buckets + bucket];
            content / if t5.is_scaled { root } else { 1.0 } + bias
        }
        Encoding::Deberta(own) => {
            let projected = |part: &str, distance: i64| {
                let x = deberta_row(laid, own, distance, width);
                let parameter = |kind: &str| parameter(laid, &format!("position.deberta.0.{part}.{kind}"));
                let made = product(row(parameter("weight"), d * width, head), &x);
                match own.projections {
                    Projections::Biased => plus(&made, row(parameter("bias"), d, head)),
                    _ => made,
                }
            };
            let mirrored = if own.is_mirrored { -distance } else { distance };
            let (mut score, mut terms) = (content, 1.0);
            if own.terms != DebertaTerms::Keys {
                (score, terms) = (score + dot(q, &projected("key", distance)), terms + 1.0);
            }
            if own.terms != DebertaTerms::Queries {
                (score, terms) = (score + dot(k, &projected("query", mirrored)), terms + 1.0);
            }
            score / (terms * d as f64).sqrt()
        }
        Encoding::Kerple(own) if own.kernel == Kernel::Power => {
            let learned = row(parameter(laid, "position.kerple.0.weight"), 2, head);
            let (strength, power) = (learned[0].exp(), 2.0 / (1.0 + (-learned[1]).exp()));
            content / root - strength * (distance.unsigned_abs() as f64).powf(power)
        }
        Encoding::Sandwich(own) => {
            let width = own.dim;
            let (m, n) = (code(pair.i as f64, width), code(pair.j as f64, width));
            content / root + dot(&m, &n) / (8.0 * (head + 1) as f64 / network.blueprint.heads as f64)
        }
        Encoding::Fire(_) => {
            let part = |name: &str| parameter(laid, &format!("position.fire.0.{name}"));
            let (c, threshold) = (part("scale")[0].exp(), part("scale")[1].exp());
            let psi = |r: f64| (c * r + 1.0).ln();
            let x = psi(distance.max(0) as f64) / psi(threshold.max(pair.i as f64));
            let hidden = part("inner.weight").chunks(2).map(|own| (own[0] * x + own[1]).max(0.0));
            let outer = row(part("outer.weight"), part("inner.weight").len() / 2, head);
            content / root + hidden.zip(outer).map(|(x, v)| x * v).sum::<f64>()
        }
        Encoding::Forget(own) => {
            let weight = row(parameter(laid, "position.forget.0.weight"), width, head);
            let bias = parameter(laid, "position.forget.0.bias")[head];
            let kept = |x: &Vec<f64>| match (own.gate, dot(weight, x) + bias) {
                (Gate::Sigmoid, z) => (1.0 / (1.0 + (-z).exp())).ln(),
                (Gate::Relu, z) => -z.max(0.0),
            };
            let between = pair.read.iter().skip(pair.j as usize + 1).take(distance.max(0) as usize);
            let turned = rotation.map_or(content, |rotation| rotation.score(q, k, m - n));
            turned / root + between.map(kept).sum::<f64>()
        }
        Encoding::Contextual(own) => {
            let table = parameter(laid, "position.contextual.0.weight");
            let gates = pair.later.iter().map(|k| 1.0 / (1.0 + (-dot(q, k) / root).exp()));
            let place = gates.sum::<f64>().min(own.positions as f64);
            let at = |place: f64| dot(q, row(table, d, place as usize));
            let part = place - place.floor();
            content / root + (1.0 - part) * at(place.floor()) + part * at(place.ceil())
        }
        Encoding::Path(own) => {
            let part = |name: &str| parameter(laid, &format!("position.path.0.{name}"));
            let key_head = head / (network.blueprint.heads / network.blueprint.key_heads);
            // H_(j+1)·…·H_i, one after the other.
            let mut path: Vec<Vec<f64>> =
                (0..d).map(|a| (0..d).map(|b| f64::from(a == b)).collect()).collect();
            for x in pair.read.iter().skip(pair.j as usize + 1).take(distance.max(0) as usize) {
                let w =
                    product(row(part("up.weight"), d * own.rank, key_head), &product(part("down.weight"), x));
                let length = dot(&w, &w).sqrt();
                let w: Vec<f64> = w.iter().map(|w| w / length).collect();
                let z = dot(row(part("beta.weight"), width, key_head), x) + part("beta.bias")[key_head];
                let beta = 2.0 / (1.0 + (-z).exp());
                let map = |a: usize, b: usize| f64::from(a == b) - beta * w[a] * w[b];
                let times =
                    |row: &Vec<f64>| (0..d).map(|b| (0..d).map(|a| row[a] * map(a, b)).sum()).collect();
                path = path.iter().map(times).collect();
            }
            path.iter().zip(k).map(|(row, k)| k * dot(row, q)).sum::<f64>() / root
        }
        Encoding::Pope(own) => {
            let size = |x: f64| x.exp().ln_1p();
            let group = network.blueprint.heads / network.blueprint.key_heads;
            let phase = |c: usize| match own.has_phases {
                true => row(parameter(laid, "position.pope.0.phases"), d, head / group)[c],
                false => 0.0,
            };
            let term = |c: usize| {
                let theta = own.base.powf(-(c as f64) / d as f64);
                size(q[c]) * size(k[c]) * ((n - m) * theta + phase(c)).cos()
            };
            (0..d).map(term).sum::<f64>() / root
        }
        Encoding::Fope(_) => {
            let group = network.blueprint.heads / network.blueprint.key_heads;
            let turned = |x: &[f64], position: f64| summed(network, head / group, x, position);
            dot(&turned(q, m), &turned(k, n)) / root
        }
        Encoding::Extend(own) => {
            let (window, rotation) = (own.far.window as i64, rotation.unwrap());
            let distance = match own.far.group.map(|group| group as i64) {
                _ if distance < window => distance,
                None => window,
                Some(group) => pair.i / group + window - window / group - pair.j / group,
            };
            rotation.score(q, k, distance as f64) / root
        }
        Encoding::Selective(own) => {
            // Of all that was read after the key, up to the query.
            let group = network.blueprint.heads / network.blueprint.key_heads;
            let between = pair.read.iter().skip(pair.j as usize + 1).take(distance.max(0) as usize);
            let angles = angles(laid, network, own.base, head / group, between);
            let term = |(j, angle): (usize, &f64)| {
                let (a, b) = (2 * j, 2 * j + 1);
                (q[a] * k[a] + q[b] * k[b]) * angle.cos() - (q[b] * k[a] - q[a] * k[b]) * angle.sin()
            };
            angles.iter().enumerate().map(term).sum::<f64>() / root
        }
        Encoding::Kerple(_) => {
            let learned = row(parameter(laid, "position.kerple.0.weight"), 2, head);
            let (strength, rate) = (learned[0].exp(), learned[1].exp());
            content / root - strength * (1.0 + rate * distance.unsigned_abs() as f64).ln()
        }
        Encoding::Alibi(_) => {
            content / root - alibi_slopes(network.blueprint.heads)[head] * distance.unsigned_abs() as f64
        }
        _ => rotation.map_or(content, |rotation| rotation.meeting(q, k, [m, n])) / root,
    }
}

/// What is added to the value of a key at this distance, j − i.
pub fn value_row(laid: &Laid<f64>, network: &Network, distance: i64) -> Vec<f64> {
    match &network.blueprint.encoding {
        Encoding::Shaw(shaw) if shaw.values => {
            let (left, right) = (shaw.left as i64, shaw.right as i64);
            shaw_row(laid, shaw.tables, "value", distance, left, right, network.blueprint.head_dim)
        }
        _ => vec![0.0; network.blueprint.head_dim],
    }
}

/// DeBERTa's vector of a distance.
fn deberta_row(laid: &Laid<f64>, own: &Deberta, distance: i64, width: usize) -> Vec<f64> {
    let (reach, middle, far) = (own.reach as i64, (own.reach / 2) as f64, distance.unsigned_abs() as f64);
    let delta = match own.furthest {
        Some(furthest) if far > middle => {
            let part = (far / middle).ln() / ((furthest as f64 - 1.0) / middle).ln();
            let step = (part * (middle - 1.0) - 1e-9).ceil() + middle;
            distance.signum() * step as i64
        }
        _ => distance,
    };
    let place = (delta + reach).clamp(0, 2 * reach - 1) as usize;
    let x = row(parameter(laid, "position.deberta.weight"), width, place);
    let Some(epsilon) = own.norm else { return x.to_vec() };
    let mean = x.iter().sum::<f64>() / width as f64;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
    let [weight, bias] =
        ["weight", "bias"].map(|kind| parameter(laid, &format!("position.deberta.norm.{kind}")));
    let root = (variance + epsilon).sqrt();
    x.iter().zip(weight.iter().zip(bias)).map(|(x, (w, b))| w * (x - mean) / root + b).collect()
}

fn shaw_row(
    laid: &Laid<f64>,
    tables: ShawTables,
    part: &str,
    distance: i64,
    left: i64,
    right: i64,
    dim: usize,
) -> Vec<f64> {
    let clipped = distance.max(-left).min(right);
    match tables {
        ShawTables::Learned => {
            let table = parameter(laid, &format!("position.shaw.0.{part}.weight"));
            row(table, dim, (clipped + left) as usize).to_vec()
        }
        ShawTables::Sinusoidal => code(clipped as f64, dim),
    }
}
