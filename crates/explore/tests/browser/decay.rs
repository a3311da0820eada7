//! Score against distance.

use super::chromium::Chromium;
use super::page;
use super::pictures;
use rope::{Pairing, Rope, analysis, reference};
use serde_json::{Value, json};

/// A number as the page writes it: so many digits after the point, a true minus.
pub fn fixed(value: f64, digits: usize) -> String {
    format!("{value:.digits$}").replace('-', "−")
}

fn theta(dim: usize, base: f64) -> Vec<f64> {
    Rope::builder(dim).base(base).build().unwrap().frequencies(None).inv_freq().to_vec()
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn every_curve_is_read_at_the_cursor() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("decay");

    // The bound, from its definition: 12.63 at distance 50 for 128 features and base 10000.
    let bound = |theta: &[f64], distance: f64| {
        let part = |count: usize| {
            let sums =
                theta[..count].iter().map(|theta| ((distance * theta).cos(), (distance * theta).sin()));
            let (real, imaginary) =
                sums.fold((0.0, 0.0), |sum: (f64, f64), next| (sum.0 + next.0, sum.1 + next.1));
            (real * real + imaginary * imaginary).sqrt()
        };
        (1..=theta.len()).map(part).sum::<f64>() / theta.len() as f64
    };
    let usual = theta(128, 1e4);
    assert_eq!(browser.value("decay", "value"), "12.6295");
    let at = browser.middle("#decay [data-drag=at] rect");
    browser.drag(at, (200.0, 0.0), 10);
    browser.settle("decay");
    let distance = browser.control("decay", "at");
    assert!(distance > 250.0 && distance < 600.0, "{distance}");
    assert_eq!(browser.value("decay", "value"), fixed(bound(&usual, distance), 4));
    pictures::beginning(&mut browser, "decay", "decay-bound");
    // Pointing at the curve tells its value.
    let at = browser.middle("#decay .drawing svg");
    browser.point(at);
    browser.wait_for("document.querySelector('#decay figcaption').textContent.startsWith('Δ = ')");

    // The base and the width: the usual base stays for comparison, and the bound is higher far away.
    browser.set("decay", "base", "500000");
    browser.set("decay", "dim", "64");
    browser.set("decay", "at", "777");
    assert_eq!(browser.value("decay", "value"), fixed(bound(&theta(64, 5e5), 777.0), 4));
    let data = browser.data("decay");
    let (lines, compared) = (numbers(&data["lines"][0]), numbers(&data["usual"]));
    assert!(lines.last() > compared.last());

    // Alike: where it first is negative.
    browser.set("decay", "dim", "128");
    browser.set("decay", "base", "10000");
    browser.set("decay", "curve", "ones");
    assert_eq!(browser.control("decay", "reach"), 2000.0);
    assert!(
        browser.value("decay", "about").contains("At Δ = 1\u{202f}707 it is negative for the first time")
    );
    // What is said of larger bases is so.
    let about = browser.value("decay", "about").replace('\u{202f}', " ");
    for (base, name) in [(1e4, "10 000"), (1.2e4, "12 000"), (1e5, "100 000")] {
        let first = analysis::first_negative(&theta(128, base), 10_000).unwrap();
        let first = format!("{} {:03} at", first / 1000, first % 1000);
        assert!(
            about.contains(&format!("{first} {name}")) || about.contains(&format!("{first} base {name}")),
            "{about}"
        );
    }
    assert!(about.contains("but not steadily"), "{about}");
    browser.set("decay", "at", "1000");
    assert_eq!(browser.value("decay", "value"), fixed(analysis::cosine_sum(&usual, 1000.0), 4));
    browser.screenshot("decay-ones-desk");

    // Random: zero at every distance, until both have something in common.
    browser.set("decay", "curve", "random");
    assert!(browser.value("decay", "about").contains("√d = 11.31"));
    assert!(numbers(&browser.data("decay")["lines"][0]).iter().all(|&mean| mean == 0.0));
    let examples = browser.data("decay")["lines"][1].clone();
    browser.set("decay", "seed", "2");
    assert_ne!(browser.data("decay")["lines"][1], examples);
    browser.screenshot("decay-random-desk");
    browser.set("decay", "share", "0.5");
    browser.set("decay", "at", "0");
    assert_eq!(browser.value("decay", "value"), "32.0000");

    // The notes' three cosines.
    browser.set("decay", "curve", "three");
    for distance in [2.0f64, 20.0, 50.0, 126.0, 377.0] {
        browser.set("decay", "at", &distance.to_string());
        let sum = distance.cos() + (0.3 * distance).cos() + (0.05 * distance).cos();
        assert_eq!(browser.value("decay", "value"), fixed(sum, 5));
    }
    let about = browser.value("decay", "about");
    assert!(about.contains("S(20) is 1.909") && about.contains("2.99996"), "{about}");
    pictures::beginning(&mut browser, "decay", "decay-three");
    // The keyboard moves the cursor.
    browser.eval("document.getElementById('decay-at').focus()");
    browser.press("ArrowRight");
    browser.settle("decay");
    assert_eq!(browser.control("decay", "at"), 378.0);
    // A cursor beyond the last distance goes along.
    browser.set("decay", "reach", "100");
    assert_eq!(browser.control("decay", "at"), 100.0);

    // One pair: a phase of 1.5 at θ = 0.1 has its peak at 15.
    browser.set("decay", "curve", "one");
    browser.set("decay", "theta", "0.1");
    browser.set("decay", "phase", "1.5");
    browser.set("decay", "at", "15");
    assert_eq!(browser.value("decay", "value"), "1.0000");
    assert!(browser.value("decay", "about").contains("the peak is at 1.5/θ = 15"));
    browser.screenshot("decay-one-desk");
    browser.is_content(&url);
}

