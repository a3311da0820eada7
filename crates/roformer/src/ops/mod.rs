//! The operations that models are made of: what a device offers ([`Backend`]), and the processor's loops ([`Cpu`]).

pub mod activation;
pub mod backend;
pub mod cpu;
pub mod gemm;
pub mod memory;
pub mod multiply;
pub mod norm;
pub mod real;

pub use activation::Activation;
pub use backend::{Backend, Part};
pub use cpu::Cpu;
pub use gemm::Matrix;
pub use memory::Memory;
pub use norm::{layer_norm, rms_norm};
pub use real::Real;
