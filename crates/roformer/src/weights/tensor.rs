//! One tensor of a file: where it stands, and its conversion to f32 or f64.

use half::{bf16, f16};
use std::fmt;

/// The type of a tensor's numbers in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The names say it.
pub enum Dtype {
    F64,
    F32,
    F16,
    BF16,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    Bool,
}

impl Dtype {
    /// The bytes of one number.
    pub fn size(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::BF16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool => 1,
        }
    }

    /// Whether tensors of this type can be read as weights.
    pub fn is_float(self) -> bool {
        matches!(self, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Rows of a transposed matrix that are read together: as many f32 as a line of memory has.
const TOGETHER: usize = 16;

/// A tensor of a file: its shape, its type, and where its numbers stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    shape: Vec<usize>,
    /// Steps from one element to the next along each axis, in elements.
    strides: Vec<usize>,
    dtype: Dtype,
    len: usize,
    /// Which of the open files.
    pub(super) file: usize,
    /// Where the first element begins.
    pub(super) start: u64,
    /// The bytes from the first element to the end of the last one.
    pub(super) span: u64,
    /// The masked CRC-32C of those, where the file gives one.
    pub(super) checksum: Option<u32>,
    /// What each row of whole numbers is to be multiplied with: weights of 8 bits.
    pub(super) scale: Option<Box<Tensor>>,
}

impl Tensor {
    /// A tensor over a piece of a file that begins at byte `base` and has room for `room` elements. Its first element is
    /// number `offset` of those. Without strides, row follows row. The reason, if it does not fit.
    pub(super) fn new(
        dtype: Dtype,
        shape: Vec<usize>,
        strides: Option<Vec<usize>>,
        base: u64,
        offset: u64,
        room: u64,
    ) -> Result<Tensor, String> {
        let len = shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size));
        let Some(len) = len.filter(|_| product_fits(&shape)) else {
            return Err(format!("shape {} has more elements than can be counted", show(&shape)));
        };
        let mut strides = strides.unwrap_or_else(|| row_major(&shape));
        if strides.len() != shape.len() {
            return Err(format!("shape {} comes with strides {}", show(&shape), show(&strides)));
        }
        // The number of the last element, counted from the first. Without elements nothing is ever read.
        let reach = shape.iter().zip(&strides).try_fold(0_u64, |reach, (&size, &stride)| {
            reach.checked_add((size.saturating_sub(1) as u64).checked_mul(stride as u64)?)
        });
        let covered = if len == 0 { Some(0) } else { reach.and_then(|reach| reach.checked_add(1)) };
        let end = covered.and_then(|covered| covered.checked_add(offset));
        let size = dtype.size() as u64;
        let place = || {
            let span = covered?.checked_mul(size)?;
            let start = base.checked_add(offset.checked_mul(size)?)?;
            Some((start, span))
        };
        match (end, place()) {
            (Some(end), Some((start, span))) if end <= room => {
                // An axis of size 1 takes no step, and its stride may be anything. All others are now known to be small.
                strides
                    .iter_mut()
                    .zip(&shape)
                    .filter(|(_, size)| **size < 2)
                    .for_each(|(stride, _)| *stride = 0);
                Ok(Tensor { shape, strides, dtype, len, file: 0, start, span, checksum: None, scale: None })
            }
            _ => Err(format!(
                "shape {} with strides {} from element {offset} on reaches past the {room} elements that are there",
                show(&shape),
                show(&strides)
            )),
        }
    }

    /// The same numbers with the two axes of a matrix exchanged; anything but a matrix as it is.
    pub(super) fn transposed(mut self) -> Tensor {
        if self.shape.len() == 2 {
            self.shape.reverse();
            self.strides.reverse();
        }
        self
    }

    /// `len` numbers from row `first` on, as a tensor of one axis; nothing where they are not all there, do not follow each other, or
    /// are checked with the others.
    pub(super) fn rows(&self, first: usize, len: usize) -> Option<Tensor> {
        let row: usize = self.shape.iter().skip(1).product();
        let start = first.checked_mul(row)?;
        let is_there = start.checked_add(len).is_some_and(|end| end <= self.len);
        let size = self.dtype.size() as u64;
        if !is_there || !self.is_contiguous() || self.checksum.is_some() {
            return None;
        }
        let scale = match &self.scale {
            Some(scale) => Some(Box::new(scale.rows(first, len / row.max(1))?)),
            None => None,
        };
        let (start, span) = (self.start + start as u64 * size, len as u64 * size);
        Some(Tensor { shape: vec![len], strides: vec![1], len, start, span, scale, ..self.clone() })
    }

    /// Its size along each axis, the slowest first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Whether its numbers can be read as weights: they are floating, or whole with a scale for each row.
    pub fn is_weights(&self) -> bool {
        self.dtype.is_float() || self.scale.is_some()
    }

    /// Takes `scale` as what each row is multiplied with, if that is what both are: 8 bits, row after row, and a number for each.
    pub(super) fn scaled(&self, scale: &Tensor) -> Option<Tensor> {
        let is_so = self.dtype == Dtype::I8
            && self.shape.len() == 2
            && self.is_contiguous()
            && scale.dtype == Dtype::F32
            && scale.shape == self.shape[..1];
        is_so.then(|| Tensor { scale: Some(Box::new(scale.clone())), ..self.clone() })
    }

    /// The type of its numbers in the file.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// How many numbers it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no numbers: one of its axes has size 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Converts `bytes`, the span of this tensor, into `out`, which has its length.
    pub(super) fn copy<T: Target>(&self, bytes: &[u8], out: &mut [T]) {
        match self.dtype {
            Dtype::F64 => self.convert(bytes, out, |x| T::from_f64(f64::from_le_bytes(x))),
            Dtype::F32 => self.convert(bytes, out, |x| T::from_f32(f32::from_le_bytes(x))),
            Dtype::F16 => self.convert(bytes, out, |x| T::from_f32(f16::from_le_bytes(x).to_f32())),
            Dtype::BF16 => self.convert(bytes, out, |x| T::from_f32(bf16::from_le_bytes(x).to_f32())),
            Dtype::I8 => self.convert(bytes, out, |x: [u8; 1]| T::from_f32(f32::from(i8::from_le_bytes(x)))),
            _ => {} // Refused by the caller.
        }
    }

    fn convert<T, const N: usize>(&self, bytes: &[u8], out: &mut [T], number: impl Fn([u8; N]) -> T) {
        let (elements, _) = bytes.as_chunks::<N>();
        let Some((&row, outer)) = self.shape.split_last().filter(|_| !self.is_contiguous()) else {
            for (out, &element) in out.iter_mut().zip(elements) {
                *out = number(element);
            }
            return;
        };
        if let [down, along] = self.strides[..]
            && down < along
        {
            // A matrix that stands in the file transposed. Numbers that are neighbours there are fetched together, and used
            // while they are at hand.
            for (group, out) in out.chunks_mut(TOGETHER * row).enumerate() {
                let first = group * TOGETHER * down;
                for i in 0..row {
                    let start = first + i * along;
                    for (r, out) in out.chunks_exact_mut(row).enumerate() {
                        out[i] = number(elements[start + r * down]);
                    }
                }
            }
            return;
        }
        let step = self.strides[outer.len()];
        // Counts through the axes before the last, the fastest last, as the odometer of a car does.
        let mut index = vec![0; outer.len()];
        let mut start = 0;
        for out in out.chunks_exact_mut(row) {
            for (i, out) in out.iter_mut().enumerate() {
                *out = number(elements[start + i * step]);
            }
            for axis in (0..outer.len()).rev() {
                index[axis] += 1;
                start += self.strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                start -= index[axis] * self.strides[axis];
                index[axis] = 0;
            }
        }
    }

    /// Whether row follows row.
    fn is_contiguous(&self) -> bool {
        let packed = row_major(&self.shape);
        (self.shape.iter().zip(&self.strides).zip(&packed))
            .all(|((&size, own), packed)| size < 2 || own == packed)
    }
}

/// The strides of rows that follow each other. The product of the shape fits by the time this is asked.
fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Whether even the axes beside one of size 0 have a product that fits.
fn product_fits(shape: &[usize]) -> bool {
    shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size.max(1))).is_some()
}

/// A shape as a message shows it: the first few sizes.
fn show(sizes: &[usize]) -> String {
    match sizes.get(..8) {
        Some(first) if sizes.len() > 8 => format!("{first:?} and {} more", sizes.len() - 8),
        _ => format!("{sizes:?}"),
    }
}

/// What weights are read as: f32 or f64.
pub trait Target: sealed::Sealed + Copy {
    /// The nearest value of this type.
    fn from_f32(value: f32) -> Self;
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The product with a factor.
    fn times(self, factor: f32) -> Self;
}

impl Target for f32 {
    fn from_f32(value: f32) -> f32 {
        value
    }
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    fn times(self, factor: f32) -> f32 {
        self * factor
    }
}

impl Target for f64 {
    fn from_f32(value: f32) -> f64 {
        f64::from(value)
    }
    fn from_f64(value: f64) -> f64 {
        value
    }
    fn times(self, factor: f32) -> f64 {
        self * f64::from(factor)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}
