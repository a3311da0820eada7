//! What a run shows: one live line on a terminal, else a line for every evaluation; and its result.

use crate::long::{say, time};
use indicatif::{ProgressBar, ProgressStyle};
use roformer::Device;
use roformer::encoding::Encoding;
use roformer::train::{Evaluation, Event, Goal, Run, Trainer};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Shows a run.
pub struct Show {
    out: PathBuf,
    steps: u64,
    tokens_of_a_step: f64,
    /// On a terminal.
    bar: Option<ProgressBar>,
}

impl Show {
    /// Says what begins.
    pub fn new(run: &Run, out: &Path, device: &Device, processes: usize) -> Self {
        let (trainer, settings) = (run.trainer(), run.trainer().settings());
        let parameters = trainer.parameters().len();
        let from = match trainer.steps() {
            0 => String::new(),
            step => format!(", from step {step} on"),
        };
        let device = match device {
            Device::Cpu(_) if processes > 1 => format!(", on {processes} processes"),
            Device::Cpu(_) => String::new(),
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => format!(", on {gpu:?}"),
        };
        say(&format!(
            "training {parameters} parameters on {}, {} steps{from}{device}",
            what(trainer),
            settings.steps
        ));
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(settings.steps).with_position(trainer.steps());
            match ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
        let tokens_of_a_step = trainer.tokens_of_a_step();
        Show { out: out.into(), steps: settings.steps, tokens_of_a_step, bar }
    }

    /// Shows what happened.
    pub fn event(&mut self, event: Event) {
        match event {
            Event::Step { step, loss, tokens_s } => {
                if let Some(bar) = &self.bar {
                    let left = (self.steps - step) as f64 * self.tokens_of_a_step / tokens_s.max(1e-9);
                    bar.set_message(format!("loss {loss:.4}, {tokens_s:.0} tokens/s, {} left", time(left)));
                    bar.set_position(step);
                }
            }
            Event::Evaluation { step, loss, found, is_best } => {
                let best = if is_best { ", the best so far" } else { "" };
                let line = format!("step {step} of {}: loss {loss:.4}, {}{best}", self.steps, shown(&found));
                match &self.bar {
                    Some(bar) => bar.suspend(|| say(&line)),
                    None => say(&line),
                }
            }
        }
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// How to go on with a run that was told to stop.
    pub fn stopped(&self, run: &Run) {
        let out = self.out.display();
        say(&format!("stopped after step {}; go on with: roformer train --out {out} --resume", run.saved()));
    }

    /// Where the curves are.
    pub fn plotted(&self, path: &Path) {
        say(&format!("the curves are in {}", path.display()));
    }

    /// What came of the run, on stdout.
    pub fn result(&self, run: &Run, is_early: bool) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let settings = run.trainer().settings();
        let (steps, seconds) = (run.trainer().steps(), run.seconds());
        let tokens_s = steps as f64 * self.tokens_of_a_step / seconds.max(1e-9);
        writeln!(out, "{steps} steps in {}, {tokens_s:.0} tokens/s", time(seconds))?;
        if is_early {
            writeln!(out, "ended early: {} evaluations without a better one", settings.patience)?;
        }
        if let Some(last) = run.last() {
            writeln!(out, "validation loss {:.4}", last.loss)?;
        }
        let name = match run.best() {
            Some(best) => {
                writeln!(out, "best validation loss {:.4}, at step {}", best.loss, best.step)?;
                "best"
            }
            None => "last",
        };
        let folder = self.out.join(name);
        let folder = folder.display();
        writeln!(out, "the model is in {folder}")?;
        if !run.trainer().network().blueprint.is_of_its_class() {
            let form = settings.form.name();
            writeln!(out, "transformers has no {form} of this kind and does not load it; roformer does")?;
        }
        let block = settings.block;
        match settings.goal {
            Goal::Causal => {
                let blueprint = &run.trainer().network().blueprint;
                let tokens = match blueprint.encoding {
                    // Learned positions come to an end, those of the prompt among them.
                    Encoding::Learned(_) => {
                        let positions = block.max(blueprint.longest);
                        writeln!(
                            out,
                            "it has {positions} positions: a prompt and what follows are no longer"
                        )?;
                        positions / 2
                    }
                    _ => {
                        writeln!(
                            out,
                            "it has seen {block} tokens at a time: what it writes beyond them gets worse"
                        )?;
                        block
                    }
                };
                writeln!(out, "use it: roformer generate --model {folder} --max-tokens {tokens} 'Some text'")
            }
            Goal::Sequences => {
                writeln!(
                    out,
                    "it has seen {block} tokens at a time: of longer texts it has seen the beginning"
                )?;
                writeln!(out, "use it: roformer generate --model {folder} --max-tokens {block} 'Some text'")
            }
            Goal::Masked => writeln!(out, "use it: roformer fill-mask --model {folder} 'Some [MASK] text'"),
            Goal::Classification => writeln!(out, "use it: roformer classify --model {folder} 'Some text'"),
            Goal::Similarity => {
                writeln!(out, "use it: roformer similarity --model {folder} 'Some text' 'Some other text'")
            }
        }
    }
}

/// What is trained on, in words.
fn what(trainer: &Trainer) -> String {
    let (data, goal) = (trainer.data(), trainer.settings().goal);
    let (tokens, kinds) = (data.tokens(), data.vocabulary().tokens());
    match goal {
        Goal::Causal | Goal::Masked => format!("{tokens} tokens of {kinds} kinds"),
        Goal::Classification => {
            format!("{} texts with {} labels, {tokens} tokens", data.rows(), data.labels().len())
        }
        Goal::Similarity | Goal::Sequences => format!("{} pairs, {tokens} tokens", data.rows()),
    }
}

/// What an evaluation found, in words.
fn shown(found: &Evaluation) -> String {
    let accuracy =
        found.accuracy.map_or(String::new(), |accuracy| format!(", {:.1} % right", 100.0 * accuracy));
    format!("validation loss {:.4}{accuracy}", found.loss)
}

/// What is shown while text is read: on a terminal, once it takes more than a moment.
pub struct Reading {
    begun: Instant,
    bar: Option<ProgressBar>,
}

impl Reading {
    pub fn new() -> Self {
        Reading { begun: Instant::now(), bar: None }
    }

    /// Shows how many bytes have been read.
    pub fn show(&mut self, bytes: u64) {
        if self.bar.is_none() && self.begun.elapsed() > Duration::from_secs(1) && io::stderr().is_terminal() {
            self.bar = Some(ProgressBar::new_spinner());
        }
        if let Some(bar) = &self.bar {
            bar.set_message(format!("reading text: {:.0} MB", bytes as f64 / 1e6));
            bar.tick();
        }
    }

    /// Takes the line away.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
