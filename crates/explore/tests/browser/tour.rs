//! The way through the page in the order of the notes.

use super::chromium::{Chromium, PHONE};
use super::page;
use serde_json::json;

/// Where the tour is: its heading, and the part at the top of the window.
fn stop(browser: &mut Chromium, part: &str) -> String {
    browser.settle(part);
    browser
        .wait_for(&format!("Math.abs(document.getElementById('{part}').getBoundingClientRect().top) < 40"));
    let heading = browser.eval("document.querySelector('.tour strong').textContent");
    let words = browser.eval("document.querySelector('.tour p').textContent.length");
    assert!(words.as_u64().unwrap() > 20, "{part}");
    heading.as_str().unwrap().to_string()
}

#[test]
fn the_notes_are_followed_stop_by_stop() {
    let Some((mut browser, url)) = page() else { return };
    let ways = ["order", "codes", "complex", "tokens", "clocks", "decay", "linear", "receptive", "pairing"];
    for (language, first, last) in
        [("zh", "为什么需要位置", "各种实现"), ("en", "Why positions?", "Implementations")]
    {
        browser.open(&format!("{url}#tour=notes&lang={language}"));
        assert_eq!(browser.eval("document.querySelector('.tour [data-tour=back]').disabled"), json!(true));
        for (index, part) in ways.iter().enumerate() {
            if index > 0 {
                browser.eval("document.querySelector('.tour [data-tour=next]').click()");
            }
            let heading = stop(&mut browser, part);
            if index == 0 {
                assert_eq!(heading, first);
            }
            browser.screenshot(&format!("tour-{language}-{}", index + 1));
        }
        assert_eq!(stop(&mut browser, "pairing"), last);
        assert_eq!(browser.eval("document.querySelector('.tour [data-tour=next]').disabled"), json!(true));
        browser.eval("document.querySelector('.tour [data-tour=back]').click()");
        stop(&mut browser, "receptive");
        browser.eval("document.querySelector('.tour [data-tour=end]').click()");
        assert_eq!(browser.eval("document.querySelector('.tour')"), json!(null));
        browser.wait_for("!location.hash.includes('tour')");
    }
    browser.is_content(&url);
}

#[test]
fn a_link_leads_to_a_stop() {
    let Some((mut browser, url)) = page() else { return };
    browser.looks(PHONE);
    browser.open(&format!("{url}#tour=notes&stop=4&lang=zh"));
    assert_eq!(stop(&mut browser, "tokens"), "二维");
    assert_eq!(browser.data("tokens")["pairs"].as_array().unwrap().len(), 1);
    let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_f64().unwrap() <= 0.0, "{wide}");
    browser.screenshot("tour-phone");
    for wrong in ["0", "99", "x", "-1"] {
        browser.open(&format!("{url}#tour=notes&stop={wrong}"));
        assert_eq!(browser.eval("document.querySelector('.tour') !== null"), json!(true), "{wrong}");
    }
    browser.open(&format!("{url}#tour=nowhere"));
    assert_eq!(browser.eval("document.querySelector('.tour')"), json!(null));
    browser.is_content(&url);
}
