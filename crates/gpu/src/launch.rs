//! How a kernel is launched: blocks, threads, shared memory, arguments. Nothing is allocated.

use crate::driver::check;
use crate::error::{Error, Result};
use crate::module::Function;
use crate::stream::Stream;
use cudarc::driver::sys;
use std::ffi::c_void;

/// Threads of a block where each does one thing.
const THREADS: usize = 256;
/// Blocks that a launch may have along its first axis, and along the others.
const MOST: [usize; 3] = [i32::MAX as usize, 65_535, 65_535];

/// Blocks, threads of a block, and bytes of shared memory of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    blocks: [usize; 3],
    threads: [usize; 3],
    shared: usize,
}

impl Size {
    /// So many blocks, of so many threads along two axes.
    pub fn new(blocks: usize, threads: [usize; 2]) -> Size {
        Size::grid([blocks, 1, 1], [threads[0], threads[1], 1])
    }

    /// Blocks and threads along three axes.
    pub fn grid(blocks: [usize; 3], threads: [usize; 3]) -> Size {
        Size { blocks, threads, shared: 0 }
    }

    /// A thread for each of so many things.
    pub fn each(count: usize) -> Size {
        Size::new(count.div_ceil(THREADS), [THREADS, 1])
    }

    /// The same with so many bytes of shared memory.
    pub fn shared(self, bytes: usize) -> Size {
        Size { shared: bytes, ..self }
    }

    /// How many blocks along the first axis.
    pub fn blocks(&self) -> usize {
        self.blocks[0]
    }

    fn check(&self) -> Result<()> {
        if self.blocks.iter().zip(MOST).all(|(&blocks, most)| blocks <= most) {
            return Ok(());
        }
        let blocks = self.blocks.map(|count| count.to_string());
        let [x, y, z] = &blocks;
        let blocks = if self.blocks[1..] == [1, 1] { x.clone() } else { format!("{x} × {y} × {z}") };
        Err(Error::argument(
            "a launch",
            format!("{blocks} blocks of work"),
            "fewer than fit in one launch on a GPU: use a smaller batch",
        ))
    }
}

/// The arguments of a kernel, in its order: numbers, addresses, structs with the kernel's layout.
pub trait Arguments {
    /// Calls a function with a pointer to each.
    #[doc(hidden)]
    fn with<R>(&self, run: impl FnOnce(&mut [*mut c_void]) -> R) -> R;
}

macro_rules! arguments {
    ($($($name:ident)*;)*) => {$(
        impl<$($name: Copy),*> Arguments for ($($name,)*) {
            #[inline]
            fn with<R>(&self, run: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                #[expect(non_snake_case, reason = "an argument is called as its type is")]
                let ($($name,)*) = self;
                run(&mut [$(std::ptr::from_ref($name).cast_mut().cast()),*])
            }
        }
    )*};
}
arguments! {
    A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G;
}

impl Function {
    /// Launches the kernel on a stream. The arguments are read before this returns; no blocks are no work.
    ///
    /// # Safety
    ///
    /// The arguments are those that the kernel has, the sizes those it can have, and what the kernel reads and writes is
    /// memory of this GPU that is there until the work is done, and that no other stream writes in the meantime.
    #[inline]
    pub unsafe fn launch(&self, stream: &Stream, size: Size, arguments: impl Arguments) -> Result<()> {
        if size.blocks.contains(&0) {
            return Ok(());
        }
        size.check()?;
        let device = stream.device();
        if !device.is_of(self.context()) {
            return Err(Error::argument("a kernel", "loaded on another GPU", format!("one of {device}")));
        }
        let _current = device.enter()?;
        let ([x, y, z], [across, down, deep]) =
            (size.blocks.map(|count| count as u32), size.threads.map(|count| count as u32));
        let (raw, none) = (stream.raw(), std::ptr::null_mut());
        let result = arguments.with(|arguments| {
            let (list, shared) = (arguments.as_mut_ptr(), size.shared as u32);
            // SAFETY: the module is loaded, because the function holds it, in the context that is current; the rest is
            // the caller's promise.
            unsafe { sys::cuLaunchKernel(self.raw, x, y, z, across, down, deep, shared, raw, list, none) }
        });
        check("a launch", result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_launch_has_are_refused() {
        assert_eq!(Size::each(257), Size::new(2, [256, 1]));
        assert!(Size::new(MOST[0], [1, 1]).check().is_ok());
        let error = Size::new(MOST[0] + 1, [1, 1]).check().unwrap_err().to_string();
        assert!(error.contains("2147483648 blocks of work") && !error.contains('\n'), "{error}");
        assert!(Size::grid([1, 65_536, 1], [1, 1, 1]).check().is_err());
    }

    #[test]
    fn arguments_are_pointed_to_in_their_order() {
        let read = |pointer: *mut c_void| {
            // SAFETY: of the numbers below.
            unsafe { pointer.cast::<u32>().read() }
        };
        let list = (7u32, 8u32, 9u32).with(|list| list.iter().map(|&one| read(one)).collect::<Vec<_>>());
        assert_eq!(list, [7, 8, 9]);
    }
}
