//! The hashes that the hub names files by.

use ring::digest;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What kind of hash an ETag is, if any.
pub(super) fn algorithm(etag: &str) -> Option<&'static digest::Algorithm> {
    match etag.len() {
        _ if !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) => None,
        64 => Some(&digest::SHA256),
        40 => Some(&digest::SHA1_FOR_LEGACY_USE_ONLY),
        _ => None,
    }
}

/// The hash of a file, of the kind that its ETag is.
pub(super) fn hash(path: &Path, etag: &str, size: u64) -> io::Result<Option<String>> {
    let Some(algorithm) = algorithm(etag) else { return Ok(None) };
    let mut hasher = digest::Context::new(algorithm);
    if algorithm == &digest::SHA1_FOR_LEGACY_USE_ONLY {
        // Git hashes a file behind what it is and how long.
        hasher.update(format!("blob {size}\0").as_bytes());
    }
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hasher.update(&buffer[..count]),
        }
    }
    let hash = hasher.finish();
    Ok(Some(hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()))
}
