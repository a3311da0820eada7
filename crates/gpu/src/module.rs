//! Kernels: compiled for the exact chip where NVRTC is found and kept on disk, else from PTX by the driver.

use crate::cache::{self, Key, fnv};
use crate::device::{Context, Device};
use crate::driver::{check, name};
use crate::error::{Error, Result};
use crate::nvrtc;
use cudarc::driver::sys::{self, CUfunction, CUmodule};
use std::ffi::CString;
use std::sync::Arc;

/// Kernels of one source, loaded. Cheap to clone.
#[derive(Clone)]
pub struct Module(Arc<Loaded>);

/// A kernel that can be launched. It keeps its module loaded.
#[derive(Clone)]
pub struct Function {
    pub(crate) raw: CUfunction,
    module: Module,
}

struct Loaded {
    raw: CUmodule,
    origin: String,
    /// Not the device, so that a device can keep modules.
    context: Arc<Context>,
}

// SAFETY: modules of the driver may be used from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above, from several at a time too.
unsafe impl Sync for Loaded {}
// SAFETY: functions of the driver may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above, from several at a time too.
unsafe impl Sync for Function {}

impl Module {
    /// Loads kernels: compiled by NVRTC from their CUDA source, with these options besides the chip, or else from what
    /// `make-ptx` made of that source.
    pub fn load(device: &Device, source: &str, ptx: &str, options: &[&str]) -> Result<Module> {
        // What NVRTC makes may be newer than the driver, or NVRTC older than the chip: then the driver compiles the PTX.
        if let Ok(Some(module)) = Module::compile(device, source, options) {
            return Ok(module);
        }
        let (chip, driver) = device.versions();
        let origin =
            format!("PTX for compute_80, compiled for sm_{chip} by the driver (CUDA {})", name(driver));
        // A text for the driver ends in 0.
        Module::of(device, &[ptx.as_bytes(), &[0]].concat(), origin)
    }

    /// Compiles kernels from their CUDA source with NVRTC, or finds them kept on disk; `None` where there is no NVRTC, or none that
    /// compiles it.
    pub fn compile(device: &Device, source: &str, options: &[&str]) -> Result<Option<Module>> {
        let (chip, _) = device.versions();
        let Some(image) = image(device, source, options) else { return Ok(None) };
        Module::of(device, &image, format!("NVRTC for sm_{chip}")).map(Some)
    }

    /// Whether [`compile`](Self::compile) finds the kernels of this source kept on disk, and need not compile them.
    pub fn is_kept(device: &Device, source: &str, options: &[&str]) -> bool {
        let (chip, driver) = device.versions();
        let Some(compiler) = nvrtc::find() else { return false };
        let options = nvrtc::options(chip, options);
        let path = Key { source, options: &options, compiler: &compiler, chip, driver }.path();
        path.is_some_and(|path| cache::read(&path).is_some())
    }

    /// Whether PTX is what `make-ptx` made of this source, unchanged: it has both their hashes in its second line. For
    /// tests, which need no GPU for it.
    pub fn is_made_from(ptx: &str, source: &str) -> bool {
        let Some((end, _)) = ptx.match_indices('\n').nth(1) else { return false };
        let (head, body) = ptx.split_at(end + 1);
        let expected =
            format!("// source {:016x}, below {:016x}\n", fnv(source.as_bytes()), fnv(body.as_bytes()));
        head.ends_with(&expected)
    }

    /// A kernel by its name.
    pub fn function(&self, name: &str) -> Result<Function> {
        let text = CString::new(name).map_err(|_| Error::argument("kernel", name, "a name without 0"))?;
        let _current = self.0.context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the module is loaded, and the name ends in 0.
        let result = unsafe { sys::cuModuleGetFunction(&mut raw, self.0.raw, text.as_ptr()) };
        check("finding a kernel", result)?;
        Ok(Function { raw, module: self.clone() })
    }

    /// Where the kernels come from, in words.
    pub fn origin(&self) -> &str {
        &self.0.origin
    }

    /// Loads an image that NVRTC made, or a text of PTX that ends in 0.
    fn of(device: &Device, image: &[u8], origin: String) -> Result<Module> {
        let context = device.context().clone();
        let current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a context is current, and the image is one that NVRTC made, whole, or PTX that ends in 0.
        check("loading the kernels", unsafe { sys::cuModuleLoadData(&mut raw, image.as_ptr().cast()) })?;
        drop(current);
        Ok(Module(Arc::new(Loaded { raw, origin, context })))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: loaded once, into the context that is current; no function of it is left.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

impl Function {
    /// Lets a launch use this many bytes of shared memory; needed beyond 48 KB.
    pub fn allow_shared(&self, bytes: usize) -> Result<()> {
        let _current = self.context().enter()?;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: a function of a module that is loaded, because this holds it.
        check("asking for shared memory", unsafe { sys::cuFuncSetAttribute(self.raw, attribute, bytes) })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.module.0.context
    }
}

/// The kernels compiled for the device: from the cache, or by NVRTC and then put there. None without NVRTC.
fn image(device: &Device, source: &str, options: &[&str]) -> Option<Vec<u8>> {
    let (compiler, (chip, driver)) = (nvrtc::find()?, device.versions());
    let options = nvrtc::options(chip, options);
    let path = Key { source, options: &options, compiler: &compiler, chip, driver }.path();
    if let Some(image) = path.as_deref().and_then(cache::read) {
        return Some(image);
    }
    let image = nvrtc::compile(source, &options)?;
    if let Some(path) = path {
        // A cache that cannot be written is done without.
        let _ = cache::write(&path, &image);
    }
    Some(image)
}
