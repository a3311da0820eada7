//! Loads a RoFormer as transformers saves it and runs it: hidden states, and for a masked language model the best token at
//! each position.
//!
//! ```sh
//! cargo run --release -p roformer --example forward -- golden/roformer/tiny-safetensors 5 17 3
//! ```

use ::roformer::model::{Input, Model};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: forward FOLDER ID…")?;
    let ids = arguments.map(|id| id.parse()).collect::<Result<Vec<u32>, _>>()?;

    let start = std::time::Instant::now();
    let model = Model::load(folder)?;
    println!("loaded in {:.3} s", start.elapsed().as_secs_f64());
    let output = model.forward(&Input { ids: &ids, batch: 1, token_types: None, mask: None })?;

    let hidden = model.blueprint().width;
    assert_eq!(output.last_hidden_state.len(), ids.len() * hidden);
    for (id, row) in ids.iter().zip(output.last_hidden_state.chunks_exact(hidden)) {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        println!("token {id}: a hidden state of {hidden} numbers, length {length:.4}");
    }
    if let Some(logits) = output.logits {
        let width = *logits.shape.last().unwrap_or(&1);
        for (id, scores) in ids.iter().zip(logits.scores.chunks_exact(width)) {
            let best = (0..width).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
            println!("token {id}: the highest score is that of {best}, {:.4}", scores[best]);
        }
    }
    Ok(())
}
