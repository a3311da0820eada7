//! How the processes of a run meet. Rank 0 listens; the others come to it, say who they are and what they were started with,
//! and are refused by name where that is not what rank 0 was started with. Then each is told where those before it listen, and
//! connects to them; those after it come to it.
//!
//! ```text
//! other → 0   the magic word, how many processes, which of them, its port, the words it was started with
//! 0 → other   go on: a number of this run, and where the ranks from 1 to its own listen   or no, and why
//! other → 0   ready: what it has read of the run's folder, as two numbers          or no, and why
//! 0 → other   go on                                                                 or no, and why
//! ```
//!
//! Everything has a deadline and a bound. What is not of this program is hung up on, and waited for no longer.

use super::mesh::Mesh;
use super::watch::Watch;
use super::wire::{MAGIC, receive, send};
use super::{Place, Team};
use crate::error::{Error, Result};
use crate::graph::mix;
use crate::weights::brief;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long processes wait for each other at the beginning: schedulers start one after the other.
const MEETING: Duration = Duration::from_secs(600);
/// How long rank 0 may read its text. Where it ends, that shows at once.
const READING: Duration = Duration::from_secs(24 * 3600);
/// How long anyone has to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// From one try to the next.
const PAUSE: Duration = Duration::from_millis(50);

const GO: u8 = 1;
const NO: u8 = 2;

/// What all ranks must have read alike: the settings and the network, the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::train) struct Terms {
    pub settings: u64,
    pub data: u64,
}

/// Why there is no team.
fn failed(reason: impl Into<String>) -> Error {
    Error::Team { reason: reason.into() }
}

/// A rank that is expected.
struct Member {
    stream: TcpStream,
    /// Where it listens.
    at: SocketAddr,
}

/// Rank 0 and the others, who have come and wait for the run to begin.
pub struct Meeting {
    world: usize,
    listener: TcpListener,
    /// All others, in order.
    members: Vec<Member>,
}

impl Meeting {
    /// Listens, on this machine alone unless the place says another address, until all others have come; `words` are what this
    /// process was started with. Who was started with others is refused.
    pub fn open(place: &Place, words: &[String]) -> Result<Self> {
        let listener = Self::listen(place)?;
        Self::wait(listener, place, words)
    }

    fn listen(place: &Place) -> Result<TcpListener> {
        let at = (&place.address[..], place.port);
        let listener = TcpListener::bind(at).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map_err(|error| {
            let (address, port) = at;
            failed(format!(
                "rank 0 cannot listen at {address}:{port}: {error}; expected MASTER_ADDR to be an address of its machine and \
                 MASTER_PORT a free port"
            ))
        })
    }

    fn wait(listener: TcpListener, place: &Place, words: &[String]) -> Result<Self> {
        let deadline = Instant::now() + MEETING;
        let mut members: Vec<Option<Member>> = (1..place.world).map(|_| None).collect();
        while members.iter().any(Option::is_none) {
            let (mut stream, from) = accept(&listener, deadline).map_err(|_| missing(&members))?;
            // Somebody else's connection is none of this run.
            let Ok(hello) = receive(&mut stream, Instant::now() + HELLO) else { continue };
            let Some(hello) = Hello::read(&hello) else { continue };
            let refused = hello.refused(place, words).or_else(|| {
                let is_twice = members[hello.rank - 1].is_some();
                is_twice.then(|| format!("two processes say that they are rank {}", hello.rank))
            });
            if let Some(reason) = refused {
                let came = members.iter_mut().flatten().map(|member| &mut member.stream);
                came.chain([&mut stream]).for_each(|stream| refuse(stream, &reason));
                return Err(failed(reason));
            }
            let at = SocketAddr::new(from.ip(), hello.port);
            members[hello.rank - 1] = Some(Member { stream, at });
        }
        Ok(Meeting { world: place.world, listener, members: members.into_iter().flatten().collect() })
    }

    /// Tells the others that the run has begun, and connects to all.
    pub(in crate::train) fn gather(mut self, terms: Terms) -> Result<Team> {
        let links = self.links(terms).inspect_err(|error| {
            let reason = error.to_string();
            self.members.iter_mut().for_each(|member| refuse(&mut member.stream, &reason));
        });
        let mesh = Mesh::new(0, links?).map_err(lost)?;
        let others = self.members.into_iter().enumerate().map(|(index, member)| (index + 1, member.stream));
        let watch = Watch::new(0, others.collect(), mesh.links()).map_err(lost)?;
        Ok(Team { watch, mesh })
    }

