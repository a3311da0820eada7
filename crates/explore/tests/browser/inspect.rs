//! A configuration of the reader's own.

use super::chromium::{Chromium, DESK, NIGHT, PHONE};
use super::{page, pictures, serve};
use roformer::inspect::{Report, object};
use roformer_explore::exhibits::Exhibits;
use roformer_explore::figures::inspect::EXAMPLES;
use rope::{HfConfig, HfOptions, Pairing};
use serde_json::{Value, json};

/// A configuration with a rule of its own: YaRN on part of the head.
const YARN: &str = r#"{"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 16, "partial_rotary_factor": 0.5,
  "rope_theta": 250000, "max_position_embeddings": 65536,
  "rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8192}}"#;

/// The same value, whether a whole number was written with a point or not.
fn same(page: &Value, library: &Value, path: &str) {
    match (page, library) {
        (Value::Number(a), Value::Number(b)) => assert_eq!(a.as_f64(), b.as_f64(), "{path}"),
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{path}");
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| same(a, b, &format!("{path}[{i}]")));
        }
        (Value::Object(a), Value::Object(b)) => {
            assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{path}");
            a.iter().for_each(|(key, a)| same(a, &b[key], &format!("{path}.{key}")));
        }
        _ => assert_eq!(page, library, "{path}"),
    }
}

/// What the page shows beside what the library says of the same file.
fn is_right(browser: &mut Chromium, file: &str, context: u64, pairing: Option<Pairing>) {
    let config = HfConfig::read(file.as_bytes(), &HfOptions { pairing, ..HfOptions::default() }).unwrap();
    let report = Report::new(&config, Some(context));
    let data = browser.data("inspect");
    same(&data["object"], &object(&config, Some(context)), "object");
    same(&data["report"], &serde_json::to_value(&report).unwrap(), "report");
    // The object in the page, as a text.
    let shown = browser.eval("document.querySelector('#inspect [data-object]').textContent");
    same(&serde_json::from_str(shown.as_str().unwrap()).unwrap(), &object(&config, Some(context)), "text");
    // Sentences, settings and tables of the layer type that is looked at.
    let layer = data["layer"].as_u64().unwrap() as usize;
    let Some(turning) = &report.layers[layer].turning else { return };
    let below = browser.eval("document.querySelector('#inspect .below').textContent");
    let below = below.as_str().unwrap();
    let has = |words: &str| assert!(below.contains(words), "{words}\n{below}");
    has(&turning.rule);
    has(&turning.head);
    has(report.pairing);
    report.warnings.iter().for_each(|warning| has(warning));
    turning.bands.iter().for_each(|band| has(&band.change));
    let (training, advice) = (turning.training.as_ref().unwrap(), turning.advice.as_ref().unwrap());
    training.findings.iter().for_each(|finding| has(finding));
    has(&advice.verdict);
    let texts =
        browser.eval("[...document.querySelectorAll('#inspect .setting pre')].map((pre) => pre.textContent)");
    let settings: Vec<&str> = advice.settings.iter().map(|setting| setting.text.as_str()).collect();
    assert_eq!(texts, json!(settings));
    let rows = browser.eval(
        "[...document.querySelector('#inspect .verdict ~ table').querySelectorAll('tbody tr')].map((row) => row.innerText.split('\\t'))",
    );
    assert_eq!(rows.as_array().unwrap().len(), advice.candidates.len());
    for (row, candidate) in rows.as_array().unwrap().iter().zip(&advice.candidates) {
        let number =
            |index: usize| row[index].as_str().unwrap().replace('\u{202f}', "").parse::<f64>().unwrap();
        assert_eq!(row[0].as_str().unwrap(), candidate.name);
        assert_eq!((number(1), number(2)), (candidate.unseen as f64, candidate.kept as f64));
        assert!((number(3) / candidate.crowding - 1.0).abs() < 1e-3);
        assert!((number(4) / candidate.attention_factor - 1.0).abs() < 1e-4);
    }
    // As many bars and dots as pairs, in the colours of what training has seen.
    let beyond = turning.pairs.iter().filter(|pair| pair.is_beyond).count();
    assert_eq!(browser.eval("document.querySelectorAll('#inspect rect.point').length"), turning.pairs.len());
    assert_eq!(browser.eval("document.querySelectorAll('#inspect rect.point.s1').length"), beyond);
}

