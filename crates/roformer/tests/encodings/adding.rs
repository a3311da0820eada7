//! Why positions may be added: concatenating is adding after matrices of their own, and in many dimensions there is room for both.

use super::formula::{code, dot, product};
use super::net::{batch, error, hidden, lay, network, parameter, unit};
use roformer::encoding::{Encoding, Learned, Merge};
use roformer::network::Laid;

fn set(laid: &mut Laid<f64>, name: &str, numbers: &[f64]) {
    let range = laid.graph.layout().find(name).unwrap().range();
    laid.graph.parameters_mut()[range].copy_from_slice(numbers);
}

/// [x, p]·Wᵀ with W = [A, B] is A·x + B·p: the network that adds, with A·x for its words and B·p for its positions.
#[test]
fn concatenating_is_adding_after_matrices_of_their_own() {
    let of = |merge| network(Encoding::Learned(Learned { merge, ..Learned::default() }), true);
    let (width, length) = (of(Merge::Add).blueprint.width, 9);
    let mut concatenated = lay(&of(Merge::Concatenate), 2, length, length);
    let mut added = lay(&of(Merge::Add), 2, length, length);
    let weight = parameter(&concatenated, "position.merge.weight").to_vec();
    let halves = [0, width].map(|first| -> Vec<f64> {
        weight.chunks(2 * width).flat_map(|row| row[first..first + width].to_vec()).collect()
    });
    for (name, half) in [("embed.weight", &halves[0]), ("position.embedding.weight", &halves[1])] {
        let table = parameter(&concatenated, name).to_vec();
        let table: Vec<f64> = table.chunks(width).flat_map(|row| product(half, row)).collect();
        set(&mut added, name, &table);
    }
    let batch = batch(&of(Merge::Add), 2 * length, 4);
    let wanted = hidden(&mut concatenated, &batch);
    assert!(error(&hidden(&mut added, &batch), &wanted) < 1e-13);

    // The other way round, adding is concatenating with W = [1, 1].
    let twice: Vec<f64> = (0..width * 2 * width)
        .map(|index| f64::from(index % (2 * width) % width == index / (2 * width)))
        .collect();
    let mut added = lay(&of(Merge::Add), 2, length, length);
    set(&mut concatenated, "position.merge.weight", &twice);
    for name in ["embed.weight", "position.embedding.weight"] {
        let table = parameter(&concatenated, name).to_vec();
        set(&mut added, name, &table);
    }
    assert!(error(&hidden(&mut added, &batch), &hidden(&mut concatenated, &batch)) < 1e-13);
}

/// A vector in any direction.
fn direction(seed: u64, width: usize) -> Vec<f64> {
    // Sums of twelve uniform numbers are close to normal.
    let normal = |index: usize| (0..12).map(|part| unit(seed, (12 * index + part) as u64)).sum::<f64>();
    (0..width).map(normal).collect()
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The mean |cos| of two directions by chance is Γ(d/2)/(√π·Γ((d+1)/2)), close to √(2/(πd)): a word's vector and a position's
/// code, wherever that points, are nearly at right angles.
#[test]
fn words_and_codes_are_nearly_orthogonal() {
    for (width, wanted) in [(64, 0.100), (768, 0.0288), (4096, 0.0125)] {
        let close = (2.0 / (std::f64::consts::PI * width as f64)).sqrt();
        assert!((close - wanted).abs() < 0.0005, "{close}");
        let count = 2000;
        let mean = |other: &dyn Fn(usize) -> Vec<f64>| {
            let cosines = (0..count).map(|i| cosine(&direction(i as u64, width), &other(i)).abs());
            cosines.sum::<f64>() / count as f64
        };
        // The standard deviation of |cos| is √(1/d − 2/(πd)), that of the mean of 2,000 a forty-fifth of it.
        let deviation = ((1.0 - 2.0 / std::f64::consts::PI) / width as f64 / count as f64).sqrt();
        let words = mean(&|i| direction(1_000_000 + i as u64, width));
        let codes = mean(&|i| code((i % 512) as f64, width));
        for found in [words, codes] {
            assert!((found - close).abs() < 5.0 * deviation + 0.01 * close, "{width}: {found}, not {close}");
        }
    }
}

/// Sinusoidal codes are far from filling the space: those of 512 positions lie, but for a hundredth of their length, within a
/// few of the directions. A word by chance has the part (directions)/(width) of its squared length among them.
#[test]
fn codes_of_512_positions_leave_most_directions_to_words() {
    for (width, wanted) in [(64, 30..=34), (768, 138..=148)] {
        let mut rest: Vec<Vec<f64>> = (0..512).map(|position| code(position as f64, width)).collect();
        let mut basis: Vec<Vec<f64>> = Vec::new();
        // Whatever is longest of what is left becomes the next direction.
        loop {
            let longest = rest.iter().max_by(|a, b| dot(a, a).total_cmp(&dot(b, b))).unwrap();
            let length = dot(longest, longest).sqrt();
            if length < 0.01 * (width as f64 / 2.0).sqrt() {
                break;
            }
            let next: Vec<f64> = longest.iter().map(|x| x / length).collect();
            for row in &mut rest {
                let part = dot(row, &next);
                row.iter_mut().zip(&next).for_each(|(x, y)| *x -= part * y);
            }
            basis.push(next);
        }
        // Which of two equally long ones is taken is a matter of the last bits, and moves the count a little.
        assert!(wanted.contains(&basis.len()), "width {width}: {}", basis.len());
        let count = 200;
        let within = (0..count).map(|seed| {
            let word = direction(seed, width);
            basis.iter().map(|axis| dot(axis, &word).powi(2)).sum::<f64>() / dot(&word, &word)
        });
        let (mean, part) = (within.sum::<f64>() / count as f64, basis.len() as f64 / width as f64);
        assert!((mean - part).abs() < 0.02, "{mean}, not {part}");
    }
}
