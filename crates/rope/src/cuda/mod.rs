//! Rotation on NVIDIA GPUs, at the speed of their memory, with the bits that the CPU gives.
//!
//! The words are the CPU's: a [`Table`] is copied to a [`Device`], [`Table::at`] chooses its [`Rows`], and those rotate a
//! [`ViewMut`] of a [`Buffer`], or of anyone's pointer, on a [`Stream`], or on anyone's.
//!
//! ```no_run
//! use rope::cuda::{Device, Table, ViewMut};
//! use rope::{Positions, Rope, Turn, bf16};
//!
//! let device = Device::new(0)?; // an error in one line where there is no GPU
//! let stream = device.stream()?;
//! let rope = Rope::builder(128).base(500_000.0).build()?;
//! let table = Table::new(&device, &rope.table(0..8192, None)?)?;
//!
//! let (mut q, mut k) = (device.zeros::<bf16>(16 * 32 * 128)?, device.zeros::<bf16>(16 * 8 * 128)?);
//! let mut q = ViewMut::blhd(&mut q, [1, 16, 32, 128])?; // [batch, length, heads, head_dim]
//! let mut k = ViewMut::blhd(&mut k, [1, 16, 8, 128])?;
//! table.at(Positions::From(0))?.rotate_pair(&stream, Turn::Forward, &mut q, &mut k)?;
//! stream.synchronise()?;
//! # Ok::<(), rope::Error>(())
//! ```
//!
//! Devices, streams, graphs and memory are those of the crate `rope-gpu`, whose errors become this crate's with `?`. The driver's
//! library is loaded when the first device is asked for; nothing is linked. How it works and how fast it is: docs/gpu.md in the
//! repository. `kernels.cu` are the kernels.

mod gradient;
mod kernels;
#[allow(unsafe_code, reason = "launches kernels")]
mod launch;
mod rotate;
mod table;
#[allow(unsafe_code, reason = "views of foreign memory are their maker's promise")]
mod view;

pub use gpu::{
    Buffer, Current, Device, Elements, Error, Event, Function, Graph, Module, Plain, Slice, SliceMut, Stream,
    library_folders,
};
pub use gradient::FrequencyGradient;
pub use kernels::{Number, kernels};
pub use table::{Ids, Positions, Rows, Table, Trig};
pub use view::{Tensor, View, ViewMut};
