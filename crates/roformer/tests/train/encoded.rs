//! A model with rotary embedding that goes on with another encoding: without positions, or reaching further.

use crate::common::{Folder, begin, go_on, request, small, text};
use roformer::Error;
use roformer::encoding::Encoding;
use roformer::model::{Input, Model};
use roformer::train::{Run, Settings, Start};

#[test]
fn rotary_embedding_is_dropped_or_extended() {
    let folder = Folder::new("encoded");
    let data = request(folder.put("text", text().as_bytes()));
    let settings = Settings { block: 8, steps: 20, dropout: 0.0, ..small() };
    let first = folder.0.join("first");
    begin(&first, &settings, &data).unwrap().go(go_on).unwrap();
    let onto = |name: &str, from: &str, encoding: &str| {
        let still = Settings { lr: 1e-30, min_lr: 0.0, weight_decay: 0.0, steps: 1, ..settings.clone() };
        let start = Start::Encoded(folder.0.join(from).join("last"), Box::new(Encoding::parse(encoding)?));
        let mut run = Run::begin(folder.0.join(name), &still, &start, &data, |_| {})?;
        run.go(go_on)?;
        Ok::<_, Error>(run.trainer().settings().encoding.clone())
    };
    let load = |name: &str| Model::<f32>::load(folder.0.join(name).join("last")).unwrap();
    let hidden = |model: &Model<f32>| {
        let ids: Vec<u32> = (0..40).map(|token| token * token % 7).collect();
        let input = Input { ids: &ids, batch: 1, token_types: None, mask: None };
        model.forward(&input).unwrap().last_hidden_state
    };
    let rotary = hidden(&load("first"));
    // The weights stay what they are, so what differs is what the positions do.
    assert_eq!(onto("dropped", "first", "none").unwrap(), "none");
    let dropped = load("dropped");
    assert_eq!(dropped.blueprint().encoding.label(), "none");
    let plain = Model::load_changed(Default::default(), first.join("last"), |own| {
        Ok(roformer::blueprint::Blueprint { encoding: Encoding::parse("none")?, ..own })
    });
    assert_eq!(hidden(&dropped), hidden(&plain.unwrap()));
    assert_ne!(hidden(&dropped), rotary);
    assert_eq!(onto("further", "first", "extend:window=6,group=2").unwrap(), "extend:window=6,group=2");
    let further = hidden(&load("further"));
    let width = further.len() / 40;
    assert_eq!(further[..6 * width], rotary[..6 * width], "all of it is near");
    assert_ne!(further[39 * width..], rotary[39 * width..]);
    // What cannot be is refused with what can.
    for (from, encoding, says) in [
        (
            "first",
            "alibi",
            "encoding is alibi, to begin with a model whose encoding is rotary; expected hierarchical",
        ),
        ("first", "extend:base=500", "the rotation is that of the model"),
        ("first", "extend:window=0", "the window is 0"),
        ("dropped", "extend", "a model whose encoding is none"),
        ("dropped", "rotary", "a model whose encoding is none"),
    ] {
        let error = onto("refused", from, encoding).unwrap_err().to_string();
        assert!(error.contains(says), "{encoding}: {error}");
    }
}
