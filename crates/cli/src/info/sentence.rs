//! What a folder of sentence-transformers, or a cross-encoder, does with texts: as facts, and as lines of the page.

use super::page::show;
use roformer::sentence::{Recipe, Step};
use serde_json::{Value, json};

/// The facts, or null where the folder says nothing.
pub fn facts(recipe: &Recipe, width: Option<usize>) -> Value {
    let prompts = json!({
        "prompts": recipe.prompts.named,
        "default_prompt_name": recipe.prompts.default,
        "max_seq_length": recipe.longest,
        "do_lower_case": recipe.lowers_case,
    });
    let mut facts = match (&recipe.vectors, &recipe.pairs) {
        (Some(vectors), _) => {
            let modules: Vec<Value> = vectors.steps.iter().map(module).collect();
            let last = vectors.steps.iter().rev().find_map(|step| match step {
                Step::Dense(dense) => Some(dense.outputs),
                Step::Normalize => None,
            });
            let made = last.or(width.map(|width| width * vectors.poolings.len()));
            json!({
                "type": "sentence-transformer",
                "pooling": vectors.poolings.iter().map(|pooling| pooling.name()).collect::<Vec<_>>(),
                "include_prompt": vectors.includes_prompt,
                "modules": modules,
                "dimensions": made.map(|made| vectors.dimensions.map_or(made, |kept| kept.min(made))),
                "similarity": vectors.similarity.name(),
            })
        }
        (None, Some(pairs)) => json!({
            "type": "cross-encoder",
            "activation": pairs.activation.name(),
            "max_seq_length": pairs.longest,
        }),
        (None, None) => return Value::Null,
    };
    if let (Some(facts), Value::Object(more)) = (facts.as_object_mut(), prompts) {
        for (field, value) in more {
            facts.entry(field).or_insert(value);
        }
    }
    facts
}

fn module(step: &Step) -> Value {
    match step {
        Step::Normalize => json!({ "type": "normalize" }),
        Step::Dense(dense) => json!({
            "type": "dense",
            "in_features": dense.inputs,
            "out_features": dense.outputs,
            "bias": dense.has_bias,
            "activation": dense.activation.name(),
        }),
    }
}

/// The lines of the page, each with its name.
pub fn lines(facts: &Value) -> Vec<(&'static str, Vec<Option<String>>)> {
    let with = |field: &str, words: &str| show(&facts[field]).map(|value| words.replace('#', &value));
    let is = |field: &str| facts[field].as_bool() == Some(true);
    let first = match facts["type"].as_str() {
        Some("sentence-transformer") => {
            let poolings = facts["pooling"].as_array().into_iter().flatten().filter_map(show);
            let modules = facts["modules"].as_array().into_iter().flatten().map(module_words);
            let way = std::iter::once(poolings.collect::<Vec<_>>().join(" and ")).chain(modules);
            let way = way.collect::<Vec<_>>().join(", then ");
            let compared = with("similarity", "compared by #");
            ("vectors", vec![Some(way), with("dimensions", "# numbers"), compared])
        }
        Some("cross-encoder") => {
            ("pairs", vec![Some("cross-encoder".into()), with("activation", "one label through #")])
        }
        _ => return Vec::new(),
    };
    let named = facts["prompts"].as_object().into_iter().flatten();
    let prompts = named.filter(|(_, prompt)| prompt.as_str().is_some_and(|prompt| !prompt.is_empty()));
    let quoted = |(name, prompt): (&String, &Value)| {
        let mut prompt = show(prompt)?;
        if prompt.chars().count() > SHOWN {
            prompt = prompt.chars().take(SHOWN).chain(['…']).collect();
        }
        Some(format!("{} \"{prompt}\"", show(&name.as_str().into())?))
    };
    let mut prompts: Vec<Option<String>> = prompts.map(quoted).collect();
    if !prompts.is_empty() {
        prompts.push(with("default_prompt_name", "by default #"));
        prompts.push((facts["include_prompt"] == false).then(|| "not pooled".into()));
    }
    let small = is("do_lower_case").then(|| "letters made small".into());
    vec![first, ("prompts", prompts), ("texts", vec![with("max_seq_length", "cut to # tokens"), small])]
}

/// Characters of a prompt that are shown.
const SHOWN: usize = 60;

fn module_words(module: &Value) -> String {
    let number = |field: &str| module[field].as_u64().unwrap_or_default();
    match module["type"].as_str() {
        Some("dense") => {
            let activation = module["activation"].as_str().unwrap_or_default();
            let bias = if module["bias"] == false { ", no bias" } else { "" };
            format!("dense {} → {} ({activation}{bias})", number("in_features"), number("out_features"))
        }
        _ => "scaled to length 1".into(),
    }
}
