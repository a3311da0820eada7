//! Text in, answers out, on the small models in `examples/models`.

#[path = "common/words.rs"]
mod words;

use roformer::model::{Call, Input};
use roformer::ops::{Cpu, Precision};
use roformer::pipeline::{Embed, Generate, Pooling, cosine};
use roformer::{Pipeline, Result};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn open(name: &str) -> Pipeline {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/models").join(name);
    Pipeline::open(folder).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Texts of very different lengths, in no order.
fn texts() -> Vec<String> {
    let parts = ["今天天气很好。", "我喜欢北京", "", "小明住在上海，他喜欢看书。", "hello ", "好", "🦀"];
    (0..60).map(|i| parts[i % parts.len()].repeat(1 + (i * 7 + 3) % 13)).collect()
}

/// Numbers that differ by the order of sums alone.
fn near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-5 * a.abs().max(1.0))
}

fn refused<T>(result: Result<T>, words: &[&str]) {
    let message = result.err().unwrap_or_else(|| panic!("accepted where {words:?} was expected")).to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{words:?} in: {message}");
}

#[test]
fn many_texts_give_what_each_gives_alone_in_their_order() {
    let texts = texts();
    for (model, pooling) in [
        ("tiny-mlm", None),
        ("tiny-mlm", Some(Pooling::Cls)),
        ("tiny-sim", None),
        ("tiny-v2", Some(Pooling::Mean)),
        ("tiny-classifier", None),
    ] {
        let pipeline = open(model);
        let options = Embed { pooling, normalize: pooling.is_none(), ..Embed::default() };
        let all = pipeline.embed_all(&texts, options);
        assert_eq!(all.len(), texts.len());
        for (text, vector) in texts.iter().zip(all) {
            let (vector, alone) = (vector.unwrap(), pipeline.embed(text, options).unwrap());
            assert!(near(&vector, &alone), "{model}: {text}");
            let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            assert!(!options.normalize || (length - 1.0).abs() < 1e-6);
        }
    }
    let pipeline = open("tiny-classifier");
    for (text, labels) in texts.iter().zip(pipeline.classify_all(&texts)) {
        let alone = pipeline.classify(text).unwrap();
        for (a, b) in labels.unwrap().iter().zip(&alone) {
            assert!(a.label == b.label && near(&[a.score], &[b.score]), "{text}: {a:?} {b:?}");
        }
    }
    let pipeline = open("tiny-ner");
    for (text, labels) in texts.iter().zip(pipeline.classify_tokens_all(&texts)) {
        let (labels, alone) = (labels.unwrap(), pipeline.classify_tokens(text).unwrap());
        assert_eq!(labels.len(), alone.len());
        let same = |a: &str, b: &str, x: f32, y: f32| a == b && near(&[x], &[y]);
        assert!(labels.iter().zip(&alone).all(|(a, b)| same(&a.label, &b.label, a.score, b.score)), "{text}");
    }
    let pipeline = open("tiny-mlm");
    let masked: Vec<String> = texts.iter().map(|text| format!("{text}[MASK]很好")).collect();
    for (text, guesses) in masked.iter().zip(pipeline.fill_mask_all(&masked, 7)) {
        let (guesses, alone) = (guesses.unwrap(), pipeline.fill_mask(text, 7).unwrap());
        assert_eq!(guesses.len(), 7);
        let scores = |guesses: &[roformer::pipeline::Guess]| {
            guesses.iter().map(|guess| guess.score).collect::<Vec<_>>()
        };
        assert!(near(&scores(&guesses), &scores(&alone)), "{text}");
    }
    let pipeline = open("tiny-qa");
    let questions: Vec<(String, String)> =
        texts.iter().map(|text| ("小明住在哪里？".into(), format!("{text}小明住在北京。"))).collect();
    for ((question, context), answer) in questions.iter().zip(pipeline.answer_all(&questions)) {
        let (answer, alone) = (answer.unwrap(), pipeline.answer(question, context).unwrap());
        assert!(answer.text == alone.text && near(&[answer.score], &[alone.score]), "{context}");
        assert_eq!(answer.text, context[answer.start..answer.end]);
    }
}

/// What a text gets does not depend on the threads, to the bit.
#[test]
fn one_and_two_threads_give_the_same_bits() {
    let (pipeline, texts) = (open("tiny-sim"), texts());
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let vectors: Vec<Vec<f32>> =
                pipeline.embed_all(&texts, Embed::default()).into_iter().map(Result::unwrap).collect();
            (vectors, pipeline.paraphrase("广州和深圳哪个好？", 4, &Generate::default()).unwrap())
        })
    };
    assert!(run(1) == run(2));
}

