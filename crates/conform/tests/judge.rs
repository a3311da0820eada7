//! Right answers are right, to the precision that they have; answers that are none are said to be so.

use rope::{AnglePrecision, Element, HfConfig, HfOptions, Positions, Turn, ViewMut};
use rope_conformance::{
    Angles, Answers, Case, Dtype, Meaning, Number, Outcome, Report, Rounding, Tensor, check, folder, full,
    judge, of_config, small, tagged,
};

/// This project's kernels, as an implementation under test.
fn turn<T: Element>(meaning: &Meaning, precision: AnglePrecision, sides: [&mut [T]; 2]) -> bool {
    if meaning.lengths[0] != meaning.lengths[1] {
        return false; // a cache is not what a kernel has
    }
    let rope = meaning.rope.clone().with_angle_precision(precision);
    let positions: Vec<f64> = meaning.case.positions.iter().flatten().map(|&at| at as f64).collect();
    let table = rope.table_of::<T::Table>(&positions, meaning.lengths[0][0]).unwrap();
    for (side, x) in sides.into_iter().enumerate() {
        let mut view = ViewMut::bhld(x, meaning.shape(side)).unwrap();
        table.at(Positions::Rows).unwrap().rotate(Turn::Forward, &mut view).unwrap();
    }
    true
}

fn own<T: Element + Number>(precision: AnglePrecision) -> Report {
    check(&small(), |meaning, q: &mut [T], k: &mut [T]| turn(meaning, precision, [q, k])).unwrap()
}

fn worst_level(report: &Report) -> (Angles, Rounding) {
    assert!(report.is_right(), "{report}");
    let levels = report.verdicts.iter().filter_map(|verdict| match verdict.outcome {
        Outcome::Right { level } => Some((level.angles, level.rounding)),
        _ => None,
    });
    let (angles, roundings): (Vec<_>, Vec<_>) = levels.unzip();
    (angles.into_iter().max().unwrap(), roundings.into_iter().max().unwrap())
}

#[test]
fn our_kernels_are_right_with_exact_angles_and_one_rounding() {
    let best = (Angles::Exact, Rounding::Once);
    assert_eq!(worst_level(&own::<f32>(AnglePrecision::Exact)), best);
    assert_eq!(worst_level(&own::<f64>(AnglePrecision::Exact)), best);
    assert_eq!(worst_level(&own::<half::f16>(AnglePrecision::Exact)), best);
    assert_eq!(worst_level(&own::<half::bf16>(AnglePrecision::Exact)), best);
}

#[test]
fn angles_in_f32_are_told() {
    let report = own::<f32>(AnglePrecision::F32);
    assert_eq!(worst_level(&report).0, Angles::F32);
    assert!(report.to_string().contains("angles in f32"), "{report}");
}

#[test]
fn arithmetic_in_sixteen_bits_is_told() {
    // The table and every product rounded, as a framework does that knows no wider type.
    let cases = tagged(small(), &["default".into(), "half".into()]).unwrap();
    let report = check(&cases, |meaning, q: &mut [half::bf16], k: &mut [half::bf16]| {
        let [_, _, tokens, dim] = meaning.shape(0);
        let frequencies = meaning.rope.frequencies(None);
        for (row, x) in q.chunks_exact_mut(dim).chain(k.chunks_exact_mut(dim)).enumerate() {
            let position = meaning.case.positions[0][row % tokens] as f64;
            for (j, theta) in frequencies.inv_freq().iter().enumerate() {
                let (sine, cosine) = (position * theta).sin_cos();
                let (s, c) = (half::bf16::from_f64(sine), half::bf16::from_f64(cosine));
                let (a, b) = (x[j], x[j + dim / 2]);
                (x[j], x[j + dim / 2]) = (a * c - b * s, b * c + a * s);
            }
        }
        true
    });
    assert_eq!(worst_level(&report.unwrap()).1, Rounding::Each);
}

#[test]
fn what_is_not_answered_is_neither_right_nor_wrong() {
    let mut answers = Answers::default();
    assert!(!judge(&small(), &answers).unwrap().is_right());
    let first = small()[0].meaning().unwrap();
    answers.add(&first, Dtype::F16, first.expected());
    let report = judge(&small(), &answers).unwrap();
    assert!(report.is_right());
    assert_eq!((report.right, report.wrong, report.missing), (1, 0, small().len() - 1));
}

