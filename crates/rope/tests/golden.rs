//! Against Hugging Face transformers and 300-bit arithmetic: the files in `golden/rope`, made by `golden/rope.py`.

use rope::{
    AnglePrecision, Element, HfConfig, HfOptions, Pairing, Positions, Precision, Rope, Schedule, Table, Turn,
    View, ViewMut, bf16, f16,
};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::path::PathBuf;

fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/rope").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn cases(name: &str) -> Vec<Value> {
    let json: Value = serde_json::from_slice(&file(name)).unwrap();
    json["cases"].as_array().unwrap().clone()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

/// The rope of a case, read from its config.json.
fn read(case: &Value, precision: AnglePrecision) -> (HfConfig, Option<Rope>) {
    let name = case["name"].as_str().unwrap();
    let bytes = serde_json::to_vec(&case["config"]).unwrap();
    let options = HfOptions { angle_precision: precision, ..HfOptions::default() };
    let config = HfConfig::read(&bytes, &options).unwrap_or_else(|error| panic!("{name}: {error}"));
    let layer_type = case["layer_type"].as_str();
    let layer = config.layers.iter().find(|layer| layer.layer_type.as_deref() == layer_type);
    let layer = layer.unwrap_or_else(|| panic!("{name}: no layer type {layer_type:?}"));
    let rope = layer.rope.clone();
    (config, rope)
}

#[test]
fn frequencies_and_attention_factors_are_those_of_transformers() {
    let cases = cases("frequencies.json");
    let mut configs: Vec<String> = cases.iter().map(|case| case["config"].to_string()).collect();
    configs.sort();
    configs.dedup();
    assert!(configs.len() >= 120, "{} configurations", configs.len());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let (config, rope) = read(case, AnglePrecision::Exact);
        assert!(config.pairing.is_some(), "{name}: pairing of {:?}", config.model_type);
        let Some(rope) = rope else {
            assert!(case["inv_freq"].is_null(), "{name}: a rope that was read as none");
            continue;
        };
        let wanted = floats(&case["inv_freq"]);
        let frequencies = rope.frequencies(case["seq_len"].as_u64());
        assert_eq!(rope.head_dim() as u64, case["head_dim"].as_u64().unwrap(), "{name}");
        assert_eq!(rope.rotary_dim(), 2 * wanted.len(), "{name}");
        let factor = case["attention_factor"].as_f64().unwrap();
        assert!((frequencies.attention_factor() / factor - 1.0).abs() <= 1e-9, "{name}: {factor}");
        for (pair, (ours, theirs)) in frequencies.inv_freq().iter().zip(&wanted).enumerate() {
            let difference = (ours - theirs).abs();
            assert!(difference <= 3e-6 * theirs.abs(), "{name}: pair {pair}: {ours} {theirs}");
        }
        // In single precision: the same bits. (RoFormer's own table is made in f64.)
        if config.model_type.as_deref() != Some("roformer") {
            let single = rope.with_angle_precision(AnglePrecision::F32).frequencies(case["seq_len"].as_u64());
            assert_eq!(single.inv_freq(), wanted, "{name}");
        }
    }
}

#[test]
fn random_configurations_of_every_type_are_read_as_transformers_reads_them() {
    let cases = cases("sweep.json");
    assert!(cases.len() >= 200, "{} cases", cases.len());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let (_, rope) = read(case, AnglePrecision::F32);
        let rope = rope.unwrap_or_else(|| panic!("{name}: read as not rotary"));
        let wanted = floats(&case["inv_freq"]);
        let frequencies = rope.frequencies(case["seq_len"].as_u64());
        assert_eq!(rope.rotary_dim() as u64, case["rotary_dim"].as_u64().unwrap(), "{name}");
        let factor = case["attention_factor"].as_f64().unwrap();
        assert!((frequencies.attention_factor() / factor - 1.0).abs() <= 1e-9, "{name}: {factor}");
        assert_eq!(frequencies.inv_freq().len(), wanted.len(), "{name}");
        for (pair, (ours, theirs)) in frequencies.inv_freq().iter().zip(&wanted).enumerate() {
            // Both in single precision; a few units, because torch's powers depend on the width of its vectors.
            assert!((ours - theirs).abs() <= 1e-6 * theirs.abs(), "{name}: pair {pair}: {ours} {theirs}");
        }
    }
}

/// A tensor of one of the four types.
fn tensor<T: FromBits>(tensors: &SafeTensors, name: &str) -> (Vec<T>, Vec<usize>) {
    let view = tensors.tensor(name).unwrap();
    assert_eq!(view.dtype(), T::DTYPE, "{name}");
    let values = view.data().chunks_exact(size_of::<T>()).map(T::from_bytes).collect();
    (values, view.shape().to_vec())
}

trait FromBits: Element {
    const DTYPE: Dtype;
    /// The distance from 1 to the next number.
    const EPSILON: f64;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn value(self) -> f64;
}

