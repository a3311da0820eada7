//! The four terms of a score with added codes.

use super::page;
use super::pictures::{self, number};
use roformer_explore::figures::terms::{self, Ask};
use rope::{Rope, analysis};
use serde_json::json;

const FIELDS: [&str; 4] = ["content_content", "content_position", "position_content", "position_position"];

#[test]
fn four_terms_add_up() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("terms");
    let library = terms::terms(&Ask::default()).unwrap();
    assert!((number(&browser.value("terms", "score")) - library.score[1][5]).abs() < 5e-5);

    // The marked cell, dragged in each of the five matrices: up and to the left, and back again.
    for cell in 0..5 {
        let marker = format!("#terms [data-drag=cell{cell}]");
        let size = browser.eval(&format!("document.querySelector('{marker}').getBoundingClientRect().width"));
        let size = size.as_f64().unwrap();
        let at = browser.middle(&marker);
        browser.drag(at, (-2.0 * size, size), 9);
        browser.settle("terms");
        let (m, n) = (browser.value("terms", "m"), browser.value("terms", "n"));
        assert_eq!((m.as_str(), n.as_str()), ("2", "3"), "cell {cell}");
        assert!((number(&browser.value("terms", "score")) - library.score[2][3]).abs() < 5e-5);
        assert_eq!(browser.value("terms", "query"), "“bites”");
        let at = browser.middle(&marker);
        browser.drag(at, (2.0 * size, -size), 9);
        browser.settle("terms");
        assert_eq!((browser.value("terms", "m"), browser.value("terms", "n")), ("1".into(), "5".into()));
    }

    // The formula adds the four numbers of the cell.
    let formula = "document.querySelector('#terms .formula').textContent";
    let text = browser.eval(formula).as_str().unwrap().to_string();
    let data = browser.data("terms");
    let parts = FIELDS.map(|field| data[field][1][5].as_f64().unwrap());
    for part in parts {
        assert!(text.contains(&format!("{:.3}", part.abs())), "{part} in {text}");
    }
    assert!((parts.iter().sum::<f64>() - library.score[1][5]).abs() < 1e-13);

    // The keyboard, and no further than the sentence.
    browser.eval("document.getElementById('terms-n').focus()");
    browser.press("ArrowRight");
    browser.settle("terms");
    assert_eq!(browser.value("terms", "n"), "5");
    browser.eval("document.getElementById('terms-m').focus()");
    browser.press("ArrowRight");
    browser.settle("terms");
    assert_eq!(browser.value("terms", "m"), "2");

    // The identity: place to place is a function of the distance; without strength it is nothing.
    browser.set("terms", "between", "identity");
    browser.set("terms", "strength", "2");
    let theta = Rope::builder(16).build().unwrap().frequencies(None);
    let data = browser.data("terms");
    for (m, n) in [(0, 0), (5, 5), (2, 4), (4, 2)] {
        let wanted = analysis::cosine_sum(theta.inv_freq(), f64::from(m - n));
        let shown = data["position_position"][m as usize][n as usize].as_f64().unwrap();
        assert!((shown - wanted).abs() < 1e-13, "{m} {n}");
    }
    browser.set("terms", "strength", "0");
    let data = browser.data("terms");
    assert_eq!(data["score"], data["content_content"]);
    browser.set("terms", "strength", "0.5");

    // What others keep: maps say it, the list marks it.
    for (model, name, gone) in [
        ("t5", "T5", 2),
        ("shaw", "Shaw", 2),
        ("xlnet", "XLNet", 0),
        ("deberta", "DeBERTa", 1),
        ("rotary", "Rotary", 3),
    ] {
        browser.set("terms", "model", model);
        let count = "[...document.querySelectorAll('#terms svg text')].filter((t) => t.textContent === 'left out').length";
        assert_eq!(browser.eval(count), json!(gone), "{model}");
        let marked = "document.querySelector('#terms .below li:not(.soft) strong').textContent";
        assert_eq!(browser.eval(marked), json!(name));
        assert!(browser.eval(formula).as_str().unwrap().contains(&format!("{name}:")));
    }

    // What lies under the pointer, and another sentence with the address of all this.
    let at = browser.middle("#terms svg image");
    browser.point((at.0 + 1.0, at.1 + 1.0));
    let told = browser.eval("document.querySelector('#terms figcaption').textContent");
    assert!(told.as_str().unwrap().contains("“the” at 3 and “the” at 3"), "{told}");
    browser.set("terms", "text", "you love me");
    assert_eq!(browser.value("terms", "n"), "2");
    browser.wait_for("location.hash.includes('terms.text=you')");
    let (address, score) = (browser.eval("location.href"), browser.value("terms", "score"));
    browser.open(address.as_str().unwrap());
    browser.part("terms");
    assert_eq!(browser.value("terms", "score"), score);

    browser.open(&url);
    browser.part("terms");
    pictures::take(&mut browser, "terms");
    browser.is_content(&url);
}
