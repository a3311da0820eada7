//! The operations on an NVIDIA GPU: products by cuBLASLt, rotation by [`rope::cuda`], attention in
//! training by cuDNN where that is there, all else by the kernels of this folder.
//!
//! All work of a [`Cuda`] and its clones runs in one stream, in the order in which it was given, so memory is given back
//! without waiting and small inputs (ids, masks, tables) share theirs. An operation returns when its work is in the stream, or
//! why it is not; threads that share a `Cuda` each get the errors of their own calls.
//!
//! Driver, memory and launches are those of the crate `rope-gpu`; here are cuBLASLt, the kernels and the operations.
//!
//! `kernels/` and `make-ptx` are the kernels and what makes `kernels.ptx` of them, as in [`rope::cuda`].

mod arguments;
#[allow(unsafe_code, reason = "launches kernels")]
mod attend;
#[allow(unsafe_code, reason = "launches kernels")]
mod backend;
#[allow(unsafe_code, reason = "calls cuBLASLt")]
mod choice;
#[allow(unsafe_code, reason = "opens and calls cuDNN")]
pub(crate) mod cudnn;
#[allow(unsafe_code, reason = "launches kernels")]
mod encodings;
mod kernels;
#[allow(unsafe_code, reason = "opens and calls cuBLASLt")]
mod library;
#[allow(unsafe_code, reason = "reads numbers of a type that is f32 as such")]
pub(crate) mod memory;
#[allow(unsafe_code, reason = "launches a kernel")]
mod pool;
#[allow(unsafe_code, reason = "calls cuBLASLt")]
pub(crate) mod product;
mod state;
pub(crate) mod training;

pub use memory::Buffer;
pub use product::Matrix;
pub use training::solo::{Solo, SoloResults, SoloShape};

use super::Real;
use crate::attention::softmax::Mask;
use crate::error::{Error, Result};
use cudnn::Cudnn;
use encodings::Encodings;
use gpu::{Device, Landing, Queue};
use kernels::{Kernels, Set};
use product::{Handle, Products};
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use training::Training;

/// What a GPU computes in. Sums are `f32` in all three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arithmetic {
    /// `f32` throughout.
    #[default]
    F32,
    /// `f32`, but the factors of products are rounded to 11 bits, for the tensor cores.
    Tf32,
    /// `bf16` in memory and as factors, for the tensor cores: half the memory, 8 bits.
    Bf16,
}

impl Arithmetic {
    /// The name: `f32`, `tf32` or `bf16`.
    pub fn name(self) -> &'static str {
        match self {
            Arithmetic::F32 => "f32",
            Arithmetic::Tf32 => "tf32",
            Arithmetic::Bf16 => "bf16",
        }
    }

    /// Bytes of a number in memory.
    fn size(self) -> usize {
        if self == Arithmetic::Bf16 { 2 } else { 4 }
    }
}

/// Refuses an attention in pieces that are shorter than the text; longer ones are the whole.
pub(crate) fn check_chunks(size: Option<usize>, keys: usize) -> Result<()> {
    match size.filter(|&size| size < keys) {
        None => Ok(()),
        Some(size) => Err(Error::Device(format!(
            "attention in pieces of {size} tokens (attention_chunk_size) over a text of {keys} is not run on a GPU: \
             use the CPU, or texts of up to {size} tokens"
        ))),
    }
}

/// Refuses to train through a soft cap.
pub(crate) fn check_cap(cap: Option<f64>) -> Result<()> {
    match cap {
        None => Ok(()),
        Some(cap) => Err(Error::Device(format!(
            "scores with a soft cap of {cap} (attn_logit_softcapping, final_logit_softcapping) are not trained on a GPU: \
             use the CPU"
        ))),
    }
}

/// Refuses a mask that no kernel knows.
pub(crate) fn check_mask(mask: &Mask, keys: usize) -> Result<()> {
    match mask.beyond {
        None => check_chunks(mask.chunks.map(|chunks| chunks.size), keys),
        Some(_) => Err(Error::Device("attention to far keys alone is not run on a GPU; use the CPU".into())),
    }
}

/// Why an encoder is not trained together with its decoder.
pub(crate) fn no_encoder() -> Error {
    Error::Device("an encoder with its decoder (T5) is not trained on a GPU: use the CPU".into())
}

/// An NVIDIA GPU that runs models. Cheap to clone; clones share memory and order of work.
///
/// ```no_run
/// use engine::ops::Backend;
/// use engine::ops::cuda::{Arithmetic, Cuda};
///
/// let gpu = Cuda::new(0, Arithmetic::Bf16)?; // an error in one line where there is no GPU or no cuBLASLt
/// let zeros = gpu.zeros::<f32>(1024)?;
/// assert_eq!(gpu.list(&zeros, 1024)?, [0.0; 1024]);
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Clone)]
pub struct Cuda(Arc<Inner>);

