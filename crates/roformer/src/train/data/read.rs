//! Files to tokens.

use super::encoder::{BEGINS, Encoder};
use super::files::{Source, list};
use super::list::Writer;
use super::records::{Answer, Record, Shape, Unit, at_line, read};
use super::wordpiece::Words;
use super::{About, Data, Vocabulary};
use crate::error::{Error, Result};
use crate::files::{failed, write};
use crate::tokenizer::Unknown;
use crate::train::characters::Characters;
use crate::train::settings::{Goal, Layout};
use crate::weights::brief;
use rayon::prelude::*;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of text that are turned into tokens side by side.
const BATCH: usize = 1 << 22;

/// More labels than a classifier has.
const MOST_LABELS: usize = 65_536;

/// What makes the vocabulary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Every character of the text is a token.
    #[default]
    Characters,
    /// Pieces of the words of the text, so many tokens in all.
    WordPiece(usize),
    /// The tokenizer in a folder, or the one that a `tokenizer.json` or `vocab.txt` is.
    Given(PathBuf),
}

/// What is to be read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Files and folders to train on.
    pub files: Vec<PathBuf>,
    /// Those that are kept for validation; if there are none, a part of the others is.
    pub kept: Vec<PathBuf>,
    /// What makes the vocabulary; that of the model that is begun with, or characters, if it is not said.
    pub tokenizer: Option<Choice>,
    /// The labels that are known already, if any.
    pub labels: Vec<String>,
}

/// How the files of a task are read.
#[derive(Clone, Copy)]
struct Manner {
    goal: Goal,
    layout: Layout,
}

impl Manner {
    fn shape(self) -> Shape {
        match self.goal {
            Goal::Causal | Goal::Masked => Shape::Text,
            Goal::Classification => Shape::Labelled,
            Goal::Similarity => Shape::Pair,
            Goal::Sequences => Shape::Sequences,
        }
    }

    fn unit(self, cuts_anywhere: bool) -> Unit {
        match (self.shape(), self.layout) {
            (Shape::Text, Layout::Packed) if cuts_anywhere => Unit::Pieces,
            (Shape::Text, Layout::Packed) => Unit::Lines,
            (Shape::Text, Layout::Padded) => Unit::Each,
            _ => Unit::Whole,
        }
    }

    /// Whether all texts are one stream of tokens, of which no row is the beginning.
    fn is_stream(self) -> bool {
        self.shape() == Shape::Text && self.layout == Layout::Packed
    }

    fn is_framed(self) -> bool {
        self.goal != Goal::Causal
    }
}

impl Data {
    /// Reads files, for a task and a layout of its rows. Tokens and tokenizer go to `data` and `tokenizer` in the folder, or
    /// stay in memory where there is none. `on` sees the bytes that were read so far.
    pub fn read(
        request: &Request,
        goal: Goal,
        layout: Layout,
        folder: Option<&Path>,
        mut on: impl FnMut(u64),
    ) -> Result<Self> {
        let manner = Manner { goal, layout };
        let (files, kept) = (list(&request.files)?, list(&request.kept)?);
        let all: Vec<&Source> = files.iter().chain(&kept).collect();
        let choice = request.tokenizer.clone().unwrap_or_default();
        let scan = Scan::of(&all, &choice, &request.labels, manner, &mut on)?;
        let (encoder, vocabulary) = scan.encoder(&choice, manner, folder)?;
        let mut writer = DataWriter::new(encoder, manner, scan.labels, &vocabulary, folder)?;
        for source in &files {
            writer.file(source, &mut on)?;
        }
        writer.kept = (!kept.is_empty()).then_some([writer.count, writer.tokens_count]);
        for source in &kept {
            writer.file(source, &mut on)?;
        }
        let data = writer.finish(vocabulary)?;
        if let Some(folder) = folder {
            data.describe(&folder.join("data"))?;
        }
        Ok(data)
    }

    /// One text of characters, in memory.
    pub fn from_text(text: &str) -> Result<Self> {
        let characters = Characters::new(text.chars().collect());
        let vocabulary = characters.vocabulary(false);
        let manner = Manner { goal: Goal::Causal, layout: Layout::Packed };
        let encoder = Encoder::Characters(characters);
        let mut writer = DataWriter::new(encoder, manner, Vec::new(), &vocabulary, None)?;
        let record =
            Record { text: text.into(), second: None, answer: Answer::None, goes_on: false, line: 1 };
        writer.records(Path::new("the text"), &[record])?;
        writer.finish(vocabulary)
    }
}

/// What a first look at the text finds.
struct Scan {
    characters: BTreeSet<char>,
    words: Words,
    labels: Vec<String>,
}

