//! Rotating other libraries' tensors where they lie, on the CPU.

use crate::error::raised;
use crate::pages::{is_read_only, make_large};
use crate::tensor::{Kind, Tensor, are_apart};
use crate::threads::{LARGE, pool};
use crate::torch::torch;
use crate::trig::{Scratch, Trig};
use half::{bf16, f16};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rope::{Element, Pairing, Rope, Turn, View, ViewMut};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Rotates `q` and `k`, in place or into `to_q` and `to_k`. Tensors are torch's, of the CPU, and must be nobody else's to write while
/// this runs; Python's functions in `rotary.torch` see to that.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call from Python for one rotation")]
pub(crate) fn rotate(
    py: Python,
    q: Tensor,
    k: Option<Tensor>,
    to_q: Option<Tensor>,
    to_k: Option<Tensor>,
    cos: Tensor,
    sin: Tensor,
    offset: i64,
    position_ids: Option<Tensor>,
    cu_seqlens: Option<Tensor>,
    pairing: u8,
    inverse: bool,
    heads_first: bool,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
) -> PyResult<()> {
    let how = How { pairing, inverse, heads_first, rotary_dim, rotary_offset };
    turn(py, [Some(q), k, to_q, to_k], (cos, sin), (offset, position_ids, cu_seqlens), how)
}

/// The same where torch's dispatcher need not be in between, tensors of the CPU as their owner holds them: checks that, makes the result's
/// memory unless `in_place`, and rotates. Returns what was rotated, or None without having done anything where the dispatcher is to be
/// asked: where somebody traces or transforms, for gradients, for tensors that are not the CPU's or not of `torch.Tensor` itself.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "one call from Python for one rotation")]
pub(crate) fn rotate_directly<'py>(
    q: &Bound<'py, PyAny>,
    k: &Bound<'py, PyAny>,
    cos: &Bound<'py, PyAny>,
    sin: &Bound<'py, PyAny>,
    position_ids: &Bound<'py, PyAny>,
    cu_seqlens: &Bound<'py, PyAny>,
    offset: &Bound<'py, PyAny>,
    pairing: u8,
    inverse: bool,
    heads_first: bool,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
    in_place: bool,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = q.py();
    let torch = torch(py)?;
    let Some(records) = torch.records_alone(py)? else { return Ok(None) };
    let mut tensors = [None; 6];
    for (index, tensor) in [q, k, cos, sin, position_ids, cu_seqlens].into_iter().enumerate() {
        if matches!(index, 1 | 4 | 5) && tensor.is_none() {
            continue;
        }
        // Positions are whole numbers, which have no gradients.
        tensors[index] = torch.on_cpu(tensor, records && index < 4, matches!(index, 2 | 3))?;
        if tensors[index].is_none() {
            return Ok(None);
        }
    }
    let [from_q, from_k, Some(cos), Some(sin), position_ids, cu_seqlens] = tensors else { return Ok(None) };
    // What is made for inference has no versions to raise.
    if in_place && q.call_method0(intern!(py, "is_inference"))?.is_truthy()? {
        return Ok(None);
    }
    let (new_q, new_k) = match in_place {
        true => (None, None),
        false => (Some(torch.like(q)?), from_k.map(|_| torch.like(k)).transpose()?),
    };
    let described =
        |tensor: &Option<Bound<PyAny>>| tensor.as_ref().map(|tensor| tensor.extract()).transpose();
    let (to_q, to_k) = (described(&new_q)?, described(&new_k)?);
    let how = How { pairing, inverse, heads_first, rotary_dim, rotary_offset };
    turn(py, [from_q, from_k, to_q, to_k], (cos, sin), (offset.extract()?, position_ids, cu_seqlens), how)?;
    let k = from_k.map(|_| k);
    if in_place {
        torch.bump(q, k)?;
    }
    let (q, k) = (new_q.unwrap_or_else(|| q.clone()), k.map(|k| new_k.unwrap_or_else(|| k.clone())));
    Ok(Some(match k {
        Some(k) => PyTuple::new(py, [q, k])?.into_any(),
        None => q,
    }))
}

/// How features turn.
struct How {
    pairing: u8,
    inverse: bool,
    heads_first: bool,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
}

