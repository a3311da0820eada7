//! Hostile configurations, folders, inputs and caches (for the files of weights themselves: `weights.rs`).
//!
//! Whatever is passed, the answer is a value that can be used or an error that names what was wrong. Nothing panics,
//! hangs, takes memory without end or stays half done.

use proptest::prelude::*;
use roformer::model::{
    Cache, Encoded, Hashed, HeadKind, Input, Output, Parameters, RoFormer, RoFormerConfig,
};
use roformer::{Error, Result, weights};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A small machine: no piece of memory over 256 MiB is given out. Memory maps do not come from here; what asks for many
/// of them runs `apart`.
struct SmallMachine;

const LARGEST: usize = 256 << 20;

#[global_allocator]
static MACHINE: SmallMachine = SmallMachine;

// SAFETY: every piece comes from the system's allocator and goes back to it; "no memory" is an answer that is allowed
// at any time.
unsafe impl GlobalAlloc for SmallMachine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > LARGEST {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise about the layout, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the piece came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs a test in a process of its own, which gets 2 GiB of memory, maps among it, and 20 seconds: running out of either
/// fails this test and nothing else. `name` is that of the test that calls this.
#[cfg(target_os = "linux")]
#[track_caller]
fn apart(name: &str, work: impl FnOnce()) {
    use std::io::Read;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};
    const MARK: &str = "ROFORMER_HOSTILE_APART";
    if std::env::var_os(MARK).is_some() {
        return work();
    }
    let mut child = Command::new("sh")
        .args(["-c", "ulimit -c 0; ulimit -v 2097152; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .envs([(MARK, "1"), ("RUST_BACKTRACE", "0")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Short enough for a pipe: one test, and one panic at most.
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let start = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if start.elapsed() > Duration::from_secs(20) => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("{name}: still running after 20 seconds");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = String::new();
    stdout.read_to_string(&mut said).unwrap();
    assert!(!status.success() || said.contains("1 passed"), "no test is called {name}: {said}");
    stderr.read_to_string(&mut said).unwrap();
    assert!(status.success(), "{name}: {status}\n{said}");
}

/// Elsewhere there is no such limit, and these tests would take what they ask for.
#[cfg(not(target_os = "linux"))]
fn apart(_: &str, _: impl FnOnce()) {}

/// Demands an error that says all of `words`, in a line that a terminal can show.
#[track_caller]
fn refused<T>(result: Result<T>, words: &[&str], case: impl Debug) {
    let message = match result {
        Ok(_) => panic!("accepted: {case:?}"),
        Err(error) => error.to_string(),
    };
    for word in words {
        assert!(message.contains(word), "{case:?}: `{word}` is not named in: {message}");
    }
    assert!(message.len() < 2000, "{case:?}: a message of {} bytes", message.len());
    assert!(!message.chars().any(char::is_control), "{case:?}: control characters in {message:?}");
}

/// Demands an answer or an error with a text.
#[track_caller]
fn refused_or_works<T>(result: Result<T>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty(), "{error:?} has no text")).ok()
}

/// Without a file of past failures: a failing case is printed, and belongs into a test above.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

/// Parameters that are all zero and cost nothing to make.
struct Zeros;

impl<T> Parameters<T> for Zeros {
    fn read(&self, _: &str, shape: &[usize], out: &mut [T]) -> Result<()> {
        assert_eq!(shape.iter().product::<usize>(), out.len());
        Ok(())
    }
}

// ----------------------------------------------------------------------------------------------------- configuration

/// The largest size that a configuration may have.
const LIMIT: u64 = 1 << 24;
const SIZES: [&str; 8] = [
    "vocab_size",
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "type_vocab_size",
    "num_labels",
];
const FLAGS: [&str; 6] = [
    "rotary_value",
    "is_decoder",
    "add_cross_attention",
    "tie_word_embeddings",
    "summary_use_proj",
    "use_bias",
];
const NAMES: [&str; 5] = ["model_type", "norm_type", "hidden_act", "summary_type", "summary_activation"];

/// A small model, with some fields set.
fn small(fields: Value) -> Value {
    let mut config = json!({
        "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 37,
    });
    config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    config
}

fn parse(config: &Value) -> Result<RoFormerConfig> {
    RoFormerConfig::from_json(config.to_string().as_bytes())
}

fn model(fields: Value) -> RoFormer {
    RoFormer::from_parameters(parse(&small(fields)).unwrap(), HeadKind::CausalLm, &Hashed).unwrap()
}

#[test]
fn sizes_that_no_model_has_are_refused_by_name() {
    let wrong = [
        json!("12"),
        json!(-1),
        json!(1.5),
        json!(12.0),
        json!(1e300),
        json!(true),
        json!([12]),
        json!({"size": 12}),
        json!(LIMIT + 1),
        json!(u64::MAX),
        json!(i64::MIN),
    ];
    for field in SIZES {
        for value in &wrong {
            refused(parse(&small(json!({field: value}))), &["config.json", field], (field, value));
        }
        // Layers may be none, nothing else may.
        let none = parse(&small(json!({field: 0})));
        match field {
            "num_hidden_layers" => assert_eq!(none.unwrap().num_hidden_layers, 0),
            _ => refused(none, &[field, "is 0"], field),
        }
        for number in
            ["18446744073709551616", "1e400", "NaN", "-NaN", "Infinity", "0x10", "1_000", "١٢", "01"]
        {
            let text = format!("{{\"{field}\": {number}}}");
            refused(RoFormerConfig::from_json(text.as_bytes()), &["config.json"], text);
        }
    }
}

#[test]
fn heads_that_do_not_divide_the_width_evenly_are_refused_by_name() {
    for (hidden, heads) in [(16, 3), (16, 16), (18, 6), (2, 4), (1, 1), (LIMIT - 1, 1), (LIMIT, LIMIT)] {
        let config = small(json!({"hidden_size": hidden, "num_attention_heads": heads}));
        refused(parse(&config), &["hidden_size", &hidden.to_string(), &heads.to_string(), "even"], config);
    }
}

#[test]
fn heads_that_are_too_wide_are_refused_by_name() {
    for (hidden, heads) in [(8194, 1), (LIMIT, 1), (LIMIT, 1024)] {
        let config = small(json!({"hidden_size": hidden, "num_attention_heads": heads, "embedding_size": 1}));
        let made = parse(&config)
            .and_then(|config| RoFormer::<f32>::from_parameters(config, HeadKind::None, &Zeros));
        refused(made, &["head_dim", &(hidden / heads).to_string(), "8192"], config);
    }
}

