//! Reading the reference values, running the models they are of, and comparing.

use roformer::blueprint::{Blueprint, HeadKind};
use roformer::model::{Encoded, Hashed, Input, Model, Output};
use safetensors::SafeTensors;
use serde_json::Value;
use std::path::PathBuf;

/// A folder of `golden/`.
pub fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden").join(name)
}

/// Its cases and the bytes of its tensors.
pub fn read(name: &str) -> (Value, Vec<u8>) {
    read_from(name, "outputs.safetensors")
}

/// Its cases and the bytes of a file of tensors.
pub fn read_from(name: &str, file: &str) -> (Value, Vec<u8>) {
    let cases = std::fs::read(folder(name).join("cases.json")).unwrap();
    (serde_json::from_slice(&cases).unwrap(), std::fs::read(folder(name).join(file)).unwrap())
}

/// The model of a folder of files within one of `golden/`.
pub fn load(name: &str, dir: &str) -> Model<f32> {
    Model::load(folder(name).join(dir)).unwrap_or_else(|error| panic!("{dir}: {error}"))
}

pub fn tensor(bytes: &[u8], name: &str) -> Vec<f64> {
    let file = SafeTensors::deserialize(bytes).unwrap();
    let view = file.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
    view.data().chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The numbers of nested lists, row by row.
pub fn flat(value: &Value) -> Vec<u32> {
    match value {
        Value::Array(list) => list.iter().flat_map(flat).collect(),
        number => vec![number.as_u64().unwrap() as u32],
    }
}

pub fn flags(value: &Value) -> Option<Vec<bool>> {
    (!value.is_null()).then(|| flat(value).iter().map(|&x| x != 0).collect())
}

/// Compares at real positions: within twice the deviation of transformers' own f32, or 5e-6 of the largest value.
pub fn close(what: &str, got: &[f32], wanted: &[f64], bounds: &Value, rows: Option<&[bool]>) -> f64 {
    assert_eq!(got.len(), wanted.len(), "{what}");
    let (deviation, largest) = (bounds["deviation"].as_f64().unwrap(), bounds["largest"].as_f64().unwrap());
    let bound = (2.0 * deviation).max(5e-6 * largest);
    let width = rows.map_or(got.len(), |rows| got.len() / rows.len());
    let mut worst: f64 = 0.0;
    for (index, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        if rows.is_none_or(|rows| rows[index / width]) {
            let difference = (f64::from(*got) - wanted).abs();
            assert!(difference <= bound, "{what}[{index}]: {got} {wanted}, bound {bound:e}");
            worst = worst.max(difference / bound);
        }
    }
    worst
}

/// The blueprint of a RoFormer's case: its `config.json`, with the head and the pooler that the case has.
pub fn blueprint(json: &Value, has_pooler: bool) -> Blueprint {
    let mut config = json["config"].clone();
    if has_pooler {
        config["add_pooling_layer"] = true.into();
    }
    if let Some(head) = json["head"].as_str() {
        config["architectures"] = vec![head].into();
    }
    let blueprint = Blueprint::from_config(config.to_string().as_bytes());
    blueprint.unwrap_or_else(|error| panic!("{}: {error}", json["name"]))
}

/// The same with another head.
pub fn with_head(config: &[u8], head: HeadKind) -> Blueprint {
    Blueprint { head, ..Blueprint::from_config(config).unwrap() }
}

/// A case of cases.json.
pub struct Case<'a> {
    pub json: &'a Value,
    pub model: Model<f32>,
    pub ids: Vec<u32>,
    pub types: Option<Vec<u32>>,
    pub mask: Option<Vec<bool>>,
    pub batch: usize,
    pub length: usize,
}

/// Hidden states and scores, `[batch, length, …]`.
pub type Outputs = (Vec<f32>, Option<Vec<f32>>);

impl<'a> Case<'a> {
    pub fn new(json: &'a Value) -> Self {
        let has_pooler = !json["outputs"]["pooler_output"].is_null() || json["variant"] == "sim";
        let blueprint = blueprint(json, has_pooler);
        let ids = flat(&json["ids"]);
        let length = json["length"].as_u64().unwrap() as usize;
        Case {
            json,
            model: Model::from_parameters(blueprint, &Hashed).unwrap(),
            types: (!json["token_types"].is_null()).then(|| flat(&json["token_types"])),
            mask: flags(&json["mask"]),
            batch: ids.len() / length,
            ids,
            length,
        }
    }

