"""Tables as the kernels of GPUs read them: made by torch, so checked where there is no GPU too."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import DTYPES, tables  # noqa: E402

from rotary.torch._memory import _table  # noqa: E402


def rows_of(cos, sin, places):
    return torch.cat([cos[places].float(), sin[places].float()], -1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_from_an_offset(dtype):
    cos, sin = tables(9, 4, dtype)
    for given in (
        (cos, sin),
        [torch.cat([t, t], -1) for t in (cos, sin)],
        [torch.cat([t, t], -1)[None] for t in (cos, sin)],
    ):
        table, rows, is_listed, offset = _table(*given, 4, None, None, 3, 5)
        assert (rows, is_listed, offset) == (5, False, 0)
        assert torch.equal(table, rows_of(cos, sin, slice(3, 8)))
    # What does not fit is handed on, to be refused.
    assert _table(cos, sin, 4, None, None, 5, 5)[1:] == (9, False, 5)
    assert _table(cos, sin, 4, None, None, -1, 5)[1:] == (9, False, -1)


def test_ids():
    cos, sin = tables(9, 4)
    for ids in (torch.tensor([8, 0, 3]), torch.tensor([[8, 0, 3], [1, 1, 2]], dtype=torch.int32)):
        table, rows, is_listed, _ = _table(cos, sin, 4, ids, None, 0, 3)
        assert is_listed and rows == ids.numel()
        assert torch.equal(table, rows_of(cos, sin, ids.long()))
    table, *_ = _table(cos, sin, 4, torch.tensor([-1, 4, 9]), None, 0, 3)
    assert table[0].isnan().all() and table[2].isnan().all() and not table[1].isnan().any()


def test_packed_and_batches():
    cos, sin = tables(9, 4)
    table, rows, is_listed, _ = _table(cos, sin, 4, None, torch.tensor([0, 2, 5]), 0, 5)
    assert (rows, is_listed) == (5, False) and torch.equal(table, rows_of(cos, sin, slice(0, 5)))
    each = [torch.stack([t, t.flip(0)]) for t in (cos, sin)]
    table, rows, is_listed, _ = _table(*each, 4, None, None, 0, 9)
    assert (rows, is_listed) == (18, True)
    assert torch.equal(table[1], rows_of(cos.flip(0), sin.flip(0), slice(None)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_as_they_lie_without_a_gpu():
    """A GPU is looked for once cosines and sines are known to lie as its kernels read them; else a table is asked for."""
    from rotary import RotaryError
    from rotary.torch._memory import _rotate_cuda

    x, (cos, sin) = torch.randn(1, 2, 5, 8), tables(5, 4)
    both = torch.cat([cos, sin], -1)

    def rotate(cos, sin, table=None, rotary_dim=None):
        return _rotate_cuda(0, 0, table, x, None, None, None, cos, sin, 0, None, None, 0, False, True, rotary_dim, 0)

    for given in ((both[:, :4], both[:, 4:]), (both[None, :, :4], both[None, :, 4:])):
        with pytest.raises(RotaryError):
            rotate(*given)
    # Not one after the other, in 16 bits, the other way round, or with a row for each sequence.
    half, twice = both.half(), both.expand(1, 5, 8).contiguous()[:, :, :4]
    for given in ((cos, sin), (half[:, :4], half[:, 4:]), (both[:, 4:], both[:, :4]), (twice, twice)):
        assert rotate(*given) is False
    with pytest.raises(RotaryError):
        rotate(cos, sin, (both, 5, False))
    with pytest.raises(RotaryError, match="cos has 4 columns"):
        rotate(cos, sin, None, 6)


def test_described_both_ways():
    """What torch's own functions say of a tensor, and what its attributes say: a class made from `torch.Tensor` has attributes alone."""
    from rotary.torch import rotate

    class Own(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    cos, sin = tables(7, 4)
    for dtype in DTYPES:
        x = torch.randn(3, 2, 7, 8).to(dtype)[::2]
        want = rotate(x, None, cos, sin)
        for own in (x.as_subclass(Own), torch.nn.Parameter(x, requires_grad=False)):
            assert torch.equal(torch.ops.rotary.rotate(own, cos, sin, None, None, 0, 0, False, True, None, 0), want)
