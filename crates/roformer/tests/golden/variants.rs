//! RoFormerV2, RoFormer-Sim and RoFormer-GPT against their reference implementation: `golden/variants`, made by
//! `golden/variants.py`.

use super::case::{Case, blueprint, close, flags, flat, load, read, tensor};
use roformer::blueprint::Blueprint;
use roformer::model::{Call, Hashed, HeadKind, Input, Model, Output, Scores};

/// One call on all tokens.
fn at_once(case: &Case) -> Output<f32> {
    let types = case.types.clone().unwrap_or(vec![0; case.ids.len()]);
    // The source ends where the second segment begins.
    let prefixes: Vec<usize> = types
        .chunks(case.length)
        .map(|row| row.iter().position(|&kind| kind == 1).unwrap_or(case.length))
        .collect();
    let prefix = (case.json["reach"] == "prefix").then_some(&prefixes[..]);
    let (token_types, mask) = (case.types.as_deref(), case.mask.as_deref());
    let input = Input { ids: &case.ids, batch: case.batch, token_types, mask };
    case.model.call(&input, Call { prefix, ..Call::default() }).unwrap()
}

#[test]
fn outputs_are_those_of_the_reference() {
    let (cases, outputs) = read("variants");
    let list = cases["cases"].as_array().unwrap();
    for variant in ["v2", "sim", "gpt"] {
        assert!(list.iter().filter(|case| case["variant"] == variant).count() >= 6, "{variant}");
    }
    for json in list {
        let case = Case::new(json);
        let (name, bounds) = (case.name(), &json["outputs"]);
        let whole = at_once(&case);
        let mut runs = vec![("at once", whole.last_hidden_state, whole.logits.map(|logits| logits.scores))];
        if let Some(prefill) = json["steps"]["prefill"].as_u64() {
            let (hidden, scores) = case.run_cached(prefill as usize, None);
            runs.push(("cached", hidden, scores));
        }
        for (how, hidden, scores) in runs {
            let compare = |part: &str, got: &[f32], rows: Option<&[bool]>| {
                let wanted = tensor(&outputs, &format!("{name}.{part}"));
                close(&format!("{name}.{part}, {how}"), got, &wanted, &bounds[part], rows)
            };
            let worst = compare("last_hidden_state", &hidden, case.mask.as_deref());
            let of_texts =
                [HeadKind::SequenceClassification, HeadKind::MultipleChoice].contains(&case.model.head());
            let rows = case.mask.as_deref().filter(|_| !of_texts);
            let other = match bounds["logits"].is_null() {
                true => 0.0,
                false => compare("logits", &scores.unwrap_or_else(|| panic!("{name}: no scores")), rows),
            };
            println!("{name}, {how}: {worst:.2} and {other:.2} of the bound");
        }
        if !bounds["pooler_output"].is_null() {
            let wanted = tensor(&outputs, &format!("{name}.pooler_output"));
            close(
                &format!("{name}.pooler_output"),
                &whole.pooled.unwrap(),
                &wanted,
                &bounds["pooler_output"],
                None,
            );
        }
    }
}

/// Scoring some tokens gives the same as scoring all and looking at those.
#[test]
fn some_tokens_are_scored_as_all_are() {
    let (cases, _) = read("variants");
    for json in cases["cases"].as_array().unwrap() {
        let case = Case::new(json);
        if !matches!(case.model.head(), HeadKind::MaskedLm | HeadKind::CausalLm) {
            continue;
        }
        let input = Input {
            ids: &case.ids,
            batch: case.batch,
            token_types: case.types.as_deref(),
            mask: case.mask.as_deref(),
        };
        let all = case.model.forward(&input).unwrap().logits.unwrap();
        let places: Vec<usize> = (0..case.ids.len()).rev().step_by(3).collect();
        let call = Call { scores: Scores::At(&places), ..Call::default() };
        let some = case.model.call(&input, call).unwrap().logits.unwrap();
        let vocabulary = all.shape[2];
        assert_eq!(some.shape, [places.len(), vocabulary]);
        for (scores, place) in some.scores.chunks(vocabulary).zip(&places) {
            let wanted = &all.scores[place * vocabulary..][..vocabulary];
            for (a, b) in scores.iter().zip(wanted) {
                assert!(
                    (a - b).abs() <= 1e-5 * b.abs().max(1.0),
                    "{}: {a} alone, {b} among all",
                    case.name()
                );
            }
        }
    }
}