macro_rules! from_bits {
    ($($type:ty: $dtype:ident, $epsilon:expr, $value:expr;)*) => {$(
        impl FromBits for $type {
            const DTYPE: Dtype = Dtype::$dtype;
            const EPSILON: f64 = $epsilon;
            fn from_bytes(bytes: &[u8]) -> Self { <$type>::from_le_bytes(bytes.try_into().unwrap()) }
            fn value(self) -> f64 { $value(self) }
        }
    )*};
}
from_bits! {
    f32: F32, 1.0 / (1u64 << 23) as f64, f64::from;
    f16: F16, 1.0 / (1u64 << 10) as f64, f16::to_f64;
    bf16: BF16, 1.0 / (1u64 << 7) as f64, bf16::to_f64;
}

/// The table for a case of rotations.json, in the precision that transformers forms its angles in.
fn case_table(case: &Value) -> Table<f32> {
    let is_roformer = case["config"]["model_type"] == "roformer";
    let precision = if is_roformer { AnglePrecision::Exact } else { AnglePrecision::F32 };
    let (config, rope) = read(case, precision);
    assert_eq!(config.pairing, Some(case["pairing"].as_str().unwrap().parse::<Pairing>().unwrap()));
    let positions = case["positions"].as_array().unwrap();
    let positions: Vec<f64> = match case["kind"].as_str().unwrap() {
        "mrope" => positions.iter().flat_map(floats).collect(),
        _ => positions.iter().map(|x| x.as_f64().unwrap()).collect(),
    };
    rope.unwrap().table_of(&positions, case["seq_len"].as_u64()).unwrap()
}

fn check_rotation<T: FromBits<Table = f32>>(tensors: &SafeTensors, case: &Value) -> f64 {
    let name = case["name"].as_str().unwrap();
    let table = case_table(case);
    let mut worst: f64 = 0.0;
    for side in ["q", "k"] {
        let (x, shape) = tensor::<T>(tensors, &format!("{name}.{side}"));
        let (wanted, _) = tensor::<T>(tensors, &format!("{name}.{side}_rot"));
        let shape: [usize; 4] = shape.try_into().unwrap();
        let mut y = x.clone();
        let rows = table.at(Positions::Rows).unwrap();
        rows.rotate(Turn::Forward, &mut ViewMut::bhld(&mut y, shape).unwrap()).unwrap();
        let mut back = y.clone();
        rows.rotate(Turn::Inverse, &mut ViewMut::bhld(&mut back, shape).unwrap()).unwrap();
        let head_dim = shape[3];
        for (vector, ours) in y.chunks_exact(head_dim).enumerate() {
            let at = vector * head_dim..(vector + 1) * head_dim;
            let (x, theirs) = (&x[at.clone()], &wanted[at.clone()]);
            // The largest |pair| bounds what any rounding of its products can be.
            let factor = table.frequencies().attention_factor();
            let size = x.iter().map(|x| x.value().abs()).fold(0.0, f64::max) * 2f64.sqrt() * factor;
            for (feature, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                let difference = (ours.value() - theirs.value()).abs() / (size * T::EPSILON);
                // transformers rounds cos, sin, two products and their sum to the type: five halves of an epsilon,
                // and where cos or sin differ by one unit (torch's are not correctly rounded) another half.
                assert!(
                    difference <= 3.0,
                    "{name}.{side}: vector {vector}, feature {feature}: {difference} epsilon"
                );
                worst = worst.max(difference);
            }
            for (x, back) in x.iter().zip(&back[at]) {
                assert!((x.value() - back.value()).abs() <= 2.0 * size * T::EPSILON, "{name}: inverse");
            }
        }
    }
    worst
}

