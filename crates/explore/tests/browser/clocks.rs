//! The wall of clocks.

use super::chromium::Chromium;
use super::page;
use super::pictures;
use rope::{Rope, analysis};
use serde_json::json;
use std::f64::consts::TAU;

/// Hands, arcs and counts are what the library says for the controls as they stand.
fn agrees(browser: &mut Chromium) {
    browser.settle("clocks");
    let [position, base, dim, length, context] =
        ["position", "base", "dim", "length", "context"].map(|name| browser.control("clocks", name));
    let rope = Rope::builder(dim as usize).base(base).build().unwrap();
    let frequencies = rope.frequencies(None);
    let theta = frequencies.inv_freq();
    let never = analysis::never_turning(theta, length as u64);
    assert_eq!(browser.value("clocks", "never"), never.to_string());
    // A pair that never turned in training is unseen as soon as a text is longer.
    let unseen = if context > length { never } else { 0 };
    assert_eq!(browser.value("clocks", "unseen"), unseen.to_string());
    let data = browser.data("clocks");
    let clocks = data["clocks"].as_array().unwrap();
    assert_eq!(clocks.len(), theta.len());
    for (clock, theta) in clocks.iter().zip(theta) {
        let number = |name: &str| clock[name].as_f64().unwrap();
        let off = (number("angle") - position * theta).rem_euclid(TAU);
        assert!(off.min(TAU - off) < 1e-8, "{off}");
        assert!((number("seen") - (length * theta).min(TAU)).abs() < 1e-9);
        assert!((number("reached") - (context.max(length) * theta).min(TAU)).abs() < 1e-9);
    }
}

#[test]
fn grey_was_seen_and_orange_was_not() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("clocks");
    agrees(&mut browser);
    assert_eq!(
        (browser.value("clocks", "never"), browser.value("clocks", "unseen")),
        ("18".into(), "18".into())
    );
    browser.set("clocks", "position", "20000");
    agrees(&mut browser);
    assert!(browser.data("clocks")["beyond"].as_u64().unwrap() > 0);
    pictures::with_figure(&mut browser, "clocks");

    // Across the wall: back in time. On the ruler: to where the pointer is.
    let at = browser.middle("#clocks [data-drag=wall]");
    browser.drag(at, (-150.0, 0.0), 10);
    agrees(&mut browser);
    let moved = browser.control("clocks", "position");
    assert!(moved < 5000.0, "{moved}");
    let at = browser.middle("#clocks circle[class=knob]");
    browser.drag(at, (80.0, 0.0), 8);
    agrees(&mut browser);
    assert!(browser.control("clocks", "position") > moved);

    // Pointing at a clock tells about it; pressing it keeps it.
    let (x, y) = browser.middle("#clocks [data-drag=wall]");
    browser.point((x, y));
    let caption = browser.eval("document.querySelector('#clocks figcaption').textContent");
    let caption = caption.as_str().unwrap();
    assert!(caption.starts_with("Pair ") && caption.contains("turns within 4\u{202f}096"), "{caption}");
    browser.drag((x, y), (0.0, 0.0), 1);
    browser.settle("clocks");
    assert_eq!(browser.value("clocks", "about").split(':').next(), caption.split(':').next());

    // Every control, small and large walls, a target within the trained length.
    let settings = [
        ("base", "500000"),
        ("dim", "512"),
        ("pair", "200"),
        ("length", "512"),
        ("context", "256"),
        ("dim", "2"),
    ];
    for (name, value) in settings {
        browser.set("clocks", name, value);
        agrees(&mut browser);
        browser.screenshot(&format!("clocks-{name}-{value}"));
    }
    assert_eq!((browser.control("clocks", "pair"), browser.control("clocks", "position")), (0.0, 512.0));
    browser.set("clocks", "dim", "64");
    browser.eval("document.getElementById('clocks-position').focus()");
    browser.press("ArrowLeft");
    agrees(&mut browser);
    assert!(browser.control("clocks", "position") < 512.0);

    // Shared controls are the same in every part.
    assert_eq!(browser.eval("document.getElementById('turning-dim-exact').value"), json!("64"));
    browser.wait_for("location.hash.includes('dim=64')");
    browser.comes_back("clocks");
    browser.is_content(&url);
}
