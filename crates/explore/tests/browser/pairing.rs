//! Interleaved and half.

use super::chromium::{Chromium, DESK, PHONE};
use super::page;
use super::pictures;
use rope::{Pairing, Rope, reference};
use serde_json::{Value, json};

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Turned vectors and scores are what the reference makes of the query as it stands; returns the query.
fn agrees(browser: &mut Chromium) -> Vec<f64> {
    browser.settle("pairing");
    let text = browser.eval("document.getElementById('pairing-q').value");
    let q: Vec<f64> = text.as_str().unwrap().split(',').map(|value| value.trim().parse().unwrap()).collect();
    let [m, n, base] = ["m", "n", "base"].map(|name| browser.control("pairing", name));
    let frequencies = Rope::builder(q.len()).base(base).build().unwrap().frequencies(None);
    let theta = frequencies.inv_freq();
    let data = browser.data("pairing");
    assert_eq!(numbers(&data["interleaved"]["q"]), q);
    let key = [2.0, 1.0, -1.0, 1.0, 0.5, -2.0, 1.0, 1.0, -0.5, 1.5, 2.0, -1.0, 1.0, 0.5, -1.0, 2.0];
    let key = &key[..q.len()];
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let turned = |x: &[f64], position: f64, pairing| reference::rotate(x, position, theta, 1.0, pairing);
    let [interleaved, half] = [Pairing::Interleaved, Pairing::Half];
    for (name, pairing) in [("interleaved", interleaved), ("half", half)] {
        let expected = turned(&q, m, pairing);
        let shown = numbers(&data[name]["turned"]);
        assert!(expected.iter().zip(shown).all(|(a, b)| (a - b).abs() < 1e-12), "{name} {data}");
    }
    let scores = [
        ("interleaved", product(&turned(&q, m, interleaved), &turned(key, n, interleaved))),
        ("half", product(&turned(&q, m, half), &turned(key, n, half))),
        ("mixed", product(&turned(&q, m, interleaved), &turned(key, n, half))),
        // Permuted weights give the interleaved score back.
        ("permuted", product(&turned(&q, m, interleaved), &turned(key, n, interleaved))),
    ];
    for (name, score) in scores {
        let expected = format!("{score:.4}").replace('-', "−").replace("−0.0000", "0.0000");
        assert_eq!(browser.value("pairing", name), expected, "{name}");
    }
    q
}

#[test]
fn the_same_numbers_paired_in_two_ways() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("pairing");
    assert_eq!(agrees(&mut browser), [1.0, 2.0, 3.0, 4.0]);
    assert!(browser.value("pairing", "verdict").contains("differ"));
    pictures::with_figure(&mut browser, "pairing");

    // The vector that shows nothing.
    browser.eval("document.querySelector('#pairing [data-preset=\"1\"]').click()");
    assert_eq!(agrees(&mut browser), [1.0, 0.0, 0.0, 1.0]);
    assert!(!browser.value("pairing", "verdict").contains("differ"));
    browser.screenshot("pairing-alike");

    // A bar is dragged up, in either panel.
    browser.eval("document.querySelector('#pairing [data-preset=\"0\"]').click()");
    agrees(&mut browser);
    let at = browser.middle("#pairing [data-drag=x1] .knob");
    browser.drag(at, (0.0, -12.0), 6);
    let q = agrees(&mut browser);
    assert!(q[1] > 2.5 && q[0] == 1.0 && q[2] == 3.0, "{q:?}");
    // With permuted weights the second place of the right panel holds feature 2.
    browser.set("pairing", "permuted", "true");
    let place = "[...document.querySelectorAll('#pairing [data-drag]')].map((e) => e.dataset.drag).join()";
    assert_eq!(browser.eval(place), json!("x0,x1,x2,x3,x0,x2,x1,x3"));
    browser.screenshot("pairing-permuted");
    let (x, y) = browser.middle("#pairing svg > g:nth-child(2) [data-drag=x2] .knob");
    browser.drag((x, y), (0.0, 25.0), 6);
    let q = agrees(&mut browser);
    assert!(q[2] < 2.0, "{q:?}");
    browser.point((x, y));
    let caption = browser.eval("document.querySelector('#pairing figcaption').textContent");
    assert!(caption.as_str().unwrap().starts_with("Feature 1 forms pair 1 with feature 3"), "{caption}");

    // Every control and preset; the keyboard through the line of text and the sliders.
    for preset in [2, 3] {
        browser.eval(&format!("document.querySelector('#pairing [data-preset=\"{preset}\"]').click()"));
        assert_eq!(agrees(&mut browser).len(), 8 * (preset - 1));
        browser.screenshot(&format!("pairing-{}", 8 * (preset - 1)));
    }
    browser.eval("document.querySelector('#pairing [data-preset=\"2\"]').click()");
    agrees(&mut browser);
    assert_eq!(
        browser.eval(place),
        json!("x0,x1,x2,x3,x4,x5,x6,x7,x0,x2,x4,x6,x1,x3,x5,x7"),
        "{}",
        browser.data("pairing")["permuted"]["q"]
    );
    browser.eval("document.querySelector('#pairing [data-preset=\"3\"]').click()");
    browser.looks(PHONE);
    browser.settle("pairing");
    browser.middle("#pairing .drawing");
    browser.screenshot("pairing-phone-16");
    browser.looks(DESK);
    browser.part("pairing");
    for (name, value) in [("q", "0.5,-1,2,2.5,-3,1"), ("m", "7"), ("n", "7"), ("base", "100")] {
        browser.set("pairing", name, value);
        agrees(&mut browser);
    }
    // At the same position both give the plain product.
    assert_eq!(browser.value("pairing", "interleaved"), browser.value("pairing", "half"));
    browser.eval("document.getElementById('pairing-n').focus()");
    browser.press("ArrowLeft");
    agrees(&mut browser);
    assert_ne!(browser.value("pairing", "interleaved"), browser.value("pairing", "half"));

    let score = browser.value("pairing", "half");
    browser.wait_for("location.hash.includes('pairing.n=6')");
    browser.reopen("pairing");
    assert_eq!(browser.value("pairing", "half"), score);
    browser.is_content(&url);
}

#[test]
fn a_query_that_is_none_is_answered_in_words() {
    let Some((mut browser, _)) = page() else { return };
    browser.part("pairing");
    for (text, reason) in
        [("1,2,3", "the query has 3 features"), ("1,2,x,4", "not a number"), ("", "0 features")]
    {
        browser.set("pairing", "q", text);
        let alert = browser.eval("document.querySelector('#pairing .alert').textContent");
        assert!(alert.as_str().unwrap().contains(reason), "{alert}");
    }
    browser.set("pairing", "q", "4,3,2,1");
    assert_eq!(browser.eval("document.querySelector('#pairing .alert').hidden"), json!(true));
    agrees(&mut browser);
}
