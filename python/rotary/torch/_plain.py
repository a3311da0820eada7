"""The rotation in plain torch: what every device can run, and what the tests hold the kernels to."""

import torch

from .. import RotaryError

HALF, INTERLEAVED, INTERLEAVED_TO_HALF = range(3)


def rotate(x, cos, sin, position_ids, cu_seqlens, offset, pairing, inverse, heads_first, rotary_dim, rotary_offset):
    """`x` rotated, in new memory. 16-bit numbers are rotated in float32 and rounded once."""
    if rotary_dim is None:
        rotary_dim = x.shape[-1] - rotary_offset
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    length = x.shape[-2] if heads_first else x.shape[-3]
    cos, sin = (
        rows(table, rotary_dim // 2, position_ids, cu_seqlens, offset, length)
        .to(wide)
        .unsqueeze(-3 if heads_first else -2)
        for table in (cos, sin)
    )
    if x.dim() == 3 and cos.dim() == 4:
        cos, sin = cos[0], sin[0]
    if inverse:
        sin = -sin
    before, turned, after = x.split([rotary_offset, rotary_dim, x.shape[-1] - rotary_offset - rotary_dim], -1)
    reads, writes = {
        HALF: (HALF, HALF),
        INTERLEAVED: (INTERLEAVED, INTERLEAVED),
        INTERLEAVED_TO_HALF: (HALF, INTERLEAVED) if inverse else (INTERLEAVED, HALF),
    }[pairing]
    turned = turned.to(wide)
    a, b = (turned[..., ::2], turned[..., 1::2]) if reads == INTERLEAVED else turned.chunk(2, -1)
    a, b = a * cos - b * sin, b * cos + a * sin
    turned = torch.stack([a, b], -1).flatten(-2) if writes == INTERLEAVED else torch.cat([a, b], -1)
    return torch.cat([before, turned.to(x.dtype), after], -1)


def rows(table, pairs, position_ids, cu_seqlens, offset, length):
    """The rows that tokens take, `[length, pairs]` or `[batch, length, pairs]`."""
    table = table[..., :pairs]
    if table.dim() == 3 and table.shape[0] == 1:
        table = table[0]
    if position_ids is not None:
        return looked_up(table, position_ids)
    if cu_seqlens is not None:
        token = torch.arange(length, device=table.device)
        begun = torch.searchsorted(cu_seqlens.to(token.dtype), token, right=True)
        starts = torch.cat([cu_seqlens.new_zeros(1), cu_seqlens]).to(token.dtype)
        return looked_up(table, token - starts[begun])
    if table.dim() == 3:
        return table
    if length == 0:
        return table[:0]
    if offset < 0 or offset + length > table.shape[0]:
        missing = offset if offset < 0 else offset + length - 1
        raise RotaryError(f"position {missing} is not in the table, which covers positions 0..{table.shape[0]}")
    return table[offset : offset + length]


def looked_up(table, ids):
    """Rows of a table `[rows, ...]` by ids that nobody has looked at: NaN for one that has no row, as a GPU's kernels have it."""
    count = table.shape[0]
    if count == 0:
        return table.new_full((*ids.shape, *table.shape[1:]), float("nan"))
    is_there = (ids >= 0) & (ids < count)
    return table[ids.clamp(0, count - 1).long()].masked_fill(~is_there[..., None], float("nan"))
