//! Tasks that other servers lack. Requests and answers have the form that `huggingface_hub`'s clients send and read.

use super::texts::{Texts, characters};
use crate::ask::{Answers, Ask, Asker, Cut, Shared};
use crate::body::{Json, answer as respond};
use crate::metrics::Group;
use crate::models::Task;
use crate::refusal::{Kind, Refusal};
use axum::extract::State;
use axum::response::Response;
use roformer::pipeline::{Guess, TokenLabel, spans};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize, JsonSchema)]
pub struct MaskRequest {
    inputs: Texts,
    parameters: Option<MaskParameters>,
    model: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
struct MaskParameters {
    /// How many tokens are given, the likeliest; 5 where nothing is said.
    top_k: Option<usize>,
    /// Not supported: refused where it is given.
    targets: Option<Value>,
}

/// A token that may stand behind the mask.
#[derive(Serialize, JsonSchema)]
pub struct Fill {
    score: f32,
    token: u32,
    token_str: String,
    sequence: String,
}

/// One list for one text, else one for each.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn new(mut items: Vec<T>, is_one: bool) -> Self {
        match items.pop() {
            Some(item) if is_one => OneOrMany::One(item),
            last => {
                items.extend(last);
                OneOrMany::Many(items)
            }
        }
    }
}

pub type Filled = OneOrMany<Vec<Fill>>;

pub async fn fill_mask(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<MaskRequest>,
) -> Result<Response, Refusal> {
    let MaskRequest { inputs, parameters, model } = request;
    let MaskParameters { top_k, targets } = parameters.unwrap_or_default();
    if targets.is_some_and(|targets| !targets.is_null()) {
        return Err(Refusal::new(Kind::Data, "targets are given; expected none: all tokens are compared"));
    }
    let model = state.models.find(model.as_deref(), Task::FillMask)?.clone();
    let top_k = top_k.unwrap_or(5).min(model.reader().blueprint().vocabulary);
    if top_k == 0 {
        return Err(Refusal::new(Kind::Data, "top_k is 0; expected 1 or more"));
    }
    let (texts, is_one) = inputs.list();
    let (count, characters) = (texts.len(), characters(&texts));
    let ask = Ask { asker, model, group: Group::Predict, cut: Cut::default(), texts: count, characters };
    let Answers { items, cost } =
        state.answer(ask, move |reader| reader.fill_mask_all(&texts, top_k)).await?;
    let fill = |Guess { score, id, token, text }| Fill { score, token: id, token_str: token, sequence: text };
    let filled =
        items.into_iter().map(|guesses| guesses.into_iter().map(fill).collect()).collect::<Vec<Vec<Fill>>>();
    respond(&OneOrMany::new(filled, is_one), Some(&cost))
}

#[derive(Deserialize, JsonSchema)]
pub struct TokensRequest {
    inputs: Texts,
    parameters: Option<TokensParameters>,
    model: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
struct TokensParameters {
    #[serde(default)]
    aggregation_strategy: Aggregation,
}

/// What is made of neighbouring tokens of one label.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Aggregation {
    /// One part of the text.
    #[default]
    Simple,
    /// Nothing: each token is given, with its label.
    None,
}

/// A part of a text that has a label, or a token.
#[derive(Serialize, JsonSchema)]
pub struct Entity {
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<String>,
    score: f32,
    word: String,
    /// Its place in the text, in characters.
    start: usize,
    end: usize,
}

pub type Labelled = OneOrMany<Vec<Entity>>;

pub async fn classify_tokens(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<TokensRequest>,
) -> Result<Response, Refusal> {
    let TokensRequest { inputs, parameters, model } = request;
    let aggregation = parameters.unwrap_or_default().aggregation_strategy;
    let model = state.models.find(model.as_deref(), Task::ClassifyTokens)?.clone();
    let (texts, is_one) = inputs.list();
    let kept = texts.clone();
    let (count, characters) = (texts.len(), characters(&texts));
    let ask = Ask { asker, model, group: Group::Predict, cut: Cut::default(), texts: count, characters };
    let Answers { items, cost } = state.answer(ask, move |reader| reader.classify_tokens_all(&texts)).await?;
    let entities = kept.iter().zip(items).map(|(text, labels)| entities(text, &labels, aggregation));
    respond(&OneOrMany::new(entities.collect(), is_one), Some(&cost))
}

fn entities(text: &str, labels: &[TokenLabel], aggregation: Aggregation) -> Vec<Entity> {
    let place = |byte: usize| text.get(..byte).map_or(0, |before| before.chars().count());
    let entity = |score, start: usize, end: usize| Entity {
        entity_group: None,
        entity: None,
        score,
        word: text.get(start..end).unwrap_or_default().to_string(),
        start: place(start),
        end: place(end),
    };
    match aggregation {
        Aggregation::Simple => spans(text, labels)
            .iter()
            .map(|span| Entity {
                entity_group: Some(span.label.to_string()),
                ..entity(span.score, span.start, span.end)
            })
            .collect(),
        Aggregation::None => labels
            .iter()
            .filter(|token| token.label != "O")
            .map(|token| Entity {
                entity: Some(token.label.clone()),
                ..entity(token.score, token.start, token.end)
            })
            .collect(),
    }
}

#[derive(Deserialize, JsonSchema)]
pub struct AnswerRequest {
    inputs: Question,
    model: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Question {
    question: String,
    context: String,
}

/// The part of a text that answers a question.
#[derive(Serialize, JsonSchema)]
pub struct Found {
    answer: String,
    score: f32,
    /// Its place in the context, in characters.
    start: usize,
    end: usize,
}

pub async fn answer(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<AnswerRequest>,
) -> Result<Response, Refusal> {
    let AnswerRequest { inputs: Question { question, context }, model } = request;
    let model = state.models.find(model.as_deref(), Task::Answer)?.clone();
    let characters = characters(&[&question, &context]);
    let before = context.clone();
    let ask = Ask { asker, model, group: Group::Predict, cut: Cut::default(), texts: 1, characters };
    let Answers { mut items, cost } =
        state.answer(ask, move |reader| reader.answer_all(&[(question, context)])).await?;
    let Some(found) = items.pop() else {
        return Err(Refusal::new(Kind::Backend, "the model gave no answer"));
    };
    let place = |byte: usize| before.get(..byte).map_or(0, |before| before.chars().count());
    let (start, end) = (place(found.start), place(found.end));
    respond(&Found { answer: found.text, score: found.score, start, end }, Some(&cost))
}
