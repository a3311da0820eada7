//! Training from text files to a folder: schedules, determinism, resuming to the same bits, kills and hostile input.

use roformer::Pipeline;
use roformer::encoding::Encoding;
use roformer::pipeline::Generate;
use roformer::tokenizer::Tokenizer;
use roformer::train::{Corpus, End, Event, FormName, Run, Schedule, Settings, Trainer};
use serde_json::{Map, Value, json};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("roformer-train-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::write(self.0.join(name), bytes).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text() -> String {
    "The quick brown fox\njumps over the lazy dog, again and again; 雨が降る.\n".repeat(40)
}

fn small() -> Settings {
    Settings {
        layers: 2,
        width: 32,
        heads: 2,
        block: 16,
        batch: 4,
        steps: 20,
        warmup: 5,
        eval_every: 5,
        eval_batches: 2,
        save_every: 7,
        dropout: 0.1,
        accumulate: 2,
        ..Settings::default()
    }
}

const NO_FILES: [&str; 0] = [];

fn go_on(_: Event) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Stops after a step.
fn until(last: u64) -> impl FnMut(Event) -> ControlFlow<()> {
    move |event| match event {
        Event::Step { step, .. } if step == last => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    ["state-20.safetensors", "last/model.safetensors", "best/model.safetensors", "last/config.json"]
        .map(|name| (name.to_string(), fs::read(folder.join(name)).unwrap()))
        .into()
}

/// What can be compared of metrics: all but times.
fn metrics(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("metrics.jsonl")).unwrap();
    let line = |line: &str| {
        let mut value: Map<String, Value> = serde_json::from_str(line).unwrap();
        value.remove("tokens_s");
        value.remove("seconds");
        Value::Object(value)
    };
    text.lines().map(line).collect()
}

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
fn a_resumed_run_has_the_same_bits_on_any_threads() {
    for form in FormName::ALL {
        let folder = Folder::new(&format!("resume-{}", form.name()));
        let data = [folder.put("text", text().as_bytes())];
        let settings = Settings { form, ..small() };
        let straight = folder.0.join("straight");
        let end = on_threads(1, || Run::begin(&straight, &settings, &data).unwrap().go(go_on).unwrap());
        assert_eq!(end, End::Finished);
        let broken = folder.0.join("broken");
        // At a step that is neither evaluated nor saved by itself.
        let end = on_threads(2, || Run::begin(&broken, &settings, &data).unwrap().go(until(11)).unwrap());
        assert_eq!(end, End::Stopped);
        let mut run = on_threads(3, || Run::resume(&broken, &Map::new(), &NO_FILES)).unwrap();
        assert_eq!((run.trainer().steps(), run.saved()), (11, 11));
        assert_eq!(on_threads(3, || run.go(go_on)).unwrap(), End::Finished);
        assert!(files(&straight) == files(&broken), "{form:?}");
        assert_eq!(metrics(&straight).len(), 7);
        assert_eq!(metrics(&straight), metrics(&broken));
    }
}

#[test]
fn a_kill_at_any_moment_leaves_a_run_that_goes_on() {
    let folder = Folder::new("kill");
    let data = [folder.put("text", text().as_bytes())];
    let straight = folder.0.join("straight");
    Run::begin(&straight, &small(), &data).unwrap().go(go_on).unwrap();

    let killed = folder.0.join("killed");
    let mut run = Run::begin(&killed, &small(), &data).unwrap();
    // Its checkpoint is of step 7 when it is dropped at 13, in the middle of the next.
    run.go(|event| {
        if matches!(event, Event::Step { step: 13, .. }) {
            fs::copy(killed.join("state.json"), folder.0.join("state.json")).unwrap();
            fs::copy(killed.join("state-7.safetensors"), folder.0.join("state-7")).unwrap();
        }
        until(14)(event)
    })
    .unwrap();
    drop(run);
    // As after a kill between the new state and its commit: state.json is still the old one.
    fs::copy(folder.0.join("state.json"), killed.join("state.json")).unwrap();
    fs::copy(folder.0.join("state-7"), killed.join("state-7.safetensors")).unwrap();
    // Half of a file, of each that is written beside its place; a line that was cut.
    for name in ["state.json.partial", "state-20.safetensors.partial", "last/model.safetensors.partial"] {
        fs::write(killed.join(name), "{\"step\": 14").unwrap();
    }
    let mut log = fs::read(killed.join("metrics.jsonl")).unwrap();
    log.extend(b"{\"step\": 1, \"loss\": 3.");
    fs::write(killed.join("metrics.jsonl"), log).unwrap();

    let mut run = Run::resume(&killed, &Map::new(), &NO_FILES).unwrap();
    assert_eq!(run.trainer().steps(), 7);
    assert_eq!(run.go(go_on).unwrap(), End::Finished);
    assert!(files(&straight) == files(&killed));
    assert_eq!(metrics(&straight), metrics(&killed));
    // Nothing is left of other states.
    let names = fs::read_dir(&killed).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let states: Vec<String> = names.filter(|name| name.starts_with("state-")).collect();
    assert_eq!(states, ["state-20.safetensors"]);
}

