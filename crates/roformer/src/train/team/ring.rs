//! Sums over processes, in one order.
//!
//! Every process sends to the next one and receives from the one before, the last sends to the first. A sum begins at rank 0
//! and goes round once, each rank adding what it has: rank 0's number first, then rank 1's and so on, whatever arrives when.
//! That is where the order is fixed. What all are to have then goes from rank 0 along the ring. Long lists go in pieces, so
//! that all links work at once: each carries a list twice a step, on any number of processes.

use super::wire::CHUNK;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The links of a process.
pub(super) struct Ring {
    pub rank: usize,
    pub world: usize,
    pub before: TcpStream,
    pub next: TcpStream,
    /// A piece of a list as bytes.
    pub bytes: Vec<u8>,
}

impl Ring {
    pub fn new(rank: usize, world: usize, before: TcpStream, next: TcpStream) -> io::Result<Self> {
        for stream in [&before, &next] {
            stream.set_nodelay(true)?;
            // Whoever watches over the processes ends what waits too long.
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(None)?;
        }
        Ok(Ring { rank, world, before, next, bytes: vec![0; 4 * CHUNK] })
    }

    /// Rank 0's part of a round: `own` plus what the others add, in the order of their ranks, and the same of a number.
    pub fn lead(&mut self, number: f64, own: &[f32], sum: &mut [f32]) -> io::Result<f64> {
        let Ring { before, next, bytes, .. } = self;
        std::thread::scope(|scope| {
            // What comes back is read while more is sent: else every process would wait for the next one.
            let sender = scope.spawn(move || {
                next.write_all(&number.to_le_bytes())?;
                write(next, own, &mut vec![0; 4 * CHUNK])
            });
            let total = read_number(before)?;
            for piece in sum.chunks_mut(CHUNK) {
                let bytes = &mut bytes[..4 * piece.len()];
                before.read_exact(bytes)?;
                piece
                    .iter_mut()
                    .zip(bytes.as_chunks::<4>().0)
                    .for_each(|(x, bytes)| *x = f32::from_le_bytes(*bytes));
            }
            match sender.join() {
                Ok(sent) => sent.map(|()| total),
                Err(_) => Err(io::Error::other("the thread that sends has ended")),
            }
        })
    }

    /// Another rank's part of a round: passes the sum on, with its own added if it has any, in `len` numbers.
    pub fn follow(&mut self, own: Option<(f64, &[f32])>, len: usize) -> io::Result<()> {
        let total = read_number(&mut self.before)?;
        let total = own.map_or(total, |(number, _)| total + number);
        self.next.write_all(&total.to_le_bytes())?;
        for first in (0..len).step_by(CHUNK) {
            let count = CHUNK.min(len - first);
            let bytes = &mut self.bytes[..4 * count];
            self.before.read_exact(bytes)?;
            if let Some((_, own)) = own {
                for (bytes, own) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(&own[first..]) {
                    *bytes = (f32::from_le_bytes(*bytes) + own).to_le_bytes();
                }
            }
            self.next.write_all(bytes)?;
        }
        Ok(())
    }

    /// Gives all others rank 0's numbers.
    pub fn give(&mut self, numbers: &[f32]) -> io::Result<()> {
        write(&mut self.next, numbers, &mut self.bytes)
    }

    /// Takes them, and passes them on.
    pub fn take(&mut self, numbers: &mut [f32]) -> io::Result<()> {
        for piece in numbers.chunks_mut(CHUNK) {
            let bytes = &mut self.bytes[..4 * piece.len()];
            self.before.read_exact(bytes)?;
            if self.rank + 1 < self.world {
                self.next.write_all(bytes)?;
            }
            piece
                .iter_mut()
                .zip(bytes.as_chunks::<4>().0)
                .for_each(|(x, bytes)| *x = f32::from_le_bytes(*bytes));
        }
        Ok(())
    }

    /// Calls all others to a step.
    pub fn call(&mut self, step: u64) -> io::Result<()> {
        self.next.write_all(&step.to_le_bytes())
    }

    /// Waits for the call to a step, and passes it on.
    pub fn hear(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.before.read_exact(&mut bytes)?;
        if self.rank + 1 < self.world {
            self.next.write_all(&bytes)?;
        }
        Ok(u64::from_le_bytes(bytes))
    }
}

fn read_number(stream: &mut TcpStream) -> io::Result<f64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(f64::from_le_bytes(bytes))
}

fn write(stream: &mut TcpStream, numbers: &[f32], bytes: &mut [u8]) -> io::Result<()> {
    for piece in numbers.chunks(CHUNK) {
        let bytes = &mut bytes[..4 * piece.len()];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(piece).for_each(|(bytes, x)| *bytes = x.to_le_bytes());
        stream.write_all(bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn rings(world: usize) -> Vec<Ring> {
        let listeners: Vec<_> = (0..world).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let next = |rank: usize| listeners[(rank + 1) % world].local_addr().unwrap();
        let out: Vec<_> = (0..world).map(|rank| TcpStream::connect(next(rank)).unwrap()).collect();
        let each = out.into_iter().enumerate();
        each.map(|(rank, next)| Ring::new(rank, world, listeners[rank].accept().unwrap().0, next).unwrap())
            .collect()
    }

    /// Numbers whose sum depends on its order.
    fn list(rank: usize, len: usize) -> Vec<f32> {
        (0..len)
            .map(|index| ((index * 7919 + rank * 104_729) % 1000) as f32 * 1.1f32.powi(rank as i32))
            .collect()
    }

    #[test]
    fn sums_are_those_of_the_ranks_in_order() {
        for (world, silent) in [(2, 9), (3, 9), (5, 9), (4, 2)] {
            // Less than a piece, several, and much more than sockets hold.
            for len in [0, 1, CHUNK - 1, CHUNK + 1, 40 * CHUNK + 7] {
                let mut wanted = list(0, len);
                for rank in (1..world).filter(|&rank| rank < silent) {
                    wanted.iter_mut().zip(list(rank, len)).for_each(|(sum, x)| *sum += x);
                }
                let number: f64 =
                    (0..world).filter(|&rank| rank < silent).map(|rank| 0.1 * rank as f64).sum();
                std::thread::scope(|scope| {
                    for mut ring in rings(world) {
                        let wanted = &wanted;
                        scope.spawn(move || {
                            let (rank, own) = (ring.rank, list(ring.rank, len));
                            let mut taken = vec![0.0; len];
                            if rank == 0 {
                                let mut sum = vec![0.0; len];
                                assert_eq!(ring.lead(0.0, &own, &mut sum).unwrap(), number);
                                assert_eq!(&sum, wanted);
                                ring.call(17).unwrap();
                                ring.give(&sum).unwrap();
                                return;
                            }
                            let given = (rank < silent).then_some((0.1 * rank as f64, &own[..]));
                            ring.follow(given, len).unwrap();
                            assert_eq!(ring.hear().unwrap(), 17);
                            ring.take(&mut taken).unwrap();
                            assert_eq!(&taken, wanted);
                        });
                    }
                });
            }
        }
    }
}
