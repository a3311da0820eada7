//! Sinusoidal position codes and their inner products.

use super::check::within;
use crate::error::Result;
use roformer::encoding::sinusoid;
use rope::{Rope, analysis};
use serde::{Deserialize, Serialize};

/// How many codes, how wide, and which two are compared.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ask {
    /// Positions shown.
    pub length: usize,
    /// Features of a code.
    pub dim: usize,
    /// A position.
    pub m: usize,
    /// Another.
    pub n: usize,
}

impl Default for Ask {
    fn default() -> Self {
        Ask { length: 80, dim: 128, m: 50, n: 20 }
    }
}

/// Codes and their inner products.
#[derive(Clone, Debug, Serialize)]
pub struct Similarity {
    /// `[length][dim]`, to three digits: for the picture.
    pub codes: Vec<Vec<f64>>,
    /// `[length]`: the inner product of two codes 0, 1, 2 … positions apart.
    pub products: Vec<f64>,
    /// p(m)·p(n), by multiplying the two codes.
    pub product: f64,
    /// The product of two codes that stand as far apart the other way around: p(m)·p(2m − n), from the distance n − m.
    pub mirrored: f64,
    /// p(m + 1)·p(n + 1).
    pub moved: f64,
    /// How far any two products at the same distance differ, of all pairs of positions shown: rounding.
    pub spread: f64,
    /// `[points]`: distances far beyond those shown.
    pub far: Vec<f64>,
    /// `[points]`: the inner product there.
    pub far_products: Vec<f64>,
    /// The root mean square of the product at distances from 50,000 to about 200,000: it does not tend to 0.
    pub level: f64,
}

/// Codes at the first positions, and how alike they are.
pub fn similarity(ask: &Ask) -> Result<Similarity> {
    let length = within("length", ask.length, 8..=96)?;
    let dim = within("dim", ask.dim, 2..=128)?;
    let (m, n) = (within("m", ask.m, 0..=length - 1)?, within("n", ask.n, 0..=length - 1)?);
    let rope = Rope::builder(dim).build()?;
    let frequencies = rope.frequencies(None);
    let theta = frequencies.inv_freq();
    let code = |position: f64| (0..dim).map(|feature| sinusoid(position, feature, dim)).collect::<Vec<_>>();
    // One more than is shown, for the two that are moved by one.
    let codes: Vec<Vec<f64>> = (0..=length).map(|position| code(position as f64)).collect();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let products: Vec<f64> = (0..length).map(|distance| product(&codes[0], &codes[distance])).collect();
    let apart = |start: usize, distance: usize| product(&codes[start], &codes[start + distance]);
    let spread = (0..length)
        .flat_map(|distance| (0..length - distance).map(move |start| (distance, start)))
        .map(|(distance, start)| (apart(start, distance) - products[distance]).abs())
        .fold(0.0, f64::max);
    let far: Vec<f64> = (0..240).map(|point| 10f64.powf(6.0 * f64::from(point) / 239.0).round()).collect();
    let far_products = far.iter().map(|&distance| analysis::cosine_sum(theta, distance)).collect();
    const SAMPLES: u32 = 1500;
    let samples = (0..SAMPLES).map(|sample| 50_000.0 + f64::from(sample * 101));
    let squares: f64 = samples.map(|distance| analysis::cosine_sum(theta, distance).powi(2)).sum();
    Ok(Similarity {
        codes: codes[..length].iter().map(|code| code.iter().map(|&x| rounded(x)).collect()).collect(),
        product: product(&codes[m], &codes[n]),
        mirrored: product(&codes[m], &code(2.0 * m as f64 - n as f64)),
        moved: product(&codes[m + 1], &codes[n + 1]),
        products,
        spread,
        far,
        far_products,
        level: (squares / f64::from(SAMPLES)).sqrt(),
    })
}

/// Three digits after the point: finer than a shade.
fn rounded(x: f64) -> f64 {
    (x * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_depend_on_the_distance_alone() {
        let shown = similarity(&Ask::default()).unwrap();
        assert_eq!(shown.products[0], 64.0);
        assert!(shown.spread < 1e-12, "{}", shown.spread);
        for other in [shown.moved, shown.mirrored, shown.products[30]] {
            assert!((shown.product - other).abs() < 1e-12, "{} {other}", shown.product);
        }
        // 64, 42.8 at 10: the sum of cosines.
        assert!((shown.products[10] - 42.8).abs() < 0.05);
        assert_eq!((shown.codes.len(), shown.codes[0].len()), (80, 128));
        assert_eq!(shown.codes[0][..4], [0.0, 1.0, 0.0, 1.0]);
    }

    #[test]
    fn they_do_not_tend_to_zero() {
        let shown = similarity(&Ask::default()).unwrap();
        assert!((shown.level - 5.5).abs() < 0.1, "{}", shown.level);
        let beyond = |from: f64| {
            let far = shown.far.iter().zip(&shown.far_products).filter(|(distance, _)| **distance > from);
            far.map(|(_, product)| product.abs()).fold(0.0, f64::max)
        };
        assert!(beyond(2e5) > 8.0, "{}", beyond(2e5));
    }

    #[test]
    fn hostile_questions_are_refused() {
        let refused = |ask: Ask| similarity(&ask).unwrap_err().to_string();
        assert!(refused(Ask { length: 0, ..Ask::default() }).contains("length is 0"));
        assert!(refused(Ask { length: usize::MAX, ..Ask::default() }).contains("from 8 to 96"));
        assert!(refused(Ask { dim: 3, ..Ask::default() }).contains('3'));
        assert!(refused(Ask { dim: 1 << 40, ..Ask::default() }).contains("dim"));
        assert!(refused(Ask { m: 80, ..Ask::default() }).contains("m is 80"));
        let most = similarity(&Ask { length: 96, dim: 128, m: 95, n: 95 }).unwrap();
        assert!(serde_json::to_vec(&most).unwrap().len() < 110_000);
    }
}
