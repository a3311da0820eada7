"""The calls of the compiled part."""

import functools

import torch

from .._rotary import rotate as _rotate
from .._rotary import rotate_cuda as _rotate_cuda
from .._rotary import use_torch
from ._plain import looked_up

# In the order of `Kind` in crates/python/src/tensor.rs.
KINDS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64)
# With torch's own functions from version 2.10 on, a tensor is described in a tenth of the time that its attributes take.
use_torch(torch.Tensor, KINDS, getattr(torch.Tensor, "__dlpack_c_exchange_api__", None))

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
    if _rotate_cuda(device, stream, None, *tensors, offset, position_ids, cu_seqlens, *how):
        return
    _, _, heads_first, rotary_dim, rotary_offset = how
    pairs = (q.shape[-1] - rotary_offset if rotary_dim is None else rotary_dim) // 2
    length = q.shape[-2 if heads_first else -3]
    table, rows, is_listed, offset = _table(cos, sin, pairs, position_ids, cu_seqlens, offset, length)
    _rotate_cuda(
        device, stream, (table, rows, is_listed), *tensors, offset, position_ids, cu_seqlens, *how
    )


def _table(cos, sin, pairs, position_ids, cu_seqlens, offset, length):
    """Cosines and sines as the kernels of GPUs read them, `[rows, 2 * pairs]` in float32: the tensor, its rows, whether each token has
    one of its own, and the offset into it. Their shapes have been checked; a row that is not there is the compiled part's to refuse."""
    if cos.dim() == 3 and cos.shape[0] == 1:
        cos, sin = cos[0], sin[0]
    if cos.dim() == 3:
        return _side_by_side(cos, sin, pairs), cos.shape[0] * cos.shape[1], True, offset
    rows = cos.shape[0]
    if position_ids is not None:
        cos, sin = looked_up(cos, position_ids), looked_up(sin, position_ids)
        return _side_by_side(cos, sin, pairs), position_ids.numel(), True, offset
    if cu_seqlens is not None:
        # No sequence is longer than all.
        taken = min(rows, length)
        return _side_by_side(cos[:taken], sin[:taken], pairs), taken, False, offset
    if offset < 0 or offset + length > rows:
        return cos, rows, False, offset
    taken = slice(offset, offset + length)
    return _side_by_side(cos[taken], sin[taken], pairs), length, False, 0


def _side_by_side(cos, sin, pairs):
    return torch.cat([cos[..., :pairs].float(), sin[..., :pairs].float()], -1)
