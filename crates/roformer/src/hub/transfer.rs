//! Requests to the hub, and one file from there into the cache.
//!
//! hf-hub knows the addresses and lists a repository. The bytes are moved here, because its own download checks neither
//! hash nor length, appends a whole file to its beginning where a server ignores `Range`, follows the branch and not the
//! commit that was listed, and sends the token along to the host that a large file is redirected to.

use super::address::{origin, range, target, text};
use super::cache::Repo;
use super::hash::{algorithm, hash};
use super::status::{Asked, Failure, refusal, unanswered};
use super::{Options, Progress};
use crate::weights::brief;
use hf_hub::api::RepoInfo;
use hf_hub::api::sync::{Api, ApiBuilder};
use hf_hub::{Cache, RepoType};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, RANGE};
use ureq::http::{Method, Request, Response, StatusCode, Uri};
use ureq::{Agent, Body};

/// To connect.
const CONNECT: Duration = Duration::from_secs(15);
/// For the next bytes. A file may take as long as it needs while some arrive.
const SILENCE: Duration = Duration::from_secs(60);
/// Attempts that bring nothing, until the error is reported.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; twice that before the third.
const PAUSE: Duration = Duration::from_millis(300);
const REDIRECTS: usize = 10;
/// The most that is read of a list of files.
const LISTING: u64 = 64 << 20;
const BUFFER: usize = 256 << 10;

type Answer<T> = Result<T, Failure>;

/// The hub, as seen by whoever asks for one model.
pub(super) struct Client<'a> {
    model: &'a str,
    endpoint: String,
    /// The same, taken apart.
    home: Uri,
    token: Option<String>,
    progress: Option<&'a (dyn Fn(Progress<'_>) + Sync)>,
    api: Api,
    agent: Agent,
}

/// What the hub says of a file.
struct Remote {
    /// Its name in the cache: SHA-256 if kept by git LFS, else the SHA-1 of a git blob. Mirrors may use others.
    etag: String,
    size: Option<u64>,
    /// Where its bytes are.
    uri: Uri,
}

impl<'a> Client<'a> {
    pub(super) fn new(
        model: &'a str,
        endpoint: &str,
        token: Option<String>,
        options: &Options<'a>,
    ) -> Result<Self, String> {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let Some(home) = endpoint.parse::<Uri>().ok().filter(|uri| origin(uri).is_some()) else {
            let found = brief(&endpoint);
            return Err(format!("HF_ENDPOINT is `{found}`; expected an address that begins with https://"));
        };
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            let expected = "expected one word of letters, digits and signs, as `hf_…`";
            return Err(format!("the token of HF_TOKEN, or of its file, is invalid; {expected}"));
        }
        // The cache of hf-hub is not used; with this one it reads no token from anywhere.
        let api = ApiBuilder::from_cache(Cache::new("".into()))
            .with_endpoint(endpoint.clone())
            .with_token(token.clone())
            .with_user_agent("roformer", env!("CARGO_PKG_VERSION"))
            .build()
            .map_err(|error| format!("cannot prepare the download: {error}"))?;
        let agent = Agent::config_builder()
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("roformer/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Ok(Client { model, endpoint, home, token, progress: options.progress, api, agent })
    }

    /// The commit that a revision is at, and the files in it.
    pub(super) fn info(&self, revision: &str) -> Result<RepoInfo, String> {
        let attempt = || {
            // hf-hub would let the token follow to another port of the host.
            let request =
                self.repo(revision).info_request().config().max_redirects(0).http_status_as_error(false);
            let request = request.timeout_connect(Some(CONNECT)).timeout_per_read(Some(SILENCE)).build();
            let mut response = request.call().map_err(|error| unanswered(&self.endpoint, &error))?;
            if response.status().is_redirection() {
                let next = target(&self.home, response.headers());
                let next = next.ok_or_else(|| Failure::last(self.odd("it redirects to no address")))?;
                response = self.follow(revision, &next, 0)?;
            }
            if response.status() != StatusCode::OK {
                return Err(self.refused(revision, &response));
            }
            let json = response.body_mut().with_config().limit(LISTING).read_to_vec();
            let json = json.map_err(|error| unanswered(&self.endpoint, &error))?;
            serde_json::from_slice(&json).map_err(|_| Failure::last(self.odd("its list of files is invalid")))
        };
        persist(|_| attempt())
    }

    /// A server that is not a hub.
    pub(super) fn odd(&self, found: &str) -> String {
        format!("{} does not answer as a hub does: {found}; check HF_ENDPOINT", self.endpoint)
    }

    /// Brings a file of a commit into the snapshot.
    pub(super) fn get(&self, repo: &Repo, commit: &str, name: &str) -> Result<(), String> {
        let pointer = repo.snapshot(commit).join(name);
        if pointer.exists() {
            return Ok(());
        }
        persist(|reached| self.try_get(repo, commit, name, &pointer, reached))
            .map_err(|reason| format!("{name}: {reason}"))
    }

