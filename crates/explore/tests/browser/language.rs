//! The page in Chinese: nothing in it is English, the same numbers, and a link that opens in its language.

use super::chromium::{Chromium, DESK, NIGHT, PHONE};
use super::whole::{fits, parts};
use super::{page, serve};
use roformer_explore::exhibits::Exhibits;
use serde_json::{Value, json};

/// Names and terms that are written the same in Chinese, in lower case.
const NAMES: &str = "alibi atan2 arctan base bert bf16 cohere config cos csv deberta deepseek det elu english f32 face gemma glm \
    gpt-j gpt-neox half hugging inspect interleaved interleaved_to_half iy json kerple llama llama3 ln log longrope max minimind nezha ntk ntk-aware pi png pytorch \
    qk qwen qwen2 rad re rms rope roformer roformer_pytorch shaw sin sinusoidal softmax svg t5 token transformer transformers transformer-xl xlnet \
    yarn max_position_embeddings explore";

/// A script: words in Latin letters that are shown or read out, in a part or in the whole page, with where they are.
const LATIN: &str = "(root) => { const found = new Set();
    const skip = 'script, style, noscript, pre, code, [lang=en], [data-value=name], [data-example], math mi, sup, sub';
    const add = (text) => { for (const [word] of text.matchAll(/(?<![\\w.])[A-Za-z][A-Za-z0-9_-]+/g)) found.add(word.toLowerCase()); };
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(skip)) add(walker.currentNode.textContent);
    for (const element of [root, ...root.querySelectorAll('*')]) {
      if (element.closest(skip)) continue;
      for (const name of ['aria-label', 'title', 'placeholder', 'alt']) if (element.getAttribute(name)) add(element.getAttribute(name));
    }
    return [...found]; }";

/// Words in Latin letters of an element that are no names.
fn english(browser: &mut Chromium, selector: &str) -> Vec<String> {
    let found = browser.eval(&format!("({LATIN})(document.querySelector({}))", json!(selector)));
    let known: Vec<&str> = NAMES.split_whitespace().collect();
    let words = found.as_array().unwrap().iter().filter_map(Value::as_str);
    words.filter(|word| !known.contains(word)).map(str::to_string).collect()
}

/// The page in Chinese.
fn chinese() -> Option<(Chromium, String)> {
    let mut browser = Chromium::start()?;
    let url = serve(Exhibits::default());
    browser.open(&format!("{url}#lang=zh"));
    Some((browser, url))
}

#[test]
fn no_part_has_an_untranslated_string() {
    let Some((mut browser, url)) = chinese() else { return };
    assert_eq!(browser.eval("document.documentElement.lang"), json!("zh-CN"));
    let mut found = Vec::new();
    found.extend(english(&mut browser, "header"));
    found.extend(english(&mut browser, "nav"));
    for part in parts(&mut browser) {
        browser.part(&part);
        let selector = format!("#{part}");
        let mut note = |browser: &mut Chromium| {
            let words = english(browser, &selector);
            found.extend(words.into_iter().map(|word| format!("{part}: {word}")));
        };
        note(&mut browser);
        // Everything that can be chosen or ticked is, one after the other.
        let count = format!(
            "document.querySelectorAll('#{part} .tools [data-choice], #{part} .tools [type=checkbox]').length"
        );
        for index in 0..browser.eval(&count).as_u64().unwrap() {
            browser.eval(&format!(
                "document.querySelectorAll('#{part} .tools [data-choice], #{part} .tools [type=checkbox]')[{index}].click()"
            ));
            browser.settle(&part);
            note(&mut browser);
        }
        // And the figure is pointed at, at many places.
        let told = browser.eval(&format!(
            "(() => {{ const svg = document.querySelector('#{part} svg.chart'); const box = svg.getBoundingClientRect(); const told = new Set();
              for (let x = 0.05; x < 1; x += 0.1) for (let y = 0.05; y < 1; y += 0.1) {{
                svg.dispatchEvent(new PointerEvent('pointermove', {{ clientX: box.left + x * box.width, clientY: box.top + y * box.height }}));
                told.add(document.querySelector('#{part} figcaption').textContent); }}
              document.querySelector('#{part} figcaption').textContent = [...told].join(' '); }})()"
        ));
        assert_eq!(told, Value::Null);
        note(&mut browser);
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "not in Chinese: {found:#?}");
    let missing = browser.eval("import('/js/words.js').then(({ missing }) => [...missing])");
    assert_eq!(missing, json!([]));
    browser.is_content(&url);
}

