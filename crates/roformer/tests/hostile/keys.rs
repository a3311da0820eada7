//! Keys that nobody here knows: an error in a file of a newer transformers, and no file that is known has any.

use super::*;

/// Every stored configuration of a model that can be run.
fn stored() -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let mut all = Vec::new();
    for data in ["families", "decoder", "roformer", "variants"] {
        let file = read(&root.join(format!("golden/{data}/cases.json")));
        for part in ["cases", "gradients"] {
            all.extend(file[part].as_array().into_iter().flatten().map(|case| case["config"].clone()));
        }
    }
    let mut folders = vec![root.join("golden"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                // What modules and tokenizers are said in has no such key.
                false if path.ends_with("config.json") || path.starts_with(root.join("examples")) => {
                    let file = (path.extension() == Some("json".as_ref())).then(|| read(&path));
                    all.extend(file.filter(|file| file["model_type"].is_string()));
                }
                false => {}
            }
        }
    }
    all.retain(|config| config.is_object() && parse(config).is_ok());
    all
}

fn with(config: &Value, fields: Value) -> Value {
    let mut config = config.clone();
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

#[test]
fn every_stored_configuration_could_be_of_a_newer_version() {
    let stored = stored();
    assert!(stored.len() > 150, "{}", stored.len());
    let (mut families, mut wrong) = (Vec::new(), Vec::new());
    let mut check = |config: &Value| wrong.extend(parse(config).err().map(|error| error.to_string()));
    for config in stored {
        let newer = with(&config, json!({"transformers_version": "99.0.0"}));
        check(&newer);
        let blueprint = parse(&config).unwrap();
        if !families.contains(&blueprint.family) {
            families.push(blueprint.family);
            let more = json!({"transformers_version": "99.0.0", "attention_sinks": true});
            refused(parse(&with(&config, more)), &["attention_sinks", "99.0.0", "5.22", "remove"], &config);
        }
        // So could what is handed over, where it can be.
        if let Ok(written) = blueprint.to_config(64, 0.1, &[]) {
            check(&with(&written, json!({"transformers_version": "99.0.0"})));
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(families.len() > 20, "{families:?}");
}

#[test]
fn unknown_keys_are_refused_where_a_newer_version_wrote_them() {
    let llama = |fields: Value| with(&small(json!({"model_type": "llama"})), fields);
    let newer = |version: &str, value: Value| {
        let file = llama(json!({"transformers_version": version, "new_gate": value}));
        parse(&file)
    };
    for value in [json!(null), json!(false), json!(0), json!({}), json!([1])] {
        for version in ["5.23.0", "5.100.0.dev0", "6.0", "main"] {
            refused(newer(version, value.clone()), &["config.json", "new_gate", version, "llama"], version);
        }
        for version in ["5.22.2", "5.9.0", "4.51.3"] {
            newer(version, value.clone()).unwrap();
        }
    }
    // What cannot be read as a version may be any.
    for version in [json!(6), json!([]), json!("")] {
        let file = llama(json!({"transformers_version": version, "new_gate": 1}));
        refused(parse(&file), &["new_gate"], version);
    }
    // Where nothing is unknown, no version matters.
    for version in ["6.0.0", "main"] {
        parse(&llama(json!({"transformers_version": version, "rope_theta": 5e5}))).unwrap();
    }
    // Many, long and odd ones are still one line.
    let many: serde_json::Map<String, Value> =
        (0..50).map(|i| (format!("key{i}\n{}", "x".repeat(5000)), json!(1))).collect();
    let file = with(&llama(Value::Object(many)), json!({"transformers_version": "7.0"}));
    refused(parse(&file), &["key0", "45 more"], "many");
}

#[test]
fn unknown_keys_of_older_files_can_be_asked_for() {
    let file = small(json!({"model_type": "llama", "new_gate": 1, "transformers_version": "4.40.0"}));
    let bytes = file.to_string();
    let unknown = parse(&file).unwrap().unknown_keys(bytes.as_bytes()).unwrap();
    assert!(unknown.unwrap().to_string().contains("unknown keys: new_gate"));
}

#[test]
fn objects_within_are_asked_too() {
    let mpt =
        |fields: Value| json!({"model_type": "mpt", "transformers_version": "6.1", "attn_config": fields});
    parse(&mpt(json!({"alibi": true, "softmax_scale": 0.5}))).unwrap();
    refused(parse(&mpt(json!({"alibi": true, "sinks": 4}))), &["attn_config.sinks"], "mpt");
}

#[test]
fn settings_of_single_layers_are_refused() {
    let llama = |own: Value| parse(&small(json!({"model_type": "llama", "per_layer_config": own})));
    llama(json!(null)).unwrap();
    llama(json!({})).unwrap();
    for own in [json!({"0": {"intermediate_size": 8}}), json!([1]), json!(true)] {
        refused(llama(own.clone()), &["per_layer_config"], own);
    }
}
