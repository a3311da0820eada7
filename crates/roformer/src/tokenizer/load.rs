//! Which rule a folder means, and the tokenizer made by it.

use super::files::{self, LIMIT, ROLES, Settings, Vocabulary};
use super::words::Words;
use super::{File, Kind, Pieces, Rule, Tokenizer, bounds, foreign};
use crate::error::Result;
use crate::files::{broken, read};
use crate::weights::brief;
use serde_json::{Map, Value};
use std::path::Path;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{AddedToken, AddedVocabulary, Model};

/// `lowers` says that letters are made small, whatever the files say.
pub(super) fn load(folder: &Path, lowers: bool) -> Result<Tokenizer> {
    let damaged = |_| broken(folder, "a damaged tokenizer; download it again");
    foreign::run(LIMIT as usize, || load_trusting(folder, lowers)).map_err(damaged)?
}

/// The same, as far as the tokenizers crate does not panic.
fn load_trusting(folder: &Path, lowers: bool) -> Result<Tokenizer> {
    if !folder.is_dir() {
        return Err(broken(
            folder,
            "not a folder; pass the folder of a model, with vocab.txt or tokenizer.json",
        ));
    }
    let (text_path, json_path) = (folder.join("vocab.txt"), folder.join("tokenizer.json"));
    let json = read(&json_path, LIMIT)?;
    let parsed = files::parsed(&json_path, &json)?;
    let settings = Settings::read(folder, parsed.as_ref())?;
    // Made only where the rule asks for it: the file of another kind of model need not hold a WordPiece.
    let vocabulary = || match (read(&text_path, LIMIT)?, &parsed) {
        (Some(bytes), _) => Vocabulary::from_text(text_path.clone(), bytes),
        (None, Some(file)) => Vocabulary::from_json(json_path.clone(), file),
        (None, None) => {
            Err(broken(folder, "neither vocab.txt nor tokenizer.json; expected a tokenizer's files"))
        }
    };

    let named = settings.class()?.map(str::to_owned);
    let model =
        if named.is_none() { files::object(&folder.join("config.json"))? } else { Default::default() };
    let class = named.or_else(|| Some(model.get("tokenizer_class")?.as_str()?.to_owned()));
    // Older versions of transformers wrote the names of their faster classes.
    let kind = match class.as_deref().map(|class| class.strip_suffix("Fast").unwrap_or(class)) {
        Some("RoFormerTokenizer") => Some(Kind::RoFormer),
        Some("BertTokenizer") => Some(Kind::Bert),
        Some(other) if json.is_none() => {
            let expected = "RoFormerTokenizer or BertTokenizer, or a tokenizer.json beside it";
            let reason = format!("`tokenizer_class` is {}; expected {expected}", brief(other));
            return Err(broken(&folder.join("tokenizer_config.json"), reason));
        }
        Some(_) => Some(Kind::File),
        None if json.is_some() && model.get("model_type").is_none_or(|kind| kind != "roformer") => {
            Some(Kind::File)
        }
        None => None,
    };
    match (kind, json, &parsed) {
        (Some(Kind::File), Some(bytes), Some(file)) => {
            let bytes = if lowers { lowered(file) } else { bytes };
            let load = || from_file(&json_path, &bytes, file, &settings);
            let damaged = |reason: Option<String>| {
                let reason = reason.unwrap_or_else(|| "not a tokenizer (damaged); download it again".into());
                broken(&json_path, reason)
            };
            foreign::run(bytes.len(), load).map_err(damaged)?
        }
        (kind, ..) => {
            let vocabulary = vocabulary()?;
            let by_words = if vocabulary.has_words() { Kind::RoFormer } else { Kind::Bert };
            from_vocabulary(kind.unwrap_or(by_words), vocabulary, &settings, lowers)
        }
    }
}

/// A WordPiece by one of our two rules.
fn from_vocabulary(
    kind: Kind,
    vocabulary: Vocabulary,
    settings: &Settings,
    lowers: bool,
) -> Result<Tokenizer> {
    let Vocabulary { path, ids } = vocabulary;
    for role in ["unk_token", "cls_token", "sep_token"] {
        let Some(token) = settings.name(role)? else {
            return Err(broken(
                &path,
                format!("`{role}` is null in tokenizer_config.json; expected its name"),
            ));
        };
        if !ids.contains_key(token) {
            let reason = format!(
                "no `{}`; expected the `{role}` of tokenizer_config.json among the tokens",
                brief(token)
            );
            return Err(broken(&path, reason));
        }
    }
    let lower = settings.flag("do_lower_case")?.unwrap_or(true);
    let chinese = match kind {
        Kind::RoFormer => false,
        _ => settings.flag("tokenize_chinese_chars")?.unwrap_or(true),
    };
    let words = match kind {
        Kind::RoFormer => Words::jieba(ids.keys().map(String::as_str)),
        _ => Words::Bert,
    };
    let unknown = settings.name("unk_token")?.unwrap_or_default().to_owned();
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| broken(&path, error.to_string());

    let mut map = WordPiece::read_bytes(b"").map_err(failed)?;
    map.extend(ids);
    let model = WordPiece::builder().vocab(map).unk_token(unknown).build().map_err(failed)?;
    // Accents go with capitals only where the files have it so.
    let accents = settings.flag("strip_accents")?.or(Some(lower));
    let normalizer = BertNormalizer::new(true, chinese, accents, lower || lowers);
    let added =
        additions(settings, &model, model.get_vocab_size() as u64, |token| model.token_to_id(token), &path)?;
    let mut vocabulary = AddedVocabulary::new();
    vocabulary.add_tokens(added, &model, Some(&normalizer)).map_err(failed)?;
    let mut inner = Pieces::new(model);
    inner.with_normalizer(Some(normalizer)).map_err(failed)?;
    inner.with_pre_tokenizer(Some(words)).with_added_vocabulary(vocabulary);
    finish(kind, Rule::Pieces(Box::new(inner)), &path, settings)
}

