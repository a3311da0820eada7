//! How the server answers: figures as JSON, refusals as `{"error": "…"}`.

use crate::error::{Error, Result};
use axum::body::Body;
use axum::extract::Query;
use axum::http::{StatusCode, Uri, header};
use axum::response::Response;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The answer to a question in an address. Figures are computed away from the thread that listens.
pub async fn figure<Ask, Answer>(
    uri: Uri,
    compute: impl Fn(&Ask) -> Result<Answer> + Send + 'static,
) -> Response
where
    Ask: DeserializeOwned + Send + 'static,
    Answer: Serialize + Send + 'static,
{
    match question::<Ask>(&uri) {
        Ok(ask) => computed(move || compute(&ask)).await,
        Err(error) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

/// The question in an address.
pub fn question<Ask: DeserializeOwned>(uri: &Uri) -> Result<Ask> {
    Query::try_from_uri(uri).map(|Query(ask)| ask).map_err(|error| {
        let message = error.body_text();
        let reason = message.strip_prefix("Failed to deserialize query string: ").unwrap_or(&message);
        Error::new(unreadable(uri, reason).unwrap_or_else(|| reason.to_string()))
    })
}

/// What is wrong with a value that could not be read as what its parameter is, in place of what the reader of numbers says:
/// that names neither the value nor what was expected.
fn unreadable(uri: &Uri, reason: &str) -> Option<String> {
    let (name, reason) = reason.split_once(": ")?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let value = &pairs.iter().find(|(key, _)| key == name)?.1;
    let expected = match reason {
        "invalid digit found in string" if value.starts_with('-') => "a whole number from 0 on",
        "invalid digit found in string" | "cannot parse integer from empty string" => "a whole number",
        "number too large to fit in target type" => "a smaller number",
        "number too small to fit in target type" => "a larger number",
        "invalid float literal" | "cannot parse float from empty string" => "a number",
        "provided string was not `true` or `false`" => "true or false",
        _ => return None,
    };
    Some(format!("{name} is {value:?}; expected {expected}"))
}

/// The answer that a function gives.
pub async fn computed<Answer: Serialize + Send + 'static>(
    compute: impl FnOnce() -> Result<Answer> + Send + 'static,
) -> Response {
    let answer = tokio::task::spawn_blocking(move || {
        compute().map(|answer| serde_json::to_vec(&answer).map_err(|error| error.to_string()))
    });
    match answer.await {
        Ok(Ok(Ok(body))) => json(StatusCode::OK, body),
        Ok(Err(error)) => refusal(StatusCode::BAD_REQUEST, &error.to_string()),
        Ok(Ok(Err(error))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, "the figure could not be computed"),
    }
}

/// A refusal that says why.
pub fn refusal(status: StatusCode, reason: &str) -> Response {
    json(status, serde_json::json!({ "error": reason }).to_string().into_bytes())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
