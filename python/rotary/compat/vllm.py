"""vLLM's `rotary_embedding`."""

from .. import RotaryError
from ..torch._plain import HALF, INTERLEAVED
from ..torch._rotate import turned_


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox):
    """Rotates queries and keys in place.

    positions: `[tokens]` or `[batch, length]`, int64.
    query: `[tokens, heads * head_size]`, `[batch, length, heads * head_size]`, or the same with heads and features apart.
    key: the same, or None.
    cos_sin_cache: `[positions, rotary_dim]`: cosines, then sines.
    is_neox: features j and j + rotary_dim / 2 are a pair, instead of 2j and 2j + 1.
    """
    if cos_sin_cache.dim() != 2 or cos_sin_cache.shape[-1] % 2:
        raise RotaryError(f"cos_sin_cache has shape {list(cos_sin_cache.shape)}; expected [positions, rotary_dim]")
    if positions.dim() not in (1, 2):
        raise RotaryError(f"positions has shape {list(positions.shape)}; expected [tokens] or [batch, length]")
    cos, sin = cos_sin_cache.chunk(2, -1)
    q, k = (
        _heads("query", query, positions, head_size),
        None if key is None else _heads("key", key, positions, head_size),
    )
    turned_(
        q, k, cos, sin, positions, None, 0, HALF if is_neox else INTERLEAVED, False, False, cos_sin_cache.shape[-1], 0
    )


def _heads(name, x, positions, head_size):
    """A view of the same memory as `[tokens, heads, head_size]`, with a batch where positions have one."""
    tokens = positions.shape
    apart = x.dim() == len(tokens) + 2 and x.shape[-1] == head_size
    if x.shape[: len(tokens)] != tokens or not (apart or (x.dim() == len(tokens) + 1 and x.shape[-1] % head_size == 0)):
        raise RotaryError(f"{name} has shape {list(x.shape)}; expected {list(tokens)} tokens of heads of {head_size}")
    return x if apart else x.unflatten(-1, (-1, head_size))
