//! Our rotation beside candle's and burn's, on the same numbers, in one process.
//!
//!     rope-peers [--json] [--threads N] [--lines FILE]…
//!
//! `--lines` puts rows that other programs printed with the same fields into the table.

mod check;
mod no_copy;
mod numbers;
mod peers;
mod table;

use candle_core::{Error, Result};
use numbers::{KEY_HEADS, LENGTH, Llama, Number, QUERY_HEADS};
use peers::{Burn, Candle, Order, Ours, Peer};
use rope::{Pairing, bf16};
use std::time::Instant;
use table::Row;

/// Rounds of which the median counts, and those before them that warm up caches, pages and threads.
const ROUNDS: usize = 11;
const WARM_UP: usize = 2;

struct Arguments {
    json: bool,
    /// 0: as many as there are cores.
    threads: usize,
    lines: Vec<String>,
}

/// `None` if they make no sense.
fn arguments() -> Option<Arguments> {
    let mut arguments = Arguments { json: false, threads: 0, lines: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => arguments.json = true,
            "--threads" => arguments.threads = words.next()?.parse().ok()?,
            "--lines" => arguments.lines.push(words.next()?),
            _ => return None,
        }
    }
    Some(arguments)
}

fn main() -> Result<()> {
    let Some(arguments) = arguments() else {
        eprintln!("usage: rope-peers [--json] [--threads N] [--lines FILE]…");
        std::process::exit(2);
    };
    // The global pool: ours, candle and burn all take it.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(arguments.threads).build_global();
    pool.map_err(Error::wrap)?;

    no_copy::candle_tensor()?;
    no_copy::transposed_buffer()?;
    let mut rows = measure::<f32>(single(&Llama::new())?)?;
    rows.extend(measure::<bf16>(both(&Llama::new())?)?);

    if arguments.json {
        rows.iter().for_each(|row| println!("{}", row.to_json()));
        no_copy::CHECKED
            .iter()
            .for_each(|what| println!("{}", serde_json::json!({"what": "no copy", "checked": what})));
        return Ok(());
    }
    for file in &arguments.lines {
        let text = std::fs::read_to_string(file).map_err(|error| Error::msg(format!("{file}: {error}")))?;
        rows.extend(text.lines().filter_map(Row::from_json));
    }
    let threads = rayon::current_num_threads();
    println!(
        "q [1, {QUERY_HEADS}, {LENGTH}, 128] and k [1, {KEY_HEADS}, {LENGTH}, 128], {threads} threads; \
         medians of {ROUNDS} alternating rounds\n"
    );
    print!("{}", table::render(&mut rows));
    println!("\nNo copy, checked in this run:\n");
    no_copy::CHECKED.iter().for_each(|what| println!("- {what}"));
    Ok(())
}

/// The peers that rotate 16-bit numbers too.
fn both<T: Number>(data: &Llama<T>) -> Result<Vec<Peer<T>>> {
    let mut peers: Vec<Peer<T>> = Vec::new();
    for pairing in [Pairing::Half, Pairing::Interleaved] {
        for order in [Order::Bhld, Order::Blhd] {
            peers.push(Peer::new("roformer", pairing, order, Ours::new(data, pairing, order)?));
        }
    }
    let (half, interleaved) = (Pairing::Half, Pairing::Interleaved);
    let candle = |function, order| Candle::new(data, function, order);
    use candle_nn::rotary_emb::{rope, rope_i, rope_thd};
    peers.push(Peer::new("candle rope", half, Order::Bhld, candle(rope, Order::Bhld)?));
    peers.push(Peer::new("candle rope_thd", half, Order::Blhd, candle(rope_thd, Order::Blhd)?));
    peers.push(Peer::new("candle rope_i", interleaved, Order::Bhld, candle(rope_i, Order::Bhld)?));
    Ok(peers)
}

fn single(data: &Llama<f32>) -> Result<Vec<Peer<f32>>> {
    let mut peers = both(data)?;
    peers.push(Peer::new("burn (Flex)", Pairing::Interleaved, Order::Bhld, Burn::new(data)));
    Ok(peers)
}

/// Checks every peer's numbers, then times them all, round by round.
fn measure<T: Number>(mut peers: Vec<Peer<T>>) -> Result<Vec<Row>> {
    let data = Llama::<T>::new();
    let mut errors = Vec::new();
    for peer in &mut peers {
        peer.job.rotate()?;
        errors.push(check::largest_error(peer, &data)?);
    }
    let mut times = vec![Vec::new(); peers.len()];
    for round in 0..WARM_UP + ROUNDS {
        for (peer, times) in peers.iter_mut().zip(&mut times) {
            let start = Instant::now();
            peer.job.rotate()?;
            if round >= WARM_UP {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    let rows = peers.iter().zip(times).zip(errors);
    Ok(rows.map(|((peer, times), error)| Row::new(peer, times, error, data.bytes())).collect())
}
