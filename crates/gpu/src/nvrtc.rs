//! NVRTC, the compiler as a library: used where it is found, and not needed where it is not.

use crate::search::library_folders;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// NVRTC's names: what the loader takes for the machine's own, then the newest first.
#[cfg(not(windows))]
const NAMES: [&str; 3] = ["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];
#[cfg(windows)]
const NAMES: [&str; 2] = ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
/// What the names of the libraries that it opens itself have in them.
const PARTS: &str = "nvrtc-builtins";

/// A program that is compiled, which NVRTC knows by its address.
type Program = *mut c_void;
/// NVRTC's answer; 0 is success.
type Answer = c_int;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Answer;

/// All that is called of NVRTC, of a library that stays open.
struct Nvrtc {
    version: String,
    create: Create,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Answer,
    image_size: unsafe extern "C" fn(Program, *mut usize) -> Answer,
    image: unsafe extern "C" fn(Program, *mut c_char) -> Answer,
    destroy: unsafe extern "C" fn(*mut Program) -> Answer,
    _library: Library,
}

/// Looks for NVRTC once: its version, if it is there with all that is called of it.
pub(crate) fn find() -> Option<String> {
    Some(nvrtc()?.version.clone())
}

fn nvrtc() -> Option<&'static Nvrtc> {
    static FOUND: OnceLock<Option<Nvrtc>> = OnceLock::new();
    let look = || {
        // SAFETY: a library of NVRTC's name, which runs nothing of note when it is loaded.
        let known = NAMES.iter().filter_map(|name| unsafe { Library::new(*name) }.ok());
        known.filter_map(Nvrtc::of).next().or_else(|| {
            let folders = library_folders();
            let places = folders.iter().flat_map(|folder| NAMES.iter().map(move |name| (folder, name)));
            places.filter_map(|(folder, name)| Nvrtc::of(open(folder, name)?)).next()
        })
    };
    FOUND.get_or_init(look).as_ref()
}

impl Nvrtc {
    /// The functions of a library, if it has all of them.
    fn of(library: Library) -> Option<Nvrtc> {
        // SAFETY: NVRTC's functions as its header declares them, the same in CUDA 12 and 13; the first sets two numbers.
        unsafe {
            let version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Answer =
                *library.get(b"nvrtcVersion").ok()?;
            let (mut major, mut minor) = (0, 0);
            let answer = version(&mut major, &mut minor);
            (answer == 0).then_some(())?;
            Some(Nvrtc {
                version: format!("{major}.{minor}"),
                create: *library.get(b"nvrtcCreateProgram").ok()?,
                compile: *library.get(b"nvrtcCompileProgram").ok()?,
                image_size: *library.get(b"nvrtcGetCUBINSize").ok()?,
                image: *library.get(b"nvrtcGetCUBIN").ok()?,
                destroy: *library.get(b"nvrtcDestroyProgram").ok()?,
                _library: library,
            })
        }
    }

    /// # Safety
    ///
    /// The program was made and is not destroyed.
    unsafe fn cubin(&self, program: Program, options: &[String]) -> Option<Vec<u8>> {
        let options: Vec<CString> =
            options.iter().map(|option| CString::new(&**option).ok()).collect::<Option<_>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: as many options as there are, each ending in 0; the program lives.
        if unsafe { (self.compile)(program, pointers.len() as c_int, pointers.as_ptr()) } != 0 {
            return None;
        }
        let mut size = 0;
        // SAFETY: the program is compiled.
        if unsafe { (self.image_size)(program, &mut size) } != 0 || size == 0 {
            return None;
        }
        let mut image = vec![0u8; size];
        // SAFETY: as many bytes as NVRTC asked for.
        (unsafe { (self.image)(program, image.as_mut_ptr().cast()) } == 0).then_some(image)
    }
}

/// Opens a library in a folder, after those that NVRTC itself looks for by their names alone, which stay open.
fn open(folder: &Path, name: &str) -> Option<Library> {
    let path = folder.join(name);
    if !path.is_file() {
        return None;
    }
    let beside = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_needed =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains(PARTS));
    for path in beside.filter(is_needed) {
        // SAFETY: a library of NVRTC's, which runs nothing of note when it is loaded.
        std::mem::forget(unsafe { Library::new(&path) }.ok()?);
    }
    // SAFETY: as above.
    unsafe { Library::new(&path) }.ok()
}

/// All that NVRTC is told: the chip (90 is compute capability 9.0), the language, and these.
pub(crate) fn options(chip: i32, more: &[&str]) -> Vec<String> {
    // As `make-ptx` compiles, but for the chip itself.
    let first = [format!("--gpu-architecture=sm_{chip}"), "--std=c++17".into()];
    first.into_iter().chain(more.iter().map(|option| option.to_string())).collect()
}

/// A source compiled with these options; None if there is no NVRTC, or it cannot, for example because it is older than the chip.
pub(crate) fn compile(source: &str, options: &[String]) -> Option<Vec<u8>> {
    let nvrtc = nvrtc()?;
    let source = CString::new(source).ok()?;
    let mut program = std::ptr::null_mut();
    // SAFETY: a text that ends in 0, which NVRTC copies; no name and no headers.
    let answer = unsafe {
        let none = std::ptr::null();
        (nvrtc.create)(&mut program, source.as_ptr(), none, 0, std::ptr::null(), std::ptr::null())
    };
    if answer != 0 {
        return None;
    }
    // SAFETY: made above.
    let image = unsafe { nvrtc.cubin(program, options) };
    // SAFETY: made above, destroyed once.
    unsafe { (nvrtc.destroy)(&mut program) };
    image
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
