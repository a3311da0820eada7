//! Which files a run reads: those that were named, and those in the folders that were.

use crate::error::Result;
use crate::files::{broken, failed};
use std::fs;
use std::path::{Path, PathBuf};

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// UTF-8 text.
    Text,
    /// An object of JSON on every line.
    JsonLines,
}

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub path: PathBuf,
    pub format: Format,
    /// The folder that it was found in, below the one that was named: the label of a text.
    pub folder: Option<String>,
}

/// Files of a folder that are read; others are left alone.
const TEXT: [&str; 3] = ["txt", "text", "md"];
const JSON_LINES: [&str; 2] = ["jsonl", "ndjson"];

/// Folders within folders that are followed.
const DEEPEST: usize = 32;

/// The files of paths: a file is itself, a folder all text and JSON Lines in it, in the order of their names.
pub(super) fn list(paths: &[PathBuf]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = sources.len();
            folder(path, None, 0, &mut sources)?;
            if sources.len() == before {
                let reason =
                    "a folder without text; expected files that end in .txt, .text, .md, .jsonl or .ndjson";
                return Err(broken(path, reason));
            }
        } else {
            let format = format(path).unwrap_or(Format::Text);
            sources.push(Source { path: path.clone(), format, folder: None });
        }
    }
    Ok(sources)
}

fn folder(path: &Path, label: Option<&str>, depth: usize, sources: &mut Vec<Source>) -> Result<()> {
    if depth > DEEPEST {
        return Err(broken(path, format!("folders more than {DEEPEST} deep; expected fewer")));
    }
    let failed = |error: std::io::Error| failed(path, error);
    let entries = fs::read_dir(path).map_err(failed)?.collect::<std::io::Result<Vec<_>>>();
    let mut paths: Vec<PathBuf> = entries.map_err(failed)?.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            folder(&path, Some(&name), depth + 1, sources)?;
        } else if let Some(format) = format(&path) {
            sources.push(Source { path: path.clone(), format, folder: label.map(str::to_owned) });
        }
    }
    Ok(())
}

fn format(path: &Path) -> Option<Format> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        ending if TEXT.contains(&ending) => Some(Format::Text),
        ending if JSON_LINES.contains(&ending) => Some(Format::JsonLines),
        _ => None,
    }
}
