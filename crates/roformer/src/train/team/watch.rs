//! Whether all processes are there. Each has a connection to rank 0 over which both say so every second; a process whose
//! connection ends, or that has said nothing for some seconds, is lost, and rank 0 tells the others which it was. The links
//! between all are then cut, so that nobody waits for what will not come.

use super::mesh::Links;
use super::wire::is_pause;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// From one word to the next.
const BEAT: Duration = Duration::from_secs(1);
/// How long a process may say nothing: a machine that has lost its power closes no connection.
const SILENCE: Duration = Duration::from_secs(10);
/// How long rank 0 waits at the end until the others have heard of it.
const LEAVE: Duration = Duration::from_secs(3);

/// What is said: that one is there, that a rank is lost, that the run has ended with an exit code.
const HERE: u8 = b'.';
const LOST: u8 = b'L';
const ENDED: u8 = b'E';
/// A word and its number.
const WORD: usize = 5;

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Lost(usize),
    Ended(u32),
}

/// What threads of a process share.
struct Shared {
    outcome: Mutex<Option<Outcome>>,
    changed: Condvar,
    /// Those that numbers go over.
    links: Arc<Links>,
    /// To every other process that this one talks to.
    others: Mutex<Vec<TcpStream>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome>> {
        self.outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Keeps the first outcome; `false` if there was one.
    fn keep(&self, outcome: Outcome) -> bool {
        let is_first = {
            let mut settled = self.lock();
            let is_first = settled.is_none();
            settled.get_or_insert(outcome);
            is_first
        };
        self.changed.notify_all();
        is_first
    }

    /// Keeps the first outcome, tells the others, and cuts the links.
    fn settle(&self, outcome: Outcome) {
        if !self.keep(outcome) {
            return;
        }
        let (word, number) = match outcome {
            Outcome::Lost(rank) => (LOST, rank as u32),
            Outcome::Ended(code) => (ENDED, code),
        };
        self.say(word, number);
        self.links.cut();
    }

    fn say(&self, word: u8, number: u32) {
        let [a, b, c, d] = number.to_le_bytes();
        let mut others = self.others.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Whoever cannot be told is lost, and the thread that listens to it finds out.
        others.iter_mut().for_each(|other| drop(other.write_all(&[word, a, b, c, d])));
    }
}

/// Watches over the other processes until it is dropped.
pub(super) struct Watch {
    rank: usize,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Watches: rank 0 over all others, the others over rank 0.
    pub fn new(rank: usize, others: Vec<(usize, TcpStream)>, links: Arc<Links>) -> std::io::Result<Self> {
        let writers = others.iter().map(|(_, stream)| {
            // A process that does not read must not hold up the others.
            stream.set_write_timeout(Some(BEAT))?;
            stream.set_nodelay(true)?;
            stream.try_clone()
        });
        let others_to = Mutex::new(writers.collect::<std::io::Result<_>>()?);
        let (outcome, changed) = (Mutex::new(None), Condvar::new());
        let shared = Arc::new(Shared { outcome, changed, links, others: others_to });
        let mut threads = Vec::new();
        for (other, stream) in others {
            let shared = Arc::clone(&shared);
            threads.push(spawn(move || listen(&shared, other, stream)));
        }
        let talking = Arc::clone(&shared);
        threads.push(spawn(move || talk(&talking)));
        Ok(Watch { rank, shared, threads })
    }

    /// What became of the run, if it is over; waits a little, because a link ends before it is said why.
    pub fn outcome(&self) -> Option<Outcome> {
        let deadline = Instant::now() + SILENCE + 2 * BEAT;
        let mut settled = self.shared.lock();
        while settled.is_none() && Instant::now() < deadline {
            let waited = self.shared.changed.wait_timeout(settled, BEAT);
            settled = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        *settled
    }

    /// Ends the run for all.
    pub fn end(&self, code: u32) {
        self.shared.settle(Outcome::Ended(code));
    }
}

impl Drop for Watch {
    /// Rank 0 goes when the others have heard why; they go at once.
    fn drop(&mut self) {
        self.end(1);
        if self.rank > 0 {
            let others = self.shared.others.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            others.iter().for_each(|other| drop(other.shutdown(Shutdown::Both)));
        }
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Says every second that this process is there.
fn talk(shared: &Shared) {
    loop {
        let settled = shared.lock();
        if settled.is_some() {
            return;
        }
        let waited = shared.changed.wait_timeout(settled, BEAT);
        let is_over = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0.is_some();
        if is_over {
            return;
        }
        shared.say(HERE, 0);
    }
}

/// Hears what another process says until it has gone.
fn listen(shared: &Shared, other: usize, mut stream: TcpStream) {
    let (mut word, mut count, mut heard, mut ended) = ([0; WORD], 0, Instant::now(), None);
    // Where this cannot be set it is waited for without an end: a connection that closes still shows.
    let _ = stream.set_read_timeout(Some(BEAT / 4));
    loop {
        if shared.lock().is_some() && ended.get_or_insert_with(Instant::now).elapsed() > LEAVE {
            return;
        }
        match stream.read(&mut word[count..]) {
            Ok(0) => return shared.settle(Outcome::Lost(other)),
            Ok(more) => {
                (count, heard) = ((count + more) % WORD, Instant::now());
                if count > 0 {
                    continue;
                }
                let [kind, number @ ..] = word;
                let number = u32::from_le_bytes(number);
                match kind {
                    HERE => {}
                    LOST if other == 0 => shared.settle(Outcome::Lost(number as usize)),
                    // Rank 0 ends a run for all; another one ends by itself. It has cut its own links, and the end comes round
                    // after what was sent before it.
                    ENDED if other == 0 => drop(shared.keep(Outcome::Ended(number))),
                    _ => return shared.settle(Outcome::Lost(other)),
                }
            }
            Err(error) if is_pause(&error) => {
                if heard.elapsed() > SILENCE {
                    return shared.settle(Outcome::Lost(other));
                }
            }
            Err(_) => return shared.settle(Outcome::Lost(other)),
        }
    }
}
