//! Given results, exact sentences.

use super::super::words::of_row;
use super::*;
use crate::results::{Accuracy, EncodingPlan, Plan, RunResult};

fn row(encoding: &str, measure: Measure, mean: f64, verdict: Verdict) -> Comparison {
    Comparison {
        encoding: encoding.into(),
        is_again: false,
        measure,
        differences: vec![mean; 3],
        mean,
        effect: Some(2.0),
        low: mean - 0.1,
        high: mean + 0.1,
        p: 0.01,
        p_holm: 0.02,
        detectable: 0.1,
        margin: 0.02,
        p_equal: 0.5,
        verdict,
        not_judged: None,
    }
}

fn again(measure: Measure, verdict: Verdict) -> Comparison {
    Comparison { is_again: true, ..row("rotary", measure, 0.01, verdict) }
}

fn not_judged(row: Comparison, reason: &str) -> Comparison {
    Comparison { not_judged: Some(reason.into()), ..row }
}

/// A run that gets a part of the answers right within the trained lengths, and none beyond.
fn run(encoding: &str, exact: f64) -> RunResult {
    let at = |length, exact| Accuracy { length, exact, token: exact, loss: 1.0 };
    RunResult {
        encoding: encoding.into(),
        seed: 1,
        is_again: false,
        rate: 0.001,
        parameters: 10,
        position_parameters: 0,
        flops_per_step: 1.0,
        curve: vec![],
        accuracy: vec![at(10, exact), at(20, exact), at(40, 0.0)],
        attention: vec![],
        context: vec![],
        learned: vec![],
    }
}

fn task(name: &str, runs: Vec<RunResult>, comparisons: Vec<Comparison>) -> TaskResult {
    TaskResult {
        name: name.into(),
        isolates: String::new(),
        is_control: name == "majority",
        is_language: name == "charlm",
        train_length: 20,
        test_lengths: vec![10, 20, 40],
        symbols: None,
        steps: 500,
        tokens_per_step: 100,
        size: None,
        pilots: Vec::new(),
        runs,
        comparisons,
        rankings: vec![],
        swaps: vec![],
        sweep: vec![],
    }
}

fn results(tasks: Vec<TaskResult>) -> Results {
    let labels = ["rotary", "alibi", "learned", "none"];
    let encodings = labels.map(|label| EncodingPlan { label: label.into(), name: label.into() }).to_vec();
    let plan = Plan {
        preset: "quick".into(),
        attention: "softmax".into(),
        encodings,
        seeds: vec![1, 2, 3],
        budget: None,
        rates: vec![0.001],
        width: 64,
        layers: 2,
        heads: 2,
        sizes: Vec::new(),
        batch: 32,
        source: None,
        training: Default::default(),
        left_out: vec![],
    };
    Results { version: "1".into(), hash: "h".into(), plan, tasks }
}

fn texts(results: &Results) -> Vec<String> {
    opening(Language::English, results).into_iter().map(|sentence| sentence.text).collect()
}

#[test]
fn a_whole_comparison() {
    let copy = task(
        "copy",
        vec![run("rotary", 1.0), run("alibi", 0.99), run("learned", 0.7), run("none", 0.5)],
        vec![
            row("alibi", Measure::Beyond, 0.31, Verdict::Better),
            not_judged(
                row("learned", Measure::Beyond, -0.4, Verdict::Worse),
                "did not learn it in 500 steps",
            ),
            row("none", Measure::Beyond, 0.05, Verdict::Unclear),
            again(Measure::Beyond, Verdict::Unclear),
            row("alibi", Measure::Speed, -120.0, Verdict::Better),
            row("none", Measure::Speed, 80.0, Verdict::Worse),
        ],
    );
    let majority = task(
        "majority",
        vec![run("rotary", 1.0), run("alibi", 1.0), run("learned", 1.0), run("none", 1.0)],
        vec![
            row("alibi", Measure::InRange, 0.0, Verdict::Tie),
            row("learned", Measure::InRange, 0.0, Verdict::Tie),
            row("none", Measure::InRange, 0.0, Verdict::Tie),
            again(Measure::InRange, Verdict::Tie),
        ],
    );
    let results = results(vec![copy, majority]);
    assert_eq!(
        texts(&results),
        [
            "2 of 4 encodings learn every task within the lengths they were trained on (0.95 of the answers right), but not `learned` and `none` on `copy`; the largest difference in speed of learning that can be shown is on `copy`: `alibi` needs 120 steps fewer than `rotary` to reach the same loss (95 % interval 120 to 120, 3 seeds).",
            "Beyond the lengths they were trained on, the largest difference that can be shown is on `copy`: `alibi` gets 0.31 more of the answers right than `rotary` (95 % interval 0.21 to 0.41, 3 seeds); of 3 comparisons, 1 better, 1 unclear because there are too few seeds and 1 not judged.",
            "On `majority`, the control where order carries no information, all 3 encodings tie with `rotary` within the trained lengths, as they should; `rotary` against itself with another order of data (A/A) is called different in none of 2 rows.",
        ]
    );
    let tables: Vec<Option<usize>> =
        opening(Language::English, &results).into_iter().map(|sentence| sentence.task).collect();
    assert_eq!(tables, [Some(0), Some(0), Some(1)]);
    assert_eq!(
        by_length(Language::English, &results, &results.tasks[0]),
        "Beyond them (up to 40), `alibi` is better than `rotary`; for `none` there are not enough seeds to say; `learned` did not learn it in 500 steps."
    );
    assert_eq!(
        by_length(Language::English, &results, &results.tasks[1]),
        "Within the trained lengths (up to 20), `alibi`, `learned` and `none` tie with `rotary` within ±0.02."
    );
    assert_eq!(
        by_step(Language::English, &results, &results.tasks[0]),
        "In steps to the same loss, `alibi` is better than `rotary`; `none` is worse than `rotary`."
    );
}

