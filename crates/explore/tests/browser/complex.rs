//! A complex number as a point, a matrix and a rotation.

use super::chromium::Chromium;
use super::page;
use super::pictures::{self, number};
use rope::{Pairing, reference};
use serde_json::json;

/// Two numbers of the data.
fn pair(browser: &mut Chromium, name: &str) -> [f64; 2] {
    let data = browser.data("complex");
    [0, 1].map(|part| data[name][part].as_f64().unwrap())
}

/// Checks what is shown of z turned against the library, and gives z and the angle in degrees.
fn check(browser: &mut Chromium) -> ([f64; 2], f64) {
    let [x, y, degrees] = ["x", "y", "degrees"].map(|name| browser.control("complex", name));
    let wanted = reference::rotate(&[x, y], degrees.to_radians(), &[1.0], 1.0, Pairing::Interleaved);
    for name in ["turned", "multiplied"] {
        let shown = pair(browser, name);
        assert!((shown[0] - wanted[0]).abs() < 1e-14 && (shown[1] - wanted[1]).abs() < 1e-14, "{name}");
    }
    let [u, v] = ["u", "v"].map(|name| browser.control("complex", name));
    let inner = number(&browser.value("complex", "inner"));
    assert!((inner - (x * u + y * v)).abs() <= 0.5e-4 + 1e-9);
    let area = number(&browser.value("complex", "determinant"));
    assert!((area - (x * x + y * y)).abs() <= 5e-4 * area);
    let phase = number(browser.value("complex", "phase").trim_end_matches('°'));
    assert!((phase - y.atan2(x).to_degrees()).abs() <= 0.051);
    ([x, y], degrees)
}

#[test]
fn a_number_turns() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("complex");
    let (z, degrees) = check(&mut browser);
    assert_eq!((z, degrees), ([1.5, 0.5], 50.0));

    // z to the left half of the plane: arctan forgets the quadrant.
    let at = browser.middle("#complex [data-drag=z] .knob");
    browser.drag(at, (-260.0, 60.0), 13);
    browser.settle("complex");
    let ([x, y], _) = check(&mut browser);
    assert!(x < 0.0 && y < 0.5, "{x} {y}");
    let arctangent = number(browser.value("complex", "arctangent").trim_end_matches('°'));
    assert!((arctangent - (y / x).atan().to_degrees()).abs() <= 0.051);

    // z turned, by its own handle: the angle changes and z does not.
    let at = browser.middle("#complex [data-drag=turned] .knob");
    browser.drag(at, (60.0, 90.0), 11);
    browser.settle("complex");
    let (z, turned) = check(&mut browser);
    assert_eq!(z, [x, y]);
    assert_ne!(turned, 50.0);

    // k.
    let before = browser.value("complex", "inner");
    let at = browser.middle("#complex [data-drag=k] .knob");
    browser.drag(at, (-30.0, -80.0), 11);
    browser.settle("complex");
    check(&mut browser);
    assert_ne!(browser.value("complex", "inner"), before);

    // Sliders, the keyboard, and what is typed beyond the plane.
    for (name, value) in [("x", "0"), ("y", "1.25"), ("degrees", "-90"), ("u", "-0.5"), ("v", "1.6")] {
        browser.set("complex", name, value);
    }
    check(&mut browser);
    assert_eq!(browser.value("complex", "arctangent"), "nothing, as x is 0");
    let turned = pair(&mut browser, "turned");
    assert!((turned[0] - 1.25).abs() < 1e-14 && turned[1].abs() < 1e-14);
    browser.eval("document.getElementById('complex-degrees').focus()");
    browser.press("ArrowLeft");
    browser.settle("complex");
    assert_eq!(check(&mut browser).1, -91.0);
    browser.set("complex", "x", "9");
    assert_eq!(check(&mut browser).0, [1.6, 1.25]);

    // ⟨(0.5, 1), (1.5, 1.6)⟩.
    for (name, value) in [("x", "0.5"), ("y", "1"), ("u", "1.5"), ("v", "1.6")] {
        browser.set("complex", name, value);
    }
    assert_eq!(browser.value("complex", "inner"), "2.3500");

    // It plays, and stops.
    let play = "document.querySelector('#complex .play').click()";
    browser.eval(play);
    browser.wait_for("Number(document.getElementById('complex-degrees-exact').value) > -80");
    browser.eval(play);
    browser.settle("complex");
    let (_, degrees) = check(&mut browser);
    browser.wait_for(&format!("location.hash.includes('complex.degrees={degrees}')"));
    browser.reopen("complex");
    assert_eq!(check(&mut browser), ([0.5, 1.0], degrees));
    assert_eq!(browser.eval("document.querySelector('#complex .play').textContent"), json!("▶ Play"));

    // For a reader who wants no motion it moves in single steps, one per second.
    browser.reduce_motion();
    browser.own_time(0);
    browser.eval(play);
    for (time_ms, steps) in [(999, 0.0), (1000, 1.0), (1999, 1.0), (2000, 2.0)] {
        browser.quiet();
        browser.eval(&format!("window.time_ms = {time_ms}"));
        browser.quiet();
        assert_eq!(check(&mut browser).1, degrees + steps, "after {time_ms} ms");
    }
    browser.eval(play);

    browser.open(&url);
    browser.part("complex");
    pictures::take(&mut browser, "complex");
    browser.is_content(&url);
}