/// Rotates queries and keys, into the last two tensors where they are there.
fn turn(
    py: Python,
    [q, k, to_q, to_k]: [Option<Tensor>; 4],
    (cos, sin): (Tensor, Tensor),
    (offset, position_ids, cu_seqlens): (i64, Option<Tensor>, Option<Tensor>),
    How { pairing, inverse, heads_first, rotary_dim, rotary_offset }: How,
) -> PyResult<()> {
    let Some(q) = q else { return Ok(()) };
    let features = *q.shape().last().unwrap_or(&0);
    let rope = rope_of(features, rotary_dim, rotary_offset, pairing)?;
    let first = Side::new("q", q, to_q, heads_first)?.writable("q")?;
    let second = k.map(|k| Side::new("k", k, to_k, heads_first)?.writable("k")).transpose()?;
    let [batch, length, ..] = first.shape;
    check_pair(&first, second.as_ref())?;
    check_read(&first, second.as_ref(), [Some(cos), Some(sin), position_ids, cu_seqlens])?;
    let trig = Trig::new((cos, sin), rope.rotary_dim(), (batch, length), offset, position_ids, cu_seqlens)?;
    let turn = if inverse { Turn::Backward } else { Turn::Forward };
    let work = Work { rope: &rope, trig, turn, q: first, k: second };
    let bytes = q.bytes() + k.map_or(0, |k| k.bytes());
    match bytes < LARGE {
        true => work.run(),
        false => {
            for side in
                [Some(&work.q), work.k.as_ref()].into_iter().flatten().filter(|side| !side.is_in_place)
            {
                make_large(side.to.address, side.to.extent() * side.to.kind.bytes());
            }
            let threads = py.import("torch")?.call_method0("get_num_threads")?.extract()?;
            let pool = pool(threads)?;
            py.detach(|| pool.install(|| work.run()))
        }
    }
}

/// The features that turn and their order, as a rope whose own frequencies nobody asks for. Kept, because making one takes longer
/// than rotating a token.
pub(crate) fn rope_of(
    features: usize,
    rotary_dim: Option<usize>,
    rotary_offset: usize,
    pairing: u8,
) -> PyResult<Arc<Rope>> {
    type Key = (usize, usize, usize, u8);
    static ROPES: Mutex<Option<HashMap<Key, Arc<Rope>>>> = Mutex::new(None);
    let rotary_dim = rotary_dim.unwrap_or(features.saturating_sub(rotary_offset));
    let key = (features, rotary_dim, rotary_offset, pairing);
    let mut ropes = ROPES.lock().unwrap_or_else(PoisonError::into_inner);
    let ropes = ropes.get_or_insert_default();
    if let Some(rope) = ropes.get(&key) {
        return Ok(rope.clone());
    }
    let pairings = [Pairing::Half, Pairing::Interleaved, Pairing::InterleavedToHalf];
    let pairing = *pairings.get(usize::from(pairing)).ok_or_else(|| raised("no such pairing"))?;
    let builder =
        Rope::builder(features).rotary_dim(rotary_dim).rotary_offset(rotary_offset).pairing(pairing);
    let rope = Arc::new(builder.build().map_err(raised)?);
    // Shapes are few; whoever has very many pays for making them again.
    if ropes.len() >= 1024 {
        ropes.clear();
    }
    ropes.insert(key, rope.clone());
    Ok(rope)
}

/// Checks that keys go with queries.
pub(crate) fn check_pair(q: &Side, k: Option<&Side>) -> PyResult<()> {
    let Some(k) = k else { return Ok(()) };
    if q.from.kind != k.from.kind {
        let (got, expected) = (k.from.kind.name(), q.from.kind.name());
        return Err(raised(format!("k has type {got}; expected that of q, {expected}")));
    }
    if q.shape[..2] != k.shape[..2] {
        let (got, expected) = (k.from.shape(), q.from.shape());
        return Err(raised(format!("k has shape {got:?}; expected batch and length of q, {expected:?}")));
    }
    if q.shape[3] != k.shape[3] {
        let (got, expected) = (k.shape[3], q.shape[3]);
        return Err(raised(format!("k has {got} features a head; expected {expected}, as q has")));
    }
    if !are_apart(&q.to, &k.to) {
        return Err(raised("q and k share memory; expected tensors that do not overlap, to write to"));
    }
    Ok(())
}

/// Checks that nothing is written to that is also read: cosines, sines, position ids, cumulative lengths.
pub(crate) fn check_read(q: &Side, k: Option<&Side>, read: [Option<Tensor>; 4]) -> PyResult<()> {
    for (name, side) in [("q", Some(q)), ("k", k)] {
        for (other, tensor) in ["cos", "sin", "position_ids", "cu_seqlens"].into_iter().zip(read) {
            if side.zip(tensor).is_some_and(|(side, tensor)| side.to.touches(&tensor)) {
                return Err(raised(format!(
                    "{name} and {other} share memory; expected tensors that do not overlap, to write to"
                )));
            }
        }
    }
    Ok(())
}

/// Queries or keys, read and written.
pub(crate) struct Side {
    pub from: Tensor,
    pub to: Tensor,
    /// `[batch, length, heads, head_dim]`
    pub shape: [usize; 4],
    pub from_strides: [usize; 3],
    pub to_strides: [usize; 3],
    pub is_in_place: bool,
}

