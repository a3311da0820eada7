//! cuDNN's library: looked for when an attention first asks for it. Nothing is linked, and nothing needs it.

use crate::error::{Error, Result};
use libloading::Library as Loaded;
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// cuDNN's names. On Windows it is not looked for.
#[cfg(not(windows))]
const NAMES: [&str; 1] = ["libcudnn.so.9"];
#[cfg(windows)]
const NAMES: [&str; 0] = [];

/// The oldest version that is used, 9.16.0: before it, keys had to be padded to whole tiles on the way back.
const OLDEST: usize = 91_600;

/// The variable that says whether cuDNN is used, and how.
const SWITCH: &str = "ROFORMER_CUDNN";

/// Whether sums on the way back have an order, and so the same bits each time: unless the variable says `unordered`.
pub(super) fn is_ordered() -> bool {
    std::env::var_os(SWITCH).is_none_or(|value| value != "unordered")
}

/// A handle or a descriptor: pointers to what only the library knows.
pub(super) type Opaque = *mut c_void;

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The library, and all that is called of it. Every function returns 0, or a status.
        pub(super) struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> i32,)*
            version: unsafe extern "C" fn() -> usize,
            runtime: unsafe extern "C" fn() -> usize,
            status: unsafe extern "C" fn(i32) -> *const c_char,
            latest: unsafe extern "C" fn(*mut c_char, usize),
            /// Never closed: what it left with the threads that used it must find its code when they end.
            _library: ManuallyDrop<Loaded>,
        }

        impl Library {
            /// The library at a path, or of a name that the loader knows.
            fn open(path: &Path) -> Option<Library> {
                // SAFETY: a library of cuDNN's name, which runs nothing of note when it is loaded. The functions have had
                // these forms since cuDNN 9.0.
                unsafe {
                    let library = Loaded::new(path).ok()?;
                    Some(Library {
                        $($field: *library.get($name).ok()?,)*
                        version: *library.get(b"cudnnGetVersion\0").ok()?,
                        runtime: *library.get(b"cudnnGetCudartVersion\0").ok()?,
                        status: *library.get(b"cudnnGetErrorString\0").ok()?,
                        latest: *library.get(b"cudnnGetLastErrorString\0").ok()?,
                        _library: ManuallyDrop::new(library),
                    })
                }
            }
        }
    };
}

functions! {
    create = b"cudnnCreate\0": fn(*mut Opaque);
    destroy = b"cudnnDestroy\0": fn(Opaque);
    set_stream = b"cudnnSetStream\0": fn(Opaque, Opaque);
    descriptor_create = b"cudnnBackendCreateDescriptor\0": fn(i32, *mut Opaque);
    descriptor_set = b"cudnnBackendSetAttribute\0": fn(Opaque, i32, i32, i64, *const c_void);
    descriptor_get = b"cudnnBackendGetAttribute\0": fn(Opaque, i32, i32, i64, *mut i64, *mut c_void);
    descriptor_finish = b"cudnnBackendFinalize\0": fn(Opaque);
    descriptor_destroy = b"cudnnBackendDestroyDescriptor\0": fn(Opaque);
    execute = b"cudnnBackendExecute\0": fn(Opaque, Opaque, Opaque);
}

impl Library {
    /// The first that is found and can be used beside a cuBLASLt of this version of CUDA; else why there is none.
    pub fn find(cuda: usize) -> std::result::Result<Library, String> {
        if std::env::var_os(SWITCH).is_some_and(|value| value == "off") {
            return Err(format!("cuDNN is not used: {SWITCH} is off"));
        }
        Library::among(&candidates(), cuda)
    }

    /// The first that is found, whatever cuBLASLt there is: it is not called.
    #[cfg(test)]
    pub fn find_any() -> Option<Library> {
        candidates().iter().find_map(|path| Library::open(path))
    }

