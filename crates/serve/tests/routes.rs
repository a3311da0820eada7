//! What is asked in the ways of several clients is answered with what the library computes, to the bit.

mod common;

use common::{Running, floats, model, open, settings};
use roformer::pipeline::{Embed, Generate, Prompt};
use roformer_serve::Settings;
use serde_json::{Value, json};

const TEXTS: [&str; 4] = ["广州和深圳哪个好？", "今天天气很好", "", "小明住在上海，他喜欢看书。"];

fn normalized() -> Embed<'static> {
    Embed { normalize: true, ..Embed::default() }
}

#[test]
fn a_server_says_what_it_is() {
    let server = Running::of("tiny-sim");
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/").status, 200);
    let info = server.get("/info").ok();
    assert_eq!(info["model_id"], "tiny-sim");
    assert_eq!(info["model_type"]["embedding"]["pooling"], "pooler");
    assert_eq!(info["max_batch_tokens"], 16384);
    assert_eq!(server.get("/v1/models").ok()["data"][0]["id"], "tiny-sim");
    assert_eq!(server.get("/v1/models/tiny-sim").ok()["object"], "model");
    server.get("/v1/models/other").refused(404, "ModelNotFound", &["other"]);
    server.get("/nothing").refused(404, "NotFound", &["/docs"]);
    server.get("/embed").refused(405, "MethodNotAllowed", &["/docs"]);
    let page = server.get("/docs");
    assert!(page.status == 200 && !page.body.contains("https://") && !page.body.contains("src="), "{page:?}");
    let document = server.get("/api-doc/openapi.json").ok();
    for path in ["/embed", "/v1/embeddings", "/v1/completions", "/rerank", "/fill-mask", "/answer"] {
        assert!(document["paths"][path]["post"]["requestBody"].is_object(), "{path}");
    }
    // Every schema that is named is there.
    let text = document.to_string();
    for name in text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[test]
fn vectors_are_the_library_s_to_the_bit() {
    let (server, pipeline) = (Running::of("tiny-sim"), open("tiny-sim"));
    let answer = server.post("/embed", &json!({"inputs": TEXTS}));
    for header in ["compute-type", "compute-time", "compute-characters", "compute-tokens", "total-time"] {
        assert!(answer.header(&format!("x-{header}")).is_some(), "{header}: {answer:?}");
    }
    for header in ["x-tokenization-time", "x-queue-time", "x-inference-time"] {
        assert!(answer.header(header).unwrap().parse::<u64>().is_ok(), "{header}: {answer:?}");
    }
    let characters: usize = TEXTS.iter().map(|text| text.chars().count()).sum();
    assert_eq!(answer.header("x-compute-characters"), Some(characters.to_string().as_str()));
    let vectors = answer.ok();
    for (text, vector) in TEXTS.iter().zip(vectors.as_array().unwrap()) {
        assert_eq!(floats(vector), pipeline.embed(text, normalized()).unwrap(), "{text}");
    }
    let one = server.post("/embed", &json!({"inputs": TEXTS[0], "normalize": false, "dimensions": 5})).ok();
    let options = Embed { dimensions: Some(5), ..Embed::default() };
    assert_eq!(floats(&one[0]), pipeline.embed(TEXTS[0], options).unwrap());
    let tokens = server.post("/embed_all", &json!({"inputs": TEXTS})).ok();
    let expected = pipeline.embed_tokens_all(&TEXTS, Prompt::Usual);
    for (got, expected) in tokens.as_array().unwrap().iter().zip(expected) {
        let got: Vec<Vec<f32>> = got.as_array().unwrap().iter().map(floats).collect();
        assert_eq!(got, expected.unwrap());
    }
}

#[test]
fn openai_s_clients_have_their_forms() {
    let (server, pipeline) = (Running::of("tiny-sim"), open("tiny-sim"));
    let expected = pipeline.embed(TEXTS[0], normalized()).unwrap();
    let embed = |body: Value| server.post("/v1/embeddings", &body).ok();
    let plain = embed(json!({"model": "text-embedding-3-small", "input": TEXTS[0]}));
    assert_eq!((&plain["object"], &plain["data"][0]["object"]), (&json!("list"), &json!("embedding")));
    assert_eq!(plain["model"], "tiny-sim");
    assert_eq!(floats(&plain["data"][0]["embedding"]), expected);
    let ids = pipeline.tokenizer().encode(TEXTS[0]).unwrap().ids;
    assert_eq!(plain["usage"]["prompt_tokens"], ids.len());
    for input in [json!(ids), json!([ids])] {
        assert_eq!(floats(&embed(json!({"input": input}))["data"][0]["embedding"]), expected);
    }
    let encoded = embed(json!({"input": [TEXTS[0], TEXTS[1]], "encoding_format": "base64"}));
    use base64::Engine;
    let text = encoded["data"][0]["embedding"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let numbers = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
    assert_eq!(numbers.collect::<Vec<f32>>(), expected);
    assert_eq!(encoded["data"][1]["index"], 1);
    let cut = embed(json!({"input": TEXTS[0], "dimensions": 8}));
    let options = Embed { dimensions: Some(8), ..normalized() };
    assert_eq!(floats(&cut["data"][0]["embedding"]), pipeline.embed(TEXTS[0], options).unwrap());
    let refused = |body: Value| server.post("/v1/embeddings", &body);
    refused(json!({"input": TEXTS[0], "dimensions": 0})).refused(413, "Validation", &["dimensions"]);
    refused(json!({"input": [[7, 1000000]]})).refused(422, "Tokenizer", &["1000000"]);
    refused(json!({"input": {}})).refused(422, "Validation", &["a list of texts"]);
    refused(json!({"input": []})).refused(400, "Empty", &["one at least"]);
}

#[test]
fn likeness_and_tokens() {
    let (server, pipeline) = (Running::of("tiny-sim"), open("tiny-sim"));
    let body = json!({"inputs": {"source_sentence": TEXTS[0], "sentences": [TEXTS[1], TEXTS[0]]}});
    for path in ["/similarity", "/"] {
        let scores = floats(&server.post(path, &body).ok());
        assert_eq!(scores[0], pipeline.similarity(TEXTS[0], TEXTS[1]).unwrap());
        assert!((scores[1] - 1.0).abs() < 1e-6);
    }
    let tokens = server.post("/tokenize", &json!({"inputs": "今天 hello"})).ok();
    let list = tokens[0].as_array().unwrap();
    assert_eq!(
        list[0],
        json!({"id": list[0]["id"], "text": "[CLS]", "special": true, "start": null, "stop": null})
    );
    assert_eq!((&list[1]["text"], &list[1]["start"], &list[1]["stop"]), (&json!("今"), &json!(0), &json!(1)));
    let ids: Vec<u64> = list.iter().map(|token| token["id"].as_u64().unwrap()).collect();
    let plain = server.post("/tokenize", &json!({"inputs": ["今天"], "add_special_tokens": false})).ok();
    assert_eq!(plain[0].as_array().unwrap().len(), 2);
    assert_eq!(plain[0][0]["id"], ids[1]);
    let text = server.post("/decode", &json!({"ids": ids[..3]})).ok();
    assert_eq!(text, json!(["今天"]));
    let whole = server.post("/decode", &json!({"ids": [ids[..3]], "skip_special_tokens": false})).ok();
    assert_eq!(whole, json!(["[CLS] 今天"]));
}

#[test]
fn texts_are_labelled_alone_and_in_pairs() {
    let (server, pipeline) = (Running::of("tiny-classifier"), open("tiny-classifier"));
    let (good, bad) = ("这部电影很好看。", "服务员的态度很差。");
    let one = server.post("/predict", &json!({"inputs": good})).ok();
    let labels = pipeline.classify(good).unwrap();
    assert_eq!(one[0]["label"], labels[0].label);
    assert_eq!(one[0]["score"].as_f64().unwrap() as f32, labels[0].score);
    let many = server.post("/predict", &json!({"inputs": [[good], [bad], [good, bad]]})).ok();
    assert_eq!(many[0], one);
    assert_eq!(many[1][0]["label"], pipeline.classify(bad).unwrap()[0].label);
    let pair = &pipeline.classify_pairs(&[(good, bad)])[0];
    assert_eq!(many[2][0]["score"].as_f64().unwrap() as f32, pair.as_ref().unwrap()[0].score);
    assert_eq!(server.post("/predict", &json!({"inputs": [good, bad]})).ok(), many[2]);
    let raw = server.post("/predict", &json!({"inputs": good, "raw_scores": true})).ok();
    let [a, b] = [0, 1].map(|index| raw[index]["score"].as_f64().unwrap());
    let share = 1.0 / (1.0 + (b - a).exp());
    assert!((share as f32 - labels[0].score).abs() < 1e-6, "{raw}");
    let three = server.post("/predict", &json!({"inputs": [[good, bad, good]]}));
    three.refused(422, "Validation", &["3 texts"]);
    assert_eq!(server.post("/", &json!({"inputs": good})).ok(), one);
    assert_eq!(server.post("/", &json!({"inputs": good, "parameters": {}})).ok(), json!([one]));
    assert!(server.get("/info").ok()["model_type"]["classifier"]["id2label"].is_object());
    server.post("/fill-mask", &json!({"inputs": "今[MASK]"})).refused(424, "Backend", &["fill-mask"]);
}

#[test]
fn documents_are_ranked_by_a_cross_encoder_and_by_vectors() {
    let texts = ["a small dog", "rain in the north", "the weather is fine"];
    let server = Running::of("cross-encoder");
    let pipeline = open("cross-encoder");
    let ranked = pipeline.rank("weather", &texts).unwrap();
    let tei = server.post("/rerank", &json!({"query": "weather", "texts": texts, "return_text": true})).ok();
    let order: Vec<u64> =
        tei.as_array().unwrap().iter().map(|rank| rank["index"].as_u64().unwrap()).collect();
    assert_eq!(order, ranked.iter().map(|rank| rank.index as u64).collect::<Vec<_>>());
    assert_eq!(tei[0]["text"], texts[ranked[0].index]);
    let raw = server.post("/rerank", &json!({"query": "weather", "texts": texts, "raw_scores": true})).ok();
    let (number, share) = (raw[0]["score"].as_f64().unwrap(), tei[0]["score"].as_f64().unwrap());
    assert!((1.0 / (1.0 + (-number).exp()) - share).abs() < 1e-6);
    let body = json!({"model": "rerank-v3.5", "query": "weather", "documents": texts, "top_n": 2});
    for path in ["/v1/rerank", "/v2/rerank"] {
        let reranked = server.post(path, &body).ok();
        let results = reranked["results"].as_array().unwrap();
        assert_eq!(results.len(), 2);
        assert_eq!(results[0]["relevance_score"], tei[0]["score"]);
        let text = &results[0]["document"]["text"];
        assert_eq!(text.is_string(), path == "/v1/rerank", "{reranked}");
    }
    let objects = json!({"query": "weather", "documents": [{"text": texts[0]}, texts[1]]});
    assert_eq!(server.post("/v2/rerank", &objects).ok()["results"].as_array().unwrap().len(), 2);
    server.post("/v2/rerank", &json!({"query": "x", "documents": []})).refused(400, "Empty", &[]);

    let (server, pipeline) = (Running::of("tiny-sim"), open("tiny-sim"));
    let ranked = pipeline.rank(TEXTS[0], &TEXTS[1..]).unwrap();
    let near = server.post("/rerank", &json!({"query": TEXTS[0], "texts": TEXTS[1..]})).ok();
    assert_eq!(near[0]["index"], ranked[0].index);
    assert_eq!(near[0]["score"].as_f64().unwrap() as f32, ranked[0].score);
}

#[test]
fn masks_names_and_questions() {
    let (server, pipeline) = (Running::of("tiny-mlm"), open("tiny-mlm"));
    let text = "今天[MASK]气很好";
    let guesses = pipeline.fill_mask(text, 2).unwrap();
    for path in ["/fill-mask", "/"] {
        let filled = server.post(path, &json!({"inputs": text, "parameters": {"top_k": 2}})).ok();
        assert_eq!(filled[0]["token_str"], guesses[0].token);
        assert_eq!(filled[0]["sequence"], guesses[0].text);
        assert_eq!(filled[1]["score"].as_f64().unwrap() as f32, guesses[1].score);
    }
    let many = server.post("/fill-mask", &json!({"inputs": [text, text]})).ok();
    assert_eq!((many[1].as_array().unwrap().len(), &many[1][0]["token"]), (5, &json!(guesses[0].id)));
    server.post("/fill-mask", &json!({"inputs": "今天"})).refused(422, "Tokenizer", &["mask"]);
    let targets = json!({"inputs": text, "parameters": {"targets": ["天"]}});
    server.post("/fill-mask", &targets).refused(422, "Validation", &["targets"]);

    let server = Running::of("tiny-ner");
    let text = "小明住在北京。";
    let found = server.post("/classify-tokens", &json!({"inputs": text})).ok();
    let named: Vec<(&Value, &Value)> =
        found.as_array().unwrap().iter().map(|part| (&part["word"], &part["entity_group"])).collect();
    assert_eq!(named, [(&json!("小明"), &json!("人名")), (&json!("北京"), &json!("地名"))]);
    assert_eq!((&found[1]["start"], &found[1]["end"]), (&json!(4), &json!(6)));
    let each = json!({"inputs": [text], "parameters": {"aggregation_strategy": "none"}});
    assert_eq!(server.post("/classify-tokens", &each).ok()[0].as_array().unwrap().len(), 4);

    let (server, pipeline) = (Running::of("tiny-qa"), open("tiny-qa"));
    let (question, context) = ("小明住在哪里？", "小明住在北京。");
    let expected = pipeline.answer(question, context).unwrap();
    let found = server.post("/answer", &json!({"inputs": {"question": question, "context": context}})).ok();
    assert_eq!(found["answer"], expected.text);
    assert_eq!(found["score"].as_f64().unwrap() as f32, expected.score);
    assert_eq!(found["start"], context[..expected.start].chars().count());
    server.post("/answer", &json!({"inputs": {"question": "x"}})).refused(422, "Validation", &["context"]);
}

#[test]
fn texts_are_continued_at_once_and_piece_by_piece() {
    let (server, pipeline) = (Running::of("tiny-gpt"), open("tiny-gpt"));
    let options = Generate { max_tokens: 40, temperature: 0.0, ..Generate::default() };
    let expected = pipeline.generate("今天", &options, |_| {}).unwrap();
    let body = json!({"model": "any", "prompt": "今天", "max_tokens": 40, "temperature": 0});
    let whole = server.post("/v1/completions", &body).ok();
    assert_eq!(whole["choices"][0]["text"], expected);
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["object"], "text_completion");
    let usage = &whole["usage"];
    assert_eq!(
        usage["total_tokens"].as_u64(),
        Some(usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap())
    );
    let body = json!({"prompt": "今天", "max_tokens": 40, "temperature": 0, "stream": true,
        "stream_options": {"include_usage": true}});
    let answer = server.post("/v1/completions", &body);
    assert!(answer.header("content-type").unwrap().starts_with("text/event-stream"));
    let events: Vec<&str> = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(events.last(), Some(&"[DONE]"));
    let events: Vec<Value> =
        events[..events.len() - 1].iter().map(|event| serde_json::from_str(event).unwrap()).collect();
    let pieces = events.iter().filter_map(|event| event["choices"][0]["text"].as_str());
    assert_eq!(pieces.collect::<String>(), expected);
    assert!(events.len() > 3, "{events:?}");
    let ends = events.iter().filter(|event| event["choices"][0]["finish_reason"] == "stop").count();
    assert_eq!((ends, &events.last().unwrap()["usage"]), (1, usage));
    // The first character after the first two, left out with all after it.
    let stop: String = expected.chars().skip(2).take(1).collect();
    let until: String = expected.split(&stop).next().unwrap().into();
    let body = json!({"prompt": ["今天", "我们"], "max_tokens": 40, "temperature": 0, "stop": stop});
    let stopped = server.post("/v1/completions", &body).ok();
    assert_eq!((&stopped["choices"][0]["text"], &stopped["choices"][1]["index"]), (&json!(until), &json!(1)));
    let short = json!({"prompt": "今天", "max_tokens": 2, "temperature": 0, "echo": true});
    let short = server.post("/v1/completions", &short).ok();
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert!(short["choices"][0]["text"].as_str().unwrap().starts_with("今天"));
    let refused = |body: Value| server.post("/v1/completions", &body);
    refused(json!({"prompt": "今天", "temperature": -1})).refused(422, "Tokenizer", &["temperature"]);
    refused(json!({"prompt": "今天", "n": 2})).refused(422, "Validation", &["n is"]);
    // What would be left undone is refused, and what clients send that asks for nothing is not.
    for (name, asked, nothing) in [
        ("logprobs", json!(0), json!(null)),
        ("best_of", json!(2), json!(1)),
        ("suffix", json!("。"), json!("")),
        ("logit_bias", json!({"5": 1}), json!({})),
        ("presence_penalty", json!(0.5), json!(0)),
        ("frequency_penalty", json!(-1), json!(0.0)),
    ] {
        let body = |value: Value| {
            let mut body = json!({"prompt": "今天", "max_tokens": 1});
            body[name] = value;
            server.post("/v1/completions", &body)
        };
        body(asked).refused(422, "Validation", &[name]);
        assert_eq!(body(nothing).status, 200, "{name}");
    }
    let other = Running::of("tiny-mlm").post("/v1/completions", &json!({"prompt": "今天"}));
    other.refused(424, "Backend", &["causal"]);
}

#[test]
fn several_models_share_a_server() {
    let models = ["tiny-sim", "tiny-classifier", "tiny-qa"].map(model);
    let server = Running::start(settings(), models.into());
    assert_eq!(server.get("/v1/models").ok()["data"].as_array().unwrap().len(), 3);
    assert_eq!(server.get("/info").ok()["others"], json!(["tiny-classifier", "tiny-qa"]));
    // The first that can do it, or the one that is named.
    assert_eq!(server.post("/embed", &json!({"inputs": "今天"})).status, 200);
    assert_eq!(server.post("/predict", &json!({"inputs": "很好看"})).status, 200);
    let question = json!({"inputs": {"question": "小明住在哪里？", "context": "小明住在北京。"}});
    assert_eq!(server.post("/answer", &question).status, 200);
    let named = |name: &str| server.post("/v1/embeddings", &json!({"model": name, "input": "今天"}));
    assert_eq!(named("tiny-classifier").ok()["model"], "tiny-classifier");
    named("gpt-5").refused(404, "ModelNotFound", &["gpt-5", "tiny-qa"]);
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("te_queue_size{model=\"tiny-qa\"} 0"), "{metrics}");
    assert!(metrics.contains("te_request_success{method=\"single\"} 4"), "{metrics}");
}

