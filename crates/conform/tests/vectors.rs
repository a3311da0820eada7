//! The committed vectors, whose numbers `conformance/make_vectors.py` makes in 300-bit arithmetic.

use rope_conformance::{Answers, folder, small};
use std::path::PathBuf;

fn committed(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/vectors");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn they_are_the_small_set() {
    let text = String::from_utf8(committed(folder::CASES)).unwrap();
    assert_eq!(folder::read_cases(&text).unwrap(), small());
    assert_eq!(committed(folder::INPUTS), folder::files(&small()).unwrap().inputs);
}

#[test]
fn ours_are_within_a_few_units_of_300_bits() {
    let ours = Answers::read(&folder::files(&small()).unwrap().expected).unwrap();
    let exact = Answers::read(&committed(folder::EXPECTED)).unwrap();
    let mut compared = 0;
    for case in small() {
        for part in ["q", "k", "cos", "sin"] {
            let name = format!("{}.{part}", case.name);
            let (ours, exact) = (ours.get(&name).unwrap(), exact.get(&name).unwrap());
            assert_eq!(ours.shape, exact.shape, "{name}");
            for (ours, exact) in ours.values.iter().zip(&exact.values) {
                // A pair is at most 2.9 long, times a factor of 1.5: a few units of f64.
                assert!((ours - exact).abs() <= 8.0 * f64::EPSILON, "{name}: {ours} {exact}");
                compared += 1;
            }
        }
    }
    assert!(compared > 50_000, "{compared}");
}
