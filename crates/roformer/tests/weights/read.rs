//! What is read.

use crate::files::*;
use half::{bf16, f16};
use roformer::weights::{Dtype, Error, Weights, save};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn what_is_saved_is_read_back_bit_by_bit() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    let a = [1.0, -0.0, f32::INFINITY, f32::MIN_POSITIVE / 2.0, f32::from_bits(0x7fc0_1234), 1e-3];
    let long: Vec<f32> = (0..100_000).map(|i| i as f32).collect();
    let tensors = [
        ("b", vec![2, 3], &a[..]),
        ("a\"\n", vec![], &a[..1]),
        ("none", vec![0, 7], &[]),
        ("long", vec![100_000], &long),
    ];
    fs::write(&path, "what was there before").unwrap();
    save(&path, tensors.clone()).unwrap();

    let weights = Weights::open(&folder.0).unwrap();
    assert_eq!(weights.path(), path);
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a\"\n", "b", "long", "none"]);
    assert_eq!((weights.len(), weights.is_empty()), (4, false));
    for (name, shape, data) in &tensors {
        let tensor = weights.get(name).unwrap();
        assert_eq!((tensor.shape(), tensor.dtype(), tensor.len()), (&shape[..], Dtype::F32, data.len()));
        assert_eq!(tensor.is_empty(), data.is_empty());
        assert_eq!(le(&read(&weights, name)), le(data));
    }
    // Nothing but the file is left, and the format's own library reads it.
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    let bytes = fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(header % 8, 0);
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("b").unwrap().data(), le(&a));
}

#[test]
fn saving_refuses_what_could_not_be_read_back() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    let one = &[1.0_f32][..];
    let refuse = |tensors: Vec<(&str, Vec<usize>, &[f32])>| save(&path, tensors).unwrap_err().to_string();
    says(&refuse(vec![("a", vec![1], one), ("a", vec![1], one)]), &["`a`", "twice"]);
    says(&refuse(vec![("__metadata__", vec![1], one)]), &["__metadata__", "keeps this name"]);
    says(&refuse(vec![("a", vec![2], one)]), &["`a`", "1 elements", "[2]"]);
    says(&refuse(vec![("a", vec![usize::MAX, 2], one)]), &["`a`", "1 elements"]);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    let missing = folder.0.join("no such folder").join("model.safetensors");
    says(
        &save(&missing, [("a", vec![1], one)]).unwrap_err().to_string(),
        &["cannot write", "no such folder"],
    );
}

#[test]
fn saving_over_a_folder_leaves_nothing_behind() {
    let folder = Folder::new();
    let path = folder.0.join("model.safetensors");
    fs::create_dir_all(path.join("in it")).unwrap();
    save(&path, [("a", vec![1], &[1.0_f32][..])]).unwrap_err();
    assert!(!folder.0.join("model.safetensors.partial").exists());
}

#[test]
fn every_float_type_is_converted() {
    let values = [0.0, -1.5, 65504.0, 2.0_f32.powi(-24), f32::NAN, f32::NEG_INFINITY];
    let bytes = [
        values.map(|x| f64::from(x).to_le_bytes().to_vec()).concat(),
        le(&values),
        values.map(|x| f16::from_f32(x).to_le_bytes().to_vec()).concat(),
        values.map(|x| bf16::from_f32(x).to_le_bytes().to_vec()).concat(),
    ];
    let mut end = 0;
    let mut header = serde_json::Map::new();
    for (name, bytes) in ["F64", "F32", "F16", "BF16"].iter().zip(&bytes) {
        let start = end;
        end += bytes.len();
        header.insert(name.to_string(), json!({"dtype": name, "shape": [6], "data_offsets": [start, end]}));
    }
    let folder = Folder::new();
    let weights =
        folder.open("x.safetensors", safetensors(&json!(header).to_string(), &bytes.concat())).unwrap();
    for name in ["F64", "F32", "F16", "BF16"] {
        let mut wide = [0.0_f64; 6];
        weights.read(name, &[6], &mut wide).unwrap();
        for ((narrow, wide), value) in read(&weights, name).into_iter().zip(wide).zip(values) {
            let value = if name == "BF16" { bf16::from_f32(value).to_f32() } else { value };
            assert!(narrow == value || narrow.is_nan() && value.is_nan(), "{name}: {narrow} for {value}");
            assert!(
                wide == f64::from(value) || wide.is_nan() && value.is_nan(),
                "{name}: {wide} for {value}"
            );
        }
    }
}