/// Drops a file, made by an expression, on an element of the page.
fn drop_file(browser: &mut Chromium, file: &str, on: &str) {
    browser.eval(&format!(
        "(() => {{ const transfer = new DataTransfer(); transfer.items.add({file});
          const target = document.querySelector('{on}');
          for (const kind of ['dragenter', 'dragover', 'drop'])
            target.dispatchEvent(new DragEvent(kind, {{ dataTransfer: transfer, bubbles: true, cancelable: true }})); }})()"
    ));
}

/// Waits for a refusal that says all of this; the page goes on showing what it showed.
fn refused(browser: &mut Chromium, says: &[&str]) {
    let before = browser.data("inspect");
    browser.wait_for("!document.querySelector('#inspect .alert').hidden");
    let words = browser.eval("document.querySelector('#inspect .alert').textContent");
    for word in says {
        assert!(words.as_str().unwrap().contains(word), "{word} is not in {words}");
    }
    assert_eq!(browser.data("inspect"), before);
    browser.eval("document.querySelector('#inspect .alert').hidden = true");
}

/// The browser notes down every answer that refuses, which is nothing to complain about here.
fn forgive(browser: &mut Chromium, status: &str) {
    let note = format!("status of {status}");
    assert!(browser.complaints.iter().all(|complaint| complaint.contains(&note)), "{:?}", browser.complaints);
    browser.complaints.clear();
}

/// Waits until a configuration of this name is shown.
fn shows(browser: &mut Chromium, name: &str) {
    browser.wait_for(&format!("document.querySelector('#inspect').figure.data?.source.name === '{name}'"));
    browser.settle("inspect");
}

fn file(name: &str, text: &str) -> String {
    format!("new File([{}], '{name}', {{ type: 'application/json' }})", json!(text))
}

#[test]
fn examples_at_every_length_and_layer() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("inspect");
    let llama = &EXAMPLES[0];
    is_right(&mut browser, llama.text, 32_768, None);
    for example in EXAMPLES {
        browser.eval(&format!("document.querySelector('[data-example=\"{}\"]').click()", example.key));
        shows(&mut browser, example.name);
        for context in [1000, 32_768, 1_048_576] {
            browser.set("inspect", "context", &context.to_string());
            is_right(&mut browser, example.text, context, None);
        }
    }
    // Both layer types of Gemma 3.
    browser.eval("document.querySelector('[data-example=\"gemma-3-4b\"]').click()");
    shows(&mut browser, "Gemma 3 4B");
    for layer in ["sliding_attention", "full_attention"] {
        browser.eval(&format!("document.querySelector('[data-layer=\"{layer}\"]').click()"));
        browser.settle("inspect");
        let data = browser.data("inspect");
        assert_eq!(data["report"]["layers"][data["layer"].as_u64().unwrap() as usize]["layer_type"], layer);
        is_right(&mut browser, EXAMPLES[2].text, 1_048_576, None);
    }
    browser.is_content(&url);
}

