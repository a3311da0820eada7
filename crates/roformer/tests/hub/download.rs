//! Downloads that succeed, if need be at the second attempt.

use crate::server::{COMMIT, Host, Hub, MODEL, Seen, git_sha1, sha256};
use crate::{Folder, in_environment};
use roformer::hub::{Options, Progress, find};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

pub const CONFIG: &[u8] = br#"{"model_type": "roformer"}"#;
pub const VOCABULARY: &[u8] = b"[PAD]\n[UNK]\n";

/// Bytes that are not all alike, so that a wrong offset shows.
pub fn weights() -> Vec<u8> {
    (0..600_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A hub with a model of one file of weights.
pub fn hub() -> Hub {
    Hub::new(&[
        ("config.json", CONFIG),
        ("model.safetensors", &weights()),
        ("pytorch_model.bin", b"the same again"),
        ("README.md", b"not needed"),
        ("vocab.txt", VOCABULARY),
    ])
}

pub fn options<'a>(hub: &'a Hub, cache: &'a Folder) -> Options<'a> {
    Options {
        cache: Some(&cache.0),
        endpoint: Some(&hub.address),
        token: Some(""),
        offline: Some(false),
        ..Options::default()
    }
}

/// Asserts that a folder holds the model of [`hub`].
#[track_caller]
fn is_whole(folder: &Path) {
    assert_eq!(fs::read(folder.join("config.json")).unwrap(), CONFIG);
    assert_eq!(fs::read(folder.join("vocab.txt")).unwrap(), VOCABULARY);
    assert!(fs::read(folder.join("model.safetensors")).unwrap() == weights(), "other weights");
}

/// The requests for the bytes of large files.
fn large(seen: &[Seen]) -> Vec<(Option<&str>, usize)> {
    let large = seen.iter().filter(|seen| seen.host == Host::Store && seen.method == "GET");
    large.map(|seen| (seen.range.as_deref(), seen.sent)).collect()
}

#[test]
fn a_model_is_downloaded_once() {
    let (hub, cache) = (hub(), Folder::new());
    let folder = find(MODEL, &options(&hub, &cache)).unwrap();
    assert_eq!(folder, cache.snapshot(COMMIT));
    is_whole(&folder);
    assert!(!folder.join("README.md").exists() && !folder.join("pytorch_model.bin").exists());
    let seen = hub.seen();
    assert_eq!(large(&seen), [(None, weights().len())]);
    assert!(seen.iter().all(|seen| seen.authorization.is_none()));

    // As Python's huggingface_hub leaves it.
    let repo = cache.0.join("models--owner--model");
    assert_eq!(fs::read_to_string(repo.join("refs/main")).unwrap(), COMMIT);
    let blobs = [sha256(&weights()), git_sha1(CONFIG), git_sha1(VOCABULARY)];
    for (file, blob) in ["model.safetensors", "config.json", "vocab.txt"].into_iter().zip(&blobs) {
        assert!(repo.join("blobs").join(blob).is_file(), "{file}");
        #[cfg(unix)]
        assert_eq!(fs::read_link(folder.join(file)).unwrap(), Path::new("../../blobs").join(blob));
    }
    assert_eq!(fs::read_dir(repo.join("blobs")).unwrap().count(), blobs.len());

    assert_eq!(find(MODEL, &options(&hub, &cache)).unwrap(), folder);
    assert_eq!(find(MODEL, &cache.offline()).unwrap(), folder);
    assert!(hub.seen().is_empty());
}

#[test]
fn progress_is_told() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().cuts.push_back(200_000);
    let told = Mutex::new(Vec::new());
    let tell = |progress: Progress<'_>| {
        told.lock().unwrap().push((progress.file.to_owned(), progress.done, progress.total));
    };
    find(MODEL, &Options { progress: Some(&tell), ..options(&hub, &cache) }).unwrap();
    let told = told.into_inner().unwrap();
    let weights = weights().len() as u64;
    for (file, size) in [("config.json", CONFIG.len() as u64), ("model.safetensors", weights)] {
        let of: Vec<_> = told.iter().filter(|told| told.0 == file).collect();
        assert!(of.iter().all(|told| told.2 == Some(size)) && of.is_sorted_by_key(|told| told.1), "{of:?}");
        assert_eq!((of[0].1, of[of.len() - 1].1), (0, size));
    }
}

#[test]
fn a_broken_connection_is_taken_up_again() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().cuts.extend([100_000, 350_000]);
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    let rest = weights().len() - 350_000;
    let expected = [(None, 100_000), (Some("bytes=100000-"), 250_000), (Some("bytes=350000-"), rest)];
    assert_eq!(large(&hub.seen()), expected);
}