#[test]
fn the_small_models_know_what_they_were_taught() {
    let guesses = open("tiny-mlm").fill_mask("今天[MASK]很好。", 3).unwrap();
    assert_eq!((guesses[0].token.as_str(), guesses[0].text.as_str()), ("天气", "今天天气很好。"));
    assert!(guesses.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let labels = open("tiny-classifier").classify("这部电影很好看。").unwrap();
    assert!(labels[0].label == "正面" && labels.iter().map(|label| label.score).sum::<f32>() > 0.999);
    assert_eq!(
        open("tiny-qa").answer("小明住在哪里？", "小明住在北京。小红住在上海。").unwrap().text,
        "北京"
    );
    let sim = open("tiny-sim");
    let ranked = sim.rank("广州和深圳哪个好？", &["北京和上海哪个好？", "深圳和广州哪个比较好？"]).unwrap();
    assert_eq!((ranked[0].index, ranked.len()), (1, 2));
    assert!((sim.similarity("今天天气很好", "今天天气很好").unwrap() - 1.0).abs() < 1e-6);
}

/// Probabilities are those of the model's scores at the mask.
#[test]
fn guesses_have_the_probabilities_of_the_scores() {
    let pipeline = open("tiny-v2");
    let text = "今天天[MASK]很好。";
    let encoding = pipeline.tokenizer().encode(text).unwrap();
    let mask = encoding.ids.iter().position(|&id| Some(id) == pipeline.tokenizer().mask_id()).unwrap();
    let input = Input { ids: &encoding.ids, batch: 1, token_types: None, mask: None };
    let logits = pipeline.model().forward(&input).unwrap().logits.unwrap();
    let row = &logits.scores[mask * logits.shape[2]..][..logits.shape[2]];
    let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
    let guesses = pipeline.fill_mask(text, row.len() + 5).unwrap();
    assert_eq!(guesses.len(), row.len());
    for guess in guesses {
        let wanted = f64::from(row[guess.id as usize]).exp() / total;
        assert!((f64::from(guess.score) - wanted).abs() < 1e-5, "{guess:?}: {wanted}");
    }
}

/// The likeliest token again and again, without a cache: what `generate` gives at temperature 0.
#[test]
fn generation_is_reading_everything_again_for_every_token() {
    for (model, text) in
        [("tiny-gpt", "今天"), ("tiny-sim", "广州和深圳哪个好？"), ("tiny-sim", "我喜欢北京")]
    {
        let pipeline = open(model);
        let tokenizer = pipeline.tokenizer();
        let is_sim = pipeline.model().blueprint().is_unilm();
        let mut ids = tokenizer.encode(text).unwrap().ids;
        if !is_sim {
            ids.pop();
        }
        let (source, mut written) = (ids.len(), Vec::new());
        let vocabulary = pipeline.model().blueprint().vocabulary;
        let barred = [tokenizer.pad_id(), tokenizer.cls_id(), tokenizer.mask_id(), tokenizer.unk_id()];
        while written.len() < 20 {
            let types: Vec<u32> = (0..ids.len()).map(|i| u32::from(is_sim && i >= source)).collect();
            let input = Input { ids: &ids, batch: 1, token_types: Some(&types), mask: None };
            let prefix = [source];
            let call = Call { prefix: is_sim.then_some(&prefix), ..Call::default() };
            let scores = pipeline.model().call(&input, call).unwrap().logits.unwrap().scores;
            let last = &scores[scores.len() - vocabulary..];
            let allowed = (0..vocabulary).filter(|&id| !barred.contains(&Some(id as u32)));
            let best = allowed.max_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap() as u32;
            if Some(best) == tokenizer.sep_id() {
                break;
            }
            ids.push(best);
            written.push(best);
        }
        let greedy = Generate { temperature: 0.0, max_tokens: 20, ..Generate::default() };
        let mut streamed = String::new();
        let whole = pipeline.generate(text, &greedy, |new| streamed.push_str(new)).unwrap();
        assert_eq!(whole, tokenizer.decode(&written), "{model}: {text}");
        assert!(whole == streamed && !whole.is_empty(), "{model}: {whole} streamed as {streamed}");
    }
}

#[test]
fn a_seed_gives_its_text() {
    let pipeline = open("tiny-gpt");
    let write = |seed| pipeline.generate("我", &Generate { seed, ..Generate::default() }, |_| {}).unwrap();
    assert_eq!(write(5), write(5));
    assert!((0..10).map(write).collect::<HashSet<_>>().len() > 1);
    let none = Generate { max_tokens: 0, ..Generate::default() };
    assert_eq!(pipeline.generate("我", &none, |_| {}).unwrap(), "");
    let short = Generate { max_tokens: 2, temperature: 0.0, ..Generate::default() };
    assert_eq!(pipeline.generate("我", &short, |_| {}).unwrap().chars().count(), 2);
}

/// Texts that are continued together are what each is alone; one that cannot be used spoils no other.
#[test]
fn many_texts_are_continued_as_each_alone() {
    let options = Generate { max_tokens: 20, temperature: 1.2, ..Generate::default() };
    for (name, others) in [
        ("tiny-gpt", ["我们", "今天", "苹果"]),
        ("tiny-sim", ["苹果多少钱？", "广州在哪里？", "我们去吃饭。"]),
    ] {
        let mut texts: Vec<&str> = others.repeat(7);
        texts.extend(["我", "广州和深圳哪个好？", "一二三四五六七八九十"]);
        for precision in [Precision::F32, Precision::Bf16] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models").join(name);
            let pipeline = Pipeline::open_on(Cpu { precision }, folder).unwrap();
            let all = pipeline.generate_all(&texts, &options);
            assert_eq!(all.len(), texts.len());
            for (text, got) in texts.iter().zip(all) {
                let alone = pipeline.generate(text, &options, |_| {}).unwrap();
                assert_eq!(got.unwrap(), alone, "{name} {precision:?}: {text}");
            }
        }
    }
    let gpt = open("tiny-gpt");
    assert!(gpt.generate_all(&[] as &[&str], &options).is_empty());
    let long = "我".repeat(70_000);
    let results = gpt.generate_all(&["我们", &long, "今天"], &options);
    assert_eq!(results.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let none = open("tiny-mlm").generate_all(&["我们", "今天"], &options);
    assert!(none.len() == 2 && none.iter().all(Result::is_err));
}

#[test]
fn who_listens_may_break() {
    let pipeline = open("tiny-gpt");
    let greedy = Generate { temperature: 0.0, max_tokens: 20, ..Generate::default() };
    let whole = pipeline.generate("我", &greedy, |_| {}).unwrap();
    let mut pieces = Vec::new();
    let part = pipeline.generate_while("我", &greedy, |piece| {
        pieces.push(piece.to_string());
        if pieces.len() == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((part.unwrap(), pieces.len()), (pieces.concat(), 3));
    assert!(whole.starts_with(&pieces.concat()) && whole.len() > pieces.concat().len());
}

#[test]
fn paraphrases_are_different_texts_by_nearness() {
    let pipeline = open("tiny-sim");
    let text = "广州和深圳哪个好？";
    let paraphrases = pipeline.paraphrase(text, 5, &Generate::default()).unwrap();
    assert!((1..=5).contains(&paraphrases.len()));
    let distinct: HashSet<&str> = paraphrases.iter().map(|paraphrase| paraphrase.text.as_str()).collect();
    assert!(distinct.len() == paraphrases.len() && !distinct.contains(text));
    assert!(paraphrases.windows(2).all(|pair| pair[0].score >= pair[1].score));
    let original = pipeline.embed(text, Embed::default()).unwrap();
    for paraphrase in &paraphrases {
        let vector = pipeline.embed(&paraphrase.text, Embed::default()).unwrap();
        assert!((cosine(&original, &vector) - paraphrase.score).abs() < 1e-5);
    }
    assert!(pipeline.paraphrase(text, 0, &Generate::default()).unwrap().is_empty());
}

#[test]
fn what_a_model_cannot_do_it_refuses_by_name() {
    let (mlm, classifier, gpt) = (open("tiny-mlm"), open("tiny-classifier"), open("tiny-gpt"));
    let options = Generate::default();
    refused(classifier.fill_mask("[MASK]", 1), &["fill-mask", "classifies texts", "masked language model"]);
    refused(gpt.fill_mask("[MASK]", 1), &["fill-mask", "causal"]);
    refused(mlm.classify("好"), &["classify", "RoFormerForSequenceClassification"]);
    refused(mlm.classify_tokens("好"), &["RoFormerForTokenClassification"]);
    refused(mlm.answer("a", "b"), &["answer", "RoFormerForQuestionAnswering"]);
    refused(mlm.generate("a", &options, |_| {}), &["generate", "RoFormerForCausalLM"]);
    refused(gpt.paraphrase("a", 3, &options), &["paraphrases", "RoFormer-Sim"]);
    let pooler = Embed { pooling: Some(Pooling::Pooler), ..Embed::default() };
    refused(mlm.embed("好", pooler), &["pooler", "cls or mean"]);
    refused(Pipeline::load("no such model"), &["no such model"]);
}

#[test]
fn texts_that_do_not_fit_the_task_are_refused_and_spoil_no_other() {
    let mlm = open("tiny-mlm");
    let results = mlm.fill_mask_all(&["没有", "一[MASK]", "[MASK]二[MASK]", "", "三[MASK]"], 2);
    let kinds: Vec<bool> = results.iter().map(Result::is_ok).collect();
    assert_eq!(kinds, [false, true, false, false, true]);
    refused(mlm.fill_mask("没有", 1), &["without a mask", "exactly one [MASK]"]);
    refused(mlm.fill_mask("[MASK][MASK]", 1), &["masks is 2", "exactly one [MASK]"]);
    assert!(mlm.fill_mask_all(&[] as &[&str], 2).is_empty());
    assert!(mlm.fill_mask("[MASK]", 0).unwrap().is_empty());
    refused(open("tiny-qa").answer("小明住在哪里？", ""), &["the context", "without tokens"]);

    let gpt = open("tiny-gpt");
    for temperature in [-1.0, f32::NAN, f32::INFINITY] {
        let options = Generate { temperature, ..Generate::default() };
        refused(gpt.generate("我", &options, |_| {}), &["temperature"]);
    }
    for top_p in [0.0, -0.5, 1.5, f32::NAN] {
        refused(gpt.generate("我", &Generate { top_p, ..Generate::default() }, |_| {}), &["top_p"]);
    }
    let endless = Generate { max_tokens: usize::MAX, ..Generate::default() };
    refused(gpt.generate("我", &endless, |_| {}), &["memory", "cache"]);
}

#[test]
fn long_texts_are_cut_where_asked_and_refused_where_absurd() {
    let long = "好".repeat(70_000);
    refused(open("tiny-v2").embed(&long, Embed::default()), &["70002", "65536", "set `max_tokens`"]);
    let cut = open("tiny-v2").max_tokens(12);
    let (a, b) =
        (cut.embed(&long, Embed::default()).unwrap(), cut.embed(&"好".repeat(10), Embed::default()).unwrap());
    assert!(near(&a, &b), "cut to ten characters between [CLS] and [SEP]");
}

/// A decoder with a tokenizer of its own: it continues texts and gives vectors; other tasks are refused.
#[test]
fn a_decoder_continues_texts() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("decoder-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../golden/decoder/tiny-llama");
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(golden.join(file), folder.join(file)).unwrap();
    }
    std::fs::write(folder.join("tokenizer.json"), words::tokenizer(40)).unwrap();
    let pipeline = Pipeline::open(&folder).unwrap();
    let options = Generate { max_tokens: 6, temperature: 0.0, ..Generate::default() };
    let mut pieces = String::new();
    let text = pipeline.generate("w3 w14 w15 w9", &options, |piece| pieces.push_str(piece)).unwrap();
    assert_eq!(text, pieces);

    // The same tokens without a cache.
    let mut ids = vec![3, 14, 15, 9];
    for _ in 0..6 {
        let input = Input { ids: &ids, batch: 1, token_types: None, mask: None };
        let scores = pipeline.model().forward(&input).unwrap().logits.unwrap().scores;
        let last = &scores[scores.len() - 40..];
        ids.push((0..40).max_by(|&a, &b| last[a as usize].total_cmp(&last[b as usize])).unwrap());
    }
    assert_eq!(text, pipeline.tokenizer().decode(&ids[4..]));

    assert_eq!(pipeline.embed("w1 w2", Embed::default()).unwrap().len(), 16);
    refused(pipeline.fill_mask("w1", 1), &["fill-mask", "causal language model"]);
    refused(pipeline.classify("w1"), &["classify", "causal language model"]);
    refused(pipeline.paraphrase("w1", 1, &options), &["RoFormer-Sim"]);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// As the documents say: few tokens where texts need no padding, more where there are many threads, and as many as are asked for.
#[test]
fn tokens_at_a_time_depend_on_threads_and_padding() {
    let at = |threads: usize, pipeline: &Pipeline| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| pipeline.tokens_at_a_time())
    };
    let packed = open("tiny-sim");
    assert!(packed.packs_texts());
    assert_eq!([1, 2, 8, 16, 32, 100].map(|threads| at(threads, &packed)), [512, 512, 512, 1024, 2048, 2048]);
    assert_eq!(at(2, &open("tiny-sim").one_by_one()), 2048);
    assert_eq!(at(100, &packed.batch_tokens(7)), 7);
}

