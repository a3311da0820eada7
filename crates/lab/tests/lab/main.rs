//! Comparisons of encodings: the same bytes whatever happens on the way, and measures that mean what they say.

use lab::results::{Results, Rule};
use lab::run::{Purpose, Settings, Trained, train};
use lab::tasks::{self, Draws, Part, Task};
use lab::{
    LEARNED, Plan, Request, Shard, Shards, Sizes, Store, Training, compare, compare_shard, encodings,
    measure, merge, replay,
};
use roformer::Device;
use roformer::encoding::{Encoding, Given, Rotary};
use roformer::graph::{Batch, IGNORE};
use roformer::rope::{Rope, Schedule};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

mod plans;

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("roformer-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| item.to_string()).collect()
}

/// Two tasks, three encodings, two seeds, a few steps.
fn small() -> Plan {
    let request = Request {
        tasks: strings(&["copy", "language"]),
        encodings: strings(&["rotary", "receptive", "learned"]),
        seeds: Some(2),
        train_length: Some(4),
        test_lengths: vec![2, 4, 6],
        steps: Some(6),
        ..Request::default()
    };
    Plan::new(&request).unwrap()
}

fn go(plan: &Plan, folder: &Path, threads: usize) -> Results {
    let store = Store::create(folder, plan).unwrap();
    compare(plan, &store, threads, &|_| true).unwrap().unwrap().0
}

/// The same in a folder that may hold another comparison.
fn overwrite(plan: &Plan, folder: &Path, threads: usize) -> Results {
    let store = Store::replace(folder, plan).unwrap();
    compare(plan, &store, threads, &|_| true).unwrap().unwrap().0
}

/// Every file of a folder but the times.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in [folder.to_path_buf(), folder.join("runs")] {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_file() && name != "timings.json" {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[test]
fn the_same_plan_gives_the_same_bytes() {
    let plan = small();
    let folders = ["one", "two", "again"].map(Folder::new);
    let results = go(&plan, &folders[0].0, 1);
    go(&plan, &folders[1].0, 2);
    let first = files(&folders[0].0);
    // Searches, runs, the baseline again; the plan and the results.
    assert_eq!(first.len(), 2 * (3 * 3 + 3 * 2 + 2) + 2);
    assert_eq!(first, files(&folders[1].0), "on one thread and on two");
    // What is finished is not made again: a change in a file of a run would be seen.
    go(&plan, &folders[0].0, 2);
    assert_eq!(first, files(&folders[0].0));
    assert_eq!(replay(&folders[0].0).unwrap().0, results);
    assert!(replay(&folders[2].0).is_err());
}

#[test]
fn a_comparison_that_was_stopped_goes_on_to_the_same_bytes() {
    let plan = small();
    let [whole, broken] = ["whole", "broken"].map(Folder::new);
    go(&plan, &whole.0, 2);
    // Stopped again and again, each time a little later, once with half a file on the disk.
    for steps in [0, 3, 20, 30, 40] {
        let store = Store::create(&broken.0, &plan).unwrap();
        let left = std::sync::atomic::AtomicI64::new(steps);
        let is_going = |_| left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(compare(&plan, &store, 2, &is_going).unwrap().is_none());
        assert!(!broken.0.join("results.json").exists());
        if let Some(entry) = fs::read_dir(broken.0.join("runs")).unwrap().next() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        }
    }
    go(&plan, &broken.0, 2);
    assert_eq!(files(&whole.0), files(&broken.0));
}

