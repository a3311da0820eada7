//! Models by name: a folder, or a repository on the Hugging Face hub, whose files are looked for in the local cache and
//! downloaded where they are not there.
//!
//! ```no_run
//! # fn main() -> roformer::Result<()> {
//! use roformer::hub::{Options, find};
//! let folder = find("junnyu/roformer_chinese_base", &Options::default())?;
//! assert!(folder.join("config.json").exists());
//! # Ok(())
//! # }
//! ```
//!
//! The cache is the one that Python's `huggingface_hub` keeps, file by file, so that either finds what the other has
//! downloaded. A model that is there is used as it is: the hub is not asked whether a branch has moved since.
//!
//! ```text
//! mod.rs       what is asked for; the settings, given or from the environment
//! cache.rs     the layout of the cache, and whether all of a model is there
//! download.rs  which files a model has, and in which order they come
//! transfer.rs  one file: requests, redirects, continuing, checking
//! address.rs   addresses and headers, taken apart
//! hash.rs      the hashes that files are checked against
//! status.rs    what an answer means that is not the file
//! ```

#[cfg(feature = "hub")]
mod address;
mod cache;
#[cfg(feature = "hub")]
mod download;
#[cfg(feature = "hub")]
mod hash;
#[cfg(feature = "hub")]
mod status;
#[cfg(feature = "hub")]
mod transfer;

use crate::error::{Error, Result};
use crate::weights::brief;
use cache::{Held, Repo};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Where models are looked for, and how. What is `None` is taken from the environment, as `huggingface_hub` does.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// A branch, a tag or a commit; `main` if not given.
    pub revision: Option<&'a str>,
    /// The cache; else `HF_HUB_CACHE`, else `hub` in `HF_HOME`, which is `~/.cache/huggingface` if not set.
    pub cache: Option<&'a Path>,
    /// The address of the hub; else `HF_ENDPOINT`, else that of Hugging Face.
    pub endpoint: Option<&'a str>,
    /// The token of an account, or `""` for none; else `HF_TOKEN`, else what stands in the file `HF_TOKEN_PATH`, which is
    /// `token` in `HF_HOME` if not set. It is sent to `endpoint` alone.
    pub token: Option<&'a str>,
    /// Whether only the cache is used; else whether `HF_HUB_OFFLINE` is set.
    pub offline: Option<bool>,
    /// Called as the bytes of a file arrive.
    pub progress: Option<&'a (dyn Fn(Progress<'_>) + Sync)>,
}

/// How far the download of a file has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The bytes that are here, those of an earlier download that broke off included.
    pub done: u64,
    /// The bytes it has in all, if the server has said so.
    pub total: Option<u64>,
}

/// The folder of a model, with its `config.json`, its weights and the files of its tokenizer.
///
/// `model` is a folder, or `name` or `owner/name` on the hub. A folder is returned as it is. A model in the cache is found
/// there without any request; otherwise its files are downloaded into the cache, each checked against its hash. A download
/// that breaks off continues there when it is asked for again. Without the feature `hub`, only the cache is searched.
pub fn find(model: &str, options: &Options<'_>) -> Result<PathBuf> {
    look(model, options, Wanted::Model)
}

/// The `config.json` of a model that is named as for [`find`]. No more than that is downloaded.
pub fn find_config(model: &str, options: &Options<'_>) -> Result<PathBuf> {
    Ok(look(model, options, Wanted::Config)?.join(cache::CONFIG))
}

/// How much of a model is needed.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Model,
    Config,
}

fn look(model: &str, options: &Options<'_>, wanted: Wanted) -> Result<PathBuf> {
    let path = Path::new(model);
    let failed = |reason: String| Error::Hub { model: brief(model), reason };
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Ok(path.to_owned()),
        Ok(_) => return Err(failed("a file, not a folder; pass the folder that it is in".into())),
        Err(_) => {}
    }
    if !is_name(model) {
        let expected = "expected the folder of a model, or `name` or `owner/name`";
        return Err(failed(format!("no such folder, and not a hub name; {expected}")));
    }
    let revision = options.revision.unwrap_or("main");
    if !is_revision(revision) {
        let (found, expected) =
            (brief(revision), "a branch, a tag or a commit, in letters, digits and . _ - + /");
        return Err(failed(format!("`{found}` is not a revision; expected {expected}")));
    }
    search(model, revision, options, wanted).map_err(failed)
}