impl Scan {
    fn of(
        sources: &[&Source],
        choice: &Choice,
        known: &[String],
        manner: Manner,
        on: &mut impl FnMut(u64),
    ) -> Result<Self> {
        let mut scan = Scan { characters: BTreeSet::new(), words: Words::default(), labels: known.to_vec() };
        let takes_labels = manner.goal == Goal::Classification && known.is_empty();
        if matches!(choice, Choice::Given(_)) && !takes_labels {
            return Ok(scan);
        }
        let cuts_anywhere = *choice == Choice::Characters;
        let mut labels = BTreeSet::new();
        // By code point, most texts have few.
        let mut seen = vec![false; char::MAX as usize + 1];
        let mut bytes = 0;
        for source in sources {
            read(source, manner.unit(cuts_anywhere), manner.shape(), |record| {
                for text in [Some(&record.text), record.second.as_ref()].into_iter().flatten() {
                    match choice {
                        Choice::Characters => text.chars().for_each(|char| seen[char as usize] = true),
                        Choice::WordPiece(_) => scan.words.add(text)?,
                        Choice::Given(_) => {}
                    }
                    bytes += text.len() as u64;
                }
                on(bytes);
                if let (Answer::Label(label), true) = (record.answer, takes_labels) {
                    labels.insert(label);
                    if labels.len() > MOST_LABELS {
                        let reason = format!("more than {MOST_LABELS} different labels; expected fewer");
                        return Err(at_line(&source.path, record.line, reason));
                    }
                }
                Ok(())
            })?;
        }
        scan.characters = (0..)
            .zip(&seen)
            .filter(|(_, seen)| **seen)
            .filter_map(|(code, _)| char::from_u32(code))
            .collect();
        if takes_labels {
            scan.labels = in_order(labels);
        }
        Ok(scan)
    }

    fn encoder(
        &self,
        choice: &Choice,
        manner: Manner,
        folder: Option<&Path>,
    ) -> Result<(Encoder, Vocabulary)> {
        let own = folder.map(|folder| folder.join("tokenizer"));
        let put = |files: &[(String, Vec<u8>)]| match &own {
            None => Ok(()),
            Some(folder) => {
                fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
                files.iter().try_for_each(|(name, bytes)| write(&folder.join(name), bytes))
            }
        };
        let (encoder, vocabulary) = match choice {
            Choice::Characters => {
                let characters = Characters::new(self.characters.clone());
                let vocabulary = characters.vocabulary(manner.is_framed());
                (Encoder::Characters(characters), vocabulary)
            }
            Choice::Given(path) => Encoder::load(path)?,
            Choice::WordPiece(size) => {
                let own = own.as_ref().ok_or_else(|| {
                    Error::input("the tokenizer", "wordpiece", "another for text that is kept in memory")
                })?;
                put(&self.words.files(*size))?;
                return Encoder::load(own);
            }
        };
        put(&vocabulary.files)?;
        Ok((encoder, vocabulary))
    }
}

/// Labels by number where they are numbers, else by name.
fn in_order(labels: BTreeSet<String>) -> Vec<String> {
    let mut labels: Vec<String> = labels.into_iter().collect();
    let numbers: Option<Vec<i64>> = labels.iter().map(|label| label.parse().ok()).collect();
    if numbers.is_some() {
        labels.sort_by_key(|label| label.parse::<i64>().unwrap_or(i64::MAX));
    }
    labels
}

/// Tokens in the making.
struct DataWriter {
    encoder: Encoder,
    manner: Manner,
    labels: Vec<String>,
    numbers: HashMap<String, u32>,
    end: Option<u32>,
    /// What stands for text that is in no token, and how often it does.
    unknown_id: Option<u32>,
    unknown: Unknown,
    tokens: Writer,
    documents: Writer,
    tokens_count: usize,
    count: usize,
    /// Whether the first record had a second text, and whether it had a score: all others must do as it did.
    first: Option<(bool, bool)>,
    kept: Option<[usize; 2]>,
    bytes: u64,
}

impl DataWriter {
    fn new(
        encoder: Encoder,
        manner: Manner,
        labels: Vec<String>,
        vocabulary: &Vocabulary,
        folder: Option<&Path>,
    ) -> Result<Self> {
        let writer = |name: &str| match folder {
            None => Ok(Writer::held()),
            Some(folder) => {
                let folder = folder.join("data");
                fs::create_dir_all(&folder).map_err(|error| failed(&folder, error))?;
                Writer::file(folder.join(name))
            }
        };
        let numbers = labels.iter().cloned().zip(0..).collect();
        let (tokens, documents) = (writer("tokens")?, writer("documents")?);
        let (tokens_count, count) = (0, 0);
        Ok(DataWriter {
            encoder,
            manner,
            labels,
            numbers,
            end: vocabulary.end,
            unknown_id: vocabulary.unknown,
            unknown: Unknown::default(),
            tokens,
            documents,
            tokens_count,
            count,
            first: None,
            kept: None,
            bytes: 0,
        })
    }