/// Texts of several tasks wait together, and each becomes what it is alone, to the bit.
#[test]
fn what_was_read_waits_for_any_batch() {
    let (pipeline, texts) = (open("tiny-mlm"), texts());
    let reader = pipeline.reader();
    enum Done {
        Vector(Vec<f32>),
        Guesses(Vec<roformer::pipeline::Guess>),
    }
    let vectors = reader.embed_all(&texts, Embed::default()).into_iter();
    let mut pending: Vec<_> = vectors.map(|text| text.map(|text| text.map(Done::Vector))).collect();
    let masked = "今天[MASK]气很好";
    let guesses = reader.fill_mask_all(&[masked], 3).into_iter();
    pending.extend(guesses.map(|text| text.map(|text| text.map(Done::Guesses))));
    let mut done = pipeline.run_all(pending).into_iter();
    for text in &texts {
        let Some(Ok(Done::Vector(vector))) = done.next() else { panic!("no vector of {text}") };
        assert_eq!(vector, pipeline.embed(text, Embed::default()).unwrap(), "{text}");
    }
    let Some(Ok(Done::Guesses(guesses))) = done.next() else { panic!("no guesses") };
    assert_eq!(guesses, pipeline.fill_mask(masked, 3).unwrap());
}

#[test]
fn tokens_are_read_as_a_text_is() {
    let pipeline = open("tiny-mlm");
    let reader = pipeline.reader();
    let text = "今天天气很好，我喜欢北京。";
    let ids = pipeline.tokenizer().encode(text).unwrap().ids;
    let vectors = |pending| pipeline.run_all(pending).into_iter().map(Result::unwrap).collect::<Vec<_>>();
    let whole = pipeline.embed(text, Embed::default()).unwrap();
    assert_eq!(vectors(reader.embed_ids_all(&[&ids], Embed::default())), [whole]);
    // The end of a text, in place of its beginning, between the same special tokens.
    let front = vectors(reader.cut_to(5).cut_in_front().embed_all(&[text], Embed::default()));
    let kept = [&ids[..1], &ids[ids.len() - 4..]].concat();
    assert_eq!(front, vectors(reader.embed_ids_all(&[kept], Embed::default())));
    let tokens = pipeline.embed_tokens_all(&[text], roformer::pipeline::Prompt::Usual).remove(0).unwrap();
    assert_eq!(tokens.len(), ids.len());
    let cls = pipeline.embed(text, Embed { pooling: Some(Pooling::Cls), ..Embed::default() }).unwrap();
    assert_eq!(tokens[0], cls);
    let refusal = |ids: &[u32]| reader.embed_ids_all(&[ids], Embed::default()).remove(0).map(|_| ());
    refused(refusal(&[1, 1 << 20]), &["1048576", "vocabulary"]);
    refused(refusal(&[]), &["without tokens"]);
    refused(reader.judge_all("a", &["b"]).remove(0).map(|_| ()), &["masked", "cross-encoder"]);
}

#[test]
fn a_completion_says_how_many_tokens_it_has() {
    let pipeline = open("tiny-gpt");
    let options = Generate { max_tokens: 3, temperature: 0.0, ..Generate::default() };
    let three = pipeline.complete("今天", &options, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((three.tokens, three.has_ended), (3, false));
    assert_eq!(three.text, pipeline.generate("今天", &options, |_| {}).unwrap());
    let options = Generate { max_tokens: 200, ..options };
    let whole = pipeline.complete("今天", &options, |_| ControlFlow::Continue(())).unwrap();
    assert!(whole.has_ended && whole.tokens < 200, "{whole:?}");
    let stopped = pipeline.complete("今天", &options, |_| ControlFlow::Break(())).unwrap();
    assert!(!stopped.has_ended && stopped.tokens < whole.tokens, "{stopped:?}");
}
