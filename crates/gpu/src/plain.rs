//! Numbers that may be copied as bytes, to a GPU and back.

use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A number without padding that every pattern of bits is a value of, so that its bytes can be copied as they are, and memory
/// of a GPU read as numbers. Sealed.
pub trait Plain: sealed::Sealed + Copy + Default + Send + Sync + 'static {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
        impl Plain for $type {}
    )*};
}
plain!(f32, f64, f16, bf16, i32, i64, u32, u64, u8);

/// The bytes of numbers.
///
/// Types with padding, whose bytes nobody wrote, are refused:
///
/// ```compile_fail
/// gpu::bytes(&[(1u8, 2u32)]);
/// ```
pub fn bytes<T: Plain>(list: &[T]) -> &[u8] {
    // SAFETY: plain numbers have no padding, and bytes no alignment.
    unsafe { std::slice::from_raw_parts(list.as_ptr().cast(), size_of_val(list)) }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_those_of_the_numbers() {
        assert_eq!(bytes(&[0x0403_0201u32.to_le(), 5u32.to_le()]), [1, 2, 3, 4, 5, 0, 0, 0]);
        assert!(bytes::<f64>(&[]).is_empty());
    }
}
