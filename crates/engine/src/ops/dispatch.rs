//! One loop, compiled for every instruction set.

/// Writes a function that runs the loop `body` with the best instructions of this machine.
///
/// The body is `#[inline(always)]`, so that it is compiled once more inside each wrapper, there with the wrapper's
/// instructions.
macro_rules! vectorised {
    ($(#[$about:meta])* $visibility:vis fn $name:ident$(<$t:ident>)?($($argument:ident: $type:ty),* $(,)?) $(-> $out:ty)? = $body:ident) => {
        $(#[$about])*
        #[allow(unsafe_code, reason = "vector instructions")]
        $visibility fn $name$(<$t: Real>)?($($argument: $type),*) $(-> $out)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
            unsafe fn avx512$(<$t: Real>)?($($argument: $type),*) $(-> $out)? {
                $body($($argument),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2$(<$t: Real>)?($($argument: $type),*) $(-> $out)? {
                $body($($argument),*)
            }
            match $crate::ops::gemm::Level::best() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: the level says that the features are there.
                $crate::ops::gemm::Level::Avx512 => unsafe { avx512($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::ops::gemm::Level::Avx2 => unsafe { avx2($($argument),*) },
                $crate::ops::gemm::Level::Portable => $body($($argument),*),
            }
        }
    };
}

pub(crate) use vectorised;
