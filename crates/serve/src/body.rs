//! The body of a request, within its limits, and that of an answer.

use crate::ask::{Cost, Shared};
use crate::refusal::{Kind, Refusal};
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

/// A request's JSON.
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Shared> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &Shared) -> Result<Self, Refusal> {
        let bytes = read(request, state).await?;
        parse(&bytes).map(Json)
    }
}

/// The bytes of a request. One that says how large it is, is refused before it is read.
pub async fn read(request: Request, state: &Shared) -> Result<Bytes, Refusal> {
    let (limit, patience) = (state.settings.payload_limit, state.settings.patience);
    let too_large = || {
        let message = format!("the body has more than {limit} bytes, which is the most (--payload-limit)");
        Refusal::new(Kind::TooLarge, message)
    };
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if length.and_then(|length| length.parse::<u64>().ok()).is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let body = Limited::new(request.into_body(), limit).collect();
    match tokio::time::timeout(patience, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Refusal::new(Kind::Syntax, format!("the body broke off: {error}"))),
        Err(_) => {
            let message = format!("the body was not there within {} s", patience.as_secs_f64());
            Err(Refusal::new(Kind::TooSlow, message))
        }
    }
}

/// What JSON says. Nesting is limited by the parser, to 128.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    // A list would be taken for the fields in their order.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        parse_any::<IgnoredAny>(bytes)?;
        return Err(Refusal::new(Kind::Data, "the body is a list; expected an object"));
    }
    parse_any(bytes)
}

fn parse_any<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes).map_err(|error| {
        let kind = if error.classify() == Category::Data { Kind::Data } else { Kind::Syntax };
        Refusal::new(kind, format!("the body cannot be read: {error}"))
    })
}

/// The same of a value that has been parsed.
pub fn from_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Refusal> {
    serde_json::from_value(value)
        .map_err(|error| Refusal::new(Kind::Data, format!("the body cannot be read: {error}")))
}

/// An answer in JSON, with what it cost.
pub fn answer(value: &impl Serialize, cost: Option<&Cost>) -> Result<Response, Refusal> {
    let text = serde_json::to_vec(value)
        .map_err(|error| Refusal::new(Kind::Backend, format!("the answer is no JSON: {error}")))?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.extend(cost.map(Cost::headers).unwrap_or_default());
    Ok(response)
}