    fn among(paths: &[PathBuf], cuda: usize) -> std::result::Result<Library, String> {
        let mut refused = None;
        for library in paths.iter().filter_map(|path| Library::open(path)) {
            // SAFETY: both take nothing, and open nothing else.
            let (version, runtime) = unsafe { ((library.version)(), (library.runtime)()) };
            match check(version, runtime, cuda) {
                Ok(()) => return Ok(library),
                Err(why) => _ = refused.get_or_insert(why),
            }
        }
        Err(refused.unwrap_or_else(|| "cuDNN is not found".into()))
    }

    /// An error for a status that is one.
    pub fn check(&self, what: &str, status: i32) -> Result<()> {
        match status {
            0 => Ok(()),
            _ => Err(Error::Device(format!("{what} failed in cuDNN: {}", self.words(status)))),
        }
    }

    /// What a status means, and what the library has said of it.
    fn words(&self, status: i32) -> String {
        let mut said = [0u8; 1024];
        // SAFETY: the library gives a text of its own for any number, and writes no more bytes than there are.
        let text = unsafe {
            (self.latest)(said.as_mut_ptr().cast(), said.len());
            (self.status)(status)
        };
        let name = if text.is_null() {
            format!("status {status}")
        } else {
            // SAFETY: a text that ends in 0 and stays.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        match CStr::from_bytes_until_nul(&said) {
            Ok(more) if !more.is_empty() => format!("{name}: {}", more.to_string_lossy().trim()),
            _ => name,
        }
    }

    /// Its name and version.
    pub fn origin(&self) -> String {
        // SAFETY: takes nothing.
        let version = unsafe { (self.version)() };
        format!("cuDNN {}", spelt(version))
    }
}

/// 91900 is 9.19.0.
fn spelt(version: usize) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

/// Whether a version can be used. `runtime` is the CUDA runtime within it, `cuda` the version of CUDA that cuBLASLt is of: cuDNN
/// calls the cuBLASLt of its own version, and ends the process if that is not there.
fn check(version: usize, runtime: usize, cuda: usize) -> std::result::Result<(), String> {
    let name = spelt(version);
    let own = runtime / 1000;
    match (version < OLDEST, own == cuda) {
        (true, _) => Err(format!("cuDNN {name} is too old, and {} is needed", spelt(OLDEST))),
        (_, false) => Err(format!("cuDNN {name} is for CUDA {own}, and cuBLASLt is of CUDA {cuda}")),
        _ => Ok(()),
    }
}

/// Where the library may be: in Python packages, then in the toolkit, then where the loader looks. Packages come first because they
/// are the newest as a rule, and of two versions only the first that is opened can be used: it opens parts of its own by their
/// names alone, and finds those of the other where that was opened before.
fn candidates() -> Vec<PathBuf> {
    let is_package = |folder: &PathBuf| {
        folder.components().any(|part| part.as_os_str().to_string_lossy().ends_with("-packages"))
    };
    let (packages, others): (Vec<_>, Vec<_>) = gpu::library_folders().into_iter().partition(is_package);
    let folders = packages.into_iter().chain(others);
    let found = folders.flat_map(|folder| NAMES.map(|name| folder.join(name))).filter(|path| path.is_file());
    found.chain(NAMES.iter().map(PathBuf::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_says_why() {
        let nowhere = [PathBuf::from("/nowhere/libcudnn.so.9"), PathBuf::from("libcudnn-of-nobody.so")];
        assert_eq!(Library::among(&nowhere, 13).err().as_deref(), Some("cuDNN is not found"));
        assert_eq!(check(91_900, 13_010, 13), Ok(()));
        assert_eq!(check(91_600, 12_090, 12), Ok(()));
        assert_eq!(check(91_501, 13_000, 13), Err("cuDNN 9.15.1 is too old, and 9.16.0 is needed".into()));
        assert_eq!(
            check(91_900, 12_090, 13),
            Err("cuDNN 9.19.0 is for CUDA 12, and cuBLASLt is of CUDA 13".into())
        );
    }
}
