//! The receptive-field variant.

use super::chromium::Chromium;
use super::decay::fixed;
use super::page;
use super::pictures;
use serde_json::{Value, json};

/// The score of alike vectors, from the frequencies of the rule.
fn score(alpha: f64, rho: f64, distance: f64) -> f64 {
    let moved = |j: i32| alpha / 1e4f64.powf(rho) + (1.0 - alpha) * 1e4f64.powf(-f64::from(j) / 64.0);
    (0..64).map(|j| (distance * moved(j)).cos()).sum()
}

fn formula(browser: &mut Chromium) -> String {
    browser.eval("document.querySelector('#receptive math').textContent").as_str().unwrap().to_string()
}

#[test]
fn a_rule_that_is_rotation_with_other_frequencies() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("receptive");
    assert_eq!(browser.value("receptive", "rotation"), fixed(score(0.5, 0.5, 200.0), 6));
    assert!(formula(&mut browser).contains(&fixed(score(0.5, 0.5, 200.0), 4)));
    assert_eq!(browser.value("receptive", "phi"), "0.005");
    assert_eq!(browser.value("receptive", "stretch"), "2");
    pictures::beginning(&mut browser, "receptive", "receptive");

    let at = browser.middle("#receptive [data-drag=at] rect");
    browser.drag(at, (150.0, 0.0), 10);
    browser.settle("receptive");
    let distance = browser.control("receptive", "at");
    assert!(distance > 350.0);
    assert_eq!(browser.value("receptive", "rotation"), fixed(score(0.5, 0.5, distance), 6));
    let at = browser.middle("#receptive .drawing svg");
    browser.point((at.0, at.1 - 100.0));
    browser.wait_for("document.querySelector('#receptive figcaption').textContent.includes('usual')");

    // φ next to nothing: linear interpolation, the usual score at a quarter of the distance.
    browser.set("receptive", "alpha", "0.75");
    browser.set("receptive", "rho", "2");
    browser.set("receptive", "at", "400");
    let usual = score(0.0, 0.0, 100.0);
    assert!((browser.data("receptive")["here"]["a"].as_f64().unwrap() - usual).abs() < 1e-9);
    assert_eq!(browser.value("receptive", "stretch"), "4");

    // A Hilbert pair below 1 alone.
    let verdict = |browser: &mut Chromium| browser.value("receptive", "hilbert");
    let parts = |browser: &mut Chromium| browser.data("receptive")["here"].clone();
    assert!(verdict(&mut browser).starts_with("b′ is the Hilbert transform of a′"));
    browser.set("receptive", "alpha", "1");
    assert!(verdict(&mut browser).starts_with("At α = 1 a′ and b′ are constants"));
    assert_eq!(parts(&mut browser)["a"].as_f64(), Some(64.0));
    assert!(browser.value("receptive", "stretch").starts_with('∞'));
    browser.set("receptive", "alpha", "1.25");
    assert!(verdict(&mut browser).starts_with("Above α = 1"));
    let here = parts(&mut browser);
    assert_eq!(here["transform"].as_f64().unwrap(), -here["b"].as_f64().unwrap());
    browser.screenshot("receptive-above-desk");

    // Random vectors, how far, how wide.
    let is_seed_shown = "document.getElementById('receptive-seed').closest('.control').offsetHeight > 0";
    assert_eq!(browser.eval(is_seed_shown), json!(false));
    browser.set("receptive", "vectors", "random");
    assert_eq!(browser.eval(is_seed_shown), json!(true));
    let before: Value = parts(&mut browser);
    browser.set("receptive", "seed", "4");
    assert_ne!(parts(&mut browser), before);
    browser.set("receptive", "reach", "300");
    assert_eq!(browser.control("receptive", "at"), 300.0);
    browser.set("receptive", "dim", "16");
    browser.set("receptive", "base", "500");
    assert_eq!(browser.data("receptive")["theta"].as_array().unwrap().len(), 8);
    browser.eval("document.getElementById('receptive-rho').focus()");
    browser.press("ArrowLeft");
    browser.settle("receptive");
    assert_eq!(browser.control("receptive", "rho"), 1.99);

    let value = formula(&mut browser);
    browser.reopen("receptive");
    assert_eq!(formula(&mut browser), value);
    browser.is_content(&url);
}
