//! The operations that models are made of: what a device offers ([`Backend`]), and the CPU's loops ([`Cpu`]).

pub mod activation;
pub mod backend;
pub mod cap;
#[cfg(test)]
pub(crate) mod check;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub(crate) mod dispatch;
pub mod dropout;
pub mod embedding;
#[allow(unsafe_code, reason = "an instruction that fetches")]
pub(crate) mod fetch;
#[allow(unsafe_code, reason = "vector instructions")]
pub mod gemm;
pub mod linear;
pub(crate) mod loops;
pub mod loss;
#[allow(unsafe_code, reason = "reads large pages as numbers")]
pub mod memory;
#[allow(unsafe_code, reason = "vector instructions, and threads that write apart")]
pub mod multiply;
#[allow(unsafe_code, reason = "vector instructions, and threads that write apart")]
pub mod narrow;
pub mod norm;
pub mod optimizer;
pub mod pass;
pub mod pool;
pub mod prenorm;
pub mod real;
#[allow(unsafe_code, reason = "threads write apart")]
pub(crate) mod reduce;
pub mod rotate;
pub(crate) mod share;
pub mod similarity;
pub mod watched;
pub mod weight;
pub mod words;

pub use activation::Activation;
pub use backend::{Accumulate, Backend, HeadRows, LinearWork, Part, TermRows, TermSegments, Terms};
pub use cpu::Cpu;
#[cfg(feature = "cuda")]
pub use cuda::{Arithmetic, Cuda};
pub use gemm::Matrix;
pub use memory::Memory;
pub use narrow::Precision;
pub use norm::{layer_norm, rms_norm};
pub use pool::{Pool, Span};
pub use real::Real;
pub use watched::{AttentionWeights, Watched};
pub use weight::Weight;
pub use words::Words;