#[test]
fn a_dropped_file_is_read_and_a_link_holds_it() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("inspect");
    // Anywhere on the page: here on the heading at its top.
    browser.eval("scrollTo({ top: 0, behavior: 'instant' })");
    browser.wait_for("document.querySelector('nav [aria-current]').hash !== '#inspect'");
    drop_file(&mut browser, &file("yarn.json", YARN), "h1");
    shows(&mut browser, "yarn.json");
    browser.part("inspect");
    is_right(&mut browser, YARN, 32_768, None);
    browser.wait_for("document.querySelector('nav [aria-current]').hash === '#inspect'");
    browser.set("inspect", "context", "131072");
    is_right(&mut browser, YARN, 131_072, None);

    // The pair: with its slider, the keyboard, and by dragging over the features.
    browser.set("inspect", "pair", "9");
    assert!(browser.value("inspect", "about").starts_with("Pair 9: features 9 and 41;"));
    browser.eval("document.getElementById('inspect-pair').focus()");
    browser.press("ArrowRight");
    browser.settle("inspect");
    assert!(browser.value("inspect", "about").starts_with("Pair 10: features 10 and 42;"));
    let at = browser.middle("#inspect [data-drag=feature]");
    browser.drag(at, (-120.0, 0.0), 8);
    browser.settle("inspect");
    let pair = browser.control("inspect", "pair");
    assert!(pair != 10.0 && pair < 32.0, "{pair}");
    browser.wait_for(&format!(
        "document.querySelector('#inspect .heading').textContent.startsWith('pair {pair}:')"
    ));

    // The pairing can be said.
    for pairing in [Pairing::Interleaved, Pairing::InterleavedToHalf, Pairing::Half] {
        browser.set("inspect", "pairing", pairing.name());
        is_right(&mut browser, YARN, 131_072, Some(pairing));
    }
    browser.set("inspect", "pairing", "");

    // Pointing at a pair says what it does.
    let at = browser.middle("#inspect circle.line");
    browser.point(at);
    let words = browser.eval("document.querySelector('#inspect figcaption').textContent");
    assert!(words.as_str().unwrap().starts_with(&format!("Pair {pair}:")), "{words}");

    // The link alone reproduces all of it.
    browser.wait_for("location.hash.includes('inspect.config=') && location.hash.includes('context=131072')");
    browser.comes_back("inspect");
    assert_eq!(browser.value("inspect", "name"), "yarn.json");

    // On the whole page: the other parts take its numbers.
    browser.eval("document.getElementById('inspect-everywhere').click()");
    for (key, value) in [("base", 250_000.0), ("dim", 64.0), ("length", 8192.0), ("context", 131_072.0)] {
        assert_eq!(browser.control("extension", key), value, "{key}");
    }
    browser.part("extension");
    let seen = browser.data("inspect")["report"]["layers"][0]["turning"]["training"]["never_turned"].clone();
    assert_eq!(browser.data("extension")["never_turned"], seen);
    browser.is_content(&url);
}

#[test]
fn files_and_texts_come_in_other_ways_too() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("inspect");
    let folder = std::env::temp_dir().join(format!("roformer-inspect-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("model")).unwrap();
    let path = folder.join("config.json");
    std::fs::write(&path, YARN).unwrap();

    // Chosen.
    let input =
        browser.call("Runtime.evaluate", json!({ "expression": "document.getElementById('inspect-file')" }));
    let chosen = json!({ "files": [path], "objectId": input["result"]["objectId"] });
    browser.call("DOM.setFileInputFiles", chosen);
    shows(&mut browser, "config.json");
    is_right(&mut browser, YARN, 32_768, None);

    // Pasted into the field, and anywhere.
    browser.eval(&format!(
        "(() => {{ const field = document.getElementById('inspect-paste'); field.value = {};
          field.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()",
        json!(EXAMPLES[3].text)
    ));
    shows(&mut browser, "what was pasted");
    is_right(&mut browser, EXAMPLES[3].text, 32_768, None);
    browser.eval(&format!(
        "(() => {{ const data = new DataTransfer(); data.setData('text/plain', {});
          document.body.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData: data, bubbles: true }})); }})()",
        json!(EXAMPLES[1].text)
    ));
    browser.wait_for("document.querySelector('#inspect').figure.data.report.model_type === 'qwen2'");
    browser.settle("inspect");
    is_right(&mut browser, EXAMPLES[1].text, 32_768, None);

    // By the hand of the system: a file, and a folder, which is refused by name.
    let drag = |browser: &mut Chromium, path: &std::path::Path| {
        let data = json!({ "items": [], "files": [path], "dragOperationsMask": 1 });
        for kind in ["dragEnter", "dragOver", "drop"] {
            browser
                .call("Input.dispatchDragEvent", json!({ "type": kind, "x": 300, "y": 300, "data": data }));
        }
    };
    drag(&mut browser, &path);
    shows(&mut browser, "config.json");
    drag(&mut browser, &folder.join("model"));
    refused(&mut browser, &["model", "folder"]);
    std::fs::remove_dir_all(&folder).unwrap();
    browser.is_content(&url);
}

