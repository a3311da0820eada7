//! How the server answers: figures as JSON, refusals as `{"error": "…"}` in the language that was asked for.

use crate::error::{Error, Result};
use axum::body::Body;
use axum::extract::Query;
use axum::http::{StatusCode, Uri, header};
use axum::response::Response;
use roformer::language::Language;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The question in an address.
pub fn question<Ask: DeserializeOwned>(uri: &Uri) -> Result<Ask> {
    Query::try_from_uri(uri).map(|Query(ask)| ask).map_err(|error| {
        let message = error.body_text();
        let reason = message.strip_prefix("Failed to deserialize query string: ").unwrap_or(&message);
        unreadable(uri, reason).unwrap_or_else(|| Error::refused(reason, chinese(reason)))
    })
}

/// What is wrong with a value that could not be read as what its parameter is, in place of what the reader of numbers says:
/// that names neither the value nor what was expected.
fn unreadable(uri: &Uri, reason: &str) -> Option<Error> {
    let (name, reason) = reason.split_once(": ")?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let value = &pairs.iter().find(|(key, _)| key == name)?.1;
    let (english, chinese) = match reason {
        "invalid digit found in string" if value.starts_with('-') => {
            ("a whole number from 0 on", "不小于 0 的整数")
        }
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            ("a whole number", "整数")
        }
        "number too large to fit in target type" => ("a smaller number", "更小的数"),
        "number too small to fit in target type" => ("a larger number", "更大的数"),
        "invalid float literal" | "cannot parse float from empty string" => ("a number", "数字"),
        "provided string was not `true` or `false`" => ("true or false", "true 或 false"),
        _ => return None,
    };
    Some(Error::refused(
        format!("{name} is {value:?}; expected {english}"),
        format!("{name} 是 {value:?}；应为{chinese}"),
    ))
}

/// What is wrong with a question, in Chinese: a list that a reader has typed, or an address that no page has made.
fn chinese(reason: &str) -> String {
    match reason.strip_suffix(" in a list is not a number; expected numbers with commas between them") {
        Some(number) => format!("列表中的 {number} 不是数字；应为用逗号隔开的数字"),
        None => format!("这个问题无法读懂：{reason}"),
    }
}

/// An answer as JSON.
pub fn body(answer: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(answer).map_err(|error| Error::new(error.to_string()))
}

/// The answer that a function gives, computed away from the thread that listens.
pub async fn computed(
    language: Language,
    compute: impl FnOnce() -> Result<Vec<u8>> + Send + 'static,
) -> Response {
    let lost = || Error::refused("the figure could not be computed", "这个图无法计算");
    match tokio::task::spawn_blocking(compute).await {
        Ok(Ok(body)) => json(StatusCode::OK, body),
        Ok(Err(error @ Error::Value(_))) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error, language),
        Ok(Err(error)) => refusal(StatusCode::BAD_REQUEST, &error, language),
        Err(_) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &lost(), language),
    }
}

/// A refusal that says why.
pub fn refusal(status: StatusCode, reason: &Error, language: Language) -> Response {
    json(status, serde_json::json!({ "error": reason.said(language) }).to_string().into_bytes())
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
