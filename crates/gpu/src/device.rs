//! A GPU: its context, what is kept with it, and the memory that is asked of it.

use crate::buffer::Buffer;
use crate::driver::{check, driver};
use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute, CUresult};
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// An NVIDIA GPU. Cheap to clone; all clones are the same GPU.
///
/// It uses the primary context, as CUDA's runtime and PyTorch do, so that their pointers and streams are its own. A call
/// leaves the context that its thread had current as it was.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    /// What crates keep with the device, by type; before the context that it is of.
    kept: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    context: Arc<Context>,
    name: String,
    multiprocessors: usize,
    l2_bytes: usize,
    shared_bytes: usize,
    /// 90 is compute capability 9.0.
    chip: i32,
    /// The CUDA version of the driver: 12040 is 12.4.
    driver: i32,
}

/// The primary context of a GPU, kept for as long as this lives.
pub(crate) struct Context {
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
    pub(crate) fn enter(&self) -> Result<Current> {
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
    pub fn new(number: usize) -> Result<Device> {
        let version = driver()?;
        let count = Device::count()?;
        if count == 0 {
            return Err(Error::NoDevice("the driver finds no GPU".into()));
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
        let shared_bytes =
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
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
        let context = Arc::new(Context { raw: context, ordinal: raw });
        let (multiprocessors, l2_bytes) = (multiprocessors as usize, l2_bytes as usize);
        Ok(Device(Arc::new(Inner {
            kept: Mutex::default(),
            context,
            name,
            multiprocessors,
            l2_bytes,
            shared_bytes: shared_bytes as usize,
            chip: 10 * major + minor,
            driver: version,
        })))
    }

    /// The name, as "NVIDIA H200".
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// What a crate keeps with the device, for example its kernels: made the first time, the same from then on. It must not
    /// hold the device itself, which would then never be dropped; a [`Module`](crate::Module) does not.
    pub fn keep<K, E>(
        &self,
        make: impl FnOnce(&Device) -> std::result::Result<K, E>,
    ) -> std::result::Result<Arc<K>, E>
    where
        K: Any + Send + Sync,
    {
        // Held while it is made, so that nobody else makes it too.
        let mut kept = self.0.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(found)) = kept.get(&TypeId::of::<K>()).map(|found| found.clone().downcast::<K>()) {
            return Ok(found);
        }
        let made = Arc::new(make(self)?);
        kept.insert(TypeId::of::<K>(), made.clone());
        Ok(made)
    }

    /// Bytes of the second-level cache.
    pub fn l2_bytes(&self) -> usize {
        self.0.l2_bytes
    }

    /// Bytes of shared memory that a block may have where it asks for them.
    pub fn shared_bytes(&self) -> usize {
        self.0.shared_bytes
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

    /// Bytes of memory, or what was asked for and what is free.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        let _current = self.enter()?;
        let mut pointer = 0;
        // SAFETY: a context is current. Nothing is allocated for 0 bytes, which the driver refuses.
        match unsafe { sys::cuMemAlloc_v2(&mut pointer, bytes.max(1)) } {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, _) = self.memory()?;
                Err(Error::Memory { bytes: bytes as u128, free })
            }
            result => check("allocating memory", result).map(|()| pointer),
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    /// Whether a context is this GPU's.
    #[inline]
    pub(crate) fn is_of(&self, context: &Context) -> bool {
        self.0.context.raw == context.raw
    }

    /// The chip: 90 is compute capability 9.0.
    pub fn chip(&self) -> i32 {
        self.0.chip
    }

    /// The chip (90 is compute capability 9.0) and the driver's version (12040 is 12.4).
    pub fn versions(&self) -> (i32, i32) {
        (self.0.chip, self.0.driver)
    }

    /// How many multiprocessors there are.
    pub fn multiprocessors(&self) -> usize {
        self.0.multiprocessors
    }

    /// Refuses what belongs to another GPU.
    #[inline]
    pub fn same(&self, other: &Device, what: &'static str) -> Result<()> {
        if self.is_of(&other.0.context) {
            return Ok(());
        }
        Err(Error::argument(what, format!("on {other}"), format!("one on {self}")))
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