#[test]
fn fields_of_another_kind_are_refused_by_name() {
    for value in [json!("yes"), json!(1), json!([true]), json!({}), json!("true")] {
        for field in FLAGS {
            refused(parse(&small(json!({field: value}))), &["config.json", field], (field, &value));
        }
    }
    for value in
        [json!(1), json!(true), json!(["gelu"]), json!({}), json!(""), json!("GELU"), json!("gel\u{0}")]
    {
        for field in NAMES {
            refused(parse(&small(json!({field: value}))), &["config.json", field], (field, &value));
        }
    }
    for value in [json!("1e-12"), json!(-1e-12), json!(1), json!(1e300), json!(false), json!([])] {
        refused(parse(&small(json!({"layer_norm_eps": value}))), &["layer_norm_eps"], value);
    }
    // A value in an error is cut short.
    let long = "x".repeat(10 << 20);
    for field in NAMES {
        refused(parse(&small(json!({field: long}))), &[field, "xxx"], field);
    }
}

/// Taking them as absent gives another model than the file is of, and says nothing.
#[test]
fn lists_of_labels_and_architectures_of_another_kind_are_refused_by_name() {
    for value in [json!("RoFormerForMaskedLM"), json!(1), json!([1]), json!({"0": "RoFormerModel"})] {
        refused(parse(&small(json!({"architectures": value}))), &["architectures"], value);
    }
    for value in [json!(3), json!("LABEL_0"), json!(["a", "b", "c"]), json!(true)] {
        refused(parse(&small(json!({"id2label": value}))), &["id2label"], value);
    }
}

#[test]
fn other_models_are_refused_by_name() {
    for kind in ["bert", "roformer_v2", "RoFormer", "llama", "roformer "] {
        refused(parse(&small(json!({"model_type": kind}))), &["model_type", kind, "\"roformer\""], kind);
    }
    refused(
        parse(&small(json!({"norm_type": "rms_norm"}))),
        &["norm_type", "rms_norm", "RoFormerV2"],
        "norm",
    );
    refused(parse(&small(json!({"use_bias": false}))), &["use_bias", "false", "RoFormerV2"], "no biases");
    refused(
        parse(&small(json!({"use_bias": false, "norm_type": "rms_norm", "model_type": "roformer"}))),
        &["RoFormerV2"],
        "both",
    );
}

#[test]
fn files_that_are_no_json_object_are_refused() {
    let whole = fs::read(golden("tiny-safetensors").join("config.json")).unwrap();
    let whole = whole.trim_ascii();
    assert!(RoFormerConfig::from_json(whole).is_ok());
    for end in 0..whole.len() {
        refused(RoFormerConfig::from_json(&whole[..end]), &["config.json"], end);
    }
    for text in
        ["", " ", "null", "1", "[]", "\"roformer\"", "[{}]", "{}{}", "{'a': 1}", "{a: 1}", "\u{feff}{}"]
    {
        refused(RoFormerConfig::from_json(text.as_bytes()), &["config.json"], text);
    }
    refused(RoFormerConfig::from_json(b"{\"hidden_act\": \"\xff\xfe\"}"), &["config.json"], "no UTF-8");
    for nest in ["[", "{\"a\":", "{\"hidden_size\":[", "[[{\"a\":"] {
        refused(RoFormerConfig::from_json(nest.repeat(1 << 20).as_bytes()), &["config.json"], nest);
    }
    for filler in [b' ', b'[', b'{', b'9', b'\0'] {
        refused(RoFormerConfig::from_json(&vec![filler; 100_000_000]), &["config.json", "bytes"], filler);
    }
}

