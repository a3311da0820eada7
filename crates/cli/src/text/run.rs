//! Records through a task: read window by window, worked on together, printed in the order of the input.

use super::Options;
use super::progress::Progress;
use super::record::{Record, Refusal};
use super::source::Source;
use crate::error::{Failure, Outcome, one_line};
use std::io::{BufWriter, Write};

/// The most records in a window. Enough for batches of texts of like length; a window is all that is held.
const WINDOW: usize = 512;

/// No record is added to a window that has as many bytes of texts and ids.
const WINDOW_BYTES: usize = 1 << 20;

/// Refusals said on stderr. The rest are counted: nobody reads thousands, and a terminal would spend its time on them.
pub const SAID: u64 = 20;

/// What a command does with its records.
pub trait Task {
    /// What comes out for one record.
    type Output;

    /// One result for each record, in the same order. Which records come together depends on the input alone, so that
    /// the same input gives the same output (but not when it is typed: then each comes alone).
    fn work(&mut self, records: &[Record]) -> Vec<roformer::Result<Self::Output>>;

    /// Writes what came out, or keeps it for later.
    fn print(&mut self, out: &mut dyn Write, record: &Record, output: Self::Output) -> Outcome;

    /// Writes what stands in the place of a record that could not be used, with --keep-going.
    fn refused(&mut self, out: &mut dyn Write, refusal: &Refusal, json: bool) -> Outcome {
        if json {
            refusal.write_json(out)?;
        }
        Ok(())
    }

    /// Whether stdout stays empty while the task runs, and progress can be shown on the same terminal.
    fn is_silent(&self) -> bool {
        false
    }

    /// The most records that come together; all are printed before the next is worked on. Fewer where each takes long; and
    /// with one what the task writes to stdout itself while it works stands in the right place.
    fn at_once(&self) -> usize {
        WINDOW
    }
}

/// How many records there were.
#[derive(Debug, Default, PartialEq)]
#[must_use = "records that could not be used are in it"]
pub struct Tally {
    pub records: u64,
    pub refused: u64,
}

impl Tally {
    /// A failure if not all records could be used. For the end of a command: what there is has been printed.
    pub fn outcome(self) -> Outcome {
        match self {
            Tally { refused: 0, .. } => Ok(()),
            Tally { records, refused } => {
                Err(Failure::Input(format!("{refused} of {records} texts could not be used")))
            }
        }
    }
}

/// Takes all records through the task and prints to stdout.
///
/// Stops at the first that cannot be used, when all before it have been printed; with --keep-going, says so and goes on.
pub fn run(options: &Options, mut source: Source, task: &mut impl Task) -> Result<Tally, Failure> {
    let mut progress = Progress::new(source.size(), task.is_silent());
    let mut out = BufWriter::new(crate::terminal::stdout());
    drive(options, &mut source, task, &mut out, &mut progress)
}

/// Where a run tells how it goes.
pub trait Listener {
    /// A line for people.
    fn say(&mut self, line: &str);
    /// So many records, and bytes of the input, are done.
    fn advance(&mut self, records: u64, bytes: u64);
}

/// What is read before the task sees any of it.
#[derive(Default)]
struct Window {
    /// Those that could be read.
    records: Vec<Record>,
    /// All in the order of the input: nothing for the next of `records`, or why one could not be read.
    order: Vec<Option<Refusal>>,
}

impl Window {
    /// Reads the next window of at most so many, and says whether there may be more. An error leaves what was read before it.
    fn fill(&mut self, source: &mut Source, most: usize, keep_going: bool) -> Result<bool, Failure> {
        self.records.clear();
        self.order.clear();
        let mut bytes = 0;
        while self.order.len() < most && bytes < WINDOW_BYTES {
            match source.next()? {
                None => return Ok(false),
                Some(Ok(record)) => {
                    bytes += record.bytes();
                    self.records.push(record);
                    self.order.push(None);
                }
                Some(Err(refusal)) => {
                    bytes += refusal.bytes();
                    self.order.push(Some(refusal));
                    if !keep_going {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }
}

/// [`run()`] with somewhere else to print and to tell.
pub fn drive<T: Task>(
    options: &Options,
    source: &mut Source,
    task: &mut T,
    out: &mut dyn Write,
    listener: &mut dyn Listener,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let mut window = Window::default();
    let most = if source.is_interactive() { 1 } else { task.at_once() };
    loop {
        let more = window.fill(source, most, options.keep_going);
        let results = if window.records.is_empty() { Vec::new() } else { task.work(&window.records) };
        if results.len() != window.records.len() {
            let (found, expected) = (results.len(), window.records.len());
            return Err(Failure::Other(format!(
                "{found} results for {expected} texts; this is a bug: report it"
            )));
        }
        let mut results = window.records.iter().zip(results);
        for unread in window.order.drain(..) {
            tally.records += 1;
            let refusal = match unread {
                Some(refusal) => refusal,
                None => match results.next() {
                    Some((record, Ok(output))) => {
                        task.print(out, record, output)?;
                        continue;
                    }
                    Some((record, Err(error))) => Refusal::of(record, &error),
                    None => break,
                },
            };
            tally.refused += 1;
            let message = format!("{}{}", source.place(refusal.line), refusal.message);
            if !options.keep_going {
                out.flush()?;
                return Err(if refusal.machine { Failure::Other(message) } else { Failure::Input(message) });
            }
            task.refused(out, &refusal, options.json)?;
            if tally.refused <= SAID {
                // So that on a terminal it stands after what came before it.
                out.flush()?;
                listener.say(&one_line(&message));
            }
            if tally.refused == SAID {
                let rest =
                    if options.json { "further ones are in the output" } else { "further ones are counted" };
                listener.say(&format!("{SAID} texts could not be used so far; {rest}"));
            }
        }
        // A window at a time, so that whoever reads a pipe sees how far it is.
        out.flush()?;
        listener.advance(tally.records, source.read());
        if !more? {
            return Ok(tally);
        }
    }
}