    /// The links to all others.
    fn links(&mut self, terms: Terms) -> Result<Vec<TcpStream>> {
        let run = number_of_a_run(self.listener.local_addr().map_err(lost)?);
        let mut message = [&[GO][..], &run.to_le_bytes()].concat();
        for member in &mut self.members {
            send(&mut member.stream, &message).map_err(lost)?;
            message.extend(format!("{}\n", member.at).bytes());
        }
        let deadline = Instant::now() + MEETING;
        for (index, member) in self.members.iter_mut().enumerate() {
            let rank = index + 1;
            let answer = receive(&mut member.stream, deadline);
            let answer = answer.map_err(|_| failed(format!("rank {rank} ended before the run began")))?;
            if let Some(reason) = terms.refused(rank, &answer) {
                return Err(failed(reason));
            }
        }
        for member in &mut self.members {
            send(&mut member.stream, &[GO]).map_err(lost)?;
        }
        admit(&self.listener, run, 1..self.world, deadline)
    }
}

/// The error of ranks that have not come.
fn missing(members: &[Option<Member>]) -> Error {
    let missing: Vec<usize> =
        (1..).zip(members).filter(|(_, member)| member.is_none()).map(|(rank, _)| rank).collect();
    let (count, world, seconds) = (missing.len(), members.len() + 1, MEETING.as_secs());
    let first = missing.first().copied().unwrap_or_default();
    failed(format!(
        "{count} of {world} processes did not come within {seconds} s, the first of them rank {first}; expected a launcher to \
         start all"
    ))
}

/// Another rank before the run begins.
pub(in crate::train) struct Guest {
    place: Place,
    stream: TcpStream,
    listener: TcpListener,
    /// Where those from rank 1 to this one listen, and the number of the run.
    before: Vec<SocketAddr>,
    run: u64,
}

impl Guest {
    /// Comes to rank 0, which is then `met`, and waits until it has begun the run: until its text is read.
    pub fn come(place: &Place, words: &[String], met: impl FnOnce()) -> Result<Self> {
        let deadline = Instant::now() + MEETING;
        let Place { rank, world, port, .. } = *place;
        let mut stream = reach(&place.address, port, deadline)?;
        met();
        let own = stream.local_addr().map_err(lost)?;
        let listener = TcpListener::bind((own.ip(), 0)).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(lost)?;
        let port = listener.local_addr().map_err(lost)?.port();
        let hello = Hello { rank, world, port, words: words.into() };
        send(&mut stream, &hello.write()).map_err(lost)?;
        let begun = receive(&mut stream, Instant::now() + READING);
        let answer = begun.map_err(|_| failed("rank 0 ended before the run began"))?;
        let (run, before) = went(&answer)?.split_first_chunk().ok_or_else(|| failed(STRANGE))?;
        let before = std::str::from_utf8(before).ok();
        let before =
            before.and_then(|text| text.lines().map(|at| at.parse().ok()).collect::<Option<Vec<_>>>());
        let before = before.filter(|before| before.len() + 1 == rank).ok_or_else(|| failed(STRANGE))?;
        Ok(Guest { place: place.clone(), stream, listener, before, run: u64::from_le_bytes(*run) })
    }

    /// Says why it cannot take part.
    pub fn refuse(mut self, error: &Error) {
        refuse(&mut self.stream, &format!("rank {}: {error}", self.place.rank));
    }

