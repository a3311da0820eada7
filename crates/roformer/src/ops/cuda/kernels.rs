//! The kernels: loaded once, found by name, launched.

use super::attend::{plain_shared, tensor_shared};
use super::memory::Queue;
use super::{Arithmetic, Fault};
use crate::error::Error;
use rope::cuda::{Device, Function, Module};

/// The source, in the order that `make-ptx` has.
const SOURCE: &str = concat!(
    include_str!("kernels/types.cu"),
    include_str!("kernels/rows.cu"),
    include_str!("kernels/pointwise.cu"),
    include_str!("kernels/attend.cu"),
    include_str!("kernels/mma.cu"),
    include_str!("kernels/tensor.cu"),
);
/// What `make-ptx` made of it, for chips from compute capability 8.0 on.
const PTX: &str = include_str!("kernels.ptx");

/// Threads of a block where each does one thing.
pub(super) const THREADS: usize = 256;

/// The kernels for one type of numbers. Pairs are for numbers one by one, and for 16 bytes at a time.
pub(super) struct Set {
    pub embed: [Function; 2],
    /// For up to 1, 2, 4 and 8 chunks of 16 bytes a lane.
    pub norm: [Function; 4],
    pub norm_any: Function,
    pub mean: Function,
    pub finish: [Function; 2],
    pub swiglu: [Function; 2],
    /// For heads of up to 64, 128 and 256 features.
    pub attend: [Function; 3],
}

pub(super) struct Kernels {
    f32: Set,
    bf16: Set,
    /// By 2, 4 and 16 bytes.
    pub copy: [Function; 3],
    /// For heads of up to 32, 64 and 128 features.
    pub tensor: [Function; 3],
    module: Module,
}

impl Kernels {
    pub fn load(device: &Device) -> Result<Kernels, Error> {
        let module = Module::load(device, SOURCE, PTX)?;
        let find = |name: &str| module.function(name);
        let set = |kind: &str| -> rope::Result<Set> {
            let find = |name: &str| find(&format!("{kind}_{name}"));
            let pair = |name: &str| Ok::<_, rope::Error>([find(name)?, find(&format!("{name}_wide"))?]);
            let norms = [find("norm_1")?, find("norm_2")?, find("norm_4")?, find("norm_8")?];
            Ok(Set {
                embed: pair("embed")?,
                norm: norms,
                norm_any: find("norm_any")?,
                mean: find("mean")?,
                finish: pair("finish")?,
                swiglu: pair("swiglu")?,
                attend: [find("attend_64")?, find("attend_128")?, find("attend_256")?],
            })
        };
        let all = Kernels {
            f32: set("f32")?,
            bf16: set("bf16")?,
            copy: [find("copy_2")?, find("copy_4")?, find("copy_16")?],
            tensor: [find("attend_tensor_32")?, find("attend_tensor_64")?, find("attend_tensor_128")?],
            module,
        };
        // More than 48 KB of shared memory must be asked for. What a chip has not, its launch reports.
        for (index, width) in [64, 128, 256].into_iter().enumerate() {
            for set in [&all.f32, &all.bf16] {
                let _ = set.attend[index].allow_shared(device, plain_shared(width));
            }
        }
        for (kernel, (queries, width)) in all.tensor.iter().zip([(128, 32), (128, 64), (64, 128)]) {
            let _ = kernel.allow_shared(device, tensor_shared(queries, width));
        }
        Ok(all)
    }

    pub fn set(&self, arithmetic: Arithmetic) -> &Set {
        if arithmetic == Arithmetic::Bf16 { &self.bf16 } else { &self.f32 }
    }

    pub fn origin(&self) -> &str {
        self.module.origin()
    }
}

/// Blocks, threads of a block and bytes of shared memory of a launch.
pub(super) struct Size {
    pub blocks: usize,
    pub threads: [usize; 2],
    pub shared: usize,
}

impl Size {
    /// A thread for each of so many things.
    pub fn each(count: usize) -> Size {
        Size { blocks: count.div_ceil(THREADS), threads: [THREADS, 1], shared: 0 }
    }
}

/// A number that a kernel takes in 32 bits.
pub(super) fn narrow(value: usize) -> Result<u32, Fault> {
    let why = || Error::Device(format!("a size of {value} is too large for a GPU; use a smaller batch"));
    u32::try_from(value).map_err(|_| why().into())
}

/// Launches a kernel that takes one struct of arguments.
///
/// # Safety
///
/// The struct is the kernel's, and all memory that it leads to lies within buffers that are there.
pub(super) unsafe fn launch<A>(
    queue: &Queue,
    kernel: Function,
    size: Size,
    argument: &A,
) -> Result<(), Fault> {
    // SAFETY: as the caller promises.
    unsafe { launch_with(queue, kernel, size, &mut [std::ptr::from_ref(argument).cast_mut().cast()]) }
}

/// Launches a kernel with pointers to its arguments.
///
/// # Safety
///
/// The arguments are the kernel's, and all memory that they lead to lies within buffers that are there.
pub(super) unsafe fn launch_with(
    queue: &Queue,
    kernel: Function,
    size: Size,
    arguments: &mut [*mut std::ffi::c_void],
) -> Result<(), Fault> {
    let Size { blocks, threads: [across, down], shared } = size;
    if blocks > i32::MAX as usize {
        let why = format!("{blocks} blocks of work do not fit in one launch on a GPU; use a smaller batch");
        return Err(Fault::Other(Error::Device(why)));
    }
    if blocks == 0 {
        return Ok(());
    }
    // SAFETY: as the caller promises; buffers are given back in the stream's order, after this work.
    unsafe { kernel.launch(&queue.stream, [blocks, 1, 1], [across, down, 1], shared, arguments) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_is_of_this_source() {
        assert!(Module::is_made_from(PTX, SOURCE), "run crates/roformer/src/ops/cuda/make-ptx");
        assert!(PTX.contains("\n.target sm_80\n"));
    }
}
