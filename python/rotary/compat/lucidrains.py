"""rotary-embedding-torch: its `RotaryEmbedding` and `apply_rotary_emb`.

Positions are float32 whatever the type of queries and keys (a bfloat16 counts to 256), and nothing else differs.
"""

import math

import torch

from .. import RotaryError
from ..torch import _plain
from ..torch._rotate import turned


def apply_rotary_emb(freqs, t, start_index=0, scale=1.0, seq_dim=-2, freqs_seq_dim=None):
    """`t` rotated by the angles `freqs`.

    freqs: `[length, rotary_dim]`, each angle twice, side by side; more axes stand beside those of t (images: `[height, width,
        rotary_dim]`). Of more rows than t has tokens, the last are taken.
    t: `[..., length, head_dim]`, or `[..., length, heads, head_dim]` with `seq_dim=-3`.
    start_index: the first feature that turns.
    scale: a number or `[length, rotary_dim]`: multiplies what turns (xPos).
    """
    rotary_dim = freqs.shape[-1]
    if rotary_dim % 2 or start_index < 0 or start_index + rotary_dim > t.shape[-1]:
        raise RotaryError(
            f"freqs has {rotary_dim} columns from feature {start_index} on; expected an even number within {t.shape[-1]}"
        )
    if seq_dim not in (-2, -3):
        seq_dim = seq_dim - t.dim() if seq_dim >= 0 else seq_dim
        if seq_dim not in (-2, -3):
            raise RotaryError(f"seq_dim is {seq_dim}; expected -2, or -3 with heads after tokens")
    if freqs_seq_dim is None and (freqs.dim() == 2 or t.dim() == 3):
        freqs_seq_dim = 0
    if freqs_seq_dim is not None:
        length = t.shape[seq_dim]
        freqs = freqs.narrow(
            freqs_seq_dim, max(freqs.shape[freqs_seq_dim] - length, 0), min(length, freqs.shape[freqs_seq_dim])
        )
    angles = freqs[..., ::2]
    scale = scale[..., ::2] if isinstance(scale, torch.Tensor) and scale.dim() else scale
    cos, sin = angles.cos() * scale, angles.sin() * scale
    if seq_dim == -3 and cos.dim() == 3 and cos.shape[1] == 1:
        cos, sin = cos[:, 0], sin[:, 0]
    # The axes that the angles stand beside are the tokens; what lies before them are sequences and heads.
    tokens = cos.dim() - 1
    x = t.flatten(-tokens - 1, -2) if tokens > 1 else t
    cos, sin = (table.flatten(0, -2) if tokens > 1 else table for table in (cos, sin))
    while x.dim() < 3:
        x = x[None]
    x = x.flatten(0, -4) if x.dim() > 4 else x
    x = x if x.stride(-1) == 1 else x.contiguous()
    how = (cos, sin, None, None, 0, _plain.INTERLEAVED, False, seq_dim == -2, rotary_dim, start_index)
    learned = torch.is_grad_enabled() and (cos.requires_grad or sin.requires_grad)
    y = _plain.rotate(x, *how) if learned else turned(x, None, *how)
    return y.view(t.shape) if y.is_contiguous() else y.reshape(t.shape)


