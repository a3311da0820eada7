//! Learned positions that a hierarchical encoding stretches.

use crate::common::{Folder, begin, go_on, request, small, text};
use roformer::Error;
use roformer::encoding::{Encoding, Hierarchical, Sizes};
use roformer::graph::Builder;
use roformer::model::{Input, Model};
use roformer::train::{Run, Settings, Start};
use roformer::weights::Weights;

#[test]
fn learned_positions_are_stretched() {
    let folder = Folder::new("stretched");
    let data = request(folder.put("text", text().as_bytes()));
    let settings = Settings { encoding: "learned".into(), block: 8, steps: 20, dropout: 0.0, ..small() };
    let first = folder.0.join("first");
    begin(&first, &settings, &data).unwrap().go(go_on).unwrap();
    let asked = Encoding::Hierarchical(Hierarchical { alpha: 0.3, ..Hierarchical::default() });
    let onto = |name: &str, start: Start, block: usize| {
        let still =
            Settings { block, lr: 1e-30, min_lr: 0.0, weight_decay: 0.0, steps: 1, ..settings.clone() };
        let mut run = Run::begin(folder.0.join(name), &still, &start, &data, |_| {})?;
        run.go(go_on)?;
        Ok::<_, Error>(run)
    };
    let last = |name: &str| Model::<f32>::load(folder.0.join(name).join("last")).unwrap();
    let hidden = |model: &Model<f32>, length: u32| {
        let ids: Vec<u32> = (0..length).map(|token| token % 7).collect();
        model
            .forward(&Input { ids: &ids, batch: 1, token_types: None, mask: None })
            .map(|out| out.last_hidden_state)
    };
    // Texts of up to n tokens have the bits that they had; longer ones, up to n², can be read now.
    let run = onto("second", Start::Encoded(first.join("last"), Box::new(asked.clone())), 40).unwrap();
    assert_eq!(run.trainer().settings().encoding, "hierarchical:positions=8,alpha=0.3");
    drop(run);
    let (short, long) = (last("first"), last("second"));
    assert_eq!(hidden(&short, 8).unwrap(), hidden(&long, 8).unwrap());
    assert!(hidden(&short, 9).is_err());
    assert!(hidden(&long, 64).is_ok() && hidden(&long, 65).is_err());
    // Position 8·i + j has u_j and u_i: q = p_j + α/(1−α)·(p_i − p_0).
    let weights = Weights::open(first.join("last")).unwrap();
    let mut table = vec![0f32; 8 * 32];
    weights.read("position.embedding.weight", &[8, 32], &mut table).unwrap();
    let blueprint = long.blueprint().clone();
    let mut builder = Builder::<f32>::default();
    let sizes = Sizes {
        batch: 1,
        length: 64,
        longest: 64,
        width: 32,
        codes: 32,
        heads: 2,
        key_heads: 2,
        head_dim: 16,
        is_causal: true,
        has_biases: true,
    };
    let (codes, _) = blueprint.encoding.as_encode::<f32>().codes(&mut builder, &sizes).unwrap();
    let mut graph = builder.build().unwrap();
    graph.parameters_mut().copy_from_slice(&table);
    graph.forward();
    for (index, &code) in graph.value(codes).iter().enumerate() {
        let (position, column) = (index / 32, index % 32);
        let p = |row: usize| f64::from(table[row * 32 + column]);
        let wanted = p(position % 8) + 0.3 / 0.7 * (p(position / 8) - p(0));
        assert!((f64::from(code) - wanted).abs() < 1e-6, "{position}, {column}: {code}, not {wanted}");
    }
    // What does not fit is refused with what would.
    let refused = |start: Start, block: usize| onto("third", start, block).err().unwrap().to_string();
    let error = refused(Start::Checkpoint(first.join("last")), 9);
    assert!(
        error.contains("block is 9; expected at most 8") && error.contains("stretches learned ones to 64"),
        "{error}"
    );
    let error = refused(Start::Encoded(first.join("last"), Box::new(asked.clone())), 65);
    assert!(error.contains("block is 65; expected at most 64, the square of the 8 positions"), "{error}");
    let error = refused(Start::Encoded(folder.0.join("second/last"), Box::new(asked)), 8);
    assert!(error.contains("whose encoding is hierarchical"), "{error}");
    // Fewer tokens than the table has rows keep all of them.
    onto("fourth", Start::Checkpoint(first.join("last")), 5).unwrap();
    assert_eq!(hidden(&short, 8).unwrap(), hidden(&last("fourth"), 8).unwrap());
}
