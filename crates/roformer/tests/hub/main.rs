//! Models by name: folders, the cache, and downloads from a hub that runs inside the test.

#[cfg(feature = "hub")]
mod download;
#[cfg(feature = "hub")]
mod failures;
#[path = "../common/folder.rs"]
mod folder;
#[cfg(feature = "hub")]
mod server;

use folder::Folder;
use roformer::hub::{Options, find};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMMIT: &str = "89abcdef0123456789abcdef0123456789abcdef";

impl Folder {
    /// A cache with these files of `owner/model`, at `main`.
    fn cached(files: &[&str]) -> Folder {
        let folder = Folder::new();
        folder.put("models--owner--model/refs/main", COMMIT);
        for file in files {
            folder.put(&format!("models--owner--model/snapshots/{COMMIT}/{file}"), "{}");
        }
        folder
    }

    fn snapshot(&self, commit: &str) -> PathBuf {
        self.0.join("models--owner--model/snapshots").join(commit)
    }

    /// Options that ask this cache and nobody else.
    fn offline(&self) -> Options<'_> {
        Options { cache: Some(&self.0), offline: Some(true), token: Some(""), ..Options::default() }
    }
}

/// What is said of a model that must not be found: one line with all of these words, and the model first.
#[track_caller]
fn refused(model: &str, options: &Options<'_>, words: &[&str]) -> String {
    let message = find(model, options).expect_err("must be refused").to_string();
    assert!(message.starts_with(&format!("{model}: ")), "does not begin with the model: {message}");
    assert!(!message.contains('\n'), "more than a line: {message}");
    for word in words {
        assert!(message.contains(word), "`{word}` is not in: {message}");
    }
    message
}

#[test]
fn a_folder_is_itself() {
    let folder = Folder::new();
    let path = folder.0.to_str().unwrap();
    assert_eq!(find(path, &folder.offline()).unwrap(), folder.0);
}

#[test]
fn neither_a_folder_nor_a_name() {
    let folder = Folder::new();
    for model in ["./nothing/here", "/nothing", "a/b/c", "", "~/models", "C:\\models"] {
        let message = find(model, &folder.offline()).unwrap_err().to_string();
        let expected =
            "no such folder, and not a hub name; expected the folder of a model, or `name` or `owner/name`";
        assert!(message.ends_with(expected), "{message}");
    }
    folder.put("model.safetensors", "");
    let file = folder.0.join("model.safetensors");
    refused(file.to_str().unwrap(), &folder.offline(), &["a file, not a folder", "the folder that it is in"]);
}

#[test]
fn a_cached_model_is_found() {
    for weights in ["model.safetensors", "pytorch_model.bin"] {
        for vocabulary in ["vocab.txt", "tokenizer.json"] {
            let cache = Folder::cached(&["config.json", weights, vocabulary]);
            assert_eq!(find("owner/model", &cache.offline()).unwrap(), cache.snapshot(COMMIT));
            let options = Options { revision: Some(COMMIT), ..cache.offline() };
            assert_eq!(find("owner/model", &options).unwrap(), cache.snapshot(COMMIT));
        }
    }
    // Nobody can be asked whether there is a tokenizer.
    let cache = Folder::cached(&["config.json", "model.safetensors"]);
    assert_eq!(find("owner/model", &cache.offline()).unwrap(), cache.snapshot(COMMIT));
}

#[test]
fn a_cached_model_needs_all_its_shards() {
    let index = "model.safetensors.index.json";
    let cache = Folder::cached(&["config.json", "model-1.safetensors", "vocab.txt"]);
    let json = r#"{"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}"#;
    fs::write(cache.snapshot(COMMIT).join(index), json).unwrap();
    refused("owner/model", &cache.offline(), &["not all of it"]);
    fs::write(cache.snapshot(COMMIT).join("model-2.safetensors"), "").unwrap();
    find("owner/model", &cache.offline()).unwrap();
}

#[test]
fn what_is_not_cached_is_not_found_offline() {
    let cache = Folder::cached(&["config.json", "vocab.txt"]);
    let place = cache.0.to_str().unwrap();
    refused("owner/model", &cache.offline(), &["is not in the cache", place, "downloads are turned off"]);
    refused("owner/other", &cache.offline(), &["is not in the cache", place]);
    let options = Options { revision: Some("v2"), ..cache.offline() };
    refused("owner/model", &options, &["revision `v2` is not in the cache"]);
    for revision in ["../main", "a b", "/", "a?b"] {
        let options = Options { revision: Some(revision), ..cache.offline() };
        refused("owner/model", &options, &[revision, "is not a revision", "a branch, a tag or a commit"]);
    }
}

#[cfg(not(feature = "hub"))]
#[test]
fn without_the_feature_nothing_is_downloaded() {
    let cache = Folder::cached(&["config.json"]);
    let options = Options { offline: Some(false), ..cache.offline() };
    refused("owner/model", &options, &["is not in the cache", "without the feature `hub`"]);
}

/// What `find` says in a process with this environment and no other.
fn in_environment(variables: &[(&str, &str)]) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]).env_clear().env("HUB_TEST_CHILD", "1");
    let output = child.envs(variables.iter().copied()).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let said = output.split("found: ").nth(1).unwrap_or_else(|| panic!("the child said {output}"));
    said.lines().next().unwrap().to_owned()
}

/// Runs in the process that `in_environment` starts.
#[test]
fn child() {
    if std::env::var_os("HUB_TEST_CHILD").is_some() {
        match find("owner/model", &Options::default()) {
            Ok(folder) => println!("found: {}", folder.display()),
            Err(error) => println!("found: {error}"),
        }
    }
}

#[test]
fn the_environment_says_where_the_cache_is() {
    let cache = Folder::cached(&["config.json", "model.safetensors", "vocab.txt"]);
    let place = cache.0.to_str().unwrap();
    let expected = cache.snapshot(COMMIT).to_str().unwrap().to_owned();
    let offline = ("HF_HUB_OFFLINE", "1");
    assert_eq!(in_environment(&[offline, ("HF_HUB_CACHE", place), ("HF_HOME", "/nothing")]), expected);

    let home = Folder::new();
    let put = |under: &str| {
        for file in ["config.json", "model.safetensors", "vocab.txt"] {
            home.put(&format!("{under}/hub/models--owner--model/snapshots/{COMMIT}/{file}"), "{}");
        }
        home.put(&format!("{under}/hub/models--owner--model/refs/main"), COMMIT);
    };
    put("hf");
    let hf = home.0.join("hf");
    let said = in_environment(&[offline, ("HF_HOME", hf.to_str().unwrap())]);
    assert!(Path::new(&said).starts_with(&hf), "{said}");
    put(".cache/huggingface");
    let said = in_environment(&[offline, ("HOME", home.0.to_str().unwrap())]);
    assert!(Path::new(&said).starts_with(home.0.join(".cache")), "{said}");

    let said = in_environment(&[offline, ("HF_HUB_CACHE", "/nothing")]);
    assert!(
        said.contains("not in the cache /nothing") && said.contains("HF_HUB_OFFLINE is set; unset it"),
        "{said}"
    );
}
