//! Configurations in, frequencies out, a JSON object per line: what another program needs to compare its reading with ours.
//!
//! A line is `{"config": {…}, "seq_len": 4096}`; `seq_len` may be null. The answer is `{"layers": […]}` or
//! `{"error": "…"}`. `golden/rope_sweep.py` asks it about random configurations.

use rope::{AnglePrecision, HfConfig, HfLayer, HfOptions};
use serde_json::{Value, json};
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        writeln!(out, "{}", answer(&line?))?;
    }
    out.flush()
}

fn answer(line: &str) -> Value {
    let asked: Value = match serde_json::from_str(line) {
        Ok(asked) => asked,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let length = asked["seq_len"].as_u64();
    // In f32, as most programs form them.
    let options = HfOptions { angle_precision: AnglePrecision::F32, ..HfOptions::default() };
    match HfConfig::read(asked["config"].to_string().as_bytes(), &options) {
        Ok(config) => {
            let layers: Vec<Value> = config.layers.iter().map(|layer| describe(layer, length)).collect();
            json!({ "layers": layers, "pairing": config.pairing.map(|pairing| pairing.name()), "warnings": config.warnings })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn describe(layer: &HfLayer, length: Option<u64>) -> Value {
    let Some(rope) = &layer.rope else {
        return json!({ "layer_type": layer.layer_type, "inv_freq": null });
    };
    let frequencies = rope.frequencies(length);
    json!({
        "layer_type": layer.layer_type,
        "rope_type": layer.rope_type,
        "head_dim": rope.head_dim(),
        "rotary_dim": rope.rotary_dim(),
        "attention_factor": frequencies.attention_factor(),
        "inv_freq": frequencies.inv_freq(),
    })
}
