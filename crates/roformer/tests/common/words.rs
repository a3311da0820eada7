//! A tokenizer of made-up words.

/// The `tokenizer.json` of words w0, w1 and so on, whose ids are their numbers.
pub fn tokenizer(count: usize) -> String {
    let words: Vec<String> = (0..count).map(|id| format!("\"w{id}\": {id}")).collect();
    format!(
        r#"{{"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": {{"type": "WhitespaceSplit"}},
        "post_processor": null, "decoder": null,
        "model": {{"type": "WordLevel", "vocab": {{{}}}, "unk_token": "w0"}}}}"#,
        words.join(", ")
    )
}
