//! `roformer tokenize`: the tokens of texts. No weights are read.

use super::show;
use crate::error::Outcome;
use crate::model::Reader;
use crate::text::{self, Fields, Record, Task};
use clap::Args;
use rayon::prelude::*;
use roformer::tokenizer::{Encoding, Tokenizer};
use serde::Serialize;
use std::io::Write;

/// Show the tokens of texts
///
/// Tokens are shown as the model reads them, with [CLS] and [SEP]. The rule is roformer (WordPiece on jieba's words), bert
/// (WordPiece on characters) or file (what tokenizer.json says). A folder needs only the files of the tokenizer, such as
/// vocab.txt.
///
/// --json prints one object per text: {"tokens": [...], "ids": [...], "offsets": [[start, end], ...], "token_types": [...]}.
/// Offsets count characters, of the text or of its pair; tokens that were added have [0, 0]. Fields of JSON Lines: text, and
/// optionally pair, a second text, and id, which comes back with the result.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer tokenize --model junnyu/roformer_chinese_base '今天天气非常好。'\n  \
    roformer tokenize --model DIR --input texts.txt --json > tokens.jsonl"
)]
pub struct Arguments {
    #[command(flatten)]
    reader: Reader,
    #[command(flatten)]
    options: text::Options,
    /// Texts
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
}

const FIELDS: Fields = Fields { required: &["text"], optional: &["pair"] };

pub fn run(arguments: Arguments) -> Outcome {
    let Arguments { reader, options, texts } = arguments;
    let source = options.open(texts, FIELDS, "roformer tokenize --model MODEL '今天天气非常好。'")?;
    let tokenizer = Tokenizer::load(reader.folder()?)?;
    let mut task = Tokenize { tokenizer, truncate: reader.truncate(), json: options.json, is_first: true };
    text::run(&options, source, &mut task)?.outcome()
}

struct Tokenize {
    tokenizer: Tokenizer,
    truncate: Option<usize>,
    json: bool,
    /// Whether nothing has been printed: there is an empty line between two texts.
    is_first: bool,
}

#[derive(Serialize)]
struct Body<'a> {
    tokens: Vec<String>,
    ids: &'a [u32],
    offsets: Vec<(usize, usize)>,
    token_types: &'a [u32],
}

impl Task for Tokenize {
    type Output = Encoding;

    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Encoding>> {
        let encode = |record: &Record| match (record.get(1), self.truncate) {
            (pair, Some(tokens)) => self.tokenizer.encode_cut(record.text(0), pair, tokens),
            (None, None) => self.tokenizer.encode(record.text(0)),
            (Some(pair), None) => self.tokenizer.encode_pair(record.text(0), pair),
        };
        records.par_iter().map(encode).collect()
    }

    fn print(&mut self, out: &mut dyn Write, record: &Record, encoding: Encoding) -> Outcome {
        let texts = [record.text(0), record.get(1).unwrap_or_default()];
        let offsets = encoding.characters(texts[0], texts[1]);
        let tokens: Vec<String> =
            encoding.ids.iter().map(|&id| self.tokenizer.token(id).unwrap_or_default()).collect();
        if self.json {
            let Encoding { ids, token_types, .. } = &encoding;
            return Ok(record.write_json(out, Body { tokens, ids, offsets, token_types })?);
        }
        match std::mem::take(&mut self.is_first) {
            true => writeln!(out, "rule: {}", self.tokenizer.kind())?,
            false => writeln!(out)?,
        }
        let tokens: Vec<String> = tokens.iter().map(|token| show::brief(token, show::SHORT)).collect();
        let widest = tokens.iter().map(|token| show::width(token)).max().unwrap_or(0).max("token".len());
        let digits = encoding.ids.iter().max().map_or(1, |id| id.to_string().len()).max("id".len());
        writeln!(out, "{}  {:>digits$}  characters", show::pad("token", widest), "id")?;
        for (index, token) in tokens.iter().enumerate() {
            let (token, id) = (show::pad(token, widest), encoding.ids[index]);
            let Some(which) = encoding.sequence[index] else {
                writeln!(out, "{token}  {id:>digits$}")?;
                continue;
            };
            let ((start, end), (from, to)) = (offsets[index], encoding.offsets[index]);
            let place = format!("{start}–{end}");
            let covered = texts[usize::from(which != 0)].get(from..to).unwrap_or_default();
            writeln!(out, "{token}  {id:>digits$}  {place:<10}  {}", show::brief(covered, show::SHORT))?;
        }
        Ok(())
    }
}
