//! Plans that can be made, and those that cannot.

use super::*;
use roformer::train::Data;

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|item| item.to_string()).collect()
}

#[test]
fn the_hash_is_another_for_another_plan() {
    let text = || Some(Data::from_text(&"some words ".repeat(2000)).unwrap());
    let base = || Request { tasks: strings(&["copy"]), ..Request::default() };
    let requests = [
        base(),
        Request { tasks: strings(&["copy", "majority"]), ..base() },
        Request { tasks: strings(&["language"]), ..base() },
        Request { tasks: strings(&["language"]), text: text(), ..base() },
        Request { encodings: strings(&["rotary", "none"]), ..base() },
        Request { encodings: strings(&["none", "rotary"]), ..base() },
        Request { encodings: strings(&["rotary:base=5", "none"]), ..base() },
        Request { seeds: Some(4), ..base() },
        Request { seeds: Some(5), ..base() },
        Request { budget: Some(6), ..base() },
        Request { train_length: Some(6), ..base() },
        Request { test_lengths: vec![2, 9], ..base() },
        Request { steps: Some(10), ..base() },
        Request { sizes: Some(Sizes::Pilot), ..base() },
        Request { sizes: "3x128".parse().ok(), ..base() },
        Request { is_linear: true, ..base() },
        Request { is_sweep: true, ..base() },
        Request { preset: Preset::Full, ..base() },
    ];
    let mut hashes: Vec<String> = requests.iter().map(|request| Plan::new(request).unwrap().hash()).collect();
    assert_eq!(hashes[0], Plan::new(&base()).unwrap().hash());
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), requests.len());
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let tasks = |tasks: &[&str]| Request { tasks: strings(tasks), ..Request::default() };
    let encodings = |list: &[&str]| Request { encodings: strings(list), ..Request::default() };
    for (request, says) in [
        (tasks(&["copi"]), "one of copy"),
        (tasks(&["copy", "copy"]), "`copy` twice"),
        (encodings(&["rotary"]), "at least two"),
        (encodings(&["rotary", "rotary"]), "`rotary` twice"),
        (encodings(&["rotary", "rotary:base=-1"]), "`rotary:base=-1`"),
        (encodings(&["rotary", "hierarchical:positions=2"]), "square is at least"),
        (encodings(&["rotary", "randomised:range=4"]), "at least the longest"),
        (encodings(&["rotary", "rotary:dim=33"]), "`rotary:dim=33`"),
        (Request { is_linear: true, ..encodings(&["t5", "alibi", "none"]) }, "no sum over keys"),
        (Request { seeds: Some(1), ..Request::default() }, "from 2"),
        (Request { seeds: Some(1001), ..Request::default() }, "to 1000"),
        (Request { budget: Some(3), ..Request::default() }, "the budget of seeds is 3; expected from 5"),
        (Request { budget: Some(1001), ..Request::default() }, "to 1000"),
        (Request { seeds: Some(5), budget: Some(5), ..Request::default() }, "one of the two"),
        (Request { train_length: Some(0), ..Request::default() }, "the train length is 0"),
        (Request { train_length: Some(99), ..Request::default() }, "the train length is 99"),
        (Request { test_lengths: vec![0, 3], ..Request::default() }, "a length to test is 0"),
        (Request { test_lengths: vec![9, 10], ..Request::default() }, "within the train length"),
        (Request { test_lengths: (1..100).collect(), ..tasks(&["majority"]) }, "at most 64"),
        (Request { steps: Some(0), ..Request::default() }, "the number of steps is 0"),
        (Request { encodings: vec!["rotary".into(); 99], ..Request::default() }, "at most 64"),
    ] {
        let error = Plan::new(&request).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn linear_attention_leaves_out_what_it_cannot_carry() {
    let plan = Plan::new(&Request { is_linear: true, ..Request::default() }).unwrap();
    let kept: Vec<&str> = plan.encodings.iter().map(|(label, _)| &label[..]).collect();
    assert_eq!(kept, ["rotary", "none", "sinusoidal", "learned", "receptive"]);
    assert_eq!(plan.left_out.iter().map(|out| &out.label[..]).collect::<Vec<_>>(), ["alibi", "t5"]);
    assert!(plan.left_out[0].reason.contains("no sum over keys"));
}

#[test]
fn runs_are_as_many_as_they_should_be() {
    for request in
        [Request::default(), Request { is_sweep: true, preset: Preset::Full, ..Request::default() }]
    {
        let plan = Plan::new(&request).unwrap();
        assert_eq!(plan.searches().len(), 3 * plan.tasks.len() * plan.encodings.len());
        assert_eq!(plan.runs(&plan.tasks[0], "rotary", 1e-3, true, 7).len(), 2 * 7);
        assert_eq!(plan.runs(&plan.tasks[0], "none", 1e-3, false, 7).len(), 7);
        let sweeps = plan.sweeps(&plan.tasks[0], "rotary", 1e-3).len();
        assert_eq!(sweeps, if request.is_sweep { 2 * encodings::grid("rotary").len() } else { 0 });
        assert!(plan.sweeps(&plan.tasks[0], "none", 1e-3).is_empty());
    }
}

#[test]
fn lengths_to_test_follow_the_train_length() {
    let request = Request { tasks: strings(&["majority"]), train_length: Some(24), ..Request::default() };
    let plan = Plan::new(&request).unwrap();
    let whole = Plan::new(&Request { train_length: None, ..request }).unwrap();
    let double: Vec<usize> = whole.tasks[0].test_lengths.iter().map(|length| 2 * length).collect();
    assert_eq!((plan.tasks[0].train_length, &plan.tasks[0].test_lengths), (24, &double));
}
