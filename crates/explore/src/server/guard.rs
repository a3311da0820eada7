//! Who may ask: pages of this server. A page of another site that the same browser has open may not, nor may a foreign name
//! that was made to point to this machine.

use super::answer::refusal;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::SocketAddr;

/// The names under which the server may be asked.
#[derive(Clone)]
pub struct Guard {
    /// Empty for a server that others on the network may ask: they know it by names that it does not.
    hosts: Vec<String>,
}

impl Guard {
    pub fn new(address: SocketAddr) -> Guard {
        let port = address.port();
        let names = ["localhost", "127.0.0.1", "[::1]"].map(|name| format!("{name}:{port}"));
        let own = address.to_string();
        let hosts =
            if address.ip().is_loopback() { names.into_iter().chain([own]).collect() } else { Vec::new() };
        Guard { hosts }
    }

    /// Why a request with these headers is refused.
    fn refuses(&self, headers: &HeaderMap) -> Option<&'static str> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
            return Some("the header Host is missing, doubled or unreadable");
        };
        if !self.hosts.is_empty() && !self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return Some("this server answers to localhost alone; the header Host names another");
        }
        for origin in headers.get_all(header::ORIGIN) {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
                return Some("this server answers to its own page alone; the header Origin names another");
            }
        }
        None
    }
}

/// What a browser is told about every answer: nothing from elsewhere, in no frame, as what it is said to be.
const HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Lets a request through, or not.
pub async fn check(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match guard.refuses(request.headers()) {
        Some(reason) => refusal(StatusCode::FORBIDDEN, reason),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
