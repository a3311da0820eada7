//! Context extension.

use super::chromium::{Chromium, DESK, NIGHT, PHONE};
use super::page;
use super::pictures;
use roformer::advice::advise;
use roformer::bands::Seen;
use rope::{Llama3, LongRope, Rope, Schedule, Yarn};
use serde_json::Value;

/// What the page is set to.
#[derive(Clone, Copy)]
struct Set {
    base: f64,
    dim: usize,
    length: u64,
    context: u64,
    powers: [f64; 5],
}

const FIRST: Set =
    Set { base: 1e4, dim: 128, length: 4096, context: 32_768, powers: [0.0, 0.05, 0.45, 1.05, 1.05] };

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// A number as the page writes it.
fn read(text: &str) -> f64 {
    text.replace('−', "-").replace('\u{202f}', "").parse().unwrap()
}

/// Every line of the figure beside the rule of the library, and every number beside the advice.
fn is_right(browser: &mut Chromium, set: Set) {
    let Set { base, dim, length, context, powers } = set;
    let data = browser.data("extension");
    let stretch = (context as f64 / length as f64).max(1.0);
    let pairs = dim / 2;
    let divisor = |pair: usize| {
        let at = pair as f64 / (pairs - 1) as f64 * 4.0;
        let knot = (at.floor() as usize).min(3);
        stretch.powf(powers[knot] + (powers[knot + 1] - powers[knot]) * (at - knot as f64))
    };
    let schedules = [
        Schedule::Default,
        Schedule::Linear { factor: stretch },
        Schedule::NtkAware { factor: stretch },
        Schedule::DynamicNtk { factor: 1.0, trained_length: length },
        Schedule::Yarn(Yarn::new(stretch, length)),
        Schedule::LongRope(LongRope {
            short: vec![1.0; pairs],
            long: (0..pairs).map(divisor).collect(),
            original_length: length,
            factor: stretch,
            attention_factor: None,
        }),
        Schedule::Llama3(Llama3 {
            factor: stretch,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_length: length,
        }),
    ];
    for (method, schedule) in data["methods"].as_array().unwrap().iter().zip(schedules) {
        let rope = Rope::builder(dim).base(base).schedule(schedule).build().unwrap();
        let frequencies = rope.frequencies(context);
        let wavelengths = numbers(&method["wavelength"]);
        assert_eq!(wavelengths.len(), pairs);
        for (wavelength, theta) in wavelengths.iter().zip(frequencies.inv_freq()) {
            assert!((wavelength * theta / std::f64::consts::TAU - 1.0).abs() < 1e-9, "{}", method["name"]);
        }
    }
    let rope = Rope::builder(dim).base(base).build().unwrap();
    let seen = Seen::new(&rope, None, Some(length)).unwrap();
    let advice = advise(&rope, None, &seen, Some(length), context);
    let keys = [
        ("the model's own rule", "none"),
        ("linear", "linear"),
        ("NTK-aware", "ntk"),
        ("YaRN", "yarn"),
        ("dynamic NTK", "dynamic"),
    ];
    for candidate in &advice.candidates {
        let key = keys.iter().find(|(name, _)| *name == candidate.name).unwrap().1;
        browser.set("extension", "method", key);
        assert_eq!(read(&browser.value("extension", "unseen")), candidate.unseen as f64, "{key}");
        assert_eq!(read(&browser.value("extension", "kept")), candidate.kept as f64, "{key}");
        let close =
            |shown: f64, exact: f64| assert!((shown / exact - 1.0).abs() < 1e-3, "{key}: {shown} {exact}");
        close(read(&browser.value("extension", "crowding")), candidate.crowding);
        close(read(&browser.value("extension", "attention")), candidate.attention_factor);
        // The table says the same.
        let row = browser.eval(
            "(() => { const row = document.querySelector('#extension .below strong').closest('tr');
              return [...row.querySelectorAll('td')].map((cell) => cell.textContent); })()",
        );
        assert_eq!(read(row[0].as_str().unwrap()), candidate.unseen as f64, "{key}");
        assert_eq!(read(row[1].as_str().unwrap()), candidate.kept as f64, "{key}");
    }
    assert_eq!(read(&browser.value("extension", "never")), seen.never_turned() as f64);
}

/// The shapes that the chosen line takes while a method is being chosen.
fn shapes(browser: &mut Chromium, method: &str) -> usize {
    let count = browser.eval(&format!(
        "new Promise((resolve) => {{
           const shapes = new Set();
           const look = () => {{
             shapes.add(document.querySelector('#extension [data-line]').getAttribute('d'));
             if (document.getElementById('extension').isSettled) resolve(shapes.size); else requestAnimationFrame(look);
           }};
           document.querySelector('#extension [data-choice={method}]').click();
           look();
         }})"
    ));
    browser.settle("extension");
    count.as_u64().unwrap() as usize
}

