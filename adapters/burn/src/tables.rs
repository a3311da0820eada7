//! Exact tables: on the CPU in the two precisions that data may need, and copies of them on other devices.

use crate::{Error, Result};
use burn::tensor::{DType, Device, Element, Tensor, TensorData};
use rope::{Precision, Rope, Table};
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The tables of one rope for the same positions.
pub(crate) struct Tables {
    single: Table<f32>,
    /// For `f64` data alone, made when that is first seen.
    double: OnceLock<Table<f64>>,
    covers: Covers,
    sequence_length: Option<u64>,
    copies: Mutex<Vec<Copied>>,
}

/// The positions that tables have rows for.
pub(crate) enum Covers {
    Range(Range<i64>),
    /// `[axes, rows]`
    Listed(Vec<f64>),
}

/// Cosines and sines `[rows, pairs]` on a device.
struct Copied {
    device: Device,
    dtype: DType,
    cos: Tensor<2>,
    sin: Tensor<2>,
}

impl Tables {
    pub fn new(rope: &Rope, covers: Covers, sequence_length: Option<u64>) -> Result<Self> {
        let single = covers.table(rope, sequence_length)?;
        let (double, copies) = (OnceLock::new(), Mutex::new(Vec::new()));
        Ok(Tables { single, double, covers, sequence_length, copies })
    }

    pub fn rope(&self) -> &Rope {
        self.single.rope()
    }

    pub fn sequence_length(&self) -> Option<u64> {
        self.sequence_length
    }

    pub fn single(&self) -> &Table<f32> {
        &self.single
    }

    pub fn double(&self) -> Result<&Table<f64>> {
        if let Some(table) = self.double.get() {
            return Ok(table);
        }
        let table = self.covers.table(self.rope(), self.sequence_length)?;
        Ok(self.double.get_or_init(|| table))
    }

    /// The position of the first row.
    pub fn first(&self) -> i64 {
        match &self.covers {
            Covers::Range(range) => range.start,
            Covers::Listed(_) => 0,
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.single.rows()
    }

    /// Cosines and sines `[rows, pairs]` in `F32` or `F64` on a device, which gets them once.
    pub fn on(&self, device: &Device, dtype: DType) -> Result<(Tensor<2>, Tensor<2>)> {
        // Constants for gradients. A device equals the same one with autodiff.
        let device = device.clone().without_autodiff();
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = copies.iter().find(|found| found.dtype == dtype && found.device == device) {
            return Ok((found.cos.clone(), found.sin.clone()));
        }
        let (cos, sin) = match dtype {
            DType::F64 => tensors(self.double()?, &device, dtype),
            _ => tensors(self.single(), &device, dtype),
        };
        copies.push(Copied { device, dtype, cos: cos.clone(), sin: sin.clone() });
        Ok((cos, sin))
    }
}

fn tensors<P: Precision + Element>(
    table: &Table<P>,
    device: &Device,
    dtype: DType,
) -> (Tensor<2>, Tensor<2>) {
    let shape = [table.rows(), table.rope().pairs()];
    let tensor = |list: &[P]| Tensor::from_data(TensorData::new(list.to_vec(), shape), (device, dtype));
    (tensor(table.cos()), tensor(table.sin()))
}

impl Covers {
    /// The positions `0..length`.
    pub fn length(length: usize) -> Result<Self> {
        // Rows are counted in 32 bits where another device gathers them.
        match i32::try_from(length) {
            Ok(length) => Ok(Covers::Range(0..length.into())),
            Err(_) => Err(Error::Argument {
                name: "max_sequence_length",
                value: length.to_string(),
                expected: "at most 2^31 - 1".into(),
            }),
        }
    }

    fn table<P: Precision>(&self, rope: &Rope, sequence_length: Option<u64>) -> Result<Table<P>> {
        match self {
            Covers::Range(range) => rope.table(range.clone(), sequence_length),
            Covers::Listed(list) => rope.table_of(list, sequence_length),
        }
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tables({})", self.single)
    }
}
