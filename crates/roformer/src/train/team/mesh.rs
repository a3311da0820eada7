//! Sums over processes, in one order.
//!
//! Every two processes have a connection. Of a list each owns a part, which all others send it, and it adds what it gets in the
//! order of the ranks: rank 0's numbers first, then rank 1's and so on, whatever arrives when. That is where the order is fixed;
//! a sum that went round from one to the next would have to come to its owner once more. What the owners have made of their parts
//! then goes from each to all. Either way a process sends a list once at most, on any number of processes.
//!
//! Lists go in pieces. All send piece after piece to everyone in turn, and read piece after piece from everyone in turn, beside each
//! other: whoever waits for a piece waits for one that is not behind its own, so that nobody waits for ever.

use super::wire::CHUNK;
use crate::ops::optimizer::NORM_BLOCK;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;

/// The numbers of a list of `len` that a rank owns: whole blocks of the norm's sum, as many as any other or one more.
pub(in crate::train) fn part(len: usize, rank: usize, world: usize) -> Range<usize> {
    let blocks = len.div_ceil(NORM_BLOCK);
    let at = |rank: usize| (rank * blocks / world * NORM_BLOCK).min(len);
    at(rank)..at(rank + 1)
}

/// The connections of a process.
pub(super) struct Mesh {
    pub rank: usize,
    pub world: usize,
    links: Arc<Links>,
}

/// A connection to each rank but itself, in the order of the ranks.
pub(super) struct Links(Vec<Option<TcpStream>>);

impl Links {
    /// Cuts all of them, so that nobody waits for what will not come.
    pub fn cut(&self) {
        self.0.iter().flatten().for_each(|link| drop(link.shutdown(Shutdown::Both)));
    }
}

impl Mesh {
    /// `links` are those to all other ranks, in their order.
    pub fn new(rank: usize, links: Vec<TcpStream>) -> io::Result<Self> {
        for stream in &links {
            stream.set_nodelay(true)?;
            // Whoever watches over the processes ends what waits too long.
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
        }
        let mut links: Vec<_> = links.into_iter().map(Some).collect();
        links.insert(rank, None);
        Ok(Mesh { rank, world: links.len(), links: Arc::new(Links(links)) })
    }

    /// The connections, for whoever cuts them.
    pub fn links(&self) -> Arc<Links> {
        Arc::clone(&self.links)
    }

    /// The part of a list that this process owns.
    pub fn own(&self, len: usize) -> Range<usize> {
        part(len, self.rank, self.world)
    }

    fn link(&self, rank: usize) -> io::Result<&TcpStream> {
        let link = self.links.0.get(rank).and_then(Option::as_ref);
        link.ok_or_else(|| io::Error::other("no link to itself"))
    }

    /// The others, in the order in which this process sends to them: each begins with the next one, so that not all send to the same.
    fn others(&self) -> impl Iterator<Item = usize> + Clone {
        let Mesh { rank, world, .. } = *self;
        (1..world).map(move |step| (rank + step) % world)
    }

    /// Sends and receives beside each other: else every process would wait for the others.
    fn both<T>(
        &self,
        send: impl FnOnce() -> io::Result<()> + Send,
        receive: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        std::thread::scope(|scope| {
            let cut = |_: &io::Error| self.links.cut();
            let sender = scope.spawn(move || send().inspect_err(cut));
            let received = receive().inspect_err(cut);
            match sender.join() {
                Ok(sent) => received.and_then(|received| sent.map(|()| received)),
                Err(_) => Err(io::Error::other("the thread that sends has ended")),
            }
        })
    }

    /// A round: adds to `sum`, this process's part of the sum so far, what the first `givers` ranks give, in their order. `own` is
    /// what this process gives, if it is one of them; of the first round (`is_first`) there is no sum so far.
    pub fn add(
        &self,
        own: Option<&[f32]>,
        givers: usize,
        is_first: bool,
        len: usize,
        sum: &mut [f32],
    ) -> io::Result<()> {
        let longest = (0..self.world).map(|rank| part(len, rank, self.world).len()).max().unwrap_or(0);
        let send = || {
            let Some(own) = own else { return Ok(()) };
            let mut bytes = Vec::new();
            for first in (0..longest).step_by(CHUNK) {
                for owner in self.others() {
                    let numbers = &own[part(len, owner, self.world)];
                    write(self.link(owner)?, piece(numbers, first), &mut bytes)?;
                }
            }
            Ok(())
        };
        let mine = own.map(|own| &own[self.own(len)]);
        self.both(send, || {
            let mut bytes = Vec::new();
            for (index, sum) in sum.chunks_mut(CHUNK).enumerate() {
                for giver in 0..givers {
                    let is_new = is_first && giver == 0;
                    match mine.filter(|_| giver == self.rank) {
                        Some(mine) => {
                            let mine = piece(mine, index * CHUNK).iter().copied();
                            sum.iter_mut()
                                .zip(mine)
                                .for_each(|(sum, x)| *sum = if is_new { x } else { *sum + x });
                        }
                        None => read(self.link(giver)?, sum, &mut bytes, |sum, x| {
                            *sum = if is_new { x } else { *sum + x };
                        })?,
                    }
                }
            }
            Ok(())
        })
    }

