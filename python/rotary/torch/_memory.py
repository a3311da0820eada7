"""From tensors to addresses: the calls of the compiled part."""

import functools

import torch

from .._rotary import rotate as _rotate
from .._rotary import rotate_cuda as _rotate_cuda
from ._plain import looked_up

# As `Kind` in crates/python/src/tensor.rs.
KINDS = {
    torch.float32: 0,
    torch.float64: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int32: 4,
    torch.int64: 5,
}


def on_cpu(
    q,
    k,
    to_q,
    to_k,
    cos,
    sin,
    position_ids,
    cu_seqlens,
    offset,
    pairing,
    inverse,
    heads_first,
    rotary_dim,
    rotary_offset,
):
    """Rotates tensors of the CPU: in place where `to_q` is None."""
    # Written out, here and below: for a single token, calls are what takes time.
    kinds = KINDS
    _rotate(
        (kinds[q.dtype], q.data_ptr(), q.shape, q.stride()),
        None if k is None else (kinds[k.dtype], k.data_ptr(), k.shape, k.stride()),
        None if to_q is None else (kinds[to_q.dtype], to_q.data_ptr(), to_q.shape, to_q.stride()),
        None if to_k is None else (kinds[to_k.dtype], to_k.data_ptr(), to_k.shape, to_k.stride()),
        (kinds[cos.dtype], cos.data_ptr(), cos.shape, cos.stride()),
        (kinds[sin.dtype], sin.data_ptr(), sin.shape, sin.stride()),
        offset,
        None
        if position_ids is None
        else (kinds[position_ids.dtype], position_ids.data_ptr(), position_ids.shape, position_ids.stride()),
        None
        if cu_seqlens is None
        else (kinds[cu_seqlens.dtype], cu_seqlens.data_ptr(), cu_seqlens.shape, cu_seqlens.stride()),
        pairing,
        inverse,
        heads_first,
        rotary_dim,
        rotary_offset,
    )


def _described(x):
    return None if x is None else (KINDS[x.dtype], x.data_ptr(), x.shape, x.stride())


@functools.cache
def has_kernels(device):
    """Whether a GPU is one that the kernels run on: NVIDIA's from compute capability 8.0 on."""
    return torch.version.cuda is not None and torch.cuda.get_device_capability(device) >= (8, 0)


def on_cuda(
    q,
    k,
    to_q,
    to_k,
    cos,
    sin,
    position_ids,
    cu_seqlens,
    offset,
    pairing,
    inverse,
    heads_first,
    rotary_dim,
    rotary_offset,
):
    """As `on_cpu`, on a GPU and its current stream. Nothing is waited for or copied to the host, so a CUDA graph may record it."""
    device = q.get_device()
    pairs = (q.shape[-1] - rotary_offset if rotary_dim is None else rotary_dim) // 2
    length = q.shape[-2 if heads_first else -3] if q.dim() > 2 else 0
    table, rows, is_listed, offset = _table(cos, sin, pairs, position_ids, cu_seqlens, offset, length)
    kinds = KINDS
    if position_ids is not None:
        position_ids = position_ids.contiguous()
    if cu_seqlens is not None:
        cu_seqlens = cu_seqlens.contiguous()
    _rotate_cuda(
        device,
        torch._C._cuda_getCurrentRawStream(device),
        table.data_ptr(),
        rows,
        is_listed,
        (kinds[q.dtype], q.data_ptr(), q.shape, q.stride()),
        None if k is None else (kinds[k.dtype], k.data_ptr(), k.shape, k.stride()),
        None if to_q is None else (kinds[to_q.dtype], to_q.data_ptr(), to_q.shape, to_q.stride()),
        None if to_k is None else (kinds[to_k.dtype], to_k.data_ptr(), to_k.shape, to_k.stride()),
        (kinds[cos.dtype], cos.data_ptr(), cos.shape, cos.stride()),
        (kinds[sin.dtype], sin.data_ptr(), sin.shape, sin.stride()),
        offset,
        _described(position_ids),
        _described(cu_seqlens),
        pairing,
        inverse,
        heads_first,
        rotary_dim,
        rotary_offset,
    )


def _table(cos, sin, pairs, position_ids, cu_seqlens, offset, length):
    """Cosines and sines as the kernels of GPUs read them, `[rows, 2 * pairs]` in float32: the tensor, its rows, whether each token has
    one of its own, and the offset into it. Shapes that do not fit are handed on: the compiled part refuses them by name."""
    if cos.dim() == 3 and cos.shape[0] == 1 and sin.shape == cos.shape:
        cos, sin = cos[0], sin[0]
    if cos.dim() not in (2, 3) or sin.shape != cos.shape:
        return cos, 0, False, offset
    if cos.dim() == 3:
        return _side_by_side(cos, sin, pairs), cos.shape[0] * cos.shape[1], True, offset
    rows = cos.shape[0]
    if (
        cos.dtype == sin.dtype == torch.float32
        and cos.stride() == sin.stride() == (2 * pairs, 1)
        and sin.data_ptr() - cos.data_ptr() == 4 * pairs
        and cos.data_ptr() % 16 == 0
    ):
        return cos, rows, False, offset
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
