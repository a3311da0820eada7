//! A hub on this machine: two hosts that answer as the real ones do, one for the repositories and one for large files.
//!
//! Both remember what they were asked and how much they sent, and can be told to fail in every way a test needs.

use ring::digest;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

pub const MODEL: &str = "owner/model";
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// What one of the hosts was asked.
#[derive(Debug, Clone)]
pub struct Seen {
    pub host: Host,
    pub method: String,
    pub path: String,
    pub range: Option<String>,
    pub authorization: Option<String>,
    /// How many bytes of a file went out.
    pub sent: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Host {
    Hub,
    /// Where large files are.
    Store,
}

#[derive(Default)]
pub struct State {
    pub files: BTreeMap<String, Vec<u8>>,
    /// Sent instead of the file, under the name and hash of the file.
    pub damaged: BTreeMap<String, Vec<u8>>,
    /// Without it, 401.
    pub token: Option<&'static str>,
    /// Answered, once each, before anything else is.
    pub statuses: VecDeque<(u16, &'static str)>,
    /// Where the next large files break off, each counted from the beginning of the file.
    pub cuts: VecDeque<usize>,
    pub ignores_range: bool,
    /// The list of files is at the other host.
    pub moved: bool,
    pub seen: Vec<Seen>,
}

pub struct Hub {
    pub address: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub fn new(files: &[(&str, &[u8])]) -> Hub {
        let files = files.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
        let state = Arc::new(Mutex::new(State { files, ..State::default() }));
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (hub, store) = (listen(), listen());
        let (address, elsewhere) = (hub.local_addr().unwrap(), store.local_addr().unwrap());
        for (listener, host) in [(hub, Host::Hub), (store, Host::Store)] {
            let state = state.clone();
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = state.clone();
                    thread::spawn(move || serve(stream, host, elsewhere, &state));
                }
            });
        }
        Hub { address: format!("http://{address}"), state }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// What was asked since the last time.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes))
}

pub fn git_sha1(bytes: &[u8]) -> String {
    let blob = [format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat();
    hex(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &blob))
}

fn hex(digest: digest::Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether git LFS would keep a file, which is what the real hub asks for of weights.
fn is_large(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".bin")
}

fn serve(mut stream: TcpStream, host: Host, store: SocketAddr, state: &Mutex<State>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    let mut words = request.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut range, mut authorization) = (None, None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(": ").unwrap();
        match name.to_ascii_lowercase().as_str() {
            "range" => range = Some(value.to_owned()),
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }

    let mut state = state.lock().unwrap();
    let start = range.as_ref().filter(|_| !state.ignores_range).map_or(0, |range| {
        range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap().parse().unwrap()
    });
    let answer = answer(&mut state, host, store, &path, authorization.as_deref());
    let body = answer.body.get(start..).unwrap_or_default();
    let status = match (answer.status, start) {
        (200, 1..) if body.is_empty() => 416,
        (200, 1..) => 206,
        (status, _) => status,
    };
    let end = answer.cut.unwrap_or(answer.body.len()).clamp(start.min(answer.body.len()), answer.body.len());
    let body_sent = if method == "HEAD" { &[] } else { &answer.body[start.min(end)..end] };
    let (length, total) = (body.len(), answer.body.len());
    let mut head = format!("HTTP/1.1 {status} Whatever\r\nConnection: close\r\nContent-Length: {length}\r\n");
    if status == 206 {
        head += &format!("Content-Range: bytes {start}-{}/{total}\r\n", total - 1);
    }
    head += &answer.headers;
    head += "\r\n";
    state.seen.push(Seen { host, method, path, range, authorization, sent: body_sent.len() });
    drop(state);
    let _ = stream.write_all(&[head.as_bytes(), body_sent].concat());
}

#[derive(Default)]
struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    cut: Option<usize>,
}

fn answer(
    state: &mut State,
    host: Host,
    store: SocketAddr,
    path: &str,
    authorization: Option<&str>,
) -> Answer {
    let error = |status, code: &str| {
        let headers = if code.is_empty() { String::new() } else { format!("X-Error-Code: {code}\r\n") };
        Answer { status, headers, ..Answer::default() }
    };
    let redirect =
        |status, to: String| Answer { status, headers: format!("Location: {to}\r\n"), ..Answer::default() };
    let list = |state: &State| {
        let siblings: Vec<_> = state.files.keys().map(|name| json!({ "rfilename": name })).collect();
        let body = json!({ "sha": COMMIT, "siblings": siblings, "private": false }).to_string().into_bytes();
        Answer { status: 200, body, ..Answer::default() }
    };

    if host == Host::Store {
        let Some(hash) = path.strip_prefix("/blob/").and_then(|path| path.strip_suffix("?signature=1"))
        else {
            return list(state);
        };
        let Some((name, bytes)) = state.files.iter().find(|(_, bytes)| sha256(bytes) == hash) else {
            return error(403, "");
        };
        let body = state.damaged.get(name).unwrap_or(bytes).clone();
        return Answer { status: 200, body, cut: state.cuts.pop_front(), ..Answer::default() };
    }
    if let Some((status, code)) = state.statuses.pop_front() {
        return error(status, code);
    }
    if let Some(token) = state.token
        && authorization != Some(&format!("Bearer {token}"))
    {
        return error(401, if authorization.is_some() { "" } else { "GatedRepo" });
    }
    if let Some(revision) = path.strip_prefix(&format!("/api/models/{MODEL}/revision/")) {
        return match revision {
            _ if state.moved => redirect(307, format!("http://{store}/list")),
            "main" | "refs%2Fpr%2F1" | COMMIT => list(state),
            _ => error(404, "RevisionNotFound"),
        };
    }
    let resolve = format!("/{MODEL}/resolve/{COMMIT}/");
    let within = format!("/api/resolve-cache/models/{MODEL}/{COMMIT}/");
    let Some(name) = path.strip_prefix(&resolve).or(path.strip_prefix(&within)) else {
        return error(404, "RepoNotFound");
    };
    let Some(bytes) = state.files.get(name) else { return error(404, "EntryNotFound") };
    if is_large(name) {
        let hash = sha256(bytes);
        let mut answer = redirect(302, format!("http://{store}/blob/{hash}?signature=1"));
        answer.headers += &format!("X-Linked-Etag: \"{hash}\"\r\nX-Linked-Size: {}\r\n", bytes.len());
        answer.headers += &format!("X-Repo-Commit: {COMMIT}\r\n");
        answer.body = b"Found. Redirecting elsewhere".to_vec();
        answer
    } else if path.starts_with(&resolve) {
        redirect(307, format!("{within}{name}"))
    } else {
        let headers = format!("ETag: \"{}\"\r\nX-Repo-Commit: {COMMIT}\r\n", git_sha1(bytes));
        Answer { status: 200, headers, body: state.damaged.get(name).unwrap_or(bytes).clone(), cut: None }
    }
}