#[test]
fn every_method_is_what_the_library_makes_of_it() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("extension");
    is_right(&mut browser, FIRST);

    // Every slider, and the lengths the other way round.
    let other = Set { base: 5e5, dim: 64, length: 8192, context: 131_072, ..FIRST };
    for (control, value) in [("base", "500000"), ("dim", "64"), ("length", "8192"), ("context", "131072")] {
        browser.set("extension", control, value);
    }
    is_right(&mut browser, other);
    browser.set("extension", "context", "1000");
    is_right(&mut browser, Set { context: 1000, ..other });
    browser.set("extension", "context", "131072");

    // The difference to plain RoPE.
    browser.set("extension", "method", "linear");
    browser.set("extension", "ratio", "true");
    let slower = numbers(&browser.data("extension")["methods"][1]["slowdown"]);
    assert!(slower.iter().all(|slower| (slower - 16.0).abs() < 1e-9));
    let heights = browser.eval(
        "(() => { const d = document.querySelector('#extension [data-line=linear]').getAttribute('d');
          return [...new Set(d.split(/[ML]/).filter(Boolean).map((point) => point.split(' ')[1]))].length; })()",
    );
    assert_eq!(heights, 1, "a level line");
    browser.screenshot("extension-ratio");
    browser.set("extension", "ratio", "false");

    // What lies under the pointer is said.
    let at = browser.middle("#extension [data-line=linear]");
    browser.point(at);
    let words = browser.eval("document.querySelector('#extension figcaption').textContent");
    assert!(words.as_str().unwrap().contains("16 times slower"), "{words}");

    // The keyboard moves a slider, and the address holds everything.
    browser.eval("document.getElementById('extension-context').focus()");
    browser.press("ArrowRight");
    browser.settle("extension");
    let context = browser.control("extension", "context");
    assert!(context > 131_072.0, "{context}");
    browser.wait_for(&format!("location.hash.includes('context={context}')"));
    browser.comes_back("extension");
    browser.is_content(&url);
}

#[test]
fn the_chosen_line_moves_unless_motion_is_unwanted() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("extension");
    // Three milliseconds for each that asks for a frame: many frames of what takes 350.
    browser.own_time(3);
    assert!(shapes(&mut browser, "linear") > 2, "some shapes between the two");
    let direct = |browser: &mut Chromium| {
        browser.eval("document.querySelector('#extension [data-line]').getAttribute('d')")
    };
    let moved = direct(&mut browser);
    browser.reduce_motion();
    assert!(shapes(&mut browser, "yarn") <= 2);
    assert!(shapes(&mut browser, "linear") <= 2);
    assert_eq!(direct(&mut browser), moved, "it ends where it would stand at once");
    browser.is_content(&url);
}

#[test]
fn divisors_can_be_dragged_and_never_fall() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("extension");
    let is_shown = |browser: &mut Chromium| {
        browser.eval("document.getElementById('extension-p2').closest('.control').offsetHeight > 0")
    };
    assert_eq!(is_shown(&mut browser), false);
    browser.set("extension", "method", "longrope");
    assert_eq!(is_shown(&mut browser), true);
    let powers = |browser: &mut Chromium| -> [f64; 5] {
        std::array::from_fn(|knot| browser.control("extension", &format!("p{knot}")))
    };
    // Each knot, up and down.
    for knot in 0..5 {
        for by in [-60.0, 45.0] {
            let before = powers(&mut browser);
            let at = browser.middle(&format!("#extension [data-drag=p{knot}] .knob"));
            browser.drag(at, (0.0, by), 6);
            browser.settle("extension");
            let after = powers(&mut browser);
            assert!(after.is_sorted(), "{after:?}");
            let moved = if by < 0.0 { after[knot] >= before[knot] } else { after[knot] <= before[knot] };
            assert!(moved, "{knot} {by}: {before:?} {after:?}");
        }
    }
    let dragged = powers(&mut browser);
    assert_ne!(dragged, FIRST.powers);
    is_right(&mut browser, Set { powers: dragged, ..FIRST });

    // A slider takes its neighbours along, up and down.
    browser.set("extension", "method", "longrope");
    browser.set("extension", "p1", "1.1");
    browser.wait_for("document.getElementById('extension-p4-exact').value === '1.1'");
    browser.settle("extension");
    assert!(powers(&mut browser).is_sorted());
    browser.set("extension", "p3", "0.3");
    browser.wait_for("document.getElementById('extension-p1-exact').value === '0.3'");
    browser.settle("extension");
    let set = powers(&mut browser);
    assert_eq!((set[1], set[2], set[3], set[4]), (0.3, 0.3, 0.3, 1.1));
    is_right(&mut browser, Set { powers: set, ..FIRST });

    // An address that makes them fall is put right.
    browser.open(&format!("{url}#extension.method=longrope&extension.p0=0.9&extension.p4=0.1"));
    browser.part("extension");
    let slower = numbers(&browser.data("extension")["methods"][5]["slowdown"]);
    assert!(slower.windows(2).all(|two| two[1] > two[0] * (1.0 - 1e-12)) && slower[0] > 6.0, "{slower:?}");
    browser.is_content(&url);
}

#[test]
fn it_looks_good() {
    let Some((mut browser, url)) = page() else { return };
    browser.reduce_motion();
    for (name, looks, method) in
        [("desk", DESK, "yarn"), ("night", NIGHT, "dynamic"), ("phone", PHONE, "longrope")]
    {
        browser.looks(looks);
        browser.part("extension");
        browser.set("extension", "method", method);
        let places = [("", ""), ("-figure", " figure"), ("-tools", " .tools")];
        pictures::places(&mut browser, "extension", name, &places);
    }
    browser.is_content(&url);
}