    fn try_get(
        &self,
        repo: &Repo,
        commit: &str,
        name: &str,
        pointer: &Path,
        reached: &mut u64,
    ) -> Answer<()> {
        let remote = self.describe(commit, name)?;
        let Remote { etag, size, .. } = &remote;
        let blobs = repo.blobs();
        let (blob, part) = (blobs.join(etag), blobs.join(format!("{etag}.incomplete")));
        let disk = |error| broken_disk(&blobs, &error);

        fs::create_dir_all(&blobs).map_err(disk)?;
        let _lock = repo.lock(etag).map_err(disk)?;
        // Another process may have brought it while this one waited.
        if pointer.exists() {
            return Ok(());
        }
        let is_whole = |found: u64| size.is_none_or(|size| found == size);
        if !fs::metadata(&blob).is_ok_and(|meta| is_whole(meta.len())) {
            let size = self.transfer(commit, name, &remote, &part, reached)?;
            if let Some(found) = hash(&part, etag, size).map_err(disk)?
                && !found.eq_ignore_ascii_case(etag)
            {
                fs::remove_file(&part).map_err(disk)?;
                return Err(Failure::last(format!(
                    "its hash is {found}; expected {etag}; what arrived was damaged and is deleted: try again, and if \
                     it recurs, check HF_ENDPOINT and any proxy"
                )));
            }
            fs::rename(&part, &blob).map_err(disk)?;
        }
        repo.link(etag, pointer).map_err(disk)
    }

    /// Asks where a file is. Redirects within the hub are followed; one to another host is where the bytes are.
    fn describe(&self, commit: &str, name: &str) -> Answer<Remote> {
        let odd = |found: &str| Failure::last(self.odd(found));
        let url = self.repo(commit).url(name);
        let mut uri: Uri = url.parse().map_err(|_| odd("its address makes no valid one for a file"))?;
        let (mut linked, mut size) = (None, None);
        for _ in 0..REDIRECTS {
            let response = self.call(Method::HEAD, &uri, 0)?;
            let (status, headers) = (response.status(), response.headers());
            // The length of a redirect is its own; that of the file is in `X-Linked-Size`.
            let own = if status.is_redirection() { None } else { text(headers, CONTENT_LENGTH.as_str()) };
            size = size.or_else(|| text(headers, "x-linked-size").or(own)?.parse().ok());
            linked = linked.or_else(|| text(headers, "x-linked-etag").map(str::to_owned));
            if status.is_redirection() {
                uri = target(&uri, headers).ok_or_else(|| odd("it redirects to no address"))?;
                if self.is_ours(&uri) {
                    continue;
                }
            } else if !status.is_success() {
                return Err(self.refused(commit, &response));
            }
            let etag = linked.as_deref().or_else(|| text(headers, ETAG.as_str())).unwrap_or_default();
            let etag = etag.trim_start_matches("W/").trim_matches('"').to_owned();
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
            if etag.is_empty() || etag.len() > 128 || !etag.chars().all(is_name) {
                return Err(odd("a file without an ETag"));
            }
            return Ok(Remote { etag, size, uri });
        }
        Err(odd("it redirects in circles"))
    }

    /// Brings the rest of a file into `part`, which may hold its beginning, and returns its length.
    fn transfer(
        &self,
        commit: &str,
        name: &str,
        remote: &Remote,
        part: &Path,
        reached: &mut u64,
    ) -> Answer<u64> {
        let disk = |error| broken_disk(part, &error);
        let mut file = File::options().create(true).append(true).open(part).map_err(disk)?;
        let mut start = file.metadata().map_err(disk)?.len();
        if remote.size.is_some_and(|size| start > size) {
            file.set_len(0).map_err(disk)?;
            start = 0;
        }
        if remote.size == Some(start) && start > 0 {
            return Ok(start);
        }

        let response = self.follow(commit, &remote.uri, start)?;
        let headers = response.headers();
        let (from, total) = match response.status() {
            // There is nothing from there on, so that what is here cannot be its beginning.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                file.set_len(0).map_err(disk)?;
                return Err(Failure::passing("the server has less of it than is here; try again"));
            }
            StatusCode::PARTIAL_CONTENT => text(headers, CONTENT_RANGE.as_str())
                .and_then(range)
                .ok_or_else(|| Failure::last(self.odd("part of a file without its place")))?,
            _ => (0, text(headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok())),
        };
        if from != start {
            file.set_len(0).map_err(disk)?;
            start = 0;
            if from != 0 {
                return Err(Failure::passing("the server sent another part of it; try again"));
            }
        }
        if let (Some(size), Some(total)) = (remote.size, total)
            && size != total
        {
            let found = format!("the server has {total} bytes of it; expected {size}; try again later");
            return Err(Failure::last(found));
        }
        let total = remote.size.or(total);
        if total.is_none() && algorithm(&remote.etag).is_none() {
            return Err(Failure::last(self.odd("a file with neither length nor hash")));
        }

