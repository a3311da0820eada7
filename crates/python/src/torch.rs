//! What torch says of its tensors: through the table of C functions that they carry (DLPack's exchange API, which torch has from 2.10
//! on), or where there is none through their attributes, which takes ten times as long.

use crate::error::raised;
use crate::tensor::{AXES, Kind, Tensor};
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyCapsuleMethods, PyTuple, PyType};
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// The name of a capsule that holds the table of functions.
const NAME: &std::ffi::CStr = c"dlpack_exchange_api";
/// The version of the table that is understood here; later minor ones are read alike.
const MAJOR: u32 = 1;
/// Devices as DLPack numbers them.
const CPU: i32 = 1;
const CUDA: i32 = 2;

/// Where a tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Cpu,
    Cuda(i32),
    Elsewhere,
}

/// DLPack's description of a tensor.
#[repr(C)]
struct Described {
    data: *mut c_void,
    device: (i32, i32),
    axes: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

/// DLPack's table of functions, of which one is used here.
#[repr(C)]
struct Exchange {
    major: u32,
    minor: u32,
    previous: *const Exchange,
    unused: [*const c_void; 3],
    /// Describes a tensor that stays its owner's. Not 0 with an exception set where it cannot.
    describe: Option<unsafe extern "C" fn(*mut c_void, *mut Described) -> c_int>,
}

pub(crate) struct Torch {
    /// `torch.Tensor`
    tensor: Py<PyType>,
    /// Its types of numbers, in the order of `Kind`.
    kinds: Vec<Py<PyAny>>,
    describe: Option<unsafe extern "C" fn(*mut c_void, *mut Described) -> c_int>,
    functions: Functions,
}

/// Functions of torch's, and the module of its forward derivatives.
#[derive(FromPyObject)]
pub(crate) struct Functions {
    /// How many modes stand between a call and the operations.
    modes: Py<PyAny>,
    /// Whether torch.func is at work.
    transforms: Py<PyAny>,
    /// Of `torch.jit.trace`, or None.
    tracing: Py<PyAny>,
    /// Whether gradients are recorded.
    records: Py<PyAny>,
    /// New memory like a tensor's.
    like: Py<PyAny>,
    /// Raises the version of tensors.
    bump: Py<PyAny>,
    forward: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// Tells the compiled part of torch's tensors: their type, the types of their numbers in the order of `Kind`, and their table of
/// functions. Torch's own; its functions live as long as the process. `functions` has as attributes the functions that are called.
#[pyfunction]
pub(crate) fn use_torch(
    py: Python,
    tensor: Py<PyType>,
    kinds: Vec<Py<PyAny>>,
    exchange: Option<Bound<PyCapsule>>,
    functions: Functions,
) -> PyResult<()> {
    let describe = match exchange {
        Some(capsule) => {
            let table = capsule.pointer_checked(Some(NAME))?.cast::<Exchange>();
            // SAFETY: a capsule of this name holds DLPack's table, whose header never changes, for as long as the process lives.
            let table = unsafe { table.as_ref() };
            if table.major == MAJOR { table.describe } else { None }
        }
        None => None,
    };
    TORCH.get_or_init(py, || Torch { tensor, kinds, describe, functions });
    Ok(())
}

/// Whether tensors, some of which may be None, can be handed to a kernel without torch's dispatcher in between: the number of their
/// GPU, -1 for the CPU, or None where they cannot. They are all of `torch.Tensor` itself and of one device, none of the first four
/// needs a gradient where those are recorded, and none of the cosines and sines is a view that is still to be negated. (Such views are
/// those of complex numbers, whose features are not contiguous: q and k are none.)
#[pyfunction]
pub(crate) fn direct(
    q: &Bound<PyAny>,
    k: &Bound<PyAny>,
    cos: &Bound<PyAny>,
    sin: &Bound<PyAny>,
    position_ids: &Bound<PyAny>,
    cu_seqlens: &Bound<PyAny>,
    records_gradients: bool,
) -> PyResult<Option<i32>> {
    let py = q.py();
    let torch = torch(py)?;
    let mut found = None;
    for (index, tensor) in [q, k, cos, sin, position_ids, cu_seqlens].into_iter().enumerate() {
        let may_miss = matches!(index, 1 | 4 | 5);
        if may_miss && tensor.is_none() {
            continue;
        }
        if !torch.is_tensor(tensor) {
            return Ok(None);
        }
        let Ok(place) = torch.place(tensor) else { return Ok(None) };
        if place == Place::Elsewhere || *found.get_or_insert(place) != place {
            return Ok(None);
        }
        if records_gradients && index < 4 && tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            return Ok(None);
        }
        if matches!(index, 2 | 3) && tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(None);
        }
    }
    Ok(match found {
        Some(Place::Cpu) => Some(-1),
        Some(Place::Cuda(number)) => Some(number),
        _ => None,
    })
}

