//! Configurations: those that are sent to be looked at, and the one that the program was started with.

use super::answer::{body, computed, question, refusal};
use super::language::{Asked, accepted};
use crate::error::{Error, Result};
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

/// The verdict on the configuration in a request's body.
pub async fn inspected(request: Request) -> Response {
    let (parts, sent) = request.into_parts();
    let language = accepted(&parts.headers);
    let ask = match question::<inspect::Ask>(&parts.uri) {
        Ok(ask) => ask,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, &error, language),
    };
    match read(sent).await {
        Ok(config) => computed(language, move || body(&inspect::inspect(&ask, &config, language)?)).await,
        Err((status, reason)) => refusal(status, &reason, language),
    }
}

/// What is said to whoever asks for a verdict without sending anything.
pub async fn not_sent(Asked(language): Asked) -> Response {
    let reason = Error::refused(
        "a config.json is sent to this address with POST",
        "config.json 要用 POST 发到这个地址",
    );
    refusal(StatusCode::METHOD_NOT_ALLOWED, &reason, language)
}

/// The body of a request, which is never larger in memory than a configuration may be; or why there is none.
async fn read(mut body: Body) -> std::result::Result<Vec<u8>, (StatusCode, Error)> {
    // Most senders listen only when they have sent everything, so some of what is too much is taken and dropped.
    const PATIENCE: usize = 256 << 20;
    let (mut bytes, mut received) = (Vec::new(), 0);
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(frame) = frame else {
            let reason = Error::refused("the file broke off while it was being sent", "文件没有发完就断了");
            return Err((StatusCode::BAD_REQUEST, reason));
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
        let reason = Error::refused(
            format!("the file has more than {MAX_CONFIG_BYTES} bytes; a config.json has fewer"),
            format!("文件超过 {MAX_CONFIG_BYTES} 字节；config.json 没有这么大"),
        );
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
pub fn given(exhibits: &Exhibits) -> Result<Vec<u8>> {
    let Some((name, bytes)) = &exhibits.config else { return body(&None::<Given>) };
    let text = String::from_utf8(bytes.clone()).map_err(|_| {
        Error::refused(
            format!("{name} is not a text in UTF-8; expected a config.json"),
            format!("{name} 不是 UTF-8 文本；应为 config.json"),
        )
    })?;
    body(&Some(Given { name: name.clone(), text }))
}