    /// Gives all others this process's part of a list, and takes theirs.
    pub fn share(&self, list: &mut [f32]) -> io::Result<()> {
        let (len, own) = (list.len(), self.own(list.len()));
        let (before, rest) = list.split_at_mut(own.start);
        let (own, after) = rest.split_at_mut(own.len());
        let longest = (0..self.world).map(|rank| part(len, rank, self.world).len()).max().unwrap_or(0);
        let (own, end) = (&*own, len - after.len());
        let send = || {
            let mut bytes = Vec::new();
            for numbers in own.chunks(CHUNK) {
                to_bytes(numbers, &mut bytes);
                self.others().try_for_each(|other| self.link(other)?.write_all(&bytes))?;
            }
            Ok(())
        };
        self.both(send, || {
            let mut bytes = Vec::new();
            for first in (0..longest).step_by(CHUNK) {
                for other in (0..self.world).filter(|&other| other != self.rank) {
                    let Range { start, end: stop } = part(len, other, self.world);
                    let place = (start + first).min(stop)..(start + first + CHUNK).min(stop);
                    let numbers = match other < self.rank {
                        true => &mut before[place],
                        false => &mut after[place.start - end..place.end - end],
                    };
                    read(self.link(other)?, numbers, &mut bytes, |number, x| *number = x)?;
                }
            }
            Ok(())
        })
    }

