//! The commands on texts as a user types them, on the small models in `examples/models`.

mod common;

use common::{Folder, json, lines, numbers, refused, roformer, succeeds};
use serde_json::Value;

const MLM: &str = "examples/models/tiny-mlm";
const V2: &str = "examples/models/tiny-v2";
const CLASSIFIER: &str = "examples/models/tiny-classifier";
const NER: &str = "examples/models/tiny-ner";
const QA: &str = "examples/models/tiny-qa";
const GPT: &str = "examples/models/tiny-gpt";
const SIM: &str = "examples/models/tiny-sim";

/// Texts of many lengths, in no order.
const MIXED: [&str; 6] = [
    "今天天气很好，我们去公园散步。",
    "",
    "the weather is very good today.",
    "小明",
    "床前明月光，疑是地上霜。举头望明月，低头思故乡。春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。",
    "我很喜欢北京。",
];

fn is_falling(scores: &[f64]) -> bool {
    scores.windows(2).all(|pair| pair[0] >= pair[1])
}

fn scores(list: &Value) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|item| item["score"].as_f64().unwrap()).collect()
}

#[test]
fn fill_mask() {
    let text = "今天[MASK]很好，我们去公园散步。";
    let out = succeeds(&["fill-mask", "--model", MLM, text, "中国的首都是[MASK]。", "--top-k", "3"]);
    assert!(out.contains("今天天气很好，我们去公园散步。"), "{out}");
    assert_eq!(out.lines().count(), 3 + 1 + 3, "an empty line between two texts: {out}");

    let object = json(&["fill-mask", "--model", MLM, text, "--json"]);
    let guesses = &object["guesses"];
    assert_eq!(guesses.as_array().unwrap().len(), 5);
    assert_eq!(
        (&guesses[0]["token"], &guesses[0]["text"]),
        (&"天气".into(), &"今天天气很好，我们去公园散步。".into())
    );
    assert!(guesses[0]["id"].is_u64() && is_falling(&scores(guesses)));
    let object = json(&["fill-mask", "--model", V2, "今天天[MASK]很好。", "--json", "--top-k", "1"]);
    assert_eq!(object["guesses"][0]["token"], "气");
}

#[test]
fn fill_mask_takes_one_mask() {
    let mask = |text: &str, says: &[&str]| refused(&["fill-mask", "--model", MLM, text], says);
    mask("没有", &["without a mask", "exactly one [MASK]"]);
    mask("[MASK][MASK]", &["2", "exactly one [MASK]"]);
    mask("", &["without a mask"]);
    refused(&["fill-mask", "--model", MLM, "[MASK]", "--top-k", "0"], &["--top-k", "0"]);
    let run = roformer(&["fill-mask", "--model", MLM, "[MASK]", "无", "[MASK]", "--top-k", "1"], b"");
    assert_eq!((run.code, run.out.lines().count()), (2, 1), "{}", run.error);
    assert!(run.error.starts_with("roformer: text 2: "), "{}", run.error);
}

#[test]
fn embed() {
    let out = succeeds(&["embed", "--model", SIM, "今天天气不错。", "\u{1b}[31m红"]);
    assert_eq!(out.lines().count(), 2);
    assert!(out.lines().all(|line| line.starts_with("[64]  norm ")) && !out.contains('\u{1b}'), "{out}");
    let embed = |model: &str, flags: &[&str]| {
        let object = json(&[&["embed", "--model", model, "--json", "今天天气不错。"], flags].concat());
        numbers(&object["embedding"])
    };
    let vector = embed(SIM, &[]);
    assert_eq!((vector.len(), &vector), (64, &embed(SIM, &["--pooling", "pooler"])));
    let [cls, mean] = ["cls", "mean"].map(|pooling| embed(SIM, &["--pooling", pooling]));
    assert!(vector != mean && vector != cls && cls != mean);
    assert_eq!(embed(MLM, &[]), embed(MLM, &["--pooling", "mean"]));
    let length = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>().sqrt();
    assert!((length(&embed(SIM, &["--normalize"])) - 1.0).abs() < 1e-5 && length(&vector) > 1.1);
    refused(&["embed", "--model", MLM, "--pooling", "pooler", "a"], &["pooler", "cls or mean"]);
    assert!(embed(SIM, &["--truncate", "4"]) != vector && embed(SIM, &["--truncate", "100"]) == vector);
    assert_eq!(embed(SIM, &["--threads", "1"]), vector);
}