/// Seeds are added where something is undecided, as far as the budget goes: on one thread and on two, with breaks and without,
/// the same ones and the same bytes.
#[test]
fn seeds_are_added_the_same_whatever_happens() {
    let request = Request {
        tasks: strings(&["majority"]),
        encodings: strings(&["none", "alibi", "rotary"]),
        train_length: Some(3),
        test_lengths: vec![2, 3, 4],
        steps: Some(8),
        budget: Some(9),
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    let [one, two, broken] = ["added-one", "added-two", "added-broken"].map(Folder::new);
    let results = go(&plan, &one.0, 1);
    go(&plan, &two.0, 2);
    assert_eq!(files(&one.0), files(&two.0));
    for steps in [60, 60, 60] {
        let store = Store::create(&broken.0, &plan).unwrap();
        let left = std::sync::atomic::AtomicI64::new(steps);
        let is_going = |_| left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(compare(&plan, &store, 2, &is_going).unwrap().is_none());
    }
    go(&plan, &broken.0, 2);
    assert_eq!(files(&one.0), files(&broken.0));

    let mut runs = 0;
    for task in &results.tasks {
        let count = |label: &str, is_again: bool| {
            task.runs.iter().filter(|run| run.encoding == label && run.is_again == is_again).count()
        };
        let rows = [("alibi", false), ("rotary", false), ("none", true)];
        let counts = rows.map(|(label, is_again)| count(label, is_again));
        // Each has the seeds of a look, the baseline as many as any, and differences of as many.
        assert!(counts.iter().all(|count| [5, 10, 20].contains(count)), "{counts:?}");
        assert_eq!(count("none", false), counts.into_iter().max().unwrap());
        for row in &task.comparisons {
            assert_eq!(row.differences.len(), count(&row.encoding, row.is_again));
        }
        runs += task.runs.len();
    }
    assert!(runs > 4 * 5, "models of eight steps differ by chance alone, and some need more seeds");
    // Runs of one task are as much work as each other.
    assert!(runs <= 4 * 9, "{runs}");
    let most = results.tasks.iter().flat_map(|task| &task.runs).map(|run| run.seed).max();
    assert_eq!((results.plan.seeds.last().copied(), results.plan.budget), (most, Some(9)));
    // Parts of it cannot be made apart.
    let store = Store::create(&one.0, &plan).unwrap();
    let said = compare_shard(&plan, "1/2".parse().unwrap(), &store, 1, &|_| true).unwrap_err().to_string();
    assert!(said.contains("added on the way; expected a number of them"), "{said}");
}

/// A shard in its folder; whether it was finished.
fn make(plan: &Plan, folder: &Path, shard: &str, steps: i64) -> bool {
    let store = Store::create(folder, plan).unwrap();
    let left = std::sync::atomic::AtomicI64::new(steps);
    let is_going = |_| left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0;
    compare_shard(plan, shard.parse().unwrap(), &store, 2, &is_going).unwrap().is_some()
}

fn put_together(plan: &Plan, folders: &[PathBuf], out: &Path) -> roformer::Result<Results> {
    let shards = Shards::read(plan, folders)?;
    Ok(merge(plan, &shards, &Store::create(out, plan)?)?.0)
}

/// Seven machines, two of which die and begin again, one of them on an empty disk: the bytes of one machine.
#[test]
fn shards_are_put_together_to_the_same_bytes() {
    let plan = small();
    let [whole, parts, merged] = ["unsharded", "shards", "merged"].map(Folder::new);
    let results = go(&plan, &whole.0, 2);
    let folders: Vec<PathBuf> = (1..=7).map(|number| parts.0.join(number.to_string())).collect();
    for (index, folder) in folders.iter().enumerate() {
        let shard = format!("{}/7", index + 1);
        if index == 2 || index == 5 {
            assert!(!make(&plan, folder, &shard, 8));
            let said = put_together(&plan, &folders, &merged.0).unwrap_err().to_string();
            assert!(said.contains("is not finished") || said.contains("not there"), "{said}");
        }
        if index == 5 {
            fs::remove_dir_all(folder).unwrap();
        }
        assert!(make(&plan, folder, &shard, i64::MAX));
    }
    assert_eq!(put_together(&plan, &folders, &merged.0).unwrap(), results);
    assert_eq!(files(&whole.0), files(&merged.0));
    // Every run that is compared is in one shard alone.
    let count = |folder: &Path| {
        let names = files(folder).into_keys();
        names.filter(|name| name.contains(".seed-")).count()
    };
    let each: Vec<usize> = folders.iter().map(|folder| count(folder)).collect();
    assert_eq!(each.iter().sum::<usize>(), count(&whole.0), "{each:?}");
    assert!(each.iter().all(|&count| count > 0), "{each:?}");

    // In another order, and with a shard twice, it is the same; without one it is refused.
    let again = Folder::new("merged-again");
    let twice: Vec<PathBuf> = folders.iter().rev().chain([&folders[3]]).cloned().collect();
    assert_eq!(put_together(&plan, &twice, &again.0).unwrap(), results);
    assert_eq!(files(&whole.0), files(&again.0));
}

/// A sweep chooses before the runs: shards choose the same, whichever of the runs they have.
#[test]
fn shards_of_a_sweep_choose_the_same() {
    let request = Request {
        tasks: strings(&["majority"]),
        encodings: strings(&["rotary", "none"]),
        seeds: Some(3),
        steps: Some(2),
        is_sweep: true,
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    let [whole, parts, merged] = ["swept", "swept-shards", "swept-merged"].map(Folder::new);
    let results = go(&plan, &whole.0, 2);
    assert!(!results.tasks[0].sweep.is_empty());
    let folders = ["1", "2", "3"].map(|number| parts.0.join(number));
    for (index, folder) in folders.iter().enumerate() {
        assert!(make(&plan, folder, &format!("{}/3", index + 1), i64::MAX));
    }
    assert_eq!(put_together(&plan, &folders, &merged.0).unwrap(), results);
    assert_eq!(files(&whole.0), files(&merged.0));
}

/// A pilot takes the smallest size that learns a task, or the best: on one thread and on two, with breaks and in parts, the same
/// ones and the same bytes.
#[test]
fn a_pilot_chooses_the_same_whatever_happens() {
    let request = Request {
        tasks: strings(&["majority", "copy", "language"]),
        encodings: strings(&["none", "alibi"]),
        seeds: Some(2),
        train_length: Some(2),
        test_lengths: vec![1, 2, 3],
        steps: Some(25),
        sizes: Some(Sizes::Pilot),
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    let [one, broken, parts, merged] =
        ["sized-one", "sized-broken", "sized-parts", "sized-merged"].map(Folder::new);
    let results = go(&plan, &one.0, 1);
    for steps in [10, 60] {
        let store = Store::create(&broken.0, &plan).unwrap();
        let left = std::sync::atomic::AtomicI64::new(steps);
        let is_going = |_| left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) > 0;
        assert!(compare(&plan, &store, 2, &is_going).unwrap().is_none());
    }
    go(&plan, &broken.0, 2);
    assert_eq!(files(&one.0), files(&broken.0));
    let folders = ["1", "2", "3"].map(|number| parts.0.join(number));
    for (index, folder) in folders.iter().enumerate() {
        assert!(make(&plan, folder, &format!("{}/3", index + 1), i64::MAX));
    }
    assert_eq!(put_together(&plan, &folders, &merged.0).unwrap(), results);
    assert_eq!(files(&one.0), files(&merged.0));
    assert_eq!(replay(&one.0).unwrap().0, results);

    let ladder = plan.sizes.all(&plan.device);
    assert_eq!(results.plan.sizes, ladder);
    let mut tried = Vec::new();
    for task in &results.tasks {
        let size = task.size.unwrap();
        let runs = files(&one.0);
        // What is told is the best of its three runs, and a size is tried where those before it fell short.
        for (pilot, wanted) in task.pilots.iter().zip(&ladder) {
            assert_eq!(pilot.size, *wanted);
            let reached = [0.001, 0.003, 0.006].map(|rate| {
                // A model twice as wide takes half the rate.
                let rate = rate * 64.0 / wanted.width() as f64;
                let name = format!("pilot.{}.{wanted}.rate-{rate}.json", task.name);
                let run: serde_json::Value = serde_json::from_slice(&runs[&name]).unwrap();
                assert_eq!(run["settings"]["encoding"], "rotary");
                let lengths = run["result"]["accuracy"].as_array().unwrap();
                assert_eq!(lengths.len(), 2, "those within training");
                lengths.iter().map(|at| at["exact"].as_f64().unwrap()).sum::<f64>() / 2.0
            });
            assert_eq!(pilot.reached, reached.into_iter().fold(0.0, f64::max));
        }
        let (last, before) = match &task.pilots[..] {
            [before @ .., last] => (last, before),
            [] => {
                assert!(task.is_language && size == ladder[0]);
                continue;
            }
        };
        assert!(before.iter().all(|pilot| pilot.reached < LEARNED));
        assert!(last.reached >= LEARNED || last.size == ladder[2]);
        let best = task.pilots.iter().map(|pilot| pilot.reached).fold(0.0, f64::max);
        let first = task.pilots.iter().find(|pilot| pilot.reached == best).unwrap();
        assert_eq!(size, first.size);
        tried.push(task.pilots.len());
        // Every run that is compared is of that size.
        let name = format!("{}.alibi.seed-2.json", task.name);
        let run: serde_json::Value = serde_json::from_slice(&runs[&name]).unwrap();
        assert_eq!(
            (&run["settings"]["width"], &run["settings"]["layers"]),
            (&size.width().into(), &size.layers().into())
        );
    }
    assert!(tried.contains(&3) && tried.iter().any(|&count| count < 3), "{tried:?} tells little");
}

#[test]
fn shards_that_do_not_fit_are_refused() {
    let request = |steps| Request {
        tasks: strings(&["majority"]),
        encodings: strings(&["none", "alibi"]),
        seeds: Some(2),
        steps: Some(steps),
        ..Request::default()
    };
    let [plan, other] = [2, 3].map(|steps| Plan::new(&request(steps)).unwrap());
    let folder = Folder::new("shards-refused");
    let at = |name: &str| folder.0.join(name);
    let [one, two, strange, third] = ["one", "two", "strange", "third"].map(at);
    assert!(make(&plan, &one, "1/2", i64::MAX) && make(&plan, &two, "2/2", i64::MAX));
    assert!(make(&other, &strange, "2/2", i64::MAX) && make(&plan, &third, "3/3", i64::MAX));
    let out = at("out");
    let refused = |folders: &[&PathBuf], says: &str| {
        let folders: Vec<PathBuf> = folders.iter().map(|&path| path.clone()).collect();
        let said = put_together(&plan, &folders, &out).expect_err("refused").to_string();
        assert!(said.contains(says), "{said}");
    };
    refused(&[&one], "without 2/2");
    refused(&[&one, &strange], "steps of majority 3 there, 2 here");
    refused(&[&one, &third], "expected shards of one number");
    refused(&[&one, &at("nowhere")], "not there");
    // A folder is one shard's.
    let store = Store::create(&one, &plan).unwrap();
    let shard: Shard = "2/2".parse().unwrap();
    let said = compare_shard(&plan, shard, &store, 1, &|_| true).unwrap_err().to_string();
    assert!(said.contains("holds shard 1/2"), "{said}");
    for text in ["", "3", "0/3", "4/3", "1/0", "-1/3", "1/3/5", "a/b", "1/10001"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }

    // Runs that a disk or a copy has damaged, in any digit.
    let runs = fs::read_dir(two.join("runs")).unwrap().map(|entry| entry.unwrap().path());
    let path = runs.into_iter().find(|path| path.to_string_lossy().contains(".seed-")).unwrap();
    let whole = fs::read(&path).unwrap();
    let digit = whole.iter().rposition(u8::is_ascii_digit).unwrap();
    let flipped: Vec<u8> =
        whole.iter().enumerate().map(|(index, &byte)| if index == digit { byte ^ 1 } else { byte }).collect();
    for bytes in [&whole[..whole.len() / 2], &flipped, b""] {
        fs::write(&path, bytes).unwrap();
        refused(&[&one, &two], "damaged");
    }
    fs::remove_file(&path).unwrap();
    refused(&[&one, &two], "not there");
    fs::write(&path, &whole).unwrap();

    // The same run with other bytes from another machine, and a name that leads out of the folder.
    let (file, record) = (two.join("shard.json"), fs::read(two.join("shard.json")).unwrap());
    let list = |change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        let mut record: serde_json::Value = serde_json::from_slice(&record).unwrap();
        change(record["runs"].as_object_mut().unwrap());
        fs::write(&file, record.to_string()).unwrap();
    };
    list(&|runs| drop(runs.insert("runs/search.majority.none.rate-0.001.json".into(), "0".into())));
    refused(&[&one, &two], "differs from that of");
    list(&|runs| drop(runs.insert("runs/../../x.json".into(), "0".into())));
    refused(&[&one, &two], "not there");
    fs::write(folder.0.join("x.json"), "outside").unwrap();
    refused(&[&one, &two], "damaged");
    let text = String::from_utf8(record.clone()).unwrap();
    for broken in [text.replace("\"2/2\"", "\"9/2\""), "{}".into()] {
        fs::write(&file, broken).unwrap();
        refused(&[&one, &two], "cannot be read");
    }
    assert!(!out.join("results.json").exists());
    // Shards that say they are all, without one of the runs.
    list(&|runs| runs.retain(|name, _| !name.contains("alibi.seed-2")));
    let said = put_together(&plan, &[one, two], &at("less")).unwrap_err().to_string();
    assert!(said.contains("alibi.seed-2.json") && said.contains("not among the runs"), "{said}");
}

/// What a comparison has cost stays where another one is asked for in its folder.
#[test]
fn another_comparison_in_the_same_folder_is_refused() {
    let folder = Folder::new("another");
    let request = Request {
        tasks: strings(&["majority"]),
        encodings: strings(&["none", "alibi"]),
        seeds: Some(2),
        steps: Some(3),
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    go(&plan, &folder.0, 2);
    let before = files(&folder.0);
    let refused = |plan: &Plan| Store::create(&folder.0, plan).err().expect("refused").to_string();
    for (other, says) in [
        (Request { steps: Some(6), ..clone(&request) }, "steps of majority 3 there, 6 here"),
        (Request { seeds: Some(3), ..clone(&request) }, "seeds 2 there, 3 here"),
        (Request { is_sweep: true, ..clone(&request) }, "sweep false there, true here"),
        (Request { train_length: Some(5), ..clone(&request) }, "train length of majority 12 there, 5 here"),
        (Request { tasks: strings(&["copy"]), ..clone(&request) }, "tasks majority there, copy here"),
        (
            Request { encodings: strings(&["none", "alibi", "t5"]), ..clone(&request) },
            "encodings none alibi there, none alibi t5 here",
        ),
    ] {
        let said = refused(&Plan::new(&other).unwrap());
        assert!(said.contains(says) && said.contains("another folder"), "{said}");
        assert_eq!(before, files(&folder.0));
    }
    // The same plan goes on, and results without a plan are somebody's too.
    Store::create(&folder.0, &plan).unwrap();
    fs::remove_file(folder.0.join("plan.json")).unwrap();
    assert!(refused(&plan).contains("results.json is there"));
    Store::replace(&folder.0, &plan).unwrap();
    assert_eq!(before, files(&folder.0));
}

fn clone(request: &Request) -> Request {
    let Request { tasks, encodings, seeds, steps, .. } = request;
    let (tasks, encodings) = (tasks.clone(), encodings.clone());
    Request { tasks, encodings, seeds: *seeds, steps: *steps, ..Request::default() }
}

#[test]
fn runs_of_other_settings_are_not_taken() {
    let folder = Folder::new("other");
    let request = |steps| Request {
        tasks: strings(&["majority"]),
        encodings: strings(&["none", "alibi"]),
        seeds: Some(2),
        steps: Some(steps),
        ..Request::default()
    };
    let [plan, other] = [3, 6].map(|steps| Plan::new(&request(steps)).unwrap());
    assert_ne!(plan.hash(), other.hash());
    let first = go(&plan, &folder.0, 2);
    let second = overwrite(&other, &folder.0, 2);
    assert_eq!((first.tasks[0].steps, second.tasks[0].steps), (3, 6));
    for (a, b) in first.tasks[0].runs.iter().zip(&second.tasks[0].runs) {
        assert_ne!(a.curve.last(), b.curve.last());
    }
    // A hash of another version is not taken either, whatever the settings.
    let path = folder.0.join("runs/majority.none.seed-1.json");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().find(|line| line.contains("\"hash\"")).unwrap();
    fs::write(&path, text.replace(line, "  \"hash\": \"0\",").replace("\"exact\": ", "\"exact\": 7"))
        .unwrap();
    assert_eq!(go(&other, &folder.0, 1), second);
}

/// Pairing: shared tensors and batches are the same whatever the encoding. With an encoding that changes nothing at first
/// the first loss is the same, and the baseline in another order begins with another batch.
#[test]
fn runs_are_paired() {
    let folder = Folder::new("paired");
    let request = Request {
        tasks: strings(&["copy"]),
        encodings: strings(&["none", "rotary:dim=2,base=1e30", "learned"]),
        seeds: Some(2),
        steps: Some(1),
        ..Request::default()
    };
    let results = go(&Plan::new(&request).unwrap(), &folder.0, 2);
    let task = &results.tasks[0];
    let loss = |encoding: &str, seed: u64, is_again: bool| {
        let is_it = |run: &&lab::results::RunResult| {
            run.encoding == encoding && run.seed == seed && run.is_again == is_again
        };
        task.runs.iter().find(is_it).unwrap().curve[0].loss
    };
    // One step has one order.
    assert_eq!(loss("none", 1, false), loss("none", 1, true));
    assert_ne!(loss("none", 1, false), loss("none", 2, false));
    // A rotation of one pair by whole radians is small beside the rest, and the learned table is not.
    assert!((loss("none", 1, false) - loss("rotary:dim=2,base=1e30", 1, false)).abs() < 1e-2);
    assert_ne!(loss("none", 1, false), loss("learned", 1, false));
    assert_eq!(task.comparisons.iter().filter(|comparison| comparison.is_again).count(), 4);
}

fn settings(task: &dyn Task, encoding: &str, steps: u64) -> Settings {
    Settings {
        purpose: Purpose::Run,
        task: task.name().into(),
        symbols: None,
        data: String::new(),
        encoding: encoding.into(),
        content: String::new(),
        is_linear: false,
        features: Default::default(),
        width: 64,
        layers: 2,
        heads: None,
        batch: 16,
        train_length: 4,
        test_lengths: vec![2, 4, 6],
        examples: 40,
        steps,
        rate: 3e-3,
        training: Training::USUAL,
        seed: 5,
        device: String::new(),
    }
}

fn model(task: &dyn Task, encoding: &str, steps: u64) -> (Settings, Trained) {
    let settings = settings(task, encoding, steps);
    let encoding = Encoding::parse(encoding).unwrap();
    let trained = train(&Device::default(), &settings, task, &encoding, || true).unwrap().unwrap();
    (settings, trained)
}

/// What the model says, token by token, each read before the next is said.
fn decode(trained: &Trained, question: &[u32], count: usize, longest: usize) -> Vec<u32> {
    let mut text = question.to_vec();
    for _ in 0..count {
        let mut laid = trained.lay_out(&trained.network, 1, text.len(), longest).unwrap();
        let targets = vec![0; text.len()];
        laid.set(Batch { ids: text.clone(), targets, ..Batch::default() }).unwrap();
        laid.graph.forward();
        text.push(*measure::answers(trained, laid.graph.value(laid.hidden)).last().unwrap());
    }
    text.split_off(question.len())
}

/// Exact answers of one pass are those of greedy decoding, on a model that has learned half of the task.
#[test]
fn exact_answers_are_those_of_greedy_decoding() {
    for (task, steps) in [("sort", 60), ("repeat", 60)] {
        let task = tasks::find(task, None).unwrap();
        let (settings, trained) = model(&*task, "rotary", steps);
        let mut reached = Vec::new();
        for length in [2, 4, 6] {
            let mut exact = 0;
            for row in 0..settings.examples as u64 {
                // As the tests of a run are drawn: by task, seed, length and number.
                let example = measure::test_example(&settings, &*task, length, row);
                let answer: Vec<u32> =
                    example.targets.iter().copied().filter(|&target| target != IGNORE).collect();
                let question = &example.ids[..example.ids.len() + 1 - answer.len()];
                let said = decode(&trained, question, answer.len(), settings.longest(&*task));
                exact += usize::from(said == answer);
            }
            let measured = measure::accuracy(&trained, &trained.network, &settings, &*task, length).unwrap();
            assert_eq!(measured.exact, exact as f64 / settings.examples as f64, "{} {length}", task.name());
            assert!(measured.token >= measured.exact && measured.loss.is_finite());
            reached.push(measured.exact);
        }
        assert!(reached.iter().any(|&exact| exact > 0.1 && exact < 1.0), "{reached:?} tells little");
    }
}

#[test]
fn a_swap_for_the_same_rule_changes_nothing() {
    let task = tasks::find("sort", None).unwrap();
    let (settings, trained) = model(&*task, "rotary", 60);
    let swaps = measure::swaps(&trained, &settings, &*task).unwrap();
    assert_eq!(swaps.len(), 7, "one length beyond training");
    let plain = measure::accuracy(&trained, &trained.network, &settings, &*task, 6).unwrap();
    assert_eq!((swaps[0].tested, swaps[0].length, swaps[0].value), (Rule::AsTrained, 6, plain.exact));
    // A rule that stretches by nothing is the plain one; one that stretches is not.
    let with = |schedule| {
        let encoding = Encoding::Rotary(Rotary { schedule, ..Rotary::default() });
        let network = trained.network.with(|own| own.encoding = encoding);
        measure::accuracy(&trained, &network, &settings, &*task, 6).unwrap()
    };
    assert_eq!(with(Schedule::Linear { factor: 1.0 }), plain);
    assert_ne!(with(Schedule::Linear { factor: 3.0 }).loss, plain.loss);
    let (settings, other) = model(&*task, "alibi", 2);
    assert!(measure::swaps(&other, &settings, &*task).unwrap().is_empty());
}

/// Weights of attention sum to 1 for every query, so that the means by distance, weighted by how many queries have such a
/// key, sum to the number of queries. ALiBi with equal queries and keys is its own formula.
#[test]
fn attention_by_distance_is_attention() {
    let task = tasks::find("language", None).unwrap();
    for encoding in Encoding::all() {
        let steps = if encoding.name() == "alibi" { 0 } else { 3 };
        let mut settings = settings(&*task, encoding.name(), steps);
        // More tokens than a head has features.
        settings.train_length = 40;
        settings.test_lengths = vec![40];
        let mut trained = train(&Device::default(), &settings, &*task, &encoding, || true).unwrap().unwrap();
        if steps == 0 {
            let layout = trained.layout.clone();
            for entry in layout.entries().iter().filter(|entry| entry.name.contains("in_proj")) {
                trained.parameters[entry.range.clone()].fill(0.0);
            }
        }
        let layers = measure::by_distance(&trained, &settings, &*task).unwrap();
        assert_eq!((layers.len(), layers[0].len()), (2, 40), "{}", encoding.name());
        for means in &layers {
            let sum: f64 =
                means.iter().enumerate().map(|(distance, mean)| mean * (40 - distance) as f64).sum();
            assert!((sum - 40.0).abs() < 1e-3, "{}: {sum}", encoding.name());
        }
        if steps == 0 {
            for (distance, &mean) in layers[1].iter().enumerate() {
                let of = |slope: f64| {
                    let weight = |query: usize| {
                        let all: f64 = (0..=query).map(|far| (-slope * far as f64).exp()).sum();
                        (-slope * distance as f64).exp() / all
                    };
                    (distance..40).map(weight).sum::<f64>() / (40 - distance) as f64
                };
                let wanted = (of(2f64.powi(-4)) + of(2f64.powi(-8))) / 2.0;
                assert!((mean - wanted).abs() < 1e-5, "{distance}: {mean} but {wanted}");
            }
        }
    }
}

#[test]
fn what_an_encoding_learned_is_told() {
    let task = tasks::find("copy", None).unwrap();
    let (_, trained) = model(&*task, "receptive:alpha=0.3,rho=0.25", 0);
    let learned = measure::learned(&trained);
    assert_eq!([&learned[0].name[..], &learned[1].name[..]], ["alpha", "rho"]);
    assert!(learned[0].layers.iter().all(|alpha| (alpha - 0.3).abs() < 1e-6), "{learned:?}");
    assert_eq!(learned[1].layers, [0.25, 0.25]);
    let (_, trained) = model(&*task, "kerple:strength=2,rate=0.5", 0);
    let learned = measure::learned(&trained);
    assert!(learned[0].layers.iter().all(|strength| (strength - 2.0).abs() < 1e-6), "{learned:?}");
    let (_, trained) = model(&*task, "receptive", 5);
    assert!(measure::learned(&trained)[0].layers.iter().all(|alpha| (alpha - 0.1).abs() > 1e-6));
}

/// The loss of the same targets: with the whole text as context it is the loss of those places in the whole text.
#[test]
fn the_loss_by_context_is_of_the_same_targets() {
    let task = tasks::find("language", None).unwrap();
    let mut settings = settings(&*task, "rotary", 150);
    settings.train_length = 24;
    settings.test_lengths = vec![17, 24, 40];
    let encoding = Encoding::parse("rotary").unwrap();
    let trained = train(&Device::default(), &settings, &*task, &encoding, || true).unwrap().unwrap();
    let points = measure::by_context(&trained, &settings, &*task).unwrap();
    assert_eq!(points.iter().map(|point| point.context).collect::<Vec<_>>(), [1, 8, 24]);
    let mut sum = 0.0;
    for row in 0..40 {
        let mut example = measure::test_example(&settings, &*task, 40, row);
        example.targets[..24].fill(IGNORE);
        let mut laid = trained.lay_out(&trained.network, 1, 40, 40).unwrap();
        laid.set(Batch { ids: example.ids, targets: example.targets, ..Batch::default() }).unwrap();
        sum += laid.graph.forward();
    }
    assert!((points[2].loss - sum / 40.0).abs() < 1e-4, "{} but {}", points[2].loss, sum / 40.0);
    assert!(points[0].loss > points[1].loss, "context helps: {points:?}");
}

#[test]
fn a_sweep_takes_the_best_on_seeds_of_its_own() {
    let folder = Folder::new("sweep");
    let request = Request {
        tasks: strings(&["repeat"]),
        encodings: strings(&["none", "xpos"]),
        seeds: Some(2),
        train_length: Some(2),
        test_lengths: vec![1, 2, 3],
        steps: Some(30),
        is_sweep: true,
        ..Request::default()
    };
    let plan = Plan::new(&request).unwrap();
    let results = go(&plan, &folder.0, 2);
    let sweep = &results.tasks[0].sweep;
    assert_eq!(sweep.len(), encodings::grid("xpos").len());
    let mean = |values: &[f64]| values.iter().sum::<f64>();
    let chosen: Vec<_> = sweep.iter().filter(|swept| swept.is_chosen).collect();
    assert_eq!(chosen.len(), 1);
    assert!(
        sweep.iter().all(|swept| mean(&swept.values) <= mean(&chosen[0].values) && swept.values.len() == 2)
    );
    // Compared under the name that was asked for.
    assert_eq!(results.tasks[0].runs.iter().filter(|run| run.encoding == "xpos").count(), 2);
    let named = chosen[0].label.replace(':', "_");
    assert!(folder.0.join(format!("runs/repeat.{named}.seed-1.json")).exists());
}

#[test]
fn linear_attention_is_compared_too() {
    let folder = Folder::new("linear");
    let request = Request {
        tasks: strings(&["copy"]),
        encodings: strings(&["rotary", "t5", "none"]),
        seeds: Some(2),
        steps: Some(3),
        is_linear: true,
        ..Request::default()
    };
    let results = go(&Plan::new(&request).unwrap(), &folder.0, 2);
    assert_eq!(results.plan.left_out[0].label, "t5");
    assert_eq!(results.tasks[0].runs.len(), 3 * 2);
    assert!(results.tasks[0].runs.iter().all(|run| run.attention.is_empty()));
    assert!(!results.tasks[0].swaps.is_empty());
}

/// ALiBi in a file learns what ALiBi learns, to the bit; so does rotary embedding, and so do sinusoidal codes.
#[test]
fn an_encoding_of_a_file_is_what_its_numbers_say() {
    let task = tasks::find("copy", None).unwrap();
    let slopes = [0.0625, 0.00390625];
    let bias: Vec<Vec<f64>> =
        slopes.iter().map(|slope| (0..200).map(|r| -slope * f64::from(r)).collect()).collect();
    let frequencies: Vec<f64> = Rope::builder(32).build().unwrap().frequencies(None).inv_freq().to_vec();
    let code =
        |k: usize| (0..64).map(move |feature| roformer::encoding::sinusoid(k as f64, feature, 64)).collect();
    let table: Vec<Vec<f64>> = (0..200).map(code).collect();
    for (name, given) in [
        ("alibi", serde_json::json!({"name": "mine", "bias": bias})),
        ("rotary", serde_json::json!({"name": "mine", "frequencies": frequencies})),
        ("sinusoidal", serde_json::json!({"name": "mine", "table": table})),
    ] {
        let given = Given::read(given.to_string().as_bytes()).unwrap();
        let run = |encoding: &Encoding| {
            let settings = settings(&*task, "mine", 3);
            train(&Device::default(), &settings, &*task, encoding, || true).unwrap().unwrap().parameters
        };
        let known = Encoding::parse(name).unwrap();
        assert!(run(&Encoding::Given(given.clone())) == run(&known), "{name}");
        // A plan takes it after the others, and tells two files of one name apart.
        let asked = |given: &Given| {
            let request = Request {
                tasks: vec!["copy".into()],
                encodings: vec!["none".into()],
                added: vec![given.clone()],
                ..Request::default()
            };
            Plan::new(&request)
        };
        let plan = asked(&given).unwrap();
        assert_eq!(plan.encodings[1].0, "mine");
        let mut other = given.clone();
        for numbers in other.bias.iter_mut().chain(&mut other.table).flatten().chain(&mut other.frequencies) {
            numbers[1] += 0.5;
        }
        assert_ne!(plan.hash(), asked(&other).unwrap().hash());
        let taken = Given { name: "alibi".into(), ..given.clone() };
        assert!(asked(&taken).err().unwrap().to_string().contains("alibi"));
    }
    let refused = |given: serde_json::Value, says: &str| {
        let request = Request {
            tasks: vec!["copy".into()],
            encodings: vec!["none".into()],
            added: vec![Given::read(given.to_string().as_bytes()).unwrap()],
            ..Request::default()
        };
        let error = Plan::new(&request).err().unwrap().to_string();
        assert!(error.contains(says), "{error}");
    };
    // A table is for models of one width: of another, or of several, it is refused by name.
    let given = serde_json::json!({"name": "mine", "table": vec![vec![0.0; 64]; 200]});
    for (size, says) in [("2x64", None), ("3x128", Some("3x128")), ("auto", Some("3x128"))] {
        let request = Request {
            tasks: vec!["copy".into()],
            encodings: vec!["none".into()],
            added: vec![Given::read(given.to_string().as_bytes()).unwrap()],
            sizes: size.parse().ok(),
            ..Request::default()
        };
        let said = Plan::new(&request).map(drop).map_err(|error| error.to_string());
        match says {
            None => said.unwrap(),
            Some(says) => {
                let said = said.unwrap_err();
                assert!(
                    said.contains("`mine`") && said.contains(says) && said.contains("[200][64]"),
                    "{said}"
                );
            }
        }
    }
    refused(serde_json::json!({"name": "mine", "bias": [[0.0], [1.0], [2.0]]}), "3");
    refused(serde_json::json!({"name": "mine", "frequencies": vec![1.0; 17]}), "17");
    refused(serde_json::json!({"name": "mine", "table": vec![vec![0.0; 64]]}), "[1][64]");
    refused(serde_json::json!({"name": "mine", "table": vec![vec![0.0; 63]; 500]}), "[500][63]");
}

/// Every encoding with every task takes a step and is measured.
#[test]
fn every_task_goes_with_every_encoding() {
    for name in tasks::NAMES {
        let task = tasks::find(name, None).unwrap();
        for encoding in Encoding::all() {
            let mut settings = settings(&*task, encoding.name(), 1);
            settings.train_length = 6;
            settings.test_lengths = vec![5, 8];
            settings.examples = 3;
            let trained = train(&Device::default(), &settings, &*task, &encoding, || true).unwrap().unwrap();
            for length in [5, 8] {
                let reached =
                    measure::accuracy(&trained, &trained.network, &settings, &*task, length).unwrap();
                assert!(reached.loss.is_finite() && (0.0..=1.0).contains(&reached.exact));
            }
        }
        let example = task.example(6, Part::Test, &mut Draws::new(&[1]));
        assert_eq!(example.ids.len(), task.tokens(6));
    }
}
