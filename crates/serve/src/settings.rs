//! What may be set.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What may be set. The defaults are those of text-embeddings-inference where it has the same setting, but for two: the address is this
/// machine's own, which nobody else reaches, and a request may have more than 32 texts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Requests that are being read, wait or are answered at a time; the next are told to come again later.
    pub max_concurrent_requests: usize,
    /// Tokens of a batch, padding included; also of one text.
    pub max_batch_tokens: usize,
    /// Texts of a batch, if there is a limit.
    pub max_batch_requests: Option<usize>,
    /// Texts of one request.
    pub max_client_batch_size: usize,
    /// Bytes of a request's body.
    pub payload_limit: usize,
    /// Whether texts that are too long are cut, where the request does not say.
    pub auto_truncate: bool,
    /// What stands before every text that is embedded, where the request does not name a prompt.
    pub default_prompt: Option<String>,
    /// The folder's prompt of this name, likewise.
    pub default_prompt_name: Option<String>,
    /// Keys of which a request has to have one, if there are any.
    pub api_keys: Vec<String>,
    /// Origins whose pages may read answers; `*` for all.
    pub cors_allow_origin: Vec<String>,
    /// Threads that read texts.
    pub tokenization_workers: Option<usize>,
    /// How long a request may take from its header to its answer.
    pub deadline: Duration,
    /// How long a connection may take for a header, for a body, or for taking an answer.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            address: (Ipv4Addr::LOCALHOST, 3000).into(),
            max_concurrent_requests: 512,
            max_batch_tokens: 16384,
            max_batch_requests: None,
            max_client_batch_size: 1024,
            payload_limit: 2_000_000,
            auto_truncate: true,
            default_prompt: None,
            default_prompt_name: None,
            api_keys: Vec::new(),
            cors_allow_origin: Vec::new(),
            tokenization_workers: None,
            deadline: Duration::from_secs(60),
            patience: Duration::from_secs(30),
        }
    }
}
