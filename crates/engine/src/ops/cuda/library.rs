//! cuBLASLt: looked for when the first device for models is asked for; nothing is linked.

use crate::error::Error;
use libloading::Library as Loaded;
use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// cuBLASLt's names, newest first.
#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["cublasLt64_13.dll", "cublasLt64_12.dll"];

/// A handle, a descriptor, a layout or a preference: all are pointers to what only the library knows.
pub(super) type Opaque = *mut c_void;

/// An algorithm that the library proposes (`cublasLtMatmulHeuristicResult_t`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Proposal {
    pub algorithm: [u64; 8],
    pub workspace: usize,
    pub state: i32,
    pub waves: f32,
    pub reserved: [i32; 4],
}

macro_rules! functions {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The library, and all that is called of it. Every function returns 0, or a status.
        pub(super) struct Library {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> i32,)*
            version: unsafe extern "C" fn() -> usize,
            status: unsafe extern "C" fn(i32) -> *const c_char,
            path: String,
            /// Never closed: threads that have used it may outlive this, and what it left with them must find its code when they end.
            _library: ManuallyDrop<Loaded>,
        }

        impl Library {
            /// The library at a path, or of a name that the loader knows.
            fn open(path: &Path) -> Option<Library> {
                // SAFETY: a library of cuBLASLt's name, which runs nothing of note when it is loaded. The functions have had
                // these forms since CUDA 11.
                unsafe {
                    let library = Loaded::new(path).ok()?;
                    Some(Library {
                        $($field: *library.get($name).ok()?,)*
                        version: *library.get(b"cublasLtGetVersion\0").ok()?,
                        status: *library.get(b"cublasLtGetStatusString\0").ok()?,
                        path: path.display().to_string(),
                        _library: ManuallyDrop::new(library),
                    })
                }
            }
        }
    };
}

functions! {
    create = b"cublasLtCreate\0": fn(*mut Opaque);
    destroy = b"cublasLtDestroy\0": fn(Opaque);
    descriptor_create = b"cublasLtMatmulDescCreate\0": fn(*mut Opaque, i32, i32);
    descriptor_set = b"cublasLtMatmulDescSetAttribute\0": fn(Opaque, i32, *const c_void, usize);
    descriptor_destroy = b"cublasLtMatmulDescDestroy\0": fn(Opaque);
    layout_create = b"cublasLtMatrixLayoutCreate\0": fn(*mut Opaque, i32, u64, u64, i64);
    layout_destroy = b"cublasLtMatrixLayoutDestroy\0": fn(Opaque);
    preference_create = b"cublasLtMatmulPreferenceCreate\0": fn(*mut Opaque);
    preference_set = b"cublasLtMatmulPreferenceSetAttribute\0": fn(Opaque, i32, *const c_void, usize);
    preference_destroy = b"cublasLtMatmulPreferenceDestroy\0": fn(Opaque);
    heuristic = b"cublasLtMatmulAlgoGetHeuristic\0":
        fn(Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, i32, *mut Proposal, *mut i32);
    check = b"cublasLtMatmulAlgoCheck\0":
        fn(Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, *const u64, *mut Proposal);
    multiply = b"cublasLtMatmul\0":
        fn(Opaque, Opaque, *const c_void, u64, Opaque, u64, Opaque, *const c_void, u64, Opaque, u64, Opaque,
           *const u64, u64, usize, Opaque);
}

impl Library {
    /// The first that can be opened and starts, with its handle. A context is current.
    pub fn find() -> Result<(Library, Opaque), Error> {
        let mut refused = None;
        for path in candidates() {
            let Some(library) = Library::open(&path) else { continue };
            let mut handle = std::ptr::null_mut();
            // SAFETY: a context is current.
            match unsafe { (library.create)(&mut handle) } {
                0 => return Ok((library, handle)),
                // Newer than the driver, for example; an older one may do.
                status => {
                    _ = refused.get_or_insert(format!(
                        "{} does not start: {}",
                        library.path,
                        library.words(status)
                    ))
                }
            }
        }
        Err(Error::Device(refused.unwrap_or_else(|| {
            "cuBLASLt is not found, which models on a GPU need: install the CUDA toolkit's libcublas, or the Python package \
             nvidia-cublas (nvidia-cublas-cu12 for CUDA 12), or add its folder to the loader's path; or use the CPU"
                .into()
        })))
    }

    /// What a status means.
    pub fn words(&self, status: i32) -> String {
        // SAFETY: the library gives a text of its own for any number.
        let text = unsafe { (self.status)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: a text that ends in 0 and stays.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// The version of CUDA that it is of.
    pub fn cuda(&self) -> usize {
        self.version() / 10_000
    }

    fn version(&self) -> usize {
        // SAFETY: takes nothing.
        unsafe { (self.version)() }
    }

    /// Its name and version.
    pub fn origin(&self) -> String {
        let version = self.version();
        // 120402 is 12.4.2.
        format!("cuBLASLt {}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }
}

/// Whether the library is there, whatever it can do; then it stays open.
#[cfg(test)]
pub(super) fn is_there() -> bool {
    candidates().iter().any(|path| Library::open(path).is_some())
}

/// Where the library may be: where the loader looks, then the toolkit, then Python packages.
fn candidates() -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    for folder in gpu::library_folders() {
        all.extend(NAMES.iter().map(|name| folder.join(name)).filter(|path| path.is_file()));
    }
    all
}
