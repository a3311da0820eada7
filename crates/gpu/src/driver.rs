//! The driver's library: looked for before anything of it is called, and its answers as errors.

use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUresult};
use libloading::Library;
use std::ffi::CStr;
use std::sync::OnceLock;

/// The oldest CUDA version that a driver may support: what the kernels' PTX is written in.
const OLDEST: i32 = 12000;

/// The names of the driver's library, which cudarc looks for too.
#[cfg(not(windows))]
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];
#[cfg(windows)]
const NAMES: [&str; 1] = ["nvcuda.dll"];

/// Looks for the driver once: its library, its version, whether it starts. The CUDA version it supports, as 12040.
pub(crate) fn driver() -> Result<i32> {
    static FOUND: OnceLock<std::result::Result<i32, String>> = OnceLock::new();
    FOUND.get_or_init(find).clone().map_err(Error::NoDevice)
}

/// The driver's library, where it is installed: a call of one that is not there would end the process, and cudarc can tell only in programs
/// that do not link to it.
pub(crate) fn library() -> Option<&'static Library> {
    static OPEN: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: opens a library by the name of the driver's, which runs what the driver runs when it is loaded.
    let open = || NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
    OPEN.get_or_init(open).as_ref()
}

fn find() -> std::result::Result<i32, String> {
    if library().is_none() {
        return Err("the driver's library (libcuda.so.1, nvcuda.dll) is not installed".into());
    }
    let mut version = 0;
    // SAFETY: the library is there, this function has been in it since CUDA 2.2, and it may be called before all others.
    let result = unsafe { sys::cuDriverGetVersion(&mut version) };
    if result != CUresult::CUDA_SUCCESS {
        return Err(format!("the driver does not say its version: {}", describe(result)));
    }
    if version < OLDEST {
        let [found, oldest] = [version, OLDEST].map(name);
        return Err(format!("the driver supports CUDA {found}, and {oldest} is needed; update the driver"));
    }
    // SAFETY: the first call of all but the version; it takes 0.
    match unsafe { sys::cuInit(0) } {
        CUresult::CUDA_SUCCESS => Ok(version),
        CUresult::CUDA_ERROR_NO_DEVICE => Err("the driver finds no GPU".into()),
        result => Err(format!("the driver does not start: {}", describe(result))),
    }
}

/// A version as people write it: 12.4 for 12040.
pub(crate) fn name(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// The driver's answer as a result.
#[inline]
pub(crate) fn check(what: &'static str, result: CUresult) -> Result<()> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        _ => Err(Error::Driver { what, message: describe(result) }),
    }
}

/// The driver's words for an answer.
fn describe(result: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the library is there; it sets the pointer to a text of its own or to null.
    let found = unsafe { sys::cuGetErrorString(result, &mut text) };
    if found != CUresult::CUDA_SUCCESS || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: a text of the driver's, which ends in 0 and stays.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{} ({result:?})", text.to_string_lossy())
}