#[test]
fn answers_that_cannot_be_judged_say_why() {
    let meaning = small()[0].meaning().unwrap();
    let name = |side: &str| format!("{}.f32.{side}", meaning.case.name);
    let mut answers = Answers::default();
    let [q, k] = meaning.expected();
    let shape = meaning.shape(0).to_vec();
    answers.insert(name("q"), Tensor { dtype: Dtype::F32, shape: shape.clone(), values: q.clone() });
    let why = |answers: &Answers| match &judge(&small()[..1], answers).unwrap().verdicts[0].outcome {
        Outcome::Unusable { why } => why.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(why(&answers), "no tensor `default-half.f32.k`");
    answers
        .insert(name("k"), Tensor { dtype: Dtype::F16, shape: meaning.shape(1).to_vec(), values: k.clone() });
    assert_eq!(why(&answers), "`default-half.f32.k` is f16; expected f32");
    answers.insert(name("k"), Tensor { dtype: Dtype::F32, shape, values: q });
    assert_eq!(why(&answers), "`default-half.f32.k` has shape [1, 2, 10, 64]; expected [1, 1, 10, 64]");
    // Numbers that are none are wrong, not unusable.
    let k = vec![f64::NAN; k.len()];
    answers.insert(name("k"), Tensor { dtype: Dtype::F32, shape: meaning.shape(1).to_vec(), values: k });
    let report = judge(&small()[..1], &answers).unwrap();
    assert_eq!(report.wrong, 1);
    assert!(report.findings[0].explanations.is_empty(), "{report}");
    serde_json::from_str::<serde_json::Value>(&report.to_json()).unwrap();
}

/// At 2³¹ an angle of f32 says nothing, but what is no number, or longer than its pair, is wrong there too.
#[test]
fn where_nothing_can_be_said_nonsense_is_still_wrong() {
    let case = small().into_iter().find(|case| case.name == "long-half").unwrap();
    let meaning = case.meaning().unwrap();
    let last = meaning.shape(0)[2..].iter().product::<usize>() - meaning.shape(0)[3];
    let judged = |value: f64| {
        let [mut q, k] = meaning.expected();
        q[last] = value; // the fastest pair at the last position
        let mut answers = Answers::default();
        answers.add(&meaning, Dtype::F32, [q, k]);
        judge(std::slice::from_ref(&case), &answers).unwrap()
    };
    assert!(judged(0.0).is_right(), "within its pair, wherever the angle points");
    assert!(!judged(f64::NAN).is_right());
    assert!(!judged(f64::INFINITY).is_right());
    assert!(!judged(3.0).is_right());
}

#[test]
fn cases_that_make_no_sense_are_refused_by_name() {
    let good = small()[0].clone();
    let refused = |case: Case, words: &str| {
        let error = judge(&[case], &Answers::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("default-half") && error.contains(words), "{error}");
    };
    refused(Case { positions: vec![], ..good.clone() }, "0 rows of positions; expected 1");
    refused(Case { positions: vec![vec![]], ..good.clone() }, "0 tokens");
    refused(Case { positions: vec![vec![-1]], ..good.clone() }, "the position -1; expected from 0");
    refused(Case { calls: Some(vec![usize::MAX, 2]), ..good.clone() }, "expected 10 in all");
    refused(Case { config: serde_json::json!({"model_type": "bert"}), ..good.clone() }, "bert");
    refused(Case { layer_type: Some("full".into()), ..good }, "full");
    let tags = tagged(small(), &["nonsense".into()]).unwrap_err().to_string();
    assert!(tags.starts_with("the tag `nonsense`; expected one of"), "{tags}");
    assert!(tagged(small(), &["cache".into(), "linear".into()]).is_err());
}

#[test]
fn a_folder_reads_back() {
    let files = folder::files(&small()).unwrap();
    let cases = folder::read_cases(&files.cases).unwrap();
    assert_eq!(cases, small());
    assert!(
        files.cases.len() + files.inputs.len() + files.expected.len() < 1 << 20,
        "the small set is to stay small"
    );
    assert!(folder::read_cases(&files.cases.replace("\"version\":1", "\"version\":2")).is_err());
    assert!(folder::read_cases("{}").is_err());
    let refused = |cases: &[Case], words: &str| {
        let file = serde_json::json!({"format": "rope-conformance", "version": 1, "cases": cases});
        let error = folder::read_cases(&file.to_string()).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    let case = small().remove(0);
    refused(&[], "no cases");
    refused(&[case.clone(), case.clone()], "two cases are called `default-half`");
    refused(&[Case { name: "a\u{1b}[31m".into(), ..case }], "control characters");
    let inputs = Answers::read(&files.inputs).unwrap();
    for dtype in Dtype::ALL {
        let tensor = inputs.get("yarn.q").unwrap();
        assert!(
            tensor.values.iter().all(|&x| dtype.round(x) == x && x != 0.0),
            "inputs are exact in {dtype}"
        );
    }
    assert!(Answers::read(b"no safetensors").is_err());
}

/// Every configuration of the golden files can be asked about.
#[test]
fn cases_of_any_configuration() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/rope/frequencies.json");
    let file: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut asked = 0;
    for case in file["cases"].as_array().unwrap() {
        let bytes = case["config"].to_string();
        let known = HfConfig::read(bytes.as_bytes(), &HfOptions::default()).unwrap().ropes().is_ok();
        let cases = of_config("mine", &case["config"]);
        assert_eq!(cases.is_ok(), known, "{}", case["name"]);
        for case in cases.unwrap_or_default() {
            case.meaning().unwrap();
            asked += 1;
        }
    }
    assert!(asked > 400, "{asked}");
}

/// Our kernels on the full set, and names that no two cases share.
#[test]
fn the_full_set() {
    let cases = full();
    assert!(cases.len() > 350, "{}", cases.len());
    let mut names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    let report =
        check(&cases, |meaning, q: &mut [f32], k: &mut [f32]| turn(meaning, AnglePrecision::Exact, [q, k]));
    assert_eq!(worst_level(&report.unwrap()), (Angles::Exact, Rounding::Once));
}