    /// Adds a file.
    fn file(&mut self, source: &Source, on: &mut impl FnMut(u64)) -> Result<()> {
        let unit = self.manner.unit(matches!(self.encoder, Encoder::Characters(_)));
        let mut records = Vec::new();
        let mut bytes = 0;
        read(source, unit, self.manner.shape(), |record| {
            bytes += record.text.len();
            records.push(record);
            if bytes >= BATCH {
                self.records(&source.path, &records)?;
                self.bytes += bytes as u64;
                on(self.bytes);
                records.clear();
                bytes = 0;
            }
            Ok(())
        })?;
        self.bytes += bytes as u64;
        self.records(&source.path, &records)
    }

    /// Adds records, turned into tokens side by side.
    fn records(&mut self, path: &Path, records: &[Record]) -> Result<()> {
        let marks_words = self.manner.goal == Goal::Masked;
        let encoder = &self.encoder;
        let encoded: Vec<Result<Vec<Vec<u32>>>> = records
            .par_iter()
            .map(|record| {
                let texts = [Some(&record.text), record.second.as_ref()].into_iter().flatten();
                texts.map(|text| encoder.encode(text, marks_words)).collect()
            })
            .collect();
        for (record, texts) in records.iter().zip(encoded) {
            let texts = texts.map_err(|error| at_line(path, record.line, error.to_string()))?;
            self.record(path, record, &texts)?;
        }
        Ok(())
    }

    fn record(&mut self, path: &Path, record: &Record, texts: &[Vec<u32>]) -> Result<()> {
        let is = (record.second.is_some(), matches!(record.answer, Answer::Score(_)));
        let first = *self.first.get_or_insert(is);
        if is != first {
            let what = if is.0 != first.0 { "pair" } else { "score" };
            let reason =
                format!("`{what}` is there in some records and not in others; expected it in all or in none");
            return Err(at_line(path, record.line, reason));
        }
        if texts.iter().any(Vec::is_empty) && self.manner.shape() != Shape::Text {
            return Err(at_line(path, record.line, "a text without any token; expected some text"));
        }
        let answer = match &record.answer {
            Answer::None => 0,
            Answer::Score(score) => score.to_bits(),
            Answer::Label(label) => self.label(path, record.line, label)?,
        };
        if self.manner.is_stream() {
            if !record.goes_on {
                // Texts of one stream are told apart by a token.
                if let (Some(end), true) = (self.end, self.count > 0) {
                    self.add(&[end])?;
                }
                self.count += 1;
            }
            return self.add(&texts[0]);
        }
        for (ids, answer) in texts.iter().zip([answer, 0]) {
            self.add(ids)?;
            self.entry(answer)?;
        }
        Ok(())
    }

    fn label(&self, path: &Path, line: u64, label: &str) -> Result<u32> {
        let by_number = || label.parse::<usize>().ok().filter(|&number| number < self.labels.len());
        let number = self.numbers.get(label).copied().or_else(|| Some(by_number()? as u32));
        number.ok_or_else(|| {
            let shown: Vec<String> = self.labels.iter().take(8).map(|label| brief(label)).collect();
            let more = if self.labels.len() > 8 { ", …" } else { "" };
            let expected =
                format!("one of the model's {} labels: {}{more}", self.labels.len(), shown.join(", "));
            at_line(path, line, format!("the label {} is out of range; expected {expected}", brief(label)))
        })
    }

    fn add(&mut self, ids: &[u32]) -> Result<()> {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        self.tokens_count += ids.len();
        self.unknown.add(ids.iter().map(|id| id & !BEGINS), self.unknown_id);
        self.tokens.add(&bytes)
    }

    fn entry(&mut self, answer: u32) -> Result<()> {
        self.count += 1;
        let mut entry = (self.tokens_count as u64).to_le_bytes().to_vec();
        entry.extend(answer.to_le_bytes());
        self.documents.add(&entry)
    }

    fn finish(self, vocabulary: Vocabulary) -> Result<Data> {
        let (has_second, has_scores) = self.first.unwrap_or_default();
        let about =
            About { labels: self.labels, texts: 1 + usize::from(has_second), has_scores, kept: self.kept };
        let (tokens, documents) = (self.tokens.finish()?, self.documents.finish()?);
        Ok(Data { tokens, documents, about, vocabulary, unknown: self.unknown })
    }
}
