//! What is refused.

use crate::files::*;
use proptest::prelude::*;
use roformer::weights::Weights;
use serde_json::json;
use std::fs;
use std::time::{Duration, Instant};

/// Far more than a busy machine needs: what runs into this would never end.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn files_of_no_known_kind() {
    says(&refused("x.bin", b""), &["0 bytes", "expected safetensors"]);
    says(&refused("x.bin", b"hello, world"), &["12 bytes", "68, 65", "expected safetensors"]);
    says(
        &refused("x.bin", b"version https://git-lfs.github.com/spec/v1\n"),
        &["Git LFS pointer", "git lfs pull"],
    );
    says(&refused("x.bin", b"\x80\x02}."), &["torch.save did not write"]);
    says(&refused("x.bin", b"\x80\x02cposix\nsystem\n."), &["wants to call posix.system", "nothing was run"]);
    says(&refused("x.safetensors", safetensors("{}", b"")), &["no tensor at all"]);
    let missing = Weights::open("no/such/place").unwrap_err();
    let source = std::error::Error::source(&missing).and_then(|error| error.downcast_ref::<std::io::Error>());
    assert_eq!(source.map(std::io::Error::kind), Some(std::io::ErrorKind::NotFound), "{missing}");
    says(&missing.to_string(), &["cannot open no/such/place"]);
}

