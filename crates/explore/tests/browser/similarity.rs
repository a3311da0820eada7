//! Sinusoidal codes and their products.

use super::chromium::Chromium;
use super::decay::fixed;
use super::page;
use super::pictures;
use roformer::encoding::{shift, sinusoid};
use serde_json::json;

fn shown(browser: &mut Chromium, control: &str) -> usize {
    browser.control("similarity", control) as usize
}

#[test]
fn any_two_codes_are_compared() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("similarity");
    let product = |m: f64, n: f64, dim: usize| {
        let code =
            |position: f64| (0..dim).map(|feature| sinusoid(position, feature, dim)).collect::<Vec<_>>();
        // One code multiplied with the other, moved to where it stands.
        let other = shift(&code(0.0), n);
        code(m).iter().zip(other).map(|(a, b)| a * b).sum::<f64>()
    };
    let is_shown = |browser: &mut Chromium, m: usize, n: usize, dim: usize| {
        assert_eq!((shown(browser, "m"), shown(browser, "n")), (m, n));
        let formula = browser.eval("document.querySelector('#similarity math').textContent");
        let wanted = fixed(product(m as f64, n as f64, dim), 4);
        // Here, mirrored and moved.
        assert_eq!(formula.as_str().unwrap().matches(&wanted).count(), 3, "{formula} {wanted}");
    };
    is_shown(&mut browser, 50, 20, 128);
    assert!(browser.value("similarity", "spread").contains("e−1"));
    pictures::beginning(&mut browser, "similarity", "similarity");

    // A cell of the matrix, and each row of the codes.
    let at = browser.middle("#similarity [data-drag=cell] circle");
    browser.drag(at, (60.0, -40.0), 8);
    browser.settle("similarity");
    let (m, n) = (shown(&mut browser, "m"), shown(&mut browser, "n"));
    assert!(m < 50 && n > 20, "{m} {n}");
    is_shown(&mut browser, m, n, 128);
    browser.set("similarity", "m", "30");
    browser.set("similarity", "n", "60");
    for (row, by) in [("m", 50.0), ("n", -40.0)] {
        let before = shown(&mut browser, row);
        let at = browser.middle(&format!("#similarity [data-drag={row}] circle"));
        browser.drag(at, (0.0, by), 6);
        browser.settle("similarity");
        assert_eq!(shown(&mut browser, row) > before, by > 0.0);
    }
    let (m, n) = (shown(&mut browser, "m"), shown(&mut browser, "n"));
    is_shown(&mut browser, m, n, 128);
    let at = browser.middle("#similarity [data-drag=cell] circle");
    browser.point((at.0 + 12.0, at.1 + 12.0));
    browser.wait_for("document.querySelector('#similarity figcaption').textContent.startsWith('m = ')");

    // Other sizes, the keyboard, and a position that is no longer shown.
    browser.set("similarity", "dim", "32");
    browser.set("similarity", "m", "3");
    browser.set("similarity", "n", "11");
    browser.eval("document.getElementById('similarity-n').focus()");
    browser.press("ArrowLeft");
    browser.settle("similarity");
    is_shown(&mut browser, 3, 10, 32);
    assert_eq!(browser.value("similarity", "mirror"), "−4");
    browser.set("similarity", "length", "8");
    assert_eq!(browser.data("similarity")["codes"].as_array().unwrap().len(), 8);
    assert_eq!(browser.value("similarity", "n"), "7");
    assert_eq!(browser.eval("document.querySelector('#similarity .alert').hidden"), json!(true));

    let level = browser.value("similarity", "level");
    browser.reopen("similarity");
    assert_eq!(browser.value("similarity", "level"), level);
    browser.is_content(&url);
}
