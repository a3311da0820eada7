//! One pair of features that turns.

use super::chromium::Chromium;
use super::page;
use super::pictures;
use rope::{Pairing, Rope, reference};
use serde_json::json;

/// What the page shows is what the reference makes of the controls as they stand.
fn agrees(browser: &mut Chromium) {
    browser.settle("turning");
    let data = browser.data("turning");
    let [pair, position, x0, x1, base, dim] =
        ["pair", "position", "x0", "x1", "base", "dim"].map(|name| browser.control("turning", name));
    let rope = Rope::builder(dim as usize).base(base).build().unwrap();
    let theta = rope.frequencies(None).inv_freq()[pair as usize];
    let expected = reference::rotate(&[x0, x1], position, &[theta], 1.0, Pairing::Half);
    for (feature, expected) in expected.iter().enumerate() {
        let shown = data["turned"][feature].as_f64().unwrap();
        assert!((shown - expected).abs() < 1e-12, "{shown} {expected}");
        // The formula ends with the same numbers.
        let series = format!("#turning .formula mtr:last-child .s{feature}");
        let text = browser.eval(&format!("[...document.querySelectorAll('{series}')].at(-1).textContent"));
        let formula = format!("{expected:.3}").replace('-', "−").replace("−0.000", "0.000");
        assert_eq!(text, json!(formula));
    }
    let wavelength = data["wavelength"].as_f64().unwrap();
    assert!((wavelength * theta - std::f64::consts::TAU).abs() < 1e-12);
}

#[test]
fn an_arrow_turns_and_its_features_are_waves() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("turning");
    agrees(&mut browser);
    assert_eq!(browser.value("turning", "wavelength"), "19.87");
    pictures::with_figure(&mut browser, "turning");

    // The arrow is dragged to straight up, or nearly.
    let at = browser.middle("#turning [data-drag=x] .knob");
    let (x0, x1) = (browser.control("turning", "x0"), browser.control("turning", "x1"));
    browser.drag(at, (-40.0, -30.0), 8);
    agrees(&mut browser);
    assert!(browser.control("turning", "x0") < x0 && browser.control("turning", "x1") > x1);
    // Far beyond the circle it stays as long as an arrow may be.
    let at = browser.middle("#turning [data-drag=x] .knob");
    browser.drag(at, (-200.0, 10.0), 8);
    agrees(&mut browser);
    let long = browser.control("turning", "x0").hypot(browser.control("turning", "x1"));
    assert!((1.48..=1.52).contains(&long), "{long}");

    // Across the waves the position follows.
    let before = browser.control("turning", "position");
    let at = browser.middle("#turning [data-drag=position]");
    browser.drag(at, (60.0, 0.0), 6);
    agrees(&mut browser);
    assert!(browser.control("turning", "position") > before + 40.0);

    // Every control; pair 0 turns by a radian a token whatever the base.
    for (name, value) in [("x0", "1"), ("x1", "0"), ("pair", "0"), ("position", "2"), ("base", "500000")] {
        browser.set("turning", name, value);
        agrees(&mut browser);
    }
    assert_eq!(browser.data("turning")["theta"].as_f64(), Some(1.0));
    // A smaller head has fewer pairs: the slider ends with the last.
    browser.set("turning", "pair", "40");
    browser.set("turning", "dim", "16");
    agrees(&mut browser);
    assert_eq!(browser.control("turning", "pair"), 7.0);
    assert_eq!(browser.eval("document.getElementById('turning-pair').max"), json!("7"));
    // The keyboard, and the button that lets time pass.
    browser.eval("document.getElementById('turning-position').focus()");
    browser.press("ArrowRight");
    agrees(&mut browser);
    assert_eq!(browser.control("turning", "position"), 3.0);
    browser.eval("document.querySelector('#turning .play').click()");
    browser.wait_for("Number(document.getElementById('turning-position').value) >= 6");
    browser.eval("document.querySelector('#turning .play').click()");
    agrees(&mut browser);

    // Who wants no motion gets single steps, one per second.
    browser.reduce_motion();
    browser.own_time(0);
    let before = browser.control("turning", "position");
    browser.eval("document.querySelector('#turning .play').click()");
    for (time_ms, steps) in [(999, 0.0), (1000, 1.0)] {
        browser.quiet();
        browser.eval(&format!("window.time_ms = {time_ms}"));
        agrees(&mut browser);
        assert_eq!(browser.control("turning", "position"), before + steps, "after {time_ms} ms");
    }
    browser.eval("document.querySelector('#turning .play').click()");
    agrees(&mut browser);

    // The address holds what is shown.
    let (turned, position) =
        (browser.data("turning")["turned"].clone(), browser.control("turning", "position"));
    browser.wait_for(&format!("location.hash.includes('turning.position={position}')"));
    browser.reopen("turning");
    assert_eq!(browser.data("turning")["turned"], turned);
    browser.is_content(&url);
}
