//! `/v1/embeddings`.

use super::super::embed::{Options, vectors};
use super::super::texts::Inputs;
use crate::ask::{Answers, Asker, Shared};
use crate::body::{Json, answer};
use crate::models::Task;
use crate::refusal::Refusal;
use axum::extract::State;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Deserialize, JsonSchema)]
pub struct EmbeddingsRequest {
    input: Inputs,
    /// Where one model is served, any name is its name.
    model: Option<String>,
    #[serde(default)]
    encoding_format: Format,
    /// How many numbers of each vector are kept, the first ones.
    dimensions: Option<usize>,
}

/// How a vector is written.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// As numbers.
    #[default]
    Float,
    /// As the bytes of its `f32`, the least first, in base64.
    Base64,
}

#[derive(Serialize, JsonSchema)]
pub struct Embeddings {
    object: &'static str,
    data: Vec<Embedding>,
    model: String,
    usage: Usage,
}

#[derive(Serialize, JsonSchema)]
struct Embedding {
    object: &'static str,
    embedding: Vector,
    index: usize,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Vector {
    Numbers(Vec<f32>),
    Base64(String),
}

#[derive(Serialize, JsonSchema)]
struct Usage {
    prompt_tokens: usize,
    total_tokens: usize,
}

pub async fn embeddings(
    State(state): State<Shared>,
    asker: Asker,
    Json(request): Json<EmbeddingsRequest>,
) -> Result<Response, Refusal> {
    let EmbeddingsRequest { input, model, encoding_format, dimensions } = request;
    let model = state.models.find(model.as_deref(), Task::Embed)?;
    let options = Options { normalize: true, dimensions, ..Options::default() };
    let Answers { items, cost } = vectors(&state, asker, model, input.items(), options).await?;
    let written = |vector: Vec<f32>| match encoding_format {
        Format::Float => Vector::Numbers(vector),
        Format::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            Vector::Base64(STANDARD.encode(bytes))
        }
    };
    let data = items.into_iter().enumerate().map(|(index, vector)| Embedding {
        object: "embedding",
        embedding: written(vector),
        index,
    });
    let embeddings = Embeddings {
        object: "list",
        data: data.collect(),
        model: model.name.clone(),
        usage: Usage { prompt_tokens: cost.tokens, total_tokens: cost.tokens },
    };
    answer(&embeddings, Some(&cost))
}