    /// Says what it has read, and connects to all others.
    pub fn enter(mut self, terms: Terms) -> Result<Team> {
        let Place { rank, world, ref address, port, .. } = self.place;
        let deadline = Instant::now() + MEETING;
        let message = [&[GO][..], &terms.settings.to_le_bytes(), &terms.data.to_le_bytes()].concat();
        send(&mut self.stream, &message).map_err(lost)?;
        let answer =
            receive(&mut self.stream, deadline).map_err(|_| failed("rank 0 ended before the run began"))?;
        went(&answer)?;
        let mut links = vec![reach(address, port, deadline)?];
        for at in &self.before {
            links.push(reach(&at.ip().to_string(), at.port(), deadline)?);
        }
        let card = [&MAGIC[..], &self.run.to_le_bytes(), &(rank as u32).to_le_bytes()].concat();
        links.iter_mut().try_for_each(|link| send(link, &card)).map_err(lost)?;
        links.extend(admit(&self.listener, self.run, rank + 1..world, deadline)?);
        let mesh = Mesh::new(rank, links).map_err(lost)?;
        let watch = Watch::new(rank, vec![(0, self.stream)], mesh.links()).map_err(lost)?;
        Ok(Team { watch, mesh })
    }
}

const STRANGE: &str = "rank 0 said what this version does not understand";

/// What rank 0 said after its yes; its no is an error.
fn went(answer: &[u8]) -> Result<&[u8]> {
    match answer.split_first() {
        Some((&GO, rest)) => Ok(rest),
        Some((&NO, rest)) => Err(failed(String::from_utf8_lossy(rest))),
        _ => Err(failed(STRANGE)),
    }
}

impl Terms {
    /// Why another rank cannot take part, by what it answered.
    fn refused(&self, rank: usize, answer: &[u8]) -> Option<String> {
        let numbers = match went(answer) {
            Ok(rest) => {
                rest.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<_>>()
            }
            Err(Error::Team { reason }) => return Some(reason),
            Err(_) => Vec::new(),
        };
        match numbers[..] {
            [settings, data] if settings == self.settings && data == self.data => None,
            [settings, _] if settings == self.settings => Some(format!(
                "rank {rank} has other text in the folder of the run than rank 0; expected one folder that all ranks see"
            )),
            [_, _] => Some(format!(
                "rank {rank} has other settings in the folder of the run than rank 0; expected one folder that all ranks see"
            )),
            _ => Some(format!("rank {rank} said what this version does not understand")),
        }
    }
}

/// What a rank says first.
#[derive(Debug, PartialEq)]
struct Hello {
    rank: usize,
    world: usize,
    port: u16,
    words: Vec<String>,
}

impl Hello {
    fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.world as u32).to_le_bytes());
        bytes.extend((self.rank as u32).to_le_bytes());
        bytes.extend(self.port.to_le_bytes());
        let words: Vec<&str> =
            std::iter::once(env!("CARGO_PKG_VERSION")).chain(self.words.iter().map(String::as_str)).collect();
        bytes.extend(words.join("\0").bytes());
        bytes
    }

    /// `None` for what is not of this program.
    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (world, rest) = rest.split_first_chunk()?;
        let (rank, rest) = rest.split_first_chunk()?;
        let (port, rest) = rest.split_first_chunk()?;
        let words = std::str::from_utf8(rest).ok()?.split('\0').map(String::from).collect();
        let [rank, world] = [rank, world].map(|bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize);
        Some(Hello { rank, world, port: u16::from_le_bytes(*port), words })
    }

    /// Why it cannot take part, if it cannot.
    fn refused(&self, place: &Place, words: &[String]) -> Option<String> {
        let Hello { rank, world, .. } = *self;
        if world != place.world {
            return Some(format!("rank {rank} was told of {world} processes, rank 0 of {}", place.world));
        }
        if !(1..world).contains(&rank) {
            return Some(format!("a process says that it is rank {rank} of {world}"));
        }
        let own: Vec<&str> =
            std::iter::once(env!("CARGO_PKG_VERSION")).chain(words.iter().map(String::as_str)).collect();
        let count = own.len().max(self.words.len());
        let index =
            (0..count).find(|&index| own.get(index).copied() != self.words.get(index).map(String::as_str))?;
        let [there, here] = [self.words.get(index).map(String::as_str), own.get(index).copied()]
            .map(|word| word.map_or("nothing".into(), |word| format!("`{}`", brief(word))));
        let after = match index {
            0 => " as its version".into(),
            1 => String::new(),
            _ => format!(" after `{}`", brief(own[index - 1])),
        };
        Some(format!(
            "rank {rank} was started with {there}{after}, rank 0 with {here}; expected the same command for all"
        ))
    }
}

