//! What fewer bits cost: the cosine between vectors of texts before and after.

use crate::error::Failure;
use roformer::model::{Input, Model};
use roformer::ops::{Cpu, Precision};
use roformer::pipeline::cosine;
use roformer::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Texts that are made up, and tokens of each.
const MADE_UP: (usize, usize) = (8, 32);
/// Texts of a file that are read, and tokens of each.
const READ: (usize, usize) = (64, 128);
/// What is read of a file, and of a line, however long they are.
const READ_BYTES: u64 = 1 << 20;
const READ_CHARACTERS: usize = 4096;

/// How near the vectors of a model in fewer bits are to those of the model that it was made of: the mean over the tokens of the last hidden
/// states.
pub struct Cost {
    precision: Precision,
    /// The mean of the cosines, and the least.
    cosine: [f64; 2],
    texts: usize,
    are_made_up: bool,
}

impl Cost {
    /// Runs both on texts that were [read], or on some that are made up.
    pub fn measure(
        (before, after): (&Path, &Path),
        precision: Precision,
        texts: Option<Vec<Vec<u32>>>,
    ) -> Result<Cost, Failure> {
        let exact = Model::load(before)?;
        let are_made_up = texts.is_none();
        let texts = texts.unwrap_or_else(|| made_up(exact.blueprint().vocabulary));
        let known = texts.iter().map(|text| vector(&exact, text)).collect::<Result<Vec<_>, _>>()?;
        drop(exact);
        let narrow = Model::load_on(Cpu { precision }, after)?;
        let mut cosines = Vec::new();
        for (text, known) in texts.iter().zip(&known) {
            cosines.push(f64::from(cosine(known, &vector(&narrow, text)?)));
        }
        let mean = cosines.iter().sum::<f64>() / cosines.len() as f64;
        let least = cosines.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(Cost { precision, cosine: [mean, least], texts: texts.len(), are_made_up })
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let Cost { precision, cosine: [mean, least], texts, are_made_up } = self;
        json!({
            "dtype": precision.name(), "cosine_mean": mean, "cosine_least": least, "texts": texts,
            "random_tokens": are_made_up, "says": self.to_string(),
        })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { precision, cosine: [mean, least], texts, are_made_up } = self;
        let (name, of) = (precision.name(), if *are_made_up { " of random tokens" } else { "" });
        let of = format!("{texts} text{}{of}", if *texts == 1 { "" } else { "s" });
        write!(
            f,
            "in {name}, cosine to the vectors in f32: {mean:.5} in the mean, {least:.5} at least, over {of}"
        )
    }
}

/// The mean of the last hidden states of a text.
fn vector(model: &Model, ids: &[u32]) -> Result<Vec<f32>, Failure> {
    let input = Input { ids, batch: 1, token_types: None, mask: None };
    let hidden = match model.blueprint().encoder {
        Some(_) => model.encode(&input)?,
        None => model.forward(&input)?,
    }
    .last_hidden_state;
    let width = hidden.len() / ids.len();
    let mut mean = vec![0.0; width];
    for row in hidden.chunks_exact(width) {
        mean.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / ids.len() as f32);
    }
    Ok(mean)
}

/// The same ids each time.
fn made_up(vocabulary: usize) -> Vec<Vec<u32>> {
    let (texts, tokens) = MADE_UP;
    let id = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7) % vocabulary;
    (0..texts).map(|text| (0..tokens).map(|token| id(text * tokens + token + 1) as u32).collect()).collect()
}

/// The ids of the first texts of a file, a line each.
pub fn read(folder: &Path, file: &Path) -> Result<Vec<Vec<u32>>, Failure> {
    let (texts, tokens) = READ;
    let unread = |error: String| Failure::Input(format!("{} cannot be read: {error}", file.display()));
    let mut bytes = Vec::new();
    let start = File::open(file).and_then(|file| file.take(READ_BYTES).read_to_end(&mut bytes));
    start.map_err(|error| unread(error.to_string()))?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The last character of what was read may go on behind it.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => return Err(unread(error.to_string())),
    };
    let tokenizer = Tokenizer::load(folder)?;
    let mut read = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()).take(texts) {
        // Far more than have the tokens that are kept.
        let end = line.char_indices().nth(READ_CHARACTERS).map_or(line.len(), |(end, _)| end);
        let mut ids = tokenizer.encode(&line[..end])?.ids;
        ids.truncate(tokens);
        read.push(ids);
    }
    match read.is_empty() {
        true => Err(Failure::Input(format!("{} has no text; expected a text per line", file.display()))),
        false => Ok(read),
    }
}
