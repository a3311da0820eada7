//! The kernels: compiled for the exact chip where NVRTC is found and kept on disk, else the crate's PTX.

use super::device::Device;
use super::driver::{check, name};
use super::launch::launch;
use super::nvrtc;
use super::stream::Stream;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::pairing::Order;
use cudarc::driver::sys::{self, CUfunction, CUmodule};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};

/// The source of the kernels.
const SOURCE: &str = include_str!("kernels.cu");
/// What `make-ptx` made of it, for chips from compute capability 8.0 on.
const PTX: &str = include_str!("kernels.ptx");

/// What NVRTC is told besides the chip, as `make-ptx` does.
const OPTIONS: [&str; 1] = ["--fmad=false"];

/// The number types of the kernels, in the order of `Kernels::types`.
const TYPES: [&str; 3] = ["f32", "f16", "bf16"];

/// A number that the kernels rotate: `f32`, `f16` or `bf16`. Sealed.
pub trait Number: Element<Table = f32> + super::Plain {
    /// Its place among the kernels' types.
    #[doc(hidden)]
    const TYPE: usize;
}

impl Number for f32 {
    const TYPE: usize = 0;
}
impl Number for half::f16 {
    const TYPE: usize = 1;
}
impl Number for half::bf16 {
    const TYPE: usize = 2;
}

/// All kernels, loaded.
pub(super) struct Kernels {
    module: CUmodule,
    /// Where they come from, in words.
    pub origin: String,
    types: [OfType; 3],
    pub gradient_total: Function,
}

/// The kernels of one number type. `HALF` and `INTERLEAVED` index what they read and write.
#[derive(Clone, Copy)]
struct OfType {
    /// `[wide][in place][from][to]`
    rotate: [[[[Function; 2]; 2]; 2]; 2],
    /// `[from]`: in place into the other order, through shared memory.
    reorder: [Function; 2],
    gradient: [Function; 2],
}

/// A kernel that can be launched.
#[derive(Clone, Copy)]
pub struct Function(pub(super) CUfunction);

// SAFETY: functions of the driver may be used from any thread, and from several at a time.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// Lets a launch use this many bytes of shared memory; needed beyond 48 KB.
    pub fn allow_shared(&self, device: &Device, bytes: usize) -> Result<()> {
        let _current = device.enter()?;
        let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: a function of a module that is loaded.
        check("asking for shared memory", unsafe { sys::cuFuncSetAttribute(self.0, attribute, bytes as i32) })
    }

    /// Launches the kernel on a stream: blocks, threads of a block, bytes of shared memory, and a pointer to each of its
    /// arguments, which are read before this returns.
    ///
    /// # Safety
    ///
    /// The arguments are those that the kernel has, the sizes those it can have, and what the kernel reads and writes is
    /// memory of this GPU that is there until the work is done, and that nothing else writes in the meantime. The module
    /// is still there.
    #[inline]
    pub unsafe fn launch(
        &self,
        stream: &Stream,
        grid: [usize; 3],
        block: [usize; 3],
        shared: usize,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        launch(stream, *self, grid, block, shared, arguments)
    }
}

/// Kernels of another source than this crate's, loaded as its own are: compiled for the chip where NVRTC is found, and
/// kept on disk, else from PTX by the driver.
pub struct Module {
    device: Device,
    module: CUmodule,
    origin: String,
}

// SAFETY: modules of the driver may be used from any thread, and from several at a time.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads kernels from their CUDA source and from what `make-ptx` made of it.
    pub fn load(device: &Device, source: &str, ptx: &str) -> Result<Module> {
        let (chip, driver) = device.versions();
        let _current = device.enter()?;
        let (module, origin) = load(chip, driver, source, ptx, &[])?;
        Ok(Module { device: device.clone(), module, origin })
    }

    /// Compiles kernels from their CUDA source with NVRTC, or finds them kept on disk; `None` where there is no NVRTC, or none that
    /// compiles it.
    pub fn compile(device: &Device, source: &str) -> Result<Option<Module>> {
        let (chip, driver) = device.versions();
        let _current = device.enter()?;
        let Some(image) = image(chip, driver, source, &[]) else { return Ok(None) };
        let origin = format!("NVRTC for sm_{chip}");
        Ok(Some(Module { device: device.clone(), module: module(&image)?, origin }))
    }

    /// Whether [`compile`](Self::compile) finds the kernels of this source kept on disk, and need not compile them.
    pub fn is_kept(device: &Device, source: &str) -> bool {
        let (chip, driver) = device.versions();
        let path = nvrtc::find().and_then(|compiler| place(chip, driver, &compiler, source));
        path.is_some_and(|path| read(&path).is_some())
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
        let _current = self.device.enter()?;
        function(self.module, name)
    }

    /// Where the kernels come from, in words.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(_current) = self.device.enter() {
            // SAFETY: loaded once, into the context that is current.
            let _ = unsafe { sys::cuModuleUnload(self.module) };
        }
    }
}

// SAFETY: modules and functions of the driver may be used from any thread, and from several at a time.
unsafe impl Send for Kernels {}
// SAFETY: as above.
unsafe impl Sync for Kernels {}

fn index(order: Order) -> usize {
    match order {
        Order::Half => 0,
        Order::Interleaved => 1,
    }
}

