//! Where a model runs or is trained: the CPU, or a GPU.

#[cfg(feature = "cuda")]
use crate::ops::Cuda;

/// Where a model runs or is trained.
#[derive(Clone, Debug, Default)]
pub enum Device {
    /// The CPU, on the threads of rayon's current pool.
    #[default]
    Cpu,
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(Cuda),
}

impl Device {
    /// A short name: `cpu`, or `cuda` and what it computes in.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu => "cpu".into(),
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => format!("cuda {}", gpu.arithmetic().name()),
        }
    }
}
