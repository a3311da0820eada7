//! The kernels of the rotation: loaded once for a device, found by type and order.

use crate::element::Element;
use crate::error::Result;
use crate::pairing::Order;
use gpu::{Device, Function, Module};
use std::sync::Arc;

/// The source of the kernels.
const SOURCE: &str = include_str!("kernels.cu");
/// What `make-ptx` made of it, for chips from compute capability 8.0 on.
const PTX: &str = include_str!("kernels.ptx");

/// What NVRTC is told besides the chip, as `make-ptx` does.
const OPTIONS: [&str; 1] = ["--fmad=false"];

/// The number types of the kernels, in the order of `Kernels::types`.
const TYPES: [&str; 3] = ["f32", "f16", "bf16"];

/// A number that the kernels rotate: `f32`, `f16` or `bf16`. Sealed.
pub trait Number: Element<Table = f32> + gpu::Plain {
    /// Its place among the kernels' types.
    #[doc(hidden)]
    const TYPE: usize;
}

impl Number for f32 {
    const TYPE: usize = 0;
}
impl Number for half::f16 {
    const TYPE: usize = 1;
}
impl Number for half::bf16 {
    const TYPE: usize = 2;
}

/// Where the kernels of the rotation come from, NVRTC or the crate's PTX, and for which chip. Loads them where no
/// [`Table`](super::Table) of the device has: compiled for this chip by NVRTC where that library is found (once; the result is
/// kept in the user's cache folder), else from the PTX in this crate by the driver.
pub fn kernels(device: &Device) -> Result<String> {
    Ok(Kernels::of(device)?.module.origin().to_string())
}

/// All kernels, loaded.
pub(super) struct Kernels {
    module: Module,
    types: [OfType; 3],
    pub gradient_total: Function,
}

/// The kernels of one number type. `HALF` and `INTERLEAVED` index what they read and write.
struct OfType {
    /// `[wide][in place][from][to]`
    rotate: [[[[Function; 2]; 2]; 2]; 2],
    /// `[from]`: in place into the other order, through shared memory.
    reorder: [Function; 2],
    gradient: [Function; 2],
}

fn index(order: Order) -> usize {
    match order {
        Order::Half => 0,
        Order::Interleaved => 1,
    }
}

impl Kernels {
    /// Those of a device, loaded the first time.
    pub fn of(device: &Device) -> Result<Arc<Kernels>> {
        Ok(device.keep(Kernels::load)?)
    }

    fn load(device: &Device) -> gpu::Result<Kernels> {
        let module = Module::load(device, SOURCE, PTX, &OPTIONS)?;
        let find = |name: &str| module.function(name);
        let of_type = |kind: &str| -> gpu::Result<OfType> {
            let orders = ["half", "interleaved"];
            let all = |end: &str| -> gpu::Result<[[Function; 2]; 2]> {
                let named =
                    |from: usize, to: usize| find(&format!("{kind}_{}_{}{end}", orders[from], orders[to]));
                Ok([[named(0, 0)?, named(0, 1)?], [named(1, 0)?, named(1, 1)?]])
            };
            Ok(OfType {
                rotate: [[all("")?, all("_in_place")?], [all("_wide")?, all("_wide_in_place")?]],
                reorder: [
                    find(&format!("{kind}_half_interleaved_reorder"))?,
                    find(&format!("{kind}_interleaved_half_reorder"))?,
                ],
                gradient: [
                    find(&format!("{kind}_half_gradient"))?,
                    find(&format!("{kind}_interleaved_gradient"))?,
                ],
            })
        };
        let types = [of_type(TYPES[0])?, of_type(TYPES[1])?, of_type(TYPES[2])?];
        let gradient_total = find("gradient_total")?;
        Ok(Kernels { module, types, gradient_total })
    }

    #[inline]
    pub fn rotate<T: Number>(&self, from: Order, to: Order, wide: bool, in_place: bool) -> &Function {
        &self.types[T::TYPE].rotate[usize::from(wide)][usize::from(in_place)][index(from)][index(to)]
    }

    pub fn reorder<T: Number>(&self, from: Order) -> &Function {
        &self.types[T::TYPE].reorder[index(from)]
    }

    pub fn gradient<T: Number>(&self, order: Order) -> &Function {
        &self.types[T::TYPE].gradient[index(order)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kernels.ptx` is what `make-ptx` made of this `kernels.cu`: if this fails, run it.
    #[test]
    fn ptx_is_of_this_source() {
        assert!(Module::is_made_from(PTX, SOURCE), "run crates/rope/src/cuda/make-ptx");
        assert!(PTX.contains("\n.target sm_80\n"));
    }
}
