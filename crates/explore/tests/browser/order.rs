//! A sentence whose words change places.

use super::page;
use super::pictures::{self, number};
use roformer_explore::figures::order::{self, Ask};
use serde_json::{Value, json};

/// The words in the order in which they stand.
fn standing(data: &Value) -> Vec<&str> {
    let places = data["places"].as_array().unwrap().iter();
    places.map(|word| data["words"][word.as_u64().unwrap() as usize].as_str().unwrap()).collect()
}

/// What the library says to a sentence whose dog and man have changed places.
fn library(causal: bool, rotary: bool) -> order::Order {
    let places = serde_json::from_value(json!("0,5,2,3,4,1")).unwrap();
    order::order(&Ask { places, causal, rotary, ..Ask::default() }).unwrap()
}

#[test]
fn words_change_places_and_outputs_do_not() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("order");
    assert_eq!(standing(&browser.data("order")), ["the", "man", "bites", "the", "old", "dog"]);
    assert_eq!(browser.value("order", "same"), "yes");
    assert!(number(&browser.value("order", "largest")) < 1e-14);

    // A drag from the last place to the first; the figure and the buttons show the same order.
    let (from, to) = (
        browser.middle("#order svg [data-word=\"1\"] rect"),
        browser.middle("#order svg [data-word=\"0\"] rect"),
    );
    browser.drag(from, (to.0 - from.0, 0.0), 12);
    browser.settle("order");
    let data = browser.data("order");
    assert_eq!(standing(&data), ["dog", "the", "man", "bites", "the", "old"]);
    assert_eq!(browser.value("order", "same"), "yes");
    // Rows have moved with their words.
    let (now, written) = (&data["now"]["scores"], &data["written"]["scores"]);
    let difference = now[0][2].as_f64().unwrap() - written[1][5].as_f64().unwrap();
    assert!(difference.abs() < 1e-14 && now[0][2] != written[0][2], "{data}");

    // The same with the keyboard: the button keeps the focus while its word moves.
    browser.eval("document.querySelector('#order .choices [data-word=\"1\"]').focus()");
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    browser.press("ArrowLeft");
    browser.settle("order");
    assert_eq!(standing(&browser.data("order")), ["the", "dog", "man", "bites", "the", "old"]);
    let buttons = "[...document.querySelectorAll('#order .choices [data-word]')].map((b) => b.textContent)";
    assert_eq!(browser.eval(buttons), json!(["the", "dog", "man", "bites", "the", "old"]));

    // The buttons for all words at once.
    let click = |name: &str| {
        format!(
            "[...document.querySelectorAll('#order .choices button')].find((b) => b.textContent === '{name}').click()"
        )
    };
    browser.eval(&click("Reverse"));
    browser.settle("order");
    assert_eq!(standing(&browser.data("order")), ["old", "the", "bites", "man", "dog", "the"]);
    browser.eval(&click("Shuffle"));
    browser.settle("order");
    let mut shuffled: Vec<String> = standing(&browser.data("order")).iter().map(|w| w.to_string()).collect();
    assert_ne!(shuffled, ["old", "the", "bites", "man", "dog", "the"]);
    shuffled.sort();
    assert_eq!(shuffled, ["bites", "dog", "man", "old", "the", "the"]);
    assert!(number(&browser.value("order", "largest")) < 1e-14);
    browser.eval(&click("As written"));
    browser.settle("order");
    assert_eq!(browser.value("order", "largest"), "0");
    browser.is_content(&url);
}

#[test]
fn a_mask_or_rotary_tells_orders_apart() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("order");
    for (causal, rotary) in [(true, false), (true, true), (false, true)] {
        browser.set("order", "causal", &causal.to_string());
        browser.set("order", "rotary", &rotary.to_string());
        assert_eq!(browser.value("order", "same"), "no");
        let library = library(causal, rotary);
        let shown = number(&browser.value("order", "largest"));
        assert!((shown - library.largest_change).abs() < 5e-3, "{shown} {}", library.largest_change);
        let weights: Vec<Vec<f64>> =
            serde_json::from_value(browser.data("order")["now"]["weights"].take()).unwrap();
        assert_eq!(weights, library.now.weights);
    }

    // What lies under the pointer: a cell of the second matrix, here the first.
    browser.set("order", "shown", "weights");
    let (x, y) = browser.middle("#order svg image:nth-of-type(2)");
    browser.point((x + 1.0, y + 1.0));
    let caption = "document.querySelector('#order figcaption').textContent";
    let told = browser.eval(caption);
    let library = library(false, true);
    let wanted = format!("weight {}", (library.now.weights[3][3] * 1e4).round() / 1e4);
    assert!(told.as_str().unwrap().contains(&wanted), "{told} {wanted}");

    // Another sentence; one that is too long is refused in words.
    browser.set("order", "text", "you love me");
    assert_eq!(standing(&browser.data("order")), ["you", "love", "me"]);
    browser.set("order", "text", "a b c d e f g h i j k l m");
    let alert = browser.eval("document.querySelector('#order .alert').textContent");
    assert!(alert.as_str().unwrap().contains("13 words"), "{alert}");
    assert!(browser.complaints.iter().all(|complaint| complaint.contains("400")));
    browser.complaints.clear();
    browser.set("order", "text", "we know where we are");
    browser.set("order", "places", "4,3,2,1,0");

    browser.wait_for("location.hash.includes('order.places=4')");
    let (address, largest) = (browser.eval("location.href"), browser.value("order", "largest"));
    browser.open(address.as_str().unwrap());
    browser.part("order");
    assert_eq!(standing(&browser.data("order")), ["are", "we", "where", "know", "we"]);
    assert_eq!(browser.value("order", "largest"), largest);
    assert!(number(&largest) > 0.01);

    browser.open(&url);
    browser.part("order");
    pictures::take(&mut browser, "order");
    browser.is_content(&url);
}
