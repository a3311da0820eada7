//! NVIDIA GPUs: the driver, devices, streams and graphs, memory, kernels and their launches.
//!
//! What `rope::cuda` and the models of `roformer` stand on. Nothing is linked: the driver's library is loaded when the first
//! [`Device`] is asked for, and NVRTC, which compiles kernels for the chip that is there, where it is found.
//!
//! ```text
//! driver.rs            is there a driver? Its answers as errors
//! device.rs            which GPU? Its context, and what is kept with it
//! stream.rs, event.rs  work in order, and its times
//! graph.rs             work that was recorded and runs again
//! plain.rs             numbers that may be copied as bytes
//! buffer.rs            memory of anyone's order: owned, borrowed in part, or someone else's
//! queue.rs, block.rs   memory in the order of one stream: given out and taken back without waiting
//! pinned.rs            memory of the CPU's that the GPU reaches
//! module.rs, nvrtc.rs  kernels: compiled for the chip, or from PTX
//! cache.rs             compiled kernels on disk, and what was chosen by measuring
//! launch.rs            how a kernel is launched
//! testing.rs           what GPU tests do where there is no GPU
//! ```
//!
//! ```no_run
//! let device = gpu::Device::new(0)?; // an error in one line where there is no GPU
//! let stream = device.stream()?;
//! let mut buffer = device.upload(&[1.0f32, 2.0])?;
//! buffer.as_mut_slice().zero(&stream)?;
//! assert_eq!(buffer.download(&stream)?, [0.0, 0.0]);
//! # Ok::<(), gpu::Error>(())
//! ```
//!
//! What this crate checks is safe: lengths, that streams, memory and kernels are of one GPU, that memory and modules are there
//! for as long as they are used. What it cannot check is `unsafe`: a kernel's arguments, foreign addresses and streams, and that
//! the memory of recorded work is still there.

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "calls the driver")]
mod block;
#[allow(unsafe_code, reason = "calls the driver")]
mod buffer;
mod cache;
#[allow(unsafe_code, reason = "calls the driver")]
mod device;
#[allow(unsafe_code, reason = "opens and calls the driver")]
mod driver;
mod error;
#[allow(unsafe_code, reason = "calls the driver")]
mod event;
#[allow(unsafe_code, reason = "calls the driver")]
mod graph;
#[allow(unsafe_code, reason = "calls the driver")]
mod launch;
#[allow(unsafe_code, reason = "calls the driver")]
mod module;
#[allow(unsafe_code, reason = "opens and calls NVRTC")]
mod nvrtc;
#[allow(unsafe_code, reason = "calls the driver")]
mod pinned;
#[allow(unsafe_code, reason = "reads numbers as bytes")]
mod plain;
#[allow(unsafe_code, reason = "calls the driver")]
mod queue;
mod search;
#[allow(unsafe_code, reason = "calls the driver")]
mod stream;
#[doc(hidden)]
pub mod testing;

pub use block::{Block, Span};
pub use buffer::{Buffer, Elements, Slice, SliceMut};
pub use cache::{choose, chosen, fnv};
pub use device::{Current, Device};
pub use error::{Error, Result};
pub use event::Event;
pub use graph::Graph;
pub use launch::{Arguments, Size};
pub use module::{Function, Module};
pub use pinned::{Landing, Pinned};
pub use plain::{Plain, bytes};
pub use queue::Queue;
pub use search::library_folders;
pub use stream::Stream;
