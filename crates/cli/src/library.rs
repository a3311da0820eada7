//! What others than the commands use of them: how a configuration is found, and a device; and the commands that give more than
//! text, with their flags, but without what they print. Errors are one line, in which settings go by their names and not as flags.

use crate::compare::{self, Grid, Made};
use crate::device::{Choice, DeviceOptions, Dtype};
use crate::error::{Failure, one_line};
use crate::{input, model, train};
use clap::{Args, Parser, ValueEnum};
use lab::Progress;
use lab::results::Results;
use roformer::Device;
use roformer::train::{End, Event, Run};
use std::ops::ControlFlow;
use std::path::Path;

pub use crate::tasks::Characters;

/// The bytes of the `config.json` that is named by its path, by its folder, or by its model's name on the hub.
pub fn config(path: &Path) -> Result<Vec<u8>, String> {
    model::find_config(path).and_then(|path| input::config(&path)).map_err(said)
}

/// The device of these names, as `--device` and `--dtype` take them; one to train on has its kernels loaded.
pub fn device(device: &str, dtype: &str, is_to_train: bool) -> Result<Device, String> {
    let choice: Choice = device.parse().map_err(|expected| format!("device is {device:?}; {expected}"))?;
    let dtype = Dtype::from_str(dtype, false)
        .map_err(|_| format!("dtype is {dtype:?}; expected f32, bf16, int8, tf32 or auto"))?;
    let options = DeviceOptions::new(choice, dtype);
    if is_to_train { options.find_to_train() } else { options.find() }.map_err(said)
}

/// What the flags of a command say.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags<A: Args> {
    #[command(flatten)]
    arguments: A,
}

fn parse<A: Args>(flags: &[String]) -> Result<A, String> {
    let parsed =
        Flags::try_parse_from(flags).map_err(|error| said(Failure::Input(crate::complaint(&error))))?;
    Ok(parsed.arguments)
}

/// Does what `roformer train` does with these flags. `on` sees what happens, and may break: then the run has been saved.
pub fn train(
    flags: &[String],
    on: impl FnMut(Event) -> ControlFlow<()> + Send,
) -> Result<(Run, End), String> {
    let arguments: train::Arguments = parse(flags)?;
    let train = || {
        let (_, mut run) = train::begin(&arguments, |_| {})?;
        let end = train::go(&arguments, &mut run, on)?;
        Ok((run, end))
    };
    train::pool(&arguments, 1).and_then(|pool| pool.install(train)).map_err(said)
}

/// Does what `roformer compare` does with these flags. `on` is told after every step and says whether to go on; `None` where it
/// did not, or where it made a part alone.
pub fn compare(flags: &[String], on: &(dyn Fn(Progress) -> bool + Sync)) -> Result<Option<Results>, String> {
    let arguments: compare::Arguments = parse(flags)?;
    match Grid::new(arguments).and_then(|grid| grid.compare(on)).map_err(said)? {
        Made::Whole(results) => Ok(Some(*results)),
        Made::Stopped | Made::Shard(..) => Ok(None),
    }
}

fn said(failure: Failure) -> String {
    match failure {
        Failure::Input(message) | Failure::Other(message) => unflagged(&one_line(&message)),
        Failure::Closed => "standard output is closed".into(),
    }
}

/// A message with `eval_data` in place of `--eval-data`.
fn unflagged(message: &str) -> String {
    let mut parts = message.split("--");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        out += &name.replace('-', "_");
        out += rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_go_by_their_names() {
        assert_eq!(
            unflagged("--eval-data is x-y; or --lr, '--min-lr <X>'"),
            "eval_data is x-y; or lr, 'min_lr <X>'"
        );
        assert_eq!(unflagged("a - b"), "a - b");
        let error =
            train(&["--out=x".into(), "--lr=fast".into(), "--data=y".into()], |_| ControlFlow::Continue(()));
        let error = error.err().unwrap();
        assert!(error.contains("lr") && !error.contains("--") && !error.contains("help"), "{error}");
    }
}
