"""From tensors to addresses: the calls of the compiled part."""

import torch

from .._rotary import rotate as _rotate

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
    q, k, to_q, to_k, cos, sin, position_ids, cu_seqlens, offset, pairing, inverse, heads_first, rotary_dim, rotary_offset
):
    """Rotates tensors of the CPU: in place where `to_q` is None."""
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
        None if cu_seqlens is None else (kinds[cu_seqlens.dtype], cu_seqlens.data_ptr(), cu_seqlens.shape, cu_seqlens.stride()),
        pairing,
        inverse,
        heads_first,
        rotary_dim,
        rotary_offset,
    )
