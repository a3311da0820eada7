//! Which files of a repository make a model, and the order in which they come.

use super::cache::{CONFIG, Held, Repo, VOCABULARY, is_commit, shards};
use super::transfer::Client;
use crate::sentence::{self, MODULES};
use crate::weights::FILES;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What a tokenizer or a generator reads, beside the vocabulary.
const EXTRAS: [&str; 4] =
    ["tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json"];

/// Downloads `config.json` alone and returns the folder of the snapshot.
pub(super) fn fetch_config(client: &Client<'_>, repo: &Repo) -> Result<PathBuf, String> {
    let info = client.info(repo.revision())?;
    let commit = &info.sha;
    if !is_commit(commit) {
        return Err(client.odd("the list of files names no commit"));
    }
    if !info.siblings.iter().any(|file| file.rfilename == CONFIG) {
        return Err(format!(
            "the repository has no {CONFIG}; expected a model as transformers saves it; check the name and the revision"
        ));
    }
    let disk =
        |error| format!("cannot write to the cache: {error}; check its permissions, or set HF_HUB_CACHE");
    let folder = repo.snapshot(commit);
    std::fs::create_dir_all(&folder).map_err(disk)?;
    client.get(repo, commit, CONFIG)?;
    // No snapshot that is whole is hidden: one that had a config.json would have been found.
    repo.set_commit(commit).map_err(disk)?;
    Ok(folder)
}

/// Downloads what the cache lacks and returns the folder of the snapshot.
pub(super) fn fetch(client: &Client<'_>, repo: &Repo, held: Held) -> Result<PathBuf, String> {
    let info = match (client.info(repo.revision()), held) {
        (Ok(info), _) => info,
        // All that could be missing is a tokenizer, and that there is one.
        (Err(_), Held::Model(folder) | Held::All(folder)) => return Ok(folder),
        (Err(reason), Held::Part) => return Err(reason),
    };
    let commit = &info.sha;
    if !is_commit(commit) {
        return Err(client.odd("the list of files names no commit"));
    }
    let names: BTreeSet<&str> = info.siblings.iter().map(|file| file.rfilename.as_str()).collect();
    let expected = "expected a model as transformers saves it; check the name and the revision";
    if !names.contains(CONFIG) {
        return Err(format!("the repository has no {CONFIG}; {expected}"));
    }
    let Some(weights) = FILES.into_iter().find(|name| names.contains(name)) else {
        return Err(format!("the repository has no weights: none of {}; {expected}", FILES.join(", ")));
    };

    let disk =
        |error| format!("cannot write to the cache: {error}; check its permissions, or set HF_HUB_CACHE");
    let folder = repo.snapshot(commit);
    std::fs::create_dir_all(&folder).map_err(disk)?;
    let get = |name: &str| client.get(repo, commit, name);
    // Weights come last: a snapshot with weights has everything else.
    get(CONFIG)?;
    for name in VOCABULARY.into_iter().chain(EXTRAS) {
        if names.contains(name) {
            get(name)?;
        } else if VOCABULARY.contains(&name) {
            repo.mark_missing(commit, name).map_err(disk)?;
        }
    }
    if names.contains(MODULES) {
        get(MODULES)?;
        sentence::files(&folder, |name| names.contains(name)).iter().try_for_each(|name| get(name))?;
    }
    get(weights)?;
    if weights.ends_with(".json") {
        let shards = shards(&folder.join(weights))?;
        if let Some(missing) = shards.iter().find(|shard| !names.contains(shard.as_str())) {
            let advice = "expected all files of the index; ask its owner for the rest";
            return Err(format!("{weights} lists {missing}, which the repository does not have; {advice}"));
        }
        shards.iter().try_for_each(|shard| get(shard))?;
    }
    // Last as well, so that a download that breaks off does not hide an older snapshot that is whole.
    repo.set_commit(commit).map_err(disk)?;
    Ok(folder)
}
