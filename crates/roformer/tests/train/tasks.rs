//! What models learn, and that others load them.

use crate::common::{Folder, begin, go_on, on_threads, request, small, text};
use roformer::Pipeline;
use roformer::encoding::Encoding;
use roformer::pipeline::Generate;
use roformer::tokenizer::{Kind, Tokenizer};
use roformer::train::{
    Attention, Choice, Data, End, Event, Features, FormName, Goal, Layout, Request, Run, Settings, Start,
    Trainer, side_by_side,
};
use serde_json::{Map, Value};
use std::fs;

/// A text with a number, for encodings that go by digits.
fn numbered() -> String {
    text().replace("fox", "42x")
}

#[test]
fn the_loss_falls_in_every_form_and_encoding() {
    let forms = FormName::ALL.map(|form| (form, "rotary".to_string()));
    let encodings = Encoding::all().into_iter().map(|one| (FormName::RoFormer, one.name().to_string()));
    for (form, encoding) in forms.into_iter().chain(encodings) {
        let settings = Settings {
            form,
            encoding: encoding.clone(),
            lr: 5e-3,
            dropout: 0.0,
            accumulate: 1,
            steps: 40,
            warmup: 5,
            ..small()
        };
        let mut trainer = Trainer::new(&settings, Data::from_text(&numbered()).unwrap()).unwrap();
        let before = trainer.evaluate().unwrap().unwrap().loss;
        let tokens = trainer.data().vocabulary().tokens();
        // About the logarithm of the vocabulary at first.
        assert!((before - (tokens as f64).ln()).abs() < 1.0, "{encoding}: {before}");
        while trainer.steps() < settings.steps {
            assert!(trainer.step().unwrap().is_finite());
        }
        let after = trainer.evaluate().unwrap().unwrap().loss;
        assert!(after < before - 0.7, "{form:?}, {encoding}: from {before} to {after}");
    }
}

#[test]
fn the_model_reads_and_writes_every_character() {
    let folder = Folder::new("hand-over");
    let data = request(folder.put("text", text().as_bytes()));
    for form in FormName::ALL {
        let out = folder.0.join(form.name());
        let settings = Settings { form, lr: 3e-3, min_lr: 3e-4, steps: 60, dropout: 0.0, ..small() };
        let mut run = begin(&out, &settings, &data).unwrap();
        run.go(go_on).unwrap();
        let tokenizer = Tokenizer::load(out.join("best")).unwrap();
        let original = text();
        let ids = tokenizer.encode(&original).unwrap().ids;
        assert_eq!(ids, run.trainer().data().ids().collect::<Vec<_>>());
        assert_eq!(tokenizer.decode(&ids), original);
        assert_eq!(tokenizer.encode("Ω").unwrap().ids, [tokenizer.unk_id().unwrap()]);
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let how = Generate { max_tokens: 40, ..Generate::default() };
        let written = pipeline.generate("The quick", &how, |_| {}).unwrap();
        assert!(written.contains(' ') && written.chars().count() >= 30, "{written}");
    }
}

/// The loss that the loaded model gives is the trained one's, for every encoding and attention that can be trained: no
/// transposed weight, no other pairing, no other table.
#[test]
fn the_loaded_model_has_the_loss_of_the_trained_one() {
    let folder = Folder::new("same-loss");
    let data = request(folder.put("text", numbered().as_bytes()));
    let mut settings = Vec::new();
    for form in FormName::ALL {
        for encoding in Encoding::all() {
            let one = Settings { form, encoding: encoding.label(), eval_batches: 1000, ..small() };
            for features in Features::ALL.into_iter().filter(|_| encoding.check_linear().is_ok()) {
                settings.push(Settings { attention: Attention::Linear, features, steps: 2, ..one.clone() });
            }
            let steps = if encoding.name() == "rotary" { one.steps } else { 2 };
            settings.push(Settings { steps, ..one });
        }
    }
    for (number, settings) in settings.iter().enumerate() {
        let out = folder.0.join(number.to_string());
        let mut run = begin(&out, settings, &data).unwrap();
        run.go(go_on).unwrap();
        let trained = run.last().unwrap().loss;
        let model = roformer::model::Model::load(out.join("last")).unwrap();
        let ids: Vec<u32> = run.trainer().data().ids().collect();
        let kept = &ids[ids.len() - (ids.len() as f64 * settings.validation).round() as usize..];
        let (mut sum, mut count) = (0.0, 0.0);
        for start in (0..kept.len() - settings.block).step_by(settings.block) {
            let block = &kept[start..start + settings.block];
            let input = roformer::model::Input { ids: block, batch: 1, token_types: None, mask: None };
            let scores = model.forward(&input).unwrap().logits.unwrap().scores;
            for (row, scores) in scores.chunks(model.blueprint().vocabulary).enumerate() {
                let total: f64 = scores.iter().map(|&x| f64::from(x).exp()).sum();
                sum += total.ln() - f64::from(scores[kept[start + row + 1] as usize]);
                count += 1.0;
            }
        }
        assert!((sum / count - trained).abs() < 1e-5, "{settings:?}: {} but {trained}", sum / count);
    }
}

