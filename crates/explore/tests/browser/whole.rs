//! What holds for every part of the page: it is shown, it can be saved, it fits a phone, it can be reached with the keyboard.

use super::chromium::{Chromium, DESK, NIGHT, PHONE};
use super::page;
use serde_json::{Value, json};

pub fn parts(browser: &mut Chromium) -> Vec<String> {
    let parts = browser.eval("[...document.querySelectorAll('section.part')].map((part) => part.id)");
    parts.as_array().unwrap().iter().map(|part| part.as_str().unwrap().to_string()).collect()
}

/// Takes what is saved instead of saving it.
const CATCH: &str = "(() => { window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob); return 'blob:none'; };
    HTMLAnchorElement.prototype.click = () => {}; })()";

/// Clicks an export of a part and returns what was saved, as text or as its first bytes.
fn export(browser: &mut Chromium, part: &str, kind: &str) -> Option<Value> {
    let button = format!("document.querySelector('#{part} [data-export={kind}]')");
    if browser.eval(&format!("{button} === null")) == json!(true) {
        return None;
    }
    browser.eval(&format!("window.saved = []; {button}.click()"));
    browser.wait_for("window.saved.length === 1");
    Some(match kind {
        "png" => browser.eval("(async () => [...new Uint8Array(await saved[0].arrayBuffer()).slice(0, 24)].concat([saved[0].size]))()"),
        _ => browser.eval("saved[0].text()"),
    })
}

#[test]
fn every_figure_can_be_saved() {
    let Some((mut browser, url)) = page() else { return };
    browser.eval(CATCH);
    for part in parts(&mut browser) {
        browser.part(&part);
        let data = browser.data(&part);
        let json = export(&mut browser, &part, "json").unwrap_or_else(|| panic!("{part} has no JSON"));
        assert_eq!(serde_json::from_str::<Value>(json.as_str().unwrap()).unwrap(), data, "{part}");

        let csv = export(&mut browser, &part, "csv").unwrap_or_else(|| panic!("{part} has no CSV"));
        let lines: Vec<&str> = csv.as_str().unwrap().lines().collect();
        assert!(lines.len() > 1, "{part}: {csv}");
        assert!(
            !csv.as_str().unwrap().contains("undefined") && !csv.as_str().unwrap().contains("[object"),
            "{part}: {csv}"
        );

        let svg = export(&mut browser, &part, "svg").unwrap_or_else(|| panic!("{part} has no SVG"));
        let svg = svg.as_str().unwrap();
        let check = format!(
            "(() => {{ const made = new DOMParser().parseFromString({}, 'image/svg+xml');
              return made.querySelector('parsererror')?.textContent ?? made.documentElement.querySelectorAll('*').length; }})()",
            json!(svg)
        );
        let elements = browser.eval(&check);
        assert!(elements.as_u64().is_some_and(|count| count > 5), "{part}: {elements}");
        assert!(!svg.contains("var(--") && !svg.contains("NaN") && !svg.contains("class="), "{part}");

        let png = export(&mut browser, &part, "png").unwrap_or_else(|| panic!("{part} has no PNG"));
        let bytes: Vec<u64> = png.as_array().unwrap().iter().map(|byte| byte.as_u64().unwrap()).collect();
        assert_eq!(bytes[..4], [137, 80, 78, 71], "{part}");
        let width = bytes[16..20].iter().fold(0, |sum, byte| sum << 8 | byte);
        assert!(width > 600 && bytes[24] > 2000, "{part}: {width} pixels across, {} bytes", bytes[24]);
    }
    browser.is_content(&url);
}

/// Goes to a part and asserts that nothing is wider than the window, that no text of a figure lies outside its drawing, and that
/// formula and tables are seen whole.
pub fn fits(browser: &mut Chromium, part: &str, name: &str) {
    browser.part(part);
    let wide = browser.eval("document.documentElement.scrollWidth - innerWidth");
    assert!(wide.as_f64().unwrap() <= 0.0, "{part} on {name}: {wide} pixels too wide");
    let outside = browser.eval(&format!(
        "(() => {{ const svg = document.querySelector('#{part} svg.chart'); const box = svg.getBoundingClientRect();
          return [...svg.querySelectorAll('text')].filter((text) => {{ const b = text.getBoundingClientRect();
            return b.width && (b.left < box.left - 3 || b.right > box.right + 3 || b.top < box.top - 3 || b.bottom > box.bottom + 3); }})
          .map((text) => text.textContent); }})()"
    ));
    assert_eq!(outside, json!([]), "{part} on {name}");
    // Formulas and tables could be moved sideways, but what is out of sight is not read. A formula is fitted within two frames.
    let cut = browser.eval(&format!(
        "new Promise((frame) => requestAnimationFrame(() => requestAnimationFrame(frame))).then(() =>
          [...document.querySelectorAll('#{part} :is(.formula, .below)')].filter((box) => box.scrollWidth > box.clientWidth)
            .map((box) => [box.className, box.scrollWidth, box.clientWidth]))"
    ));
    assert_eq!(cut, json!([]), "{part} on {name}");
    browser.screenshot(&format!("{part}-{name}"));
}

