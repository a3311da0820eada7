//! Pictures of a part as it is seen on a desk, at night and on a phone; taken where there is a folder for them. Whether parts fit these windows
//! is tested in `whole.rs` and `language.rs`.

use super::chromium::{self, Chromium, DESK, Looks, NIGHT, PHONE};

/// Takes the pictures, each as high as the part.
pub fn take(browser: &mut Chromium, part: &str) {
    if chromium::pictures().is_none() {
        return;
    }
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

/// Takes pictures of a part's beginning in three looks, and of its figure on a phone.
pub fn beginning(browser: &mut Chromium, part: &str, name: &str) {
    if chromium::pictures().is_none() {
        return;
    }
    for (looks, kind) in [(NIGHT, "night"), (PHONE, "phone"), (DESK, "desk")] {
        browser.looks(looks);
        browser.part(part);
        browser.screenshot(&format!("{name}-{kind}"));
        if looks.width == PHONE.width {
            figure(browser, part, &format!("{name}-{kind}"));
        }
    }
    browser.part(part);
}

/// Takes pictures of a part's beginning and of its figure in three looks.
pub fn with_figure(browser: &mut Chromium, part: &str) {
    if chromium::pictures().is_none() {
        return;
    }
    for (looks, name) in [(DESK, "desk"), (NIGHT, "night"), (PHONE, "phone")] {
        browser.looks(looks);
        browser.part(part);
        browser.screenshot(&format!("{part}-{name}"));
        figure(browser, part, &format!("{part}-{name}"));
    }
    browser.looks(DESK);
    browser.part(part);
}

fn figure(browser: &mut Chromium, part: &str, name: &str) {
    browser.middle(&format!("#{part} .drawing"));
    browser.screenshot(&format!("{name}-figure"));
}

/// Takes pictures of places of a part, by their names and selectors, and asserts that none is cut off.
pub fn places(browser: &mut Chromium, part: &str, name: &str, places: &[(&str, &str)]) {
    for (place, selector) in places {
        browser.eval(&format!(
            "document.querySelector('#{part}{selector}').scrollIntoView({{ behavior: 'instant' }})"
        ));
        browser.screenshot(&format!("{part}-{name}{place}"));
    }
    let is_wide = browser.eval("document.documentElement.scrollWidth > document.documentElement.clientWidth");
    assert_eq!(is_wide, false, "nothing is cut off");
}

/// A number as the page writes it.
pub fn number(text: &str) -> f64 {
    let plain = text.replace('−', "-");
    plain.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}
