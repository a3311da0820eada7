//! `roformer forward`: runs a model on token ids and prints what comes out.

use crate::device::{DeviceOptions, on_device};
use crate::error::{Failure, Outcome};
use crate::model::ModelOptions;
use clap::Args;
use roformer::blueprint::Blueprint;
use roformer::model::{Encoded, HeadKind, Input, Logits, Model, Output};
use roformer::ops::Backend;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::str::FromStr;

/// Run a model on token ids
///
/// The model has a config.json and weights, as transformers saves them: a RoFormer, or a decoder of the Llama form (Llama,
/// Mistral, Qwen2, Qwen3, MiniMind). Several texts of the same length are
/// run as one batch; pad the shorter ones and say so with --mask. For a multiple-choice model each --ids is one choice.
/// A model with an encoder and a decoder (T5) reads --ids and continues --decoder-ids.
///
/// With --json: {"last_hidden_state": [text][token][feature], "logits": ...}. Logits are [text][token][score] for language
/// models, token classifiers and question answering (start, end), [text][label] for classifiers of texts and [1][choice]
/// for multiple choice; a model without a head has none. With a decoder both are of its tokens, and
/// "encoder_last_hidden_state" is what it attends to. Numbers are the shortest that read back as the same f32; null
/// stands for one that is infinite or not a number.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  roformer forward --model junnyu/roformer_chinese_base --ids 101,4567,103,102\n  \
    roformer forward --model DIR --ids 5,6,7 --ids 8,9,0 --mask 1,1,1 --mask 1,1,0 --json"
)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    device: DeviceOptions,
    /// The token ids of a text, separated by commas (may be repeated: one text each)
    #[arg(long, required = true, value_name = "LIST", allow_hyphen_values = true)]
    ids: Vec<String>,
    /// The segment of each token, once for each --ids [default: all 0]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    token_types: Vec<String>,
    /// 1 for each real token and 0 for each padded one, once for each --ids [default: all 1]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    mask: Vec<String>,
    /// The token ids that the decoder of a model with an encoder has written, once for each --ids [default: the token it begins
    /// with]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    decoder_ids: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: Arguments) -> Outcome {
    let texts = lists::<u32>("--ids", &arguments.ids, "token ids")?;
    let (batch, length) = (texts.len(), texts.first().map_or(0, Vec::len));
    if let Some(other) = texts.iter().find(|text| text.len() != length) {
        return Err(Failure::Input(format!(
            "--ids has texts of {length} and {} tokens; expected as many in each: pad the shorter, and say so with --mask",
            other.len()
        )));
    }
    let ids = texts.concat();
    let written = lists::<u32>("--decoder-ids", &arguments.decoder_ids, "token ids")?;
    let written = written_texts(written, batch)?;
    let token_types =
        beside("--token-types", lists::<u32>("--token-types", &arguments.token_types, "segments")?, &texts)?;
    let mask = beside("--mask", lists::<u8>("--mask", &arguments.mask, "0 and 1")?, &texts)?;
    if let Some(other) = mask.iter().flatten().find(|&&flag| flag > 1) {
        return Err(Failure::Input(format!(
            "--mask has `{other}`; expected 1 for a real token and 0 for padding"
        )));
    }
    let mask: Option<Vec<bool>> = mask.map(|mask| mask.iter().map(|&flag| flag == 1).collect());

    let input = Input { ids: &ids, batch, token_types: token_types.as_deref(), mask: mask.as_deref() };
    let (folder, change) = (arguments.model.folder()?, arguments.model.change());
    let Ran { mut output, read, written, head, width } =
        on_device!(arguments.device.find()?, |device| forward((device, &folder), change, &input, written)?);
    if let (HeadKind::MultipleChoice, Some(logits)) = (head, &mut output.logits) {
        // The texts are the choices of one question.
        logits.shape.insert(0, 1);
    }
    let shape = [batch, written.as_ref().map_or(length, |written| written.len() / batch), width];
    let mut out = BufWriter::new(std::io::stdout().lock());
    if arguments.json {
        let read = read.as_deref().map(|read| (read, [batch, length, width]));
        as_json(&mut out, &output, &shape, read)?;
    } else {
        page(&mut out, &output, &shape, written.as_ref().unwrap_or(&ids), head)?;
    }
    Ok(out.flush()?)
}

/// What a model gave.
struct Ran {
    output: Output<f32>,
    /// What the encoder gave, `[batch, length, width]`, where there is one.
    read: Option<Vec<f32>>,
    /// The ids that its decoder continues.
    written: Option<Vec<u32>>,
    head: HeadKind,
    /// The width of hidden states.
    width: usize,
}

/// Loads a model on a device and runs it.
fn forward<B: Backend>(
    (device, folder): (B, &Path),
    change: impl FnOnce(Blueprint) -> roformer::Result<Blueprint>,
    input: &Input,
    written: Option<Vec<u32>>,
) -> Result<Ran, Failure> {
    let model = Model::load_changed(device, folder, change)?;
    let (head, width) = (model.head(), model.blueprint().width);
    if model.blueprint().encoder.is_none() {
        return match written {
            None => Ok(Ran { output: model.forward(input)?, read: None, written, head, width }),
            Some(_) => Err(Failure::Input(
                "--decoder-ids is given, and the model has no encoder with a decoder; expected --ids alone"
                    .into(),
            )),
        };
    }
    let ids = written.unwrap_or_else(|| vec![model.blueprint().start; input.batch]);
    let read = model.encode(input)?.last_hidden_state;
    let begun = Input { ids: &ids, batch: input.batch, token_types: None, mask: None };
    let output = model.forward_with(&begun, Encoded { hidden: &read, mask: input.mask })?;
    Ok(Ran { output, read: Some(read), written: Some(ids), head, width })
}