impl Kernels {
    /// Loads the kernels into the current context, for a chip (90 is compute capability 9.0) and a driver's version.
    pub fn load(chip: i32, driver: i32) -> Result<Kernels> {
        let (module, origin) = load(chip, driver, SOURCE, PTX, &OPTIONS)?;
        let find = |name: &str| function(module, name);
        let mut types = Vec::with_capacity(TYPES.len());
        for kind in TYPES {
            let orders = ["half", "interleaved"];
            let all = |end: &str| -> Result<[[Function; 2]; 2]> {
                let named =
                    |from: usize, to: usize| find(&format!("{kind}_{}_{}{end}", orders[from], orders[to]));
                Ok([[named(0, 0)?, named(0, 1)?], [named(1, 0)?, named(1, 1)?]])
            };
            types.push(OfType {
                rotate: [[all("")?, all("_in_place")?], [all("_wide")?, all("_wide_in_place")?]],
                reorder: [
                    find(&format!("{kind}_half_interleaved_reorder"))?,
                    find(&format!("{kind}_interleaved_half_reorder"))?,
                ],
                gradient: [
                    find(&format!("{kind}_half_gradient"))?,
                    find(&format!("{kind}_interleaved_gradient"))?,
                ],
            });
        }
        let types = [types[0], types[1], types[2]];
        Ok(Kernels { module, origin, types, gradient_total: find("gradient_total")? })
    }

    /// Unloads them from the current context; they are not used again.
    pub fn unload(&mut self) {
        // SAFETY: loaded once, into the context that is current.
        let _ = unsafe { sys::cuModuleUnload(self.module) };
    }

    #[inline]
    pub fn rotate<T: Number>(&self, from: Order, to: Order, wide: bool, in_place: bool) -> Function {
        self.types[T::TYPE].rotate[usize::from(wide)][usize::from(in_place)][index(from)][index(to)]
    }

    pub fn reorder<T: Number>(&self, from: Order) -> Function {
        self.types[T::TYPE].reorder[index(from)]
    }

    pub fn gradient<T: Number>(&self, order: Order) -> Function {
        self.types[T::TYPE].gradient[index(order)]
    }
}

/// Loads a source into the current context; says where the kernels come from.
fn load(chip: i32, driver: i32, source: &str, ptx: &str, options: &[&str]) -> Result<(CUmodule, String)> {
    // What NVRTC makes may be newer than the driver, or NVRTC older than the chip: then the driver compiles the PTX.
    let own = image(chip, driver, source, options)
        .and_then(|image| Some((module(&image).ok()?, format!("NVRTC for sm_{chip}"))));
    match own {
        Some(loaded) => Ok(loaded),
        None => {
            // A text for the driver ends in 0.
            let ptx = [ptx.as_bytes(), &[0]].concat();
            let words =
                format!("PTX for compute_80, compiled for sm_{chip} by the driver (CUDA {})", name(driver));
            Ok((module(&ptx)?, words))
        }
    }
}

fn module(image: &[u8]) -> Result<CUmodule> {
    let mut module = std::ptr::null_mut();
    // SAFETY: a context is current, and the image is one that NVRTC made, whole, or PTX that ends in 0.
    check("loading the kernels", unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) })?;
    Ok(module)
}

fn function(module: CUmodule, name: &str) -> Result<Function> {
    let text = CString::new(name).map_err(|_| Error::argument("kernel", name, "a name without 0"))?;
    let mut function = std::ptr::null_mut();
    // SAFETY: the module is loaded, and the name ends in 0.
    check("finding a kernel", unsafe { sys::cuModuleGetFunction(&mut function, module, text.as_ptr()) })?;
    Ok(Function(function))
}

/// The kernels compiled for a chip: from the cache, or by NVRTC and then put there. None without NVRTC.
fn image(chip: i32, driver: i32, source: &str, options: &[&str]) -> Option<Vec<u8>> {
    let compiler = nvrtc::find()?;
    let path = place(chip, driver, &compiler, source);
    if let Some(image) = path.as_deref().and_then(read) {
        return Some(image);
    }
    let image = nvrtc::compile(source, chip, options)?;
    if let Some(path) = path {
        // A cache that cannot be written is done without.
        let _ = write(&path, &image);
    }
    Some(image)
}

/// The file of the cache for a source compiled for a chip, under a driver, by a compiler.
fn place(chip: i32, driver: i32, compiler: &str, source: &str) -> Option<PathBuf> {
    let key = format!("{:016x}-sm_{chip}-driver_{driver}-nvrtc_{compiler}", fnv(source.as_bytes()));
    Some(cache()?.join(format!("{key}.cubin")))
}

/// The user's cache folder.
fn cache() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Some(folder.or_else(|| set("LOCALAPPDATA"))?.join("roformer").join("cuda"))
}

/// A file of the cache, if it is whole: its last 8 bytes are the hash of the others.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut image = std::fs::read(path).ok()?;
    let hash = image.split_off(image.len().checked_sub(8)?);
    (hash == fnv(&image).to_le_bytes() && !image.is_empty()).then_some(image)
}

/// Writes a file of the cache beside its name and then under it, so that no other process reads half of it.
fn write(path: &Path, image: &[u8]) -> std::io::Result<()> {
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

/// FNV-1a of 64 bits, as `make-ptx` has it: tells sources apart that nobody made alike on purpose.
pub(super) fn fnv(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kernels.ptx` is what `make-ptx` made of this `kernels.cu`: if this fails, run it.
    #[test]
    fn ptx_is_of_this_source() {
        assert!(Module::is_made_from(PTX, SOURCE), "run crates/rope/src/cuda/make-ptx");
        assert!(PTX.contains("\n.target sm_80\n"));
    }

    #[test]
    fn a_damaged_file_of_the_cache_is_not_read() {
        let folder = std::env::temp_dir().join(format!("rope-cuda-cache-{}", std::process::id()));
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
}