#[test]
fn own_vectors_peak_where_they_are_told_to() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("decay");
    let is_shown = "document.getElementById('decay-aim').closest('.control').offsetHeight > 0";
    assert_eq!(browser.eval(is_shown), json!(false));
    browser.set("decay", "curve", "own");
    assert_eq!(browser.eval(is_shown), json!(true));

    // A hand is dragged: its two numbers change, and the score with them.
    let list = |browser: &mut Chromium, name: &str| -> Vec<f64> {
        let text = browser.eval(&format!("document.getElementById('decay-{name}').value"));
        text.as_str().unwrap().split(',').map(|number| number.parse().unwrap()).collect()
    };
    let (q, score) = (list(&mut browser, "q"), browser.value("decay", "value"));
    let tip = browser.middle("#decay [data-drag=q2] circle");
    browser.drag(tip, (18.0, 24.0), 8);
    browser.settle("decay");
    let moved = list(&mut browser, "q");
    assert_eq!((&q[..4], &q[6..]), (&moved[..4], &moved[6..]));
    assert!(moved[4] > q[4] && moved[5] < q[5], "{q:?} {moved:?}");
    assert_ne!(browser.value("decay", "value"), score);
    let tip = browser.middle("#decay [data-drag=k0] circle");
    browser.drag(tip, (-30.0, -10.0), 8);
    browser.settle("decay");

    // The score is that of the two vectors, turned by m and n.
    let (q, k) = (list(&mut browser, "q"), list(&mut browser, "k"));
    let frequencies = theta(12, 1e4);
    let score = |q: &[f64], k: &[f64], distance: f64| {
        let turned = |x: &[f64], position: f64| {
            reference::rotate(x, position, &frequencies, 1.0, Pairing::Interleaved)
        };
        turned(q, 1000.0).iter().zip(turned(k, 1000.0 - distance)).map(|(q, k)| q * k).sum::<f64>()
    };
    browser.set("decay", "at", "37");
    assert_eq!(browser.value("decay", "value"), fixed(score(&q, &k, 37.0), 4));

    // The button.
    browser.set("decay", "aim", "321");
    browser.eval("document.querySelector('#decay [data-action=aim]').click()");
    browser.settle("decay");
    assert_eq!(browser.data("decay")["marks"][0]["distance"].as_f64(), Some(321.0));
    assert!(browser.value("decay", "about").contains("highest at Δ = 321"));
    let k = list(&mut browser, "k");
    for distance in [0.0, 320.0, 322.0, 900.0] {
        assert!(score(&q, &k, 321.0) > score(&q, &k, distance));
    }
    pictures::beginning(&mut browser, "decay", "decay-own");

    // What is no vector is refused, and said.
    browser.set("decay", "k", "1,2,x");
    let alert = browser.eval("document.querySelector('#decay .alert').textContent");
    assert!(alert.as_str().unwrap().contains("\"x\" in a list is not a number"), "{alert}");
    let restored: Vec<String> = k.iter().map(f64::to_string).collect();
    browser.complaints.clear(); // the browser notes the refusal
    browser.set("decay", "k", &restored.join(","));
    assert_eq!(browser.eval("document.querySelector('#decay .alert').hidden"), json!(true));

    // The address holds it all.
    let value = browser.value("decay", "value");
    browser.reopen("decay");
    assert_eq!(browser.value("decay", "value"), value);
    assert_eq!(list(&mut browser, "k"), k);
    browser.is_content(&url);
}