#[test]
fn too_few_seeds_say_nothing() {
    let copy = task(
        "copy",
        vec![run("rotary", 1.0), run("alibi", 1.0)],
        vec![
            row("alibi", Measure::Beyond, 0.9, Verdict::Unclear),
            row("alibi", Measure::Speed, 5.0, Verdict::Unclear),
        ],
    );
    assert_eq!(
        texts(&results(vec![copy])),
        [
            "All 2 encodings learn `copy` within the lengths they were trained on (0.95 of the answers right); in speed of learning no encoding could be told from `rotary`: of 1 comparison, 1 unclear because there are too few seeds.",
            "Beyond the lengths they were trained on, no encoding could be told from `rotary`; of 1 comparison, 1 unclear because there are too few seeds.",
            "No control task was run; no A/A row was run.",
        ]
    );
}

/// Four are named; of more it is counted how many learned what the fewest did.
#[test]
fn many_misses_are_counted() {
    let runs = |missed: usize| {
        let others = (0..6).map(|index| run(&format!("e{index}"), if index < missed { 0.2 } else { 1.0 }));
        [run("rotary", 1.0)].into_iter().chain(others).collect::<Vec<_>>()
    };
    let four = &texts(&results(vec![task("copy", runs(4), vec![])]))[0];
    assert!(four.contains("but not `e0`") && !four.contains("fewest"), "{four}");
    let many = &texts(&results(vec![task("copy", runs(2), vec![]), task("sort", runs(6), vec![])]))[0];
    assert!(many.contains("the fewest learn `sort`, by 1 of 7, and `copy`, by 5 of 7"), "{many}");
    assert!(many.starts_with("1 of 7 encodings learn every task"), "{many}");
}

#[test]
fn a_false_alarm_is_told() {
    let rows = vec![
        row("alibi", Measure::InRange, 0.2, Verdict::Better),
        row("none", Measure::InRange, 0.0, Verdict::Tie),
        again(Measure::InRange, Verdict::Worse),
    ];
    let majority = task("majority", vec![run("rotary", 1.0)], rows);
    assert_eq!(
        texts(&results(vec![majority]))[2],
        "On `majority`, the control where order carries no information, `alibi` is called different from `rotary` although nothing is there to be found, so take the rest with care; `rotary` against itself with another order of data (A/A) is called different in 1 of 1 rows, so a difference of that size may be chance."
    );
}

#[test]
fn losses_fall_and_answers_come_first() {
    let language =
        task("charlm", vec![run("rotary", 0.0)], vec![row("none", Measure::Beyond, 2.5, Verdict::Worse)]);
    let alone = results(vec![language.clone()]);
    assert!(texts(&alone)[1].contains(
        "the loss of `none` is 2.50 higher than that of `rotary` (95 % interval 2.40 to 2.60, 3 seeds)"
    ));
    assert_eq!(texts(&alone)[0], "In what was compared within the trained lengths, nothing was found.");
    let copy =
        task("copy", vec![run("rotary", 1.0)], vec![row("alibi", Measure::Beyond, -0.05, Verdict::Worse)]);
    let both = results(vec![language, copy]);
    assert!(texts(&both)[1].contains(
        "`alibi` gets 0.050 less of the answers right than `rotary` (95 % interval −0.050 to 0.150, 3 seeds)"
    ));
}

#[test]
fn nothing_was_run() {
    assert_eq!(texts(&results(vec![])), ["No runs are in these results, so nothing can be said."]);
}

#[test]
fn rows_in_words() {
    let of = |row: &Comparison| of_row(Language::English, row, "rotary");
    assert_eq!(of(&row("a", Measure::Beyond, 1.0, Verdict::Better)), "better than rotary");
    assert_eq!(of(&row("a", Measure::Beyond, 1.0, Verdict::Tie)), "tie within ±0.02");
    assert_eq!(of(&row("a", Measure::Beyond, 1.0, Verdict::Unclear)), "not enough seeds to say");
    assert_eq!(
        of(&not_judged(row("a", Measure::Beyond, 1.0, Verdict::Better), "did not learn it in 9 steps")),
        "not judged: did not learn it in 9 steps"
    );
    assert_eq!(
        of(&again(Measure::Beyond, Verdict::Worse)),
        "called different, though it is the same encoding"
    );
    assert_eq!(of(&again(Measure::Beyond, Verdict::Unclear)), "not enough seeds to say");
}