impl Side {
    pub fn new(name: &str, from: Tensor, to: Option<Tensor>, heads_first: bool) -> PyResult<Side> {
        if matches!(from.kind, Kind::I32 | Kind::I64) {
            let got = from.kind.name();
            return Err(raised(format!(
                "{name} has type {got}; expected float32, float64, float16 or bfloat16"
            )));
        }
        let (shape, from_strides) = from.vectors(name, heads_first)?;
        let Some(to) = to else {
            if shape.iter().zip(from_strides).any(|(size, stride)| *size > 1 && stride == 0)
                && !from.is_empty()
            {
                return Err(raised(format!(
                    "{name} is expanded: several of its vectors are one in memory; expected {name}.contiguous() to write to"
                )));
            }
            return Ok(Side {
                from,
                to: from,
                shape,
                from_strides,
                to_strides: from_strides,
                is_in_place: true,
            });
        };
        let (to_shape, to_strides) = to.vectors("the result", heads_first)?;
        if to_shape != shape || to.kind != from.kind || !are_apart(&from, &to) {
            return Err(raised(format!("the result does not fit {name}")));
        }
        Ok(Side { from, to, shape, from_strides, to_strides, is_in_place: false })
    }

    /// Refuses to write to memory of the CPU's that is read-only.
    fn writable(self, name: &str) -> PyResult<Side> {
        if self.is_in_place && !self.from.is_empty() && is_read_only(self.from.address, self.from.bytes()) {
            return Err(raised(format!(
                "{name} lies in memory that is read-only; expected memory to write to"
            )));
        }
        Ok(self)
    }

    fn view<'a, T: Element>(&self) -> PyResult<View<'a, T>> {
        let pointer = pointer(self.from.address);
        // SAFETY: the tensor's memory, as Python describes it, which lives while the call runs and begins where a number can.
        unsafe { View::from_raw(pointer, self.shape, self.from_strides) }.map_err(raised)
    }

    fn view_mut<'a, T: Element>(&self) -> PyResult<ViewMut<'a, T>> {
        let pointer = pointer(self.to.address);
        // SAFETY: as above; Python's caller asked for it to be written, or the memory was made for the result.
        unsafe { ViewMut::from_raw(pointer, self.shape, self.to_strides) }.map_err(raised)
    }
}

/// An address as a pointer. That of an empty tensor, which may be 0, becomes one that nobody follows.
fn pointer<T>(address: usize) -> *mut T {
    match address {
        0 => std::ptr::dangling_mut(),
        address => address as *mut T,
    }
}

/// One rotation, checked but for the positions.
struct Work<'a> {
    rope: &'a Rope,
    trig: Trig,
    turn: Turn,
    q: Side,
    k: Option<Side>,
}

impl Work<'_> {
    fn run(&self) -> PyResult<()> {
        thread_local! {
            static SINGLES: RefCell<Scratch<f32>> = RefCell::default();
            static DOUBLES: RefCell<Scratch<f64>> = RefCell::default();
        }
        // Taken, not borrowed: a thread that waits for others may begin another rotation.
        match self.q.from.kind {
            Kind::F64 => {
                let mut scratch = DOUBLES.take();
                let done = self.run_as::<f64>(Kind::F64, &mut scratch);
                DOUBLES.set(scratch);
                done
            }
            kind => {
                let mut scratch = SINGLES.take();
                let done = match kind {
                    Kind::F16 => self.run_as::<f16>(Kind::F32, &mut scratch),
                    Kind::Bf16 => self.run_as::<bf16>(Kind::F32, &mut scratch),
                    _ => self.run_as::<f32>(Kind::F32, &mut scratch),
                };
                SINGLES.set(scratch);
                done
            }
        }
    }

    fn run_as<T: Element>(&self, table: Kind, scratch: &mut Scratch<T::Table>) -> PyResult<()> {
        self.trig.with(table, scratch, |cos, sin, positions| {
            let rows = self.rope.rows_of(cos, sin, positions).map_err(raised)?;
            match (&self.q, &self.k) {
                (q, None) if q.is_in_place => rows.rotate(self.turn, &mut q.view_mut::<T>()?),
                (q, Some(k)) if q.is_in_place => {
                    rows.rotate_pair(self.turn, &mut q.view_mut::<T>()?, &mut k.view_mut::<T>()?)
                }
                (q, k) => {
                    rows.rotate_to(self.turn, &q.view::<T>()?, &mut q.view_mut()?).map_err(raised)?;
                    match k {
                        Some(k) => rows.rotate_to(self.turn, &k.view::<T>()?, &mut k.view_mut()?),
                        None => Ok(()),
                    }
                }
            }
            .map_err(raised)
        })
    }
}
