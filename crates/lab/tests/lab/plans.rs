//! Plans that have a name, reduced to what takes seconds; and runs that are broken off in the middle.

use super::{Folder, files, go, make, put_together, strings};
use lab::run::train;
use lab::tasks::{self, Draws, Part};
use lab::{Decay, Named, PAPER, PUBLISHED, Plan, Preset, Progress, Request, Size, Sizes, Store, Training};
use lab::{compare, replay};
use roformer::Device;
use roformer::encoding::Encoding;
use roformer::graph::IGNORE;
use roformer::train::Data;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// A text with a little to learn.
fn text() -> Option<Data> {
    let words = ["red ", "green ", "blue ", "and ", "or "];
    let text: String = (0..9000usize).map(|place| words[place * place % 7 % words.len()]).collect();
    Some(Data::from_text(&text).unwrap())
}

/// A named plan in a small model, for a few steps.
fn reduced(named: &'static Named) -> Request {
    Request {
        preset: Preset::Named(named),
        sizes: "1x32x2".parse().ok(),
        steps: Some(4),
        batch: Some(32),
        seeds: Some(2),
        train_length: Some(6),
        text: text(),
        ..Request::default()
    }
}

/// Each plan from its beginning to its report: on one thread and two, broken off and in parts, the same bytes; and what its runs are
/// is what the plan says.
#[test]
fn every_named_plan_is_made_reduced() {
    for named in PUBLISHED.into_iter().chain([&PAPER]) {
        // Tests of a few lengths: what else there is of them is the same.
        let request = Request { test_lengths: vec![4, 6, 8], ..reduced(named) };
        let plan = Plan::new(&request).unwrap();
        let [one, broken, parts, merged] =
            ["one", "broken", "parts", "merged"].map(|name| Folder::new(&format!("{}-{name}", named.name)));
        let results = go(&plan, &one.0, 1);
        for steps in [3, 9, 30] {
            let store = Store::create(&broken.0, &plan).unwrap();
            let left = AtomicI64::new(steps);
            let is_going = |_| left.fetch_sub(1, Ordering::Relaxed) > 0;
            assert!(compare(&plan, &store, 2, &is_going).unwrap().is_none());
        }
        go(&plan, &broken.0, 2);
        assert_eq!(files(&one.0), files(&broken.0), "{}", named.name);
        assert!(!broken.0.join("under-way").exists());
        let folders = ["1", "2"].map(|number| parts.0.join(number));
        for (index, folder) in folders.iter().enumerate() {
            assert!(make(&plan, folder, &format!("{}/2", index + 1), i64::MAX));
        }
        assert_eq!(put_together(&plan, &folders, &merged.0).unwrap(), results);
        assert_eq!(files(&one.0), files(&merged.0), "{}", named.name);
        assert_eq!(replay(&one.0).unwrap().0, results);

        assert_eq!(results.plan.preset, named.name);
        assert_eq!(results.plan.source.as_deref(), Some(named.source));
        assert_eq!((results.plan.training, results.plan.heads), (named.training, 2));
        let names: Vec<&str> = results.tasks.iter().map(|task| &task.name[..]).collect();
        assert_eq!(names, named.tasks.iter().map(|task| task.name).collect::<Vec<_>>());
        let labels: Vec<&str> = results.plan.encodings.iter().map(|own| &own.label[..]).collect();
        assert_eq!(labels, named.encodings);
        // A plan with one rate has no runs that choose one.
        let searches = files(&one.0).into_keys().filter(|name| name.starts_with("search")).count();
        let rates = if named.rate.is_some() { 0 } else { 3 };
        assert_eq!(searches, rates * names.len() * labels.len());
        for (task, fixed) in results.tasks.iter().zip(named.tasks) {
            assert_eq!(task.symbols, fixed.symbols);
            let path = one.0.join(format!("runs/{}.{}.seed-2.json", task.name, labels[1]));
            let run: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
            let own = &run["settings"];
            assert_eq!((&own["heads"], &own["batch"]), (&2.into(), &32.into()));
            let training: Training = serde_json::from_value(own["training"].clone()).unwrap();
            assert_eq!(training, named.training);
            // As much more than the plan's as its models are narrower, where it has a rate of its own.
            if let Some(rate) = named.rate {
                assert_eq!(own["rate"], rate * named.size.width() as f64 / 64.0);
            }
        }
    }
}