pub(crate) fn torch<'py>(py: Python<'py>) -> PyResult<&'py Torch> {
    TORCH.get(py).ok_or_else(|| raised("rotary.torch was not imported; expected that first"))
}

impl Torch {
    /// Whether nobody traces or transforms what is called, and whether gradients are recorded; `None` where somebody does.
    pub fn records_alone(&self, py: Python) -> PyResult<Option<bool>> {
        let Functions { modes, transforms, tracing, records, forward, .. } = &self.functions;
        let level = forward.bind(py).getattr(intern!(py, "_current_level"))?;
        let is_watched = modes.bind(py).call0()?.is_truthy()?
            || transforms.bind(py).call0()?.is_truthy()?
            || !tracing.bind(py).call0()?.is_none()
            || level.extract::<i64>()? >= 0;
        Ok(if is_watched { None } else { Some(records.bind(py).call0()?.is_truthy()?) })
    }

    /// A tensor of the CPU that needs no gradient, where those are recorded; `None` for any other. Cosines and sines may be views that
    /// are still to be negated: then `may_be_negative` asks. (Such views are those of complex numbers, whose features are not contiguous.)
    pub fn on_cpu(
        &self,
        tensor: &Bound<PyAny>,
        records: bool,
        may_be_negative: bool,
    ) -> PyResult<Option<Tensor>> {
        let py = tensor.py();
        if !self.is_tensor(tensor) {
            return Ok(None);
        }
        let read = match self.described(tensor) {
            Ok(Some(described)) if described.device.0 != CPU => return Ok(None),
            Ok(Some(described)) => Tensor::of(&described),
            Ok(None) if self.place(tensor)? != Place::Cpu => return Ok(None),
            Ok(None) => tensor.extract(),
            // Tensors without memory, of which the dispatcher knows more.
            Err(_) => return Ok(None),
        };
        if records && tensor.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
            return Ok(None);
        }
        if may_be_negative && tensor.call_method0(intern!(py, "is_neg"))?.is_truthy()? {
            return Ok(None);
        }
        match read {
            Ok(tensor) => Ok(Some(tensor)),
            // Numbers of another type.
            Err(error) if error.is_instance_of::<PyKeyError>(py) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// New memory like a tensor's.
    pub fn like<'py>(&self, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.functions.like.bind(tensor.py()).call1((tensor,))
    }

    /// Says that tensors were written to: what was saved of them for a backward pass is not what it was.
    pub fn bump(&self, q: &Bound<PyAny>, k: Option<&Bound<PyAny>>) -> PyResult<()> {
        let bump = self.functions.bump.bind(q.py());
        match k {
            Some(k) => bump.call1((q, k)),
            None => bump.call1((q,)),
        }
        .map(drop)
    }

    /// Whether an object's type is `torch.Tensor` itself, and no class made from it.
    fn is_tensor(&self, object: &Bound<PyAny>) -> bool {
        object.get_type().as_ptr() == self.tensor.as_ptr()
    }