/// Any value that JSON has, mostly those that a field might.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..20u64).prop_map(Value::from),
        prop_oneof![Just(LIMIT), Just(LIMIT + 1), any::<u64>()].prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof!["gelu", "relu", "tanh", "last", "roformer", "layer_norm", ".{0,20}"]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,4}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_field() -> impl Strategy<Value = &'static str> {
    let rest = ["layer_norm_eps", "architectures", "id2label", "max_position_embeddings"];
    prop::sample::select([&SIZES[..], &FLAGS, &NAMES, &rest].concat())
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn any_configuration_is_refused_by_name_or_makes_sense(
        fields in prop::collection::btree_map(any_field(), any_value(), 0..5),
    ) {
        let fields: Value = fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect();
        match parse(&small(fields.clone())) {
            Err(Error::Config { field, .. }) => {
                // Heads that do not divide the width are an error of the width.
                let related = field == "hidden_size" && fields.get("num_attention_heads").is_some();
                prop_assert!(related || fields.get(&field).is_some(), "{field} is refused in {fields}");
            }
            Err(other) => prop_assert!(false, "{other}"),
            Ok(config) => {
                prop_assert_eq!(config.head_dim() * config.num_attention_heads, config.hidden_size);
                prop_assert!(config.head_dim() >= 2 && config.head_dim().is_multiple_of(2));
                prop_assert!(config.num_labels > 0 && config.vocab_size > 0 && config.type_vocab_size > 0);
                prop_assert!((0.0..1.0).contains(&config.layer_norm_eps));
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_make_sense(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        put in prop::sample::select(vec![&b"{"[..], b"}", b"[", b"\"", b":", b",", b"9", b"-", b"\xff", b"null", b"1e9"]),
    ) {
        refused_or_works(RoFormerConfig::from_json(&bytes));
        let mut config = small(json!({"architectures": ["RoFormerModel"]})).to_string().into_bytes();
        let at = at.index(config.len());
        config.splice(at..at + 1, put.iter().copied());
        refused_or_works(RoFormerConfig::from_json(&config));
    }
}

#[test]
fn sizes_beyond_memory_are_an_error() {
    apart("sizes_beyond_memory_are_an_error", || {
        use HeadKind::{CausalLm, MaskedLm, MultipleChoice, SequenceClassification, TokenClassification};
        let tall = |fields: Value| {
            let mut config = small(json!({"num_hidden_layers": 0, "vocab_size": 1, "type_vocab_size": 1}));
            config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            config
        };
        let wide = json!({"hidden_size": LIMIT, "embedding_size": 1, "num_attention_heads": LIMIT / 2});
        let wide_with = |fields: Value| {
            let mut config = tall(wide.clone());
            config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            config
        };
        for (head, config) in [
            (HeadKind::None, tall(json!({"vocab_size": LIMIT, "embedding_size": LIMIT}))),
            (HeadKind::None, wide_with(json!({"embedding_size": LIMIT, "vocab_size": LIMIT}))),
            (HeadKind::None, tall(json!({"type_vocab_size": LIMIT, "embedding_size": LIMIT}))),
            (HeadKind::None, wide_with(json!({"embedding_size": LIMIT - 1}))),
            (HeadKind::None, wide_with(json!({"num_hidden_layers": 1}))),
            (HeadKind::None, wide_with(json!({"num_hidden_layers": LIMIT}))),
            (
                HeadKind::None,
                tall(json!({"num_hidden_layers": 1, "intermediate_size": LIMIT, "hidden_size": 1 << 14})),
            ),
            (MaskedLm, wide_with(json!({"embedding_size": 1 << 20}))),
            (
                CausalLm,
                tall(json!({"vocab_size": LIMIT, "embedding_size": 64, "tie_word_embeddings": false})),
            ),
            (SequenceClassification, wide_with(json!({}))),
            (TokenClassification, wide_with(json!({"num_labels": LIMIT}))),
            (MultipleChoice, wide_with(json!({"summary_use_proj": true}))),
        ] {
            let parsed = parse(&config).unwrap();
            let made = RoFormer::<f32>::from_parameters(parsed.clone(), head, &Zeros);
            assert!(matches!(made, Err(Error::Memory { .. })), "{head:?} {config}: {:?}", made.err());
            refused(made, &["memory"], &config);
            refused(RoFormer::<f64>::from_parameters(parsed, head, &Zeros), &["memory"], config);
        }
    });
}

#[test]
fn layers_beyond_memory_are_an_error() {
    apart("layers_beyond_memory_are_an_error", || {
        let config = parse(&small(json!({"num_hidden_layers": LIMIT, "hidden_size": 256}))).unwrap();
        refused(RoFormer::<f32>::from_parameters(config, HeadKind::None, &Zeros), &["memory"], "16 million");
    });
}

/// The fields of a configuration are public: one made by hand has not been through `from_json`.
#[test]
fn configurations_made_by_hand_are_refused_or_work() {
    apart("configurations_made_by_hand_are_refused_or_work", || {
        type Change = fn(&mut RoFormerConfig);
        let changes: [(&str, Change); 16] = [
            ("no heads", |config| config.num_attention_heads = 0),
            ("more heads than features", |config| config.num_attention_heads = 17),
            ("odd heads", |config| config.num_attention_heads = 16),
            ("heads that do not divide", |config| config.num_attention_heads = 7),
            ("no width", |config| config.hidden_size = 0),
            ("no embedding", |config| config.embedding_size = 0),
            ("no vocabulary", |config| config.vocab_size = 0),
            ("no types", |config| config.type_vocab_size = 0),
            ("nothing in between", |config| config.intermediate_size = 0),
            ("no epsilon", |config| config.layer_norm_eps = f64::NAN),
            ("all the width there is", |config| config.hidden_size = usize::MAX - 1),
            ("all the embedding there is", |config| config.embedding_size = usize::MAX),
            ("all the vocabulary there is", |config| config.vocab_size = usize::MAX),
            ("all the types there are", |config| config.type_vocab_size = usize::MAX),
            ("all in between", |config| config.intermediate_size = usize::MAX),
            ("another summary", |config| config.summary_type = "cls_index".into()),
        ];
        let mut failed = Vec::new();
        for head in
            [HeadKind::None, HeadKind::MaskedLm, HeadKind::TokenClassification, HeadKind::MultipleChoice]
        {
            for (name, change) in changes {
                let panicked = std::panic::catch_unwind(|| {
                    let mut config = parse(&small(json!({}))).unwrap();
                    change(&mut config);
                    let made = RoFormer::<f32>::from_parameters(config, head, &Zeros);
                    if let Some(model) = refused_or_works(made) {
                        let input = Input { ids: &[0, 0], batch: 1, token_types: None, mask: None };
                        refused_or_works(model.forward(&input));
                    }
                });
                failed.extend(panicked.is_err().then(|| format!("{name} ({head:?})")));
            }
        }
        assert!(failed.is_empty(), "panics: {}", failed.join(", "));
    });
}

// ------------------------------------------------------------------------------------------------------------ folders

fn golden(dir: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/roformer").join(dir)
}

/// A folder that goes away with its test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("model-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// With the files of a folder of `golden`.
    fn like(dir: &str) -> Folder {
        let folder = Folder::new();
        for file in fs::read_dir(golden(dir)).unwrap() {
            let file = file.unwrap();
            folder.put(file.file_name().to_str().unwrap(), fs::read(file.path()).unwrap());
        }
        folder
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    /// Sets fields of its configuration.
    fn configure(&self, fields: Value) {
        let path = self.0.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        fs::write(path, config.to_string()).unwrap();
    }

    /// With the tiny model's tensors, changed.
    fn with(change: impl FnOnce(&mut Tensors)) -> Folder {
        let folder = Folder::like("tiny-safetensors");
        let bytes = fs::read(folder.0.join("model.safetensors")).unwrap();
        let mut tensors: Tensors = SafeTensors::deserialize(&bytes)
            .unwrap()
            .iter()
            .map(|(name, view)| {
                let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
                (name.to_string(), (view.shape().to_vec(), values.collect()))
            })
            .collect();
        change(&mut tensors);
        let list = tensors.iter().map(|(name, (shape, values))| (name.as_str(), shape.clone(), &values[..]));
        weights::save(folder.0.join("model.safetensors"), list).unwrap();
        folder
    }

    fn load(&self) -> Result<RoFormer> {
        RoFormer::load(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

const WORDS: &str = "roformer.embeddings.word_embeddings.weight";
const POSITIONS: &str = "roformer.encoder.embed_positions.weight";

fn ids(ids: &[u32]) -> Input<'_> {
    Input { ids, batch: 1, token_types: None, mask: None }
}

#[test]
fn what_is_not_there_is_named() {
    let folder = Folder::new();
    let nowhere = folder.0.join("nowhere");
    refused(RoFormer::load(&nowhere), &["nowhere", "config.json"], "no folder");
    refused(folder.load(), &[folder.0.to_str().unwrap(), "config.json"], "no config.json");
    refused(RoFormer::load(""), &["config.json"], "no path");
    assert!(RoFormer::load("\0").is_err(), "a path that cannot be");

    let folder = Folder::like("tiny-safetensors");
    refused(RoFormer::load(folder.0.join("model.safetensors")), &["model.safetensors"], "a file");
    fs::remove_file(folder.0.join("model.safetensors")).unwrap();
    refused(
        folder.load(),
        &[folder.0.to_str().unwrap(), "model.safetensors", "pytorch_model.bin"],
        "no weights",
    );
    fs::create_dir(folder.0.join("model.safetensors")).unwrap();
    refused(folder.load(), &["model.safetensors"], "weights that are a folder");

    let folder = Folder::like("tiny-safetensors");
    fs::remove_file(folder.0.join("config.json")).unwrap();
    fs::create_dir(folder.0.join("config.json")).unwrap();
    refused(folder.load(), &["config.json"], "a configuration that is a folder");

    let folder = Folder::like("tiny-sharded");
    fs::remove_file(folder.0.join("model-00002-of-00003.safetensors")).unwrap();
    refused(folder.load(), &["model-00002-of-00003.safetensors"], "a shard that is missing");
}

#[cfg(target_os = "linux")]
#[test]
fn files_without_end_are_refused() {
    use std::os::unix::fs::symlink;
    for (name, to) in [
        ("config.json", "/dev/zero"),
        ("config.json", "/dev/null"),
        ("config.json", "nowhere"),
        ("model.safetensors", "/dev/zero"),
        ("model.safetensors", "/dev/null"),
        ("model.safetensors", "nowhere"),
        ("model.safetensors", "model.safetensors"),
    ] {
        let folder = Folder::like("tiny-safetensors");
        fs::remove_file(folder.0.join(name)).unwrap();
        symlink(to, folder.0.join(name)).unwrap();
        refused(folder.load(), &[name], (name, to));
    }
}

#[test]
fn configurations_that_the_weights_do_not_fit_are_refused_by_tensor() {
    let table: &[(Value, &[&str])] = &[
        (json!({"num_hidden_layers": 3}), &["missing", "roformer.encoder.layer.2."]),
        (json!({"num_hidden_layers": 1}), &["unexpected", "roformer.encoder.layer.1."]),
        (json!({"num_hidden_layers": 0}), &["unexpected", "roformer.encoder.layer.0."]),
        (json!({"vocab_size": 41}), &[WORDS, "[40, 16]", "[41, 16]"]),
        (json!({"vocab_size": 1}), &[WORDS, "[40, 16]", "[1, 16]"]),
        (json!({"vocab_size": LIMIT}), &[WORDS, "[40, 16]", "[16777216, 16]"]),
        (json!({"type_vocab_size": 3}), &["token_type_embeddings.weight", "[2, 16]", "[3, 16]"]),
        (json!({"intermediate_size": 36}), &["intermediate.dense.weight", "[37, 16]", "[36, 16]"]),
        (
            json!({"hidden_size": 32, "embedding_size": 32, "num_attention_heads": 4}),
            &[WORDS, "[40, 16]", "[40, 32]"],
        ),
        (json!({"hidden_size": 32, "num_attention_heads": 4}), &["missing", "roformer.embeddings_project."]),
        (json!({"embedding_size": 8}), &["missing", "roformer.embeddings_project."]),
        (
            json!({"num_attention_heads": 4}),
            &["table of positions", "[48, 8]", "heads of 4 features", POSITIONS],
        ),
        (json!({"num_attention_heads": 1}), &["table of positions", "[48, 8]", "heads of 16 features"]),
        (json!({"is_decoder": true, "add_cross_attention": true}), &["missing", "crossattention"]),
        (json!({"architectures": ["RoFormerModel"]}), &["unexpected", "cls.predictions."]),
        (
            json!({"architectures": ["RoFormerForTokenClassification"]}),
            &["missing: classifier.", "unexpected: cls."],
        ),
        (json!({"architectures": ["RoFormerForSequenceClassification"]}), &["missing: classifier.dense"]),
        (json!({"architectures": ["RoFormerForQuestionAnswering"]}), &["missing: qa_outputs."]),
        (json!({"architectures": ["RoFormerForMultipleChoice"]}), &["missing: classifier."]),
    ];
    for dir in ["tiny-safetensors", "tiny-bin", "tiny-legacy-bin", "tiny-sharded"] {
        for (fields, words) in table {
            let folder = Folder::like(dir);
            folder.configure(fields.clone());
            refused(folder.load(), words, (dir, fields));
        }
    }
    // torch saves what is tied under both names; safetensors does not.
    for dir in ["tiny-safetensors", "tiny-sharded"] {
        let folder = Folder::like(dir);
        folder.configure(json!({"tie_word_embeddings": false}));
        refused(folder.load(), &["missing", "cls.predictions.decoder."], dir);
    }
}

/// What the shapes in a file say costs nothing to find out.
#[test]
fn sizes_beyond_memory_that_the_weights_do_not_fit_are_refused_by_tensor() {
    apart("sizes_beyond_memory_that_the_weights_do_not_fit_are_refused_by_tensor", || {
        // Without a table of positions: that would be the first to be found wrong.
        let folder = Folder::with(|tensors| drop(tensors.remove(POSITIONS)));
        for (fields, words) in [
            (
                json!({"vocab_size": LIMIT, "embedding_size": LIMIT, "hidden_size": LIMIT, "num_attention_heads": LIMIT / 2}),
                [WORDS, "[40, 16]", "[16777216, 16777216]"],
            ),
            (
                json!({"vocab_size": LIMIT, "embedding_size": 16, "hidden_size": 16, "num_attention_heads": 2}),
                [WORDS, "[40, 16]", "[16777216, 16]"],
            ),
        ] {
            folder.configure(fields.clone());
            refused(folder.load(), &words, fields);
        }
    });
}

#[test]
fn layers_beyond_memory_that_the_weights_do_not_have_are_refused() {
    apart("layers_beyond_memory_that_the_weights_do_not_have_are_refused", || {
        let folder = Folder::like("tiny-safetensors");
        folder.configure(json!({"num_hidden_layers": LIMIT}));
        refused(folder.load(), &["missing", "roformer.encoder.layer."], "16 million layers");
    });
}

#[test]
fn tensors_too_few_or_too_many_are_named() {
    let names: Vec<String> = {
        let weights = weights::Weights::open(golden("tiny-safetensors")).unwrap();
        weights.names().map(str::to_string).collect()
    };
    for name in names.iter().filter(|&name| name != POSITIONS) {
        let folder = Folder::with(|tensors| drop(tensors.remove(name)));
        refused(folder.load(), &["missing", name], name);
    }
    // The table of positions is made anew.
    assert!(Folder::with(|tensors| drop(tensors.remove(POSITIONS))).load().is_ok());

    for name in [
        "extra",
        "roformer.encoder.layer.7.output.dense.bias",
        "embeddings.word_embeddings",
        "lm_head.weight",
    ] {
        let folder = Folder::with(|tensors| drop(tensors.insert(name.into(), (vec![1], vec![0.0]))));
        refused(folder.load(), &["unexpected", name], name);
    }
}

/// They come from the file: as long and as odd as someone liked.
#[test]
fn odd_names_are_named_briefly() {
    for name in
        ["x".repeat(1 << 20), "\u{1b}[31mred\u{1b}[0m".into(), "a\nb".into(), "\u{202e}".into(), "🦀".into()]
    {
        let folder = Folder::with(|tensors| drop(tensors.insert(name.clone(), (vec![1], vec![0.0]))));
        refused(folder.load(), &["unexpected"], name.chars().take(20).collect::<String>());
    }
}

#[test]
fn relatives_are_recognised() {
    let v2 = Folder::with(|tensors| {
        tensors.retain(|name, _| !name.ends_with("bias") && !name.contains("LayerNorm"))
    });
    refused(v2.load(), &["RoFormerV2", "missing"], "V2");
    let no_biases = Folder::with(|tensors| tensors.retain(|name, _| !name.ends_with("bias")));
    refused(no_biases.load(), &["RoFormerV2", "missing"], "no biases");
    let sim = Folder::with(|tensors| {
        tensors.insert("roformer.pooler.dense.weight".into(), (vec![16, 16], vec![0.0; 256]));
        tensors.insert("roformer.pooler.dense.bias".into(), (vec![16], vec![0.0; 16]));
    });
    refused(sim.load(), &["RoFormer-Sim", "pooler.dense"], "Sim");
    let bare = Folder::with(|tensors| {
        tensors.retain(|name, _| name.starts_with("roformer."));
        let all = std::mem::take(tensors);
        tensors.extend(all.into_iter().map(|(name, tensor)| (name["roformer.".len()..].to_string(), tensor)));
        tensors.insert("pooler.dense.weight".into(), (vec![16, 16], vec![0.0; 256]));
        tensors.insert("pooler.dense.bias".into(), (vec![16], vec![0.0; 16]));
    });
    bare.configure(json!({"architectures": ["RoFormerModel"]}));
    refused(bare.load(), &["RoFormer-Sim", "pooler.dense"], "Sim's encoder alone");
}

#[test]
fn tables_of_positions_that_are_others_are_refused() {
    type Change = fn(&mut Vec<usize>, &mut Vec<f32>);
    let changes: [(&str, Change); 12] = [
        ("zeros", |_, values| values.fill(0.0)),
        ("NaN", |_, values| values.fill(f32::NAN)),
        ("one NaN", |_, values| values[100] = f32::NAN),
        ("infinities", |_, values| values.fill(f32::INFINITY)),
        ("one number off", |_, values| values[383] += 0.01),
        ("reversed", |_, values| values.reverse()),
        ("interleaved", |_, values| {
            values.chunks_exact_mut(8).for_each(|row| {
                let old = row.to_vec();
                (0..8).for_each(|i| row[i] = old[i / 2 + i % 2 * 4]);
            });
        }),
        ("from 1 on", |_, values| values.rotate_left(8)),
        ("one axis", |shape, _| *shape = vec![384]),
        ("three axes", |shape, _| *shape = vec![48, 2, 4]),
        ("other heads", |shape, _| *shape = vec![24, 16]),
        ("no axes", |shape, values| {
            *shape = vec![];
            *values = vec![0.0];
        }),
    ];
    for (name, change) in changes {
        let folder = Folder::with(|tensors| {
            let (shape, values) = tensors.get_mut(POSITIONS).unwrap();
            change(shape, values);
        });
        refused(folder.load(), &["table of positions", POSITIONS], name);
    }
    // Without rows it says nothing wrong.
    refused_or_works(
        Folder::with(|tensors| *tensors.get_mut(POSITIONS).unwrap() = (vec![0, 8], vec![])).load(),
    );
}

/// torch can say of one number that it is a table of any size: all steps are 0.
#[test]
fn tables_of_positions_of_one_number_take_no_memory() {
    apart("tables_of_positions_of_one_number_take_no_memory", || {
        let whole = fs::read(golden("tiny-legacy-bin").join("pytorch_model.bin")).unwrap();
        // [48, 8] in steps of [8, 1], as a pickle says it.
        let before = b"K0K\x08\x86";
        let at = whole.windows(before.len()).position(|part| part == before).unwrap();
        let steps = &whole[at + before.len()..][..2 + 5];
        assert!(steps.ends_with(b"K\x08K\x01\x86"), "{steps:?}");
        let (memo, after) = (&steps[..2], &whole[at + before.len() + steps.len()..]);
        let folder = Folder::like("tiny-legacy-bin");
        // 2^20 or 2^24 rows, of 8, 2^13 or 2^24 numbers.
        for (hidden, heads, shape) in [
            (16, 2, &b"J\x00\x00\x10\x00K\x08\x86"[..]),
            (16, 2, b"J\x00\x00\x00\x01K\x08\x86"),
            (16, 2, b"J\x00\x00\x00\x01J\x00\x00\x00\x01\x86"),
            (1 << 13, 1, b"J\x00\x00\x10\x00J\x00\x20\x00\x00\x86"),
            (LIMIT, 1, b"J\x00\x00\x10\x00J\x00\x00\x00\x01\x86"),
            (LIMIT, 1, b"J\x00\x00\x00\x01J\x00\x00\x00\x01\x86"),
        ] {
            folder.put("pytorch_model.bin", [&whole[..at], shape, memo, b"K\x00K\x00\x86", after].concat());
            folder.configure(
                json!({"hidden_size": hidden, "embedding_size": 16, "num_attention_heads": heads}),
            );
            refused(folder.load(), &["table of positions"], (hidden, heads, shape));
        }
    });
}

#[test]
fn whole_numbers_are_no_weights() {
    let bytes = fs::read(golden("tiny-safetensors").join("model.safetensors")).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let end = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for kind in ["I32", "U32", "I99", "f32"] {
        let header = text(&bytes[8..end]).replacen("F32", kind, 1);
        let folder = Folder::like("tiny-safetensors");
        folder.put("model.safetensors", [&bytes[..8], header.as_bytes(), &bytes[end..]].concat());
        refused(folder.load(), &["model.safetensors"], kind);
    }
}

#[test]
fn weights_that_are_not_finite_load_and_give_what_they_give() {
    let input = ids(&[1, 2, 3]);
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let model = Folder::with(|tensors| {
            let all = tensors.iter_mut().filter(|(name, _)| *name != POSITIONS);
            all.for_each(|(_, (_, values))| values.fill(value));
        });
        let output = model.load().unwrap().forward(&input).unwrap();
        assert!(output.last_hidden_state.iter().all(|x| x.is_nan()), "{value}");
        assert!(output.logits.unwrap().scores.iter().all(|x| !x.is_finite()), "{value}");

        // One word: whatever is computed with it is not finite, and says so.
        let model = Folder::with(|tensors| tensors.get_mut(WORDS).unwrap().1[2 * 16] = value).load().unwrap();
        let output = model.forward(&input).unwrap();
        assert!(
            output.last_hidden_state.iter().all(|x| x.is_nan()),
            "{value}: {:?}",
            output.last_hidden_state
        );
        let output = model.forward(&ids(&[1, 3])).unwrap();
        assert!(output.last_hidden_state.iter().all(|x| x.is_finite()));
    }
    for (name, value) in [("attention.self.query.weight", f32::MAX), ("intermediate.dense.weight", f32::NAN)]
    {
        let model = Folder::with(|tensors| {
            let (_, values) = tensors.get_mut(&format!("roformer.encoder.layer.0.{name}")).unwrap();
            values.fill(value);
        });
        let output = model.load().unwrap().forward(&input).unwrap();
        assert!(value.is_finite() || output.last_hidden_state.iter().all(|x| x.is_nan()), "{name}");
    }
}

#[test]
fn every_truncation_is_refused_by_file() {
    for (dir, file) in [
        ("tiny-safetensors", "model.safetensors"),
        ("tiny-bin", "pytorch_model.bin"),
        ("tiny-legacy-bin", "pytorch_model.bin"),
        ("tiny-sharded", "model.safetensors.index.json"),
        ("tiny-sharded", "model-00003-of-00003.safetensors"),
        ("tiny-safetensors", "config.json"),
    ] {
        let folder = Folder::like(dir);
        let whole = fs::read(golden(dir).join(file)).unwrap();
        let len = whole.trim_ascii_end().len();
        // Many at both ends, where the structures are.
        let ends = (0..70).chain((0..100).map(|i| 70 + i * (len - 110) / 100)).chain(len - 40..len);
        for end in ends {
            folder.put(file, &whole[..end]);
            refused(folder.load(), &[file], (dir, file, end));
        }
        folder.put(file, whole);
        folder.load().unwrap();
    }
}

fn any_file() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("tiny-safetensors", "model.safetensors"),
        ("tiny-bin", "pytorch_model.bin"),
        ("tiny-bin-f16", "pytorch_model.bin"),
        ("tiny-legacy-bin", "pytorch_model.bin"),
        ("tiny-sharded", "model.safetensors.index.json"),
        ("tiny-safetensors", "config.json"),
    ])
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn files_with_any_bytes_changed_are_refused_or_work(
        (dir, file) in any_file(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
    ) {
        let folder = Folder::like(dir);
        let mut bytes = fs::read(golden(dir).join(file)).unwrap();
        for (at, value, early) in flips {
            // Half of them where headers and pickles are.
            let end = if early { bytes.len().min(3000) } else { bytes.len() };
            bytes[at.index(end)] = value;
        }
        folder.put(file, bytes);
        if let Some(model) = refused_or_works(folder.load()) {
            refused_or_works(model.forward(&ids(&[1, 0, 1])));
        }
    }
}

// ------------------------------------------------------------------------------------------------- inputs and caches

/// A decoder that attends to another model too.
fn decoder() -> RoFormer {
    model(json!({"is_decoder": true, "add_cross_attention": true}))
}

#[test]
fn inputs_that_do_not_fit_are_refused_by_name() {
    let model = model(json!({}));
    let plain = ids(&[1, 2, 3, 4]);
    let table: &[(Input, &[&str])] = &[
        (ids(&[]), &["number of ids", "0"]),
        (Input { ids: &[], batch: 0, ..plain }, &["number of ids"]),
        (Input { batch: 0, ..plain }, &["number of ids", "4 for a batch of 0"]),
        (Input { batch: 3, ..plain }, &["number of ids", "4 for a batch of 3"]),
        (Input { batch: 5, ..plain }, &["number of ids", "4 for a batch of 5"]),
        (Input { batch: usize::MAX, ..plain }, &["number of ids"]),
        (ids(&[1, 40]), &["token id", "40"]),
        (ids(&[u32::MAX]), &["token id", "4294967295", "40"]),
        (Input { token_types: Some(&[0, 0, 0, 2]), ..plain }, &["token type", "2"]),
        (Input { token_types: Some(&[0, u32::MAX, 0, 0]), ..plain }, &["token type", "4294967295", "2"]),
        (Input { token_types: Some(&[]), ..plain }, &["token types", "0", "4 ids"]),
        (Input { token_types: Some(&[0; 3]), ..plain }, &["token types", "3", "4 ids"]),
        (Input { token_types: Some(&[0; 5]), ..plain }, &["token types", "5", "4 ids"]),
        (Input { mask: Some(&[]), ..plain }, &["mask", "0", "4 ids"]),
        (Input { mask: Some(&[true; 2]), batch: 2, ..plain }, &["mask", "2", "4 ids"]),
        (Input { mask: Some(&[true; 5]), ..plain }, &["mask", "5", "4 ids"]),
    ];
    for (input, words) in table {
        refused(model.forward(input), words, input);
    }
    assert!(model.forward(&plain).is_ok());
}

#[test]
fn encoded_inputs_that_do_not_fit_are_refused_by_name() {
    let model = decoder();
    let numbers = [0.5f32; 200];
    let input = Input { ids: &[1, 2, 3, 4], batch: 2, token_types: None, mask: None };
    for len in [0, 1, 16, 31, 33, 48, 200] {
        let encoded = Encoded { hidden: &numbers[..len], mask: None };
        refused(model.forward_with(&input, encoded), &["encoded input", &len.to_string(), "hidden 16"], len);
    }
    for len in [0, 1, 3, 5, 64] {
        let mask = vec![true; len];
        let encoded = Encoded { hidden: &numbers[..64], mask: Some(&mask) };
        refused(model.forward_with(&input, encoded), &["encoded mask", "2 × 2"], len);
    }
    let encoded = Encoded { hidden: &numbers[..64], mask: Some(&[true; 4]) };
    assert!(model.forward_with(&input, encoded).is_ok());
}

/// transformers refuses this too: an output that nothing reads is a mistake.
#[test]
fn encoded_inputs_that_nothing_reads_are_refused() {
    let encoded = Encoded { hidden: &[0.5; 16], mask: None };
    for fields in [json!({"is_decoder": true}), json!({})] {
        refused(model(fields.clone()).forward_with(&ids(&[1, 2]), encoded), &["encoded input"], fields);
    }
}

#[test]
fn masks_that_hide_everything_give_finite_outputs() {
    for head in
        [HeadKind::None, HeadKind::MaskedLm, HeadKind::SequenceClassification, HeadKind::MultipleChoice]
    {
        for decoder in [false, true] {
            let config =
                small(json!({"is_decoder": decoder, "add_cross_attention": decoder, "summary_type": "mean"}));
            let model = RoFormer::<f32>::from_parameters(parse(&config).unwrap(), head, &Hashed).unwrap();
            let mask = [false, false, false, true, false, true];
            let input = Input { ids: &[1, 2, 3, 4, 5, 6], batch: 2, token_types: None, mask: Some(&mask) };
            let encoded = Encoded { hidden: &[0.5; 64], mask: Some(&[false; 4]) };
            let mut outputs = vec![model.forward(&input).unwrap()];
            if decoder {
                outputs.push(model.forward_with(&input, encoded).unwrap());
                let mut cache = model.cache(2, 3).unwrap();
                outputs.push(model.step(&input, Some(encoded), &mut cache).unwrap());
            }
            for output in outputs {
                let scores = output.logits.map_or(vec![], |logits| logits.scores);
                assert!(output.last_hidden_state.iter().chain(&scores).all(|x| x.is_finite()), "{head:?}");
            }
        }
    }
}

/// Memory is used again; what it held before, and what else runs, makes no difference.
#[test]
fn outputs_do_not_depend_on_what_ran_before_or_beside() {
    let used = decoder();
    let numbers = [0.25, f32::NAN, f32::INFINITY, -1.0].repeat(400);
    let lengths = [1, 100, 3, 64, 7, 65, 2, 33];
    let tokens: Vec<u32> = (0..100).map(|i| i * 7 % 40).collect();
    let run = |model: &RoFormer, length: usize| {
        bits(model.forward_with(&ids(&tokens[..length]), Encoded { hidden: &[0.5; 32], mask: None }))
    };
    let wanted = lengths.map(|length| run(&decoder(), length));
    let spoil = |length: usize| {
        let encoded = Encoded { hidden: &numbers[..16 * length], mask: None };
        used.forward_with(&ids(&tokens[..length]), encoded).unwrap();
        assert!(used.forward(&ids(&[40])).is_err());
    };
    std::thread::scope(|scope| {
        for offset in 0..3 {
            let (used, run, spoil, wanted) = (&used, &run, &spoil, &wanted);
            scope.spawn(move || {
                for round in 0..16 {
                    let index = (round + 3 * offset) % lengths.len();
                    spoil(lengths[(round * 5 + offset) % lengths.len()]);
                    assert!(run(used, lengths[index]) == wanted[index], "{} tokens", lengths[index]);
                }
            });
        }
    });
}

/// What a step gives, to compare.
fn bits(output: Result<Output<f32>>) -> Vec<u32> {
    let output = output.unwrap();
    let scores = output.logits.map_or(vec![], |logits| logits.scores);
    output.last_hidden_state.iter().chain(&scores).map(|x| x.to_bits()).collect()
}

#[test]
fn steps_that_are_refused_leave_the_cache_as_it_was() {
    let model = decoder();
    let hidden = [0.25f32; 3 * 2 * 16];
    let encoded = Some(Encoded { hidden: &hidden, mask: None });
    let two = |ids| Input { ids, batch: 2, token_types: None, mask: Some(&[true, false, true, true]) };
    let (first, second) = (two(&[1, 2, 3, 4]), two(&[5, 6, 7, 8]));

    let mut untouched = model.cache(2, 5).unwrap();
    let wanted = (
        bits(model.step(&first, encoded, &mut untouched)),
        bits(model.step(&second, encoded, &mut untouched)),
    );

    let wrong = |cache: &mut Cache| {
        let len = cache.len();
        let plain = Input { mask: None, ..first };
        let room = (5 - len).to_string();
        let long = vec![9; 2 * (5 - len + 1)];
        let longer = vec![9; 20_000];
        let six = [9; 6];
        let table: [(Input, &[&str]); 10] = [
            (Input { ids: &long, ..plain }, &["number of new tokens", &room]),
            (Input { ids: &longer, ..plain }, &["number of new tokens", "10000", &room]),
            (Input { batch: 1, ..first }, &["batch", "1", "2"]),
            (Input { batch: 4, ..first }, &["batch", "4", "2"]),
            (Input { batch: 3, ids: &six, ..plain }, &["3", "2"]),
            (Input { batch: 0, ..first }, &["number of ids"]),
            (Input { ids: &[], ..first }, &["number of ids"]),
            (Input { ids: &[1, 2, 3, 40], ..first }, &["token id", "40"]),
            (Input { mask: Some(&[true; 3]), ..first }, &["mask", "3"]),
            (Input { token_types: Some(&[0, 0, 0, 9]), ..first }, &["token type", "9"]),
        ];
        for (input, words) in table {
            let encoded = encoded.filter(|_| input.batch == 2);
            refused(model.step(&input, encoded, cache), words, input);
            assert_eq!(cache.len(), len);
        }
        let short = Encoded { hidden: &hidden[..40], mask: None };
        refused(model.step(&first, Some(short), cache), &["encoded input", "40"], "encoded");
        let masked = Encoded { hidden: &hidden, mask: Some(&[true; 5]) };
        refused(model.step(&first, Some(masked), cache), &["encoded mask"], "encoded mask");
        assert_eq!((cache.len(), cache.capacity()), (len, 5));
    };
    let mut cache = model.cache(2, 5).unwrap();
    wrong(&mut cache);
    assert!(cache.is_empty());
    assert_eq!(bits(model.step(&first, encoded, &mut cache)), wanted.0);
    wrong(&mut cache);
    assert_eq!(bits(model.step(&second, encoded, &mut cache)), wanted.1);
    wrong(&mut cache);
    assert_eq!(cache.len(), 4);
}

#[test]
fn steps_that_run_out_of_memory_leave_the_cache_as_it_was() {
    apart("steps_that_run_out_of_memory_leave_the_cache_as_it_was", || {
        let model = model(json!({
            "is_decoder": true, "add_cross_attention": true, "num_hidden_layers": 1, "hidden_size": 2,
            "num_attention_heads": 1, "vocab_size": 1 << 20,
        }));
        let encoded = |length: usize| {
            Some(Encoded { hidden: &[0.5, -0.25, 1.0, 2.0, 0.0, 3.0][..2 * length], mask: None })
        };
        let (mut cache, mut untouched) = (model.cache(1, 1000).unwrap(), model.cache(1, 1000).unwrap());
        // 2.3 GiB of scores.
        let many = [7; 600];
        refused(model.step(&ids(&many), encoded(3), &mut cache), &["memory"], "the first step");
        assert_eq!(cache.len(), 0);
        for step in [&[1, 2][..], &[3], &[4, 5]] {
            let wanted = bits(model.step(&ids(step), encoded(2), &mut untouched));
            assert!(bits(model.step(&ids(step), encoded(2), &mut cache)) == wanted, "{step:?}");
            refused(model.step(&ids(&many), encoded(2), &mut cache), &["memory"], step);
            assert_eq!(cache.len(), untouched.len());
        }
    });
}

/// Its keys and values are kept from the first step on.
#[test]
fn another_encoded_input_of_another_size_half_way_is_refused() {
    let model = decoder();
    let numbers = [0.25f32; 5 * 16];
    let encoded = |length: usize| Some(Encoded { hidden: &numbers[..length * 16], mask: None });
    for length in [1, 2, 4, 5] {
        let (mut cache, mut untouched) = (model.cache(1, 4).unwrap(), model.cache(1, 4).unwrap());
        for cache in [&mut cache, &mut untouched] {
            model.step(&ids(&[1, 2]), encoded(3), cache).unwrap();
        }
        refused(model.step(&ids(&[3]), encoded(length), &mut cache), &["encoded input"], length);
        let wanted = bits(model.step(&ids(&[3]), encoded(3), &mut untouched));
        assert_eq!(bits(model.step(&ids(&[3]), encoded(3), &mut cache)), wanted);
    }
}

#[test]
fn caches_are_for_decoders() {
    refused(model(json!({})).cache(1, 4), &["decoder"], "an encoder");
}

#[test]
fn caches_of_other_models_are_refused() {
    let layers = |layers: usize| json!({"is_decoder": true, "num_hidden_layers": layers});
    let wide = |hidden: usize| json!({"is_decoder": true, "hidden_size": hidden});
    let mut failed = Vec::new();
    for (name, maker, user) in [
        ("fewer layers", layers(1), layers(2)),
        ("more layers", layers(3), layers(2)),
        ("no layers", layers(0), layers(2)),
        ("narrower", wide(8), wide(16)),
        ("wider", wide(32), wide(16)),
        ("an encoder", layers(2), json!({})),
    ] {
        let mut cache = model(maker).cache(1, 4).unwrap();
        let user = model(user);
        let step = || user.step(&ids(&[1, 2]), None, &mut cache).map(|_| ());
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(step)) {
            Err(_) => failed.push(format!("{name}: panic")),
            Ok(Ok(())) => failed.push(format!("{name}: accepted")),
            Ok(Err(error)) => assert!(error.to_string().contains("cache"), "{name}: {error}"),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join(", "));
}

#[test]
fn caches_of_any_size_are_made_or_refused() {
    apart("caches_of_any_size_are_made_or_refused", || {
        const HUGE: usize = usize::MAX;
        // The last, not even a small one.
        for layers in [2, 1, 0] {
            let model = model(json!({"is_decoder": true, "num_hidden_layers": layers}));
            for (batch, capacity) in [(0, 0), (0, 4), (1, 0), (0, HUGE), (HUGE, 0)] {
                if let Some(mut cache) = refused_or_works(model.cache(batch, capacity)) {
                    assert!(model.step(&ids(&[1]), None, &mut cache).is_err(), "{batch} {capacity}");
                }
            }
            for (batch, capacity) in [
                (1, 1 << 40),
                (1 << 40, 1),
                (1 << 20, 1 << 20),
                (HUGE, 1),
                (1, HUGE),
                (HUGE, HUGE),
                (1 << 32, 1 << 32),
                (2, HUGE / 2 + 1),
                (1, HUGE / 16),
                (1, HUGE / 64),
                (1, (HUGE >> 7) + 1),
            ] {
                refused(model.cache(batch, capacity), &["memory", "cache"], (layers, batch, capacity));
            }
        }
    });
}

#[test]
fn ten_million_tokens_are_an_error_where_memory_ends() {
    apart("ten_million_tokens_are_an_error_where_memory_ends", || {
        let tokens = vec![1; 10_000_000];
        for batch in [1, 10, 1_000_000] {
            let config =
                small(json!({"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}));
            let model =
                RoFormer::<f32>::from_parameters(parse(&config).unwrap(), HeadKind::None, &Zeros).unwrap();
            let input = Input { ids: &tokens, batch, token_types: None, mask: None };
            refused(model.forward(&input), &["memory"], batch);
        }
    });
}

/// The last piece of memory that a forward pass asks for is as large as the first, and can be refused as well.
#[test]
fn outputs_beyond_memory_are_an_error() {
    apart("outputs_beyond_memory_are_an_error", || {
        let fields = json!({
            "num_hidden_layers": 0, "hidden_size": 256, "num_attention_heads": 128, "intermediate_size": 1,
        });
        let model =
            RoFormer::<f32>::from_parameters(parse(&small(fields)).unwrap(), HeadKind::None, &Zeros).unwrap();
        let tokens = vec![1; LARGEST / 4 / 256 + 1];
        refused(model.forward(&ids(&tokens)), &["memory"], "hidden states");
    });
}

#[test]
fn scores_beyond_memory_are_an_error() {
    apart("scores_beyond_memory_are_an_error", || {
        let fields = json!({
            "num_hidden_layers": 0, "hidden_size": 2, "num_attention_heads": 1, "vocab_size": 1 << 20,
        });
        let model =
            RoFormer::<f32>::from_parameters(parse(&small(fields)).unwrap(), HeadKind::MaskedLm, &Zeros)
                .unwrap();
        let tokens = vec![1; LARGEST / 4 / (1 << 20) + 1];
        refused(model.forward(&ids(&tokens)), &["memory"], "scores");
    });
}

/// A sequence of up to 40 tokens in steps of any sizes, for up to 3 texts with padding of any length at the left.
#[derive(Clone, Debug)]
struct Splits {
    ids: Vec<u32>,
    types: Vec<u32>,
    mask: Vec<bool>,
    batch: usize,
    steps: Vec<usize>,
    /// Tokens of the other model, if there is one.
    encoded: Option<usize>,
    room: usize,
}

fn splits() -> impl Strategy<Value = Splits> {
    let steps = prop::collection::vec(prop_oneof![3 => Just(1usize), 1 => 1..12usize], 1..8);
    (steps, 1..4usize, prop::option::of(1..6usize), 0..3usize).prop_flat_map(
        |(steps, batch, encoded, room)| {
            let length: usize = steps.iter().sum();
            let tokens = batch * length;
            let pads = prop::collection::vec(0..=length, batch);
            let ids = prop::collection::vec(0..40u32, tokens);
            let types = prop::collection::vec(0..2u32, tokens);
            (ids, types, pads).prop_map(move |(ids, types, pads)| Splits {
                ids,
                types,
                mask: pads.iter().flat_map(|&pad| (0..length).map(move |token| token >= pad)).collect(),
                batch,
                steps: steps.clone(),
                encoded,
                room,
            })
        },
    )
}

impl Splits {
    fn columns<T: Copy>(&self, list: &[T], first: usize, count: usize) -> Vec<T> {
        let length = list.len() / self.batch;
        list.chunks_exact(length).flat_map(|row| &row[first..][..count]).copied().collect()
    }

    /// Compares steps with a cache, `[batch, count, width]` each, with all at once, `[batch, length, width]`.
    fn check(&self, model: &RoFormer) -> std::result::Result<(), TestCaseError> {
        let length: usize = self.steps.iter().sum();
        let hidden: Vec<f32> = (0..self.batch * self.encoded.unwrap_or(0) * 16)
            .map(|i| (i * 37 % 64) as f32 / 32.0 - 1.0)
            .collect();
        let encoded = self.encoded.map(|_| Encoded { hidden: &hidden, mask: None });
        let all = Input {
            ids: &self.ids,
            batch: self.batch,
            token_types: Some(&self.types),
            mask: Some(&self.mask),
        };
        let whole = match encoded {
            Some(encoded) => model.forward_with(&all, encoded),
            None => model.forward(&all),
        };
        let whole = whole.unwrap();
        let mut cache = model.cache(self.batch, length + self.room).unwrap();
        let mut first = 0;
        for &count in &self.steps {
            let (ids, types) =
                (self.columns(&self.ids, first, count), self.columns(&self.types, first, count));
            let mask = self.columns(&self.mask, first, count);
            let input = Input { ids: &ids, batch: self.batch, token_types: Some(&types), mask: Some(&mask) };
            let step = model.step(&input, encoded, &mut cache).unwrap();
            for (step, whole, width) in [
                (&step.last_hidden_state, &whole.last_hidden_state, 16),
                (&step.logits.unwrap().scores, &whole.logits.as_ref().unwrap().scores, 40),
            ] {
                prop_assert_eq!(step.len(), self.batch * count * width);
                for (index, got) in step.iter().enumerate() {
                    let (row, token) = (index / width / count, index / width % count + first);
                    let wanted = whole[(row * length + token) * width + index % width];
                    let near = (got - wanted).abs() < 2e-5;
                    prop_assert!(near, "text {}, token {}: {} cached, {} at once", row, token, got, wanted);
                }
            }
            first += count;
            prop_assert_eq!(cache.len(), first);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn steps_of_any_sizes_give_what_one_pass_gives(splits in splits()) {
        thread_local! {
            static MODELS: [RoFormer; 2] = [decoder(), model(json!({"is_decoder": true, "rotary_value": true}))];
        }
        MODELS.with(|[crossed, plain]| {
            splits.check(crossed)?;
            if splits.encoded.is_none() { splits.check(plain) } else { Ok(()) }
        })?;
    }
}