class RotaryEmbedding(torch.nn.Module):
    """The module of rotary-embedding-torch, with its arguments."""

    def __init__(
        self,
        dim,
        custom_freqs=None,
        freqs_for="lang",
        theta=10000,
        max_freq=10,
        num_freqs=1,
        learned_freq=False,
        use_xpos=False,
        xpos_scale_base=512,
        interpolate_factor=1.0,
        theta_rescale_factor=1.0,
        seq_before_head_dim=False,
        cache_if_possible=True,
        cache_max_seq_len=8192,
    ):
        super().__init__()
        if interpolate_factor < 1:
            raise RotaryError(f"interpolate_factor is {interpolate_factor}; expected at least 1")
        if custom_freqs is not None:
            freqs = custom_freqs
        elif freqs_for == "lang":
            theta = theta * theta_rescale_factor ** (dim / (dim - 2)) if dim > 2 else theta
            freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
        elif freqs_for == "pixel":
            freqs = math.pi * torch.linspace(1.0, max_freq / 2, dim // 2)
        elif freqs_for == "constant":
            freqs = torch.ones(num_freqs)
        else:
            raise RotaryError(f"freqs_for is {freqs_for!r}; expected lang, pixel or constant")
        self.freqs = torch.nn.Parameter(freqs, requires_grad=learned_freq)
        self.freqs_for, self.learned_freq, self.interpolate_factor = freqs_for, learned_freq, interpolate_factor
        self.seq_before_head_dim, self.default_seq_dim = seq_before_head_dim, -3 if seq_before_head_dim else -2
        self.use_xpos, self.scale_base = use_xpos, xpos_scale_base
        # Taken for their sake; angles are cheap beside what they turn.
        self.cache_if_possible, self.cache_max_seq_len = cache_if_possible, cache_max_seq_len
        scale = (torch.arange(0, dim, 2) + 0.4 * dim) / (1.4 * dim) if use_xpos else None
        self.register_buffer("scale", scale, persistent=False)

    @property
    def device(self):
        return self.freqs.device

    def get_seq_pos(self, seq_len, device=None, dtype=None, offset=0):
        """Positions from the offset on, `[seq_len]`, in float32."""
        return (
            torch.arange(seq_len, device=device or self.device, dtype=torch.float32) + offset
        ) / self.interpolate_factor

    def forward(self, t, seq_len=None, offset=0):
        """The angles of positions `t`, each twice, side by side: `[..., 2 * freqs]`."""
        return (t.to(self.freqs.dtype)[..., None] * self.freqs).repeat_interleave(2, -1)

    def get_scale(self, t, seq_len=None, offset=0):
        """xPos' scales of positions `t`, each twice, side by side."""
        self._xpos(True)
        return (self.scale ** ((t - len(t) // 2) / self.scale_base)[:, None]).repeat_interleave(2, -1)

    def get_axial_freqs(self, *dims, offsets=None):
        """The angles of a grid: `[*dims, rotary_dim]`, each axis' after another's."""
        if offsets is not None and len(offsets) != len(dims):
            raise RotaryError(f"got {len(offsets)} offsets; expected one for each of {len(dims)} axes")
        every = []
        for axis, size in enumerate(dims):
            pixels = self.freqs_for == "pixel"
            place = (
                torch.linspace(-1, 1, size, device=self.device) if pixels else torch.arange(size, device=self.device)
            )
            angles = self.forward(place + (0 if offsets is None else offsets[axis]))
            shape = [1] * len(dims) + [angles.shape[-1]]
            shape[axis] = size
            every.append(angles.view(shape).expand(*dims, -1))
        return torch.cat(every, -1)

    def rotate_queries_or_keys(self, t, seq_dim=None, offset=0, scale=None):
        """`t` rotated: token i stands at `offset + i`."""
        if scale is None:
            self._xpos(False)
        seq_dim = self.default_seq_dim if seq_dim is None else seq_dim
        angles = self.forward(self.get_seq_pos(t.shape[seq_dim], t.device, offset=offset))
        return apply_rotary_emb(angles, t, scale=1.0 if scale is None else scale, seq_dim=seq_dim)

    def rotate_queries_with_cached_keys(self, q, k, seq_dim=None, offset=0):
        """The last queries beside all keys, of which earlier ones were cached before they were rotated."""
        seq_dim = self.default_seq_dim if seq_dim is None else seq_dim
        length, keys = q.shape[seq_dim], k.shape[seq_dim]
        if length > keys:
            raise RotaryError(f"q has {length} tokens and k {keys}; expected no more queries than keys")
        scale_q = scale_k = 1.0
        if self.use_xpos:
            places = self.get_seq_pos(keys, q.device)
            scale_q, scale_k = self.get_scale(places[keys - length :]), 1 / self.get_scale(places)
        return (
            self.rotate_queries_or_keys(q, seq_dim, keys - length + offset, scale_q),
            self.rotate_queries_or_keys(k, seq_dim, scale=scale_k),
        )

    def rotate_queries_and_keys(self, q, k, seq_dim=None):
        """Both, with xPos."""
        seq_dim = self.default_seq_dim if seq_dim is None else seq_dim
        scale = self.get_scale(self.get_seq_pos(q.shape[seq_dim], q.device))
        return self.rotate_queries_or_keys(q, seq_dim, scale=scale), self.rotate_queries_or_keys(
            k, seq_dim, scale=1 / scale
        )

    def _xpos(self, wanted):
        if self.use_xpos != wanted:
            expected = "use_xpos=True" if wanted else "rotate_queries_and_keys, which takes both"
            raise RotaryError(f"use_xpos is {self.use_xpos}; expected {expected}")
