//! Where the page is: a link to a part leads there and stays there, whatever is drawn above it and however late.

use super::chromium::{Chromium, DESK, PHONE};
use super::page;
use serde_json::json;

/// On pages opened from here on, figures are answered only when `window.answer()` is called; but not that of the part in the
/// address.
const LATE: &str = "(() => { const fetch = window.fetch.bind(window);
    const isTime = new Promise((resolve) => { window.answer = resolve; });
    const wanted = new URLSearchParams(location.hash.slice(1)).get('part');
    window.fetch = async (address, options) => { const figure = String(address).match(/^\\/api\\/(\\w+)/)?.[1];
      if (figure && ![wanted, 'exhibits', 'examples', 'given'].includes(figure)) await isTime;
      return fetch(address, options); }; })()";

/// Asserts that a part is at the top of the window, or as near to it as the end of the page lets it, and that the address and
/// the contents name it.
fn is_at(browser: &mut Chromium, part: &str, when: &str) {
    let place = browser.eval(&format!(
        "(async () => {{ for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
          const root = document.documentElement;
          const top = document.getElementById('{part}').getBoundingClientRect().top;
          const away = top - parseFloat(getComputedStyle(root).scrollPaddingTop);
          const isEnd = scrollY >= root.scrollHeight - root.clientHeight - 1;
          return Math.abs(away) <= 1 || (isEnd && away > 0) ? 'there' : `${{away}} pixels away`; }})()"
    ));
    assert_eq!(place, json!("there"), "{part} {when}");
    is_named(browser, part, when);
}

/// Asserts that the address and the contents name a part.
fn is_named(browser: &mut Chromium, part: &str, when: &str) {
    // The address is written some time after the state that it holds.
    browser.wait_for(
        "import('/js/state.js').then(({ address }) => location.pathname + location.hash === address())",
    );
    let named = "new URLSearchParams(location.hash.slice(1)).get('part')";
    assert_eq!(browser.eval(named), json!(part), "{part} {when}");
    assert_eq!(browser.eval("document.querySelector('nav [aria-current]').hash.slice(1)"), json!(part));
}

/// Makes every part above one so many pixels higher than it is.
fn grow(browser: &mut Chromium, part: &str, by: u32) {
    browser.eval(&format!(
        "(() => {{ for (let above = document.getElementById('{part}').previousElementSibling; above; above = above.previousElementSibling)
          above.style.marginBottom = '{by}px'; }})()"
    ));
}

#[test]
fn a_link_to_a_part_leads_to_it_and_stays() {
    let Some((mut browser, url)) = page() else { return };
    let parts = browser.eval("[...document.querySelectorAll('section.part')].map((part) => part.id)");
    let parts: Vec<&str> = parts.as_array().unwrap().iter().filter_map(|part| part.as_str()).collect();
    assert!(parts.len() > 14, "{parts:?}");
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": LATE }));
    for looks in [DESK, PHONE] {
        browser.looks(looks);
        for part in &parts {
            browser.open(&format!("{url}#part={part}"));
            browser.wait_for(&format!("document.getElementById('{part}').isSettled === true"));
            is_at(&mut browser, part, "while the others are not drawn");
            browser.eval("window.answer()");
            browser.quiet();
            is_at(&mut browser, part, "when the others are drawn");
            for by in [351, 0, 2000, 100] {
                grow(&mut browser, part, by);
                is_at(&mut browser, part, &format!("with {by} pixels above"));
            }
        }
    }
    browser.is_content(&url);
}

#[test]
fn every_way_to_a_part_leads_to_it() {
    let Some((mut browser, url)) = page() else { return };
    let late = |browser: &mut Chromium, part: &str, when: &str| {
        browser.settle(part);
        grow(browser, part, 351);
        is_at(browser, part, when);
        grow(browser, part, 0);
        is_at(browser, part, when);
    };
    browser.eval("document.querySelector('nav a[href=\"#extension\"]').click()");
    late(&mut browser, "extension", "from the contents");
    browser.eval("location.hash = '#part=pairing&base=500000'");
    late(&mut browser, "pairing", "by another address in the same window");
    browser.eval("window.isOld = true");
    browser.call("Page.reload", json!({}));
    browser.wait_for("!window.isOld && document.documentElement.dataset.isReady === 'true'");
    late(&mut browser, "pairing", "loaded again");
    // What names no part leads nowhere.
    browser.open(&format!("{url}#part=main"));
    browser.quiet();
    assert_eq!(browser.eval("scrollY"), json!(0));
    browser.is_content(&url);
}

#[test]
fn the_reader_goes_elsewhere_at_once() {
    let Some((mut browser, url)) = page() else { return };
    let top = "document.getElementById('decay').getBoundingClientRect().top";
    browser.open(&format!("{url}#part=decay"));
    browser.settle("decay");
    let wheel = json!({ "type": "mouseWheel", "x": 700, "y": 450, "deltaX": 0, "deltaY": 300 });
    browser.call("Input.dispatchMouseEvent", wheel);
    browser.wait_for(&format!("{top} < -100"));
    browser.wait_for("import('/js/place.js').then(({ held }) => held() === null)");
    for by in [351, 0] {
        grow(&mut browser, "decay", by);
        browser.quiet();
        let top = browser.eval(top).as_f64().unwrap();
        assert!((top - 16.0).abs() > 50.0, "the page was brought back: {top}");
    }
    // A part that is scrolled to is the one that is named.
    browser.eval("document.getElementById('terms').scrollIntoView()");
    browser.quiet();
    browser.wait_for("document.querySelector('nav [aria-current]').hash === '#terms'");
    is_named(&mut browser, "terms", "scrolled to");
    browser.is_content(&url);
}
