//! Configurations: those that are sent to be looked at, and the one that the program was started with.

use super::answer::{computed, question, refusal};
use crate::error::Error;
use crate::exhibits::Exhibits;
use crate::figures::inspect;
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use rope::config::MAX_CONFIG_BYTES;
use serde::Serialize;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

/// The verdict on the configuration in a request's body.
pub async fn inspected(request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let ask = match question::<inspect::Ask>(&parts.uri) {
        Ok(ask) => ask,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error.to_string()),
    };
    match read(body).await {
        Ok(config) => computed(move || inspect::inspect(&ask, &config)).await,
        Err((status, reason)) => refusal(status, &reason),
    }
}

/// What is said to whoever asks for a verdict without sending anything.
pub async fn not_sent() -> Response {
    refusal(StatusCode::METHOD_NOT_ALLOWED, "a config.json is sent to this address with POST")
}

/// The body of a request, which is never larger in memory than a configuration may be; or why there is none.
async fn read(mut body: Body) -> Result<Vec<u8>, (StatusCode, String)> {
    // Most senders listen only when they have sent everything, so some of what is too much is taken and dropped.
    const PATIENCE: usize = 256 << 20;
    let (mut bytes, mut received) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(frame) = frame else {
            return Err((StatusCode::BAD_REQUEST, "the file broke off while it was being sent".into()));
        };
        let Ok(data) = frame.into_data() else { continue };
        received += data.len();
        if received <= MAX_CONFIG_BYTES {
            bytes.extend_from_slice(&data);
        } else if received <= PATIENCE {
            bytes = Vec::new();
        } else {
            break;
        }
    }
    if received > MAX_CONFIG_BYTES {
        let reason = format!("the file has more than {MAX_CONFIG_BYTES} bytes; a config.json has fewer");
        return Err((StatusCode::PAYLOAD_TOO_LARGE, reason));
    }
    Ok(bytes)
}

/// A configuration by its name.
#[derive(Serialize)]
struct Given {
    name: String,
    text: String,
}

/// The configuration that the program was started with, or `null`.
pub async fn given(exhibits: Arc<Exhibits>) -> Response {
    computed(move || {
        let Some((name, bytes)) = &exhibits.config else { return Ok(None) };
        let text = String::from_utf8(bytes.clone())
            .map_err(|_| Error::new(format!("{name} is not a text in UTF-8; expected a config.json")))?;
        Ok(Some(Given { name: name.clone(), text }))
    })
    .await
}