#[test]
fn long_texts_are_cut_or_refused() {
    let long = "今天天气很好，".repeat(20);
    let ten = Settings { max_batch_tokens: 10, ..settings() };
    let (server, pipeline) = (Running::start(ten.clone(), vec![model("tiny-sim")]), open("tiny-sim"));
    assert_eq!(server.get("/info").ok()["max_input_length"], 10);
    let cut = |reader: roformer::pipeline::Reader| {
        pipeline.run_all(reader.embed_all(&[&long], normalized())).remove(0).unwrap()
    };
    let vector = |body: Value| floats(&server.post("/embed", &body).ok()[0]);
    assert_eq!(vector(json!({"inputs": long})), cut(pipeline.reader().cut_to(10)));
    let left = json!({"inputs": long, "truncation_direction": "Left"});
    assert_eq!(vector(left), cut(pipeline.reader().cut_to(10).cut_in_front()));
    let refused = json!({"inputs": ["今天", long], "truncate": false});
    server.post("/embed", &refused).refused(413, "Validation", &["10 tokens", "truncate"]);
    assert_eq!(server.post("/embed", &json!({"inputs": "今天", "truncate": false})).status, 200);
    let strict = Running::start(Settings { auto_truncate: false, ..ten }, vec![model("tiny-sim")]);
    strict.post("/embed", &json!({"inputs": long})).refused(413, "Validation", &["10 tokens"]);
    assert_eq!(strict.post("/embed", &json!({"inputs": long, "truncate": true})).status, 200);
}

#[test]
fn prompts_stand_before_texts() {
    let pipeline = open("prompts");
    let name = pipeline.recipe().prompts.named.keys().next().unwrap().clone();
    let expected = |prompt| pipeline.embed("hello", Embed { prompt, ..normalized() }).unwrap();
    let server = Running::of("prompts");
    let vector = |server: &Running, body: Value| floats(&server.post("/embed", &body).ok()[0]);
    let named = vector(&server, json!({"inputs": "hello", "prompt_name": name}));
    assert_eq!(named, expected(Prompt::Named(&name)));
    assert_eq!(vector(&server, json!({"inputs": "hello"})), expected(Prompt::Usual));
    let unknown = server.post("/embed", &json!({"inputs": "hello", "prompt_name": "nobody"}));
    unknown.refused(413, "Validation", &["nobody"]);
    let own = Settings { default_prompt: Some("ask: ".into()), ..settings() };
    let server = Running::start(own, vec![model("prompts")]);
    assert_eq!(vector(&server, json!({"inputs": "hello"})), expected(Prompt::Text("ask: ")));
}
