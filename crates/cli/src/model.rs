//! The model that a command runs: named by the user, found in a folder or on the hub, loaded.

use crate::error::Failure;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use roformer::blueprint::Blueprint;
use roformer::graph::Far;
use roformer::ops::Backend;
use roformer::{Pipeline, hub};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Which model, and how it runs.
#[derive(Args)]
pub struct ModelOptions {
    /// The model: a folder, or a name on the hub such as junnyu/roformer_chinese_base
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// A branch, a tag or a commit of a model on the hub [default: main]
    #[arg(long, value_name = "REV")]
    revision: Option<String>,
    /// Read texts longer than those of training, in a causal model with rotary embedding: tokens N or more back are all as far as N
    /// (window=N, ReRoPE), or are counted in groups of G (window=N,group=G, Self-Extend)
    #[arg(long, value_name = "window=N[,group=G]", value_parser = far)]
    extend: Option<Far>,
    /// Threads to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// A model that reads texts, and how much of each.
#[derive(Args)]
pub struct Reader {
    #[command(flatten)]
    model: ModelOptions,
    /// Cut texts to N tokens, the model's own such as [CLS] included [default: what a folder of sentence-transformers says, else nothing is cut]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    truncate: Option<u32>,
    /// Run each text alone, so that on a GPU its numbers are the same to the bit whatever the others are; on the CPU they always are
    #[arg(long)]
    one_by_one: bool,
}

impl ModelOptions {
    /// The folder of the model, downloaded if need be.
    pub fn folder(&self) -> Result<PathBuf, Failure> {
        if let Some(threads) = self.threads {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
            pool.map_err(|error| Failure::Other(format!("no threads: {error}")))?;
        }
        find(&self.model, self.revision.as_deref())
    }

    /// The model with its tokenizer, on a device.
    pub fn open<B: Backend>(&self, device: B) -> Result<Pipeline<B>, Failure> {
        Ok(Pipeline::open_changed(device, self.folder()?, self.change())?)
    }

    /// What the model runs as, where that is not what its file says.
    pub fn change(&self) -> impl FnOnce(Blueprint) -> roformer::Result<Blueprint> + Send + use<> {
        let extend = self.extend;
        move |blueprint| match extend {
            Some(far) => blueprint.extended(far),
            None => Ok(blueprint),
        }
    }
}

/// What is far, as it is written: `window=1024,group=8`.
fn far(written: &str) -> Result<Far, String> {
    let parts: Vec<_> = written.split(',').map(|part| part.split_once('=')).collect();
    let number = |text: &str| text.parse::<usize>().ok();
    let read = match parts[..] {
        [Some(("window", window))] => number(window).map(|window| Far { window, group: None }),
        [Some(("window", window)), Some(("group", group))] => {
            number(window).zip(number(group)).map(|(window, group)| Far { window, group: Some(group) })
        }
        _ => None,
    };
    read.ok_or_else(|| {
        "expected a number of tokens, such as window=1024, and perhaps a second, such as window=1024,group=8"
            .into()
    })
}

impl Reader {
    /// As [`ModelOptions::folder`].
    pub fn folder(&self) -> Result<PathBuf, Failure> {
        self.model.folder()
    }

    /// The most tokens of a text, if any are cut.
    pub fn truncate(&self) -> Option<usize> {
        self.truncate.map(|tokens| tokens as usize)
    }

    /// The model with its tokenizer, on a device, set to cut texts where asked.
    pub fn open<B: Backend>(&self, device: B) -> Result<Pipeline<B>, Failure> {
        let pipeline = self.model.open(device)?;
        let pipeline = if self.one_by_one { pipeline.one_by_one() } else { pipeline };
        Ok(match self.truncate() {
            Some(tokens) => pipeline.max_tokens(tokens),
            None => pipeline,
        })
    }
}

/// The folder of a model that is named as a folder or as on the hub. Downloads are shown on stderr.
pub fn find(model: &str, revision: Option<&str>) -> Result<PathBuf, Failure> {
    if let (Some(revision), true) = (revision, Path::new(model).is_dir()) {
        return Err(Failure::Input(format!(
            "--revision is `{revision}`, but {model} is a folder; expected the name of a model on the hub, or no revision"
        )));
    }
    let downloads = Downloads::default();
    let show = |progress: hub::Progress<'_>| downloads.show(&progress);
    Ok(hub::find(model, &hub::Options { revision, progress: Some(&show), ..hub::Options::default() })?)
}

/// The `config.json` that is named by its path, by its folder, or by its model's name on the hub; `-` stays as it is.
pub fn find_config(path: &Path) -> Result<PathBuf, Failure> {
    // What looks like a file or a folder is one, there or not.
    let is_name = |name: &&str| *name != "-" && !name.ends_with(".json") && !name.starts_with(['.', '/']);
    match path.to_str().filter(is_name) {
        Some(name) if !path.exists() => {
            let downloads = Downloads::default();
            let show = |progress: hub::Progress<'_>| downloads.show(&progress);
            Ok(hub::find_config(name, &hub::Options { progress: Some(&show), ..hub::Options::default() })?)
        }
        _ => Ok(path.to_path_buf()),
    }
}

/// Files with fewer bytes are here before anyone wonders.
const LARGE: u64 = 10_000_000;

/// Shows the download of one file after the other: a bar on a terminal, elsewhere a line for each.
#[derive(Default)]
struct Downloads {
    /// The file that was last heard of, with its bar if it has one.
    current: Mutex<Option<(String, Option<ProgressBar>)>>,
}

impl Downloads {
    fn show(&self, progress: &hub::Progress<'_>) {
        // A lock that is lost costs a bar and no more.
        let Ok(mut current) = self.current.lock() else { return };
        if current.as_ref().is_none_or(|(file, _)| file != progress.file) {
            if let Some((_, Some(bar))) = current.take() {
                bar.finish_and_clear();
            }
            *current = Some((progress.file.to_string(), begin(progress)));
        }
        if let Some((_, Some(bar))) = &*current {
            bar.set_position(progress.done);
        }
    }
}

impl Drop for Downloads {
    fn drop(&mut self) {
        if let Ok(Some((_, Some(bar)))) = self.current.get_mut() {
            bar.finish_and_clear();
        }
    }
}

/// Says that a large file comes, and returns its bar if there is someone to see it.
fn begin(progress: &hub::Progress<'_>) -> Option<ProgressBar> {
    let total = progress.total.filter(|&total| total >= LARGE)?;
    let file = progress.file;
    if !std::io::stderr().is_terminal() {
        // Nobody to tell is no reason to stop.
        let _ = writeln!(std::io::stderr(), "roformer: downloading {file} ({} MB)", total / 1_000_000);
        return None;
    }
    let bar = ProgressBar::new(total).with_message(file.to_string());
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes}, {eta} left");
    Some(match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    })
}