        let mut done = start;
        let tell = |done| {
            if let Some(tell) = self.progress {
                tell(Progress { file: name, done, total });
            }
        };
        tell(done);
        // One byte more than there can be shows that there are too many; the rest of them need not be read.
        let most = total.map_or(u64::MAX, |total| total.saturating_sub(start).saturating_add(1));
        let mut body = response.into_body().into_reader().take(most);
        let mut buffer = vec![0; BUFFER];
        loop {
            let count = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let far = total.map_or(String::new(), |total| format!(" of {total}"));
                    let advice = "ask for the model again to continue there";
                    return Err(Failure::passing(format!(
                        "broke off after {done}{far} bytes: {error}; {advice}"
                    )));
                }
            };
            file.write_all(&buffer[..count]).map_err(disk)?;
            done += count as u64;
            *reached = done.max(*reached);
            tell(done);
        }
        if let Some(total) = total.filter(|total| done != *total) {
            if done > total {
                file.set_len(0).map_err(disk)?;
            }
            return Err(Failure::passing(format!(
                "the server sent {done} bytes; expected {total}; try again"
            )));
        }
        file.sync_all().map_err(disk)?;
        Ok(done)
    }

    /// Gets something from byte `start` on, wherever it is redirected to.
    fn follow(&self, commit: &str, uri: &Uri, start: u64) -> Answer<Response<Body>> {
        let mut uri = uri.clone();
        for _ in 0..REDIRECTS {
            let response = self.call(Method::GET, &uri, start)?;
            let status = response.status();
            if status.is_redirection() {
                let next = target(&uri, response.headers());
                uri = next.ok_or_else(|| Failure::last(self.odd("it redirects to no address")))?;
            } else if matches!(status.as_u16(), 200 | 206 | 416) {
                return Ok(response);
            } else if self.is_ours(&uri) {
                return Err(self.refused(commit, &response));
            } else {
                // Addresses elsewhere hold for an hour or so; another attempt asks for a new one.
                let host = uri.host().unwrap_or_default();
                return Err(Failure::passing(format!(
                    "{host}, which keeps it, answered {status}; try again later"
                )));
            }
        }
        Err(Failure::last(self.odd("it redirects in circles")))
    }

    /// One request. The token goes to the hub and nowhere else.
    fn call(&self, method: Method, uri: &Uri, start: u64) -> Answer<Response<Body>> {
        // Compressed, a file has another length and cannot be continued.
        let mut request = Request::builder().method(method).uri(uri).header(ACCEPT_ENCODING, "identity");
        if start > 0 {
            request = request.header(RANGE, format!("bytes={start}-"));
        }
        if let Some(token) = self.token.as_ref().filter(|_| self.is_ours(uri)) {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(()).map_err(|error| Failure::last(self.odd(&error.to_string())))?;
        let host = || uri.authority().map_or("", |authority| authority.as_str());
        self.agent.run(request).map_err(|error| unanswered(host(), &error))
    }

    fn is_ours(&self, uri: &Uri) -> bool {
        origin(uri).is_some() && origin(uri) == origin(&self.home)
    }

    fn repo(&self, revision: &str) -> hf_hub::api::sync::ApiRepo {
        let (model, revision) = (self.model.to_owned(), revision.to_owned());
        self.api.repo(hf_hub::Repo::with_revision(model, RepoType::Model, revision))
    }

    fn refused(&self, revision: &str, response: &Response<Body>) -> Failure {
        let (endpoint, with_token) = (&self.endpoint, self.token.is_some());
        let asked = Asked { endpoint, model: self.model, revision, with_token };
        refusal(&asked, response.status(), response.headers())
    }
}

/// Tries until it works, or has failed for a lasting reason, or several times without getting any further.
fn persist<T>(mut attempt: impl FnMut(&mut u64) -> Answer<T>) -> Result<T, String> {
    let (mut reached, mut before, mut tries) = (0, 0, 0);
    loop {
        match attempt(&mut reached) {
            Ok(value) => return Ok(value),
            Err(failure) => {
                tries = if reached > before { 1 } else { tries + 1 };
                before = reached;
                if !failure.again || tries >= ATTEMPTS {
                    return Err(failure.reason);
                }
                sleep(PAUSE * tries);
            }
        }
    }
}

fn broken_disk(path: &Path, error: &io::Error) -> Failure {
    let place = path.display();
    Failure::last(if error.kind() == io::ErrorKind::StorageFull {
        format!(
            "no space left for {place}; free some to continue there, or set HF_HUB_CACHE to a larger disk"
        )
    } else {
        format!("cannot write {place}: {error}; check its permissions, or set HF_HUB_CACHE")
    })
}
