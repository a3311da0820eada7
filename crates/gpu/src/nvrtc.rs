//! NVRTC, the compiler as a library: used where it is found, and not needed where it is not.

use crate::search::library_folders;
use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};
use libloading::Library;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// NVRTC's names, newest first.
#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
/// What the names of the libraries that it opens itself have in them.
const PARTS: &str = "nvrtc-builtins";

/// All that is called of it.
const FUNCTIONS: [&str; 6] = [
    "nvrtcVersion",
    "nvrtcCreateProgram",
    "nvrtcCompileProgram",
    "nvrtcGetCUBINSize",
    "nvrtcGetCUBIN",
    "nvrtcDestroyProgram",
];

/// Looks for NVRTC once: its version, if it is there with all that is called of it.
pub(crate) fn find() -> Option<String> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let look = || {
        // SAFETY: opens a library by the name of NVRTC's, then asks for names in it without calling them.
        let there = unsafe {
            (sys::is_culib_present() || open_elsewhere() && sys::is_culib_present())
                && FUNCTIONS.iter().all(|name| sys::culib().get::<*const ()>(name.as_bytes()).is_ok())
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the function is there and sets two numbers.
        if !there || unsafe { sys::nvrtcVersion(&mut major, &mut minor) } != nvrtcResult::NVRTC_SUCCESS {
            return None;
        }
        Some(format!("{major}.{minor}"))
    };
    FOUND.get_or_init(look).clone()
}

/// Opens NVRTC where the loader does not look, for good: from then on the loader knows it by its name.
fn open_elsewhere() -> bool {
    library_folders().iter().any(|folder| NAMES.iter().any(|name| open(folder, name)))
}

/// Opens a library in a folder, after those that NVRTC itself looks for by their names alone.
fn open(folder: &Path, name: &str) -> bool {
    let path = folder.join(name);
    if !path.is_file() {
        return false;
    }
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_needed =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTS));
    for path in beside.filter(is_needed).chain([path.clone()]) {
        // SAFETY: libraries of NVRTC's names, which run nothing of note when they are loaded.
        match unsafe { Library::new(&path) } {
            Ok(library) => std::mem::forget(library),
            Err(_) => return false,
        }
    }
    true
}

/// All that NVRTC is told: the chip (90 is compute capability 9.0), the language, and these.
pub(crate) fn options(chip: i32, more: &[&str]) -> Vec<String> {
    // As `make-ptx` compiles, but for the chip itself.
    let first = [format!("--gpu-architecture=sm_{chip}"), "--std=c++17".into()];
    first.into_iter().chain(more.iter().map(|option| option.to_string())).collect()
}

/// A source compiled with these options; None if NVRTC cannot, for example because it is older than the chip. `find` has
/// found it.
pub(crate) fn compile(source: &str, options: &[String]) -> Option<Vec<u8>> {
    let source = CString::new(source).ok()?;
    let mut program = std::ptr::null_mut();
    // SAFETY: a text that ends in 0, which NVRTC copies; no name and no headers.
    let result = unsafe {
        let none = std::ptr::null();
        sys::nvrtcCreateProgram(&mut program, source.as_ptr(), none, 0, std::ptr::null(), std::ptr::null())
    };
    if result != nvrtcResult::NVRTC_SUCCESS {
        return None;
    }
    // SAFETY: made above.
    let image = unsafe { cubin(program, options) };
    // SAFETY: made above, destroyed once.
    unsafe { sys::nvrtcDestroyProgram(&mut program) };
    image
}

/// # Safety
///
/// The program was made and is not destroyed.
unsafe fn cubin(program: nvrtcProgram, options: &[String]) -> Option<Vec<u8>> {
    let options: Vec<CString> =
        options.iter().map(|option| CString::new(&**option).ok()).collect::<Option<_>>()?;
    let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: as many options as there are, each ending in 0; the program lives.
    let result = unsafe { sys::nvrtcCompileProgram(program, pointers.len() as i32, pointers.as_ptr()) };
    if result != nvrtcResult::NVRTC_SUCCESS {
        return None;
    }
    let mut size = 0;
    // SAFETY: the program is compiled.
    if unsafe { sys::nvrtcGetCUBINSize(program, &mut size) } != nvrtcResult::NVRTC_SUCCESS || size == 0 {
        return None;
    }
    let mut image = vec![0u8; size];
    // SAFETY: as many bytes as NVRTC asked for.
    let result = unsafe { sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) };
    (result == nvrtcResult::NVRTC_SUCCESS).then_some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where NVRTC is found it compiles, without a GPU; what it cannot compile is no image.
    #[test]
    fn what_is_found_compiles() {
        let Some(version) = find() else { return println!("skipped: no NVRTC") };
        let kernel = "extern \"C\" __global__ void twice(float *x) { x[threadIdx.x] *= 2; }";
        assert!(compile(kernel, &options(80, &[])).is_some_and(|image| !image.is_empty()), "NVRTC {version}");
        assert_eq!(compile("no kernel", &options(80, &[])), None);
    }
}
