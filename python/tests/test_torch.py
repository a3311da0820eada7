"""`rotary.torch.rotate` and `rotate_` as operations of torch: numbers, gradients, tracing."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import DTYPES, close, expected, tables  # noqa: E402

from rotary.torch import rotate, rotate_  # noqa: E402

EVERY_TEST = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def arguments(cos, sin, position_ids=None, cu_seqlens=None, offset=0, pairing=0, inverse=False, heads_first=True):
    return (cos, sin, position_ids, cu_seqlens, offset, pairing, inverse, heads_first, None, 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inverse", [False, True])
def test_numbers(dtype, interleaved, inverse):
    q, k = torch.randn(2, 5, 7, 16).to(dtype), torch.randn(2, 3, 7, 16).to(dtype)
    cos, sin = tables(7, 8, torch.float64 if dtype == torch.float64 else torch.float32)
    how = {"interleaved": interleaved, "inverse": inverse}
    wanted = [expected(x, cos, sin, **how) for x in (q, k)]
    for got in (rotate(q, k, cos, sin, **how), rotate_(q.clone(), k.clone(), cos, sin, **how)):
        close(got[0], wanted[0])
        close(got[1], wanted[1])
    close(rotate(q, None, cos, sin, **how), wanted[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_opcheck(dtype):
    cos, sin = tables(7, 8)
    ids = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
    # Dense layouts in other orders too, as projections leave them.
    for q in (
        torch.randn(2, 3, 5, 16),
        torch.randn(2, 5, 3, 16).transpose(1, 2),
        torch.randn(5, 3, 2, 16).permute(2, 1, 0, 3),
    ):
        q = q.to(dtype)
        k = q[:, :2].clone()
        for positions in (None, ids):
            how = arguments(
                cos[: None if positions is not None else 5], sin[: None if positions is not None else 5], positions
            )
            ops = torch.ops.rotary
            for grad in (False, True):
                x, y = q.clone().requires_grad_(grad), k.clone().requires_grad_(grad)
                torch.library.opcheck(ops.rotate.default, (x, *how), test_utils=EVERY_TEST)
                torch.library.opcheck(ops.rotate_pair.default, (x, y, *how), test_utils=EVERY_TEST)
            torch.library.opcheck(ops.rotate_.default, (q.clone(), *how), test_utils=EVERY_TEST)
            torch.library.opcheck(ops.rotate_pair_.default, (q.clone(), k.clone(), *how), test_utils=EVERY_TEST)


@pytest.mark.parametrize("interleaved", [False, True])
def test_gradients(interleaved):
    cos, sin = tables(4, 3, torch.float64)
    q = torch.randn(2, 2, 4, 8, dtype=torch.float64, requires_grad=True)
    k = torch.randn(2, 1, 4, 8, dtype=torch.float64, requires_grad=True)
    how = {"interleaved": interleaved, "rotary_dim": 6, "rotary_offset": 1}
    assert torch.autograd.gradcheck(lambda q, k: rotate(q, k, cos, sin, **how), (q, k))
    assert torch.autograd.gradgradcheck(lambda q, k: rotate(q, k, cos, sin, **how), (q, k))
    assert torch.autograd.gradcheck(lambda q: rotate(q, None, cos, sin, inverse=True, **how), (q,))
    assert torch.autograd.gradcheck(lambda q, k: rotate_(q.clone(), k.clone(), cos, sin, **how), (q, k))
    assert torch.autograd.gradcheck(lambda q: rotate_(q * 2, None, cos, sin, **how), (q,))


@pytest.mark.parametrize("call", [rotate_, torch.ops.rotary.rotate_])
def test_in_place_is_seen_by_autograd(call):
    cos, sin = tables(4, 4)
    if call is not rotate_:

        def call(x, _, cos, sin):
            torch.ops.rotary.rotate_(x, *arguments(cos, sin))

    x = torch.randn(1, 1, 4, 8, requires_grad=True)
    y = x * 2
    z = y.exp()  # Keeps its result for the backward pass.
    with torch.no_grad():
        call(z, None, cos, sin)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        rotate_(x, None, cos, sin)


def test_only_one_of_a_pair_is_used():
    cos, sin = tables(4, 4)
    q, k = torch.randn(1, 1, 4, 8, requires_grad=True), torch.randn(1, 1, 4, 8, requires_grad=True)
    rotate(q, k, cos, sin)[1].sum().backward()
    assert q.grad is None
    close(k.grad, expected(torch.ones_like(k), cos, sin, inverse=True))


def test_versions():
    cos, sin = tables(4, 4)
    q, k = torch.randn(1, 2, 4, 8), torch.randn(1, 1, 4, 8)
    for call in (lambda: rotate_(q, k, cos, sin), lambda: torch.ops.rotary.rotate_pair_(q, k, *arguments(cos, sin))):
        before = q._version, k._version
        call()
        assert q._version > before[0] and k._version > before[1]
    before = q._version
    rotate(q, k, cos, sin)
    assert q._version == before
