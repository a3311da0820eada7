//! A network of one plain layer in f64, one number after another, with whole matrices of scores.

use super::formula::{self, Pair, Rotation, dot, product};
use super::net::parameter;
use roformer::encoding::{Coupled, Encoding};
use roformer::graph::{Batch, FeatureMap};
use roformer::network::{Laid, LinearForm, Mixing, Network};

/// What the layer gives for a batch `[batch, length]`.
pub fn hidden(laid: &Laid<f64>, network: &Network, batch: &Batch, length: usize) -> Vec<f64> {
    let texts = batch.ids.chunks(length).enumerate();
    texts.flat_map(|(text, ids)| one(laid, network, batch, text, ids)).flatten().collect()
}

fn one(laid: &Laid<f64>, network: &Network, batch: &Batch, text: usize, ids: &[u32]) -> Vec<Vec<f64>> {
    let (length, width) = (ids.len(), network.blueprint.width);
    let position = |index: usize| batch.positions.get(index).map_or(index, |&position| position as usize);
    let words = parameter(laid, "embed.weight");
    let embedded = ids.iter().enumerate().map(|(index, &id)| {
        let word = words[id as usize * width..][..width].to_vec();
        let ended = ids[..=index].iter().rev().take_while(|&&id| is_digit(network, id)).count();
        formula::embed(laid, &network.blueprint.encoding, word, position(index), ended)
    });
    let x: Vec<Vec<f64>> = embedded.collect();
    let read: Vec<Vec<f64>> = x.iter().map(|x| norm(laid, network, "norm1", x)).collect();
    let joined: Vec<Vec<f64>> = read.iter().map(|read| linear(laid, "self_attn.in_proj_", read)).collect();
    let sees = |i: usize, j: usize| {
        let is_near = match &network.blueprint.encoding {
            Encoding::Layers(own) if own.every > 1 => own.window.is_none_or(|window| i.abs_diff(j) < window),
            _ => true,
        };
        (!network.blueprint.is_causal() || j <= i)
            && is_near
            && batch.mask.get(text * length + j).copied().unwrap_or(true)
    };
    let mixed = attention(laid, network, [&joined, &read], &sees, &position);
    x.iter()
        .zip(&mixed)
        .map(|(x, mixed)| {
            let x = sum(x, &linear(laid, "self_attn.out_proj.", mixed));
            let inner = linear(laid, "linear1.", &norm(laid, network, "norm2", &x));
            let inner: Vec<f64> = inner.into_iter().map(gelu).collect();
            sum(&x, &linear(laid, "linear2.", &inner))
        })
        .collect()
}

/// Whether a token is a digit, to an encoding that asks.
fn is_digit(network: &Network, id: u32) -> bool {
    match &network.blueprint.encoding {
        Encoding::Abacus(own) | Encoding::Coupled(Coupled { numbers: own }) => own.digits.contains(&id),
        _ => false,
    }
}

fn attention(
    laid: &Laid<f64>,
    network: &Network,
    [joined, read]: [&[Vec<f64>]; 2],
    sees: &dyn Fn(usize, usize) -> bool,
    position: &dyn Fn(usize) -> usize,
) -> Vec<Vec<f64>> {
    let (length, d, heads, key_heads) =
        (joined.len(), network.blueprint.head_dim, network.blueprint.heads, network.blueprint.key_heads);
    let mut out = vec![Vec::new(); length];
    for head in 0..heads {
        let group = head / (heads / key_heads);
        let rotation = Rotation::of(laid, &network.blueprint.encoding, d, group);
        let part = |row: usize, head: usize| &joined[row][head * d..(head + 1) * d];
        let (q, k) = (|i: usize| part(i, head), |j: usize| part(j, heads + group));
        let value = |j: usize| {
            let v = part(j, heads + key_heads + group);
            match rotation.as_ref().filter(|rotation| rotation.values) {
                Some(rotation) => rotation.turn(v, position(j) as f64),
                None => v.to_vec(),
            }
        };
        for (i, out) in out.iter_mut().enumerate() {
            let weights: Vec<f64> = match network.blueprint.mixing {
                Mixing::Softmax => {
                    let score = |j: usize| {
                        let (m, n) = (position(i) as f64, position(j) as f64);
                        let later: Vec<&[f64]> = (j..length).filter(|&t| sees(i, t)).map(k).collect();
                        let (q, k, i, j) = (q(i), k(j), i as i64, j as i64);
                        let pair = Pair { q, k, head, i, j, m, n, read, later: &later };
                        formula::score(laid, network, rotation.as_ref(), &pair)
                    };
                    let scores = (0..length).map(|j| if sees(i, j) { score(j) } else { f64::NEG_INFINITY });
                    let scores: Vec<f64> = scores.collect();
                    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let powers: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
                    let total: f64 = powers.iter().sum();
                    powers.iter().map(|power| power / total).collect()
                }
                Mixing::Linear(form) => {
                    let seen = |j: usize| if sees(i, j) { 1.0 } else { 0.0 };
                    let at = |j: usize| position(j) as f64;
                    let turned = |x: &[f64], token: usize| match network.blueprint.encoding {
                        Encoding::Fope(_) => formula::summed(network, group, x, at(token)),
                        _ => formula::selected(laid, network, group, &read[..=token], x),
                    };
                    let pair = |j: usize| match network.blueprint.encoding {
                        Encoding::Selective(_) | Encoding::Fope(_) => {
                            turned_pair(form, [q(i), k(j)], &|q| turned(q, i), &|k| turned(k, j))
                        }
                        _ => linear_pair(form, rotation.as_ref(), [q(i), k(j)], [at(i), at(j)]),
                    };
                    let total: f64 = (0..length).map(|j| seen(j) * pair(j)[1]).sum();
                    (0..length).map(|j| seen(j) * pair(j)[0] / total).collect()
                }
            };
            let seen = |j: usize| sum(&value(j), &formula::value_row(laid, network, j as i64 - i as i64));
            let values: Vec<Vec<f64>> = (0..length).map(seen).collect();
            out.extend((0..d).map(|e| (0..length).map(|j| weights[j] * values[j][e]).sum::<f64>()));
        }
    }
    out
}

