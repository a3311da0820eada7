//! `POST /`: whatever the body asks for. Clients that know an address and nothing else send every task there.

use super::{embed, extra, rerank, tei};
use crate::ask::{Asker, Shared};
use crate::body::{Json, from_value};
use crate::models::Task;
use crate::refusal::Refusal;
use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

/// Tells by the form of the body which task it is; where several are left, by what the model does.
pub async fn any(
    State(state): State<Shared>,
    asker: Asker,
    Json(mut body): Json<Value>,
) -> Result<Response, Refusal> {
    let inputs = &body["inputs"];
    let shared = State(state.clone());
    if inputs.get("source_sentence").is_some() {
        return embed::similarity(shared, asker, Json(from_value(body)?)).await;
    }
    if inputs.get("question").is_some() {
        return extra::answer(shared, asker, Json(from_value(body)?)).await;
    }
    if body.get("query").is_some() {
        return rerank::rerank(shared, asker, Json(from_value(body)?)).await;
    }
    let named = body.get("model").and_then(Value::as_str);
    let model = state.models.find(named, Task::Embed)?;
    let tokenizer = model.reader().tokenizer();
    let mask = tokenizer.mask_id().and_then(|id| tokenizer.token(id));
    let has_mask =
        |text: &Value| mask.as_ref().zip(text.as_str()).is_some_and(|(mask, text)| text.contains(mask));
    if model.can(Task::FillMask) && (has_mask(inputs) || has_mask(&inputs[0])) {
        return extra::fill_mask(shared, asker, Json(from_value(body)?)).await;
    }
    if model.can(Task::ClassifyTokens) {
        return extra::classify_tokens(shared, asker, Json(from_value(body)?)).await;
    }
    if model.can(Task::Predict) {
        if body.get("parameters").is_some() && inputs.is_string() {
            // `huggingface_hub` sends parameters, and reads a list for each text also where there is one.
            body["inputs"] = json!([[inputs]]);
        }
        return tei::predict(shared, asker, Json(from_value(body)?)).await;
    }
    embed::embed(shared, asker, Json(from_value(body)?)).await
}
