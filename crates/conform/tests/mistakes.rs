//! Every known mistake, made everywhere it can be made, is named: in every type that shows it, alone, and among the others.

use rope_conformance::{Dtype, Judge, Level, mistakes, small};

/// Mistakes that no answer in a type can show: a table that is rounded to the type of the data is arithmetic in that type.
const HIDDEN: &[(&str, Dtype)] =
    &[("table-bf16", Dtype::Bf16), ("table-f16", Dtype::F16), ("table-f16", Dtype::Bf16)];

#[test]
fn every_mistake_is_named_in_every_type_that_shows_it() {
    named_in(EXACT);
}

/// As most people write it: angles of f32, and a table in the type of the data.
#[test]
fn every_mistake_is_named_in_ordinary_arithmetic() {
    named_in(Level::ALL[3]);
}

/// The best precision there is.
const EXACT: Level = Level::ALL[0];

fn named_in(level: Level) {
    let judge = Judge::new(&small()).unwrap();
    let wrong_in = |dtype: Dtype| {
        let mut wrong = Vec::new();
        for mistake in mistakes::all() {
            let Some(answers) = judge.mistaken(&[mistake], dtype, level) else {
                if !HIDDEN.contains(&(mistake.name, dtype)) {
                    wrong.push(format!("{} in {dtype} shows nowhere", mistake.name));
                }
                continue;
            };
            let report = judge.judge(&answers);
            if report.is_right() || report.mistakes() != [mistake.name] || report.findings.len() != 1 {
                wrong.push(format!("{} in {dtype} is called {:?}", mistake.name, report.mistakes()));
            }
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let wrong_in = &wrong_in;
        let threads = Dtype::ALL.map(|dtype| scope.spawn(move || wrong_in(dtype)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn there_are_many_and_each_has_its_own_name_and_words() {
    let all: Vec<_> = mistakes::all().collect();
    assert!(all.len() >= 60, "{}", all.len());
    for (index, mistake) in all.iter().enumerate() {
        assert!(all[..index].iter().all(|other| other.name != mistake.name), "{}", mistake.name);
        assert!(mistake.does.len() > 10 && mistake.cure.len() > 10, "{}", mistake.name);
        assert!(mistakes::find(mistake.name).is_some());
    }
}

/// Two at once are named together where both show, and each alone where only one does.
#[test]
fn two_mistakes_at_once_are_both_named() {
    let judge = Judge::new(&small()).unwrap();
    for names in [["pairing-interleaved", "factor-missing"], ["base-10000", "position-plus-one"]] {
        let mistakes = names.map(|name| mistakes::find(name).unwrap());
        let answers = judge.mistaken(&mistakes, Dtype::F32, EXACT).unwrap();
        let report = judge.judge(&answers);
        let named = report.mistakes().join(", ");
        assert!(names.iter().all(|name| named.contains(name)), "{names:?}: {named}");
        assert!(report.findings.iter().all(|finding| !finding.explanations.is_empty()), "{report}");
    }
}

/// What is no known mistake is not given a name.
#[test]
fn noise_has_no_name() {
    let judge = Judge::new(&small()).unwrap();
    let mut answers = rope_conformance::Answers::default();
    for meaning in judge.meanings() {
        let mut expected = meaning.expected();
        expected
            .iter_mut()
            .flatten()
            .enumerate()
            .for_each(|(index, x)| *x += ((index * 37 % 11) as f64 - 5.0) / 10.0);
        answers.add(meaning, Dtype::F32, expected);
    }
    let report = judge.judge(&answers);
    assert!(!report.is_right() && report.mistakes().is_empty(), "{report}");
}

/// At exactly the original length, long factors by capacity and long factors one token early are the same numbers.
#[test]
fn mistakes_that_look_alike_are_all_named() {
    let edge: Vec<_> = small().into_iter().filter(|case| case.name == "longrope-edge").collect();
    let judge = Judge::new(&edge).unwrap();
    let early = mistakes::find("longrope-by-capacity").unwrap();
    let answers = judge.mistaken(&[early], Dtype::F32, EXACT).unwrap();
    assert_eq!(judge.judge(&answers).mistakes(), ["longrope-by-capacity or longrope-one-early"]);
}
