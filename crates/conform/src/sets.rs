//! The cases there are: the small set, the full one, and cases of anyone's configuration.

use crate::case::Case;
use crate::error::{Error, Result};
use serde_json::Value;

/// One case on a line, each made to tell some mistakes from everything else.
const SMALL: &str = include_str!("small.json");

/// The small set: 33 cases, every rule and every pairing, within a megabyte.
pub fn small() -> Vec<Case> {
    // It is part of the program, and read by every test.
    serde_json::from_str(SMALL).unwrap_or_default()
}

/// Configurations of published models and sweeps, by name.
const FULL: &str = include_str!("full.json");

/// The full set: the small one, and for each of 187 configurations, most of them published models', cases within and beyond the length
/// it was trained at. Those of models whose pairing is not known are left out.
pub fn full() -> Vec<Case> {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
        config: Value,
    }
    let named: Vec<Named> = serde_json::from_str(FULL).unwrap_or_default();
    let cases = named.iter().filter_map(|named| of_config(&named.name, &named.config).ok()).flatten();
    small().into_iter().chain(cases).collect()
}

/// The cases of a set that have all these tags.
pub fn tagged(cases: Vec<Case>, tags: &[String]) -> Result<Vec<Case>> {
    if let Some(unknown) = tags.iter().find(|tag| !cases.iter().any(|case| case.tags.contains(tag))) {
        let mut known: Vec<&str> = cases.iter().flat_map(|case| &case.tags).map(String::as_str).collect();
        known.sort_unstable();
        known.dedup();
        return Err(Error::new(format!("the tag `{unknown}`; expected one of {}", known.join(", "))));
    }
    let chosen: Vec<Case> =
        cases.into_iter().filter(|case| tags.iter().all(|tag| case.tags.contains(tag))).collect();
    match chosen.is_empty() {
        true => Err(Error::new(format!("no case has all of the tags {}", tags.join(", ")))),
        false => Ok(chosen),
    }
}

/// Cases of a model's own configuration: within the length it was trained at, and beyond.
///
/// ```
/// let config = serde_json::json!({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 1});
/// let cases = rope_conformance::of_config("mine", &config)?;
/// assert_eq!(cases[0].name, "mine-within");
/// # Ok::<(), rope_conformance::Error>(())
/// ```
pub fn of_config(name: &str, config: &Value) -> Result<Vec<Case>> {
    let options = rope::HfOptions::default();
    let read = rope::HfConfig::read(config.to_string().as_bytes(), &options)
        .map_err(|error| Error::new(error.to_string()))?;
    let longest = read.max_position_embeddings;
    let layers = read.ropes().map_err(|error| Error::new(error.to_string()))?;
    let mut cases = Vec::new();
    for layer in layers.layers() {
        let Some(rope) = &layer.rope else { continue };
        let trained = layer.original_length.or(longest).unwrap_or(4096).clamp(16, 1 << 30) as i64;
        let within: Vec<i64> = [0, 1, 2, 3, 7, 63, 255, 256, 257, trained / 2 - 1]
            .into_iter()
            .filter(|at| *at < trained)
            .collect();
        let beyond = vec![0, 1, 2, 3, trained - 1, trained, trained + 1, 2 * trained - 1];
        for (place, row) in [("within", within), ("beyond", beyond)] {
            let mut parts = vec![name, place];
            parts.extend(layer.layer_type.as_deref());
            // Images: time stands still while height and width go on.
            let axis = |axis: i64| {
                row.iter()
                    .map(|at| if axis == 0 { *at } else { (at * (3 - axis) + axis) % trained })
                    .collect()
            };
            cases.push(Case {
                name: parts.join("-"),
                tags: vec!["own".into(), rope.schedule().name().into(), rope.pairing().name().into()],
                isolates: format!("this configuration, {place} the trained length"),
                config: config.clone(),
                layer_type: layer.layer_type.clone(),
                positions: (0..rope.axis_count() as i64).map(axis).collect(),
                before: None,
                calls: None,
                rope: None,
            });
        }
    }
    Ok(cases)
}
