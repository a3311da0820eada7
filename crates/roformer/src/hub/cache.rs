//! The cache on disk, laid out as Python's `huggingface_hub` does:
//!
//! ```text
//! models--owner--name/refs/main                  the commit that a branch or tag stood at
//! models--owner--name/snapshots/<commit>/<file>  a link into blobs
//! models--owner--name/blobs/<etag>               a file, named by its hash; `.incomplete` while it arrives
//! models--owner--name/.no_exist/<commit>/<file>  empty: the commit has no such file
//! .locks/models--owner--name/<etag>.lock         held by whoever writes the blob
//! ```

use crate::weights::{FILES, LIMIT, brief, is_plain};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
#[cfg(feature = "hub")]
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};
#[cfg(feature = "hub")]
use std::sync::atomic::{AtomicUsize, Ordering};

pub(super) const CONFIG: &str = "config.json";

/// The files that a tokenizer can be made of. A model has one of them or no tokenizer.
pub(super) const VOCABULARY: [&str; 2] = ["vocab.txt", "tokenizer.json"];

/// What the cache holds of a revision.
pub(super) enum Held {
    /// Too little to run the model.
    Part,
    /// The model, in this folder, without a tokenizer; nobody knows yet whether the hub has one.
    Model(PathBuf),
    /// All there is, in this folder.
    All(PathBuf),
}

/// The part of the cache that belongs to one model, and the revision asked for.
pub(super) struct Repo {
    folder: PathBuf,
    #[cfg(feature = "hub")]
    locks: PathBuf,
    revision: String,
}

impl Repo {
    pub(super) fn new(cache: &Path, model: &str, revision: &str) -> Repo {
        let name = format!("models--{}", model.replace('/', "--"));
        Repo {
            #[cfg(feature = "hub")]
            locks: cache.join(".locks").join(&name),
            folder: cache.join(name),
            revision: revision.into(),
        }
    }

    /// The folder of the revision, if its `config.json` is there.
    pub(super) fn with_config(&self) -> Option<PathBuf> {
        self.commit().map(|commit| self.snapshot(&commit)).filter(|folder| folder.join(CONFIG).exists())
    }

    pub(super) fn held(&self) -> Held {
        let Some(commit) = self.commit() else { return Held::Part };
        let folder = self.snapshot(&commit);
        if !folder.join(CONFIG).exists() || !has_weights(&folder) {
            return Held::Part;
        }
        let is_there = |name: &str| folder.join(name).exists();
        let is_known_missing = |name: &str| self.absence(&commit, name).exists();
        if VOCABULARY.iter().any(|name| is_there(name))
            || VOCABULARY.iter().all(|name| is_known_missing(name))
        {
            Held::All(folder)
        } else {
            Held::Model(folder)
        }
    }

    /// The commit that the revision is, or stood at when it was last asked for.
    fn commit(&self) -> Option<String> {
        if is_commit(&self.revision) {
            return Some(self.revision.clone());
        }
        let commit = fs::read_to_string(self.folder.join("refs").join(&self.revision)).ok()?;
        Some(commit.trim().to_owned()).filter(|commit| is_commit(commit))
    }

    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    fn absence(&self, commit: &str, name: &str) -> PathBuf {
        self.folder.join(".no_exist").join(commit).join(name)
    }
}

/// Writing, which only downloads do.
#[cfg(feature = "hub")]
impl Repo {
    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    /// The blob of this name is written by nobody else until the file is closed.
    pub(super) fn lock(&self, etag: &str) -> io::Result<fs::File> {
        fs::create_dir_all(&self.locks)?;
        let file = fs::File::create(self.locks.join(format!("{etag}.lock")))?;
        match file.lock() {
            // Some network file systems have no locks. There, the check of the hash is what keeps a blob from being mixed.
            Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
            _ => Ok(file),
        }
    }

    /// Makes a blob appear in a snapshot.
    pub(super) fn link(&self, etag: &str, pointer: &Path) -> io::Result<()> {
        if pointer.symlink_metadata().is_ok() {
            fs::remove_file(pointer)?;
        }
        let parent = pointer.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent)?;
        #[cfg(unix)]
        {
            // One step up for each folder that the link lies in: modules have some of their own.
            let inner = parent.strip_prefix(&self.folder).unwrap_or(Path::new("snapshots/commit"));
            let up: PathBuf = inner.components().map(|_| "..").collect();
            if std::os::unix::fs::symlink(up.join("blobs").join(etag), pointer).is_ok() {
                return Ok(());
            }
        }
        // Not every file system has links, and Windows keeps the symbolic ones to administrators.
        let blob = self.blobs().join(etag);
        fs::hard_link(&blob, pointer).or_else(|_| fs::rename(&blob, pointer))
    }

    pub(super) fn mark_missing(&self, commit: &str, name: &str) -> io::Result<()> {
        let path = self.absence(commit, name);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        fs::write(path, "")
    }

    /// Remembers the commit of a branch or tag.
    pub(super) fn set_commit(&self, commit: &str) -> io::Result<()> {
        if self.revision == commit {
            return Ok(());
        }
        let path = self.folder.join("refs").join(&self.revision);
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent)?;
        // Renamed into place, since others may be reading it, or writing it as well.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = parent.join(format!(".{}.{number}.new", std::process::id()));
        fs::write(&new, commit)?;
        fs::rename(new, path)
    }
}

pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether the weights that would be opened in this folder are all there.
fn has_weights(folder: &Path) -> bool {
    let Some(first) = FILES.iter().map(|name| folder.join(name)).find(|path| path.exists()) else {
        return false;
    };
    let is_index = first.extension().is_some_and(|extension| extension == "json");
    !is_index || shards(&first).is_ok_and(|names| names.iter().all(|name| folder.join(name).exists()))
}

/// The files that an index lists. Anyone can write an index, so that none of them may be elsewhere than beside it.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>, String> {
    let name = index.file_name().unwrap_or_default().display();
    let mut json = Vec::new();
    let file = fs::File::open(index).map_err(|error| format!("cannot open {}: {error}", index.display()))?;
    file.take(LIMIT).read_to_end(&mut json).map_err(|error| format!("cannot read {name}: {error}"))?;
    let expected = "expected an index of weights; ask the owner of the repository";
    let index: Value =
        serde_json::from_slice(&json).map_err(|error| format!("{name}: {error}; {expected}"))?;
    let Some(map) = index.get("weight_map").and_then(Value::as_object) else {
        return Err(format!("{name} has no `weight_map`; {expected}"));
    };
    let mut names = BTreeSet::new();
    for file in map.values() {
        // These characters alone mean themselves in an address, too.
        let fits = |file: &&str| {
            is_plain(file) && file.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
        };
        let Some(file) = file.as_str().filter(fits) else {
            let found = brief(&file.to_string());
            return Err(format!("{name} lists {found}; expected names of files in the same folder"));
        };
        names.insert(file.to_owned());
    }
    Ok(names)
}
