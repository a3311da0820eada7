//! Vectors of texts, as text-embeddings-inference gives them, and how alike they are.

use super::texts::{Direction, Inputs, Items, characters, yes};
use crate::ask::{Answers, Ask, Asker, Cut, Shared};
use crate::body::{Json, answer};
use crate::metrics::Group;
use crate::models::{Model, Task};
use crate::refusal::{Kind, Refusal};
use axum::extract::State;
use axum::response::Response;
use roformer::pipeline::{Embed, Pooling, Prompt, cosine};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
pub struct Request {
    inputs: Inputs,
    /// Whether texts that are too long are cut, rather than refused.
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    /// The folder's prompt of this name stands before each text.
    prompt_name: Option<String>,
    /// Whether vectors are scaled to length 1.
    #[serde(default = "yes")]
    normalize: bool,
    /// How many numbers of each vector are kept, the first ones.
    dimensions: Option<usize>,
    /// Which model, where there are several.
    model: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct AllRequest {
    inputs: Inputs,
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    prompt_name: Option<String>,
    model: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
pub struct SimilarityRequest {
    inputs: Sentences,
    parameters: Option<SimilarityParameters>,
    model: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Sentences {
    source_sentence: String,
    sentences: Vec<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
struct SimilarityParameters {
    truncate: Option<bool>,
    #[serde(default)]
    truncation_direction: Direction,
    prompt_name: Option<String>,
}

/// How vectors are made, where a request may say.
#[derive(Default)]
pub struct Options {
    pub normalize: bool,
    pub prompt_name: Option<String>,
    pub dimensions: Option<usize>,
    pub cut: Cut,
}

pub async fn embed(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<Request>,
) -> Result<Response, Refusal> {
    let Request { inputs, truncate, truncation_direction, prompt_name, normalize, dimensions, model } =
        request;
    let model = state.models.find(model.as_deref(), Task::Embed)?;
    let options = Options { normalize, prompt_name, dimensions, cut: truncation_direction.cut(truncate) };
    let Answers { items, cost } = vectors(&state, asker, model, inputs.items(), options).await?;
    answer(&items, Some(&cost))
}

/// The vectors of texts. The prompt is the one that the request names, else the server's, else the folder's own.
pub async fn vectors(
    state: &Shared,
    asker: Asker,
    model: &Arc<Model>,
    items: Items,
    options: Options,
) -> Result<Answers<Vec<f32>>, Refusal> {
    let Options { normalize, prompt_name, dimensions, cut } = options;
    let made = Made { pooling: model.pooling, normalize, dimensions, ..Made::new(state, prompt_name) };
    let checked = model.reader().dimensions(&made.embed());
    checked.map_err(|error| Refusal::new(Kind::Validation, error.to_string()))?;
    let (texts, characters) = (items.len(), items.characters());
    let ask = Ask { asker, model: model.clone(), group: Group::Embed, cut, texts, characters };
    state
        .answer(ask, move |reader| match items {
            Items::Texts(texts) => reader.embed_all(&texts, made.embed()),
            Items::Tokens(lists) => reader.embed_ids_all(&lists, made.embed()),
        })
        .await
}

/// How vectors are made, with nothing borrowed, to wait for a thread that reads.
#[derive(Default)]
struct Made {
    pooling: Option<Pooling>,
    normalize: bool,
    dimensions: Option<usize>,
    name: Option<String>,
    text: Option<String>,
}

impl Made {
    /// With the prompt that a request names, else the server's.
    fn new(state: &Shared, prompt_name: Option<String>) -> Made {
        let settings = &state.settings;
        let name = prompt_name.or_else(|| settings.default_prompt_name.clone());
        let text = settings.default_prompt.clone().filter(|_| name.is_none());
        Made { name, text, ..Made::default() }
    }

    fn embed(&self) -> Embed<'_> {
        let prompt = match (&self.name, &self.text) {
            (Some(name), _) => Prompt::Named(name),
            (None, Some(text)) => Prompt::Text(text),
            (None, None) => Prompt::Usual,
        };
        let Made { pooling, normalize, dimensions, .. } = *self;
        Embed { pooling, normalize, dimensions, prompt }
    }
}

pub async fn embed_all(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<AllRequest>,
) -> Result<Response, Refusal> {
    let AllRequest { inputs, truncate, truncation_direction, prompt_name, model } = request;
    let model = state.models.find(model.as_deref(), Task::Embed)?.clone();
    let Items::Texts(texts) = inputs.items() else {
        return Err(Refusal::new(Kind::Data, "inputs are tokens; expected texts"));
    };
    let (count, characters) = (texts.len(), characters(&texts));
    let cut = truncation_direction.cut(truncate);
    let ask = Ask { asker, model, group: Group::Embed, cut, texts: count, characters };
    let made = Made::new(&state, prompt_name);
    let Answers { items, cost } =
        state.answer(ask, move |reader| reader.embed_tokens_all(&texts, made.embed().prompt)).await?;
    answer(&items, Some(&cost))
}

pub async fn similarity(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<SimilarityRequest>,
) -> Result<Response, Refusal> {
    let SimilarityRequest { inputs, parameters, model } = request;
    let SimilarityParameters { truncate, truncation_direction, prompt_name } = parameters.unwrap_or_default();
    let model = state.models.find(model.as_deref(), Task::Embed)?;
    state.check_count(inputs.sentences.len())?;
    let texts = [vec![inputs.source_sentence], inputs.sentences].concat();
    let cut = truncation_direction.cut(truncate);
    let options = Options { prompt_name, cut, ..Options::default() };
    let Answers { items, cost } = vectors(&state, asker, model, Items::Texts(texts), options).await?;
    let scores: Vec<f32> = match items.split_first() {
        Some((source, others)) => others.iter().map(|other| cosine(source, other)).collect(),
        None => Vec::new(),
    };
    answer(&scores, Some(&cost))
}
