//! Angles at far positions.

use super::chromium::Chromium;
use super::page;
use super::pictures;
use rope::{AnglePrecision, Rope, bf16};

/// Angles and errors are what plain arithmetic of the three kinds gives for the controls as they stand.
fn agrees(browser: &mut Chromium) {
    browser.settle("precision");
    let [position, base, dim] = ["position", "base", "dim"].map(|name| browser.control("precision", name));
    let rope = Rope::builder(dim as usize).base(base).build().unwrap();
    let (exact, single) =
        (rope.frequencies(None), rope.with_angle_precision(AnglePrecision::F32).frequencies(None));
    let data = browser.data("precision");
    let rounded = f64::from(f32::from(bf16::from_f32(position as f32)));
    assert_eq!(data["rounded"].as_f64(), Some(rounded));
    let mut largest = 0.0f64;
    for (index, (exact, single)) in exact.inv_freq().iter().zip(single.inv_freq()).enumerate() {
        let pair = &data["pairs"][index];
        let angles = [position * exact, f64::from(position as f32 * *single as f32), rounded * exact];
        for (way, angle) in angles.iter().enumerate() {
            assert_eq!(pair["angles"][way].as_f64(), Some(*angle));
            let hand = [0, 1].map(|axis| pair["hands"][way][axis].as_f64().unwrap());
            // A table forms its angle more exactly than the product of two f64.
            assert!((hand[0] - angle.cos()).abs() < 1e-6 && (hand[1] - angle.sin()).abs() < 1e-6);
        }
        assert!(pair["errors"][0].as_f64().unwrap() <= 0.51 / f64::from(1 << 24));
        largest = largest.max((angles[1] - angles[0]).abs());
    }
    assert_eq!(data["largest"][0].as_f64(), Some(largest));
}

#[test]
fn single_precision_and_bf16_lose_their_way() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("precision");
    agrees(&mut browser);
    assert_eq!(browser.value("precision", "rounded"), "999\u{202f}424");
    let single: f64 = browser.value("precision", "single").parse().unwrap();
    assert!((1e-2..1e-1).contains(&single), "{single}");
    pictures::with_figure(&mut browser, "precision");

    // 256 and 257 are one position in bf16.
    for preset in [0, 1] {
        browser.eval(&format!("document.querySelector('#precision [data-preset=\"{preset}\"]').click()"));
        agrees(&mut browser);
        assert_eq!(browser.value("precision", "rounded"), "256");
        assert_eq!(browser.value("precision", "shared"), "2 positions in a row");
        browser.screenshot(&format!("precision-{}", 256 + preset));
    }
    for preset in 2..6 {
        browser.eval(&format!("document.querySelector('#precision [data-preset=\"{preset}\"]').click()"));
        agrees(&mut browser);
    }
    browser.screenshot("precision-far");

    // A pair is chosen on the chart, and pointed at.
    let (x, y) = browser.middle("#precision [data-drag=pair]");
    browser.drag((x, y), (-100.0, 0.0), 6);
    agrees(&mut browser);
    let pair = browser.control("precision", "pair");
    assert!((10.0..30.0).contains(&pair), "{pair}");
    let caption = browser.eval("document.querySelector('#precision figcaption').textContent");
    assert!(caption.as_str().unwrap().starts_with(&format!("Pair {pair}:")), "{caption}");

    for (name, value) in
        [("position", "123457"), ("base", "500000"), ("dim", "512"), ("pair", "3"), ("dim", "64")]
    {
        browser.set("precision", name, value);
        agrees(&mut browser);
    }
    browser.eval("document.getElementById('precision-pair').focus()");
    browser.press("ArrowRight");
    agrees(&mut browser);
    assert_eq!(browser.control("precision", "pair"), 4.0);
    browser.wait_for("location.hash.includes('precision.pair=4')");
    browser.comes_back("precision");
    assert_eq!(browser.control("precision", "position"), 123_457.0);
    browser.is_content(&url);
}
