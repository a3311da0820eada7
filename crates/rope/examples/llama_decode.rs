//! Decoding with a KV cache: keys are rotated once, where they are written, and never again.
//!
//! Reads a Llama 3.1 config.json, rotates a prompt in one call and then one token at a time at the position where the
//! cache ends. The cache holds the same bits as if the whole sequence had been rotated at once.
//!
//! `cargo run --release -p rope --example llama_decode`

use rope::{Positions, Rope, Turn, View, ViewMut};

/// What rotary embedding needs of a Llama 3.1 8B config.json; all other fields are passed over.
const CONFIG: &str = r#"{
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    }
}"#;

const QUERY_HEADS: usize = 32;
const KEY_HEADS: usize = 8;
const PROMPT: usize = 100;
const CONTEXT: usize = 160;

/// Stands for the output of a projection.
fn projection(elements: usize, seed: f32) -> Vec<f32> {
    (0..elements).map(|i| (seed + i as f32 * 0.731).sin()).collect()
}

fn main() -> rope::Result<()> {
    let set = Rope::from_hf(CONFIG.as_bytes())?;
    let rope = set.only()?;
    let dim = rope.head_dim();
    // Once for the life of the model.
    let table = rope.table::<f32>(0..CONTEXT as i64, None)?;
    println!("{table}");

    let queries = projection(CONTEXT * QUERY_HEADS * dim, 0.1);
    let keys = projection(CONTEXT * KEY_HEADS * dim, 0.2);
    let (query_row, key_row) = (QUERY_HEADS * dim, KEY_HEADS * dim);

    // Prefill: queries in place, keys from the projection straight into the cache.
    let mut rotated = queries.clone();
    let mut cache = vec![0.0; CONTEXT * key_row];
    let shape = |tokens, heads| [1, tokens, heads, dim];
    let rows = table.at(Positions::From(0))?;
    let mut q = ViewMut::blhd(&mut rotated[..PROMPT * query_row], shape(PROMPT, QUERY_HEADS))?;
    rows.rotate(Turn::Forward, &mut q)?;
    let source = View::blhd(&keys[..PROMPT * key_row], shape(PROMPT, KEY_HEADS))?;
    let mut target = ViewMut::blhd(&mut cache[..PROMPT * key_row], shape(PROMPT, KEY_HEADS))?;
    rows.rotate_to(Turn::Forward, &source, &mut target)?;
    println!("prefill: {PROMPT} tokens, {} KiB of keys in the cache", PROMPT * key_row * 4 / 1024);

    // Decode: one token at the position that the cache has reached.
    for cached in PROMPT..CONTEXT {
        let rows = table.at(Positions::From(cached as i64))?;
        let mut q = ViewMut::blhd(&mut rotated[cached * query_row..][..query_row], shape(1, QUERY_HEADS))?;
        rows.rotate(Turn::Forward, &mut q)?;
        let source = View::blhd(&keys[cached * key_row..][..key_row], shape(1, KEY_HEADS))?;
        let mut target = ViewMut::blhd(&mut cache[cached * key_row..][..key_row], shape(1, KEY_HEADS))?;
        rows.rotate_to(Turn::Forward, &source, &mut target)?;
    }
    println!("decode:  {} tokens, one at a time", CONTEXT - PROMPT);

    // The same sequence in one call.
    let (mut all_queries, mut all_keys) = (queries, keys);
    let mut q = ViewMut::blhd(&mut all_queries, shape(CONTEXT, QUERY_HEADS))?;
    let mut k = ViewMut::blhd(&mut all_keys, shape(CONTEXT, KEY_HEADS))?;
    table.at(Positions::From(0))?.rotate_pair(Turn::Forward, &mut q, &mut k)?;
    let bits = |list: &[f32]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&rotated), bits(&all_queries));
    assert_eq!(bits(&cache), bits(&all_keys));
    println!("queries and cached keys have the bits of the whole sequence rotated at once");
    Ok(())
}