#[test]
fn safetensors_headers_that_lie() {
    let one = |dtype: &str, shape: &str, offsets: &str| {
        let header = format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#);
        refused("a.safetensors", safetensors(&header, &[0; 8]))
    };
    says(&one("F32", "[3]", "[0,8]"), &["tensor `a`", "[3]"]);
    says(&one("F32", "[1]", "[0,8]"), &["tensor `a`", "1 elements of 4 bytes in 8"]);
    says(&one("F32", "[2]", "[0,7]"), &["tensor `a`"]);
    says(&one("F32", "[2]", "[4,12]"), &["bytes 4 to 12 of 8", "within the file"]);
    says(&one("F32", "[2]", "[8,0]"), &["bytes 8 to 0"]);
    says(&one("F32", "[2]", "[18446744073709551608,18446744073709551615]"), &["within the file"]);
    says(&one("F32", "[4294967296,4294967296,2]", "[0,8]"), &["more elements than can be counted"]);
    says(&one("F32", "[0,18446744073709551615,2]", "[0,0]"), &["more elements than can be counted"]);
    says(&one("F64", "[2305843009213693952]", "[0,0]"), &["reaches past"]);
    says(&one("F32", "[-2]", "[0,8]"), &["shape is [-2]", "a list of sizes"]);
    says(&one("F32", "[2.0]", "[0,8]"), &["shape is [2.0]"]);
    says(&one("F32", "[99999999999999999999]", "[0,8]"), &["a list of sizes"]);
    says(&one("F32", "[2]", "[0,8,8]"), &["data_offsets is [0,8,8]"]);
    says(&one("F32", "[2]", "null"), &["data_offsets is null"]);
    says(&one("F8_E4M3", "[8]", "[0,8]"), &["dtype is", "F8_E4M3", "F32, F16, BF16"]);
    says(&one("F32", "[1]", "[0,4]"), &["8 bytes of data, of which the tensors take 4"]);
    says(&one("F32", "[1]", "[4,8]"), &["leave a gap"]);

    let refuse = |header: &str| refused("a.safetensors", safetensors(header, &[0; 8]));
    let member = |name: &str, offsets: &str| {
        format!(r#""{name}":{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}"#)
    };
    let two = |first: &str, second: &str| format!("{{{first},{second}}}");
    says(&refuse(&two(&member("a", "[0,4]"), &member("b", "[0,4]"))), &["overlap"]);
    says(&refuse(&two(&member("a", "[0,4]"), &member("a", "[4,8]"))), &["names something twice"]);
    says(&refuse(&two(&member("a", "[0,4]"), &member("\\u0061", "[4,8]"))), &["names something twice"]);
    says(
        &refuse(r#"{"a":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}}"#),
        &["names something twice"],
    );
    says(&refuse("[]"), &["not a JSON object"]);
    says(&refuse("{"), &["not JSON"]);
    says(&refuse(&"[".repeat(100_000)), &["not JSON"]);
    says(&refuse(r#"{"a":3}"#), &["dtype is null"]);
    // Colons and quotes within names are only names.
    let odd = safetensors(&two(&member("a:\\\":\\\\", "[0,4]"), &member("b", "[4,8]")), &[0; 8]);
    assert_eq!(Folder::new().open("a.safetensors", odd).unwrap().len(), 2);
}

#[test]
fn safetensors_header_lengths_that_lie() {
    for length in [u64::MAX, u64::MAX - 7, 1 << 63, 1 << 40, small_safetensors().len() as u64 - 7] {
        let mut bytes = small_safetensors();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        says(&refused("a.safetensors", &bytes), &[&format!("a header of {length} bytes in a file of")]);
        refused("a.bin", &bytes);
    }
    // As long as it says, but longer than any header is. The file takes no room on the disk.
    let folder = Folder::new();
    let path = folder.put("a.safetensors", ((1_u64 << 30) - 8).to_le_bytes());
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
    says(
        &Weights::open(&path).unwrap_err().to_string(),
        &["a header of 1073741816 bytes", "at most 67108864"],
    );
}

#[test]
fn pickles_that_want_to_call_something() {
    let data = le(&[0.0; 6]);
    let both = |state: &[u8], words: &[&str]| {
        says(&refused("a.bin", zip(state, &[&data])), words);
        says(&refused("a.bin", legacy(state, &[("0", 6, &data)])), words);
    };
    let with = |value: &[u8]| pickle(&[PICKLED], &[&text("x")[..], value].concat());
    for (module, name) in [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("__builtin__", "getattr"),
        ("torch.storage", "_load_from_bytes"),
        ("torch", "load"),
        ("torch", "FloatStorage.__init__"),
        ("collections", "OrderedDict.fromkeys"),
        ("", ""),
    ] {
        let words = [&format!("wants to call {module}.{name};")[..], "nothing was run", "a.bin"];
        let argument = text("echo");
        both(&with(&[format!("c{module}\n{name}\n").as_bytes(), &argument, b"\x85R"].concat()), &words);
        both(&with(&[&text(module)[..], &text(name), b"\x93", &argument, b"\x85R"].concat()), &words);
        both(&with(&[b"(", &argument[..], format!("i{module}\n{name}\n").as_bytes()].concat()), &words);
        // Named and never called is no better.
        both(&with(format!("c{module}\n{name}\n").as_bytes()), &words);
    }
    // A name that would spoil a terminal.
    both(&with(b"c\x1b[2J\nx\n"), &["\\u{1b}[2J.x"]);
    // What is allowed, used otherwise.
    both(&with(b"ccollections\nOrderedDict\nK\x01R"), &["OrderedDict", "arguments it does not take"]);
    both(&with(b"ccollections\nOrderedDict\n]K\x01a\x85R"), &["OrderedDict", "arguments it does not take"]);
    both(&with(b"ctorch\nFloatStorage\n)R"), &["arguments it does not take"]);
    both(&with(b"ctorch._utils\n_rebuild_tensor_v2\n)R"), &["arguments it does not take"]);
    both(&with(b"ctorch._utils\n_rebuild_parameter\nN\x88N\x87R"), &["arguments it does not take"]);
    both(&with(b"ctorch\nSize\nN\x85R"), &["arguments it does not take"]);
    both(&with(b"N)R"), &["not a function"]);
    both(&with(b"N}b"), &["sets attributes"]);
    both(&with(b"(ccollections\nOrderedDict\no"), &["instruction 0x6f"]);
    both(&with(b"\x82\x01"), &["instruction 0x82"]);
    both(&with(b"Pid\n"), &["instruction 0x50"]);
    both(&with(b"NQ"), &["not a storage"]);
    let module = [b"(", &text("module")[..], b"ctorch\nFloatStorage\n", &text("0"), &text("cpu"), b"K\x06tQ"];
    both(&with(&module.concat()), &["not a storage"]);
}

#[test]
fn pickles_that_break_the_machine() {
    let refuse = |body: &[u8]| refused("a.bin", zip(&[b"\x80\x02", body].concat(), &[]));
    says(&refuse(b"."), &["more values than it made"]);
    says(&refuse(b""), &["ends within"]);
    says(&refuse(b"\x80\x06"), &["protocol 6"]);
    says(&refuse(b"t"), &["closes what it never opened"]);
    says(&refuse(b"}}(0."), &["more values than it made"]);
    says(&refuse(b"N(0t."), &["more values than it made"]);
    says(&refuse(b"h\x05."), &["recalls value 5"]);
    says(&refuse(b"gx\n."), &["under no number"]);
    says(&refuse(b"NNa."), &["a list where there is none"]);
    says(&refuse(b"NNNs."), &["a dictionary where there is none"]);
    says(&refuse(b"}(Nu."), &["a dictionary where there is none"]);
    says(&refuse(b"NN\x93."), &["without a name"]);
    says(&refuse(b"S'a\n."), &["out of quotes"]);
    says(&refuse(b"S'\n."), &["out of quotes"]);
    says(&refuse(b"S'\\x41'\n."), &["escapes"]);
    says(&refuse(b"U\x01\xff."), &["not UTF-8"]);
    says(&refuse(b"cos"), &["line without end"]);
    says(&refuse(b"N."), &["without named tensors"]);
    says(&refuse(b"]."), &["without named tensors"]);
    says(&refuse(b"}."), &["without named tensors"]);
    // Lengths beyond the file, beyond memory, beyond what text has.
    says(&refuse(b"X\xff\xff\xff\xff."), &["ends within its 4294967295 bytes"]);
    says(&refuse(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), &["ends within"]);
    says(&refuse(b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f."), &["ends within"]);
    says(&refuse(b"\x8b\xff\xff\xff\xff."), &["ends within"]);
    let long = "x".repeat((1 << 20) + 1);
    says(&refuse(&[&text(&long)[..], b"."].concat()), &["a text of 1048577 bytes"]);
    says(&refuse(&[b"c", long.as_bytes(), b"\nx\n."].concat()), &["line without end"]);
    // Too much of everything.
    says(&refuse(&b"(".repeat(100_000)), &["nested deeper"]);
    says(&refuse(&b"N".repeat(100_000)), &["stacks more than"]);
    says(&refuse(&b"]0".repeat(1 << 22)), &["objects"]);
    says(&refuse(&[b"N".to_vec(), b"\x94".repeat(1 << 23)].concat()), &["remembers more than"]);
    says(&refuse(&b"N0".repeat(1 << 23)), &["steps"]);
}

#[test]
fn deep_and_wide_structures_cost_nothing() {
    let started = Instant::now();
    let data = le(&[0.0; 6]);
    let with = |value: &[u8]| zip(&pickle(&[PICKLED], &[&text("x")[..], value].concat()), &[&data]);
    // A tuple in a tuple, half a million deep.
    let deep = [b")".to_vec(), b"\x85".repeat(500_000)].concat();
    assert_eq!(Folder::new().open("deep.bin", with(&deep)).unwrap().len(), 1);
    // Each list holds the one before it ten times: ten to the power of a thousand elements.
    let level = |level: u32| {
        let last = [b"j".to_vec(), (level - 1).to_le_bytes().to_vec()].concat();
        [b"0](".to_vec(), last.repeat(10), b"er".to_vec(), level.to_le_bytes().to_vec()].concat()
    };
    let bomb = [b"]r\0\0\0\0".to_vec(), (1..1000).flat_map(level).collect()].concat();
    assert_eq!(Folder::new().open("bomb.bin", with(&bomb)).unwrap().len(), 1);
    // A list that holds itself, and the highest number to remember it by.
    let own = b"]r\xff\xff\xff\xffj\xff\xff\xff\xffa";
    assert_eq!(Folder::new().open("self.bin", with(own)).unwrap().len(), 1);
    // A tensor with more elements than there is memory, all of them the same one.
    let huge = Pickled { shape: &[1 << 40], strides: &[0], ..PICKLED };
    let weights = Folder::new().open("huge.bin", zip(&pickle(&[huge], b""), &[&data])).unwrap();
    assert_eq!(weights.get("a").unwrap().len(), 1 << 40);
    says(&weights.read_f32("a", &[1 << 40], &mut [0.0]).unwrap_err().to_string(), &["1 elements"]);
    assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());
}

#[test]
fn pickled_tensors_that_lie() {
    let data = le(&[0.0; 6]);
    let refuse = |t: Pickled<'_>| {
        let old = Pickled { part: t.part.or(Some(None)), ..t.clone() };
        let old = refused("a.bin", legacy(&pickle(&[old], b""), &[("0", t.len as u64, &data)]));
        let new = refused("a.bin", zip(&pickle(&[t], b""), &[&data]));
        [old, new].join(" | ")
    };
    says(&refuse(Pickled { shape: &[7], strides: &[1], ..PICKLED }), &["[7]", "past the 6 elements"]);
    says(&refuse(Pickled { shape: &[2, 3], strides: &[4, 1], ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { offset: 1, ..PICKLED }), &["from element 1 on"]);
    says(&refuse(Pickled { offset: i64::MAX, ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { offset: -1, ..PICKLED }), &["arguments it does not take"]);
    says(&refuse(Pickled { strides: &[-3, 1], ..PICKLED }), &["arguments it does not take"]);
    says(&refuse(Pickled { strides: &[i64::MAX, i64::MAX], ..PICKLED }), &["past the 6 elements"]);
    says(&refuse(Pickled { strides: &[1], ..PICKLED }), &["[2, 3]", "strides [1]"]);
    says(&refuse(Pickled { shape: &[i64::MAX, 3], ..PICKLED }), &["more elements than can be counted"]);
    let longer = refuse(Pickled { len: 7, ..PICKLED });
    says(&longer, &["of 7 F32 numbers", "cut short", "entry `archive/data/0` of 24 bytes"]);
    says(&refuse(Pickled { len: i64::MAX, ..PICKLED }), &["cut short"]);
    says(&refuse(Pickled { len: -6, ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { storage: "DoubleStorage", ..PICKLED }), &["F64"]);
    says(&refuse(Pickled { storage: "ComplexFloatStorage", ..PICKLED }), &["torch.ComplexFloatStorage"]);
    says(&refuse(Pickled { part: Some(Some((3, 4))), ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { part: Some(Some((i64::MAX, i64::MAX))), ..PICKLED }), &["not a storage"]);
    says(&refuse(Pickled { key: "1", ..PICKLED }), &["no entry `archive/data/1`", "no tensor has"]);
    says(&refuse(Pickled { key: "../../version", ..PICKLED }), &["no entry"]);

    says(&refused("a.bin", zip(&pickle(&[PICKLED, PICKLED], b""), &[&data])), &["tensor `a`", "twice"]);
    let other = Pickled { name: "b", len: 5, ..PICKLED };
    let both = legacy(&pickle(&[PICKLED, other], b""), &[("0", 6, &data)]);
    says(&refused("a.bin", both), &["both storage `0` of 6"]);
    says(&refused("a.bin", legacy(&pickle(&[PICKLED], b""), &[("0", 5, &data)])), &["another length"]);
    says(&refused("a.bin", legacy(&pickle(&[PICKLED], b""), &[])), &["no numbers for storage `0`"]);
    let named = [b"K\x01", &tensor(&PICKLED)[..]].concat();
    says(&refused("a.bin", zip(&pickle(&[], &named), &[&data])), &["not text"]);
}

#[test]
fn zip_files_that_lie() {
    let pickle = pickle(&[PICKLED], b"");
    let data = le(&[0.0; 6]);
    let entries: [(&str, &[u8]); 2] = [("m/data.pkl", &pickle), ("m/data/0", &data)];
    let refuse = |zip: Zip| refused("z.bin", zip.write(&entries));
    says(&refuse(Zip { method: 8, ..Zip::default() }), &["`m/data.pkl` compressed", "torch.save"]);
    says(&refuse(Zip { flags: 1, ..Zip::default() }), &["encrypted"]);
    says(&refuse(Zip { more: 1 << 20, ..Zip::default() }), &["ends outside the file"]);
    says(&refuse(Zip { more: 1, ..Zip::default() }), &["m/data/0"]);
    says(&refuse(Zip { header: Some(u32::MAX - 1), ..Zip::default() }), &["begins outside the file"]);
    says(&refuse(Zip { header: Some(1), ..Zip::default() }), &["not where the list says"]);
    says(&refuse(Zip { list: Some(u32::MAX - 1), ..Zip::default() }), &["outside the file"]);
    says(&refuse(Zip { list: Some(0), ..Zip::default() }), &["ends early"]);
    says(&refuse(Zip { count: Some(1), ..Zip::default() }), &["more entries than it counts"]);
    says(&refuse(Zip { count: Some(3), ..Zip::default() }), &["ends early"]);
    says(&refuse(Zip { count: Some(0xffff), ..Zip::default() }), &["ends early"]);
    // The 64-bit parts.
    let wide = |wide| Zip { wide: Some(wide), ..Zip::default() };
    says(&refuse(wide([u64::MAX, u64::MAX, 0])), &["ends outside the file"]);
    says(&refuse(wide([1 << 63, 1 << 63, 0])), &["ends outside the file"]);
    says(&refuse(wide([4, 4, u64::MAX])), &["begins outside the file"]);
    says(&refuse(wide([4, 5, 0])), &["compressed"]);
    let end = |record, list| Zip { end: Some((record, list)), ..Zip::default() };
    says(&refuse(end(Some(u64::MAX), None)), &["zip64 end at byte 18446744073709551615, outside"]);
    says(&refuse(end(Some(0), None)), &["no zip64 end at byte 0"]);
    says(&refuse(end(None, Some(u64::MAX))), &["outside the file"]);
    says(&refuse(end(None, Some(1 << 62))), &["outside the file"]);
    says(&refuse(Zip { list: Some(7), ..end(None, None) }), &["contradict"]);
    says(&refuse(Zip { count: Some(7), ..end(None, None) }), &["contradict"]);

    // An entry that stands where another does, and one that is longer than its name.
    let there = Zip { header: Some(0), ..Zip::default() };
    let pickle_123 = self::pickle(&[Pickled { key: "123", ..PICKLED }], b"");
    let bytes = there.write(&[("m/data.pkl", &pickle_123), ("m/data/123", &data)]);
    says(&refused("z.bin", bytes), &["`m/data/123` is not where the list says"]);
    let mut bytes = Zip::default().write(&entries);
    bytes[26] += 1;
    bytes[28] -= 1;
    says(&refused("z.bin", bytes), &["`m/data.pkl` is not where the list says"]);

    let write = |entries: &[(&str, &[u8])]| refused("z.bin", Zip::default().write(entries));
    says(&write(&[("a/model.safetensors", b"")]), &["without one NAME/data.pkl", "unpack it"]);
    says(&write(&[]), &["without one NAME/data.pkl"]);
    says(&write(&[("m/data.pkl", &pickle), ("n/data.pkl", &pickle)]), &["without one NAME/data.pkl"]);
    says(&write(&[("m/data.pkl", &pickle), ("m/data.pkl", &pickle)]), &["`m/data.pkl` twice"]);
    says(&write(&[("m/data.pkl", &pickle)]), &["no entry `m/data/0`"]);
    says(
        &write(&[("m/data.pkl", &pickle), ("m/data/0", &data[1..])]),
        &["of 23 bytes for storage `0` of 6 F32"],
    );
    says(&write(&[entries[0], entries[1], ("m/byteorder", b"big")]), &["high byte first"]);
}

#[test]
fn old_files_that_lie() {
    let bytes = small_legacy();
    let change = |from: &[u8], to: &[u8]| {
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        refused("a.bin", [&bytes[..at], to, &bytes[at + from.len()..]].concat())
    };
    says(&change(b"M\xe9\x03.", b"M\xe8\x03."), &["1000", "not 1001"]);
    says(&change(b"little_endian\x88", b"little_endian\x89"), &["high byte first"]);
    let keys = b"\x80\x02](X\x01\0\0\x000e.";
    says(&change(keys, b"\x80\x02](X\x01\0\0\x001e."), &["no tensor has"]);
    says(&change(keys, b"\x80\x02](K\x00e."), &["no tensor has"]);
    says(&change(keys, b"\x80\x02N."), &["no numbers for"]);
}

#[test]
fn indexes_that_lie() {
    let folder = Folder::new();
    folder.put("a.safetensors", small_safetensors());
    folder.put("other.index.json", index(json!({"a": "a.safetensors"})));
    let own = "model.safetensors.index.json";
    let refuse = |json: &str| {
        let message = folder.open(own, json).unwrap_err().to_string();
        assert!(message.contains(".json"), "{message}");
        message
    };
    let paths =
        ["../x", "..", ".", "", "/etc/passwd", "sub/x", "..\\x", "C:x", "x/", "./a.safetensors", "a\0"];
    for path in paths {
        let message = refuse(&index(json!({"a": path})));
        says(&message, &["tensor `a`", "in the same folder, without any path"]);
    }
    says(
        &refuse(&index(json!({"a": "model-00002.bin"}))),
        &["tensor `a` in model-00002.bin, which is not there"],
    );
    says(
        &refuse(&index(json!({"z": "a.safetensors"}))),
        &["tensor `z` in a.safetensors, which does not hold it"],
    );
    says(&refuse(&index(json!({"a": "other.index.json"}))), &["cannot list another index"]);
    says(&refuse(&index(json!({"a": own}))), &["cannot list another index"]);
    says(&refuse(&index(json!({"a": 3}))), &["tensor `a` in 3"]);
    says(&refuse(&index(json!(["a"]))), &["without a `weight_map`"]);
    says(&refuse(&index(json!({}))), &["no tensor at all"]);
    says(&refuse(r#"{"hidden_size": 768}"#), &["without a `weight_map`"]);
    says(
        &refuse(r#"{"weight_map": {"a": "a.safetensors", "a": "b.safetensors"}}"#),
        &["names something twice"],
    );
    says(&refuse(r#"{"weight_map": "#), &["not JSON"]);
    folder.put("a.safetensors", &small_safetensors()[..100]);
    let message = folder.open(own, index(json!({"a": "a.safetensors"}))).unwrap_err().to_string();
    says(&message, &["a.safetensors", "header"]);
}

#[test]
fn a_file_cut_after_it_was_opened() {
    let folder = Folder::new();
    let path = folder.put("a.safetensors", small_safetensors());
    let weights = Weights::open(&path).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(100).unwrap();
    says(&weights.read_f32("a", &[2, 3], &mut [0.0; 6]).unwrap_err().to_string(), &["100 bytes, too few"]);
}

/// The small files, and the name each needs.
fn small_files() -> [(&'static str, Vec<u8>); 4] {
    let map = index(json!({"a": "part.safetensors", "b": "part.safetensors"}));
    [
        ("a.safetensors", small_safetensors()),
        ("new.bin", small_zip()),
        ("old.bin", small_legacy()),
        ("model.safetensors.index.json", map.into_bytes()),
    ]
}

#[test]
fn truncation_at_every_byte() {
    let folder = Folder::new();
    folder.put("part.safetensors", small_safetensors());
    for (name, bytes) in small_files() {
        folder.open(name, &bytes).unwrap_or_else(|error| panic!("whole: {error}"));
        for len in 0..bytes.len() {
            let result = folder.open(name, &bytes[..len]);
            assert!(result.is_err(), "{name} opens with {len} of {} bytes", bytes.len());
        }
    }
}

/// Opens a file and reads whatever it has. Nothing is asked of the result but that there is one, soon.
fn survive(folder: &Folder, name: &str, bytes: &[u8]) {
    let started = Instant::now();
    match folder.open(name, bytes) {
        Err(error) => assert!(error.to_string().len() < 2000),
        Ok(weights) => {
            for name in weights.names() {
                let tensor = weights.get(name).unwrap();
                if tensor.len() <= 1 << 16 {
                    let _ = weights.read_f32(name, tensor.shape(), &mut vec![0.0; tensor.len()]);
                    let _ = weights.read(name, tensor.shape(), &mut vec![0.0_f64; tensor.len()]);
                }
            }
        }
    }
    assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());
}

#[test]
fn every_byte_changed_alone() {
    let folder = Folder::new();
    folder.put("part.safetensors", small_safetensors());
    for (name, bytes) in small_files() {
        for at in 0..bytes.len() {
            for value in [0, 0xff, bytes[at] ^ 1, bytes[at] ^ 0x80, b'.', b'('] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                survive(&folder, name, &bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_never_panic(
        which in 0..4_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..12),
    ) {
        let (name, mut bytes) = small_files()[which].clone();
        for (at, value, how) in changes {
            let at = at.index(bytes.len() + 1);
            match how {
                0 => bytes.insert(at, value),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                // A piece of the file once more.
                2 => {
                    let piece = bytes[at..bytes.len().min(at + usize::from(value))].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ if at < bytes.len() => bytes[at] = value,
                _ => {}
            }
        }
        let folder = Folder::new();
        folder.put("part.safetensors", small_safetensors());
        survive(&folder, name, &bytes);
    }

    #[test]
    fn any_bytes_as_a_pickle_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let folder = Folder::new();
        survive(&folder, "a.bin", &zip(&bytes, &[]));
        survive(&folder, "a.bin", &legacy(&bytes, &[]));
        survive(&folder, "a.bin", &bytes);
        survive(&folder, "a.safetensors", &bytes);
    }
}
