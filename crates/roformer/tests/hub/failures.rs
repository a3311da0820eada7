//! Downloads that must fail, what is said, and that nothing wrong stays behind.

use crate::download::{CONFIG, VOCABULARY, hub, options, weights};
use crate::server::{COMMIT, Hub, MODEL, git_sha1, sha256};
use crate::{Folder, refused};
use roformer::hub::{Options, find};
use serde_json::json;
use std::fs;
use std::net::TcpListener;

/// What a hub with these files is refused for.
#[track_caller]
fn refused_files(files: &[(&str, &[u8])], words: &[&str]) {
    let (hub, cache) = (Hub::new(files), Folder::new());
    refused(MODEL, &options(&hub, &cache), words);
}

/// What a hub that answers so is refused for.
#[track_caller]
fn refused_status(status: u16, code: &'static str, token: &str, words: &[&str]) {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().statuses.extend([(status, code); 8]);
    refused(MODEL, &Options { token: Some(token), ..options(&hub, &cache) }, words);
    let asked = hub.seen().len();
    assert_eq!(asked, if status >= 500 { 3 } else { 1 }, "{status}");
}

#[test]
fn damaged_bytes_are_found_and_deleted() {
    let mut other = weights();
    other[300_000] ^= 1;
    let hash = (sha256(&weights()), sha256(&other));
    let git = (git_sha1(CONFIG), git_sha1(&CONFIG.to_ascii_uppercase()));
    for (file, damaged, (expected, found)) in
        [("model.safetensors", other, hash), ("config.json", CONFIG.to_ascii_uppercase(), git)]
    {
        let (hub, cache) = (hub(), Folder::new());
        hub.state().damaged.insert(file.into(), damaged);
        let words = [&format!("{file}: its hash is {found}; expected {expected}"), "deleted", "try again"];
        refused(MODEL, &options(&hub, &cache), &words);
        assert!(!cache.snapshot(COMMIT).join(file).exists());
        let blobs = fs::read_dir(cache.0.join("models--owner--model/blobs")).unwrap();
        let left = blobs.flatten().find(|blob| blob.file_name().to_str().unwrap().starts_with(&expected));
        assert!(left.is_none(), "{left:?}");

        hub.state().damaged.clear();
        find(MODEL, &options(&hub, &cache)).unwrap();
    }
}

#[test]
fn a_damaged_part_is_found_and_deleted() {
    let (hub, cache) = (hub(), Folder::new());
    for part in [&vec![0; 1000], &vec![0; weights().len()]] {
        let name = format!("models--owner--model/blobs/{}.incomplete", sha256(&weights()));
        cache.put(&name, part);
        refused(MODEL, &options(&hub, &cache), &["model.safetensors: its hash is"]);
        assert!(!cache.0.join(name).exists());
    }
    find(MODEL, &options(&hub, &cache)).unwrap();
}

#[test]
fn another_length_is_never_complete() {
    for length in [0, 599_999, 600_001] {
        let (hub, cache) = (hub(), Folder::new());
        let mut bytes = weights();
        bytes.resize(length, 0);
        hub.state().damaged.insert("model.safetensors".into(), bytes);
        let words = ["model.safetensors: ", &format!("{length} bytes"), "expected 600000"];
        refused(MODEL, &options(&hub, &cache), &words);
        find(MODEL, &cache.offline()).unwrap_err();
        hub.state().damaged.clear();
        find(MODEL, &options(&hub, &cache)).unwrap();
    }
}

#[test]
fn missing_files_are_named() {
    let weights: (&str, &[u8]) = ("model.safetensors", b"weights");
    refused_files(&[weights, ("vocab.txt", VOCABULARY)], &["no config.json", "as transformers saves it"]);
    let others: [(&str, &[u8]); 3] =
        [("config.json", CONFIG), ("tf_model.h5", b""), ("a/model.safetensors", b"")];
    refused_files(&others, &["no weights", "model.safetensors", "pytorch_model.bin", "check the name"]);
    refused_files(&[], &["no config.json"]);
}