#[test]
fn f64_keeps_its_digits_or_is_rounded_once() {
    let third: f64 = 1.0 / 3.0;
    let bytes = safetensors(r#"{"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}"#, &third.to_le_bytes());
    let folder = Folder::new();
    let weights = folder.open("a.safetensors", bytes).unwrap();
    let mut wide = [0.0];
    weights.read::<f64>("a", &[], &mut wide).unwrap();
    assert_eq!((wide[0], read(&weights, "a")[0]), (third, third as f32));
}

#[test]
fn integers_are_reported_and_not_converted() {
    for dtype in ["I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL"] {
        let size = match dtype.trim_start_matches(['I', 'U']) {
            "64" => 8,
            "32" => 4,
            "16" => 2,
            _ => 1,
        };
        let header = json!({"x": {"dtype": dtype, "shape": [3], "data_offsets": [0, 3 * size]}}).to_string();
        let folder = Folder::new();
        let weights = folder.open("i.safetensors", safetensors(&header, &vec![1; 3 * size])).unwrap();
        let found = weights.get("x").unwrap().dtype();
        assert_eq!((found.to_string().to_uppercase().as_str(), found.size()), (dtype, size));
        let message = weights.read_f32("x", &[3], &mut [0.0; 3]).unwrap_err().to_string();
        says(&message, &["i.safetensors", "`x`", &found.to_string(), "expected F32"]);
    }
}

#[test]
fn asking_for_the_wrong_thing_says_what_is_there() {
    let folder = Folder::new();
    let weights = folder.open("m.safetensors", small_safetensors()).unwrap();
    let mut out = [0.0; 6];
    let message = |result: Result<(), Error>| result.unwrap_err().to_string();
    says(&message(weights.read_f32("a", &[3, 2], &mut out)), &["m.safetensors", "`a`", "[2, 3]", "[3, 2]"]);
    says(&message(weights.read_f32("a", &[2, 3], &mut out[..5])), &["`a`", "5 elements", "[2, 3]"]);
    let prefixed = message(weights.read_f32("roformer.a", &[2, 3], &mut out));
    says(&prefixed, &["no tensor `roformer.a`", "did you mean `a`?"]);
    says(&message(weights.read_f32("c", &[2, 3], &mut out)), &["no tensor `c`", "the 2 there", "`a`, `b`"]);
    says(&message(weights.read_f32("", &[], &mut out)), &["no tensor ``"]);
    assert!(weights.get("c").is_none());
}

#[test]
fn pickled_tensors_are_read_in_both_layouts() {
    let folder = Folder::new();
    let new = folder.open("new.bin", small_zip()).unwrap();
    assert_eq!(new.names().collect::<Vec<_>>(), ["a", "turned"]);
    assert_eq!(read(&new, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read(&new, "turned"), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let old = folder.open("old.bin", small_legacy()).unwrap();
    assert_eq!(old.names().collect::<Vec<_>>(), ["a", "part"]);
    assert_eq!(read(&old, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(read(&old, "part"), [5.0, 6.0]);
}

#[test]
fn strides_of_every_kind() {
    let numbers: Vec<f32> = (0..24).map(|i| i as f32).collect();
    type Case<'a> = (&'a [i64], &'a [i64], i64, &'a [f32]);
    let cases: [Case<'_>; 8] = [
        (&[2, 3], &[12, 4], 1, &[1.0, 5.0, 9.0, 13.0, 17.0, 21.0]),
        (&[2, 2, 2], &[1, 4, 12], 0, &[0.0, 12.0, 4.0, 16.0, 1.0, 13.0, 5.0, 17.0]),
        (&[3], &[0], 7, &[7.0, 7.0, 7.0]),
        (&[2, 2], &[0, 1], 22, &[22.0, 23.0, 22.0, 23.0]),
        (&[], &[], 23, &[23.0]),
        (&[1, 2, 1], &[i64::MAX, 5, i64::MAX], 3, &[3.0, 8.0]),
        (&[1], &[i64::MAX], 0, &[0.0]),
        (&[3, 0], &[i64::MAX, i64::MAX], 24, &[]),
    ];
    for (shape, strides, offset, expected) in cases {
        let t = Pickled { len: 24, shape, strides, offset, ..PICKLED };
        let folder = Folder::new();
        let weights = folder.open("s.bin", zip(&pickle(&[t], b""), &[&le(&numbers)])).unwrap();
        assert_eq!(read(&weights, "a"), expected, "{shape:?} {strides:?}");
    }
}

#[test]
fn pickles_of_other_forms() {
    let data = le(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let t = tensor(&PICKLED);
    let state = pickle(&[PICKLED], b"");
    let state = &state[2..state.len() - 1];
    let attributes = [&text("_metadata")[..], b"ccollections\nOrderedDict\n)R"].concat();
    let short = |text: &str| [&[0x8c, text.len() as u8], text.as_bytes()].concat();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "under state_dict",
            [b"\x80\x02}(", &text("epoch")[..], b"K\x03", &text("state_dict"), state, b"u."].concat(),
        ),
        ("under model", [b"\x80\x02}", &text("model")[..], state, b"s."].concat()),
        ("with attributes", [&b"\x80\x02"[..], state, b"}", &attributes, b"sb."].concat()),
        ("a parameter", {
            let rebuild = b"ctorch._utils\n_rebuild_parameter\n(";
            [b"\x80\x02}", &text("a")[..], rebuild, &t, b"\x88ccollections\nOrderedDict\n)RtRs."].concat()
        }),
        ("from Python 2", [b"\x80\x02ccollections\nOrderedDict\n](](U\x01a", &t[..], b"ee\x85R."].concat()),
        ("protocol 0", [b"(dS'a'\n", &t[..], b"sS'pi'\nF3.14\nsS'n'\nL12L\nsV on\nI01\ns."].concat()),
        ("protocol 4", {
            let dict = [short("collections"), short("OrderedDict"), b"\x93\x94)R\x94".to_vec()].concat();
            [b"\x80\x04\x95\0\0\0\0\0\0\0\0", &dict[..], &short("a"), &t, b"s."].concat()
        }),
        ("other values", {
            let values = b"N\x88G\0\0\0\0\0\0\0\0J\xff\xff\xff\xff\x8a\0C\x01xM\x01\x02)\x85\x86]}";
            [b"\x80\x02}(", &text("a")[..], &t, &text("more"), b"(", values, b"20tu."].concat()
        }),
        ("a size", {
            let shape = tuple(&[2, 3]);
            let at = t.windows(shape.len()).position(|part| part == shape).unwrap();
            let sized = [&t[..at], b"ctorch\nSize\n", &shape, b"\x85R", &t[at + shape.len()..]].concat();
            [b"\x80\x02}", &text("a")[..], &sized, b"s."].concat()
        }),
    ];
    for (what, pickle) in cases {
        let folder = Folder::new();
        let weights = folder.open("p.bin", zip(&pickle, &[&data]));
        let weights = weights.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(weights.names().collect::<Vec<_>>(), ["a"], "{what}");
        assert_eq!(read(&weights, "a"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "{what}");
    }
}

#[test]
fn storages_of_every_type() {
    let types = [
        ("DoubleStorage", Dtype::F64),
        ("FloatStorage", Dtype::F32),
        ("HalfStorage", Dtype::F16),
        ("BFloat16Storage", Dtype::BF16),
        ("LongStorage", Dtype::I64),
        ("IntStorage", Dtype::I32),
        ("ShortStorage", Dtype::I16),
        ("CharStorage", Dtype::I8),
        ("ByteStorage", Dtype::U8),
        ("BoolStorage", Dtype::Bool),
    ];
    for (storage, dtype) in types {
        let t = Pickled { storage, ..PICKLED };
        let bytes = zip(&pickle(&[t], b""), &[&vec![0; 6 * dtype.size()]]);
        assert_eq!(Folder::new().open("t.bin", bytes).unwrap().get("a").unwrap().dtype(), dtype);
    }
}

#[test]
fn zip_files_with_a_zip64_end_and_a_comment() {
    let pickle = pickle(&[PICKLED], b"");
    let entries: [(&str, &[u8]); 2] = [("m/data.pkl", &pickle), ("m/data/0", &le(&[0.5; 6]))];
    let comment = b"PK\x05\x06 is how an end begins".to_vec();
    let zip = Zip { end: Some((None, None)), comment, ..Zip::default() };
    let folder = Folder::new();
    assert_eq!(read(&folder.open("z.bin", zip.write(&entries)).unwrap(), "a"), [0.5; 6]);
}

#[test]
fn a_folder_is_searched_in_order() {
    let folder = Folder::new();
    let map = index(json!({"a": "model-00001-of-00002.safetensors", "b": "rest.bin"}));
    let one = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let rest = Pickled { name: "b", ..PICKLED };
    folder.put("model-00001-of-00002.safetensors", safetensors(one, &le(&[1.5])));
    folder.put("rest.bin", zip(&pickle(&[rest, PICKLED], b""), &[&le(&[2.5; 6])]));
    let opened = || Weights::open(&folder.0).map(|weights| weights.path().file_name().unwrap().to_owned());

    let names = [
        ("pytorch_model.bin.index.json", map.clone().into_bytes()),
        ("pytorch_model.bin", small_zip()),
        ("model.safetensors.index.json", map.into_bytes()),
        ("model.safetensors", small_safetensors()),
    ];
    let message = opened().unwrap_err().to_string();
    says(&message, &names.each_ref().map(|(name, _)| *name));
    for (name, bytes) in names {
        folder.put(name, bytes);
        assert_eq!(opened().unwrap(), name);
    }
    // Each tensor from the file that the index gives, whatever else those hold.
    let weights = Weights::open(folder.0.join("model.safetensors.index.json")).unwrap();
    assert_eq!(weights.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((read(&weights, "a"), read(&weights, "b")), (vec![1.5], vec![2.5; 6]));
}

/// The tensors of a RoFormer for masked language modelling. The last two are tied to others; safetensors has those once.
fn roformer_shapes(config: &Value) -> Vec<(String, Vec<usize>)> {
    let size = |key: &str| config[key].as_u64().unwrap() as usize;
    let (hidden, embedding) = (size("hidden_size"), size("embedding_size"));
    let (inner, vocab) = (size("intermediate_size"), size("vocab_size"));
    let head = hidden / size("num_attention_heads");
    let mut pairs: Vec<(String, Vec<usize>)> = vec![
        ("roformer.embeddings.LayerNorm".into(), vec![embedding]),
        ("cls.predictions.transform.dense".into(), vec![embedding, hidden]),
        ("cls.predictions.transform.LayerNorm".into(), vec![embedding]),
    ];
    for layer in 0..size("num_hidden_layers") {
        let layer = format!("roformer.encoder.layer.{layer}");
        for part in ["self.query", "self.key", "self.value", "output.dense"] {
            pairs.push((format!("{layer}.attention.{part}"), vec![hidden, hidden]));
        }
        pairs.push((format!("{layer}.attention.output.LayerNorm"), vec![hidden]));
        pairs.push((format!("{layer}.intermediate.dense"), vec![inner, hidden]));
        pairs.push((format!("{layer}.output.dense"), vec![hidden, inner]));
        pairs.push((format!("{layer}.output.LayerNorm"), vec![hidden]));
    }
    let mut all: Vec<_> = pairs
        .into_iter()
        .flat_map(|(name, shape)| {
            [(format!("{name}.bias"), vec![shape[0]]), (format!("{name}.weight"), shape)]
        })
        .collect();
    all.push(("roformer.embeddings.word_embeddings.weight".into(), vec![vocab, embedding]));
    let types = size("type_vocab_size");
    all.push(("roformer.embeddings.token_type_embeddings.weight".into(), vec![types, embedding]));
    let positions = size("max_position_embeddings");
    all.push(("roformer.encoder.embed_positions.weight".into(), vec![positions, head]));
    all.push(("cls.predictions.bias".into(), vec![vocab]));
    all.push(("cls.predictions.decoder.weight".into(), vec![vocab, embedding]));
    all.push(("cls.predictions.decoder.bias".into(), vec![vocab]));
    all
}

#[test]
fn files_that_transformers_wrote() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/roformer");
    let exact = Weights::open(golden.join("tiny-safetensors")).unwrap();
    for name in ["tiny-safetensors", "tiny-sharded", "tiny-bin", "tiny-legacy-bin", "tiny-bin-f16"] {
        let folder = golden.join(name);
        let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        let weights = Weights::open(&folder).unwrap();
        let mut expected = roformer_shapes(&config);
        if !name.contains("bin") {
            expected.truncate(expected.len() - 2);
        }
        assert_eq!(weights.len(), expected.len(), "{name}");
        for (tensor, shape) in expected {
            let found = weights.get(&tensor).unwrap_or_else(|| panic!("{name}: no {tensor}"));
            assert_eq!(found.shape(), shape, "{name}: {tensor}");
            let half = found.dtype() == Dtype::F16;
            assert_eq!(half, name == "tiny-bin-f16", "{name}: {tensor}");
            let tied = match tensor.as_str() {
                "cls.predictions.decoder.weight" => "roformer.embeddings.word_embeddings.weight",
                "cls.predictions.decoder.bias" => "cls.predictions.bias",
                other => other,
            };
            let round = |x: f32| if half { f16::from_f32(x).to_f32() } else { x };
            let theirs: Vec<f32> = read(&exact, tied).into_iter().map(round).collect();
            assert!(read(&weights, &tensor) == theirs, "{name}: {tensor} differs");
        }
    }
}
