//! The report in Chinese: no English is left in it, and it holds the numbers of the English one.

use crate::made_up::made_up;
use crate::{files, folder};
use lab::report::{self, stored};
use lab::results::{LeftOut, Piloted, Results, Timings};
use lab::statistics::Verdict;
use lab::tasks;
use roformer::encoding::Encoding;
use roformer::language::Language;
use std::collections::BTreeMap;

/// What stays as it is in every language: names that are typed or that files have, and terms that Chinese writes so.
const NAMES: [&str; 35] = [
    "Hedges",
    "copy",
    "recall",
    "majority",
    "charlm",
    "rotary",
    "sinusoidal",
    "learned",
    "none",
    "alibi",
    "t",
    "receptive",
    "alpha",
    "rho",
    "xlnet",
    "shaw",
    "quick",
    "softmax",
    "token",
    "nat",
    "Holm",
    "A",
    "p",
    "NTK",
    "YaRN",
    "B_ij",
    "exp",
    "query",
    "key",
    "roformer",
    "compare",
    "replay",
    "results",
    "json",
    "timings",
];
/// Parts of names of files and of numbers: `runs/`, `920M`, a version and a hash.
const PARTS: [&str; 6] = ["runs", "favor", "M", "G", "k", "e"];

/// Real tasks and reasons in the place of made-up ones.
fn real() -> (Results, Timings) {
    let (mut results, timings) = made_up();
    let names = ["copy", "mqar", "majority", "language"];
    for (task, name) in results.tasks.iter_mut().zip(names) {
        task.isolates = tasks::find(name, None).unwrap().isolates().into();
    }
    results.plan.left_out.clear();
    for label in ["xlnet", "alibi"] {
        let Err(roformer::Error::Input { value, .. }) = Encoding::parse(label).unwrap().check_linear() else {
            panic!("{label} can be carried")
        };
        results.plan.left_out.push(LeftOut { label: label.into(), reason: value });
    }
    results.tasks[1].comparisons[7].not_judged = Some("rotary did not learn it in 1200 steps".into());
    (results.clone(), timings)
}

/// Results in which other sentences are said.
fn variants() -> Vec<(&'static str, Results, Timings)> {
    let (base, timings) = real();
    let mut all = vec![("whole", base.clone(), timings.clone())];
    let mut add = |name, timings: &Timings, change: fn(&mut Results)| {
        let mut results = base.clone();
        change(&mut results);
        all.push((name, results, timings.clone()));
    };
    add("untimed", &Timings::default(), |_| {});
    add("no-runs", &timings, |results| results.tasks.iter_mut().for_each(|task| task.runs.clear()));
    add("no-comparisons", &timings, |results| {
        results.tasks.iter_mut().for_each(|task| task.comparisons.clear())
    });
    add("no-tasks", &timings, |results| results.tasks.clear());
    add("no-plan", &timings, |results| results.plan.encodings.clear());
    add("one-task", &timings, |results| results.tasks.truncate(1));
    add("language-alone", &timings, |results| drop(results.tasks.drain(..3)));
    add("sized", &timings, |results| {
        let sizes = ["2x64", "3x128", "4x128"].map(|size| size.parse().unwrap());
        results.plan.sizes = sizes.to_vec();
        for (task, size) in results.tasks.iter_mut().zip([0, 1, 2, 0]) {
            task.size = Some(sizes[size]);
            let reached = |(place, &size): (usize, _)| Piloted {
                size,
                reached: 0.3 + 0.35 * place as f64,
                rate: 0.003,
            };
            let tried = if task.is_language { 0 } else { size + 1 };
            task.pilots = sizes[..tried].iter().enumerate().map(reached).collect();
        }
    });
    add("linear", &timings, |results| results.plan.attention = "linear (favor)".into());
    add("one-seed", &timings, |results| {
        for run in &mut results.tasks {
            run.runs.retain(|run| run.seed == 1 && run.encoding == "rotary");
        }
    });
    for (name, verdict) in [
        ("all-better", Verdict::Better),
        ("all-worse", Verdict::Worse),
        ("all-tied", Verdict::Tie),
        ("all-unclear", Verdict::Unclear),
    ] {
        let mut results = base.clone();
        for row in results.tasks.iter_mut().flat_map(|task| &mut task.comparisons) {
            (row.verdict, row.not_judged) = (verdict, None);
        }
        all.push((name, results, timings.clone()));
    }
    all
}

