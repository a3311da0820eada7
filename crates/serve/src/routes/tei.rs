//! The other routes of text-embeddings-inference: health, information, labels and tokens.

use super::texts::{Direction, Texts};
use crate::ask::{Answers, Ask, Asker, Shared};
use crate::body::{Json, answer};
use crate::metrics::Group;
use crate::models::{Model, Task};
use crate::refusal::{Kind, Refusal};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use roformer::pipeline::{Label, Pooling};
use roformer::tokenizer::Tokenizer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

pub async fn health(State(state): State<Shared>) -> Result<(), Refusal> {
    match state.is_ending.load(Ordering::Relaxed) {
        true => Err(Refusal::new(Kind::Unhealthy, "the server is ending")),
        false => Ok(()),
    }
}

pub async fn metrics(State(state): State<Shared>) -> Response {
    let sizes = state.models.0.iter().map(|model| (model.name.as_str(), model.queue.size().0));
    let text = state.metrics.text(&sizes.collect::<Vec<_>>());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

#[derive(Serialize, JsonSchema)]
pub struct Info {
    model_id: String,
    model_sha: Option<String>,
    model_dtype: String,
    served_model_name: String,
    model_type: ModelType,
    max_concurrent_requests: usize,
    max_input_length: usize,
    max_batch_tokens: usize,
    max_batch_requests: Option<usize>,
    max_client_batch_size: usize,
    auto_truncate: bool,
    tokenization_workers: usize,
    version: &'static str,
    sha: Option<&'static str>,
    docker_label: Option<&'static str>,
    /// The other models, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    others: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ModelType {
    Embedding { pooling: String },
    Classifier(Names),
    Reranker(Names),
}

#[derive(Serialize, JsonSchema)]
struct Names {
    id2label: BTreeMap<String, String>,
    label2id: BTreeMap<String, usize>,
}

pub async fn info(State(state): State<Shared>) -> Result<Response, Refusal> {
    let Some(model) = state.models.0.first() else {
        return Err(Refusal::new(Kind::NoModel, "no model is served"));
    };
    let settings = &state.settings;
    let info = Info {
        model_id: model.id.clone(),
        model_sha: model.revision.clone(),
        model_dtype: model.dtype.clone(),
        served_model_name: model.name.clone(),
        model_type: kind(model),
        max_concurrent_requests: settings.max_concurrent_requests,
        max_input_length: model.max_input_length(settings.max_batch_tokens),
        max_batch_tokens: settings.max_batch_tokens,
        max_batch_requests: settings.max_batch_requests,
        max_client_batch_size: settings.max_client_batch_size,
        auto_truncate: settings.auto_truncate,
        tokenization_workers: state.readers.current_num_threads(),
        version: env!("CARGO_PKG_VERSION"),
        sha: None,
        docker_label: None,
        others: state.models.0.iter().skip(1).map(|model| model.name.clone()).collect(),
    };
    answer(&info, None)
}

fn kind(model: &Model) -> ModelType {
    let reader = model.reader();
    let labels = &reader.blueprint().labels;
    let names = || {
        let named: Vec<(usize, String)> =
            (0..labels.count).map(|label| (label, labels.name(label))).collect();
        Names {
            id2label: named.iter().map(|(label, name)| (label.to_string(), name.clone())).collect(),
            label2id: named.into_iter().map(|(label, name)| (name, label)).collect(),
        }
    };
    if model.can(Task::Rerank) {
        return ModelType::Reranker(names());
    }
    if model.can(Task::Predict) || model.can(Task::ClassifyTokens) {
        return ModelType::Classifier(names());
    }
    let own = reader.recipe().vectors.as_ref().and_then(|vectors| vectors.poolings.first().copied());
    let usual = if reader.blueprint().pooler.is_some() { Pooling::Pooler } else { Pooling::Mean };
    ModelType::Embedding { pooling: model.pooling.or(own).unwrap_or(usual).name().to_string() }
}

#[derive(Deserialize, JsonSchema)]
pub struct PredictRequest {
    inputs: PredictInputs,
    truncate: Option<bool>,
    #[serde(default)]
    #[allow(dead_code, reason = "texts of pairs are cut at their ends; what is sent is still read")]
    truncation_direction: Direction,
    /// Whether scores are the model's own numbers rather than probabilities.
    #[serde(default)]
    raw_scores: bool,
    model: Option<String>,
}

/// A text; a list of one text or of two that belong together; or a list of such lists.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, a pair of texts, or a list of lists of one or two texts")]
enum PredictInputs {
    One(String),
    Pair(Vec<String>),
    Many(Vec<Vec<String>>),
}

#[derive(Serialize, JsonSchema)]
pub struct Prediction {
    score: f32,
    label: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Predictions {
    One(Vec<Prediction>),
    Many(Vec<Vec<Prediction>>),
}

pub async fn predict(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<PredictRequest>,
) -> Result<Response, Refusal> {
    let PredictRequest { inputs, truncate, raw_scores, model, .. } = request;
    let model = state.models.find(model.as_deref(), Task::Predict)?.clone();
    let (lists, is_one) = match inputs {
        PredictInputs::One(text) => (vec![vec![text]], true),
        PredictInputs::Pair(texts) => (vec![texts], true),
        PredictInputs::Many(lists) => (lists, false),
    };
    if let Some(list) = lists.iter().find(|list| !(1..=2).contains(&list.len())) {
        let message = format!("inputs hold a list of {} texts; expected one or two each", list.len());
        return Err(Refusal::new(Kind::Data, message));
    }
    let characters = lists.iter().map(|list| super::texts::characters(list)).sum();
    let cut = Direction::Right.cut(truncate);
    let ask = Ask { asker, model, group: Group::Predict, cut, texts: lists.len(), characters };
    let Answers { items, cost } = state
        .answer(ask, move |reader| {
            let texts: Vec<(&str, Option<&str>)> =
                lists.iter().map(|list| (list[0].as_str(), list.get(1).map(String::as_str))).collect();
            reader.classify_all(&texts, raw_scores)
        })
        .await?;
    let scored = |labels: Vec<Label>| {
        labels.into_iter().map(|Label { label, score }| Prediction { score, label }).collect()
    };
    let mut items: Vec<Vec<Prediction>> = items.into_iter().map(scored).collect();
    let predictions = match is_one {
        true => Predictions::One(items.pop().unwrap_or_default()),
        false => Predictions::Many(items),
    };
    answer(&predictions, Some(&cost))
}

#[derive(Deserialize, JsonSchema)]
pub struct TokenizeRequest {
    inputs: Texts,
    #[serde(default = "super::texts::yes")]
    add_special_tokens: bool,
    prompt_name: Option<String>,
    model: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Token {
    id: u32,
    text: String,
    special: bool,
    /// Where it stands in the text, in characters; none for a token that was added.
    start: Option<usize>,
    stop: Option<usize>,
}

pub async fn tokenize(
    State(state): State<Shared>,
    Json(request): Json<TokenizeRequest>,
) -> Result<Response, Refusal> {
    let TokenizeRequest { inputs, add_special_tokens, prompt_name, model } = request;
    let model = state.models.find(model.as_deref(), Task::Embed)?.clone();
    let _place = state.enter(&model)?;
    let texts = inputs.list().0;
    state.check_count(texts.len())?;
    let tokens = state.read(move || {
        let reader = model.reader();
        let prompt = match &prompt_name {
            Some(name) => reader.recipe().prompts.get(name)?.to_string(),
            None => String::new(),
        };
        let tokens = texts
            .iter()
            .map(|text| tokens(reader.tokenizer(), &format!("{prompt}{text}"), add_special_tokens));
        tokens.collect::<roformer::Result<Vec<_>>>()
    });
    answer(&tokens.await?.map_err(|error| Refusal::of_text(&error))?, None)
}

fn tokens(tokenizer: &Tokenizer, text: &str, adds_special: bool) -> roformer::Result<Vec<Token>> {
    let encoding = if adds_special { tokenizer.encode(text)? } else { tokenizer.encode_plain(text)? };
    let characters = encoding.characters(text, "");
    let token = |index: usize| {
        let (id, place, is_own) =
            (encoding.ids[index], characters[index], encoding.sequence[index].is_some());
        let (from, to) = encoding.offsets[index];
        let part = text.get(from..to).filter(|_| is_own).map(str::to_string);
        Token {
            id,
            text: part.unwrap_or_else(|| tokenizer.token(id).unwrap_or_default()),
            special: tokenizer.is_special(id),
            start: is_own.then_some(place.0),
            stop: is_own.then_some(place.1),
        }
    };
    Ok((0..encoding.len()).map(token).collect())
}

#[derive(Deserialize, JsonSchema)]
pub struct DecodeRequest {
    ids: Ids,
    #[serde(default = "super::texts::yes")]
    skip_special_tokens: bool,
    model: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a list of tokens, or a list of such lists")]
enum Ids {
    One(Vec<u32>),
    Many(Vec<Vec<u32>>),
}

pub async fn decode(
    State(state): State<Shared>,
    Json(request): Json<DecodeRequest>,
) -> Result<Response, Refusal> {
    let model = state.models.find(request.model.as_deref(), Task::Embed)?.clone();
    let _place = state.enter(&model)?;
    let lists = match request.ids {
        Ids::One(list) => vec![list],
        Ids::Many(lists) => lists,
    };
    state.check_count(lists.len())?;
    let skips = request.skip_special_tokens;
    let texts = state.read(move || {
        let reader = model.reader();
        lists.iter().map(|ids| text(reader.tokenizer(), ids, skips)).collect::<Vec<_>>()
    });
    answer(&texts.await?, None)
}

/// The text of tokens, with the special ones between its parts unless they are skipped.
fn text(tokenizer: &Tokenizer, ids: &[u32], skips_special: bool) -> String {
    if skips_special {
        return tokenizer.decode(ids);
    }
    let parts = ids.chunk_by(|a, b| !tokenizer.is_special(*a) && !tokenizer.is_special(*b));
    let part = |part: &[u32]| match part {
        [id] if tokenizer.is_special(*id) => tokenizer.token(*id).unwrap_or_default(),
        ids => tokenizer.decode(ids),
    };
    parts.map(part).collect::<Vec<_>>().join(" ")
}