/// A number that connections of this run know: what is left of another run does not get in by mistake.
fn number_of_a_run(at: SocketAddr) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    mix(now.as_nanos() as u64 ^ mix(u64::from(std::process::id())) ^ u64::from(at.port()))
}

fn refuse(stream: &mut TcpStream, reason: &str) {
    let reason: String = reason.chars().take(2000).collect();
    // Whoever has gone needs no reason.
    let _ = send(stream, &[&[NO], reason.as_bytes()].concat());
}

fn lost(error: io::Error) -> Error {
    failed(format!("the processes of the run cannot talk to each other: {error}"))
}

/// Accepts a connection before the deadline.
fn accept(listener: &TcpListener, deadline: Instant) -> io::Result<(TcpStream, SocketAddr)> {
    loop {
        match listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                return Ok((stream, from));
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Connects to rank 0, which may not be there yet.
fn reach(address: &str, port: u16, deadline: Instant) -> Result<TcpStream> {
    loop {
        let found = (address, port).to_socket_addrs().map(|all| all.collect::<Vec<_>>());
        let tried = found.and_then(|all| TcpStream::connect(&all[..]));
        match tried {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(failed(format!(
                    "rank 0 is not at {address}:{port}: {error}; MASTER_ADDR and MASTER_PORT say where it is"
                )));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// The links from the ranks that come to this one, in their order.
fn admit(listener: &TcpListener, run: u64, ranks: Range<usize>, deadline: Instant) -> Result<Vec<TcpStream>> {
    let mut links: Vec<Option<TcpStream>> = ranks.clone().map(|_| None).collect();
    while let Some(missing) = links.iter().position(Option::is_none) {
        let (mut stream, _) = accept(listener, deadline)
            .map_err(|error| failed(format!("rank {} did not connect: {error}", ranks.start + missing)))?;
        // What is not of this run is hung up on.
        let Ok(card) = receive(&mut stream, Instant::now() + HELLO) else { continue };
        let Some((said, rank)) = card.strip_prefix(&MAGIC).and_then(|rest| rest.split_first_chunk()) else {
            continue;
        };
        let rank = rank.try_into().map_or(usize::MAX, |rank| u32::from_le_bytes(rank) as usize);
        if u64::from_le_bytes(*said) == run && ranks.contains(&rank) {
            links[rank - ranks.start].get_or_insert(stream);
        }
    }
    Ok(links.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::super::Heard;
    use super::*;
    use std::io::Write;
    use std::thread::{scope, spawn};

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| word.to_string()).collect()
    }

    const TERMS: Terms = Terms { settings: 1, data: 2 };

    /// A listener of so many at a port of its own, and the place of each.
    fn listener(world: usize) -> (TcpListener, impl Fn(usize) -> Place) {
        let mut place = Place { rank: 0, world, local: world, address: "127.0.0.1".into(), port: 0 };
        let listener = Meeting::listen(&place).unwrap();
        place.port = listener.local_addr().unwrap().port();
        (listener, move |rank| Place { rank, ..place.clone() })
    }

    /// Rank 0 with the flag `--lr 0.1`.
    fn gather(listener: TcpListener, place: &Place) -> Result<Team> {
        Meeting::wait(listener, place, &words(&["--lr", "0.1"]))?.gather(TERMS)
    }

    fn come(place: &Place, list: &[&str], terms: Terms) -> Result<Team> {
        Guest::come(place, &words(list), || {})?.enter(terms)
    }

    #[test]
    fn ranks_meet_and_strangers_do_not_matter() {
        let (listener, at) = listener(3);
        // One that goes, one that says something else, one that says it is very long, one that says too little.
        for bytes in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[255; 64], &[4, 0, 0, 0, 1, 2, 3, 4]] {
            let mut stream = TcpStream::connect(("127.0.0.1", at(0).port)).unwrap();
            stream.write_all(bytes).unwrap();
        }
        scope(|scope| {
            let other = |place: Place| {
                scope.spawn(move || {
                    let team = come(&place, &["--lr", "0.1"], TERMS).unwrap();
                    let (mut taken, [mut first, mut second]) =
                        ([0.0; 3], [(); 2].map(|()| vec![0.0; team.own(3).len()]));
                    team.join(&mut taken, [&mut first, &mut second]).unwrap();
                    assert_eq!(taken, [1.0, 2.0, 3.0]);
                    // A list of one block has one owner.
                    let owned = if team.rank() == 2 { [4.0; 3].to_vec() } else { Vec::new() };
                    assert_eq!(first, owned);
                    assert_eq!(team.hear().unwrap(), Heard::Step(5));
                    assert_eq!(team.hear().unwrap(), Heard::Moments);
                    team.give([&first, &second]).unwrap();
                    assert_eq!(team.hear().unwrap(), Heard::End(7));
                })
            };
            let others = [1, 2].map(|rank| other(at(rank)));
            let team = gather(listener, &at(0)).unwrap();
            team.begin(&[1.0, 2.0, 3.0], [&[4.0; 3], &[5.0; 3]]).unwrap();
            team.call(5).unwrap();
            team.call_for_moments().unwrap();
            for moment in [4.0, 5.0] {
                // In pieces that are not those of the owners.
                for place in [0..1, 1..3] {
                    let mut numbers = vec![0.0; place.len()];
                    team.take(3, place.start, &mut numbers, &[]).unwrap();
                    assert_eq!(numbers, vec![moment; place.len()]);
                }
            }
            team.end(7);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    #[test]
    fn a_rank_that_goes_is_named_to_all() {
        let (listener, at) = listener(3);
        scope(|scope| {
            let gone = at(2);
            scope.spawn(move || drop(come(&gone, &["--lr", "0.1"], TERMS).unwrap()));
            let stays = at(1);
            let stays = scope.spawn(move || {
                let team = come(&stays, &["--lr", "0.1"], TERMS).unwrap();
                // What rank 0 sent before it knew comes first.
                let error = loop {
                    if let Err(error) = team.hear() {
                        break error;
                    }
                };
                error.to_string()
            });
            let team = gather(listener, &at(0)).unwrap();
            let said = team.norm(3, &[]).unwrap_err().to_string();
            assert_eq!(said, "rank 2 of 3 was lost");
            drop(team);
            assert_eq!(stays.join().unwrap(), said);
        });
    }

    #[test]
    fn who_does_not_fit_is_refused_by_name() {
        let other = Terms { data: 3, ..TERMS };
        let strange = Terms { settings: 3, ..TERMS };
        type Case<'a> = (&'a [&'a str], usize, Terms, &'a str);
        let cases: [Case; 6] = [
            (&["--lr", "0.2"], 2, TERMS, "rank 1 was started with `0.2` after `--lr`, rank 0 with `0.1`"),
            (&["--lr"], 2, TERMS, "rank 1 was started with nothing after `--lr`"),
            (
                &["--lr", "0.1", "--clip"],
                2,
                TERMS,
                "rank 1 was started with `--clip` after `0.1`, rank 0 with nothing",
            ),
            (&["--lr", "0.1"], 3, TERMS, "rank 1 was told of 3 processes, rank 0 of 2"),
            (&["--lr", "0.1"], 2, other, "rank 1 has other text"),
            (&["--lr", "0.1"], 2, strange, "rank 1 has other settings"),
        ];
        for (list, world, terms, says) in cases {
            let (listener, at) = listener(2);
            let place = Place { world, ..at(1) };
            scope(|scope| {
                let guest = scope.spawn(|| come(&place, list, terms).err().unwrap().to_string());
                let said = gather(listener, &at(0)).err().unwrap().to_string();
                assert!(said.contains(says), "{said}");
                assert_eq!(guest.join().unwrap(), said);
            });
        }
    }

    #[test]
    fn a_rank_that_cannot_take_part_says_why() {
        let (listener, at) = listener(2);
        let guest = spawn({
            let place = at(1);
            move || Guest::come(&place, &words(&["--lr", "0.1"]), || {}).unwrap().refuse(&failed("no folder"))
        });
        assert_eq!(gather(listener, &at(0)).err().unwrap().to_string(), "rank 1: no folder");
        guest.join().unwrap();
    }

    #[test]
    fn a_port_that_is_taken_is_named() {
        let (_listener, at) = listener(2);
        let said = Meeting::open(&at(0), &[]).err().unwrap().to_string();
        assert!(said.contains("cannot listen at 127.0.0.1:") && said.contains("MASTER_PORT"), "{said}");
    }
}
