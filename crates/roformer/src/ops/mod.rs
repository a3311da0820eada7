//! The operations that models are made of, on slices, for `f32` and `f64`.

pub mod activation;
pub mod gemm;
pub mod memory;
pub mod norm;
pub mod real;

pub use activation::Activation;
pub use gemm::Matrix;
pub use memory::Memory;
pub use norm::layer_norm;
pub use real::Real;
