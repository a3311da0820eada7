//! Tensors of other libraries, rotated where they are: no copy is made, and the bits are those of the slice API.

use crate::numbers::{HEAD_DIM, Number, table, wave};
use candle_core::{CpuStorage, Device, Error, InplaceOp1, Layout, Result, Storage, Tensor, bail};
use rope::{Pairing, Positions, Table, Turn, ViewMut, bf16, f16};

/// What the functions below check.
pub const CHECKED: [&str; 2] = [
    "candle: f32, f16 and bf16 tensors, contiguous and transposed, rotated in their own storage through `InplaceOp1`; \
     the same bits as the slice API",
    "PyTorch's layout of `q.transpose(1, 2)`: memory [b, l, h, d] seen as [b, h, l, d], rotated through \
     `ViewMut::from_raw` with its strides; the same bits as the slice API",
];

const BATCH: usize = 2;
const LENGTH: usize = 1024;
const HEADS: usize = 4;
/// Where the first token stands.
const FIRST: i64 = 3;
const PAIRINGS: [Pairing; 2] = [Pairing::Half, Pairing::Interleaved];

/// What a user of candle writes once: `x.inplace_op1(&InPlace { table: &table, first: 0 })?` then rotates any CPU tensor
/// `[batch, heads, length, head_dim]`, contiguous or not.
struct InPlace<'a> {
    table: &'a Table<f32>,
    /// The position of the first token.
    first: i64,
}

impl InPlace<'_> {
    fn rotate<T: Number>(&self, data: &mut [T], layout: &Layout) -> Result<()> {
        let (batch, heads, length, head_dim) = layout.shape().dims4()?;
        let &[by_batch, by_head, by_token, 1] = layout.stride() else {
            bail!("features are not next to each other")
        };
        let data = &mut data[layout.start_offset()..];
        let mut rotate = || {
            let mut x =
                ViewMut::strided(data, [batch, length, heads, head_dim], [by_batch, by_token, by_head])?;
            self.table.at(Positions::From(self.first))?.rotate(Turn::Forward, &mut x)
        };
        rotate().map_err(Error::wrap)
    }
}

impl InplaceOp1 for InPlace<'_> {
    fn name(&self) -> &'static str {
        "rope-in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        match storage {
            CpuStorage::F32(data) => self.rotate(data, layout),
            CpuStorage::F16(data) => self.rotate(data, layout),
            CpuStorage::BF16(data) => self.rotate(data, layout),
            _ => bail!("only f32, f16 and bf16 tensors are rotated"),
        }
    }
}

/// Rotates candle tensors in place.
pub fn candle_tensor() -> Result<()> {
    fn each<T: Number>(pairing: Pairing) -> Result<()> {
        let table = table(pairing).map_err(Error::wrap)?;
        let op = InPlace { table: &table, first: FIRST };
        let numbers = wave::<T>(BATCH * LENGTH * HEADS * HEAD_DIM, 1);

        let x = Tensor::from_vec(numbers.clone(), (BATCH, HEADS, LENGTH, HEAD_DIM), &Device::Cpu)?;
        let place = address(&x)?;
        x.inplace_op1(&op)?;
        let mut expected = numbers.clone();
        let view = ViewMut::bhld(&mut expected, [BATCH, HEADS, LENGTH, HEAD_DIM]);
        rotate(&table, view)?;
        assert!(same_bits(&x.flatten_all()?.to_vec1::<T>()?, &expected));
        assert_eq!(address(&x)?, place);

        // The tensor that a projection makes, its axes swapped: candle's own functions refuse it, as not contiguous.
        let projected = Tensor::from_vec(numbers.clone(), (BATCH, LENGTH, HEADS, HEAD_DIM), &Device::Cpu)?;
        let place = address(&projected)?;
        projected.transpose(1, 2)?.inplace_op1(&op)?;
        let mut expected = numbers;
        let view = ViewMut::blhd(&mut expected, [BATCH, LENGTH, HEADS, HEAD_DIM]);
        rotate(&table, view)?;
        assert!(same_bits(&projected.flatten_all()?.to_vec1::<T>()?, &expected));
        assert_eq!(address(&projected)?, place);
        Ok(())
    }
    for pairing in PAIRINGS {
        each::<f32>(pairing)?;
        each::<f16>(pairing)?;
        each::<bf16>(pairing)?;
    }
    Ok(())
}

/// Rotates memory that another library owns and describes as PyTorch does: `data_ptr()`, `shape` and `stride()` of
/// `q.transpose(1, 2)`.
pub fn transposed_buffer() -> Result<()> {
    fn each<T: Number>(pairing: Pairing) -> Result<()> {
        let table = table(pairing).map_err(Error::wrap)?;
        let numbers = wave::<T>(BATCH * LENGTH * HEADS * HEAD_DIM, 1);
        let mut buffer = numbers.clone();
        let pointer = buffer.as_mut_ptr();
        let shape = [BATCH, HEADS, LENGTH, HEAD_DIM];
        let strides = [LENGTH * HEADS * HEAD_DIM, HEAD_DIM, HEADS * HEAD_DIM, 1];

        // We name batch, length and heads in that order, whatever their order there; a stride of 1 goes without saying.
        let ([b, h, l, d], [by_batch, by_head, by_token, 1]) = (shape, strides) else { bail!("{strides:?}") };
        // SAFETY: shape and strides reach exactly the buffer, which is aligned and borrowed by nothing else until the
        // comparison below, after the view's last use.
        let view = unsafe { ViewMut::from_raw(pointer, [b, l, h, d], [by_batch, by_token, by_head]) };
        rotate(&table, view)?;

        let mut expected = numbers;
        rotate(&table, ViewMut::blhd(&mut expected, [BATCH, LENGTH, HEADS, HEAD_DIM]))?;
        assert!(same_bits(&buffer, &expected));
        Ok(())
    }
    for pairing in PAIRINGS {
        each::<f32>(pairing)?;
        each::<f16>(pairing)?;
        each::<bf16>(pairing)?;
    }
    Ok(())
}

/// Rotates a view, as `InPlace` is asked to.
fn rotate<T: Number>(table: &Table<f32>, view: rope::Result<ViewMut<T>>) -> Result<()> {
    let rotate = || table.at(Positions::From(FIRST))?.rotate(Turn::Forward, &mut view?);
    rotate().map_err(Error::wrap)
}

/// Equal, and zeros of the same sign.
fn same_bits<T: Number>(a: &[T], b: &[T]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_f64().to_bits() == b.to_f64().to_bits())
}

/// Where a tensor's numbers are.
fn address(x: &Tensor) -> Result<usize> {
    let (storage, _) = x.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(data)) => Ok(data.as_ptr().addr()),
        Storage::Cpu(CpuStorage::F16(data)) => Ok(data.as_ptr().addr()),
        Storage::Cpu(CpuStorage::BF16(data)) => Ok(data.as_ptr().addr()),
        _ => bail!("not an f32, f16 or bf16 tensor of the CPU"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn candle_tensor() {
        super::candle_tensor().unwrap();
    }

    #[test]
    fn transposed_buffer() {
        super::transposed_buffer().unwrap();
    }
}
