//! What encodings do to the scores.

use super::chromium::Chromium;
use super::decay::fixed;
use super::page;
use super::pictures;
use rope::{Rope, analysis};

fn shown(browser: &mut Chromium, control: &str) -> i64 {
    browser.control("biases", control) as i64
}

/// The table below the figure, without its head: `[6][3]`.
fn table(browser: &mut Chromium) -> Vec<Vec<String>> {
    let cells = browser.eval(
        "[...document.querySelectorAll('#biases tbody tr')].map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))",
    );
    serde_json::from_value(cells).unwrap()
}

/// Asserts that the fixed rules are in the table at a distance.
fn is_told(browser: &mut Chromium, distance: i64, slope: f64, base: f64) {
    let frequencies = Rope::builder(128).base(base).build().unwrap().frequencies(None);
    let table = table(browser);
    for (column, distance) in [distance, -distance, distance + 10 * distance.signum()].into_iter().enumerate()
    {
        let away = distance.unsigned_abs() as f64;
        assert_eq!(table[1][column], fixed(-slope * away, 3));
        assert_eq!(table[2][column], fixed(-(1.0 + 0.5 * away).ln(), 3));
        assert_eq!(table[4][column], fixed(analysis::cosine_sum(frequencies.inv_freq(), away) / 64.0, 3));
    }
}

#[test]
fn every_encoding_is_told_at_a_query_and_a_key() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("biases");
    // The third of eight heads has the slope 1/8.
    is_told(&mut browser, 24, 0.125, 1e4);
    pictures::beginning(&mut browser, "biases", "biases");

    // Every picture can be dragged.
    for map in 0..6 {
        browser.set("biases", "m", "40");
        browser.set("biases", "n", "16");
        let at = browser.middle(&format!("#biases [data-drag=map{map}] circle"));
        browser.drag(at, (40.0, -60.0), 8);
        browser.settle("biases");
        let (m, n) = (shown(&mut browser, "m"), shown(&mut browser, "n"));
        assert!(m < 40 && n > 16, "{map}: {m} {n}");
        is_told(&mut browser, m - n, 0.125, 1e4);
    }
    let at = browser.middle("#biases [data-drag=map1] circle");
    browser.point((at.0 + 12.0, at.1 - 8.0));
    browser.wait_for("document.querySelector('#biases figcaption').textContent.startsWith('ALiBi, query ')");

    // Head, base, bound, length, other vectors.
    browser.set("biases", "m", "10");
    browser.set("biases", "n", "30");
    browser.set("biases", "head", "1");
    browser.set("biases", "base", "1000");
    is_told(&mut browser, -20, 0.5, 1e3);
    // Beyond Shaw's bound further is the same; within a larger bound it is not.
    let shaw = |browser: &mut Chromium| (table(browser)[3][0].clone(), table(browser)[3][2].clone());
    let (here, further) = shaw(&mut browser);
    assert_eq!(here, further);
    browser.set("biases", "reach", "32");
    let (here, further) = shaw(&mut browser);
    assert_ne!(here, further);
    let before = table(&mut browser);
    browser.set("biases", "seed", "7");
    let after = table(&mut browser);
    assert_eq!(before[..3], after[..3]);
    assert_ne!((&before[3], &before[5]), (&after[3], &after[5]));
    browser.set("biases", "length", "24");
    let formula = browser.eval("document.querySelector('#biases math').textContent");
    assert!(formula.as_str().unwrap().contains("m−n=−13"), "{formula}");
    browser.set("biases", "length", "64");

    browser.eval("document.getElementById('biases-m').focus()");
    browser.press("ArrowRight");
    browser.settle("biases");
    is_told(&mut browser, -19, 0.5, 1e3);
    let numbers = table(&mut browser);
    browser.reopen("biases");
    assert_eq!(table(&mut browser), numbers);
    browser.is_content(&url);
}
