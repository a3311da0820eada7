//! Rows: one JSON object per line, or a table.

use crate::numbers::{LENGTH, Number};
use crate::peers::Peer;
use serde_json::{Value, json};

/// What the ratios are to: our rotation of the same type, pairing and order, measured in this process.
const OURS: &str = "roformer";

pub struct Row {
    peer: String,
    dtype: String,
    pairing: String,
    order: String,
    ms: f64,
    quartiles: [f64; 2],
    gb_s: f64,
    /// In roundings of the type; other programs do not measure it.
    error: Option<f64>,
}

impl Row {
    pub fn new<T: Number>(peer: &Peer<T>, mut seconds: Vec<f64>, error: f64, bytes: f64) -> Self {
        seconds.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| seconds[(part * (seconds.len() - 1) as f64).round() as usize];
        Row {
            peer: peer.name.into(),
            dtype: T::DTYPE.as_str().into(),
            pairing: peer.pairing.name().into(),
            order: peer.order.name().into(),
            ms: at(0.5) * 1e3,
            quartiles: [at(0.25) * 1e3, at(0.75) * 1e3],
            gb_s: bytes / at(0.5) / 1e9,
            error: Some(error),
        }
    }

    pub fn to_json(&self) -> Value {
        json!({
            "what": "rotate", "peer": self.peer, "dtype": self.dtype, "pairing": self.pairing, "order": self.order,
            "length": LENGTH, "ms": self.ms, "ms_quartiles": self.quartiles, "gb_s": self.gb_s, "error_u": self.error,
        })
    }

    /// A row that another program printed; `None` if it measured something that is not in the table.
    pub fn from_json(line: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(line).ok()?;
        let word = |field: &str| value[field].as_str();
        // `roformer bench rope` names no peer and counts in microseconds.
        let (scale, ms, quartiles) = match value["us"].is_number() {
            true => (1e-3, &value["us"], &value["us_quartiles"]),
            false => (1.0, &value["ms"], &value["ms_quartiles"]),
        };
        let row = Row {
            peer: word("peer").unwrap_or("roformer bench rope").into(),
            dtype: word("dtype")?.into(),
            pairing: word("pairing")?.into(),
            order: word("order")?.into(),
            ms: ms.as_f64()? * scale,
            quartiles: [quartiles[0].as_f64()? * scale, quartiles[1].as_f64()? * scale],
            gb_s: value["gb_s"].as_f64()?,
            error: None,
        };
        let here = value["length"] == LENGTH && ["f32", "bf16"].contains(&row.dtype.as_str());
        (word("what") == Some("rotate") && here).then_some(row)
    }
}

/// A Markdown table, aligned to be read as it is: types and pairings together, the fastest first.
pub fn render(rows: &mut [Row]) -> String {
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.dtype != "f32", row.pairing.clone(), row.order.clone());
        key(a).cmp(&key(b)).then(a.ms.total_cmp(&b.ms))
    });
    let head = ["peer", "type", "pairing", "order", "ms", "quartiles", "GB/s", "time / ours", "error / u"];
    let mut cells = vec![head.map(String::from)];
    for row in &*rows {
        let same = |other: &&Row| {
            other.peer == OURS
                && (&other.dtype, &other.pairing, &other.order) == (&row.dtype, &row.pairing, &row.order)
        };
        let ratio = rows.iter().find(same).map(|ours| format!("{:.2}", row.ms / ours.ms));
        cells.push([
            row.peer.clone(),
            row.dtype.clone(),
            row.pairing.clone(),
            row.order.clone(),
            format!("{:.2}", row.ms),
            format!("{:.2} – {:.2}", row.quartiles[0], row.quartiles[1]),
            format!("{:.1}", row.gb_s),
            ratio.unwrap_or_default(),
            row.error.map(|error| format!("{error:.1}")).unwrap_or_default(),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    // Words to the left, numbers to the right.
    let left = 4;
    let line = |row: &[String; 9]| {
        let pad = |(column, cell): (usize, &String)| match column < left {
            true => format!(" {cell:<0$} |", widths[column]),
            false => format!(" {cell:>0$} |", widths[column]),
        };
        format!("|{}\n", row.iter().enumerate().map(pad).collect::<String>())
    };
    let rule = |column: usize| match column < left {
        true => format!("{}|", "-".repeat(widths[column] + 2)),
        false => format!("{}:|", "-".repeat(widths[column] + 1)),
    };
    let rule = format!("|{}\n", (0..head.len()).map(rule).collect::<String>());
    line(&cells[0]) + &rule + &cells[1..].iter().map(line).collect::<String>()
}