/// What a plan fixes is what its runs are told, whole.
#[test]
fn a_plan_is_what_was_published() {
    let of = |named: &'static Named| {
        // Texts as long as the longest test.
        let text: String = (0..60_000).map(|place| if place % 3 == 0 { 'a' } else { 'b' }).collect();
        let text = Some(Data::from_text(&text).unwrap());
        Plan::new(&Request { preset: Preset::Named(named), text, ..Request::default() }).unwrap()
    };
    let [kazemnejad, alibi, eleutherai] = PUBLISHED.map(of);
    for (plan, size, batch, steps) in [
        (&kazemnejad, "12x768x12", 64, 40_000),
        (&alibi, "16x1024x8", 144, 286_000),
        (&eleutherai, "12x768x12", 256, 55_000),
    ] {
        assert_eq!((plan.sizes, plan.batch), (Sizes::One(size.parse().unwrap()), batch));
        assert!(plan.tasks.iter().all(|task| task.steps == steps));
    }
    // Steps of warm-up: of 40,000, of 286,000, and 375 million tokens of 2¹⁹ a step.
    let warmup = |plan: &Plan, steps: u64| (steps as f64 * plan.training.warmup).round();
    assert_eq!(warmup(&kazemnejad, 40_000), 2_400.0);
    assert_eq!(warmup(&alibi, 286_000), 16_000.0);
    assert_eq!(warmup(&eleutherai, 55_000), 715.0);
    assert_eq!(kazemnejad.training.decay, Decay::Linear);
    let rates = [&kazemnejad, &alibi, &eleutherai].map(|plan| plan.shown().rates);
    assert_eq!((&rates[0][..], rates[1].len(), &rates[2][..]), (&[3e-5][..], 3, &[6e-4][..]));
    // The work of a plan is that of its runs, by hand for one of one task: 3 seeds of three encodings and the baseline again.
    let work = eleutherai.work_of_all().unwrap();
    assert_eq!(work.runs, 12);
    let (tokens, width, layers) = (2048.0, 768.0, 12.0);
    let vocabulary = eleutherai.tasks[0].task.vocabulary() as f64;
    let forward = 2.0 * (layers * 12.0 * width * width + vocabulary * width) + layers * 4.0 * tokens * width;
    let wanted = 12.0 * 55_000.0 * 256.0 * 3.0 * tokens * forward;
    assert!((work.training / wanted - 1.0).abs() < 1e-12, "{} but {wanted}", work.training);
    assert_eq!(work.tokens, 12.0 * 55_000.0 * 256.0 * tokens);
    assert_eq!(work.kept, 12 * work.parameters as u64);
    // Parameters: layers, and both ends of the vocabulary; a learned table on top.
    let layer = 12.0 * width * width + 13.0 * width;
    let least = layers * layer + 2.0 * vocabulary * width + vocabulary;
    assert_eq!(work.parameters as f64, least + 2048.0 * width);
}

