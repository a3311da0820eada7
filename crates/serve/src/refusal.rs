//! What is said to a request that is not answered: a status, a code and one sentence, as JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// Why a request is not answered. The first ones, with their names and statuses, are those of text-embeddings-inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The server is ending.
    Unhealthy,
    /// The model failed, or has no head for what was asked.
    Backend,
    /// Too many requests at a time.
    Overloaded,
    /// A value or a number of texts that is not allowed.
    Validation,
    /// A text that cannot be read.
    Tokenizer,
    /// No texts at all.
    Empty,
    /// A body that is no JSON.
    Syntax,
    /// A body that is JSON, but not what was expected.
    Data,
    /// A body that is too large.
    TooLarge,
    /// A body that did not come in time.
    TooSlow,
    /// An answer that was not there in time.
    Timeout,
    /// Without a key, or with a wrong one.
    Unauthorized,
    /// No model of that name.
    NoModel,
    /// Nothing at this address.
    NotFound,
    /// Not asked in this way.
    Method,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Unhealthy => "Unhealthy",
            Kind::Backend => "Backend",
            Kind::Overloaded => "Overloaded",
            Kind::Validation | Kind::Data | Kind::Syntax | Kind::TooLarge | Kind::TooSlow => "Validation",
            Kind::Tokenizer => "Tokenizer",
            Kind::Empty => "Empty",
            Kind::Timeout => "Timeout",
            Kind::Unauthorized => "Unauthorized",
            Kind::NoModel => "ModelNotFound",
            Kind::NotFound => "NotFound",
            Kind::Method => "MethodNotAllowed",
        }
    }

    pub fn status(self) -> StatusCode {
        match self {
            Kind::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Backend => StatusCode::FAILED_DEPENDENCY,
            Kind::Overloaded => StatusCode::TOO_MANY_REQUESTS,
            Kind::Validation | Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::Tokenizer | Kind::Data => StatusCode::UNPROCESSABLE_ENTITY,
            Kind::Empty | Kind::Syntax => StatusCode::BAD_REQUEST,
            Kind::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Kind::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::NoModel | Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    /// Whether a request is refused so before all of its body has been read.
    pub fn leaves_body(self) -> bool {
        let early = [Kind::TooLarge, Kind::TooSlow, Kind::Unauthorized, Kind::NotFound, Kind::Method];
        early.contains(&self)
    }

    /// The label of `te_request_failure`.
    pub fn metric(self) -> &'static str {
        match self {
            Kind::Unhealthy => "unhealthy",
            Kind::Backend => "inference",
            Kind::Overloaded => "overloaded",
            Kind::Tokenizer => "tokenization",
            Kind::Timeout => "timeout",
            Kind::Unauthorized => "unauthorized",
            _ => "validation",
        }
    }
}

/// A request that is not answered.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub kind: Kind,
    pub message: String,
    /// Seconds after which it may be asked again.
    pub retry_after: Option<u64>,
    /// Whether it is said as OpenAI says it.
    pub is_openai: bool,
}

impl Refusal {
    pub fn new(kind: Kind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), retry_after: None, is_openai: false }
    }

    /// What the library says of a text.
    pub fn of_text(error: &roformer::Error) -> Refusal {
        let message = error.to_string();
        let kind = match error {
            roformer::Error::Input { value, .. } if value.starts_with("asked of a model") => Kind::Backend,
            roformer::Error::Input { .. } => Kind::Tokenizer,
            _ => Kind::Backend,
        };
        Refusal::new(kind, message)
    }

    pub fn for_openai(self) -> Refusal {
        Refusal { is_openai: true, ..self }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.kind.status();
        let (name, message) = (self.kind.name(), &self.message);
        let body = match self.is_openai {
            true => {
                let error = json!({"message": message, "type": name, "param": null, "code": status.as_u16()});
                // Cohere's clients look for a message at the top.
                json!({ "error": error, "message": message })
            }
            false => json!({ "error": message, "error_type": name }),
        };
        let mut response = Response::new(Body::from(body.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.kind == Kind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}
