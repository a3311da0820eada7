//! The gradient of frequencies: the CPU's numbers, in f64.

use crate::common::*;
use rope::cuda::{FrequencyGradient, Table, View};
use rope::{Pairing, Positions, bf16};

fn agrees<T: Bits>(shape: [usize; 4], pairing: Pairing) {
    let Some((device, stream)) = gpu() else { return };
    let [batch, length, heads, head_dim] = shape;
    let rope = rope_of(2, (head_dim - 3) / 2, 1, pairing, true);
    let host = rope.table::<f32>(-5..2000, None).unwrap();
    let table = Table::new(&device, &host).unwrap();
    let (y, dy): (Vec<T>, Vec<T>) =
        (moderate(shape.iter().product(), 1), moderate(shape.iter().product(), 2));
    let mut expected = vec![0.0; rope.pairs()];
    let (a, b) = (rope::View::blhd(&y, shape).unwrap(), rope::View::blhd(&dy, shape).unwrap());
    host.at(Positions::From(-5)).unwrap().frequency_gradient(&a, &b, &mut expected).unwrap();

    let (y, dy) = (device.upload(&y).unwrap(), device.upload(&dy).unwrap());
    let (y, dy) = (View::blhd(&y, shape).unwrap(), View::blhd(&dy, shape).unwrap());
    let mut gradient = FrequencyGradient::new(&device, &rope).unwrap();
    let rows = table.at(Positions::From(-5)).unwrap();
    rows.frequency_gradient(&stream, &y, &dy, &mut gradient).unwrap();
    let once = gradient.download(&stream).unwrap();
    // A sum of n numbers below 2000·8, in another order.
    let count = (batch * length * heads) as f64;
    let bound = count * count.sqrt() * 16_000.0 * f64::EPSILON;
    for (got, expected) in once.iter().zip(&expected) {
        assert!((got - expected).abs() <= bound, "{got} where {expected} is right");
    }
    // The same bits again, and sums that add up.
    rows.frequency_gradient(&stream, &y, &dy, &mut gradient).unwrap();
    let twice = gradient.download(&stream).unwrap();
    assert!(once.iter().zip(&twice).all(|(once, twice)| 2.0 * once == *twice), "{once:?} then {twice:?}");
    gradient.zero(&stream).unwrap();
    assert!(gradient.download(&stream).unwrap().iter().all(|&sum| sum == 0.0));
}

#[test]
fn small_gradient() {
    for pairing in PAIRINGS {
        agrees::<f32>([2, 5, 3, 19], pairing);
        agrees::<bf16>([1, 3, 2, 131], pairing);
    }
}

#[test]
fn gradient_of_many_tokens() {
    agrees::<f32>([2, 1500, 4, 67], Pairing::Half);
    agrees::<bf16>([1, 2001, 3, 403], Pairing::Interleaved);
}