#[test]
fn a_broken_download_continues_in_the_next_call() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().cuts.extend([400_000; 3]);
    let message = find(MODEL, &options(&hub, &cache)).unwrap_err().to_string();
    assert!(message.contains("model.safetensors: broke off after 400000 of 600000 bytes"), "{message}");
    assert!(message.contains("again to continue"), "{message}");
    assert_eq!(large(&hub.seen()), [(None, 400_000), (Some("bytes=400000-"), 0), (Some("bytes=400000-"), 0)]);
    // Nothing takes the part for the whole.
    assert!(!cache.snapshot(COMMIT).join("model.safetensors").exists());
    find(MODEL, &cache.offline()).unwrap_err();

    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    let seen = hub.seen();
    assert_eq!(large(&seen), [(Some("bytes=400000-"), 200_000)]);
    assert!(!seen.iter().any(|seen| seen.path.ends_with("/config.json")), "{seen:?}");
}

#[test]
fn a_server_that_cannot_continue_begins_anew() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().cuts.push_back(400_000);
    hub.state().ignores_range = true;
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    assert_eq!(large(&hub.seen()), [(None, 400_000), (Some("bytes=400000-"), weights().len())]);
}

#[test]
fn a_part_that_is_too_long_is_dropped() {
    let (hub, cache) = (hub(), Folder::new());
    let part = format!("models--owner--model/blobs/{}.incomplete", sha256(&weights()));
    cache.put(&part, [weights(), vec![0]].concat());
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    assert_eq!(large(&hub.seen()), [(None, weights().len())]);
}

#[test]
fn what_python_left_is_used() {
    let (hub, cache) = (hub(), Folder::new());
    // Another revision had the same weights; of the vocabulary only half arrived.
    cache.put(&format!("models--owner--model/blobs/{}", sha256(&weights())), weights());
    cache.put(&format!("models--owner--model/blobs/{}.incomplete", git_sha1(VOCABULARY)), &VOCABULARY[..5]);
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    let seen = hub.seen();
    assert!(large(&seen).is_empty());
    let vocabulary =
        seen.iter().find(|seen| seen.method == "GET" && seen.path.ends_with("vocab.txt")).unwrap();
    assert_eq!((vocabulary.range.as_deref(), vocabulary.sent), (Some("bytes=5-"), VOCABULARY.len() - 5));
}

#[test]
fn a_passing_fault_of_the_server_passes() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().statuses.extend([(503, ""), (502, "")]);
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
}

#[test]
fn several_at_once_do_not_get_in_each_others_way() {
    let (hub, cache) = (hub(), Folder::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| is_whole(&find(MODEL, &options(&hub, &cache)).unwrap()));
        }
    });
    assert_eq!(large(&hub.seen()), [(None, weights().len())]);
}