/// A model with another encoding has a type of its own, and writes here as any other does.
#[test]
fn a_model_with_another_encoding_writes() {
    let folder = Folder::new("encodings");
    let data = request(folder.put("text", text().as_bytes()));
    for (encoding, attention) in [("alibi", Attention::Softmax), ("learned", Attention::Linear)] {
        let out = folder.0.join(encoding);
        let settings = Settings { encoding: encoding.into(), attention, steps: 2, ..small() };
        begin(&out, &settings, &data).unwrap().go(go_on).unwrap();
        let config: Value = serde_json::from_slice(&fs::read(out.join("last/config.json")).unwrap()).unwrap();
        assert_eq!(config["position_encoding"], encoding);
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let how = Generate { max_tokens: settings.block - 4, ..Generate::default() };
        assert!(!pipeline.generate("The", &how, |_| {}).unwrap().is_empty());
    }
}

/// Digits are those of the vocabulary, which a folder keeps; without any there is no such encoding.
#[test]
fn encodings_by_digits_ask_the_vocabulary() {
    let folder = Folder::new("digits");
    let data = request(folder.put("text", "31+22=53;\n4+5=9;\n".repeat(60).as_bytes()));
    for name in ["abacus", "coupled"] {
        let out = folder.0.join(name);
        let settings = Settings { encoding: name.into(), lr: 3e-3, steps: 30, dropout: 0.0, ..small() };
        begin(&out, &settings, &data).unwrap().go(go_on).unwrap();
        let config: Value = serde_json::from_slice(&fs::read(out.join("last/config.json")).unwrap()).unwrap();
        // The characters in order are a line end, +, the digits 1 to 5 and 9, ; and =, after five special tokens.
        assert_eq!(config["position_encoding"], format!("{name}:digits=7-12"));
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let how = Generate { max_tokens: 9, ..Generate::default() };
        assert!(!pipeline.generate("31+2", &how, |_| {}).unwrap().is_empty());
        // A checkpoint goes on with its digits.
        let start = Start::Checkpoint(out.join("last"));
        let again = folder.0.join(format!("{name}-again"));
        let settings = Settings { steps: 2, ..settings };
        let run = Run::begin(&again, &settings, &start, &data, |_| {});
        assert_eq!(
            run.unwrap().trainer().network().blueprint.encoding.label(),
            format!("{name}:digits=7-12")
        );
        let without = request(folder.put("words", text().as_bytes()));
        let refused = begin(&folder.0.join("refused"), &settings, &without).err().unwrap().to_string();
        assert!(refused.contains(name) && refused.contains("without digits"), "{refused}");
    }
}

/// Sentences of two kinds, that a model can tell apart by their words.
fn labelled(pairs: bool) -> String {
    let line = |index: usize| {
        let (word, label) = if index.is_multiple_of(2) { ("sunny", "good") } else { ("rainy", "bad") };
        let pair = if pairs { format!(", \"pair\": \"at noon {index}\"") } else { String::new() };
        format!("{{\"text\": \"day {index} was {word}\", \"label\": \"{label}\"{pair}, \"more\": 1}}\n")
    };
    (0..60).map(line).collect()
}