    fn place(&self, tensor: &Bound<PyAny>) -> PyResult<Place> {
        let py = tensor.py();
        if let Some(described) = self.described(tensor)? {
            return Ok(match described.device {
                (CPU, _) => Place::Cpu,
                (CUDA, number) => Place::Cuda(number),
                _ => Place::Elsewhere,
            });
        }
        if tensor.getattr(intern!(py, "is_cpu"))?.is_truthy()? {
            Ok(Place::Cpu)
        } else if tensor.getattr(intern!(py, "is_cuda"))?.is_truthy()? {
            Ok(Place::Cuda(tensor.call_method0(intern!(py, "get_device"))?.extract()?))
        } else {
            Ok(Place::Elsewhere)
        }
    }

    /// DLPack's description of a tensor, where torch gives it. Its shape and strides are the tensor's own.
    fn described(&self, tensor: &Bound<PyAny>) -> PyResult<Option<Described>> {
        let Some(describe) = self.describe.filter(|_| self.is_tensor(tensor)) else { return Ok(None) };
        let mut described = Described {
            data: null_mut(),
            device: (0, 0),
            axes: 0,
            code: 0,
            bits: 0,
            lanes: 0,
            shape: null(),
            strides: null(),
            byte_offset: 0,
        };
        // SAFETY: torch's function for objects of this very type, called with Python's lock held, writes a description.
        let result = unsafe { describe(tensor.as_ptr().cast(), &mut described) };
        if result != 0 {
            return Err(PyErr::fetch(tensor.py()));
        }
        Ok(Some(described))
    }
}

impl<'py> FromPyObject<'_, 'py> for Tensor {
    type Error = PyErr;

    /// From a tensor of torch's.
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Tensor> {
        let py = object.py();
        let torch = torch(py)?;
        if let Some(described) = torch.described(&object)? {
            return Tensor::of(&described);
        }
        let dtype = object.getattr(intern!(py, "dtype"))?;
        let kind = torch.kinds.iter().position(|kind| kind.is(&dtype));
        let kind = kind.and_then(|kind| Kind::ALL.get(kind));
        let kind = *kind.ok_or_else(|| PyKeyError::new_err("numbers of another type"))?;
        let address = object.call_method0(intern!(py, "data_ptr"))?.extract()?;
        let shape = object.getattr(intern!(py, "shape"))?.cast_into::<PyTuple>()?;
        let strides = object.call_method0(intern!(py, "stride"))?.cast_into::<PyTuple>()?;
        let axes = fewer(shape.len())?;
        let list = |tuple: &Bound<PyTuple>| -> PyResult<[usize; AXES]> {
            let mut list = [0; AXES];
            for (axis, number) in list.iter_mut().enumerate().take(axes) {
                *number = tuple.get_item(axis)?.extract()?;
            }
            Ok(list)
        };
        Ok(Tensor::new(kind, address, axes, list(&shape)?, list(&strides)?))
    }
}

impl Tensor {
    /// As DLPack describes it. The tensor that it is of must live.
    fn of(described: &Described) -> PyResult<Tensor> {
        let Described { data, axes, code, bits, lanes, shape, strides, byte_offset, .. } = *described;
        let kind = match (code, bits, lanes) {
            (2, 32, 1) => Kind::F32,
            (2, 64, 1) => Kind::F64,
            (2, 16, 1) => Kind::F16,
            (4, 16, 1) => Kind::Bf16,
            (0, 32, 1) => Kind::I32,
            (0, 64, 1) => Kind::I64,
            _ => return Err(PyKeyError::new_err("numbers of another type")),
        };
        let axes = fewer(axes as usize)?;
        let list = |numbers: *const i64| {
            let mut list = [0; AXES];
            for (axis, number) in list.iter_mut().enumerate().take(axes) {
                // SAFETY: the description has as many sizes and strides as axes, and the tensor that they are of lives.
                *number = unsafe { *numbers.add(axis) } as usize;
            }
            list
        };
        Ok(Tensor::new(kind, data as usize + byte_offset as usize, axes, list(shape), list(strides)))
    }
}

fn fewer(axes: usize) -> PyResult<usize> {
    match axes <= AXES {
        true => Ok(axes),
        false => Err(raised(format!("got a tensor with {axes} axes; expected at most {AXES}"))),
    }
}
