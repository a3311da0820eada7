//! Messages between processes: bounded, and never waited for without an end.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What every connection begins with: other programs are told apart, and other versions of these messages.
pub(super) const MAGIC: [u8; 8] = *b"rofteam2";

/// The most bytes of a message while processes meet.
const MOST: usize = 1 << 22;

/// Numbers that are sent at a time: long enough for a network, short enough that sums are made while more is on the way.
pub(super) const CHUNK: usize = 1 << 15;

/// Sends a message.
pub(super) fn send(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len()).ok().filter(|&length| length as usize <= MOST);
    let length =
        length.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "a message that is too long"))?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(message)
}

/// Receives a message that must be whole before the deadline.
pub(super) fn receive(stream: &mut TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    fill(stream, &mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > MOST {
        return Err(io::Error::new(ErrorKind::InvalidData, "a message that is too long"));
    }
    let mut message = vec![0; length];
    fill(stream, &mut message, deadline)?;
    Ok(message)
}

/// Reads as many bytes as there is room for, before the deadline.
pub(super) fn fill(stream: &mut TcpStream, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if is_pause(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether nothing is wrong, and nothing has come.
pub(super) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