#[test]
fn chinese_fits_every_window() {
    let Some((mut browser, url)) = chinese() else { return };
    for (name, looks) in [("desk", DESK), ("night", NIGHT), ("phone", PHONE)] {
        browser.looks(looks);
        for part in parts(&mut browser) {
            fits(&mut browser, &part, &format!("zh-{name}"));
        }
    }
    browser.is_content(&url);
}

#[test]
fn chinese_is_cut_into_words() {
    let Some((mut browser, url)) = chinese() else { return };
    browser.part("order");
    assert_eq!(browser.data("order")["words"], json!(["我", "爱", "你"]));
    // The first thing that is seen is the example of the notes: 你爱我, with every output as it was.
    assert_eq!(browser.data("order")["places"], json!([2, 1, 0]));
    assert_eq!(browser.value("order", "same"), "是");
    browser.set("order", "text", "你爱我");
    assert_eq!(browser.data("order")["words"], json!(["你", "爱", "我"]));
    browser.set("order", "text", "注意力没有位置");
    assert_eq!(browser.data("order")["words"], json!(["注意力", "没有", "位置"]));
    let buttons = browser.eval("[...document.querySelectorAll('#order [data-word]')].filter((word) => word.tagName === 'BUTTON').length");
    assert_eq!(buttons, json!(3));
    browser.set("terms", "text", "我爱你");
    assert_eq!(browser.data("terms")["words"], json!(["我", "爱", "你"]));
    browser.is_content(&url);
}

#[test]
fn refusals_are_in_chinese() {
    let Some((mut browser, _)) = chinese() else { return };
    browser.part("order");
    browser.set("order", "text", &"a ".repeat(13));
    let alert = browser.eval("document.querySelector('#order .alert').textContent");
    assert_eq!(alert, json!("句子有 13 个词；应为 1 到 12 个"));
    browser.set("pairing", "q", "1,2,x,4");
    let alert = browser.eval("document.querySelector('#pairing .alert').textContent");
    assert!(alert.as_str().unwrap().contains("不是数字；应为用逗号隔开的数字"), "{alert}");
}

#[test]
fn both_languages_have_the_same_numbers() {
    let Some((mut browser, url)) = page() else { return };
    let same = "order.text=我爱你&order.places=2,1,0&terms.text=我爱你";
    let mut answers = ["en", "zh"].map(|language| {
        browser.open(&format!("{url}#lang={language}&{same}"));
        let parts = parts(&mut browser);
        parts
            .into_iter()
            .map(|part| {
                browser.part(&part);
                (part.clone(), browser.data(&part))
            })
            .collect::<Vec<_>>()
    });
    // Verdicts are sentences; what `inspect --json` prints is not.
    for answer in &mut answers {
        let (_, inspect) = answer.iter_mut().find(|(part, _)| part == "inspect").unwrap();
        *inspect = json!([inspect["object"], inspect["sums"]]);
    }
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn the_switch_keeps_what_is_shown() {
    let Some((mut browser, url)) = page() else { return };
    assert_eq!(browser.eval("document.documentElement.lang"), json!("en"));
    browser.set("clocks", "base", "500000");
    let data = browser.data("clocks");
    browser.eval("document.querySelector('[data-language=zh]').click()");
    browser.wait_for(
        "document.documentElement.lang === 'zh-CN' && document.documentElement.dataset.isReady === 'true'",
    );
    assert_eq!(browser.eval("new URLSearchParams(location.hash.slice(1)).get('lang')"), json!("zh"));
    browser.part("clocks");
    assert_eq!(browser.data("clocks"), data);
    // The address alone opens it in Chinese, and a language that there is not in the browser's.
    browser.reopen("clocks");
    assert_eq!(browser.eval("document.querySelector('#clocks h2').textContent"), json!("一面墙的时钟"));
    browser.open(&format!("{url}#lang=fr"));
    assert_eq!(browser.eval("document.documentElement.lang"), json!("en"));
}

#[test]
fn the_browsers_language_is_taken() {
    let Some((mut browser, url)) = page() else { return };
    let agent = browser.eval("navigator.userAgent");
    browser
        .call("Network.setUserAgentOverride", json!({ "userAgent": agent, "acceptLanguage": "fr,zh-CN,en" }));
    browser.open(&url);
    assert_eq!(browser.eval("document.title"), json!("看得见的旋转位置编码"));
    browser.open(&format!("{url}#lang=en"));
    assert_eq!(browser.eval("document.title"), json!("Rotary position embedding, to look at"));
}
