//! Two tokens on a ruler.

use super::page;
use roformer_explore::figures::tokens;

#[test]
fn moving_both_leaves_the_score() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("tokens");
    let score = browser.value("tokens", "score");
    let library = tokens::tokens(&tokens::Ask { m: 12, n: 7, ..tokens::Ask::default() }).unwrap();
    assert_eq!(score, format!("{:.6}", library.score).replace('-', "−"));

    // One token: another score.
    let at = browser.middle("#tokens [data-drag=q] rect");
    browser.drag(at, (120.0, 0.0), 12);
    browser.settle("tokens");
    let data = browser.data("tokens");
    assert!(data["distance"].as_i64().unwrap() > 5, "{data}");
    assert_ne!(browser.value("tokens", "score"), score);

    // Both: the same distance, the same score.
    let (before, score) = (browser.data("tokens"), browser.value("tokens", "score"));
    let at = browser.middle("#tokens [data-drag=both] line");
    browser.drag(at, (90.0, 0.0), 9);
    browser.settle("tokens");
    assert_eq!(browser.data("tokens")["distance"], before["distance"]);
    assert_ne!(browser.data("tokens")["pairs"][0]["q_turned"], before["pairs"][0]["q_turned"]);
    assert_eq!(browser.value("tokens", "score"), score);

    // The keyboard moves it too, and the address holds what is shown.
    browser.set("tokens", "m", "9");
    browser.eval("document.getElementById('tokens-m').focus()");
    browser.press("ArrowRight");
    browser.settle("tokens");
    assert_eq!(browser.control("tokens", "m"), 10.0);
    browser.wait_for("location.hash.includes('tokens.m=10')");
    let score = browser.value("tokens", "score");
    browser.reopen("tokens");
    assert_eq!(browser.value("tokens", "score"), score);
    browser.is_content(&url);
}