#[test]
fn what_is_no_configuration_is_refused_in_the_page() {
    let Some((mut browser, url)) = page() else { return };
    // Before the part was ever in view: it comes, shows an example, and goes on saying why.
    browser.wait_for("document.querySelectorAll('[data-example]').length > 0");
    drop_file(&mut browser, "new File([], 'early.json')", "h1");
    browser.part("inspect");
    shows(&mut browser, EXAMPLES[0].name);
    refused(&mut browser, &["early.json", "empty"]);
    browser.set("inspect", "pair", "3");
    assert_eq!(browser.eval("document.querySelector('#inspect .alert').hidden"), true);
    let refuse = |browser: &mut Chromium, file: &str, says: &[&str]| {
        drop_file(browser, file, "body");
        refused(browser, says);
    };
    // Without a question to the server.
    refuse(
        &mut browser,
        "new File([new Uint8Array(100 << 20)], 'model.safetensors')",
        &["model.safetensors", "104857600", "16777216"],
    );
    refuse(&mut browser, "new File([], 'nothing.json')", &["nothing.json", "empty"]);
    refuse(
        &mut browser,
        "new File([new Uint8Array([137, 80, 78, 71, 255])], 'cat.png')",
        &["cat.png", "not a text"],
    );
    refuse(&mut browser, &file("blank.json", " \n"), &["blank.json", "nothing"]);
    browser.is_content(&url);
    // By what the server says.
    refuse(&mut browser, &file("cut.json", "{\"model_type\": "), &["cut.json", "EOF", "line 1"]);
    refuse(&mut browser, &file("list.json", "[]"), &["list.json", "not an object"]);
    let odd = r#"{"model_type": "llama", "head_dim": 64, "rope_scaling": {"type": "liner", "factor": 2}}"#;
    refuse(&mut browser, &file("odd.json", odd), &["rope_scaling.type", "liner"]);
    let negative = r#"{"model_type": "llama", "head_dim": -64}"#;
    refuse(&mut browser, &file("negative.json", negative), &["head_dim", "-64"]);
    let script = r#"{"model_type": "<img src=x onerror=alert(1)>", "head_dim": 64}"#;
    forgive(&mut browser, "400");
    // Names of a file are text, whatever they look like.
    drop_file(&mut browser, &file("<b>odd</b>.json", script), "body");
    shows(&mut browser, "<b>odd</b>.json");
    assert_eq!(browser.eval("document.querySelectorAll('#inspect img, #inspect .text b').length"), 0);
    is_right_unknown(&mut browser);
    browser.is_content(&url);
}

/// An unknown model type: everything but which features form a pair.
fn is_right_unknown(browser: &mut Chromium) {
    let heading = browser.eval("document.querySelector('#inspect .heading').textContent");
    assert!(heading.as_str().unwrap().contains("choose a pairing"), "{heading}");
    browser.set("inspect", "pairing", "interleaved");
    let heading = browser.eval("document.querySelector('#inspect .heading').textContent");
    assert_eq!(heading, "pair 3: features 6 and 7");
}

