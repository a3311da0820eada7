//! The kernels: loaded once, found by name.

use super::Arithmetic;
use super::attend::{TENSOR, plain_shared, tensor_shared};
use crate::error::{Error, Result};
use crate::ops::Activation;
use gpu::{Device, Function, Module};

/// The source, in the order that `make-ptx` has.
const SOURCE: &str = concat!(
    include_str!("kernels/types.cu"),
    include_str!("kernels/activation.cu"),
    include_str!("kernels/statistics.cu"),
    include_str!("kernels/rows.cu"),
    include_str!("kernels/pool.cu"),
    include_str!("kernels/pointwise.cu"),
    include_str!("kernels/attend.cu"),
    include_str!("kernels/mma.cu"),
    include_str!("kernels/tensor.cu"),
);
/// What `make-ptx` made of it, for chips from compute capability 8.0 on.
const PTX: &str = include_str!("kernels.ptx");

/// The kernels for one type of numbers. Pairs are for numbers one by one, and for 16 bytes at a time.
pub(super) struct Set {
    pub embed: [Function; 2],
    /// For up to 1, 2, 4 and 8 chunks of 16 bytes a lane.
    pub norm: [Function; 4],
    pub norm_any: Function,
    pub mean: Function,
    pub pool: Function,
    pub finish: [Function; 2],
    pub gate: [Function; 2],
    /// For heads of up to 64, 128 and 256 features.
    pub attend: [Function; 3],
}

pub(super) struct Kernels {
    f32: Set,
    bf16: Set,
    /// By 2, 4 and 16 bytes.
    pub copy: [Function; 3],
    /// In bf16 and in TF32, for heads of up to 32, 64 and 128 features.
    tensor: [[Function; 3]; 2],
    module: Module,
}

impl Kernels {
    pub fn load(device: &Device) -> Result<Kernels> {
        let module = Module::load(device, SOURCE, PTX, &[])?;
        let find = |name: &str| module.function(name);
        let set = |kind: &str| -> gpu::Result<Set> {
            let find = |name: &str| find(&format!("{kind}_{name}"));
            let pair = |name: &str| Ok::<_, gpu::Error>([find(name)?, find(&format!("{name}_wide"))?]);
            let norms = [find("norm_1")?, find("norm_2")?, find("norm_4")?, find("norm_8")?];
            Ok(Set {
                embed: pair("embed")?,
                norm: norms,
                norm_any: find("norm_any")?,
                mean: find("mean")?,
                pool: find("pool")?,
                finish: pair("finish")?,
                gate: pair("gate")?,
                attend: [find("attend_64")?, find("attend_128")?, find("attend_256")?],
            })
        };
        let tensor = |kind: &str| -> gpu::Result<[Function; 3]> {
            let find = |width| find(&format!("attend_{kind}_{width}"));
            Ok([find(32)?, find(64)?, find(128)?])
        };
        let all = Kernels {
            f32: set("f32")?,
            bf16: set("bf16")?,
            copy: [find("copy_2")?, find("copy_4")?, find("copy_16")?],
            tensor: [tensor("bf16")?, tensor("tf32")?],
            module,
        };
        // More than 48 KB of shared memory must be asked for. What a chip has not, its launch reports.
        for (index, width) in [64, 128, 256].into_iter().enumerate() {
            for set in [&all.f32, &all.bf16] {
                let _ = set.attend[index].allow_shared(plain_shared(width));
            }
        }
        for (kernels, arithmetic) in all.tensor.iter().zip([Arithmetic::Bf16, Arithmetic::Tf32]) {
            for (kernel, (queries, width)) in kernels.iter().zip(TENSOR) {
                let _ = kernel.allow_shared(tensor_shared(arithmetic, queries, width));
            }
        }
        Ok(all)
    }

    pub fn set(&self, arithmetic: Arithmetic) -> &Set {
        if arithmetic == Arithmetic::Bf16 { &self.bf16 } else { &self.f32 }
    }

    /// Attention on tensor cores, where the arithmetic has them, in the order of [`TENSOR`].
    pub fn tensor(&self, arithmetic: Arithmetic) -> Option<&[Function; 3]> {
        match arithmetic {
            Arithmetic::F32 => None,
            Arithmetic::Bf16 => Some(&self.tensor[0]),
            Arithmetic::Tf32 => Some(&self.tensor[1]),
        }
    }

    pub fn origin(&self) -> &str {
        self.module.origin()
    }
}

/// A number that a kernel takes in 32 bits.
pub(super) fn narrow(value: usize) -> Result<u32> {
    let why = || Error::Device(format!("a size of {value} is too large for a GPU; use a smaller batch"));
    u32::try_from(value).map_err(|_| why())
}

/// The kernels' number of an activation, those of models and those of training.
pub(super) fn activation_number(activation: Activation) -> u32 {
    match activation {
        Activation::Identity => 0,
        Activation::Gelu => 1,
        Activation::GeluTanh => 2,
        Activation::Relu => 3,
        Activation::Silu => 4,
        Activation::Tanh => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_of_this_source() {
        assert!(Module::is_made_from(PTX, SOURCE), "run crates/engine/src/ops/cuda/make-ptx");
        assert!(PTX.contains("\n.target sm_80\n"));
    }
}
