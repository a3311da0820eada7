//! Where a model runs or is trained: the CPU, or a GPU.

use crate::ops::Cpu;
#[cfg(feature = "cuda")]
use crate::ops::Cuda;

/// Where a model runs or is trained.
#[derive(Clone, Debug)]
pub enum Device {
    /// The CPU, on the threads of rayon's current pool. Training there is in `f32`, whatever the precision says.
    Cpu(Cpu),
    /// An NVIDIA GPU.
    #[cfg(feature = "cuda")]
    Cuda(Cuda),
}

impl Default for Device {
    fn default() -> Self {
        Device::Cpu(Cpu::default())
    }
}

impl Device {
    /// A short name: `cpu`, or `cuda` and what it computes in.
    pub fn name(&self) -> String {
        match self {
            Device::Cpu(_) => "cpu".into(),
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => format!("cuda {}", gpu.arithmetic().name()),
        }
    }
}
