//! What is kept on disk: compiled kernels, a file for each source and each way of compiling it, and what was chosen by measuring.

use std::path::{Path, PathBuf};

/// All that a compiled kernel depends on.
pub(crate) struct Key<'a> {
    pub source: &'a str,
    /// All options that the compiler is given, the chip among them.
    pub options: &'a [String],
    /// The compiler's version.
    pub compiler: &'a str,
    /// The chip: 90 is compute capability 9.0.
    pub chip: i32,
    /// The CUDA version of the driver, which the result is loaded by: 12040 is 12.4.
    pub driver: i32,
}

impl Key<'_> {
    /// The name of its file.
    fn name(&self) -> String {
        let Key { source, options, compiler, chip, driver } = self;
        // No option has a 0 in it, so other options are another text.
        let options = fnv(options.join("\0").as_bytes());
        let source = fnv(source.as_bytes());
        format!("{source:016x}-{options:016x}-sm_{chip}-driver_{driver}-nvrtc_{compiler}.cubin")
    }

    /// Its file in the user's cache folder.
    pub fn path(&self) -> Option<PathBuf> {
        Some(folder()?.join(self.name()))
    }
}

/// The user's cache folder.
fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Some(folder.or_else(|| set("LOCALAPPDATA"))?.join("roformer").join("cuda"))
}

/// A file of the cache, if it is whole: its last 8 bytes are the hash of the others.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let mut image = std::fs::read(path).ok()?;
    let hash = image.split_off(image.len().checked_sub(8)?);
    (hash == fnv(&image).to_le_bytes() && !image.is_empty()).then_some(image)
}

/// Writes a file of the cache beside its name and then under it, so that no other process reads half of it.
pub(crate) fn write(path: &Path, image: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let beside = path.with_extension(format!("{}.part", std::process::id()));
    let written = std::fs::write(&beside, [image, &fnv(image).to_le_bytes()].concat());
    let written = written.and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// What was chosen under a name.
pub fn chosen(name: &str) -> Option<Vec<u8>> {
    read(&folder()?.join(name))
}

/// Keeps a choice under a name, unless another is kept there already: the choice that holds from now on, for every process; `None`
/// where none can be kept.
pub fn choose(name: &str, choice: &[u8]) -> Option<Vec<u8>> {
    keep(&folder()?.join(name), choice)
}

fn keep(path: &Path, choice: &[u8]) -> Option<Vec<u8>> {
    let own = path.with_extension(format!("{}.own", std::process::id()));
    write(&own, choice).ok()?;
    // Of several processes, the first makes the name.
    let is_first = std::fs::hard_link(&own, path);
    let _ = std::fs::remove_file(&own);
    match is_first {
        Ok(()) => Some(choice.to_vec()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => match read(path) {
            Some(kept) => Some(kept),
            // A damaged one is nobody's.
            None => write(path, choice).ok().map(|()| choice.to_vec()),
        },
        Err(_) => None,
    }
}

/// FNV-1a of 64 bits, as `make-ptx` has it: tells sources apart that nobody made alike on purpose.
pub fn fnv(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_changes_the_kernels_changes_the_file() {
        let list = |options: &[&str]| options.iter().map(|option| option.to_string()).collect::<Vec<_>>();
        let options = list(&["--std=c++17", "--fmad=false"]);
        let key = || Key { source: "kernel", options: &options, compiler: "12.8", chip: 90, driver: 12080 };
        let others = [list(&["--std=c++17"]), list(&["--std=c++17", "--fmad=true"]), list(&[])];
        let mut names = vec![key().name()];
        names.extend(others.iter().map(|options| Key { options, ..key() }.name()));
        names.push(Key { source: "kernels", ..key() }.name());
        names.push(Key { compiler: "12.9", ..key() }.name());
        names.push(Key { chip: 80, ..key() }.name());
        names.push(Key { driver: 12090, ..key() }.name());
        assert_eq!(key().name(), names[0]);
        let different: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:#?}");
    }

    #[test]
    fn a_damaged_file_of_the_cache_is_not_read() {
        let folder = std::env::temp_dir().join(format!("rope-gpu-cache-{}", std::process::id()));
        let path = folder.join("kernels.cubin");
        assert_eq!(read(&path), None);
        write(&path, b"kernels").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"kernels"[..]));
        let whole = std::fs::read(&path).unwrap();
        for damaged in [&whole[..0], &whole[..7], &whole[1..], &whole[..whole.len() - 1]] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path), None, "{damaged:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_first_choice_is_everyones() {
        let folder = std::env::temp_dir().join(format!("rope-gpu-choice-{}", std::process::id()));
        let path = folder.join("one.choice");
        assert_eq!(keep(&path, b"first").as_deref(), Some(&b"first"[..]));
        assert_eq!(keep(&path, b"second").as_deref(), Some(&b"first"[..]));
        std::fs::write(&path, b"damaged, and longer than a hash").unwrap();
        assert_eq!(keep(&path, b"third").as_deref(), Some(&b"third"[..]));
        assert_eq!(read(&path).as_deref(), Some(&b"third"[..]));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
        // Where nothing can be kept, nothing is chosen.
        assert_eq!(keep(Path::new("/dev/null/one.choice"), b"first"), None);
    }
}
