//! Four codes of a position.

use super::page;
use super::pictures::{self, number};
use roformer::encoding::sinusoid;
use serde_json::json;

/// How far the sinusoidal codes of two positions are from each other.
fn distance(m: f64, n: f64, width: usize) -> f64 {
    let difference = |feature| sinusoid(m, feature, width) - sinusoid(n, feature, width);
    (0..width).map(|feature| difference(feature).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn codes_of_a_position() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("codes");
    // 0111 → 1000.
    assert_eq!(browser.value("codes", "flips"), "4 of 4 digits");
    assert_eq!(browser.value("codes", "far"), ", and from 7 to 15 a single one");
    assert_eq!(
        (browser.value("codes", "share"), browser.value("codes", "half")),
        ("0.4375".into(), "0.2188".into())
    );
    let step = number(&browser.value("codes", "step"));
    assert!((step - distance(7.0, 8.0, 26)).abs() < 5e-4);
    let factor = number(&browser.value("codes", "factor"));
    assert!((factor - 10_000f64.powf(2.0 / 26.0)).abs() < 5e-3);

    // The handle, to the left: another position, the same step.
    let at = browser.middle("#codes [data-drag=m] rect");
    browser.drag(at, (-120.0, 0.0), 10);
    browser.settle("codes");
    let m = number(&browser.value("codes", "m"));
    assert!((2.0..7.0).contains(&m), "{m}");
    assert_eq!(number(&browser.value("codes", "share")), m / 16.0);
    assert_eq!(number(&browser.value("codes", "step")), step);

    // The keyboard, and no further than the text.
    browser.set("codes", "m", "14");
    browser.eval("document.getElementById('codes-m').focus()");
    for _ in 0..3 {
        browser.press("ArrowRight");
    }
    browser.settle("codes");
    assert_eq!(browser.control("codes", "m"), 15.0);
    browser.set("codes", "m", "40");
    assert_eq!(browser.value("codes", "m"), "15");

    // A longer text: the share falls, the sinusoidal code stays.
    let code = browser.data("codes")["sinusoidal"][15].clone();
    browser.set("codes", "length", "60");
    assert_eq!(browser.value("codes", "share"), "0.25");
    assert_eq!(browser.data("codes")["sinusoidal"][15], code);
    assert_eq!(browser.data("codes")["binary"][15], json!([1, 1, 1, 1, 0, 0]));

    // Distances from m to all, with fewer features.
    browser.set("codes", "width", "8");
    browser.set("codes", "curve", "from");
    let data = browser.data("codes");
    for n in [0, 14, 16, 59] {
        let shown = data["distances"]["sinusoidal"][n].as_f64().unwrap();
        assert!((shown - distance(15.0, n as f64, 8)).abs() < 1e-12);
    }
    let heading =
        browser.eval("document.querySelector('#codes svg').textContent.includes('from that of 15')");
    assert_eq!(heading, json!(true));
    let middle = browser.middle("#codes svg rect.ground");
    browser.point(middle);
    let told = browser.eval("document.querySelector('#codes figcaption').textContent");
    assert!(told.as_str().unwrap().contains("digits 0111"), "{told}");

    browser.wait_for("location.hash.includes('codes.curve=from')");
    let (address, step) = (browser.eval("location.href"), browser.value("codes", "step"));
    browser.open(address.as_str().unwrap());
    browser.part("codes");
    assert_eq!((browser.value("codes", "m"), browser.value("codes", "step")), ("15".into(), step));

    browser.open(&url);
    browser.part("codes");
    pictures::take(&mut browser, "codes");
    browser.is_content(&url);
}
