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


def test_as_they_lie():
    cos, sin = tables(9, 4)
    both = torch.cat([cos, sin], -1)
    table, rows, is_listed, offset = _table(both[:, :4], both[:, 4:], 4, None, None, 3, 5)
    assert table.data_ptr() == both.data_ptr() and (rows, is_listed, offset) == (9, False, 3)
    # The same in 16 bits, or one after the other, is not what the kernels read.
    assert _table(both[:, :4].half(), both[:, 4:].half(), 4, None, None, 0, 5)[0].data_ptr() != both.data_ptr()
    assert _table(cos, sin, 4, None, None, 0, 9)[0].shape == (9, 8)


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
def test_without_a_gpu():
    from rotary import RotaryError
    from rotary.torch._memory import _described, _rotate_cuda

    x, (cos, sin) = torch.randn(1, 2, 5, 8), tables(5, 4)
    how = [_described(x), None, None, None, _described(cos), _described(sin), 0, None, None, 0, False, True]
    with pytest.raises(RotaryError):
        _rotate_cuda(0, 0, 0, 5, False, *how, None, 0)
    with pytest.raises(RotaryError, match="cos has 4 columns"):
        _rotate_cuda(0, 0, 0, 5, False, *how, 6, 0)
