"""What the tests of `rotary.torch` share: random arguments, and the rotation in float64 as the definition says it."""

import pytest

torch = pytest.importorskip("torch")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def tables(rows, pairs, dtype=torch.float32, seed=0):
    """Cosines and sines of random angles, `[rows, pairs]`."""
    angles = 100 * torch.rand(rows, pairs, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return angles.cos().to(dtype), angles.sin().to(dtype)


def expected(x, cos, sin, interleaved=False, inverse=False, rotary_offset=0):
    """The rotation of `x` by rows `[..., pairs]` that already stand beside its vectors, in float64."""
    x, cos, sin = x.double(), cos.double(), sin.double()
    pairs = cos.shape[-1]
    sin = -sin if inverse else sin
    y = x.clone()
    first = [rotary_offset + (2 * j if interleaved else j) for j in range(pairs)]
    second = [rotary_offset + (2 * j + 1 if interleaved else j + pairs) for j in range(pairs)]
    y[..., first] = x[..., first] * cos - x[..., second] * sin
    y[..., second] = x[..., second] * cos + x[..., first] * sin
    return y


def close(got, wanted):
    """Whether two products rounded once, and their sum rounded once, can be told from the exact ones: each rounding is half a unit
    of the type, and a 16-bit type rounds once more."""
    assert got.shape == wanted.shape
    if got.numel() == 0:
        return
    step = torch.finfo(got.dtype).eps
    bound = 2 * step * wanted.abs().max().clamp(min=1)
    error = (got.double() - wanted).abs().max()
    assert error <= bound, f"off by {error:.3g}; the type allows {bound:.3g}"