    /// What each rank says, in the order of the ranks: `counts` numbers each, of which `own` are this process's.
    pub fn tell(&self, own: &[f64], counts: impl Fn(usize) -> usize) -> io::Result<Vec<f64>> {
        let send = || {
            let bytes: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.others().try_for_each(|other| self.link(other)?.write_all(&bytes))
        };
        self.both(send, || {
            let (mut said, mut bytes) = (Vec::new(), Vec::new());
            for rank in 0..self.world {
                if rank == self.rank {
                    said.extend(own);
                    continue;
                }
                bytes.resize(8 * counts(rank), 0);
                self.link(rank)?.read_exact(&mut bytes)?;
                said.extend(bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
            Ok(said)
        })
    }

    /// Gives another rank numbers.
    pub fn give(&self, rank: usize, numbers: &[f32]) -> io::Result<()> {
        let (link, mut bytes) = (self.link(rank)?, Vec::new());
        numbers.chunks(CHUNK).try_for_each(|numbers| write(link, numbers, &mut bytes))
    }

    /// Takes numbers of another rank.
    pub fn take(&self, rank: usize, numbers: &mut [f32]) -> io::Result<()> {
        let (link, mut bytes) = (self.link(rank)?, Vec::new());
        let mut pieces = numbers.chunks_mut(CHUNK);
        pieces.try_for_each(|numbers| read(link, numbers, &mut bytes, |number, x| *number = x))
    }

    /// Rank 0 calls all others to what they are to do.
    pub fn call(&self, what: u64) -> io::Result<()> {
        self.others().try_for_each(|other| self.link(other)?.write_all(&what.to_le_bytes()))
    }

    /// Waits for the call.
    pub fn hear(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.link(0)?.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The piece of a list that begins here; nothing beyond its end.
fn piece(numbers: &[f32], first: usize) -> &[f32] {
    &numbers[first.min(numbers.len())..(first + CHUNK).min(numbers.len())]
}

fn to_bytes(numbers: &[f32], bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn write(mut link: &TcpStream, numbers: &[f32], bytes: &mut Vec<u8>) -> io::Result<()> {
    to_bytes(numbers, bytes);
    link.write_all(bytes)
}

/// Reads as many numbers, and hands over each with its place.
fn read(
    mut link: &TcpStream,
    numbers: &mut [f32],
    bytes: &mut Vec<u8>,
    put: impl Fn(&mut f32, f32),
) -> io::Result<()> {
    bytes.resize(4 * numbers.len(), 0);
    link.read_exact(bytes)?;
    let read = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    numbers.iter_mut().zip(read).for_each(|(number, x)| put(number, x));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn meshes(world: usize) -> Vec<Mesh> {
        let mut links: Vec<Vec<TcpStream>> = (0..world).map(|_| Vec::new()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for low in 0..world {
            for high in low + 1..world {
                links[low].push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
                links[high].push(listener.accept().unwrap().0);
            }
        }
        links.into_iter().enumerate().map(|(rank, links)| Mesh::new(rank, links).unwrap()).collect()
    }

    /// Numbers whose sum depends on its order.
    fn list(rank: usize, len: usize) -> Vec<f32> {
        (0..len)
            .map(|index| ((index * 7919 + rank * 104_729) % 1000) as f32 * 1.1f32.powi(rank as i32))
            .collect()
    }

    #[test]
    fn parts_are_whole_blocks_and_even() {
        for world in [1, 2, 3, 4, 7, 64] {
            for len in [0, 1, NORM_BLOCK, 3 * NORM_BLOCK + 1, 1_000_003] {
                let parts: Vec<_> = (0..world).map(|rank| part(len, rank, world)).collect();
                assert_eq!((parts[0].start, parts[world - 1].end), (0, len));
                assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
                let fair = len / world;
                assert!(parts.iter().all(|part| part.start.is_multiple_of(NORM_BLOCK) || part.start == len));
                assert!(
                    parts.iter().all(|part| part.len().abs_diff(fair) <= 2 * NORM_BLOCK),
                    "{len} in {world}"
                );
            }
        }
    }

    /// Two rounds, of which the second has no numbers of the ranks from `silent` on; then parts are changed and shared.
    #[test]
    fn sums_are_those_of_the_ranks_in_order() {
        for (world, silent) in [(1, 1), (2, 2), (3, 3), (5, 5), (4, 2), (3, 1)] {
            // Less than a piece, several, and much more than sockets hold.
            for len in [0, 1, NORM_BLOCK + 1, CHUNK - 1, 2 * CHUNK + 1, 100 * CHUNK + 7] {
                let mut wanted = list(0, len);
                let more = (1..world)
                    .map(|rank| list(rank, len))
                    .chain((0..silent).map(|rank| list(rank + world, len)));
                more.for_each(|more| wanted.iter_mut().zip(more).for_each(|(sum, x)| *sum += x));
                wanted.iter_mut().for_each(|x| *x *= 0.5);
                std::thread::scope(|scope| {
                    for mesh in meshes(world) {
                        let wanted = &wanted;
                        scope.spawn(move || {
                            let (rank, own) = (mesh.rank, mesh.own(len));
                            let mut all = vec![0.0; len];
                            let sum = &mut all[own.clone()];
                            mesh.add(Some(&list(rank, len)), world, true, len, sum).unwrap();
                            let second = (rank < silent).then(|| list(rank + world, len));
                            mesh.add(second.as_deref(), silent, false, len, sum).unwrap();
                            let said = mesh.tell(&vec![rank as f64; rank], |rank| rank).unwrap();
                            let ranks = (0..world).flat_map(|rank| vec![rank as f64; rank]);
                            assert_eq!(said, ranks.collect::<Vec<_>>());
                            sum.iter_mut().for_each(|x| *x *= 0.5);
                            mesh.share(&mut all).unwrap();
                            assert_eq!(&all, wanted);
                            if rank == 0 {
                                mesh.call(17).unwrap();
                                for other in 1..world {
                                    mesh.give(other, &all[part(len, other, world)]).unwrap();
                                }
                                return;
                            }
                            assert_eq!(mesh.hear().unwrap(), 17);
                            let mut taken = vec![0.0; own.len()];
                            mesh.take(0, &mut taken).unwrap();
                            assert_eq!(taken, all[own]);
                        });
                    }
                });
            }
        }
    }

    #[test]
    fn who_loses_a_link_ends_and_so_do_those_who_wait_for_it() {
        let mut meshes = meshes(3);
        // Rank 2 goes without a word; the others have more for each other than sockets hold.
        meshes.pop();
        std::thread::scope(|scope| {
            for mesh in meshes {
                scope.spawn(move || {
                    let (list, len) = (vec![1.0; 100 * CHUNK], 100 * CHUNK);
                    assert!(
                        mesh.add(Some(&list), 3, true, len, &mut vec![0.0; mesh.own(len).len()]).is_err()
                    );
                });
            }
        });
    }
}