#[test]
fn a_classifier_is_trained_and_used() {
    let folder = Folder::new("classify");
    for (pairs, form) in [(false, FormName::RoFormer), (true, FormName::RoFormer), (false, FormName::Llama)] {
        let data = request(folder.put("days.jsonl", labelled(pairs).as_bytes()));
        let out = folder.0.join(format!("out-{pairs}-{}", form.name()));
        let settings = Settings {
            goal: Goal::Classification,
            form,
            block: 40,
            batch: 8,
            steps: 60,
            lr: 3e-3,
            min_lr: 3e-4,
            dropout: 0.0,
            accumulate: 1,
            validation: 0.2,
            eval_every: 20,
            ..small()
        };
        let mut run = begin(&out, &settings, &data).unwrap();
        let mut accuracy = None;
        run.go(|event| {
            if let Event::Evaluation { found, .. } = event {
                accuracy = found.accuracy;
            }
            go_on(event)
        })
        .unwrap();
        assert_eq!(accuracy, Some(1.0), "{pairs} {form:?}");
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let best = |text: &str| match pairs {
            true => pipeline.classify_pairs(&[(text, "at noon 3")]).remove(0).unwrap().remove(0),
            false => pipeline.classify(text).unwrap().remove(0),
        };
        for (word, label) in [("sunny", "good"), ("rainy", "bad")] {
            let found = best(&format!("day 7 was {word}"));
            assert_eq!(found.label, label, "{pairs} {found:?}");
        }
    }
}

#[test]
fn a_folder_for_each_label_is_a_data_set() {
    let folder = Folder::new("folders-of-labels");
    for (label, word) in [("bad", "rainy"), ("good", "sunny")] {
        fs::create_dir_all(folder.0.join("days").join(label)).unwrap();
        for index in 0..5 {
            folder.put(&format!("days/{label}/{index}.txt"), format!("day {index} was {word}").as_bytes());
        }
    }
    folder.put("days/good/.hidden.txt", b"\xff");
    folder.put("days/good/picture.png", b"\xff");
    let settings = Settings { goal: Goal::Classification, block: 24, validation: 0.0, ..small() };
    let run = begin(&folder.0.join("out"), &settings, &request(folder.0.join("days"))).unwrap();
    assert_eq!(run.trainer().data().labels(), ["bad", "good"]);
    assert_eq!(run.trainer().data().rows(), 10);
}

#[test]
fn a_masked_model_hides_whole_words_and_fills_them() {
    let folder = Folder::new("masked");
    let data = Request {
        tokenizer: Some(Choice::WordPiece(120)),
        ..request(
            folder
                .put("text", "今天天气很好，我们去公园散步。 whole words stay whole\n".repeat(60).as_bytes()),
        )
    };
    let out = folder.0.join("out");
    let settings = Settings {
        goal: Goal::Masked,
        block: 32,
        batch: 8,
        steps: 400,
        lr: 5e-3,
        min_lr: 5e-4,
        dropout: 0.0,
        accumulate: 1,
        eval_every: 40,
        ..small()
    };
    let mut run = begin(&out, &settings, &data).unwrap();
    let before = run.best();
    run.go(go_on).unwrap();
    assert!(before.is_none() && run.best().unwrap().loss < 1.0, "{:?}", run.best());
    let pipeline = Pipeline::open(out.join("best")).unwrap();
    let guess = &pipeline.fill_mask("[MASK]很好，我们去公园散步。 whole words stay whole", 1).unwrap()[0];
    assert_eq!(guess.token, "今天天气");
}

/// Words of two Chinese characters and more become tokens, and stay tokens in what is handed over.
#[test]
fn chinese_words_are_pieces() {
    let folder = Folder::new("chinese-words");
    let text = "今天天气很好，我们去北京大学看书。\n他在北京大学工作，今天天气不好。\n".repeat(40);
    let request = Request {
        tokenizer: Some(Choice::WordPiece(200)),
        ..request(folder.put("text.txt", text.as_bytes()))
    };
    let settings = Settings { goal: Goal::Masked, steps: 5, ..small() };
    let out = folder.0.join("run");
    let mut run = begin(&out, &settings, &request).unwrap();
    assert_eq!(run.trainer().data().unknown().unknown, 0);
    run.go(go_on).unwrap();
    for place in ["tokenizer", "last"] {
        let tokenizer = Tokenizer::load(out.join(place)).unwrap();
        assert_eq!(tokenizer.kind(), Kind::RoFormer);
        let ids = tokenizer.encode_plain("今天天气很好").unwrap().ids;
        let tokens: Vec<_> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
        assert_eq!(tokens, ["今天天气", "很", "好"]);
    }
    // transformers reads words from there alone.
    assert!(out.join("last/tokenizer.json").is_file());
    drop(run);
    assert!(Run::resume(&out, &Map::new()).is_ok());
}

