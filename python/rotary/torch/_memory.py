"""The calls of the compiled part."""

import functools
import types

import torch
from torch.autograd import forward_ad

from .._rotary import rotate as _rotate
from .._rotary import rotate_cuda as _rotate_cuda
from .._rotary import use_torch
from ._plain import looked_up


def bump(*tensors):
    """Raises the version of tensors: what was saved of them for a backward pass is not what it was."""
    torch._C._increment_version(tensors)


try:
    bump(torch.empty(0))
except (RuntimeError, TypeError):  # Earlier versions of torch take one at a time.

    def bump(*tensors):
        for tensor in tensors:
            torch._C._increment_version(tensor)


# In the order of `Kind` in crates/python/src/tensor.rs.
KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
# With torch's own functions from version 2.10 on, a tensor is described in a tenth of the time that its attributes take.
use_torch(
    torch.Tensor,
    KINDS,
    getattr(torch.Tensor, "__dlpack_c_exchange_api__", None),
    types.SimpleNamespace(
        modes=torch._C._len_torch_dispatch_stack,
        transforms=torch._C._are_functorch_transforms_active,
        tracing=torch._C._get_tracing_state,
        records=torch.is_grad_enabled,
        like=torch.empty_like,
        bump=bump,
        forward=forward_ad,
    ),
)

# The place of an argument among those that follow the offset.
_HEADS_FIRST = 2

_current_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def on_cpu(q, k, to_q, to_k, cos, sin, position_ids, cu_seqlens, offset, *how):
    """Rotates tensors of the CPU: in place where `to_q` is None."""
    _rotate(q, k, to_q, to_k, cos, sin, offset, position_ids, cu_seqlens, *how)


def cuda_kernels(q, device):
    """The function that rotates tensors of a GPU like this one, or None for plain torch."""
    return on_cuda if _has_kernels(device) and q.dtype != torch.float64 else None


@functools.cache
def _has_kernels(device):
    """Whether a GPU is one that the kernels run on: NVIDIA's from compute capability 8.0 on."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def on_cuda(q, k, to_q, to_k, cos, sin, position_ids, cu_seqlens, offset, *how):
    """As `on_cpu`, on a GPU and its current stream. Nothing is waited for or copied to the host, so a CUDA graph may record it."""
    device = q.get_device()
    stream = _current_stream(device)
    if position_ids is not None:
        position_ids = position_ids.contiguous()
    if cu_seqlens is not None:
        cu_seqlens = cu_seqlens.contiguous()
    tensors = (q, k, to_q, to_k, cos, sin)
    if not _rotate_cuda(device, stream, None, *tensors, offset, position_ids, cu_seqlens, *how):
        length = q.shape[-2 if how[_HEADS_FIRST] else -3]
        *table, offset = _read(cos, sin, position_ids, cu_seqlens, offset, length)
        _rotate_cuda(device, stream, tuple(table), *tensors, offset, position_ids, cu_seqlens, *how)


def _read(cos, sin, position_ids, cu_seqlens, offset, length):
    """Cosines and sines that the kernels of GPUs cannot read, in float32 and side by side: both, whether each token has a row of its
    own, and the offset into them. Their shapes have been checked; a row that is not there is the compiled part's to refuse."""
    if cos.dim() == 3 and cos.shape[0] == 1:
        cos, sin = cos[0], sin[0]
    if position_ids is not None:
        return _single(looked_up(cos, position_ids)), _single(looked_up(sin, position_ids)), True, offset
    if cos.dim() == 2 and cu_seqlens is not None:
        # No sequence is longer than all.
        cos, sin = cos[:length], sin[:length]
    elif cos.dim() == 2 and 0 <= offset and offset + length <= cos.shape[0]:
        cos, sin, offset = cos[offset : offset + length], sin[offset : offset + length], 0
    return _single(cos), _single(sin), cos.dim() == 3, offset


def _single(x):
    return x.to(torch.float32, memory_format=torch.contiguous_format)