#[test]
fn the_loss_falls_in_every_form_and_encoding() {
    let corpus = Corpus::from_text(&text()).unwrap();
    let forms = FormName::ALL.map(|form| (form, "rotary".to_string()));
    let encodings = Encoding::all().into_iter().map(|one| (FormName::RoFormer, one.name().to_string()));
    for (form, encoding) in forms.into_iter().chain(encodings) {
        let settings = Settings {
            form,
            encoding: encoding.clone(),
            lr: 5e-3,
            dropout: 0.0,
            accumulate: 1,
            steps: 40,
            warmup: 5,
            ..small()
        };
        let mut trainer = Trainer::new(&settings, corpus.clone()).unwrap();
        let before = trainer.evaluate().unwrap().unwrap();
        // About the logarithm of the vocabulary at first.
        assert!((before - (corpus.characters().tokens() as f64).ln()).abs() < 1.0, "{encoding}: {before}");
        while trainer.steps() < settings.steps {
            assert!(trainer.step().unwrap().is_finite());
        }
        let after = trainer.evaluate().unwrap().unwrap();
        assert!(after < before - 0.7, "{form:?}, {encoding}: from {before} to {after}");
    }
}

#[test]
fn the_model_reads_and_writes_every_character() {
    let folder = Folder::new("hand-over");
    let data = [folder.put("text", text().as_bytes())];
    for form in FormName::ALL {
        let out = folder.0.join(form.name());
        let settings = Settings { form, lr: 3e-3, min_lr: 3e-4, steps: 60, dropout: 0.0, ..small() };
        let mut run = Run::begin(&out, &settings, &data).unwrap();
        run.go(go_on).unwrap();
        let tokenizer = Tokenizer::load(out.join("best")).unwrap();
        let original = text();
        let ids = tokenizer.encode(&original).unwrap().ids;
        assert_eq!(ids, run.trainer().corpus().ids());
        assert_eq!(tokenizer.decode(&ids), original);
        assert_eq!(tokenizer.encode("Ω").unwrap().ids, [tokenizer.unk_id().unwrap()]);
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let how = Generate { max_tokens: 40, ..Generate::default() };
        let written = pipeline.generate("The quick", &how, |_| {}).unwrap();
        assert!(written.contains(' ') && written.chars().count() >= 30, "{written}");
    }
}

/// The loss that the loaded model gives is the trained one's: no transposed weight, no other pairing.
#[test]
fn the_loaded_model_has_the_loss_of_the_trained_one() {
    let folder = Folder::new("same-loss");
    let data = [folder.put("text", text().as_bytes())];
    for form in FormName::ALL {
        let out = folder.0.join(form.name());
        let settings = Settings { form, eval_batches: 1000, ..small() };
        let mut run = Run::begin(&out, &settings, &data).unwrap();
        run.go(go_on).unwrap();
        let trained = run.last().unwrap().loss;
        let model = roformer::model::Model::load(out.join("last")).unwrap();
        let ids = run.trainer().corpus().ids();
        let kept = &ids[ids.len() - (ids.len() as f64 * settings.validation).round() as usize..];
        let (mut sum, mut count) = (0.0, 0.0);
        for start in (0..kept.len() - settings.block).step_by(settings.block) {
            let block = &kept[start..start + settings.block];
            let input = roformer::model::Input { ids: block, batch: 1, token_types: None, mask: None };
            let scores = model.forward(&input).unwrap().logits.unwrap().scores;
            for (row, scores) in scores.chunks(model.vocab_size()).enumerate() {
                let total: f64 = scores.iter().map(|&x| f64::from(x).exp()).sum();
                sum += total.ln() - f64::from(scores[kept[start + row + 1] as usize]);
                count += 1.0;
            }
        }
        assert!((sum / count - trained).abs() < 1e-5, "{form:?}: {} but {trained}", sum / count);
    }
}

#[test]
fn other_encodings_are_not_loaded_as_rotary_ones() {
    let folder = Folder::new("encodings");
    let data = [folder.put("text", text().as_bytes())];
    let out = folder.0.join("alibi");
    let settings = Settings { encoding: "alibi".into(), steps: 2, ..small() };
    Run::begin(&out, &settings, &data).unwrap().go(go_on).unwrap();
    let config: Value = serde_json::from_slice(&fs::read(out.join("last/config.json")).unwrap()).unwrap();
    assert_eq!(config["position_encoding"], "alibi");
    let error = Pipeline::open(out.join("last")).err().unwrap().to_string();
    assert!(error.contains("roformer-alibi"), "{error}");
}