/// A file of a tokenizer that makes letters small before its own normalizer.
fn lowered(file: &Map<String, Value>) -> Vec<u8> {
    let small = serde_json::json!({ "type": "Lowercase" });
    let steps = match file.get("normalizer") {
        None | Some(Value::Null) => vec![small],
        Some(own) => vec![small, own.clone()],
    };
    let mut file = file.clone();
    file.insert("normalizer".into(), serde_json::json!({ "type": "Sequence", "normalizers": steps }));
    Value::Object(file).to_string().into_bytes()
}

/// The file as it is.
fn from_file(path: &Path, bytes: &[u8], file: &Map<String, Value>, settings: &Settings) -> Result<Tokenizer> {
    let wrong = |why: &str| broken(path, format!("not a tokenizer ({}); download it again", brief(why)));
    bounds::check(file).map_err(|why| broken(path, why))?;
    let loaded = serde_json::from_slice::<File>(bytes);
    let mut inner = loaded.map_err(|error| wrong(&error.to_string()))?;
    // How long a text may be, and whether it is padded, is for the caller to say, as in transformers.
    inner.with_truncation(None).map_err(|error| wrong(&error.to_string()))?.with_padding(None);
    let next = inner.get_added_tokens_decoder().into_keys().map(|id| u64::from(id) + 1).max().unwrap_or(0);
    let next = next.max(inner.get_model().get_vocab_size() as u64);
    let added = additions(settings, inner.get_model(), next, |token| inner.token_to_id(token), path)?;
    let added: Vec<_> =
        added.into_iter().filter(|token| inner.token_to_id(&token.content).is_none()).collect();
    if !added.is_empty() {
        inner.add_tokens(added).map_err(|error| wrong(&error.to_string()))?;
    }
    finish(Kind::File, Rule::File(Box::new(inner)), path, settings)
}

/// The added tokens that can be used. `next` is the first id after the vocabulary. What is not in the vocabulary goes to its end, in order; an id in the file that says
/// otherwise is an error. Special tokens that only have a name and are not in the vocabulary are left out: transformers
/// adds them at its end, where the model has no embedding for them.
fn additions(
    settings: &Settings,
    model: &impl Model,
    mut next: u64,
    known: impl Fn(&str) -> Option<u32>,
    path: &Path,
) -> Result<Vec<AddedToken>> {
    let mut tokens = Vec::new();
    for (id, token) in &settings.added {
        if token.content.is_empty() || (id.is_none() && known(&token.content).is_none()) {
            continue;
        }
        let place = known(&token.content).map_or(next, u64::from);
        if id.is_some_and(|id| id != place) {
            let (token, id) = (brief(&token.content), id.unwrap_or_default());
            let reason =
                format!("`{token}` has id {place} by the vocabulary and {id} among the added tokens");
            return Err(broken(path, format!("{reason}; expected them to agree; download both files again")));
        }
        if known(&token.content).is_none() {
            // Ids with gaps, as equal lines leave them: the end by count is then not the end by number.
            if model.id_to_token(place as u32).is_some() {
                let reason = format!("id {place} is taken, so `{}` cannot be added", brief(&token.content));
                return Err(broken(
                    path,
                    format!("{reason}; expected a vocabulary without equal lines or gaps"),
                ));
            }
            next += 1;
        }
        tokens.push(token.clone());
    }
    Ok(tokens)
}

fn finish(kind: Kind, rule: Rule, path: &Path, settings: &Settings) -> Result<Tokenizer> {
    let ids = rule.vocabulary();
    let mut roles = [None; ROLES.len()];
    for (id, (role, _)) in roles.iter_mut().zip(ROLES) {
        *id = settings.name(role)?.and_then(|name| ids.get(name).copied());
    }
    let size = ids.values().max().map_or(0, |&id| id as usize + 1);
    let special = rule
        .special()
        .iter()
        .filter_map(|token| ids.get(token))
        .chain(roles.iter().flatten())
        .copied()
        .collect();
    let (path, places) = (path.display().to_string(), Default::default());
    Ok(Tokenizer { kind, rule, path, roles, special, size, places })
}