#[test]
fn every_part_fits_every_window() {
    let Some((mut browser, url)) = page() else { return };
    let parts = parts(&mut browser);
    for (name, looks) in [("desk", DESK), ("night", NIGHT), ("phone", PHONE)] {
        browser.looks(looks);
        for part in &parts {
            fits(&mut browser, part, name);
        }
    }
    browser.is_content(&url);
}

#[test]
fn every_part_says_what_it_shows() {
    let Some((mut browser, url)) = page() else { return };
    for part in parts(&mut browser) {
        browser.part(&part);
        let about =
            browser.eval(&format!("document.querySelector('#{part} svg.chart').getAttribute('aria-label')"));
        assert!(about.as_str().is_some_and(|about| about.len() > 20), "{part}: {about}");
        // A formula that is typeset, and no number that is none.
        let math = browser.eval(&format!("document.querySelector('#{part} math')?.textContent ?? ''"));
        assert!(math.as_str().is_some_and(|math| math.len() > 4), "{part}: {math}");
        let text = browser.eval(&format!("document.getElementById('{part}').textContent"));
        for wrong in ["NaN", "undefined", "[object", "Infinity"] {
            assert!(!text.as_str().unwrap().contains(wrong), "{part}: {wrong}");
        }
        // Controls have names, and a slider follows the keyboard.
        let nameless = browser.eval(&format!(
            "[...document.querySelectorAll('#{part} input')].filter((input) => input.offsetParent && !input.labels.length && !input.ariaLabel).map((input) => input.id)"
        ));
        assert_eq!(nameless, json!([]), "{part}");
        let slider = format!("document.querySelector('#{part} input[type=range]')");
        if browser.eval(&format!("{slider} !== null")) == json!(true) {
            let before = browser
                .eval(&format!("{slider}.focus(), {slider}.value === {slider}.max ? 'max' : {slider}.value"));
            browser.press(if before == json!("max") { "ArrowLeft" } else { "ArrowRight" });
            browser.settle(&part);
            assert_ne!(browser.eval(&format!("{slider}.value")), before, "{part}");
        }
    }
    browser.is_content(&url);
}

#[test]
fn the_contents_lead_to_the_parts() {
    let Some((mut browser, url)) = page() else { return };
    let parts = parts(&mut browser);
    let last = parts.last().unwrap();
    browser.reduce_motion();
    browser.eval(&format!("document.querySelector('nav a[href=\"#{last}\"]').click()"));
    browser.settle(last);
    browser.wait_for(&format!("document.getElementById('{last}').getBoundingClientRect().top < innerHeight"));
    assert_eq!(browser.eval("document.activeElement.closest('section')?.id"), json!(last));
    browser.is_content(&url);
}

#[test]
fn play_moves_and_is_calm_where_asked() {
    let Some((mut browser, url)) = page() else { return };
    let players = browser.eval("[...document.querySelectorAll('section.part')].filter((part) => part.querySelector('.play')).map((part) => part.id)");
    for part in players.as_array().unwrap().iter().filter_map(Value::as_str) {
        browser.part(part);
        let state = format!("document.getElementById('{part}').figure.data");
        let before = browser.data(part);
        browser.eval(&format!("document.querySelector('#{part} .play').click()"));
        browser.wait_for(&format!("JSON.stringify({state}) !== {}", json!(before.to_string())));
        browser.eval(&format!("document.querySelector('#{part} .play').click()"));
        browser.settle(part);
        let stopped = browser.data(part);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert_eq!(browser.data(part), stopped, "{part} goes on");
    }
    browser.is_content(&url);
}
