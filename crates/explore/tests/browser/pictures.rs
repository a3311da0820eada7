//! Pictures of a part as it is seen on a desk, at night and on a phone; taken where `ROFORMER_SCREENSHOTS` names a folder.

use super::chromium::{Chromium, DESK, Looks, NIGHT, PHONE};

/// Takes the pictures, each as high as the part.
pub fn take(browser: &mut Chromium, part: &str) {
    for (name, looks) in [("desk", DESK), ("night", NIGHT), ("phone", PHONE)] {
        browser.looks(looks);
        let height = format!("document.getElementById('{part}').getBoundingClientRect().height");
        let height = browser.eval(&height).as_f64().unwrap().ceil() as u32;
        browser.looks(Looks { height, ..looks });
        browser.part(part);
        // The figure is drawn anew for its new width in the next frame, and shown in the one after it.
        browser
            .eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))");
        browser.part(part);
        browser.screenshot(&format!("{part}-{name}"));
    }
    browser.looks(DESK);
    browser.part(part);
}

/// A number as the page writes it.
pub fn number(text: &str) -> f64 {
    let plain = text.replace('−', "-");
    plain.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}