/// A text read once and repeated continues as texts that were each read.
#[test]
fn a_repeated_cache_is_as_good_as_reading_again() {
    let (cases, _) = read("variants");
    let list = cases["cases"].as_array().unwrap();
    let cached = list.iter().filter(|case| !case["steps"].is_null() && case["batch"] == 1);
    assert!(cached.clone().count() >= 3);
    for json in cached {
        let case = Case::new(json);
        let prefill = json["steps"]["prefill"].as_u64().unwrap() as usize;
        let types = case.types.clone().unwrap_or(vec![0; case.ids.len()]);
        let part = |tokens: std::ops::Range<usize>, batch: usize| {
            let ids = case.ids[tokens.clone()].repeat(batch);
            (ids, types[tokens].repeat(batch))
        };
        let step = |(ids, types): &(Vec<u32>, Vec<u32>), batch: usize, cache: &mut _| {
            let input = Input { ids, batch, token_types: Some(types), mask: None };
            case.model.step(&input, None, cache).unwrap().last_hidden_state
        };
        let mut one = case.model.cache(1, case.length).unwrap();
        step(&part(0..prefill, 1), 1, &mut one);
        let mut three = case.model.repeat(&one, 3).unwrap();
        let mut two = case.model.repeat(&one, 3).unwrap();
        case.model.keep(&mut two, &[2, 0]).unwrap();
        for token in prefill..case.length {
            let alone = step(&part(token..token + 1, 1), 1, &mut one);
            let together = step(&part(token..token + 1, 3), 3, &mut three);
            let kept = step(&part(token..token + 1, 2), 2, &mut two);
            let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&kept), bits(&together[..kept.len()]), "{}: token {token}", case.name());
            for row in together.chunks(alone.len()) {
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5;
                assert!(row.iter().zip(&alone).all(near), "{}: token {token}", case.name());
            }
        }
        assert_eq!(three.len(), case.length);
        assert!(case.model.repeat(&three, 2).is_err());
        assert!(case.model.keep(&mut three, &[]).is_err() && case.model.keep(&mut three, &[3]).is_err());
    }
}

/// The tokens that RoFormer-Sim and RoFormer-GPT choose one after the other.
#[test]
fn the_likeliest_tokens_follow_one_another() {
    let (cases, _) = read("variants");
    for json in cases["greedy"].as_array().unwrap() {
        let is_sim = json["variant"] == "sim";
        let blueprint = Blueprint { head: HeadKind::CausalLm, ..blueprint(json, is_sim) };
        let model = Model::<f32>::from_parameters(blueprint, &Hashed).unwrap();
        let (source, wanted) = (flat(&json["source"]), flat(&json["continuation"]));
        let mut cache = model.cache(1, source.len() + wanted.len()).unwrap();
        let (mut ids, mut kind, mut chosen) = (source, 0, Vec::new());
        while chosen.len() < wanted.len() {
            let types = vec![kind; ids.len()];
            let input = Input { ids: &ids, batch: 1, token_types: Some(&types), mask: None };
            let scores = model.step(&input, None, &mut cache).unwrap().logits.unwrap().scores;
            let last = &scores[(ids.len() - 1) * model.blueprint().vocabulary..];
            let best = (0..last.len()).max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap() as u32;
            chosen.push(best);
            (ids, kind) = (vec![best], u32::from(is_sim));
        }
        assert_eq!(chosen, wanted, "{}", json["name"]);
    }
}

/// Checkpoints as the reference saves them.
#[test]
fn saved_files_load_and_agree() {
    let (cases, outputs) = read("variants");
    for file in cases["files"].as_array().unwrap() {
        let dir = file["dir"].as_str().unwrap();
        let model = load("variants", dir);
        let (ids, mask) = (flat(&file["ids"]), flags(&file["mask"]));
        let batch = file["ids"].as_array().unwrap().len();
        let output =
            model.forward(&Input { ids: &ids, batch, token_types: None, mask: mask.as_deref() }).unwrap();
        let wanted = tensor(&outputs, file["logits"].as_str().unwrap());
        let bounds = &file["outputs"];
        close(dir, &output.logits.unwrap().scores, &wanted, &bounds["logits"], mask.as_deref());
        assert_eq!(model.blueprint().pooler.is_some(), dir == "tiny-sim");
        if let Some(name) = file["pooler_output"].as_str() {
            // The file does not name the pooler's activation: RoFormer-Sim's is linear.
            assert!(model.blueprint().is_unilm());
            close(dir, &output.pooled.unwrap(), &tensor(&outputs, name), &bounds["pooler_output"], None);
        }
    }
}
