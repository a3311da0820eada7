"""The hub kernel `rotary`: rotations by cosines and sines, with gradients, on CPUs and GPUs."""

import torch

from rotary import RotaryError
from rotary.compat.transformers import apply_rotary_pos_emb
from rotary.torch import rotate_

from . import layers


def apply_rotary(x1, x2, cos, sin, out1, out2, conj):
    """Rotates the first and second features of pairs, `x1` and `x2`, into `out1` and `out2`, which may be the same tensors; back where
    `conj`. cos and sin are broadcast over heads: `[length, 1, pairs]` beside `[batch, length, heads, pairs]`."""
    for name, x in {"x2": x2, "out1": out1, "out2": out2}.items():
        if x.shape != x1.shape or x.dtype != x1.dtype:
            raise RotaryError(
                f"{name} has shape {list(x.shape)} and type {x.dtype}; expected those of x1, {list(x1.shape)}, {x1.dtype}"
            )
    both = torch.cat([x1, x2], -1)
    if both.dim() in (3, 4) and cos.dim() >= 2 and cos.shape[-2] == 1 and cos.shape == sin.shape:
        rows = cos.squeeze(-2)
        while rows.dim() > 3:
            rows = rows[0]
        rotate_(both, None, rows, sin.squeeze(-2).view_as(rows), inverse=bool(conj), heads_first=False)
    else:
        # Other ways to stand beside each other: by torch's rules.
        wide = torch.float64 if x1.dtype == torch.float64 else torch.float32
        a, b, c, s = x1.to(wide), x2.to(wide), cos.to(wide), -sin.to(wide) if conj else sin.to(wide)
        both = torch.cat([a * c - b * s, a * s + b * c], -1)
    first, second = both.chunk(2, -1)
    out1.copy_(first)
    out2.copy_(second)


def apply_rotary_transformers(q, k, cos, sin, unsqueeze_dim=1):
    """Queries and keys rotated, as transformers' `apply_rotary_pos_emb` does; part of the features where cos has fewer."""
    return apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)


__all__ = ["apply_rotary", "apply_rotary_transformers", "layers"]