/// A tokenizer that is not the text's.
#[test]
fn unknown_text_is_counted() {
    let folder = Folder::new("unknown");
    let text = folder.put("text.txt", "a рус b с\n".repeat(40).as_bytes());
    folder.put("vocab.txt", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
    let request = Request { tokenizer: Some(Choice::Given(folder.0.join("vocab.txt"))), ..request(text) };
    let run = begin(&folder.0.join("run"), &Settings { goal: Goal::Masked, ..small() }, &request).unwrap();
    let unknown = run.trainer().data().unknown();
    assert_eq!(unknown.unknown, 80);
    assert!(unknown.warning().unwrap().starts_with("50 % of 160 tokens"), "{:?}", unknown.warning());
}

#[test]
fn padded_rows_learn_where_texts_end() {
    let folder = Folder::new("padded");
    let data = request(
        folder.put("lines.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"three\"}\n".repeat(30).as_bytes()),
    );
    for goal in [Goal::Causal, Goal::Masked] {
        let settings = Settings {
            goal,
            layout: Layout::Padded,
            steps: 300,
            lr: 5e-3,
            min_lr: 5e-4,
            dropout: 0.0,
            accumulate: 1,
            ..small()
        };
        let out = folder.0.join(goal.name());
        let mut run = begin(&out, &settings, &data).unwrap();
        run.go(go_on).unwrap();
        // Two texts: but for the first token all is known.
        assert!(run.best().unwrap().loss < 0.5, "{goal:?}: {:?}", run.best());
    }
}

#[test]
fn similar_texts_come_near_each_other() {
    let folder = Folder::new("similarity");
    let words = ["tree", "house", "river", "cloud", "stone", "bird", "road", "song"];
    let line = |index: usize, score: Option<f64>| {
        let (a, b) = (words[index % 8], words[(index + usize::from(score == Some(0.0))) % 8]);
        let score = score.map_or(String::new(), |score| format!(", \"score\": {score}"));
        format!("{{\"a\": \"the {a} {index}\", \"b\": \"{index} and a {b}\"{score}}}\n")
    };
    let contrastive: String = (0..64).map(|index| line(index, None)).collect();
    let scored: String = (0..64).flat_map(|index| [line(index, Some(1.0)), line(index, Some(0.0))]).collect();
    for (name, text) in [("contrastive", contrastive), ("scored", scored)] {
        let data = request(folder.put(&format!("{name}.jsonl"), text.as_bytes()));
        let settings = Settings {
            goal: Goal::Similarity,
            block: 24,
            batch: 8,
            steps: 150,
            lr: 3e-3,
            min_lr: 3e-4,
            dropout: 0.0,
            accumulate: 1,
            validation: 0.15,
            eval_every: 50,
            ..small()
        };
        let out = folder.0.join(name);
        let mut run = begin(&out, &settings, &data).unwrap();
        let mut losses = Vec::new();
        run.go(|event| {
            if let Event::Evaluation { found, .. } = event {
                losses.push(found.loss);
            }
            go_on(event)
        })
        .unwrap();
        assert!(losses[2] < losses[0], "{name}: {losses:?}");
        let pipeline = Pipeline::open(out.join("last")).unwrap();
        let (same, other) = (
            pipeline.similarity("the tree 5", "5 and a tree").unwrap(),
            pipeline.similarity("the tree 5", "60 and a song").unwrap(),
        );
        assert!(same > other + 0.2, "{name}: {same} and {other}");
    }
}

#[test]
fn a_checkpoint_is_where_another_run_begins() {
    let folder = Folder::new("from");
    let data = request(folder.put("text", text().as_bytes()));
    let first = folder.0.join("first");
    let settings =
        Settings { goal: Goal::Masked, dropout: 0.0, steps: 30, lr: 3e-3, min_lr: 3e-4, ..small() };
    let mut run = begin(&first, &settings, &data).unwrap();
    run.go(go_on).unwrap();
    let trained = run.last().unwrap().loss;
    let start = Start::Checkpoint(first.join("last"));
    let onto = |name: &str, settings: &Settings, data: &Request| {
        Run::begin(folder.0.join(name), settings, &start, data, |_| {})
    };
    // The same task goes on where it was: with its tokenizer, its sizes and its weights.
    let mut other =
        Settings { layers: 7, width: 64, lr: 1e-9, min_lr: 0.0, steps: 1, eval_every: 1, ..settings.clone() };
    let mut second = onto("second", &other, &data).unwrap();
    second.go(go_on).unwrap();
    assert!((second.last().unwrap().loss - trained).abs() < 1e-4);
    assert_eq!(second.trainer().settings().width, 32);
    // Another task keeps all but the head, and is resumed without the checkpoint.
    let labelled = request(folder.put("days.jsonl", labelled(false).as_bytes()));
    other = Settings { goal: Goal::Classification, block: 24, steps: 3, validation: 0.2, ..other };
    let mut third = onto("third", &other, &labelled).unwrap();
    let embeddings = |run: &Run| {
        let trainer = run.trainer();
        let entry = trainer.layout().entries().iter().find(|entry| entry.name.contains("word_embeddings"));
        trainer.parameters()[entry.unwrap().range.clone()].to_vec()
    };
    assert_eq!(embeddings(&third), embeddings(&run));
    third.go(crate::common::until(1)).unwrap();
    drop(third);
    fs::remove_dir_all(&first).unwrap();
    let mut third = Run::resume(folder.0.join("third"), &Map::new()).unwrap();
    assert_eq!(third.go(go_on).unwrap(), End::Finished);
    // A classifier keeps its labels: others are out of range.
    let wrong = request(folder.put(
        "wrong.jsonl",
        b"{\"text\": \"a\", \"label\": \"good\"}\n{\"text\": \"b\", \"label\": \"odd\"}\n",
    ));
    let start = Start::Checkpoint(folder.0.join("third/last"));
    let error =
        Run::begin(folder.0.join("fourth"), &other, &start, &wrong, |_| {}).err().unwrap().to_string();
    assert!(
        error.contains("wrong.jsonl: line 2: the label odd is out of range") && error.contains("bad, good"),
        "{error}"
    );
}

#[test]
fn a_config_file_gives_the_sizes() {
    let folder = Folder::new("config");
    let data = request(folder.put("text", text().as_bytes()));
    let path = folder.put(
        "config.json",
        br#"{"model_type": "llama", "vocab_size": 100, "hidden_size": 48, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40, "rope_theta": 500.0}"#,
    );
    let settings = Settings { steps: 2, ..small() };
    let out = folder.0.join("out");
    let mut run = Run::begin(&out, &settings, &Start::Config(path.clone()), &data, |_| {}).unwrap();
    assert_eq!(
        (run.trainer().network().blueprint.width, run.trainer().network().blueprint.key_heads),
        (48, 2)
    );
    run.go(go_on).unwrap();
    assert!(Pipeline::open(out.join("last")).is_ok());
    // A vocabulary that the text does not fit.
    fs::write(&path, fs::read_to_string(&path).unwrap().replace("100", "10")).unwrap();
    let error = Run::begin(folder.0.join("b"), &settings, &Start::Config(path), &data, |_| {}).err().unwrap();
    assert!(error.to_string().contains("vocabulary"), "{error}");
}

#[test]
fn models_side_by_side_have_the_bits_that_they_have_alone() {
    let train = |seed: u64| {
        let settings = Settings { seed, steps: 4, ..small() };
        let mut trainer = Trainer::new(&settings, Data::from_text(&text()).unwrap()).unwrap();
        while trainer.steps() < 4 {
            trainer.step().unwrap();
        }
        trainer.parameters().to_vec()
    };
    let together = on_threads(3, || side_by_side(vec![1, 2, 3, 4, 5], train));
    for (seed, parameters) in (1..).zip(together) {
        assert!(parameters == train(seed), "{seed}");
    }
    assert!(side_by_side(Vec::<u64>::new(), train).is_empty());
}

/// The letter that follows is written of a letter: only attention to what was read can tell it.
#[test]
fn one_text_is_written_of_another() {
    let folder = Folder::new("sequences");
    let letters: Vec<char> = ('a'..='n').collect();
    let next = |index: usize| letters[(index + 1) % letters.len()];
    let line =
        |index: usize| format!("{{\"source\": \"{}\", \"target\": \"{}\"}}\n", letters[index], next(index));
    let text: String = (0..letters.len()).map(line).collect();
    let data = request(folder.put("next.jsonl", text.as_bytes()));
    let start = Start::Checkpoint(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/families/tiny-t5"),
    );
    let settings = Settings {
        goal: Goal::Sequences,
        block: 5,
        batch: 14,
        steps: 400,
        lr: 2e-2,
        min_lr: 1e-3,
        dropout: 0.0,
        accumulate: 1,
        validation: 0.0,
        weight_decay: 0.0,
        ..small()
    };
    let out = folder.0.join("out");
    let mut run = Run::begin(&out, &settings, &start, &data, |_| {}).unwrap();
    let mut last = f64::NAN;
    run.go(|event| {
        if let Event::Step { loss, .. } = event {
            last = loss;
        }
        go_on(event)
    })
    .unwrap();
    assert!(last < 0.05, "{last}");
    let config: Value = serde_json::from_slice(&fs::read(out.join("last/config.json")).unwrap()).unwrap();
    assert_eq!(config["architectures"][0], "T5ForConditionalGeneration");
    let pipeline = Pipeline::open(out.join("last")).unwrap();
    let how = Generate { max_tokens: 4, temperature: 0.0, ..Generate::default() };
    for (index, letter) in letters.iter().enumerate() {
        let written = pipeline.generate(&letter.to_string(), &how, |_| {}).unwrap();
        assert_eq!(written, next(index).to_string(), "of {letter}");
    }
    // Stopped and resumed it ends with the same bytes.
    let settings = Settings { steps: 20, validation: 0.3, dropout: 0.1, accumulate: 2, batch: 3, ..settings };
    let [straight, broken] = ["straight", "broken"].map(|name| folder.0.join(name));
    Run::begin(&straight, &settings, &start, &data, |_| {}).unwrap().go(go_on).unwrap();
    let mut run = Run::begin(&broken, &settings, &start, &data, |_| {}).unwrap();
    assert_eq!(run.go(crate::common::until(9)).unwrap(), End::Stopped);
    drop(run);
    on_threads(1, || Run::resume(&broken, &Map::new()).unwrap().go(go_on).unwrap());
    assert_eq!(crate::common::files(&straight), crate::common::files(&broken));
    assert_eq!(crate::common::metrics(&straight), crate::common::metrics(&broken));
}

#[test]
fn sequences_that_cannot_be_are_refused() {
    let folder = Folder::new("no-sequences");
    let t5 = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/families/tiny-t5");
    let settings = Settings { goal: Goal::Sequences, block: 5, steps: 1, validation: 0.0, ..small() };
    let good = folder.put("good.jsonl", b"{\"source\": \"a b\", \"target\": \"c\"}\n");
    let says = |settings: &Settings, start: &Start, data: std::path::PathBuf, words: &[&str]| {
        let error = Run::begin(folder.0.join("out"), settings, start, &request(data), |_| {}).err();
        let said = error.unwrap().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    };
    let start = Start::Checkpoint(t5);
    for (name, text, words) in [
        ("a.jsonl", "{\"source\": \"a\"}\n", ["line 1", "no `target`"]),
        (
            "b.jsonl",
            "{\"source\": \"a\", \"target\": \"b\"}\n{\"target\": \"b\"}\n",
            ["line 2", "no `source`"],
        ),
        ("c.jsonl", "{\"source\": [1], \"target\": \"b\"}\n", ["line 1", "`source` is not a string"]),
        ("d.jsonl", "{\"source\": \" \", \"target\": \"b\"}\n", ["line 1", "without any token"]),
        ("e.txt", "a b\n", ["text file", "`source` and `target`"]),
    ] {
        says(&settings, &start, folder.put(name, text.as_bytes()), &words);
    }
    says(&Settings { block: 2, ..settings.clone() }, &start, good.clone(), &["block", "at least"]);
    // Other tasks for a T5, and this one for other models.
    let text = folder.put("text.txt", text().as_bytes());
    for goal in [Goal::Causal, Goal::Masked] {
        says(&Settings { goal, ..settings.clone() }, &start, text.clone(), &["task", "t5", "sequences"]);
    }
    says(&settings, &Start::Scratch, good.clone(), &["task", "sequences, for a roformer", "T5"]);
    let llama = folder.put(
        "llama.json",
        br#"{"model_type": "llama", "vocab_size": 100, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}"#,
    );
    says(&settings, &Start::Config(llama), good, &["task", "sequences, for a llama", "T5"]);
}