#[test]
fn hostile_text_is_refused_by_name() {
    let folder = Folder::new("hostile");
    let cases: [(&str, Option<&[u8]>, &str); 6] = [
        ("missing", None, "missing: "),
        ("empty", Some(b""), "empty; expected text"),
        ("mark", Some(b"\xef\xbb\xbf"), "0 characters"),
        ("short", Some(b"a few words"), "11 characters, 10 of them to train on"),
        ("latin", Some(b"caf\xe9 au lait"), "byte 3 is not UTF-8"),
        ("cut", Some(b"caf\xc3"), "byte 3 is not UTF-8"),
    ];
    for (name, bytes, says) in cases {
        let path = folder.0.join(name);
        bytes.map(|bytes| fs::write(&path, bytes));
        let error = Run::begin(folder.0.join("out"), &small(), &[&path]).err().unwrap().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{name}: {error}");
        assert!(!folder.0.join("out").exists(), "{name}");
    }
    let error = Corpus::read(&[&folder.0]).unwrap_err().to_string();
    assert!(error.contains("a folder"), "{error}");
}

#[test]
fn characters_that_pieces_cut_are_whole() {
    let folder = Folder::new("pieces");
    // Three bytes each: a piece of a power of two cuts one.
    let long = "雨".repeat(50_000) + "x";
    let path = folder.put("text", long.as_bytes());
    let corpus = Corpus::read(&[&path, &path]).unwrap();
    assert_eq!(corpus.ids().len(), 100_002);
    assert_eq!(corpus.characters().chars(), ['x', '雨']);
    assert_ne!(corpus.fingerprint(), Corpus::read(&[&path]).unwrap().fingerprint());
    assert_eq!(Corpus::from_text(&long).unwrap(), Corpus::read(&[&path]).unwrap());
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint() {
    let folder = Folder::new("nan");
    let data = [folder.put("text", text().as_bytes())];
    let out = folder.0.join("out");
    let settings =
        Settings { lr: 10.0, min_lr: 10.0, clip: 0.0, weight_decay: 10.0, steps: 3000, warmup: 0, ..small() };
    let mut run = Run::begin(&out, &settings, &data).unwrap();
    let End::Diverged { step, .. } = run.go(go_on).unwrap() else { panic!("it does not diverge") };
    assert!(step > run.saved());
    let saved = run.saved();
    drop(run);
    assert_eq!(Run::resume(&out, &Map::new(), &NO_FILES).unwrap().trainer().steps(), saved);
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
        (json!({"encoding": "rotatory"}), "encoding is rotatory; expected one of none, sinusoidal"),
        (json!({"schedule": "cosin"}), "expected one of cosine, linear"),
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
    let error = Trainer::new(&huge, Corpus::from_text(&text()).unwrap()).err().unwrap().to_string();
    assert!(error.contains("not enough memory"), "{error}");

    let folder = Folder::new("folders");
    let data = [folder.put("text", text().as_bytes())];
    let refused = |out: &Path, says: &str| {
        let error = Run::begin(out, &small(), &data).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    };
    refused(&folder.0, "not empty, it has `text`");
    refused(&data[0], "text");
    let out = folder.0.join("out");
    let error = Run::resume(&out, &Map::new(), &NO_FILES).err().unwrap().to_string();
    assert!(error.contains("nothing to resume"), "{error}");
    let mut run = Run::begin(&out, &small(), &data).unwrap();
    run.go(until(3)).unwrap();
    refused(&out, "holds a run already");
    let resume = |value: Value, files: &[PathBuf]| Run::resume(&out, &given(value), files).map(|_| ());
    let error = resume(json!({}), &[]).unwrap_err().to_string();
    assert!(error.contains("another run is at work"), "{error}");
    drop(run);
    let error = resume(json!({"width": 64}), &[]).unwrap_err().to_string();
    assert!(error.contains("`width` 64, but it was begun with 32"), "{error}");
    resume(json!({"width": 32, "save_every": 3}), &[]).unwrap();
    let other = folder.put("other", &text().as_bytes()[1..]);
    let error = resume(json!({}), &[other]).unwrap_err().to_string();
    assert!(error.contains("another text"), "{error}");
    for damaged in
        ["", "[]", "{}", "{\"format\": 1}", "{\"format\": 1, \"step\": -1, \"data\": [], \"settings\": {}}"]
    {
        fs::write(out.join("state.json"), damaged).unwrap();
        let error = resume(json!({}), &[]).unwrap_err().to_string();
        assert!(error.contains("state.json: "), "{error}");
    }
}

#[test]
fn without_validation_there_is_no_best() {
    let folder = Folder::new("no-validation");
    let data = [folder.put("text", text().as_bytes())];
    let out = folder.0.join("out");
    let mut run = Run::begin(&out, &Settings { validation: 0.0, ..small() }, &data).unwrap();
    assert_eq!(run.go(go_on).unwrap(), End::Finished);
    assert!(
        run.best().is_none() && !out.join("best").exists() && out.join("last/model.safetensors").exists()
    );
}
