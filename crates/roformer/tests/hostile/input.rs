//! Inputs and caches: what does not fit, what runs out of memory, and steps of any size.

use super::*;

/// A decoder that attends to another model too.
fn decoder() -> Model {
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
            let model = made::<f32>(parse(&config).unwrap(), head, &Hashed).unwrap();
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
    let run = |model: &Model, length: usize| {
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
            let model = made::<f32>(parse(&config).unwrap(), HeadKind::None, &Zeros).unwrap();
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
        let model = made::<f32>(parse(&small(fields)).unwrap(), HeadKind::None, &Zeros).unwrap();
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
        let model = made::<f32>(parse(&small(fields)).unwrap(), HeadKind::MaskedLm, &Zeros).unwrap();
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
    fn check(&self, model: &Model) -> std::result::Result<(), TestCaseError> {
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
            static MODELS: [Model; 2] = [decoder(), model(json!({"is_decoder": true, "rotary_value": true}))];
        }
        MODELS.with(|[crossed, plain]| {
            splits.check(crossed)?;
            if splits.encoded.is_none() { splits.check(plain) } else { Ok(()) }
        })?;
    }
}
