//! The questions that an exported page can ask: entries of `stops.json`, each with all combinations of some controls (`all`),
//! and for each of these every single change of some others (`each`).

use axum::http::Uri;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A question: values by the names of their parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question(pub BTreeMap<String, String>);

impl Question {
    /// As the page looks for it.
    pub fn key(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
    }

    /// As a server is asked.
    pub fn uri(&self, route: &str) -> Uri {
        let escaped = |text: &str| -> String { text.bytes().map(|byte| format!("%{byte:02X}")).collect() };
        let pairs: Vec<String> =
            self.0.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        // Names are those of the list and values are escaped, so that this is always an address.
        format!("/api/{route}?{}", pairs.join("&")).parse().unwrap_or_default()
    }

    fn with(&self, name: &str, value: &str) -> Question {
        let mut question = self.clone();
        question.0.insert(name.into(), value.into());
        question
    }
}

/// An entry of the list. What it does not say is as in the entry before it, of the same route.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    route: String,
    #[serde(default)]
    ask: BTreeMap<String, Value>,
    #[serde(default)]
    all: BTreeMap<String, Stops>,
    #[serde(default)]
    each: BTreeMap<String, Stops>,
}

/// The stops of a control.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stops {
    /// One by one.
    List(Vec<Value>),
    /// Whole numbers, the last one included: `0..40`, or with a step, `0..60/4`.
    Range(String),
}

impl Stops {
    fn values(&self) -> Vec<String> {
        match self {
            Stops::List(values) => values.iter().map(text).collect(),
            Stops::Range(range) => {
                let (ends, step) = range.split_once('/').unwrap_or((range, "1"));
                let (first, last) = ends.split_once("..").unwrap_or((ends, ends));
                let whole = |text: &str| text.parse::<i64>().unwrap_or_default();
                let steps = (whole(first)..=whole(last)).step_by(whole(step).max(1) as usize);
                steps.map(|value| value.to_string()).collect()
            }
        }
    }
}

/// A value as an address has it.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// All questions by their routes, each once.
pub fn questions() -> BTreeMap<String, Vec<Question>> {
    let entries: Vec<Entry> = serde_json::from_str(include_str!("stops.json")).unwrap_or_default();
    let mut last: BTreeMap<String, Question> = BTreeMap::new();
    let mut found: BTreeMap<String, BTreeSet<Question>> = BTreeMap::new();
    for entry in entries {
        let base = last.entry(entry.route.clone()).or_default();
        base.0.extend(entry.ask.iter().map(|(name, value)| (name.clone(), text(value))));
        let mut questions = vec![base.clone()];
        for (name, stops) in &entry.all {
            questions = changed(&questions, name, stops);
        }
        let combinations = questions.clone();
        for (name, stops) in &entry.each {
            questions.extend(changed(&combinations, name, stops));
        }
        found.entry(entry.route).or_default().extend(questions);
    }
    found.into_iter().map(|(route, questions)| (route, questions.into_iter().collect())).collect()
}

/// Each question with every value of a control.
fn changed(questions: &[Question], name: &str, stops: &Stops) -> Vec<Question> {
    let values = stops.values();
    questions.iter().flat_map(|question| values.iter().map(|value| question.with(name, value))).collect()
}

/// The numbers that each control can be at, by routes and names, as the page reads them.
pub fn stops(asked: &BTreeMap<String, Vec<Question>>) -> Value {
    let numbers = |questions: &Vec<Question>| {
        let mut stops: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (name, value) in questions.iter().flat_map(|question| &question.0) {
            if let Ok(number) = value.parse::<f64>() {
                stops.entry(name).or_default().push(number);
            }
        }
        for stops in stops.values_mut() {
            stops.sort_by(f64::total_cmp);
            stops.dedup();
        }
        json!(stops)
    };
    json!(asked.iter().map(|(route, questions)| (route, numbers(questions))).collect::<BTreeMap<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read() {
        let asked = questions();
        assert_eq!(asked.len(), 20, "{:?}", asked.keys());
        assert_eq!(
            asked["tokens"].iter().filter(|question| question.0["dim"] == "8").count(),
            41 * 41 + 7 + 8
        );
        assert_eq!(asked["words"][0].key(), "text=我爱你");
        assert!(asked["tokens"].iter().any(|question| question.key() == "base=10000&dim=8&m=12&n=7&seed=1"));
        let stops = stops(&asked);
        assert_eq!(stops["codes"]["position"].as_array().unwrap().len(), 16);
        assert_eq!(stops["exhibits"], json!({}));
    }

    #[test]
    fn questions_are_addresses() {
        let question = Question(BTreeMap::from([("text".into(), "我 & you".into())]));
        assert_eq!(question.uri("words").to_string(), "/api/words?text=%E6%88%91%20%26%20%79%6F%75");
    }
}
