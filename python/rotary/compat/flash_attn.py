"""`flash_attn.layers.rotary`: its functions and its module, with their arguments and defaults, on CPUs and GPUs.

Unlike there, cos and sin may be of another type than x; heads may have any number of features.
"""

import torch

from .. import RotaryError
from ..torch._plain import HALF, INTERLEAVED
from ..torch._rotate import turned, turned_


def apply_rotary_emb(x, cos, sin, interleaved=False, inplace=False, seqlen_offsets=0, cu_seqlens=None, max_seqlen=None):
    """x rotated.

    x: `[batch, length, heads, head_dim]`, or packed sequences `[total, heads, head_dim]` with `cu_seqlens`.
    cos, sin: `[rows, rotary_dim / 2]`; the features after `rotary_dim` stay.
    seqlen_offsets: the position of the first token, a number or one for each sequence, `[batch]`.
    max_seqlen: taken for flash-attn's sake; nothing depends on it.
    """
    turn = turned_ if inplace else turned
    return turn(x, None, cos, sin, *_where(x, cos, seqlen_offsets, cu_seqlens), *_how(cos, interleaved))


def apply_rotary_emb_qkv_(qkv, cos, sin, cos_k=None, sin_k=None, interleaved=False, seqlen_offsets=0, num_heads_q=None):
    """Queries and keys of a fused tensor rotated in place; returns it.

    qkv: `[batch, length, 3, heads, head_dim]`, or `[batch, length, heads_q + 2 * heads_k, head_dim]` with `num_heads_q`.
    cos_k, sin_k: other tables for the keys (xPos).
    """
    if qkv.dim() == 5 and qkv.shape[2] == 3:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    elif qkv.dim() == 4 and num_heads_q is not None:
        heads_k = (qkv.shape[2] - num_heads_q) // 2
        if heads_k < 0 or num_heads_q + 2 * heads_k != qkv.shape[2]:
            raise RotaryError(
                f"qkv has {qkv.shape[2]} heads; expected num_heads_q = {num_heads_q} and twice those of the keys"
            )
        q, k = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads_k]
    else:
        raise RotaryError(
            f"qkv has shape {list(qkv.shape)}; expected [batch, length, 3, heads, head_dim], or 4 axes and num_heads_q"
        )
    where, how = _where(q, cos, seqlen_offsets, None), _how(cos, interleaved)
    if cos_k is None and sin_k is None and not (torch.is_grad_enabled() and qkv.requires_grad):
        turned_(q, k, cos, sin, *where, *how)
        return qkv
    # With a gradient, views of one tensor are written to one after the other.
    turned_(q, None, cos, sin, *where, *how)
    turned_(k, None, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k, *where, *how)
    return qkv


def apply_rotary_emb_kv_(kv, cos, sin, interleaved=False, seqlen_offsets=0):
    """The keys of `[batch, length, 2, heads, head_dim]` rotated in place; returns it."""
    if kv.dim() != 5 or kv.shape[2] != 2:
        raise RotaryError(f"kv has shape {list(kv.shape)}; expected [batch, length, 2, heads, head_dim]")
    k = kv[:, :, 0]
    turned_(k, None, cos, sin, *_where(k, cos, seqlen_offsets, None), *_how(cos, interleaved))
    return kv


def _how(cos, interleaved):
    """What follows the positions in the arguments of the operations."""
    return INTERLEAVED if interleaved else HALF, False, False, 2 * cos.shape[-1], 0


def _where(x, cos, seqlen_offsets, cu_seqlens):
    """Position ids, cumulative lengths and an offset, of which at most one is given."""
    if cu_seqlens is not None and x.dim() != 3:
        raise RotaryError(f"x has {x.dim()} axes; expected [total, heads, head_dim] beside cu_seqlens")
    if cu_seqlens is None and x.dim() != 4:
        raise RotaryError(f"x has {x.dim()} axes; expected [batch, length, heads, head_dim]")
    if isinstance(seqlen_offsets, int):
        if cu_seqlens is None or seqlen_offsets == 0:
            return None, cu_seqlens, seqlen_offsets
        seqlen_offsets = cu_seqlens.new_full((cu_seqlens.shape[0] - 1,), seqlen_offsets)
    sequences = x.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    if seqlen_offsets.shape != (sequences,):
        raise RotaryError(
            f"seqlen_offsets has shape {list(seqlen_offsets.shape)}; expected [{sequences}], one for each sequence"
        )
    offsets = seqlen_offsets.to(torch.int64)
    if cu_seqlens is None:
        return offsets[:, None] + torch.arange(x.shape[1], device=x.device), None, 0
    token = torch.arange(x.shape[0], device=x.device)
    ends = cu_seqlens.to(torch.int64)
    sequence = torch.searchsorted(ends[1:].contiguous(), token, right=True)
    return token - ends[sequence] + offsets[sequence], None, 0


