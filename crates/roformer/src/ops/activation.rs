//! Activations, element by element: loops without branches, so that they vectorise.

use super::gemm::Level;
use super::real::Real;

/// What is done to each number after a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x
    Identity,
    /// x·Φ(x) with the error function: Hugging Face's `gelu`.
    Gelu,
    /// Its approximation by a hyperbolic tangent: `gelu_new`, `gelu_pytorch_tanh`.
    GeluTanh,
    /// max(x, 0)
    Relu,
    /// x / (1 + e^(−x)): `silu`, `swish`.
    Silu,
    /// tanh x
    Tanh,
}

impl Activation {
    /// The activation of this name in a configuration (`hidden_act`).
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "relu" => Activation::Relu,
            "silu" | "swish" => Activation::Silu,
            "tanh" => Activation::Tanh,
            "linear" => Activation::Identity,
            _ => return None,
        })
    }

    /// Applies it to every number.
    pub fn apply<T: Real>(self, x: &mut [T]) {
        match Level::best() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that the features are there.
            Level::Avx512 => unsafe { avx512(self, x) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { avx2(self, x) },
            Level::Portable => all(self, x),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<T: Real>(activation: Activation, x: &mut [T]) {
    all(activation, x)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<T: Real>(activation: Activation, x: &mut [T]) {
    all(activation, x)
}

#[inline(always)]
fn all<T: Real>(activation: Activation, x: &mut [T]) {
    match activation {
        Activation::Identity => {}
        Activation::Gelu => {
            for x in x {
                // x·Φ(x), from the tail on the far side so that small results keep their digits.
                let tail = x.abs().normal_tail();
                *x = *x * if *x > T::ZERO { T::ONE - tail } else { tail };
            }
        }
        Activation::GeluTanh => {
            let (a, b) = (T::of((2.0 / std::f64::consts::PI).sqrt()), T::of(0.044715));
            for x in x {
                let inner = a * (*x + b * *x * *x * *x);
                // ½·(1 + tanh u) = 1 / (1 + e^(−2u))
                *x = *x / (T::ONE + (-(inner + inner)).exp());
            }
        }
        Activation::Relu => {
            for x in x {
                *x = if *x < T::ZERO { T::ZERO } else { *x };
            }
        }
        Activation::Silu => {
            for x in x {
                *x = *x / (T::ONE + (-*x).exp());
            }
        }
        Activation::Tanh => {
            for x in x {
                let e = (-(x.abs() + x.abs())).exp();
                let y = (T::ONE - e) / (T::ONE + e);
                *x = if *x < T::ZERO { -y } else { y };
            }
        }
    }
}
