//! The kernels of training, compiled by NVRTC for the GPU that is there, and kept on disk: a group when it is first needed.
//!
//! There are too many for a program to carry them compiled for every chip, and a machine that has cuBLASLt can have NVRTC.

use super::super::Arithmetic;
use super::{
    attention, embedding, features, linear, loss, norm, optimizer, pairs, pointwise, rotation, rows, sums,
    tensor,
};
use crate::error::{Error, Result};
use gpu::{Device, Module};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What every network needs.
pub(super) const BASE: &str = concat!(
    include_str!("../kernels/types.cu"),
    include_str!("../kernels/activation.cu"),
    include_str!("../kernels/statistics.cu"),
    include_str!("kernels/step.cu"),
    include_str!("kernels/norm.cu"),
    include_str!("kernels/pointwise.cu"),
    include_str!("kernels/embedding.cu"),
    include_str!("kernels/loss.cu"),
    include_str!("kernels/optimizer.cu"),
    include_str!("kernels/rotation.cu"),
    include_str!("kernels/rows.cu"),
);

/// Attention in `f32` arithmetic.
pub(super) const ATTENTION: &str = concat!(
    include_str!("../kernels/types.cu"),
    include_str!("kernels/attention.cu"),
    include_str!("kernels/attention_terms.cu"),
    include_str!("kernels/attention_forward.cu"),
    include_str!("kernels/attention_backward.cu"),
);

/// Attention on tensor cores.
const TENSOR: &str = concat!(
    include_str!("../kernels/types.cu"),
    include_str!("../kernels/mma.cu"),
    include_str!("kernels/tensor.cu"),
    include_str!("kernels/tensor_backward.cu"),
    include_str!("kernels/tensor_whole.cu"),
);

/// Linear attention, and the loss of pairs.
pub(super) const LINEAR: &str = concat!(
    include_str!("../kernels/types.cu"),
    include_str!("kernels/rows.cu"),
    include_str!("kernels/features.cu"),
    include_str!("kernels/linear.cu"),
    include_str!("kernels/pairs.cu"),
);

/// The source of attention's kernels, without position terms or with them.
pub(super) fn attention_source(has_terms: bool) -> String {
    if has_terms { format!("#define ATTENTION_TERMS\n{ATTENTION}") } else { ATTENTION.into() }
}

/// The source of the kernels of attention on tensor cores, in `bf16` or TF32.
pub(super) fn tensor_source(arithmetic: Arithmetic) -> String {
    if arithmetic == Arithmetic::Tf32 { format!("#define TENSOR_TF32\n{TENSOR}") } else { TENSOR.into() }
}

/// All kernels of training.
pub(crate) struct Training {
    pub(super) norm: norm::Kernels,
    pub(super) pointwise: pointwise::Kernels,
    pub(super) embedding: embedding::Kernels,
    pub(super) loss: loss::Kernels,
    pub(super) optimizer: optimizer::Kernels,
    pub(super) sums: sums::Kernels,
    pub rotation: rotation::Kernels,
    pub rows: rows::Kernels,
    /// Without position terms, and with them.
    attention: [Group<attention::Kernels>; 2],
    /// In `bf16`, and in TF32.
    tensor: [Group<tensor::Kernels>; 2],
    linear: Group<Linear>,
    device: Device,
}

/// What linear attention and the loss of pairs are made of.
pub(crate) struct Linear {
    pub features: features::Kernels,
    pub linear: linear::Kernels,
    pub pairs: pairs::Kernels,
}

/// Kernels, which keep the module that they are of.
struct Group<K> {
    loaded: OnceLock<K>,
    /// Held while they are compiled, so that nobody else compiles them too.
    compiling: Mutex<()>,
}

impl<K> Default for Group<K> {
    fn default() -> Self {
        Group { loaded: OnceLock::new(), compiling: Mutex::new(()) }
    }
}

impl<K> Group<K> {
    fn get(
        &self,
        device: &Device,
        source: impl FnOnce() -> String,
        find: impl FnOnce(&Module) -> gpu::Result<K>,
    ) -> Result<&K> {
        if let Some(kernels) = self.loaded.get() {
            return Ok(kernels);
        }
        let _held = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernels) = self.loaded.get() {
            return Ok(kernels);
        }
        let module = compile(device, &source())?;
        let kernels = find(&module)?;
        Ok(self.loaded.get_or_init(|| kernels))
    }
}

/// A module from its source.
pub(super) fn compile(device: &Device, source: &str) -> Result<Module> {
    Module::compile(device, source, &[])?.ok_or_else(|| {
        Error::Device(
            "NVRTC is not found or too old for this GPU, which training on it needs: install the CUDA toolkit's libnvrtc, or \
             the Python package nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for CUDA 12), or add its folder to the loader's path; \
             or use the CPU"
                .into(),
        )
    })
}

impl Training {
    /// Whether [`load`](Self::load) has nothing to compile.
    pub fn is_kept(device: &Device) -> bool {
        Module::is_kept(device, BASE, &[])
    }

    /// Compiles what every network needs, or finds it compiled.
    pub fn load(device: &Device) -> Result<Training> {
        let module = compile(device, BASE)?;
        Ok(Training {
            norm: norm::Kernels::load(&module)?,
            pointwise: pointwise::Kernels::load(&module)?,
            embedding: embedding::Kernels::load(&module)?,
            loss: loss::Kernels::load(&module)?,
            optimizer: optimizer::Kernels::load(&module)?,
            sums: sums::Kernels::load(&module)?,
            rotation: rotation::Kernels::load(&module)?,
            rows: rows::Kernels::load(&module)?,
            attention: Default::default(),
            tensor: Default::default(),
            linear: Group::default(),
            device: device.clone(),
        })
    }

    /// Attention in `f32` arithmetic.
    pub fn attention(&self, has_terms: bool) -> Result<&attention::Kernels> {
        let device = &self.device;
        let source = || attention_source(has_terms);
        self.attention[usize::from(has_terms)]
            .get(device, source, |module| attention::Kernels::load(module, has_terms))
    }

    /// Attention on tensor cores, in `bf16` or TF32.
    pub fn tensor(&self, arithmetic: Arithmetic) -> Result<&tensor::Kernels> {
        let device = &self.device;
        let source = || tensor_source(arithmetic);
        self.tensor[usize::from(arithmetic == Arithmetic::Tf32)]
            .get(device, source, |module| tensor::Kernels::load(module, arithmetic))
    }

    /// Linear attention, and the loss of pairs.
    pub fn linear(&self) -> Result<&Linear> {
        let device = &self.device;
        let find = |module: &Module| {
            Ok(Linear {
                features: features::Kernels::load(module)?,
                linear: linear::Kernels::load(module)?,
                pairs: pairs::Kernels::load(module)?,
            })
        };
        self.linear.get(device, || LINEAR.into(), find)
    }
}
