//! The report of made-up results, of results that nobody should have made, and as a browser sees it.

mod language;
mod made_up;

use lab::report;
use lab::results::{Results, Timings};
use made_up::made_up;
use roformer::language::Language;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a report, and reads its page.
fn page(name: &str, results: &Results, timings: &Timings) -> String {
    let folder = folder(name);
    report::write(Language::English, results, timings, &folder).unwrap();
    fs::read_to_string(folder.join("report.html")).unwrap()
}

/// All files below a folder, with their bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push((path.file_name().unwrap().to_str().unwrap().into(), fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[test]
fn same_results_give_same_bytes() {
    let (results, timings) = made_up();
    let (a, b) = (folder("report-a"), folder("report-b"));
    report::write(Language::English, &results, &timings, &a).unwrap();
    report::write(Language::English, &results, &timings, &b).unwrap();
    // Once more over what is there.
    report::write(Language::English, &results, &timings, &b).unwrap();
    let (a, b) = (files(&a), files(&b));
    assert_eq!(a.len(), 15, "the page and its figures, and nothing half-written");
    assert!(a == b);
}

#[test]
fn times_change_only_what_is_measured() {
    let (results, timings) = made_up();
    let without = page("report-untimed", &results, &Timings::default());
    assert!(!without.contains("value=\"seconds\"") && without.contains("value=\"tokens\""));
    let with = page("report-timed", &results, &timings);
    assert!(with.contains("value=\"seconds\"") && with.contains("412.6 s with 2 threads"));
    let opening = |page: &str| page[..page.find("<nav").unwrap()].to_string();
    assert_eq!(opening(&with), opening(&without));
}

/// As many encodings, tasks and seeds as the full preset has, and a few more.
fn many() -> (Results, Timings) {
    let (few, timings) = made_up();
    let base = |index: usize| few.plan.encodings[index % few.plan.encodings.len()].label.clone();
    let label = |index: usize| match index < few.plan.encodings.len() {
        true => base(index),
        false => format!("{}-{index}", base(index).split(':').next().unwrap()),
    };
    let mut results = few.clone();
    results.plan.seeds = (1..=5).collect();
    results.plan.encodings =
        (0..22).map(|index| lab::results::EncodingPlan { label: label(index), name: label(index) }).collect();
    let mut all = Timings { runs: Vec::new(), ..timings.clone() };
    results.tasks = (0..10)
        .map(|index| {
            let old = &few.tasks[index % few.tasks.len()];
            let mut task = old.clone();
            task.name = format!("{}-{index}", old.name);
            (task.runs, task.comparisons) = (Vec::new(), Vec::new());
            for encoding in 0..22 {
                for seed in 1..=5 {
                    let like = |run: &&lab::results::RunResult| {
                        run.encoding == base(encoding) && run.seed == (seed - 1) % 3 + 1 && !run.is_again
                    };
                    let mut run = old.runs.iter().find(like).unwrap().clone();
                    (run.encoding, run.seed) = (label(encoding), seed);
                    task.runs.push(run);
                }
                let rows =
                    old.comparisons.iter().filter(|row| row.encoding == base(encoding) && !row.is_again);
                task.comparisons.extend(rows.cloned().map(|mut row| {
                    row.encoding = label(encoding);
                    row
                }));
            }
            let timed = task.runs.iter().map(|run| lab::results::RunTiming {
                task: task.name.clone(),
                encoding: run.encoding.clone(),
                seed: run.seed,
                is_again: false,
                seconds: 10.0 + run.seed as f64,
                tokens_s: 1000.0,
            });
            all.runs.extend(timed);
            task
        })
        .collect();
    (results, all)
}

#[test]
fn a_page_of_many_encodings_is_small_and_can_be_read() {
    let (results, timings) = many();
    let page = page("report-many", &results, &timings);
    println!("a page of 22 encodings, 10 tasks and 5 seeds has {} bytes", page.len());
    assert!(page.len() < 3_000_000, "{}", page.len());
    // Every picture is there, with every line, and the files beside the page have all points.
    for index in 0..10 {
        assert!(page.contains(&format!("id=\"task-{index}\"")));
    }
    // No table is wider than three tasks.
    let glance = &page[page.find("class=\"glance\"").unwrap()..page.find("id=\"task-0\"").unwrap()];
    assert_eq!(glance.matches("<table>").count(), 4);
    for head in glance.split("<thead>").skip(1) {
        let head = head.split("</thead>").next().unwrap();
        assert!(head.matches("<th ").count() <= 7, "{head}");
    }
    // The first sentence is one that can be read aloud.
    let first = page.split("<ol class=\"findings\">").nth(1).unwrap().split("</li>").next().unwrap();
    let words = first.split_whitespace().count();
    assert!(words <= 75, "{words} words: {first}");
}

#[test]
fn a_page_asks_for_nothing() {
    let (results, timings) = made_up();
    let page = page("report-alone", &results, &timings).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for asked in ["http:", "https:", "src=", "url(", "@import", "fetch(", "<link rel=\"stylesheet"] {
        assert!(!page.contains(asked), "{asked}");
    }
}