#[test]
fn what_a_named_plan_does_not_have_is_refused() {
    let [kazemnejad, alibi, _] = PUBLISHED;
    // A tenth of it, which is for tests, is less than such a length.
    let short = Some(Data::from_text(&"a word ".repeat(2000)).unwrap());
    for (request, says) in [
        (
            Request { tasks: strings(&["majority"]), ..reduced(kazemnejad) },
            "one of those that the plan kazemnejad-2023 fixes: copy",
        ),
        (Request { tasks: strings(&["copi"]), ..reduced(kazemnejad) }, "`copi`"),
        (
            Request { text: None, ..reduced(alibi) },
            "missing, and the plan alibi-2022 reads one; expected a file of text",
        ),
        (
            Request { batch: Some(9), ..reduced(alibi) },
            "the number of texts of a step is 9; expected a multiple of 8 from 1",
        ),
        (
            Request { batch: Some(0), ..reduced(kazemnejad) },
            "the number of texts of a step is 0; expected from 1",
        ),
        (Request { batch: Some(1 << 40), ..Request::default() }, "the number of texts of a step"),
        (
            Request { text: short, train_length: None, ..reduced(alibi) },
            "a length to test is 1512; expected from 1 to 1399 for language",
        ),
    ] {
        let error = Plan::new(&request).map(drop).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

/// Runs of one plan are never taken for those of another in the same folder.
#[test]
fn runs_of_a_named_plan_are_kept_apart() {
    let folder = Folder::new("apart");
    let named = Request {
        tasks: strings(&["sort"]),
        encodings: strings(&["none", "alibi"]),
        ..reduced(PUBLISHED[0])
    };
    let plan = Plan::new(&named).unwrap();
    go(&plan, &folder.0, 2);
    let first = files(&folder.0);
    // All that a lab's own comparison of the same sizes, steps and rate has in common.
    let own = Request { preset: Preset::Full, ..Request { text: None, ..named } };
    let other = Plan::new(&own).unwrap();
    let said = Store::create(&folder.0, &other).err().unwrap().to_string();
    assert!(said.contains("preset kazemnejad-2023 there, full here"), "{said}");
    super::overwrite(&other, &folder.0, 2);
    let name = "sort.alibi.seed-2.json";
    assert_ne!(files(&folder.0)[name], first[name]);
}

/// A run that is stopped goes on in its middle, to the bits of one without a break; what is spoilt is begun again.
#[test]
fn a_run_goes_on_in_its_middle() {
    let request = Request {
        tasks: strings(&["copy"]),
        encodings: strings(&["none", "learned"]),
        preset: Preset::Named(PUBLISHED[0]),
        sizes: "1x32".parse().ok(),
        train_length: Some(4),
        test_lengths: vec![4, 5],
        steps: Some(120),
        seeds: Some(2),
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    let [whole, broken] = ["unbroken", "in-the-middle"].map(Folder::new);
    go(&plan, &whole.0, 1);
    // The parts of the work that were told of, first and last.
    let part = |stop: i64| {
        let (left, told) = (AtomicI64::new(stop), Mutex::new(Vec::new()));
        let on = |progress: Progress| {
            told.lock().unwrap().push(progress.part);
            left.fetch_sub(1, Ordering::Relaxed) > 0
        };
        let store = Store::create(&broken.0, &plan).unwrap();
        let is_whole = compare(&plan, &store, 1, &on).unwrap().is_some();
        let told = told.into_inner().unwrap();
        (is_whole, told[0], *told.last().unwrap())
    };
    let (_, _, reached) = part(70);
    assert!(reached > 0.0);
    let under_way = || {
        let found = fs::read_dir(broken.0.join("under-way")).unwrap();
        let mut names: Vec<String> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(under_way(), ["copy.none.seed-1.70.safetensors", "copy.none.seed-1.json"]);
    // From there on, and then from a little further.
    let (_, begun, _) = part(10);
    assert_eq!(begun, reached, "it goes on where it was");
    assert_eq!(under_way(), ["copy.none.seed-1.80.safetensors", "copy.none.seed-1.json"]);
    // Half a file: it begins again, and comes to the same.
    let spoilt = broken.0.join("under-way/copy.none.seed-1.80.safetensors");
    let bytes = fs::read(&spoilt).unwrap();
    fs::write(&spoilt, &bytes[..bytes.len() / 2]).unwrap();
    let (_, begun, _) = part(30);
    assert_eq!(begun, 0.0);
    let (is_whole, begun, _) = part(i64::MAX);
    assert!(is_whole && begun > 0.0);
    assert_eq!(files(&whole.0), files(&broken.0));
    assert!(!broken.0.join("under-way").exists());
}

/// A step in parts is the step of the whole batch, up to the order of its sums.
#[test]
fn parts_of_a_step_are_the_step() {
    let losses = [1, 4].map(|parts| {
        let task = tasks::find("language", None).unwrap();
        let mut settings = super::settings(&*task, "learned", 12);
        settings.training = Training { parts, ..Training::USUAL };
        let encoding = Encoding::parse("learned").unwrap();
        let trained = train(&Device::default(), &settings, &*task, &encoding, || true).unwrap().unwrap();
        trained.curve
    });
    assert_eq!(losses[0].len(), 12);
    for (whole, parts) in losses[0].iter().zip(&losses[1]) {
        // A sum of a hundred thousand rounded products, each to 2⁻²⁴, over twelve steps.
        assert!((whole.loss - parts.loss).abs() < 1e-5 * whole.loss, "{} but {}", parts.loss, whole.loss);
    }
    assert_ne!(losses[0], losses[1], "the order of the sums is another");
}

/// Symbols of a plan are drawn with repetition, and the answers are those of the task.
#[test]
fn tasks_with_other_symbols_ask_the_same() {
    for (name, symbols) in [("copy", 100), ("reverse", 100), ("repeat", 5750), ("sort", 50)] {
        let task = tasks::of_symbols(name, symbols).unwrap();
        assert_eq!((task.name(), task.vocabulary()), (name, 4 + symbols));
        let (mut most, mut repeats) = (0, 0);
        for key in 0..300 {
            let example = task.example(40, Part::Train, &mut Draws::new(&[key]));
            assert_eq!((example.ids.len(), example.targets.len()), (task.tokens(40), task.tokens(40)));
            let text = &example.ids[1..41];
            let mut wanted = text.to_vec();
            match name {
                "reverse" => wanted.reverse(),
                "sort" => wanted.sort_unstable(),
                _ => {}
            }
            let said: Vec<u32> = example.targets.into_iter().filter(|&target| target != IGNORE).collect();
            assert_eq!(said[..40], wanted, "{name}");
            most = most.max(*text.iter().max().unwrap());
            wanted.sort_unstable();
            wanted.dedup();
            repeats += usize::from(wanted.len() < 40);
        }
        assert!(most < 4 + symbols as u32 && most > 4 + symbols as u32 * 9 / 10, "{name}: {most}");
        assert!(repeats > 250, "{name}: {repeats}");
    }
    assert!(tasks::of_symbols("majority", 9).is_err());
}

/// A run is kept with its settings: what is as always is not mentioned, so that files of before are still read.
#[test]
fn settings_mention_what_is_not_as_always() {
    let plan = Plan::new(&Request::default()).unwrap();
    let settings = plan.runs(&plan.tasks[0], "rotary", 0.003, false, 1).remove(0);
    let text = serde_json::to_string(&settings).unwrap();
    let before = r#"{"purpose":"run","task":"copy","data":"0000000000000000","encoding":"rotary","is_linear":false,"width":64,"layers":2,"batch":32,"train_length":8,"test_lengths":[2,4,6,8,9,10,12,16],"examples":128,"steps":700,"rate":0.003,"seed":1}"#;
    assert_eq!(text, before);
    assert_eq!(serde_json::from_str::<lab::run::Settings>(before).unwrap(), settings);
    let heads = settings.clone().of("2x64x4".parse::<Size>().unwrap());
    assert_eq!((heads.heads, heads.of(Size::SMALLEST)), (Some(4), settings));
}

/// Work is counted of what is asked for: larger models take more of it, and of memory, for the same tokens.
#[test]
fn work_grows_with_models() {
    let of = |size: &str| {
        let plan = Plan::new(&Request { sizes: size.parse().ok(), ..Request::default() }).unwrap();
        plan.work_of_all().unwrap()
    };
    let (small, large) = (of("2x64"), of("3x128"));
    assert!(large.memory > 16 * large.parameters as u64 && large.memory > small.memory);
    assert!(large.training > 4.0 * small.training && large.measuring > 4.0 * small.measuring);
    assert_eq!((large.tokens, large.runs), (small.tokens, small.runs));
}
