//! Schedules, settings and folders.

use crate::common::{Folder, begin, request, small, text, until};
use roformer::train::{Data, Run, Schedule, Settings, Trainer};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

#[test]
fn schedules_have_the_values_of_their_formulas() {
    let rate = |schedule: Schedule, step: u64| schedule.rate(step, [10, 110], [1.0, 0.1]);
    for schedule in Schedule::ALL {
        assert_eq!(rate(schedule, 1), 0.1);
        assert_eq!(rate(schedule, 5), 0.5);
        assert_eq!(rate(schedule, 10), 1.0);
        // Without a rise it begins at the top, and never is anything but a number.
        assert!((0.1..=1.0).contains(&schedule.rate(1, [0, 1], [1.0, 0.1])));
        assert!((0.0..=1.0).contains(&schedule.rate(1, [5, 1], [1.0, 0.1])));
    }
    for (schedule, middle, end) in [
        (Schedule::Cosine, 0.55, 0.1),
        (Schedule::Linear, 0.55, 0.1),
        (Schedule::InverseSqrt, (10f64 / 60.0).sqrt(), (10f64 / 110.0).sqrt()),
        (Schedule::Constant, 1.0, 1.0),
    ] {
        assert!((rate(schedule, 60) - middle).abs() < 1e-12, "{schedule:?}");
        assert!((rate(schedule, 110) - end).abs() < 1e-12, "{schedule:?}");
    }
    let quarter = 0.1 + 0.9 * 0.5 * (1.0 + std::f64::consts::FRAC_PI_4.cos());
    assert!((rate(Schedule::Cosine, 35) - quarter).abs() < 1e-12);
    assert_eq!(Schedule::InverseSqrt.rate(100_000, [10, 100_000], [1.0, 0.1]), 0.1);
}

#[test]
fn settings_and_folders_that_cannot_be_used_are_refused() {
    let given = |value: Value| value.as_object().unwrap().clone();
    for (wrong, says) in [
        (json!({"width": 0}), "width is 0; expected a whole number from 1"),
        (json!({"width": 33}), "heads is 4; expected a divisor of the width, 33"),
        (json!({"layers": 1_000_000}), "layers is 1000000"),
        (json!({"lr": -1.0}), "lr is -1"),
        (json!({"lr": "high"}), "lr is high; expected a number"),
        (json!({"lr": 1e-3, "min_lr": 1e-2}), "min_lr is 0.01; expected from 0 to lr"),
        (json!({"dropout": 1.0}), "dropout is 1"),
        (json!({"encoding": "rotatory"}), "encoding is `rotatory`; expected one of none, sinusoidal"),
        (json!({"encoding": "rotary:bass=5"}), "`bass=5` is invalid"),
        (json!({"encoding": 5}), "encoding is `5`; expected one of none"),
        (json!({"schedule": "cosin"}), "expected one of cosine, linear"),
        (json!({"task": "guess"}), "expected one of causal, masked, classification, similarity"),
        (json!({"task": "masked", "form": "llama"}), "llama for the task masked"),
        (json!({"mask": 0.0}), "mask is 0"),
        (json!({"form": "bert"}), "expected one of roformer, llama"),
        (json!({"validation": 1.0}), "validation is 1"),
        (json!({"depth": 1}), "`depth`"),
    ] {
        let error = Settings::default().with(&given(wrong)).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let lower = Settings::default().with(&given(json!({"lr": 1e-4}))).unwrap();
    assert_eq!(lower.min_lr, 1e-5);
    assert_eq!(Settings::default().with(&lower.to_json()).unwrap(), lower);
    let nan = Settings { clip: f64::NAN, ..Settings::default() };
    assert!(nan.check().unwrap_err().to_string().contains("clip"));
    let huge = Settings { width: 65_536, heads: 8, layers: 1024, block: 64, ..small() };
    let error = Trainer::new(&huge, Data::from_text(&text()).unwrap()).err().unwrap().to_string();
    assert!(error.contains("not enough memory"), "{error}");

    let folder = Folder::new("folders");
    let data = request(folder.put("text", text().as_bytes()));
    let refused = |out: &Path, says: &str| {
        let error = begin(out, &small(), &data).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    };
    refused(&folder.0, "not empty, it has `text`");
    refused(&data.files[0], "text");
    let out = folder.0.join("out");
    let error = Run::resume(&out, &Map::new()).err().unwrap().to_string();
    assert!(error.contains("nothing to resume"), "{error}");
    let mut run = begin(&out, &small(), &data).unwrap();
    run.go(until(3)).unwrap();
    refused(&out, "holds a run already");
    let resume = |value: Value| Run::resume(&out, &given(value)).map(|_| ());
    let error = resume(json!({})).unwrap_err().to_string();
    assert!(error.contains("another run is at work"), "{error}");
    drop(run);
    let error = resume(json!({"width": 64})).unwrap_err().to_string();
    assert!(error.contains("`width` 64, but it was begun with 32"), "{error}");
    resume(json!({"width": 32, "save_every": 3})).unwrap();
    // The text may be gone, but not what was made of it.
    fs::remove_file(&data.files[0]).unwrap();
    resume(json!({})).unwrap();
    let tokens = fs::read(out.join("data/tokens")).unwrap();
    for damaged in [&tokens[..tokens.len() - 4], &[&[9], &tokens[1..]].concat()] {
        fs::write(out.join("data/tokens"), damaged).unwrap();
        let error = resume(json!({})).unwrap_err().to_string();
        assert!(error.contains("not those that the run was begun with"), "{error}");
    }
    fs::write(out.join("data/tokens"), tokens).unwrap();
    for damaged in
        ["", "[]", "{}", "{\"format\": 2}", "{\"format\": 2, \"step\": -1, \"files\": [], \"settings\": {}}"]
    {
        fs::write(out.join("state.json"), damaged).unwrap();
        let error = resume(json!({})).unwrap_err().to_string();
        assert!(error.contains("state.json: "), "{error}");
    }
}