/// What a pair adds to the numerator and to the denominator of linear attention.
fn linear_pair(
    form: LinearForm,
    rotation: Option<&Rotation>,
    [q, k]: [&[f64]; 2],
    [m, n]: [f64; 2],
) -> [f64; 2] {
    let Some(rotation) = rotation else {
        let product = dot(&features(form.queries, q), &features(form.keys, k));
        return [product; 2];
    };
    if form.rotates_before {
        let (q, k) = (rotation.turn(q, m), rotation.turn(k, n));
        let product = dot(&features(form.queries, &q), &features(form.keys, &k));
        return [product; 2];
    }
    let (q, k) = (features(form.queries, q), features(form.keys, k));
    [rotation.meeting(&q, &k, [m, n]), dot(&q, &k)]
}

/// The same where queries and keys turn by what was read, or by sums of frequencies.
fn turned_pair(
    form: LinearForm,
    [q, k]: [&[f64]; 2],
    turn_query: &dyn Fn(&[f64]) -> Vec<f64>,
    turn_key: &dyn Fn(&[f64]) -> Vec<f64>,
) -> [f64; 2] {
    if form.rotates_before {
        let product = dot(&features(form.queries, &turn_query(q)), &features(form.keys, &turn_key(k)));
        return [product; 2];
    }
    let (q, k) = (features(form.queries, q), features(form.keys, k));
    [dot(&turn_query(&q), &turn_key(&k)), dot(&q, &k)]
}

fn features(map: FeatureMap, x: &[f64]) -> Vec<f64> {
    match map {
        FeatureMap::Elu => x.iter().map(|&x| if x > 0.0 { x + 1.0 } else { x.exp() }).collect(),
        FeatureMap::Exp => x.iter().map(|x| x.exp()).collect(),
        FeatureMap::Softmax => {
            let total: f64 = x.iter().map(|x| x.exp()).sum();
            x.iter().map(|x| x.exp() / total).collect()
        }
        FeatureMap::Favor { .. } => panic!("no formula here for random features"),
    }
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn linear(laid: &Laid<f64>, name: &str, x: &[f64]) -> Vec<f64> {
    let part = |kind: &str| parameter(laid, &format!("blocks.layers.0.{name}{kind}"));
    sum(&product(part("weight"), x), part("bias"))
}

fn norm(laid: &Laid<f64>, network: &Network, name: &str, x: &[f64]) -> Vec<f64> {
    let part = |kind: &str| parameter(laid, &format!("blocks.layers.0.{name}.{kind}"));
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let scaled = x.iter().map(|x| (x - mean) / (variance + network.blueprint.norms.epsilon).sqrt());
    scaled.zip(part("weight")).zip(part("bias")).map(|((x, weight), bias)| x * weight + bias).collect()
}

/// x·Φ(x); erf as a sum of terms of one sign, which loses nothing.
fn gelu(x: f64) -> f64 {
    let z = x.abs() / 2f64.sqrt();
    let (mut term, mut total) = (z, 0.0);
    for n in 1..400 {
        total += term;
        term *= 2.0 * z * z / (2 * n + 1) as f64;
    }
    let erf = (std::f64::consts::FRAC_2_SQRT_PI * (-z * z).exp() * total).copysign(x);
    0.5 * x * (1.0 + erf)
}
