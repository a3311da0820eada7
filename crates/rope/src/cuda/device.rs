//! A GPU: its context, its kernels, and the memory that is asked of it.

use super::buffer::{Buffer, Plain};
use super::driver::{check, driver};
use super::module::Kernels;
use super::stream::Stream;
use crate::error::{Error, Result};
use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute, CUresult};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// An NVIDIA GPU with the kernels loaded. Cheap to clone; all clones are the same GPU.
///
/// It uses the primary context, as CUDA's runtime and PyTorch do, so that their pointers and streams are its own. A call
/// leaves the context that its thread had current as it was.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    context: Context,
    kernels: Kernels,
    name: String,
    multiprocessors: usize,
    l2_bytes: usize,
    /// 90 is compute capability 9.0.
    chip: i32,
    /// The CUDA version of the driver: 12040 is 12.4.
    driver: i32,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // While the context is there. Buffers, streams and tables hold the device, so none of them is left.
        if let Ok(_current) = self.context.enter() {
            self.kernels.unload();
        }
    }
}

/// The primary context of a GPU, kept for as long as this lives.
struct Context {
    raw: CUcontext,
    ordinal: i32,
}

// SAFETY: the driver's contexts may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above, from several at a time too.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once when this was made. An error is the driver's to know; nothing can be done about it.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }
}

/// While this lives, the thread's current context is a device's.
pub struct Current {
    pushed: bool,
    /// Contexts are current for a thread, so this stays on its own.
    thread: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = std::ptr::null_mut();
            // SAFETY: pushed by this thread, which this has not left, and popped once.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
        }
    }
}

impl Context {
    #[inline]
    fn enter(&self) -> Result<Current> {
        let mut current = std::ptr::null_mut();
        // SAFETY: the driver has started, or there would be no context.
        check("finding the current context", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        if current == self.raw {
            return Ok(Current { pushed: false, thread: PhantomData });
        }
        // SAFETY: the context is retained.
        check("entering the context", unsafe { sys::cuCtxPushCurrent_v2(self.raw) })?;
        Ok(Current { pushed: true, thread: PhantomData })
    }
}

impl Device {
    /// How many GPUs the driver finds.
    pub fn count() -> Result<usize> {
        driver()?;
        let mut count = 0;
        // SAFETY: the driver has started.
        check("counting GPUs", unsafe { sys::cuDeviceGetCount(&mut count) })?;
        Ok(count as usize)
    }

    /// The GPU with this number, from 0 on, as the driver counts them (`CUDA_VISIBLE_DEVICES` changes that).
    ///
    /// Loads the kernels: compiled for this chip by NVRTC where that library is found (once; the result is kept in the
    /// user's cache folder), else from the PTX in this crate by the driver.
    pub fn new(number: usize) -> Result<Device> {
        let version = driver()?;
        let count = Device::count()?;
        if count == 0 {
            return Err(Error::NoDevice("the driver finds none".into()));
        }
        if number >= count {
            return Err(Error::argument(
                "device",
                number,
                format!("a number below {count}, the GPUs there are"),
            ));
        }
        let mut raw = 0;
        // SAFETY: the driver has started, and the number is below the count.
        check("opening the GPU", unsafe { sys::cuDeviceGet(&mut raw, number as i32) })?;
        let attribute = |attribute: CUdevice_attribute| {
            let mut value = 0;
            // SAFETY: a device of the driver's.
            let result = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, raw) };
            check("asking for what the GPU can do", result).map(|()| value)
        };
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let multiprocessors = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let l2_bytes = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        let mut text = [0u8; 128];
        // SAFETY: the buffer has this many bytes, of which the last stays 0.
        let result = unsafe { sys::cuDeviceGetName(text.as_mut_ptr().cast(), text.len() as i32 - 1, raw) };
        check("asking for the GPU's name", result)?;
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        let name = String::from_utf8_lossy(&text[..end]).into_owned();
        if major < 8 {
            let why = format!("{name} has compute capability {major}.{minor}, and 8.0 is needed");
            return Err(Error::NoDevice(why));
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: a device of the driver's; `Context` releases it.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, raw) };
        check("making a context (is the GPU in use, or its memory full?)", result)?;
        let context = Context { raw: context, ordinal: raw };
        let current = context.enter()?;
        let kernels = Kernels::load(10 * major + minor, version)?;
        drop(current);
        let (multiprocessors, l2_bytes) = (multiprocessors as usize, l2_bytes as usize);
        Ok(Device(Arc::new(Inner {
            context,
            kernels,
            name,
            multiprocessors,
            l2_bytes,
            chip: 10 * major + minor,
            driver: version,
        })))
    }

    /// The name, as "NVIDIA H200".
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Where the kernels come from: NVRTC or the crate's PTX, and for which chip.
    pub fn kernels(&self) -> &str {
        &self.0.kernels.origin
    }

    /// Bytes of the second-level cache.
    pub fn l2_bytes(&self) -> usize {
        self.0.l2_bytes
    }

    /// Bytes of memory that are free, and of all.
    pub fn memory(&self) -> Result<(u64, u64)> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current.
        check("asking for free memory", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// A new stream, which does not wait for the default one.
    pub fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }

    /// Memory for this many elements, all 0.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::zeros(self, len)
    }

    /// A copy of these elements in the GPU's memory.
    pub fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer<T>> {
        let mut buffer = Buffer::uninitialised(self, data.len())?;
        buffer.as_mut_slice().upload(&Stream::default_of(self), data)?;
        Ok(buffer)
    }

    /// Makes the GPU's context the thread's current one until the result is dropped.
    #[inline]
    pub fn enter(&self) -> Result<Current> {
        self.0.context.enter()
    }

    /// Waits for all work on the GPU.
    pub(super) fn synchronise(&self) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: a context is current.
        check("waiting for the GPU", unsafe { sys::cuCtxSynchronize() })
    }

    /// Bytes of memory, or what was asked for and what is free.
    pub(super) fn allocate(&self, bytes: usize) -> Result<u64> {
        let _current = self.enter()?;
        let mut pointer = 0;
        // SAFETY: a context is current. Nothing is allocated for 0 bytes, which the driver refuses.
        match unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes.max(1)) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, _) = self.memory()?;
                Err(Error::DeviceMemory { bytes: bytes as u128, free })
            }
            result => check("allocating memory", result).map(|()| pointer),
        }
    }

    pub(super) fn all_kernels(&self) -> &Kernels {
        &self.0.kernels
    }

    /// The chip and the driver's version, as [`Kernels::load`] takes them.
    pub(super) fn versions(&self) -> (i32, i32) {
        (self.0.chip, self.0.driver)
    }

    /// How many multiprocessors there are.
    pub fn multiprocessors(&self) -> usize {
        self.0.multiprocessors
    }

    /// Refuses what belongs to another GPU.
    #[inline]
    pub(super) fn same(&self, other: &Device, what: &'static str) -> Result<()> {
        if self.0.context.raw == other.0.context.raw {
            return Ok(());
        }
        Err(Error::argument(what, format!("on {other}"), format!("one on {self}, where the table is")))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} ({})", self.0.context.ordinal, self.0.name)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
