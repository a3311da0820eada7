//! Texts by how near they are to a query, as text-embeddings-inference, Jina and Cohere give them. A cross-encoder reads the query
//! with each text; of any other model the vectors are compared.

use super::texts::{Direction, characters};
use crate::ask::{Answers, Ask, Asker, Cost, Cut, Shared};
use crate::body::{Json, answer};
use crate::metrics::Group;
use crate::models::{Model, Task};
use crate::refusal::{Kind, Refusal};
use axum::extract::State;
use axum::response::Response;
use roformer::pipeline::{Embed, Prompt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Deserialize, JsonSchema)]
pub struct Request {
    query: String,
    texts: Vec<String>,
    truncate: Option<bool>,
    #[serde(default)]
    #[allow(dead_code, reason = "pairs are cut at their ends; what is sent is still read")]
    truncation_direction: Direction,
    /// Whether scores are a cross-encoder's own numbers rather than between 0 and 1.
    #[serde(default)]
    raw_scores: bool,
    #[serde(default)]
    return_text: bool,
    model: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct Rank {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    score: f32,
}

pub async fn rerank(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<Request>,
) -> Result<Response, Refusal> {
    let Request { query, texts, truncate, raw_scores, return_text, model, .. } = request;
    let model = state.models.find(model.as_deref(), Task::Rerank)?;
    let cut = Cut { truncate, in_front: false };
    let kept = return_text.then(|| texts.clone());
    let (ranked, cost) = rank(&state, asker, model, query, texts, cut, raw_scores).await?;
    let text = |index: usize| kept.as_ref().and_then(|texts| texts.get(index).cloned());
    let ranks = ranked.into_iter().map(|(index, score)| Rank { index, text: text(index), score });
    answer(&ranks.collect::<Vec<_>>(), Some(&cost))
}

/// What Jina's and Cohere's clients send.
#[derive(Deserialize, JsonSchema)]
pub struct ClientRequest {
    model: Option<String>,
    query: String,
    documents: Vec<Document>,
    /// How many of the nearest are given; all of them where nothing is said.
    top_n: Option<usize>,
    /// Whether they come with their texts.
    return_documents: Option<bool>,
}

#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a text, or an object with a text")]
pub enum Document {
    Text(String),
    Object { text: String },
}

impl Document {
    fn text(&self) -> &str {
        match self {
            Document::Text(text) | Document::Object { text } => text,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Reranked {
    id: String,
    object: &'static str,
    model: String,
    results: Vec<Relevance>,
    usage: Usage,
    meta: Meta,
}

#[derive(Serialize, JsonSchema)]
struct Relevance {
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<Document>,
}

#[derive(Serialize, JsonSchema)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

#[derive(Serialize, JsonSchema)]
struct Meta {
    api_version: Version,
    billed_units: Billed,
}

#[derive(Serialize, JsonSchema)]
struct Version {
    version: &'static str,
}

#[derive(Serialize, JsonSchema)]
struct Billed {
    search_units: usize,
}

/// Jina's, and Cohere's until version 1.
pub async fn with_documents(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<ClientRequest>,
) -> Result<Response, Refusal> {
    client(&state, asker, request, "1", true).await
}

/// Cohere's since version 2.
pub async fn without_documents(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<ClientRequest>,
) -> Result<Response, Refusal> {
    client(&state, asker, request, "2", false).await
}

async fn client(
    state: &Shared,
    asker: Asker,
    request: ClientRequest,
    version: &'static str,
    shows: bool,
) -> Result<Response, Refusal> {
    let ClientRequest { model, query, documents, top_n, return_documents } = request;
    let model = state.models.find(model.as_deref(), Task::Rerank)?;
    if top_n == Some(0) {
        return Err(Refusal::new(Kind::Data, "top_n is 0; expected 1 or more"));
    }
    let texts: Vec<String> = documents.iter().map(|document| document.text().to_string()).collect();
    let (ranked, cost) = rank(state, asker, model, query, texts, Cut::default(), false).await?;
    let shows = return_documents.unwrap_or(shows);
    let document = |index: usize| {
        let text = documents.get(index).filter(|_| shows)?.text().to_string();
        Some(Document::Object { text })
    };
    let results = ranked
        .into_iter()
        .take(top_n.unwrap_or(usize::MAX))
        .map(|(index, relevance_score)| Relevance { index, relevance_score, document: document(index) });
    let reranked = Reranked {
        id: format!("rerank-{}", state.requests.load(Ordering::Relaxed)),
        object: "list",
        model: model.name.clone(),
        results: results.collect(),
        usage: Usage { prompt_tokens: cost.tokens, total_tokens: cost.tokens },
        meta: Meta { api_version: Version { version }, billed_units: Billed { search_units: 1 } },
    };
    answer(&reranked, Some(&cost))
}

/// Which text has which score, the nearest first; of equal ones the earlier.
async fn rank(
    state: &Shared,
    asker: Asker,
    model: &Arc<Model>,
    query: String,
    texts: Vec<String>,
    cut: Cut,
    raw: bool,
) -> Result<(Vec<(usize, f32)>, Cost), Refusal> {
    state.check_count(texts.len())?;
    let characters = characters(&texts) + query.chars().count();
    let ask = Ask { asker, model: model.clone(), group: Group::Predict, cut, texts: texts.len(), characters };
    let (scores, cost): (Vec<f32>, Cost) = if model.can(Task::Rerank) {
        let Answers { items, cost } = state
            .answer(ask, move |reader| {
                // As `roformer rank` puts it before the query.
                let prompt = reader.recipe().prompts.usual();
                reader.judge_all(&format!("{prompt}{query}"), &texts)
            })
            .await?;
        let score = |number: f32| if raw { number } else { 1.0 / (1.0 + (-number).exp()) };
        (items.into_iter().map(score).collect(), cost)
    } else {
        let pooling = model.pooling;
        let Answers { items, cost } = state
            .answer(ask, move |reader| {
                let embed = |prompt| Embed { pooling, prompt, ..Embed::default() };
                let mut pending = reader.embed_all(&[query], embed(Prompt::Query));
                pending.extend(reader.embed_all(&texts, embed(Prompt::Document)));
                pending
            })
            .await?;
        let function = model.reader().similarity_function();
        let scores = match items.split_first() {
            Some((query, others)) => others.iter().map(|other| function.of(query, other)).collect(),
            None => Vec::new(),
        };
        (scores, cost)
    };
    let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok((ranked, cost))
}
