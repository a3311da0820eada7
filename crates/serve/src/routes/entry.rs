//! What every request passes: its key, its log line, what is said when it is refused or when its handler panics, and who may read
//! the answer.

use crate::ask::{Asker, Shared};
use crate::key;
use crate::refusal::{Kind, Refusal};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

/// Lets a request through that has a key, where one is needed.
pub async fn check_key(State(state): State<Shared>, request: Request, next: Next) -> Response {
    match key::is_right(request.headers(), &state.settings.api_keys) {
        true => next.run(request).await,
        false => {
            let message = "the key is missing or wrong; expected a header `Authorization: Bearer KEY`";
            Refusal::new(Kind::Unauthorized, message).into_response()
        }
    }
}

/// The way in and out of every request.
pub async fn enter(State(state): State<Shared>, asker: Asker, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    request.extensions_mut().insert(began);
    let (method, path) = (request.method().clone(), request.uri().path().to_string());
    let origin = allowed(request.headers(), &state.settings.cors_allow_origin);
    let has_body = request.headers().contains_key(header::TRANSFER_ENCODING)
        || request.headers().get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    let mut is_left = false;
    let is_question =
        method == Method::OPTIONS && request.headers().contains_key("access-control-request-method");
    let mut response = match &origin {
        Some(_) if is_question => preflight(),
        _ => Caught(Box::pin(next.run(request))).await,
    };
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        is_left = has_body && refusal.kind.leaves_body();
        state.metrics.refused(refusal.kind.metric());
        tracing::debug!(%method, path, "refused: {}", refusal.message);
        if path.starts_with("/v1/") || path.starts_with("/v2/") || path == "/embeddings" {
            response = refusal.for_openai().into_response();
        }
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_left {
        // What is left of the body ends the connection; whoever would ask again on it is told.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_micros() as f64 / 1e3);
    tracing::info!(client = %asker.client, %method, path, status, ms, "request");
    response
}

/// The origin of a request, if its pages may read answers.
fn allowed(headers: &HeaderMap, origins: &[String]) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let is_listed = |own: &String| own == "*" || own.as_bytes() == origin.as_bytes();
    origins.iter().any(is_listed).then(|| origin.clone())
}

/// The answer to a browser that asks whether it may ask.
fn preflight() -> Response {
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// A handler's work, in which a panic is an answer like another: the connection goes on.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future<Output = Response>> Future for Caught<F> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Response> {
        catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(context))).unwrap_or_else(|_| {
            tracing::error!("a handler panicked");
            let message = "the server failed on this request; see its log";
            Poll::Ready(Refusal::new(Kind::Backend, message).into_response())
        })
    }
}
