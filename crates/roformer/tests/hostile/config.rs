//! Configurations: every field spoilt, sizes without end, configurations made by hand.

use super::*;

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
            "num_hidden_layers" => assert_eq!(none.unwrap().layers, 0),
            _ => refused(none, &[field, "is 0"], field),
        }
        for number in
            ["18446744073709551616", "1e400", "NaN", "-NaN", "Infinity", "0x10", "1_000", "١٢", "01"]
        {
            let text = format!("{{\"{field}\": {number}}}");
            refused(Blueprint::from_config(text.as_bytes()), &["config.json"], text);
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
        let made = parse(&config).and_then(|config| made::<f32>(config, HeadKind::None, &Zeros));
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
    for kind in ["electra", "roformer_v2", "RoFormer", "roformer "] {
        refused(
            parse(&small(json!({"model_type": kind}))),
            &["model_type", kind, "one of roformer, bert"],
            kind,
        );
    }
    for kind in [json!("ranking"), json!(3)] {
        refused(parse(&small(json!({"problem_type": kind}))), &["problem_type"], kind);
    }
    refused(parse(&small(json!({"pooler_activation": "cube"}))), &["pooler_activation", "cube"], "pooler");
}

#[test]
fn files_that_are_no_json_object_are_refused() {
    let whole = fs::read(golden("tiny-safetensors").join("config.json")).unwrap();
    let whole = whole.trim_ascii();
    assert!(Blueprint::from_config(whole).is_ok());
    for end in 0..whole.len() {
        refused(Blueprint::from_config(&whole[..end]), &["config.json"], end);
    }
    for text in
        ["", " ", "null", "1", "[]", "\"roformer\"", "[{}]", "{}{}", "{'a': 1}", "{a: 1}", "{}\u{feff}"]
    {
        refused(Blueprint::from_config(text.as_bytes()), &["config.json"], text);
    }
    refused(Blueprint::from_config(b"{\"hidden_act\": \"\xff\xfe\"}"), &["config.json"], "no UTF-8");
    for nest in ["[", "{\"a\":", "{\"hidden_size\":[", "[[{\"a\":"] {
        refused(Blueprint::from_config(nest.repeat(1 << 20).as_bytes()), &["config.json"], nest);
    }
    for filler in [b' ', b'[', b'{', b'9', b'\0'] {
        refused(Blueprint::from_config(&vec![filler; 100_000_000]), &["config.json", "bytes"], filler);
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
                prop_assert_eq!(config.query_width(), config.width);
                prop_assert!(config.head_dim >= 2 && config.head_dim.is_multiple_of(2));
                prop_assert!(config.classes() > 0 && config.vocabulary > 0 && config.types > 0);
                prop_assert!((0.0..1.0).contains(&config.norms.epsilon));
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_make_sense(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        put in prop::sample::select(vec![&b"{"[..], b"}", b"[", b"\"", b":", b",", b"9", b"-", b"\xff", b"null", b"1e9"]),
    ) {
        refused_or_works(Blueprint::from_config(&bytes));
        let mut config = small(json!({"architectures": ["RoFormerModel"]})).to_string().into_bytes();
        let at = at.index(config.len());
        config.splice(at..at + 1, put.iter().copied());
        refused_or_works(Blueprint::from_config(&config));
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
            let short = made::<f32>(parsed.clone(), head, &Zeros);
            assert!(
                matches!(short, Err(Error::Engine(engine::Error::Memory { .. }))),
                "{head:?} {config}: {:?}",
                short.err()
            );
            refused(short, &["memory"], &config);
            refused(made::<f64>(parsed, head, &Zeros), &["memory"], config);
        }
    });
}

#[test]
fn layers_beyond_memory_are_an_error() {
    apart("layers_beyond_memory_are_an_error", || {
        let config = parse(&small(json!({"num_hidden_layers": LIMIT, "hidden_size": 256}))).unwrap();
        refused(made::<f32>(config, HeadKind::None, &Zeros), &["memory"], "16 million");
    });
}

/// The fields of a configuration are public: one made by hand has not been through `from_json`.
#[test]
fn configurations_made_by_hand_are_refused_or_work() {
    apart("configurations_made_by_hand_are_refused_or_work", || {
        type Change = fn(&mut Blueprint);
        let changes: [(&str, Change); 17] = [
            ("no heads", |config| config.heads = 0),
            ("more heads than features", |config| config.heads = 17),
            ("odd heads", |config| config.heads = 16),
            ("heads that do not divide", |config| config.heads = 7),
            ("no width", |config| config.width = 0),
            ("no embedding", |config| config.embedding = 0),
            ("no vocabulary", |config| config.vocabulary = 0),
            ("no types", |config| config.types = 0),
            ("nothing in between", |config| config.wide = 0),
            ("no epsilon", |config| config.norms.epsilon = f64::NAN),
            ("all the width there is", |config| config.width = usize::MAX - 1),
            ("all the embedding there is", |config| config.embedding = usize::MAX),
            ("all the vocabulary there is", |config| config.vocabulary = usize::MAX),
            ("all the types there are", |config| config.types = usize::MAX),
            ("all in between", |config| config.wide = usize::MAX),
            ("heads that are wider than the model", |config| config.head_dim = 30),
            ("other key heads", |config| config.key_heads = 3),
        ];
        let mut failed = Vec::new();
        for head in
            [HeadKind::None, HeadKind::MaskedLm, HeadKind::TokenClassification, HeadKind::MultipleChoice]
        {
            for (name, change) in changes {
                let panicked = std::panic::catch_unwind(|| {
                    let mut config = parse(&small(json!({}))).unwrap();
                    change(&mut config);
                    let made = made::<f32>(config, head, &Zeros);
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