class RotaryEmbedding(torch.nn.Module):
    """flash-attn's module: rotates the queries and keys of a fused tensor in place, with xPos where `scale_base` is given.

    Its tables are computed in float32 as flash-attn's are, so that its models keep their numbers; for exact ones, see
    `rotary.torch.RotaryEmbedding`.
    """

    def __init__(self, dim, base=10000.0, interleaved=False, scale_base=None, device=None):
        super().__init__()
        self.dim, self.base, self.interleaved, self.scale_base = dim, float(base), interleaved, scale_base
        self.register_buffer("inv_freq", self._compute_inv_freq(device), persistent=False)
        scale = None
        if scale_base is not None:
            scale = (torch.arange(0, dim, 2, device=device, dtype=torch.float32) + 0.4 * dim) / (1.4 * dim)
        self.register_buffer("scale", scale, persistent=False)
        self._seq_len_cached = 0
        self._cos_cached = self._sin_cached = self._cos_k_cached = self._sin_k_cached = None

    def _compute_inv_freq(self, device=None):
        return 1.0 / (self.base ** (torch.arange(0, self.dim, 2, device=device, dtype=torch.float32) / self.dim))

    def _update_cos_sin_cache(self, seqlen, device=None, dtype=None):
        known = self._cos_cached
        if known is not None and seqlen <= self._seq_len_cached and known.device == device and known.dtype == dtype:
            return
        self._seq_len_cached = seqlen
        # A module that was cast to 16 bits has lost its frequencies.
        inv_freq = self.inv_freq if self.inv_freq.dtype == torch.float32 else self._compute_inv_freq(device)
        angles = torch.outer(torch.arange(seqlen, device=device, dtype=torch.float32), inv_freq.to(device))
        cos, sin = angles.cos(), angles.sin()
        if self.scale is None:
            self._cos_cached, self._sin_cached = cos.to(dtype), sin.to(dtype)
            return
        steps = torch.arange(seqlen, device=device, dtype=torch.float32) - seqlen // 2
        scale = self.scale.to(device=device, dtype=torch.float32) ** (steps / self.scale_base)[:, None]
        self._cos_cached, self._sin_cached = (cos * scale).to(dtype), (sin * scale).to(dtype)
        self._cos_k_cached, self._sin_k_cached = (cos / scale).to(dtype), (sin / scale).to(dtype)

    def forward(self, qkv, kv=None, seqlen_offset=0, max_seqlen=None, num_heads_q=None):
        """Rotates in place and returns what it was given.

        qkv: `[batch, length, 3, heads, head_dim]`, or with heads of all kinds in one axis and `num_heads_q`; with `kv`, the queries
            alone, `[batch, length, heads, head_dim]`.
        kv: `[batch, length, 2, heads, head_dim]`.
        seqlen_offset: a number, or one for each sequence; then `max_seqlen` says how long tables must be.
        """
        seqlen = qkv.shape[1]
        if max_seqlen is not None:
            needed = max_seqlen
        elif isinstance(seqlen_offset, int):
            needed = seqlen + seqlen_offset
        else:
            needed = seqlen + int(seqlen_offset.max())
        self._update_cos_sin_cache(needed, qkv.device, qkv.dtype)
        cos, sin, cos_k, sin_k = self._cos_cached, self._sin_cached, self._cos_k_cached, self._sin_k_cached
        how = {"interleaved": self.interleaved, "seqlen_offsets": seqlen_offset}
        if kv is None:
            return apply_rotary_emb_qkv_(qkv, cos, sin, cos_k, sin_k, num_heads_q=num_heads_q, **how)
        q = apply_rotary_emb(qkv, cos, sin, inplace=True, **how)
        kv = apply_rotary_emb_kv_(kv, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k, **how)
        return q, kv