#[test]
fn every_part_is_there() {
    let (results, timings) = made_up();
    let page = page("report-parts", &results, &timings);
    for part in [
        "At a glance",
        "Accuracy by length",
        "Loss as it fell",
        "Loss by length",
        "Comparisons",
        "Attention by distance",
        "The same targets with more context",
        "Trained with one rule, tested with another",
        "Settings that were tried",
        "What the encodings learned of themselves",
        "The fairness ledger",
        "How it was judged",
        "What was not tested",
        "Where every number is from",
        "did not learn it in 1,200 steps",
        "rotary again (A/A)",
        "5f3a9c0e77d1b284",
        "xlnet: its tables do not fit the batch",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Each opening sentence leads to a table that is there.
    let links: Vec<&str> = page.match_indices("<a href=\"#task-").map(|(at, _)| &page[at + 10..]).collect();
    assert!(links.len() >= 3);
    for link in links {
        let id = &link[..link.find('"').unwrap()];
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn empty_parts_are_left_out() {
    let (mut results, timings) = made_up();
    for task in &mut results.tasks {
        (task.swaps, task.sweep) = (vec![], vec![]);
        for run in &mut task.runs {
            (run.attention, run.context, run.learned) = (vec![], vec![], vec![]);
        }
    }
    let page = page("report-empty-parts", &results, &timings);
    for part in [
        "Attention by distance",
        "more context",
        "tested with another",
        "were tried",
        "learned of themselves",
    ] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn hostile_results_are_drawn_all_the_same() {
    let (good, timings) = made_up();
    type Spoil = fn(&mut Results);
    let hostile: [(&str, Spoil); 9] = [
        ("no tasks", |results| results.tasks.clear()),
        ("no runs", |results| results.tasks.iter_mut().for_each(|task| task.runs.clear())),
        ("no plan", |results| results.plan.encodings.clear()),
        ("no comparisons", |results| results.tasks.iter_mut().for_each(|task| task.comparisons.clear())),
        ("labels that nobody planned", |results| {
            for run in results.tasks.iter_mut().flat_map(|task| &mut task.runs) {
                run.encoding = "</script><script>alert(1)</script>\"'&`".into();
            }
        }),
        ("names", |results| {
            for task in &mut results.tasks {
                (task.name, task.isolates) = ("../../<b>\0\u{7}".into(), "<i>".into());
            }
        }),
        ("not numbers", |results| {
            for task in &mut results.tasks {
                for run in &mut task.runs {
                    run.curve.iter_mut().for_each(|point| point.loss = f64::NAN);
                    run.accuracy
                        .iter_mut()
                        .for_each(|point| (point.exact, point.loss) = (f64::NAN, f64::INFINITY));
                    run.attention.iter_mut().flatten().for_each(|value| *value = f64::NAN);
                    run.context.iter_mut().for_each(|point| point.loss = f64::NEG_INFINITY);
                    run.learned.iter_mut().for_each(|learned| learned.layers.fill(f64::NAN));
                    (run.rate, run.flops_per_step) = (f64::NAN, f64::NAN);
                }
                for row in &mut task.comparisons {
                    (row.mean, row.low, row.high, row.p, row.p_holm) =
                        (f64::NAN, f64::NAN, f64::INFINITY, f64::NAN, f64::NAN);
                    (row.detectable, row.margin) = (f64::INFINITY, f64::NAN);
                }
                task.swaps.iter_mut().for_each(|swap| swap.values.fill(f64::NAN));
                task.sweep.iter_mut().for_each(|swept| swept.values.clear());
            }
        }),
        ("ragged", |results| {
            for (index, run) in results.tasks.iter_mut().flat_map(|task| &mut task.runs).enumerate() {
                run.curve.truncate(index % 3);
                run.accuracy.truncate(index % 4);
                run.attention.truncate(index % 3);
                run.attention.iter_mut().for_each(|row| row.truncate(index % 5));
            }
        }),
        ("extremes", |results| {
            for task in &mut results.tasks {
                (task.steps, task.tokens_per_step, task.train_length) = (0, u64::MAX, usize::MAX);
                task.test_lengths.clear();
                task.comparisons.iter_mut().for_each(|row| (row.mean, row.differences) = (f64::MAX, vec![]));
                for run in &mut task.runs {
                    run.curve.iter_mut().for_each(|point| (point.step, point.loss) = (u64::MAX, f64::MAX));
                    run.accuracy.iter_mut().for_each(|point| point.length = usize::MAX);
                }
            }
        }),
    ];
    for (name, spoil) in hostile {
        let mut results = good.clone();
        spoil(&mut results);
        // As it comes from a file, where what is not a number is null.
        let results = serde_json::from_str(&serde_json::to_string(&results).unwrap()).unwrap();
        let page = page(&format!("report-hostile-{}", name.replace(' ', "-")), &results, &timings);
        assert!(page.ends_with("</html>\n"), "{name}");
        let body = &page[page.find("<body>").unwrap()..page.rfind("<script>").unwrap()];
        for word in ["NaN", ">inf", "alert(1)</script", "<b>\0", "<i>"] {
            assert!(!body.contains(word), "{name}: {word}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_is_an_error() {
    let (results, timings) = made_up();
    let file = folder("report-file").join("file");
    fs::write(&file, "").unwrap();
    let error = report::write(Language::English, &results, &timings, &file).unwrap_err().to_string();
    assert!(error.contains("file"), "{error}");
}

/// Before all else on the page: counts what goes wrong, and at the end says what it saw in an attribute.
const PROBE: &str = "<script>
const faults = [];
addEventListener('error', (event) => faults.push(String(event.message)));
for (const name of ['error', 'warn']) console[name] = (...what) => faults.push(what.join(' '));
addEventListener('load', () => {
  const shown = [...document.querySelectorAll('svg.chart')].filter((chart) => chart.getBoundingClientRect().height > 0);
  const empty = shown.filter((chart) => {
    const lines = chart.querySelectorAll('.line, .cell');
    return lines.length === 0 || [...lines].every((line) => line.getBoundingClientRect().width === 0);
  });
  const button = document.querySelector('.switch button[value=seconds]');
  button.click();
  const seconds = getComputedStyle(document.querySelector('div[data-against=seconds]')).display;
  const root = document.documentElement;
  const is_shown = (element) => element.getClientRects().length > 0;
  const keys = (rows) => [...new Set([...document.querySelectorAll(rows)].filter(is_shown).map((row) => row.dataset.series))];
  const overflow = root.scrollWidth > root.clientWidth;
  const cut = [...document.querySelectorAll('.glance .scroll')].filter((table) => table.scrollWidth > table.clientWidth + 1);
  const [named, judged] = document.querySelectorAll('.filter input, .filter select');
  const set = (element, value) => { element.value = value; element.dispatchEvent(new Event('input', { bubbles: true })); };
  const before = keys('.glance tr.series').length;
  set(named, 'ALI t5');
  const some = keys('.glance tr.series').sort().join(' ') + ' and ' + keys('svg .series').sort().join(' ');
  set(named, ''); set(judged, 'tie');
  const ties = [...document.querySelectorAll('.comparisons tr.series')].filter(is_shown);
  const only = ties.length > 0 && ties.every((row) => row.classList.contains('tie'));
  set(judged, '');
  root.dataset.probe = [
    'faults ' + faults.join('; '), 'requests ' + performance.getEntriesByType('resource').length, 'charts ' + shown.length,
    'empty ' + empty.length, 'seconds ' + seconds, 'tips ' + (document.querySelectorAll('.dot[data-tip]').length > 100),
    'overflow ' + overflow, 'cut ' + (innerWidth > 1000 ? cut.length : 0), 'some ' + some, 'ties ' + only,
    'all ' + (keys('.glance tr.series').length === before),
  ].join(' | ');
});
</script>";

/// The browser of the tests, or `None` where there is none, which is said. `ROFORMER_CHROMIUM=required` makes that an error.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let found = names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if found.is_none() {
        let is_required = std::env::var("ROFORMER_CHROMIUM").is_ok_and(|value| value == "required");
        assert!(!is_required, "no Chromium is installed, and ROFORMER_CHROMIUM=required");
        eprintln!("skipped: no Chromium is installed");
    }
    found
}

/// What the probe saw on the page of these results in a window of this size.
fn probed(browser: &str, name: &str, (results, timings): &(Results, Timings), size: &str) -> String {
    let folder = folder(name);
    report::write(Language::English, results, timings, &folder).unwrap();
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    fs::write(folder.join("probed.html"), page.replacen("<head>", &format!("<head>{PROBE}"), 1)).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=3000"])
        .arg(format!("--window-size={size}"))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", folder.join("probed.html").display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let probe = dom.split("data-probe=\"").nth(1).and_then(|rest| rest.split('"').next());
    probe.unwrap_or_else(|| panic!("{size}: {}", String::from_utf8_lossy(&output.stderr))).into()
}

#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else { return };
    // Of each of four tasks: by length, loss against one of three, attention; then context and what was learned.
    for size in ["1280,900", "390,844"] {
        let probe = probed(browser, "report-browser", &made_up(), size);
        let wanted = "faults  | requests 0 | charts 14 | empty 0 | seconds block | tips true | overflow false | cut 0 | some alibi t5 and alibi t5 | ties true | all true";
        assert_eq!(probe, wanted, "{size}");
    }
}

/// The page of 22 encodings and 10 tasks: nothing beyond its edge, no table cut off, and what is asked for alone.
#[test]
fn a_browser_shows_many() {
    let Some(browser) = browser() else { return };
    for size in ["1280,900", "390,844"] {
        let probe = probed(browser, "report-browser-many", &many(), size);
        assert!(probe.starts_with("faults  | requests 0 | "), "{probe}");
        let (_, rest) = probe.split_once("overflow ").unwrap();
        assert!(rest.starts_with("false | cut 0 | some alibi alibi-11 alibi-18 "), "{size}: {probe}");
        assert!(rest.ends_with(" | ties true | all true"), "{size}: {probe}");
    }
}