#[test]
fn an_index_cannot_reach_elsewhere() {
    let index = "model.safetensors.index.json";
    for shard in ["../../../outside", "/etc/hostname", "a/b.bin", "..", "a\\b", "", "a?b", "a%2Fb", "C:a"] {
        let map = json!({ "weight_map": { "a": shard } }).to_string();
        let files = [("config.json", CONFIG), (index, map.as_bytes()), (shard, &b"hostile"[..])];
        refused_files(&files, &["model.safetensors.index.json lists", "in the same folder"]);
    }
    let map = json!({ "weight_map": { "a": 7 } }).to_string();
    refused_files(&[("config.json", CONFIG), (index, map.as_bytes())], &["lists 7", "in the same folder"]);
    let map = json!({ "weight_map": { "a": "model-1.safetensors" } }).to_string();
    let words = ["lists model-1.safetensors, which the repository does not have"];
    refused_files(&[("config.json", CONFIG), (index, map.as_bytes())], &words);
    for broken in ["", "[]", "{", "{\"weight_map\": []}"] {
        refused_files(
            &[("config.json", CONFIG), (index, broken.as_bytes())],
            &[index, "an index of weights"],
        );
    }
}

#[test]
fn no_network() {
    let cache = Folder::new();
    // Free a moment ago, and nobody listens there now.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = format!("http://127.0.0.1:{port}/");
    let online = Options { offline: Some(false), ..cache.offline() };
    let words =
        ["cannot connect to", &closed[..closed.len() - 1], "refused", "check the network", "pass a folder"];
    refused(MODEL, &Options { endpoint: Some(&closed), ..online }, &words);
    let words = ["cannot connect to http://nowhere.invalid", "check the network"];
    refused(MODEL, &Options { endpoint: Some("http://nowhere.invalid"), ..online }, &words);
    for endpoint in ["huggingface.co", "ftp://a", "", "http://"] {
        let words = ["HF_ENDPOINT is", "expected an address that begins with https://"];
        refused(MODEL, &Options { endpoint: Some(endpoint), ..online }, &words);
    }
}

#[test]
fn refusals_say_what_to_do() {
    refused_status(404, "RepoNotFound", "", &["no such folder, and no such repository", "check the name"]);
    refused_status(404, "RepoNotFound", "hf_a", &["no such repository", "check the name"]);
    refused_status(401, "", "", &["no such repository, or a private or gated one", "set HF_TOKEN"]);
    refused_status(401, "", "hf_a", &["the token was refused", "set HF_TOKEN to a valid one"]);
    refused_status(401, "GatedRepo", "", &["gated", "accept its terms at", "/owner/model", "set HF_TOKEN"]);
    refused_status(403, "GatedRepo", "", &["gated", "accept its terms at", "/owner/model", "set HF_TOKEN"]);
    refused_status(403, "GatedRepo", "hf_a", &["may not read it", "accept its terms at"]);
    refused_status(429, "", "", &["too many requests", "wait", "HF_TOKEN"]);
    refused_status(500, "", "", &["500 Internal Server Error", "try again later"]);
    refused_status(503, "", "", &["503 Service Unavailable", "try again later"]);
    refused_status(418, "", "", &["418", "check HF_ENDPOINT"]);

    let (hub, cache) = (hub(), Folder::new());
    let words = ["no revision `v2`", "a branch, a tag or a commit"];
    refused(MODEL, &Options { revision: Some("v2"), ..options(&hub, &cache) }, &words);
    refused("owner/other", &options(&hub, &cache), &["no such repository"]);
    let words = ["HF_TOKEN", "expected one word"];
    refused(MODEL, &Options { token: Some("two words"), ..options(&hub, &cache) }, &words);
}

#[test]
fn a_token_is_required() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().token = Some("hf_right");
    refused(MODEL, &options(&hub, &cache), &["set HF_TOKEN"]);
    let message = refused(
        MODEL,
        &Options { token: Some("hf_wrong"), ..options(&hub, &cache) },
        &["the token was refused"],
    );
    assert!(!message.contains("hf_wrong"), "{message}");
    find(MODEL, &Options { token: Some("hf_right"), ..options(&hub, &cache) }).unwrap();
}

#[test]
fn a_cache_that_cannot_be_written() {
    let (hub, folder) = (hub(), Folder::new());
    folder.put("file", "");
    let cache = folder.0.join("file");
    let words = ["cannot write", "HF_HUB_CACHE"];
    refused(MODEL, &Options { cache: Some(&cache), ..options(&hub, &folder) }, &words);
}
