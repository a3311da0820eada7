//! What went wrong between here and a server, in words, and whether trying again may help.

use std::io;
use ureq::http::{HeaderMap, StatusCode};

/// Why a request was in vain.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) reason: String,
    /// Whether the next attempt may go better.
    pub(super) again: bool,
}

impl Failure {
    pub(super) fn last(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), again: false }
    }

    pub(super) fn passing(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), again: true }
    }
}

/// Who was asked for what.
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a str,
    pub(super) model: &'a str,
    pub(super) revision: &'a str,
    pub(super) with_token: bool,
}

/// What the hub means by a status. It tells cases apart in `X-Error-Code`; mirrors often do not.
pub(super) fn refusal(asked: &Asked<'_>, status: StatusCode, headers: &HeaderMap) -> Failure {
    let Asked { endpoint, model, revision, with_token } = asked;
    let code = headers.get("x-error-code").and_then(|code| code.to_str().ok()).unwrap_or("");
    let reason = match (status.as_u16(), code) {
        (_, "RevisionNotFound") => {
            format!("the repository has no revision `{revision}`; expected a branch, a tag or a commit of it")
        }
        (404, "EntryNotFound") => "the hub lists it and does not have it; try again later".into(),
        (_, "GatedRepo") | (403, _) if !with_token => format!(
            "private or gated: accept its terms at {endpoint}/{model}, then set HF_TOKEN to a token of that account"
        ),
        (_, "GatedRepo") | (403, _) => format!(
            "the account of this token may not read it; accept its terms at {endpoint}/{model}, or set HF_TOKEN to a \
             token that may"
        ),
        (401, _) if *with_token => {
            "the token was refused as unknown or expired; set HF_TOKEN to a valid one, or \
             remove it if the model is public"
                .into()
        }
        // The hub does not tell strangers which private repositories exist.
        (401, _) => format!(
            "no such folder, and on {endpoint} no such repository, or a private or gated one; check the name, or set \
             HF_TOKEN to a token that may read it"
        ),
        (404, _) if *revision == "main" => {
            format!("no such folder, and no such repository on {endpoint}; check the name")
        }
        (404, _) => {
            format!("no such repository on {endpoint}, or no revision `{revision}` of it; check both names")
        }
        (429, _) => format!(
            "too many requests for {endpoint}; wait some minutes{}",
            if *with_token { "" } else { ", or set HF_TOKEN, which allows more" }
        ),
        (500.., _) => {
            return Failure::passing(format!(
                "{endpoint} answered {status}, a fault of its own; try again later"
            ));
        }
        _ => format!("{endpoint} answered {status}; expected 200; check HF_ENDPOINT"),
    };
    Failure::last(reason)
}

/// A request that got no answer from `host`.
pub(super) fn unanswered(host: &str, error: &ureq::Error) -> Failure {
    use ureq::{Error, Timeout};
    let advice = "check the network, HF_ENDPOINT and any proxy, or pass a folder";
    match error {
        Error::Io(error) if is_break(error.kind()) => {
            Failure::passing(format!("the connection to {host} broke: {error}; {advice}"))
        }
        Error::Io(error) => Failure::last(format!("cannot connect to {host}: {error}; {advice}")),
        Error::HostNotFound => Failure::last(format!("cannot connect to {host}: no such host; {advice}")),
        Error::Timeout(Timeout::Connect | Timeout::Resolve) | Error::ConnectionFailed => {
            Failure::last(format!("cannot connect to {host}: no answer; {advice}"))
        }
        Error::Timeout(_) => Failure::passing(format!("{host} stopped answering; try again later")),
        Error::Tls(_) | Error::Rustls(_) | Error::Pem(_) => {
            Failure::last(format!("no secure connection to {host}: {error}; check the clock and any proxy"))
        }
        error => Failure::last(format!("the request to {host} failed: {error}; {advice}")),
    }
}

/// Whether a connection was there and is no longer, rather than never made.
fn is_break(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | TimedOut | UnexpectedEof)
}