    pub fn name(&self) -> &str {
        self.json["name"].as_str().unwrap()
    }

    pub fn run(&self, encoded: Option<Encoded<f32>>) -> Outputs {
        let (types, mask) = (self.types.as_deref(), self.mask.as_deref());
        let input = Input { ids: &self.ids, batch: self.batch, token_types: types, mask };
        let output = match encoded {
            Some(encoded) => self.model.forward_with(&input, encoded).unwrap(),
            None => self.model.forward(&input).unwrap(),
        };
        (output.last_hidden_state, output.logits.map(|logits| logits.scores))
    }

    /// Columns `first..first + count` of a list `[batch, length]`.
    fn columns<T: Copy>(&self, list: &[T], first: usize, count: usize) -> Vec<T> {
        (0..self.batch).flat_map(|row| list[row * self.length + first..][..count].to_vec()).collect()
    }

    /// The first `prefill` tokens at once, then one at a time, with a cache.
    pub fn run_cached(&self, prefill: usize, encoded: Option<Encoded<f32>>) -> Outputs {
        let mut cache = self.model.cache(self.batch, self.length).unwrap();
        let (mut hidden, mut scores) = (vec![Vec::new(); self.batch], vec![Vec::new(); self.batch]);
        let mut first = 0;
        while first < self.length {
            let count = if first == 0 { prefill } else { 1 };
            let ids = self.columns(&self.ids, first, count);
            let types = self.types.as_ref().map(|types| self.columns(types, first, count));
            let mask = self.mask.as_ref().map(|mask| self.columns(mask, first, count));
            let (types, mask) = (types.as_deref(), mask.as_deref());
            let input = Input { ids: &ids, batch: self.batch, token_types: types, mask };
            let output = self.model.step(&input, encoded, &mut cache).unwrap();
            for row in 0..self.batch {
                let rows = |list: &[f32]| list.chunks(list.len() / self.batch).nth(row).unwrap().to_vec();
                hidden[row].extend(rows(&output.last_hidden_state));
                scores[row].extend(output.logits.iter().flat_map(|logits| rows(&logits.scores)));
            }
            first += count;
        }
        assert_eq!(cache.len(), self.length);
        (hidden.concat(), Some(scores.concat()).filter(|scores| !scores.is_empty()))
    }
}

/// Runs texts of four lengths as a padded batch, and each alone: the same hidden states, `width` numbers per token.
pub fn padded_as_alone(width: usize, vocabulary: usize, forward: impl Fn(&Input) -> Output<f32>) {
    let lengths = [3usize, 17, 9, 1];
    let longest = 17;
    let id = |text: usize, token: usize| ((text * 31 + token * 7) % vocabulary) as u32;
    let ids: Vec<u32> = (0..4).flat_map(|text| (0..longest).map(move |token| id(text, token))).collect();
    let mask: Vec<bool> =
        lengths.iter().flat_map(|&length| (0..longest).map(move |token| token < length)).collect();
    let batch = forward(&Input { ids: &ids, batch: 4, token_types: None, mask: Some(&mask) });
    for (text, &length) in lengths.iter().enumerate() {
        let alone = &ids[text * longest..][..length];
        let alone = forward(&Input { ids: alone, batch: 1, token_types: None, mask: None });
        let got = &batch.last_hidden_state[text * longest * width..][..length * width];
        for (a, b) in got.iter().zip(&alone.last_hidden_state) {
            assert!((a - b).abs() <= 4e-6, "{a} in the batch, {b} alone");
        }
    }
}

/// Runs three texts on one, two and three threads: the same bits.
pub fn same_on_any_threads(ids: &[u32], forward: impl Fn(&Input) -> Output<f32> + Sync) {
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let input = Input { ids, batch: 3, token_types: None, mask: None };
        let output = pool.install(|| forward(&input));
        (output.last_hidden_state, output.logits.unwrap().scores)
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3));
}
