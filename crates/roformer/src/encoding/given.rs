//! An encoding that somebody gives as numbers, in a file: biases by head and distance, frequencies, or codes of positions. For
//! comparing an idea with the others before anything is written in Rust; nothing of it is learned.

use super::absolute::Merge;
use super::{Encode, Sizes, Terms, by_distance};
use crate::error::{Error, Result};
use crate::graph::{Builder, Rotation, TableTerm, Value};
use crate::ops::Real;
use rope::{Pairing, Rope, Schedule};
use serde::Deserialize;

/// Numbers of a file of its own: any of the three, each where it says something.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// What it is called.
    pub name: String,
    /// Added to scores, `[heads or 1][distances]`: the last number of a head is that of all distances beyond.
    #[serde(default)]
    pub bias: Option<Vec<Vec<f64>>>,
    /// How fast pairs of features turn, from the first pair on; pairs beyond the list stand still.
    #[serde(default)]
    pub frequencies: Option<Vec<f64>>,
    /// Added to embeddings, `[positions][width]`.
    #[serde(default)]
    pub table: Option<Vec<Vec<f64>>>,
}

/// The largest file that is read.
const LONGEST: usize = 16 << 20;
/// The largest number of a file.
const LARGEST: f64 = 1e6;

impl Given {
    /// Reads a file.
    ///
    /// ```
    /// use roformer::encoding::Given;
    /// let given = Given::read(br#"{"name": "steps", "bias": [[0, -1, -2], [0, -0.1, -0.2]]}"#)?;
    /// assert_eq!(given.name, "steps");
    /// assert!(Given::read(br#"{"name": "steps"}"#).is_err());
    /// # Ok::<(), roformer::Error>(())
    /// ```
    pub fn read(bytes: &[u8]) -> Result<Given> {
        let wrong = |value: String, expected: &str| Err(Error::input("the encoding's file", value, expected));
        let form = "JSON with a name and some of bias [heads][distances], frequencies [pairs], table [positions][width]";
        if bytes.len() > LONGEST {
            return wrong(format!("{} bytes long", bytes.len()), "at most 16 MiB");
        }
        let given: Given = match serde_json::from_slice(bytes) {
            Ok(given) => given,
            Err(error) => return wrong(crate::weights::brief(&error.to_string()), form),
        };
        let is_sign = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if given.name.is_empty() || given.name.len() > 32 || !given.name.chars().all(is_sign) {
            let value = format!("named `{}`", crate::weights::brief(&given.name));
            return wrong(value, "a name of at most 32 small letters, digits and hyphens");
        }
        let lists = [&given.bias, &given.table].into_iter().flatten().flatten().chain(&given.frequencies);
        if let Some(number) = lists.flatten().find(|number| number.abs() > LARGEST) {
            return wrong(format!("with the number {number}"), "numbers from -1000000 to 1000000");
        }
        for (name, rows) in [("bias", &given.bias), ("table", &given.table)] {
            let Some(rows) = rows else { continue };
            if rows.is_empty() || rows.iter().any(|row| row.is_empty() || row.len() != rows[0].len()) {
                return wrong(
                    format!("with a {name} of uneven or empty rows"),
                    "rows of one length, at least 1",
                );
            }
        }
        if given.frequencies.as_ref().is_some_and(Vec::is_empty) {
            return wrong("with frequencies of no pair".into(), "at least one frequency");
        }
        if given.bias.is_none() && given.frequencies.is_none() && given.table.is_none() {
            return wrong("without numbers".into(), form);
        }
        Ok(given)
    }

    /// The rotation of heads of so many features.
    fn rope(&self, head_dim: usize) -> Result<Option<Rope>> {
        let Some(own) = &self.frequencies else { return Ok(None) };
        let pairs = head_dim / 2;
        if own.len() > pairs {
            let expected = format!("at most {pairs}: heads have {head_dim} features");
            return Err(Error::input("the number of frequencies", own.len(), expected));
        }
        let theta = own.iter().copied().chain(std::iter::repeat(0.0)).take(pairs).collect();
        let builder = Rope::builder(head_dim).pairing(Pairing::Interleaved);
        Ok(Some(builder.schedule(Schedule::Given(theta)).build()?))
    }
}

impl<T: Real> Encode<T> for Given {
    fn check(&self, sizes: &Sizes) -> Result<()> {
        let heads = self.bias.as_ref().map_or(1, Vec::len);
        if heads != 1 && heads != sizes.heads {
            let expected = format!("1, for all heads, or {}", sizes.heads);
            return Err(Error::input("the heads of the bias", heads, expected));
        }
        if let Some(table) = &self.table
            && (table.len() < sizes.longest || table[0].len() != sizes.codes)
        {
            let value = format!("[{}][{}]", table.len(), table[0].len());
            let expected = format!(
                "[{} or more][{}]: positions of the longest text, and the width",
                sizes.longest, sizes.codes
            );
            return Err(Error::input("the shape of the table", value, expected));
        }
        self.rope(sizes.head_dim).map(drop)
    }

    fn codes(&self, builder: &mut Builder<T>, sizes: &Sizes) -> Option<(Value, Merge)> {
        let rows = self.table.as_ref()?;
        let numbers: Vec<f64> = rows[..sizes.longest].iter().flatten().copied().collect();
        let table = builder.constant(sizes.longest, sizes.codes, &numbers);
        let rows =
            builder.position_rows(table, sizes.length, |position| [(position, 1.0), (0, 0.0), (0, 0.0)]);
        Some((rows, Merge::Add))
    }

    fn terms(&self, builder: &mut Builder<T>, _layer: usize, sizes: &Sizes) -> Terms {
        let bias = self.bias.as_ref().map(|rows| {
            let (heads, count) = (sizes.heads, rows[0].len());
            let numbers: Vec<f64> = (0..heads).flat_map(|head| &rows[head % rows.len()]).copied().collect();
            let table = builder.constant(heads, count, &numbers);
            let last = count as u64 - 1;
            let index = by_distance(sizes.length, |distance| distance.unsigned_abs().min(last) as u32);
            TableTerm { table, index }
        });
        let rotation = self.rope(sizes.head_dim).ok().flatten().map(Rotation::fixed);
        Terms { bias, rotation, ..Terms::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_what_it_is() {
        let many = format!(r#"{{"name": "a", "bias": [[{}]]}}"#, "1,".repeat(9 << 20));
        for (file, says) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{}", "name"),
            (r#"{"name": "a"}"#, "without numbers"),
            (r#"{"name": "a", "bias": [[1]], "slope": 2}"#, "slope"),
            (r#"{"name": "", "bias": [[1]]}"#, "named ``"),
            (r#"{"name": "A b", "bias": [[1]]}"#, "named `A b`"),
            (r#"{"name": "a", "bias": []}"#, "uneven or empty"),
            (r#"{"name": "a", "bias": [[]]}"#, "uneven or empty"),
            (r#"{"name": "a", "bias": [[1, 2], [1]]}"#, "uneven or empty"),
            (r#"{"name": "a", "bias": [[1e9]]}"#, "1000000000"),
            (r#"{"name": "a", "bias": [["1"]]}"#, "string"),
            (r#"{"name": "a", "bias": [[1e999]]}"#, "out of range"),
            (r#"{"name": "a", "frequencies": []}"#, "no pair"),
            (r#"{"name": "a", "table": [[1], []]}"#, "uneven or empty"),
            (&many, "bytes long"),
        ] {
            let error = Given::read(file.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
