//! Linear attention: its cost and its weights.

use super::chromium::Chromium;
use super::decay::fixed;
use super::page;
use super::pictures;
use roformer_explore::figures::linear;
use serde_json::json;

/// Asserts the costs of a length, from their formulas.
fn costs(browser: &mut Chromium) {
    let [length, dim, features] =
        ["length", "dim", "features"].map(|control| browser.control("linear", control));
    let cost = browser.data("linear")["cost"].clone();
    assert_eq!(cost["softmax"].as_f64(), Some(2.0 * length * length * dim));
    assert_eq!(cost["linear"].as_f64(), Some(2.0 * length * features * (dim + 1.0)));
}

#[test]
fn costs_and_weights() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("linear");
    costs(&mut browser);
    assert_eq!(browser.value("linear", "softmax"), "2.15 × 10⁹");
    assert_eq!(browser.value("linear", "linear"), "3.41 × 10⁷");
    assert_eq!(browser.value("linear", "crossing"), "65");
    pictures::beginning(&mut browser, "linear", "linear");

    let at = browser.middle("#linear [data-drag=length] rect");
    browser.drag(at, (-120.0, 0.0), 10);
    browser.settle("linear");
    assert!(browser.control("linear", "length") < 2000.0);
    costs(&mut browser);
    browser.set("linear", "dim", "128");
    browser.set("linear", "features", "256");
    browser.set("linear", "length", "100");
    costs(&mut browser);
    assert_eq!(browser.value("linear", "crossing"), "258");
    let cost = browser.data("linear")["cost"].clone();
    assert!(cost["softmax"].as_f64() < cost["linear"].as_f64());

    // Another query of the example: its weights.
    let at = browser.middle("#linear [data-drag=query] rect");
    browser.drag(at, (-110.0, 0.0), 8);
    browser.settle("linear");
    let query = browser.control("linear", "query") as usize;
    assert!(query < 8, "{query}");
    let wanted = linear::linear(&linear::Ask { query, ..linear::Ask::default() }).unwrap();
    assert_eq!(browser.value("linear", "sum"), fixed(wanted.rotated.sum, 4));
    assert_eq!(browser.value("linear", "least"), fixed(wanted.rotated.least, 4));
    assert!((wanted.plain.sum - 1.0).abs() < 1e-12 && (wanted.rotated.sum - 1.0).abs() > 1e-3);
    let heights = browser.eval("document.querySelectorAll('#linear .drawing .tip').length");
    assert_eq!(heights, json!(2 * linear::TOKENS));

    browser.set("linear", "seed", "5");
    browser.set("linear", "base", "100");
    browser.eval("document.getElementById('linear-query').focus()");
    browser.press("ArrowRight");
    browser.settle("linear");
    let ask = linear::Ask { query: query + 1, seed: 5, base: 100.0, ..linear::Ask::default() };
    let wanted = linear::linear(&ask).unwrap();
    assert_eq!(browser.value("linear", "sum"), fixed(wanted.rotated.sum, 4));
    assert_eq!(browser.value("linear", "turned"), fixed(wanted.denominators[0], 2));
    assert_eq!(browser.value("linear", "negative"), wanted.rotated.negative.to_string());

    let sum = browser.value("linear", "sum");
    browser.reopen("linear");
    assert_eq!(browser.value("linear", "sum"), sum);
    costs(&mut browser);
    browser.is_content(&url);
}