/// The ids that a decoder continues, row by row, if any were given: as many for each text.
fn written_texts(texts: Vec<Vec<u32>>, batch: usize) -> Result<Option<Vec<u32>>, Failure> {
    let Some(first) = texts.first() else { return Ok(None) };
    if texts.len() != batch {
        return Err(Failure::Input(format!(
            "--decoder-ids is given {} times; expected once for each of the {batch} --ids",
            texts.len()
        )));
    }
    match texts.iter().find(|text| text.len() != first.len()) {
        Some(other) => Err(Failure::Input(format!(
            "--decoder-ids has texts of {} and {} tokens; expected as many in each",
            first.len(),
            other.len()
        ))),
        None => Ok(Some(texts.concat())),
    }
}

/// Numbers separated by commas, one list for each time that the flag was given.
fn lists<T: FromStr>(flag: &str, given: &[String], what: &str) -> Result<Vec<Vec<T>>, Failure> {
    let number = |text: &str| {
        let bad =
            || Failure::Input(format!("{flag} has `{}`; expected {what} separated by commas", text.trim()));
        text.trim().parse().map_err(|_| bad())
    };
    given.iter().map(|list| list.split(',').map(number).collect()).collect()
}

/// What was given beside the ids, row by row, if anything was.
fn beside<T: Copy>(flag: &str, given: Vec<Vec<T>>, texts: &[Vec<u32>]) -> Result<Option<Vec<T>>, Failure> {
    if given.is_empty() {
        return Ok(None);
    }
    if given.len() != texts.len() {
        return Err(Failure::Input(format!(
            "{flag} is given {} times; expected once for each of the {} --ids",
            given.len(),
            texts.len()
        )));
    }
    match given.iter().zip(texts).find(|(given, text)| given.len() != text.len()) {
        Some((given, text)) => Err(Failure::Input(format!(
            "{flag} has {} numbers; expected one for each of the {} tokens",
            given.len(),
            text.len()
        ))),
        None => Ok(Some(given.concat())),
    }
}

/// The stable interface.
fn as_json(
    out: &mut impl Write,
    output: &Output<f32>,
    shape: &[usize],
    read: Option<(&[f32], [usize; 3])>,
) -> std::io::Result<()> {
    write!(out, "{{\"last_hidden_state\":")?;
    nested(out, &output.last_hidden_state, shape)?;
    if let Some(logits) = &output.logits {
        write!(out, ",\"logits\":")?;
        nested(out, &logits.scores, &logits.shape)?;
    }
    if let Some((read, shape)) = read {
        write!(out, ",\"encoder_last_hidden_state\":")?;
        nested(out, read, &shape)?;
    }
    writeln!(out, "}}")
}

/// Numbers as nested lists. The innermost are written as f32: as f64 they would have twice the digits.
fn nested(out: &mut impl Write, numbers: &[f32], shape: &[usize]) -> std::io::Result<()> {
    let [outer, inner @ ..] = shape else { return Ok(()) };
    if inner.is_empty() {
        return Ok(serde_json::to_writer(out, numbers)?);
    }
    write!(out, "[")?;
    for (index, row) in numbers.chunks((numbers.len() / outer).max(1)).enumerate() {
        write!(out, "{}", if index > 0 { "," } else { "" })?;
        nested(out, row, inner)?;
    }
    write!(out, "]")
}

/// How many numbers, or tokens, of a row are shown.
const SHOWN: usize = 5;

/// A summary for people.
fn page(
    out: &mut impl Write,
    output: &Output<f32>,
    shape: &[usize; 3],
    ids: &[u32],
    head: HeadKind,
) -> std::io::Result<()> {
    writeln!(out, "last_hidden_state  {shape:?}  {}", some(&output.last_hidden_state))?;
    let Some(Logits { scores, shape: logits }) = &output.logits else { return Ok(()) };
    let language = matches!(head, HeadKind::MaskedLm | HeadKind::CausalLm);
    let about = if language {
        format!("  the {SHOWN} best ids at each token, with their scores")
    } else {
        String::new()
    };
    writeln!(out, "logits             {logits:?}{about}")?;
    let width = logits.last().copied().unwrap_or(1).max(1);
    for (index, row) in scores.chunks(width).enumerate() {
        let row = if language { best(row) } else { some(row) };
        match logits.len() {
            3 => {
                let (text, token) = (index / shape[1] + 1, index % shape[1]);
                writeln!(out, "text {text}, token {token:>4} (id {:>5})  {row}", ids[index])?;
            }
            _ if head == HeadKind::MultipleChoice => writeln!(out, "choices  {row}")?,
            _ => writeln!(out, "text {}  {row}", index + 1)?,
        }
    }
    Ok(())
}

/// The first numbers of a row.
fn some(row: &[f32]) -> String {
    let first: Vec<String> = row.iter().take(SHOWN).map(|x| format!("{x:.4}")).collect();
    format!("{}{}", first.join("  "), if row.len() > SHOWN { "  …" } else { "" })
}

/// The ids of the highest scores.
fn best(row: &[f32]) -> String {
    let mut order: Vec<usize> = (0..row.len()).collect();
    let falling = |a: &usize, b: &usize| row[*b].total_cmp(&row[*a]);
    if order.len() > SHOWN {
        order.select_nth_unstable_by(SHOWN, falling);
        order.truncate(SHOWN);
    }
    order.sort_by(falling);
    order.iter().map(|&id| format!("{id} ({:.3})", row[id])).collect::<Vec<_>>().join("  ")
}
