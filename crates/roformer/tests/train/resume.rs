//! Broken off and resumed, in every way.

use crate::common::{Folder, begin, files, go_on, metrics, on_threads, request, small, text, until};
use roformer::train::{End, Event, FormName, Run, Settings};
use serde_json::Map;
use std::fs;

#[test]
fn a_resumed_run_has_the_same_bits_on_any_threads() {
    for form in FormName::ALL {
        let folder = Folder::new(&format!("resume-{}", form.name()));
        let data = request(folder.put("text", text().as_bytes()));
        let settings = Settings { form, ..small() };
        let straight = folder.0.join("straight");
        let end = on_threads(1, || begin(&straight, &settings, &data).unwrap().go(go_on).unwrap());
        assert_eq!(end, End::Finished);
        let broken = folder.0.join("broken");
        // At a step that is neither evaluated nor saved by itself.
        let end = on_threads(2, || begin(&broken, &settings, &data).unwrap().go(until(11)).unwrap());
        assert_eq!(end, End::Stopped);
        let mut run = on_threads(3, || Run::resume(&broken, &Map::new())).unwrap();
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
    let data = request(folder.put("text", text().as_bytes()));
    let straight = folder.0.join("straight");
    begin(&straight, &small(), &data).unwrap().go(go_on).unwrap();

    let killed = folder.0.join("killed");
    let mut run = begin(&killed, &small(), &data).unwrap();
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

    let mut run = Run::resume(&killed, &Map::new()).unwrap();
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
fn a_loss_that_is_no_number_stops_the_run_and_keeps_the_checkpoint() {
    let folder = Folder::new("nan");
    let data = request(folder.put("text", text().as_bytes()));
    let out = folder.0.join("out");
    let settings =
        Settings { lr: 10.0, min_lr: 10.0, clip: 0.0, weight_decay: 10.0, steps: 3000, warmup: 0, ..small() };
    let mut run = begin(&out, &settings, &data).unwrap();
    let End::Diverged { step, .. } = run.go(go_on).unwrap() else { panic!("it does not diverge") };
    assert!(step > run.saved());
    let saved = run.saved();
    drop(run);
    assert_eq!(Run::resume(&out, &Map::new()).unwrap().trainer().steps(), saved);
}

#[test]
fn without_validation_there_is_no_best() {
    let folder = Folder::new("no-validation");
    let data = request(folder.put("text", text().as_bytes()));
    let out = folder.0.join("out");
    let mut run = begin(&out, &Settings { validation: 0.0, ..small() }, &data).unwrap();
    assert_eq!(run.go(go_on).unwrap(), End::Finished);
    assert!(
        run.best().is_none() && !out.join("best").exists() && out.join("last/model.safetensors").exists()
    );
}