#[test]
fn sharded_weights_come_with_all_shards() {
    for (index, shards) in [
        (
            "model.safetensors.index.json",
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        ("pytorch_model.bin.index.json", ["pytorch_model-1.bin", "pytorch_model-2.bin"]),
    ] {
        let map = json!({ "weight_map": { "a": shards[0], "b": shards[1], "c": shards[0] } }).to_string();
        let files: [(&str, &[u8]); 6] = [
            ("config.json", CONFIG),
            (index, map.as_bytes()),
            (shards[0], b"first"),
            (shards[1], b"second"),
            ("other.bin", b"unlisted"),
            ("tokenizer.json", b"{}"),
        ];
        let (hub, cache) = (Hub::new(&files), Folder::new());
        let folder = find(MODEL, &options(&hub, &cache)).unwrap();
        assert_eq!(fs::read(folder.join(shards[0])).unwrap(), b"first");
        assert_eq!(fs::read(folder.join(shards[1])).unwrap(), b"second");
        assert!(!folder.join("other.bin").exists());
        hub.seen();
        find(MODEL, &options(&hub, &cache)).unwrap();
        assert!(hub.seen().is_empty());

        // One that is gone comes alone.
        fs::remove_file(fs::canonicalize(folder.join(shards[1])).unwrap()).unwrap();
        find(MODEL, &options(&hub, &cache)).unwrap();
        assert_eq!(large(&hub.seen()), [(None, 6)]);
        assert_eq!(fs::read(folder.join(shards[1])).unwrap(), b"second");
    }
}

#[test]
fn revisions_by_branch_and_commit() {
    for (revision, reference) in [("refs/pr/1", true), (COMMIT, false)] {
        let (hub, cache) = (hub(), Folder::new());
        let options = Options { revision: Some(revision), ..options(&hub, &cache) };
        is_whole(&find(MODEL, &options).unwrap());
        assert_eq!(cache.0.join("models--owner--model/refs").join(revision).exists(), reference);
        hub.seen();
        is_whole(&find(MODEL, &options).unwrap());
        assert!(hub.seen().is_empty(), "{revision}");
    }
}

#[test]
fn that_there_is_no_tokenizer_is_remembered() {
    let files: [(&str, &[u8]); 2] = [("config.json", CONFIG), ("pytorch_model.bin", b"weights")];
    let (hub, cache) = (Hub::new(&files), Folder::new());
    let folder = find(MODEL, &options(&hub, &cache)).unwrap();
    assert_eq!(fs::read(folder.join("pytorch_model.bin")).unwrap(), b"weights");
    hub.seen();
    find(MODEL, &options(&hub, &cache)).unwrap();
    assert!(hub.seen().is_empty());
}

#[test]
fn a_tokenizer_is_added_to_a_cached_model() {
    let (hub, cache) = (hub(), Folder::cached(&[]));
    for (file, bytes) in [("config.json", CONFIG), ("model.safetensors", &weights()[..])] {
        cache.put(&format!("models--owner--model/snapshots/{COMMIT}/{file}"), bytes);
    }
    cache.put("models--owner--model/refs/main", COMMIT);
    // Without a hub, the model will do.
    hub.state().statuses.extend([(500, ""); 3]);
    assert!(!find(MODEL, &options(&hub, &cache)).unwrap().join("vocab.txt").exists());
    is_whole(&find(MODEL, &options(&hub, &cache)).unwrap());
    assert!(large(&hub.seen()).is_empty());
}

#[test]
fn the_token_goes_to_the_hub_alone() {
    let (hub, cache) = (hub(), Folder::new());
    hub.state().token = Some("hf_secret");
    is_whole(&find(MODEL, &Options { token: Some("hf_secret\n"), ..options(&hub, &cache) }).unwrap());
    let seen = hub.seen();
    assert!(seen.iter().any(|seen| seen.host == Host::Store));
    for seen in seen {
        let expected = (seen.host == Host::Hub).then_some("Bearer hf_secret");
        assert_eq!(seen.authorization.as_deref(), expected, "{seen:?}");
    }

    let cache = Folder::new();
    hub.state().moved = true;
    is_whole(&find(MODEL, &Options { token: Some("hf_secret"), ..options(&hub, &cache) }).unwrap());
    assert!(hub.seen().iter().all(|seen| seen.authorization.is_some() == (seen.host == Host::Hub)));
}

#[test]
fn the_environment_names_the_hub_and_the_token() {
    let hub = hub();
    hub.state().token = Some("hf_secret");
    let home = Folder::new();
    let place = home.0.to_str().unwrap();
    let hub_is = ("HF_ENDPOINT", hub.address.as_str());
    let said = in_environment(&[hub_is, ("HF_HOME", place)]);
    assert!(said.contains("set HF_TOKEN"), "{said}");
    is_whole(Path::new(&in_environment(&[hub_is, ("HF_HOME", place), ("HF_TOKEN", "hf_secret")])));

    home.put("token", "hf_secret\n");
    let cache = Folder::new();
    let cache_is = ("HF_HUB_CACHE", cache.0.to_str().unwrap());
    is_whole(Path::new(&in_environment(&[hub_is, cache_is, ("HF_HOME", place)])));
    let cache = Folder::new();
    let cache_is = ("HF_HUB_CACHE", cache.0.to_str().unwrap());
    let token = home.0.join("token");
    is_whole(Path::new(&in_environment(&[hub_is, cache_is, ("HF_TOKEN_PATH", token.to_str().unwrap())])));
}

/// The modules of sentence-transformers lie in folders of their own, and come with the model.
#[test]
fn modules_are_downloaded() {
    let modules = br#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
    let (hub, cache) = (
        Hub::new(&[
            ("config.json", CONFIG),
            ("model.safetensors", &weights()),
            ("vocab.txt", VOCABULARY),
            ("modules.json", modules),
            ("sentence_bert_config.json", br#"{"max_seq_length": 9}"#),
            ("1_Pooling/config.json", br#"{"pooling_mode": "max"}"#),
            ("2_Dense/config.json", br#"{"in_features": 3, "out_features": 2}"#),
            ("2_Dense/pytorch_model.bin", b"weights"),
            ("2_Dense/notes.txt", b"not needed"),
            ("onnx/model.onnx", b"not needed"),
        ]),
        Folder::new(),
    );
    let folder = find(MODEL, &options(&hub, &cache)).unwrap();
    let recipe = roformer::sentence::Recipe::read(&folder).unwrap();
    let vectors = recipe.vectors.unwrap();
    assert_eq!((recipe.longest, vectors.poolings), (Some(9), vec![roformer::pipeline::Pooling::Max]));
    assert_eq!(fs::read(folder.join("2_Dense/pytorch_model.bin")).unwrap(), b"weights");
    assert!(!folder.join("2_Dense/notes.txt").exists() && !folder.join("onnx").exists());
    #[cfg(unix)]
    {
        let link = fs::read_link(folder.join("1_Pooling/config.json")).unwrap();
        assert!(link.starts_with("../../../blobs"), "{}", link.display());
    }
    hub.seen();
    assert_eq!(find(MODEL, &options(&hub, &cache)).unwrap(), folder);
    assert!(hub.seen().is_empty(), "all of it is there");
}
