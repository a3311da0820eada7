//! Who may ask: pages of this server. A page of another site that the same browser has open may not, nor may a foreign name
//! that was made to point to this machine.

use super::answer::refusal;
use super::language::accepted;
use crate::error::Error;
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
        let own = names.into_iter().chain([address.to_string()]).map(|name| short(&name).to_string());
        let hosts = if address.ip().is_loopback() { own.collect() } else { Vec::new() };
        Guard { hosts }
    }

    /// Why a request with these headers is refused.
    fn refuses(&self, headers: &HeaderMap) -> Option<(&'static str, &'static str)> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
            return Some((
                "the header Host is missing, doubled or unreadable",
                "请求头 Host 缺失、重复或无法读取",
            ));
        };
        let host = short(host);
        if !self.hosts.is_empty() && !self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return Some((
                "this server answers to localhost alone; the header Host names another",
                "本服务器只应答 localhost；请求头 Host 是别的名字",
            ));
        }
        for origin in headers.get_all(header::ORIGIN) {
            let own = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            if !own.is_some_and(|own| short(own).eq_ignore_ascii_case(host)) {
                return Some((
                    "this server answers to its own page alone; the header Origin names another",
                    "本服务器只应答自己的网页；请求头 Origin 是别的网页",
                ));
            }
        }
        None
    }
}

/// A host without the port that `http` has if none is said: browsers leave it out.
fn short(host: &str) -> &str {
    host.strip_suffix(":80").unwrap_or(host)
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
        Some((english, chinese)) => {
            let language = accepted(request.headers());
            refusal(StatusCode::FORBIDDEN, &Error::refused(english, chinese), language)
        }
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(address: &str, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        Guard::new(address.parse().unwrap()).refuses(&headers).is_some()
    }

    #[test]
    fn the_usual_port_may_be_left_out() {
        for host in ["localhost", "127.0.0.1", "[::1]", "LocalHost", "localhost:80", "[::1]:80"] {
            let own = format!("http://{}", host.trim_end_matches(":80"));
            for origin in [None, Some(own.as_str())] {
                assert!(!is_refused("127.0.0.1:80", host, origin), "{host} {origin:?}");
            }
        }
        for (host, origin) in [
            ("evil.example", None),
            ("localhost:8731", None),
            ("", None),
            ("localhost", Some("http://evil.example")),
            ("localhost", Some("http://localhost:8731")),
            ("localhost", Some("https://localhost")),
        ] {
            assert!(is_refused("127.0.0.1:80", host, origin), "{host} {origin:?}");
        }
        // It is the usual port alone that may be left out.
        assert!(!is_refused("127.0.0.1:8731", "localhost:8731", None));
        assert!(is_refused("127.0.0.1:8731", "localhost", None));
        assert!(is_refused("127.0.0.1:8731", "localhost:80", None));
        assert!(!is_refused("0.0.0.0:80", "machine", Some("http://machine")));
    }
}
