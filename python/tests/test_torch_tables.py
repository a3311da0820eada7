"""Tables as the kernels of GPUs read them: made by torch, so checked where there is no GPU too."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import DTYPES, tables  # noqa: E402

from rotary.torch._memory import _read  # noqa: E402


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_from_an_offset(dtype):
    cos, sin = tables(9, 4, dtype)
    for given in (
        (cos, sin),
        [torch.cat([t, t], -1) for t in (cos, sin)],
        [torch.cat([t, t], -1)[None] for t in (cos, sin)],
    ):
        *read, is_listed, offset = _read(*given, None, None, 3, 5)
        assert (is_listed, offset) == (False, 0)
        for numbers, want in zip(read, (cos, sin)):
            assert numbers.dtype == torch.float32 and numbers.is_contiguous() and len(numbers) == 5
            assert torch.equal(numbers[:, :4], want[3:8].float())
    # What does not fit is handed on, to be refused.
    assert _read(cos, sin, None, None, 5, 5)[2:] == (False, 5)
    assert _read(cos, sin, None, None, -1, 5)[2:] == (False, -1)


def test_ids():
    cos, sin = tables(9, 4, torch.bfloat16)
    for ids in (torch.tensor([8, 0, 3]), torch.tensor([[8, 0, 3], [1, 1, 2]], dtype=torch.int32)):
        *read, is_listed, _ = _read(cos, sin, ids, None, 0, 3)
        assert is_listed
        for numbers, want in zip(read, (cos, sin)):
            assert torch.equal(numbers, want[ids.long()].float())
    numbers, *_ = _read(cos, sin, torch.tensor([-1, 4, 9]), None, 0, 3)
    assert numbers[0].isnan().all() and numbers[2].isnan().all() and not numbers[1].isnan().any()


def test_packed_and_batches():
    cos, sin = tables(9, 4, torch.float16)
    numbers, _, is_listed, _ = _read(cos, sin, None, torch.tensor([0, 2, 5]), 0, 5)
    assert not is_listed and torch.equal(numbers, cos[:5].float())
    each = [torch.stack([t, t.flip(0)]) for t in (cos, sin)]
    numbers, _, is_listed, _ = _read(*each, None, None, 0, 9)
    assert is_listed and torch.equal(numbers[1], cos.flip(0).float())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_as_they_lie_without_a_gpu():
    """A GPU is looked for once cosines and sines are known to lie as its kernels read them; else others are asked for."""
    from rotary import RotaryError
    from rotary.torch._memory import _rotate_cuda

    x, (cos, sin) = torch.randn(2, 2, 5, 8), tables(5, 4)
    both = torch.cat([cos, sin], -1)
    batch = torch.stack([both, both])

    def rotate(cos, sin, table=None, rotary_dim=None):
        return _rotate_cuda(0, 0, table, x, None, None, None, cos, sin, 0, None, None, 0, False, True, rotary_dim, 0)

    for given in (
        (cos, sin),
        (cos[None], sin[None]),
        (both[:, :4], both[:, 4:]),
        (both, both),
        (batch, batch),
        (batch[..., :4], batch[..., 4:]),
    ):
        with pytest.raises(RotaryError, match="GPU|CUDA|driver"):
            rotate(*given)
    # In 16 bits, with rows that are not equally far apart, with columns that are apart, and both in one step.
    half, odd = both.half(), torch.stack([both, both, both])[::2]
    for given in (
        (half[:, :4], half[:, 4:]),
        (cos, both[:, 4:]),
        (both[:, ::2], both[:, ::2]),
        (odd[:, :, :4], odd[:, :, 4:]),
    ):
        assert rotate(*given) is False
    with pytest.raises(RotaryError, match="cannot read"):
        rotate(cos, sin, (half[:, :4], half[:, 4:], False))
    with pytest.raises(RotaryError, match="cos has 4 columns"):
        rotate(cos, sin, None, 6)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_others_are_made_and_handed_over(monkeypatch):
    """In 16 bits they are asked for twice: the second time the GPU is looked for."""
    from rotary import RotaryError
    from rotary.torch import _memory

    kept, tables_given = _memory._rotate_cuda, []

    def rotate(device, stream, table, *rest):
        tables_given.append(table)
        return kept(0, stream, table, *rest)

    monkeypatch.setattr(_memory, "_rotate_cuda", rotate)
    monkeypatch.setattr(_memory, "_current_stream", lambda device: 0)
    x, (cos, sin) = torch.randn(1, 2, 5, 8), tables(9, 4, torch.bfloat16)
    for positions in ((None, None, 4), (torch.arange(5), None, 0), (None, torch.tensor([0, 2, 5]), 0)):
        with pytest.raises(RotaryError, match="GPU|CUDA|driver"):
            _memory.on_cuda(x, None, None, None, cos, sin, *positions, 0, False, True, None, 0)
    assert len(tables_given) == 6 and tables_given[::2] == [None] * 3


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