fn search(
    model: &str,
    revision: &str,
    options: &Options<'_>,
    wanted: Wanted,
) -> std::result::Result<PathBuf, String> {
    let cache = match options.cache {
        Some(cache) => cache.to_owned(),
        None => cache_folder()?,
    };
    let repo = Repo::new(&cache, model, revision);
    let held = match repo.with_config() {
        Some(folder) if wanted == Wanted::Config => Held::All(folder),
        _ => repo.held(),
    };
    if let Held::All(folder) = held {
        return Ok(folder);
    }
    let ban = match options.offline {
        Some(true) => Some("downloads are turned off; turn them on"),
        None if is_offline() => Some("HF_HUB_OFFLINE is set; unset it"),
        _ if cfg!(not(feature = "hub")) => {
            Some("this program was built without the feature `hub`, which downloads; build it with that")
        }
        _ => None,
    };
    match (ban, held) {
        // The hub could only add a tokenizer, if it has one. Whoever needs it will say so.
        (Some(_), Held::Model(folder)) => Ok(folder),
        (Some(ban), _) => {
            let which =
                if options.revision.is_some() { format!("revision `{revision}` ") } else { String::new() };
            let place = cache.display();
            Err(format!("{which}is not in the cache {place}, or not all of it, and {ban}, or pass a folder"))
        }
        (None, held) => online(model, options, &repo, held, wanted),
    }
}

#[cfg(feature = "hub")]
fn online(
    model: &str,
    options: &Options<'_>,
    repo: &Repo,
    held: Held,
    wanted: Wanted,
) -> std::result::Result<PathBuf, String> {
    let endpoint = options.endpoint.map(str::to_owned).or_else(|| variable("HF_ENDPOINT"));
    let endpoint = endpoint.unwrap_or_else(|| "https://huggingface.co".into());
    let token = options.token.map(str::to_owned).or_else(token);
    let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
    let client = transfer::Client::new(model, &endpoint, token, options)?;
    match wanted {
        Wanted::Model => download::fetch(&client, repo, held),
        Wanted::Config => download::fetch_config(&client, repo),
    }
}

#[cfg(not(feature = "hub"))]
fn online(_: &str, _: &Options<'_>, _: &Repo, _: Held, _: Wanted) -> std::result::Result<PathBuf, String> {
    Err("cannot be downloaded; pass a folder".into())
}

/// Whether this can be the name of a repository. What the hub accepts is narrower in places; it says so itself.
fn is_name(model: &str) -> bool {
    let is_part = |part: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        part.chars().all(|c| inner(c) || c == '-' || c == '.')
            && part.starts_with(inner)
            && part.ends_with(inner)
            // `--` stands for the slash in the cache.
            && !part.contains("--")
            && !part.contains("..")
    };
    let mut parts = model.split('/');
    parts.by_ref().take(2).all(is_part) && parts.next().is_none() && model.len() <= 96
}

/// Whether this can be a revision: a path below `refs` and part of an address.
fn is_revision(revision: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
    };
    revision.split('/').all(is_part) && revision.len() <= 255
}

// ---- The environment ----

/// A variable, if it is set to anything.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// A variable that holds a path. Where no shell has done so, `~` is expanded here.
fn path_variable(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(name).filter(|value| !value.is_empty())?);
    match (path.strip_prefix("~"), env::home_dir()) {
        (Ok(rest), Some(home)) => Some(home.join(rest)),
        _ => Some(path),
    }
}

fn home() -> Option<PathBuf> {
    path_variable("HF_HOME").or_else(|| {
        let caches = path_variable("XDG_CACHE_HOME").or_else(|| Some(env::home_dir()?.join(".cache")))?;
        Some(caches.join("huggingface"))
    })
}

fn cache_folder() -> std::result::Result<PathBuf, String> {
    path_variable("HF_HUB_CACHE")
        .or_else(|| Some(home()?.join("hub")))
        .ok_or_else(|| "no home folder to look for the cache in; set HF_HOME".into())
}

#[cfg(feature = "hub")]
fn token() -> Option<String> {
    variable("HF_TOKEN").or_else(|| {
        let file = path_variable("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")))?;
        fs::read_to_string(file).ok()
    })
}

fn is_offline() -> bool {
    let yes = |value: String| ["1", "on", "yes", "true"].contains(&value.to_ascii_lowercase().as_str());
    variable("HF_HUB_OFFLINE").is_some_and(yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["gpt2", "junnyu/roformer_chinese_base", "a/b.c-d", "_a/0"] {
            assert!(is_name(name), "{name}");
        }
        let long = "a".repeat(97);
        let wrong =
            ["", "/", "a/", "/a", "a/b/c", "../a", "a/..", ".a", "a b", "a--b", "a\\b", "é", "-a", &long];
        for name in wrong {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn revisions() {
        for revision in ["main", "refs/pr/1", "v1.0+cpu", "0123456789012345678901234567890123456789"] {
            assert!(is_revision(revision), "{revision}");
        }
        for revision in ["", "/", "../main", "a/../b", "a//b", "a?b", "a b", "a\\b", "/main", "a%2F", ".."] {
            assert!(!is_revision(revision), "{revision}");
        }
    }
}