#[test]
fn a_batch_is_what_each_text_is_alone() {
    let together = lines(&succeeds(&[&["embed", "--model", SIM, "--json"], &MIXED[..]].concat()));
    assert_eq!(together.len(), MIXED.len());
    for (text, object) in MIXED.iter().zip(&together) {
        let alone = numbers(&json(&["embed", "--model", SIM, "--json", text])["embedding"]);
        let together = numbers(&object["embedding"]);
        let near = alone.iter().zip(&together).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(near && alone.len() == together.len(), "{text}");
    }
}

#[test]
fn embed_writes_matrices() {
    let folder = Folder::new("embed");
    let expected: Vec<f32> = MIXED
        .iter()
        .flat_map(|text| numbers(&json(&["embed", "--model", SIM, "--json", text])["embedding"]))
        .map(|x| x as f32)
        .collect();
    let near = |bytes: &[u8]| {
        let found = bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        assert_eq!(bytes.len(), 4 * expected.len());
        assert!(found.zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
    };
    let npy = folder.path("v.npy");
    let out = succeeds(&[&["embed", "--model", SIM, "--output", &npy], &MIXED[..]].concat());
    assert!(out.contains("6 vectors of 64 numbers") && out.contains("v.npy"), "{out}");
    let bytes = std::fs::read(&npy).unwrap();
    assert!(bytes.starts_with(b"\x93NUMPY") && String::from_utf8_lossy(&bytes[..128]).contains("(6, 64)"));
    near(&bytes[128..]);

    let path = folder.path("v.safetensors");
    let object = json(&[&["embed", "--model", SIM, "--output", &path, "--json"], &MIXED[..]].concat());
    assert_eq!(object, serde_json::json!({"output": path, "shape": [6, 64]}));
    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensor = file.tensor("embeddings").unwrap();
    assert_eq!(tensor.shape(), [6, 64]);
    near(tensor.data());

    refused(&["embed", "--model", SIM, "--output", &folder.path("v.txt"), "a"], &["v.txt", ".npy"]);
    let run = roformer(
        &["embed", "--model", SIM, "--output", &npy, "--input", "-", "--keep-going"],
        b"a\n\xff\nb\n",
    );
    assert_eq!((run.code, run.error.lines().count()), (2, 2), "{}", run.error);
    let bytes = std::fs::read(&npy).unwrap();
    let row = |row: usize| f32::from_le_bytes(bytes[128 + 256 * row..][..4].try_into().unwrap());
    assert!(bytes.len() == 128 + 3 * 256 && row(1).is_nan() && !row(0).is_nan() && !row(2).is_nan());

    let run =
        roformer(&["embed", "--model", SIM, "--output", &folder.path("w.npy"), "--input", "-"], b"a\n\xff\n");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert_eq!(folder.names(), ["v.npy", "v.safetensors"], "nothing is left of one that was not finished");
}

#[test]
fn similarity() {
    let texts = ["苹果多少钱？", "苹果怎么卖？", "苹果多少钱？", "去机场怎么走？"];
    let out = succeeds(&[&["similarity", "--model", SIM], &texts[..]].concat());
    assert_eq!(out.lines().count(), 2);
    assert!(out.contains("苹果怎么卖？") && out.contains("去机场怎么走？"), "{out}");
    let found = lines(&succeeds(&[&["similarity", "--model", SIM, "--json"], &texts[..]].concat()));
    let [near, far] = [0, 1].map(|pair: usize| found[pair]["score"].as_f64().unwrap());
    assert!(near > far + 0.2 && near <= 1.000001, "{near} {far}");

    let run = roformer(
        &["similarity", "--model", SIM, "--json", "--input", "-"],
        "苹果多少钱？\t苹果怎么卖？\n无\n".as_bytes(),
    );
    assert_eq!(lines(&run.out), found[..1]);
    assert!(run.code == 2 && run.error.contains("line 2: ") && run.error.contains("tab"), "{}", run.error);
    refused(&["similarity", "--model", SIM, "a", "b", "c"], &["3 texts", "2 for each"]);
}

#[test]
fn rank() {
    let documents = ["去机场怎么走？", "苹果的价格是多少？", "今天天气不错。", "苹果的价格是多少？"];
    let base = ["rank", "--model", SIM, "苹果多少钱？"];
    let out = succeeds(&[&base[..], &documents].concat());
    let first: Vec<&str> = out.lines().take(2).collect();
    assert!(first[0].contains("text 2  苹果") && first[1].contains("text 4  苹果"), "{out}");

    let input = documents.map(|text| format!("{text}\n")).concat();
    let run = roformer(&[&base[..], &["--input", "-", "--json", "--top-k", "3"]].concat(), input.as_bytes());
    let found = lines(&run.out);
    assert_eq!(found.len(), 3, "{}", run.error);
    assert_eq!((&found[0]["line"], &found[1]["line"]), (&2.into(), &4.into()), "equal ones in their order");
    assert_eq!(found[0]["text"], documents[1]);
    assert!(is_falling(&scores(&found.into())));

    // More than a window, with the best at both ends.
    let mut input: Vec<String> =
        (0..2000).map(|i| format!("{{\"id\": {i}, \"text\": \"小明{i}\"}}\n")).collect();
    for place in [0, 1999] {
        input[place] = format!("{{\"id\": \"x{place}\", \"text\": \"苹果多少钱？\"}}\n");
    }
    let flags = ["--input", "-", "--jsonl", "--json", "--top-k", "2"];
    let found = lines(&roformer(&[&base[..], &flags].concat(), input.concat().as_bytes()).out);
    assert_eq!((&found[0]["id"], &found[1]["id"], found.len()), (&"x0".into(), &"x1999".into(), 2));

    refused(&["rank", "--model", SIM], &["QUERY"]);
    refused(&base, &["no text", "roformer rank"]);
}

#[test]
fn classify_texts() {
    let texts = ["这部电影很好看。", "服务员的态度很差。"];
    let out = succeeds(&[&["classify", "--model", CLASSIFIER], &texts[..]].concat());
    let found: Vec<&str> = out.lines().collect();
    assert!(found[0].starts_with("正面  ") && found[1].starts_with("负面  "), "{out}");
    assert!(found[1].ends_with(texts[1]));
    let objects = lines(&succeeds(&[&["classify", "--model", CLASSIFIER, "--json"], &texts[..]].concat()));
    for (object, label) in objects.iter().zip(["正面", "负面"]) {
        let labels = &object["labels"];
        assert_eq!((labels.as_array().unwrap().len(), &labels[0]["label"]), (2, &label.into()));
        assert!((scores(labels).iter().sum::<f64>() - 1.0).abs() < 1e-5 && is_falling(&scores(labels)));
    }
    let one = json(&["classify", "--model", CLASSIFIER, "--json", "--top-k", "1", texts[0]]);
    assert_eq!(one["labels"].as_array().unwrap().len(), 1);

    // With and without a second text in one window.
    let input = format!(
        "{{\"id\": 1, \"text\": \"{0}\"}}\n{{\"text\": \"{1}\", \"pair\": \"{1}\"}}\n{{\"id\": 3, \"text\": \"{1}\", \"pair\": null}}\n",
        texts[0], texts[1]
    );
    let run =
        roformer(&["classify", "--model", CLASSIFIER, "--input", "-", "--jsonl", "--json"], input.as_bytes());
    let found = lines(&run.out);
    let label = |index: usize| &found[index]["labels"][0]["label"];
    assert_eq!(
        (label(0), label(1), label(2)),
        (&"正面".into(), &"负面".into(), &"负面".into()),
        "{}",
        run.error
    );
    assert_eq!((&found[0]["id"], &found[1]["id"], &found[2]["id"]), (&1.into(), &Value::Null, &3.into()));
    assert!(found[1]["labels"] != found[2]["labels"]);
}

#[test]
fn classify_tokens() {
    let text = "小明住在北京。";
    let out = succeeds(&["classify", "--model", NER, text]);
    let found: Vec<&str> = out.lines().collect();
    assert_eq!((found[0], found.len()), (text, 3), "{out}");
    assert!(found[1].ends_with("小明  人名") && found[2].ends_with("北京  地名"), "{out}");
    let object = json(&["classify", "--model", NER, text, "--json"]);
    let tokens = object["tokens"].as_array().unwrap();
    let labels: Vec<&str> = tokens.iter().map(|token| token["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["人名", "人名", "O", "O", "地名", "地名", "O"]);
    for (index, (token, character)) in tokens.iter().zip(text.chars()).enumerate() {
        assert_eq!(token["text"], character.to_string());
        assert_eq!((&token["start"], &token["end"]), (&index.into(), &(index + 1).into()));
    }
    let run = roformer(
        &["classify", "--model", NER, "--input", "-", "--jsonl"],
        "{\"text\": \"北京\", \"pair\": \"上海\"}".as_bytes(),
    );
    assert!(run.code == 2 && run.error.contains("pair") && run.error.contains("alone"), "{}", run.error);
}

#[test]
fn answer() {
    let (question, context) = ("小明住在哪里？", "😀小明住在北京。他喜欢喝茶。");
    let out = succeeds(&["answer", "--model", QA, question, &context[4..]]);
    assert!(out.contains("  北京  小明住在哪里？"), "{out}");
    let object = json(&["answer", "--model", QA, question, context, "--json"]);
    assert_eq!(object["answer"], "北京");
    assert_eq!((&object["start"], &object["end"]), (&5.into(), &7.into()), "in characters");
    assert!(object["score"].as_f64().unwrap() > 0.5);

    let input = format!(
        "{{\"question\": \"{question}\", \"context\": \"{context}\", \"id\": \"q\"}}\n{{\"question\": \"\"}}"
    );
    let run = roformer(&["answer", "--model", QA, "--input", "-", "--jsonl", "--json"], input.as_bytes());
    assert_eq!((&lines(&run.out)[0]["id"], run.code), (&"q".into(), 2));
    assert!(run.error.contains("line 2: has no \"context\""), "{}", run.error);
    refused(&["answer", "--model", QA, question], &["1 texts", "question, context"]);
    refused(&["answer", "--model", QA, question, ""], &["context"]);
}

#[test]
fn generate() {
    let greedy = ["generate", "--model", GPT, "--temperature", "0"];
    let out = succeeds(&[&greedy[..], &["今天天气", "中国的首都", "the weather"]].concat());
    let found: Vec<&str> = out.lines().collect();
    assert_eq!(found.len(), 3, "{out}");
    assert!(found[0].starts_with("今天天气") && found[0].ends_with('。'), "{out}");
    assert!(found[1].starts_with("中国的首都是"), "{out}");
    assert!(found[2].starts_with("the weather is "), "words are apart: {out}");
    let object = json(&[&greedy[..], &["今天天气", "--json"]].concat());
    assert_eq!(format!("今天天气{}", object["text"].as_str().unwrap()), found[0]);

    let drawn = |seed: &str| {
        let flags =
            ["--model", GPT, "--seed", seed, "--temperature", "3", "--top-p", "1", "--max-tokens", "12"];
        succeeds(&[&["generate"], &flags[..], &["今天"]].concat())
    };
    assert_eq!(drawn("7"), drawn("7"));
    assert!((0..5).any(|seed| drawn(&seed.to_string()) != drawn("7")));
    assert_eq!(succeeds(&[&greedy[..], &["今天", "--max-tokens", "0"]].concat()), "今天\n");

    for temperature in ["-1", "inf", "nan"] {
        let says = ["the temperature is ", "a finite number, 0 or more"];
        refused(&["generate", "--model", GPT, &format!("--temperature={temperature}"), "今天"], &says);
    }
    refused(&["generate", "--model", GPT, "--top-p", "0", "今天"], &["top_p", "more than 0"]);

    // Far distances are others; within the window nothing is.
    let extended =
        |far: &str| succeeds(&[&greedy[..], &["--extend", far, "今天天气", "--max-tokens", "40"]].concat());
    assert_eq!(extended("window=500"), extended("window=400,group=8"));
    assert!(extended("window=400").starts_with(found[0]));
    extended("window=1,group=2");
    let hidden = |far: &[&str]| {
        let given = ["forward", "--model", GPT, "--ids", "5,6,7,8,9,10", "--json"];
        json(&[&given[..], far].concat())["last_hidden_state"][0].clone()
    };
    let (plain, far) = (hidden(&[]), hidden(&["--extend", "window=3"]));
    assert!((0..3).all(|token| plain[token] == far[token]) && plain[5] != far[5]);
    for (far, says) in [
        ("window=0", "the window is 0"),
        ("window=4,group=1", "the group is 1"),
        ("window=99999999999", "the window is 99999999999"),
        ("window=-1", "expected a number of tokens"),
        ("group=4", "expected a number of tokens"),
        ("", "expected a number of tokens"),
    ] {
        refused(&["generate", "--model", GPT, "--extend", far, "今天"], &[says]);
    }
    refused(&["embed", "--model", MLM, "--extend", "window=4", "今天"], &["extend", "a causal model"]);
    refused(&["generate", "--model", GPT, "--paraphrase", "2", "今天"], &["paraphrases", "RoFormer-Sim"]);
}

#[test]
fn paraphrases() {
    let texts = ["苹果多少钱？", "去机场怎么走？"];
    let out = succeeds(&[&["generate", "--model", SIM, "--paraphrase", "3"], &texts[..]].concat());
    assert!(out.contains("苹果") && out.contains("机场") && out.contains("\n\n"), "{out}");
    let run = roformer(
        &["generate", "--model", SIM, "--paraphrase", "3", "--input", "-", "--json", "--jsonl"],
        "{\"id\": 5, \"text\": \"苹果多少钱？\"}\n".as_bytes(),
    );
    let object = &lines(&run.out)[0];
    let found = object["paraphrases"].as_array().unwrap();
    assert!(object["id"] == 5 && (1..=3).contains(&found.len()), "{object}");
    assert!(is_falling(&scores(&object["paraphrases"])));
    assert!(found.iter().all(|item| item["text"] != texts[0]));
    assert!(!succeeds(&["generate", "--model", SIM, texts[0]]).contains(texts[0]), "without the text itself");
}

#[test]
fn tokenize() {
    let text = "😀今天，RoFormer";
    let out = succeeds(&["tokenize", "--model", MLM, text]);
    assert!(
        out.starts_with("rule: roformer\n") && out.contains("[CLS]") && out.contains("##former"),
        "{out}"
    );
    let object = json(&["tokenize", "--model", MLM, text, "--json"]);
    let list = |name: &str| object[name].as_array().unwrap();
    assert_eq!(object["tokens"][0], "[CLS]");
    assert!(["ids", "offsets", "token_types"].iter().all(|name| list(name).len() == list("tokens").len()));
    let at = list("tokens").iter().position(|token| token == "##former").unwrap();
    assert_eq!(object["offsets"][at], serde_json::json!([6, 12]), "in characters");
    assert!(succeeds(&["tokenize", "--model", GPT, text]).starts_with("rule: bert\n"));
    let cut = json(&["tokenize", "--model", MLM, text, "--json", "--truncate", "3"]);
    assert_eq!(cut["tokens"].as_array().unwrap().len(), 3);

    let run = roformer(
        &["tokenize", "--model", MLM, "--input", "-", "--jsonl", "--json"],
        "{\"text\": \"北京\", \"pair\": \"上海\"}".as_bytes(),
    );
    let types = numbers(&lines(&run.out)[0]["token_types"]);
    assert!(types.first() == Some(&0.0) && types.last() == Some(&1.0), "{types:?}");
}

#[test]
fn tokenize_needs_no_weights() {
    let folder = Folder::new("tokenize");
    std::fs::copy(common::root().join(MLM).join("vocab.txt"), folder.path("vocab.txt")).unwrap();
    assert!(succeeds(&["tokenize", "--model", &folder.path(""), "今天"]).contains("今天"));
    refused(&["embed", "--model", &folder.path(""), "今天"], &["config.json"]);
}

#[test]
fn help_has_examples() {
    let commands =
        ["tokenize", "fill-mask", "embed", "similarity", "rank", "classify", "answer", "generate", "forward"];
    for command in commands {
        let help = succeeds(&[command, "--help"]);
        assert!(
            help.contains("Examples:\n") && help.contains(&format!("roformer {command} --model")),
            "{help}"
        );
    }
}
