//! The routes of OpenAI: vectors, models, and what follows a text.

mod completions;
mod embeddings;

pub use completions::{Completions, CompletionsRequest, completions};
pub use embeddings::{Embeddings, EmbeddingsRequest, embeddings};

use crate::ask::Shared;
use crate::body::answer;
use crate::models::Model;
use crate::refusal::{Kind, Refusal};
use axum::extract::{Path, State};
use axum::response::Response;
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Serialize, JsonSchema)]
pub struct List<T> {
    object: &'static str,
    data: Vec<T>,
}

#[derive(Serialize, JsonSchema)]
pub struct ModelCard {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: &'static str,
}

fn card(model: &Model) -> ModelCard {
    ModelCard { id: model.name.clone(), object: "model", created: model.created, owned_by: "roformer" }
}

pub async fn models(State(state): State<Shared>) -> Result<Response, Refusal> {
    let data = state.models.0.iter().map(|model| card(model)).collect();
    answer(&List { object: "list", data }, None)
}

pub async fn model(State(state): State<Shared>, Path(name): Path<String>) -> Result<Response, Refusal> {
    let named = state.models.0.iter().find(|model| model.name == name);
    let missing = || Refusal::new(Kind::NoModel, format!("no model is called {name:?}; see /v1/models"));
    answer(&card(named.ok_or_else(missing)?), None)
}