struct Inner {
    arithmetic: Arithmetic,
    products: Products,
    kernels: Arc<Kernels>,
    training: Arc<OnceLock<Training>>,
    cudnn: Arc<Cudnn>,
    encodings: OnceLock<Encodings>,
    state: Mutex<State>,
    landing: Mutex<Landing>,
    queue: Arc<Queue>,
}

impl Cuda {
    /// The GPU with this number, from 0 on, as the driver counts them.
    ///
    /// Looks for cuBLASLt (where the loader looks, in the CUDA toolkit, in Python packages) and loads the kernels.
    pub fn new(number: usize, arithmetic: Arithmetic) -> Result<Cuda> {
        let device = Device::new(number)?;
        let library = Arc::new(Handle::new(&device)?);
        let kernels = Arc::new(Kernels::load(&device)?);
        let cudnn = Arc::new(Cudnn::new(&device, library.cuda()));
        Self::with(&device, arithmetic, &library, kernels, Arc::default(), cudnn)
    }

    /// The same GPU with memory and an order of work of its own: what both are given runs side by side.
    pub fn beside(&self) -> Result<Cuda> {
        let Inner { arithmetic, products, kernels, training, cudnn, .. } = &*self.0;
        let (kernels, training, cudnn) = (kernels.clone(), training.clone(), cudnn.clone());
        Self::with(self.device(), *arithmetic, products.library(), kernels, training, cudnn)
    }

    fn with(
        device: &Device,
        arithmetic: Arithmetic,
        library: &Arc<Handle>,
        kernels: Arc<Kernels>,
        training: Arc<OnceLock<Training>>,
        cudnn: Arc<Cudnn>,
    ) -> Result<Cuda> {
        let queue = Arc::new(Queue::new(device)?);
        let products = Products::new(library, &queue, arithmetic)?;
        let state = Mutex::new(State::new(&queue)?);
        let landing = Mutex::new(Landing::new(&queue));
        Ok(Cuda(Arc::new(Inner {
            arithmetic,
            products,
            kernels,
            training,
            cudnn,
            encodings: OnceLock::new(),
            state,
            landing,
            queue,
        })))
    }

    /// The kernels of training, loaded when they are first asked for.
    pub(crate) fn training(&self) -> Result<&Training> {
        if let Some(loaded) = self.0.training.get() {
            return Ok(loaded);
        }
        let loaded = Training::load(self.device())?;
        Ok(self.0.training.get_or_init(|| loaded))
    }

    /// The kernels of encodings other than rotary, loaded when they are first asked for.
    fn encodings(&self) -> Result<&Encodings> {
        if let Some(loaded) = self.0.encodings.get() {
            return Ok(loaded);
        }
        let loaded = Encodings::load(self.device())?;
        Ok(self.0.encodings.get_or_init(|| loaded))
    }

    /// Whether the kernels that every training needs are loaded, or kept on disk from an earlier one. If not,
    /// [`load_training_kernels`](Cuda::load_training_kernels) takes seconds.
    pub fn has_training_kernels(&self) -> bool {
        self.0.training.get().is_some() || Training::is_kept(self.device())
    }

    /// Loads the kernels that every training needs, which the first training does otherwise. An error where NVRTC is not found.
    pub fn load_training_kernels(&self) -> Result<()> {
        self.training().map(drop)
    }

    /// What it computes in.
    pub fn arithmetic(&self) -> Arithmetic {
        self.0.arithmetic
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        self.0.queue.device()
    }

    /// Where the kernels come from, and which cuBLASLt computes products, in words.
    pub fn origin(&self) -> String {
        format!("kernels from {}, {}", self.0.kernels.origin(), self.0.products.origin())
    }

    /// What computes attention in training on tensor cores beside the kernels of this crate: cuDNN, or why it does not.
    pub fn attention_origin(&self) -> String {
        match self.0.cudnn.origin() {
            Ok(origin) => origin,
            Err(why) => why.into(),
        }
    }

    /// Attention by cuDNN.
    pub(crate) fn cudnn(&self) -> &Cudnn {
        &self.0.cudnn
    }

    /// Milliseconds of the GPU's clock from the embeddings of the latest forward pass to its last operation before results
    /// were copied back; `None` before the first.
    pub fn pass_milliseconds(&self) -> Option<f64> {
        self.state().pass_milliseconds()
    }

    /// The stream that all work is in.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.0.queue
    }

    /// Products.
    pub(crate) fn products(&self) -> &Products {
        &self.0.products
    }

    /// The kernels for numbers as this stores them.
    fn set(&self) -> &Set {
        self.0.kernels.set(self.0.arithmetic)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses numbers that are not `f32`.
    fn check_type<T: Real>(&self) -> Result<()> {
        if size_of::<T>() == size_of::<f32>() {
            return Ok(());
        }
        Err(wrong_type())
    }
}

fn wrong_type() -> Error {
    Error::Device("f64 is not computed on a GPU; use f32, or the CPU".into())
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in {}", self.device(), self.0.arithmetic.name())
    }
}
