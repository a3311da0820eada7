"""Projections of queries and keys under another pairing."""

from __future__ import annotations

from typing import TypeVar

from . import _rotary

Weight = TypeVar("Weight")


def permute_projection(
    weight: Weight,
    heads: int,
    *,
    from_pairing: str,
    to_pairing: str,
    rotary_dim: int | None = None,
    rotary_offset: int = 0,
) -> Weight:
    """A projection of queries or keys, `[heads · head_dim, columns]`, or its bias, with its rows in the order that another pairing
    reads: the model's scores stay what they were. Takes arrays of numpy and tensors of torch, of any type, and gives a new one.

    Heads are those of the projection: of keys they may be fewer. Pairings are interleaved, half and interleaved_to_half.

    >>> import numpy
    >>> bias = numpy.array([0.0, 0.1, 1.0, 1.1, 2.0, 2.1])
    >>> permute_projection(bias, 1, from_pairing="interleaved", to_pairing="half").tolist()
    [0.0, 1.0, 2.0, 0.1, 1.1, 2.1]
    """
    shape = getattr(weight, "shape", None)
    if shape is None or len(shape) == 0:
        raise TypeError(f"the weight is of type {type(weight).__name__}; expected an array or a tensor")
    rows = int(shape[0])
    if heads <= 0 or rows % heads:
        raise _rotary.RotaryError(f"heads is {heads}; expected a divisor of the {rows} rows of the weight")
    head_dim = rows // heads
    dim = head_dim if rotary_dim is None else rotary_dim
    order = _rotary.projection_order(heads, head_dim, dim, rotary_offset, from_pairing, to_pairing)
    permuted: Weight = weight[order]  # type: ignore[index]
    return permuted