#[test]
fn addresses_stay_short_and_are_not_trusted() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("inspect");
    // A configuration that does not shrink is shown and kept out of the address, which is said.
    let noise: String = (0..40_000u64).map(|i| format!("{:016x}", roformer::graph::mix(i))).collect();
    let long = YARN.replacen('{', &format!("{{\"noise\": \"{noise}\", "), 1);
    drop_file(&mut browser, &file("long.json", &long), "body");
    shows(&mut browser, "long.json");
    is_right(&mut browser, &long, 32_768, None);
    let notes = browser.eval("document.querySelector('#inspect .notes').textContent");
    assert!(notes.as_str().unwrap().contains("too long for an address"), "{notes}");
    browser.set("inspect", "context", "65536");
    is_right(&mut browser, &long, 65_536, None);
    browser.wait_for("location.hash.includes('context=65536')");
    assert_eq!(browser.eval("location.href.length < 300"), true);

    // A small address that would become a huge text is stopped on the way; nonsense is named.
    let bomb = browser.eval(
        "new Response(new Blob([' '.repeat(40 << 20)]).stream().pipeThrough(new CompressionStream('deflate-raw'))).arrayBuffer()
           .then((bytes) => btoa([...new Uint8Array(bytes)].map((byte) => String.fromCharCode(byte)).join(''))
             .replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, ''))",
    );
    let bomb = bomb.as_str().unwrap();
    assert!(bomb.len() < 64 << 10, "{}", bomb.len());
    for (config, says) in [(bomb, "16777216"), ("*", "characters"), ("AAAA", "damaged")] {
        browser.open(&format!("{url}#part=inspect&inspect.config={config}"));
        browser.wait_for("document.querySelector('#inspect .alert')?.hidden === false");
        let words = browser.eval("document.querySelector('#inspect .alert').textContent");
        assert!(words.as_str().unwrap().contains(says), "{words}");
    }
    browser.is_content(&url);
}

#[test]
fn the_page_begins_with_the_configuration_that_it_was_given() {
    let Some(mut browser) = Chromium::start() else { return };
    let config = Some(("models/mine/config.json".to_string(), YARN.as_bytes().to_vec()));
    let url = serve(Exhibits { config, ..Exhibits::default() });
    browser.open(&url);
    browser.wait_for("document.getElementById('inspect').isSettled === true");
    shows(&mut browser, "config.json");
    is_right(&mut browser, YARN, 32_768, None);
    let is_in_view =
        |part: &str| format!("Math.abs(document.getElementById('{part}').getBoundingClientRect().top) < 300");
    browser.wait_for(&is_in_view("inspect"));
    // An example takes its place, and a place of the page that was asked for is kept.
    browser.eval("document.querySelector('[data-example=\"roformer-base\"]').click()");
    shows(&mut browser, "RoFormer base");
    browser.open(&format!("{url}#part=tokens"));
    browser.wait_for("document.querySelectorAll('[data-example]').length > 0");
    browser.wait_for(&is_in_view("tokens"));
    browser.is_content(&url);
}

#[test]
fn settings_can_be_copied() {
    let Some((mut browser, url)) = page() else { return };
    browser.part("inspect");
    browser.set("inspect", "context", "1048576");
    browser.eval("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    // What the button says, it says for a moment only.
    browser.eval(
        "(() => { const button = document.querySelector('#inspect [data-copy]'); window.said = [];
          new MutationObserver(() => window.said.push(button.textContent)).observe(button, { childList: true });
          button.click(); })()",
    );
    browser.wait_for("window.said[0] === 'Copied'");
    let copied = browser.eval("window.copied");
    assert!(copied.as_str().unwrap().contains("\"rope_type\":\"llama3\""), "{copied}");
    browser.is_content(&url);
}

#[test]
fn it_looks_good() {
    let Some((mut browser, url)) = page() else { return };
    for (name, looks, example) in [("desk", DESK, 0), ("night", NIGHT, 2), ("phone", PHONE, 1)] {
        browser.looks(looks);
        browser.part("inspect");
        browser.eval(&format!("document.querySelectorAll('#inspect [data-example]')[{example}].click()"));
        shows(&mut browser, EXAMPLES[example].name);
        browser.set("inspect", "context", "262144");
        let places = [
            ("", ""),
            ("-figure", " figure"),
            ("-tools", " .tools"),
            ("-below", " .below"),
            ("-advice", " .verdict"),
        ];
        pictures::places(&mut browser, "inspect", name, &places);
    }
    browser.is_content(&url);
}