/// All files of a report, by name.
fn written(language: Language, name: &str, results: &Results, timings: &Timings) -> Vec<(String, String)> {
    let folder = folder(&format!("report-{}-{name}", language.tag()));
    report::write(language, results, timings, &folder).unwrap();
    files(&folder).into_iter().map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}

/// What people read of a page or a drawing: its text, and what is in titles and labels.
fn read_by_people(page: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let body = match (page.find("<title>"), page.rfind("<script>")) {
        (Some(from), Some(to)) => &page[from..to],
        _ => page,
    };
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        texts.push(rest[..at].to_string());
        let end = at + rest[at..].find('>').unwrap();
        let tag = &rest[at..end];
        for name in ["aria-label=\"", "title=\""] {
            texts.extend(tag.split(name).skip(1).map(|after| after.split('"').next().unwrap().to_string()));
        }
        rest = &rest[end + 1..];
        // What a browser does not show.
        if tag == "<style" {
            rest = &rest[rest.find("</style>").unwrap()..];
        }
    }
    texts.push(rest.to_string());
    texts.retain(|text| !text.trim().is_empty());
    texts
}

/// Words of Latin letters that are nobody's name.
fn english(text: &str, version: &str, hash: &str) -> Vec<String> {
    let text = text.replace(version, "").replace(hash, "").replace("&lt;", "").replace("&quot;", "");
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let words = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty());
    words.filter(|word| !NAMES.contains(word) && !PARTS.contains(word)).map(String::from).collect()
}

/// How often each number is in these texts.
fn numbers(texts: &[String]) -> BTreeMap<String, usize> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let mut counts = BTreeMap::new();
    for text in texts {
        let text = text.replace("&#39;", "'");
        let parts = text.split(|c: char| !is_part(c)).map(|part| part.trim_matches(['.', ',']));
        for number in parts.filter(|part| !part.is_empty()) {
            *counts.entry(number.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn no_english_is_left_and_numbers_are_the_same() {
    let mut faults = Vec::new();
    for (name, results, timings) in variants() {
        let english_files = written(Language::English, name, &results, &timings);
        let chinese_files = written(Language::Chinese, name, &results, &timings);
        assert_eq!(english_files.len(), chinese_files.len());
        for ((file, in_english), (other, in_chinese)) in english_files.iter().zip(&chinese_files) {
            assert_eq!(file, other);
            let [in_english, in_chinese] = [in_english, in_chinese].map(|page| read_by_people(page));
            let left =
                in_chinese.iter().filter(|text| !english(text, &results.version, &results.hash).is_empty());
            faults.extend(left.map(|text| format!("{name}, {file}: {text}")));
            let [ours, theirs] = [&in_chinese, &in_english].map(|texts| numbers(texts));
            let odd =
                ours.keys().chain(theirs.keys()).filter(|&number| ours.get(number) != theirs.get(number));
            faults.extend(odd.map(|number| format!("{name}, {file}: {number} is not in both as often")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_stored_sentence_is_known() {
    for name in tasks::NAMES {
        let isolates = tasks::find(name, None).unwrap().isolates();
        assert_ne!(stored(Language::Chinese, isolates), isolates, "{name}");
        assert_eq!(stored(Language::English, isolates), isolates);
    }
    for encoding in Encoding::all() {
        if let Err(roformer::Error::Input { value, .. }) = encoding.check_linear() {
            assert_ne!(stored(Language::Chinese, &value), value);
        }
    }
    assert_eq!(stored(Language::Chinese, "t5 did not learn it in 8 steps"), "t5 在 8 步内没有学会");
    assert_eq!(stored(Language::Chinese, "a sentence of others"), "a sentence of others");
}
