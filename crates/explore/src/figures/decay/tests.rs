//! Curves against the notes, the paper and the design.

use super::*;

fn ask(curve: Curve) -> Ask {
    Ask { curve, ..Ask::default() }
}

fn at(ask: &Ask, distance: f64) -> f64 {
    decay(&Ask { at: distance, ..ask.clone() }).unwrap().value
}

#[track_caller]
fn close(got: f64, wanted: f64, bound: f64) {
    assert!((got - wanted).abs() <= bound, "{got}, not {wanted}");
}

#[test]
fn the_bound_is_the_papers() {
    let bound = decay(&ask(Curve::Bound)).unwrap();
    let wanted = [32.5, 17.95, 12.63, 10.23, 6.55, 4.47];
    assert_eq!(bound.marks.len(), wanted.len());
    for (mark, wanted) in bound.marks.iter().zip(wanted) {
        close(mark.value, wanted, 0.005);
        assert_eq!(at(&ask(Curve::Bound), mark.distance), mark.value);
    }
    // It falls on the whole, and not steadily.
    let line = &bound.lines[0];
    assert!(line.windows(2).any(|pair| pair[1] > pair[0]));
    assert!(line[line.len() - 1] < line[0] / 5.0);
    assert!(bound.usual.is_none());
    let other = decay(&Ask { base: 5e5, ..ask(Curve::Bound) }).unwrap();
    assert_eq!(other.usual.unwrap().len(), other.distances.len());
}

#[test]
fn alike_vectors_fall_below_zero() {
    let ones = ask(Curve::Ones);
    for (distance, wanted) in [(0.0, 64.0), (10.0, 42.8), (100.0, 30.5), (1000.0, 10.2), (4096.0, -3.4)] {
        close(at(&ones, distance), wanted, 0.05);
    }
    let ones = decay(&ones).unwrap();
    assert_eq!(ones.first_negative, Some(1707));
    assert!(ones.marks.iter().any(|mark| mark.distance == 1707.0 && mark.value < 0.0));
    assert!(ones.marks.is_sorted_by_key(|mark| mark.distance as u64));
    let larger = decay(&Ask { base: 1e8, ..ask(Curve::Ones) }).unwrap();
    assert_eq!((larger.first_negative, larger.searched), (None, SEARCH / 64));
    // The axis holds the usual base too, where that is lower.
    let far = decay(&Ask { base: 1e8, reach: 20_000.0, ..ask(Curve::Ones) }).unwrap();
    assert!(far.limits[0] < 0.0 && far.lines[0].iter().all(|&value| value > 0.0));
}

#[test]
fn random_vectors_do_not_decay() {
    let random = decay(&ask(Curve::Random)).unwrap();
    assert_eq!(random.lines.len(), 4);
    assert!(random.lines[0].iter().all(|&mean| mean == 0.0));
    close(random.deviation.unwrap(), 128f64.sqrt(), 1e-12);
    // An example strays as far at the end as at the beginning.
    let size = |line: &[f64]| (line.iter().map(|x| x * x).sum::<f64>() / line.len() as f64).sqrt();
    let middle = random.distances.len() / 2;
    let sizes = |range: std::ops::Range<usize>| {
        random.lines[1..].iter().map(|line| size(&line[range.clone()])).sum::<f64>() / 3.0
    };
    assert!(sizes(middle..2 * middle) > 0.4 * sizes(0..middle));
    // What both share does.
    let shared = decay(&Ask { share: 0.5, ..ask(Curve::Random) }).unwrap();
    let (first, last) = (shared.lines[0][0], shared.lines[0][shared.distances.len() - 1]);
    close(first, 0.25 * 128.0, 1e-9);
    assert!(last < first / 2.0);
}

#[test]
fn the_notes_three_frequencies() {
    let three = ask(Curve::Three);
    for (distance, wanted, bound) in [
        (0.0, 3.0, 0.0),
        (2.0, 1.404, 5e-4),
        (20.0, 1.909, 5e-4),
        (50.0, -0.596, 5e-4),
        (126.0, 2.94, 5e-3),
        (377.0, 2.99996, 5e-6),
    ] {
        close(at(&three, distance), wanted, bound);
    }
}

#[test]
fn one_pair_comes_back() {
    // A phase of 1.5 at θ = 0.1: the peak is at 15.
    let one = decay(&Ask { phase: 1.5, ..ask(Curve::One) }).unwrap();
    close(one.marks[0].distance, 15.0, 1e-12);
    for (mark, wanted) in one.marks.iter().zip([1.0, -1.0, 1.0]) {
        close(mark.value, wanted, 1e-12);
    }
    let behind = decay(&Ask { phase: -1.5, ..ask(Curve::One) }).unwrap();
    close(behind.marks[0].value, 1.0, 1e-12);
    assert!(behind.marks[0].distance > 0.0);
}

#[test]
fn a_key_can_be_made_to_peak_anywhere() {
    for aim in [0.0, 7.0, 200.0, 777.0] {
        let before = decay(&Ask { aim, ..ask(Curve::Own) }).unwrap();
        let after = decay(&Ask { k: List(before.aimed), ..ask(Curve::Own) }).unwrap();
        assert_eq!(after.marks[0].distance, aim);
        close(after.marks[0].value, after.limits[1], 1e-12);
    }
}

#[test]
fn hostile_questions_are_refused() {
    let refused = |ask: Ask| decay(&ask).unwrap_err().to_string();
    assert!(refused(Ask { reach: f64::NAN, ..ask(Curve::Bound) }).contains("reach is NaN"));
    assert!(refused(Ask { at: -1.0, ..ask(Curve::Three) }).contains("at is -1"));
    assert!(refused(Ask { dim: 7, ..ask(Curve::Ones) }).contains('7'));
    assert!(refused(Ask { dim: usize::MAX, ..ask(Curve::Ones) }).contains("dim"));
    assert!(refused(Ask { base: f64::INFINITY, ..ask(Curve::Random) }).contains("base"));
    assert!(refused(Ask { share: f64::NAN, ..ask(Curve::Random) }).contains("share"));
    assert!(refused(Ask { theta: 0.0, ..ask(Curve::One) }).contains("theta"));
    assert!(refused(Ask { phase: 9.0, ..ask(Curve::One) }).contains("phase"));
    assert!(refused(Ask { q: List(vec![1.0; 3]), ..ask(Curve::Own) }).contains("3 numbers"));
    assert!(refused(Ask { q: List(vec![]), k: List(vec![]), ..ask(Curve::Own) }).contains("0 numbers"));
    let huge = List(vec![1e9; 12]);
    assert!(refused(Ask { q: huge, ..ask(Curve::Own) }).contains("a feature of q or k is 1000000000"));
    // The largest that can be asked for.
    for curve in [Curve::Bound, Curve::Ones, Curve::Random] {
        let seed = u64::MAX;
        let most = decay(&Ask { dim: 512, base: 1e12, reach: 1e6, at: 1e6, seed, ..ask(curve) }).unwrap();
        assert!(most.lines.iter().flatten().all(|value| value.is_finite()));
    }
}