#[test]
fn rotated_queries_and_keys_are_those_of_transformers() {
    let bytes = file("rotations.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let cases = cases("rotations.json");
    assert!(cases.len() >= 30);
    for pairing in ["half", "interleaved", "interleaved_to_half"] {
        for dtype in ["f32", "f16", "bf16"] {
            assert!(cases.iter().any(|case| case["pairing"] == pairing && case["dtype"] == dtype));
        }
    }
    for case in &cases {
        let worst = match case["dtype"].as_str().unwrap() {
            "f32" => check_rotation::<f32>(&tensors, case),
            "f16" => check_rotation::<f16>(&tensors, case),
            _ => check_rotation::<bf16>(&tensors, case),
        };
        println!("{}: {worst:.2} epsilon", case["name"]);
    }
}

#[test]
fn single_precision_tables_are_within_one_unit_of_torch() {
    let bytes = file("rotations.safetensors");
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    for case in cases("rotations.json") {
        let name = case["name"].as_str().unwrap();
        let table = case_table(&case);
        // One unit of a cosine is up to two of the cosine times a factor above 1.
        let units = if table.frequencies().attention_factor() == 1.0 { 1 } else { 2 };
        for (part, ours) in [("cos", table.cos()), ("sin", table.sin())] {
            let (theirs, _) = tensor::<f32>(&tensors, &format!("{name}.{part}"));
            assert_eq!(ours.len(), theirs.len(), "{name}");
            for (entry, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                // Bit patterns of one sign count in units of the last place; near zero compare the values.
                let apart = ours.to_bits().abs_diff(theirs.to_bits());
                assert!(
                    apart <= units || (ours - theirs).abs() < 1e-12,
                    "{name}.{part}[{entry}]: {ours} {theirs}"
                );
            }
        }
    }
}

#[test]
fn tables_are_the_nearest_numbers_to_300_bit_values() {
    let bound = 0.51 * 2f64.powi(-24);
    let mut largest = 0;
    for case in cases("tables.json") {
        let name = case["name"].as_str().unwrap();
        let (_, rope) = read(&case, AnglePrecision::Exact);
        let rope = rope.unwrap();
        let length = case["seq_len"].as_u64();
        let frequencies = rope.frequencies(length);
        for (pair, wanted) in case["inv_freq"].as_array().unwrap().iter().enumerate() {
            let (high, low) = (wanted[0].as_f64().unwrap(), wanted[1].as_f64().unwrap());
            let difference = (frequencies.inv_freq()[pair] - high) + (frequencies.rest()[pair] - low);
            assert!(
                difference.abs() <= high * 2f64.powi(-90),
                "{name}: θ of pair {pair} off by {difference:e}"
            );
        }
        // Attention factors are tested apart; here the bare cosines and sines count.
        let bare = match rope.schedule() {
            Schedule::Yarn(_) | Schedule::LongRope(_) => {
                // Given frequencies are one f64 each, which is too little at 2^31; so undo the factor instead.
                frequencies.attention_factor()
            }
            _ => 1.0,
        };
        let pairs: Vec<usize> = floats(&case["pairs"]).iter().map(|&pair| pair as usize).collect();
        let positions = floats(&case["positions"]);
        // Every position in a listed table, and again inside a long range, which is filled block by block.
        let listed = rope.table_of::<f32>(&positions, length).unwrap();
        let wide = rope.table_of::<f64>(&positions, length).unwrap();
        for (row, &position) in positions.iter().enumerate() {
            largest = largest.max(position as i64);
            let first = position as i64 - 77;
            let range = rope.table::<f32>(first..first + 200, length).unwrap();
            let range_wide = rope.table::<f64>(first..first + 200, length).unwrap();
            let entry = |row: usize, pair: usize| row * rope.pairs() + pair;
            for (index, &pair) in pairs.iter().enumerate() {
                for (part, is_cos) in [("cos", true), ("sin", false)] {
                    let exact = case[part][row][index].as_f64().unwrap();
                    let of = |table: &Table<f32>, row| {
                        let list = if is_cos { table.cos() } else { table.sin() };
                        f64::from(list[entry(row, pair)])
                    };
                    let of_wide = |table: &Table<f64>, row| {
                        (if is_cos { table.cos() } else { table.sin() })[entry(row, pair)]
                    };
                    for value in [of(&listed, row), of(&range, 77)] {
                        // With an attention factor a the table holds a·cos, rounded at that size.
                        let limit = if bare == 1.0 { bound } else { 0.51 * 2f64.powi(-23) };
                        assert!(
                            (value - exact * bare).abs() <= limit,
                            "{name}: {part} at {position}, pair {pair}"
                        );
                    }
                    for value in [of_wide(&wide, row), of_wide(&range_wide, 77)] {
                        let limit = 4.0 * 2f64.powi(-53);
                        assert!(
                            (value - exact * bare).abs() <= limit,
                            "{name}: {part} at {position}, pair {pair}, f64"
                        );
                    }
                }
            }
        }
    }
    assert!(largest >= 1 << 31);
}

/// The rotation agrees with the f64 reference for every pairing, and `rotate_to` with `rotate`.
#[test]
fn exact_rotation_of_llama_3_at_a_million() {
    let (_, rope) = read(
        cases("frequencies.json").iter().find(|case| case["name"] == "llama-3.1-8b").unwrap(),
        AnglePrecision::Exact,
    );
    let rope = rope.unwrap();
    let table = rope.table::<f32>(1_048_575..1_048_576, None).unwrap();
    let x: Vec<f32> = (0..128).map(|i| ((i * 37 % 101) as f32 - 50.0) / 25.0).collect();
    let mut y = vec![0.0f32; 128];
    let rows = table.at(Positions::From(1_048_575)).unwrap();
    let source = View::blhd(&x, [1, 1, 1, 128]).unwrap();
    rows.rotate_to(Turn::Forward, &source, &mut ViewMut::blhd(&mut y, [1, 1, 1, 128]).unwrap()).unwrap();
    let frequencies = rope.frequencies(None);
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let exact = rope::reference::rotate(&wide, 1_048_575.0, frequencies.inv_freq(), 1.0, Pairing::Half);
    for (y, exact) in y.iter().zip(exact) {
        assert!((y.to_f64() - exact).abs() <= 2.0 * 2.0 * 2f64.powi(-24), "{y} {exact}");
    }
}
