//! What a trained model can do: exact answers by length, in one pass; and the rest in files of their own.

mod attention;
mod context;
mod learned;
mod swap;

pub use attention::by_distance;
pub use context::by_context;
pub use learned::learned;
pub use swap::{RULES, Swapped, swapped, swaps};

use super::results::Accuracy;
use super::run::{HOPELESS, Settings, Trained, join, name_key, positions};
use super::tasks::{Draws, Example, Part, Task};
use roformer::Result;
use roformer::encoding::Encoding;
use roformer::graph::{Batch, IGNORE};
use roformer::network::Network;
use roformer::ops::linear;

/// Texts that are tested at a time.
const ROWS: usize = 64;

/// Makes the chance of tests another than that of training.
const TEST: u64 = 0x7465_7374;

/// What the model gets right at one length, in one pass over each text and its whole right answer: an answer is exact where
/// every token of it is the most likely one after the right ones before it, which is when greedy decoding gives it too. Of examples that depend on task, seed and length alone. `network` is the
/// model's own, or one with another rule for positions.
pub fn accuracy(
    trained: &Trained,
    network: &Network,
    settings: &Settings,
    task: &dyn Task,
    length: usize,
) -> Result<Accuracy> {
    let (tokens, longest) = (task.tokens(length), settings.longest(task));
    let rows = ROWS.min(settings.examples);
    let mut laid = trained.lay_out(network, rows, tokens, longest)?;
    let (mut exact, mut right, mut scored, mut loss) = (0.0, 0.0, 0.0, 0.0);
    let mut tested = 0;
    while tested < settings.examples {
        let example = |row: usize| test_example(settings, task, length, (tested + row) as u64);
        let examples: Vec<Example> = (0..rows).map(example).collect();
        let mut batch = join(&examples, tokens);
        // Rows beyond the last example count for nothing.
        let counted = rows.min(settings.examples - tested);
        batch.targets[counted * tokens..].fill(IGNORE);
        let targets = batch.targets.clone();
        let encoding = &network.blueprint.encoding;
        let positions = test_positions(encoding, settings, task, length, tested as u64);
        laid.set(Batch { positions, ..batch })?;
        let mean = laid.graph.forward();
        let said = answers(trained, laid.graph.value(laid.hidden));
        let mut places = 0.0;
        for (said, targets) in said.chunks(tokens).zip(targets.chunks(tokens)).take(counted) {
            let is_scored = targets.iter().map(|&target| target != IGNORE);
            let pairs = said.iter().zip(targets).zip(is_scored).filter(|(_, is_scored)| *is_scored);
            let (all, good) = pairs.fold((0.0, 0.0), |(all, good), ((said, target), _)| {
                (all + 1.0, good + f64::from(u8::from(said == target)))
            });
            places += all;
            right += good;
            exact += f64::from(u8::from(good == all));
        }
        scored += places;
        loss += mean * places;
        tested += counted;
    }
    Ok(Accuracy {
        length,
        exact: exact / tested as f64,
        token: right / scored,
        loss: (loss / scored).min(HOPELESS),
    })
}

/// The example of this number that a run is tested with at this length.
pub fn test_example(settings: &Settings, task: &dyn Task, length: usize, row: u64) -> Example {
    let mut draws = Draws::new(&[name_key(task), settings.seed, TEST, length as u64, row]);
    task.example(length, Part::Test, &mut draws)
}

/// Where the tokens of tested texts of this length stand; none for 0, 1, 2 and so on.
fn test_positions(
    encoding: &Encoding,
    settings: &Settings,
    task: &dyn Task,
    length: usize,
    number: u64,
) -> Vec<u32> {
    let tokens = task.tokens(length);
    positions(encoding, task, length, tokens)
        .or_else(|| encoding.positions_of_tests(tokens, settings.seed ^ TEST, number))
        .unwrap_or_default()
}

/// The token that the model finds most likely after each place: `hidden` `[rows, width]` → `[rows]`.
pub fn answers(trained: &Trained, hidden: &[f32]) -> Vec<u32> {
    let (width, vocabulary) = (trained.network.blueprint.width, trained.network.blueprint.vocabulary);
    let find = |name: &str| trained.layout.find(name).map(|parameter| &trained.parameters[parameter.range()]);
    let rows = hidden.len() / width;
    let mut scores = vec![0.0; rows * vocabulary];
    let weight = find("out.weight").unwrap_or_default();
    linear::forward(hidden, weight, find("out.bias"), None, &mut scores, [rows, width, vocabulary]);
    let best = |scores: &[f32]| {
        let first = (0, f32::NEG_INFINITY);
        let best = (0..)
            .zip(scores)
            .fold(first, |best, (id, &score)| if score > best.1 { (id, score) } else { best });
        best.0
    };
    scores.chunks(vocabulary).map(best).collect()
}
