"""The rotation on an NVIDIA GPU: the CPU's numbers, torch's streams, graphs."""

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.version.cuda is None:
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from torch_cases import close, expected, tables  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.compat import vllm  # noqa: E402
from rotary.torch import RotaryEmbedding, rotate, rotate_  # noqa: E402

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
EVERY_TEST = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def both(q, k, cos, sin, **how):
    """The same on the GPU and on the CPU."""
    to = {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in how.items()}
    wanted = rotate(q, k, cos, sin, **how)
    given = (q.cuda(), None if k is None else k.cuda(), cos.cuda(), sin.cuda())
    in_place = rotate_(*(None if x is None else x.clone() for x in given[:2]), *given[2:], **to)
    for got in (rotate(*given, **to), in_place):
        for a, b in zip((got,) if k is None else got, (wanted,) if k is None else wanted):
            # The same operations in the same order: the same bits.
            assert torch.equal(a.cpu(), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
def test_the_bits_of_the_cpu(dtype, interleaved):
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 37, 64).to(dtype), torch.randn(2, 2, 37, 64).to(dtype)
    how = {"interleaved": interleaved}
    for table in DTYPES[:3] if dtype != torch.float64 else DTYPES:
        cos, sin = tables(60, 32, table)
        both(q, k, cos, sin, **how)
        both(q, None, cos, sin, offset=23, inverse=True, **how)
        both(q, k, *(torch.cat([t, t], -1)[None] for t in (cos[:37], sin[:37])), **how)
        both(q, k, *(torch.stack([t[:37], t[20:57]]) for t in (cos, sin)), **how)
        both(q, k, cos, sin, position_ids=torch.randint(0, 60, (37,)), **how)
        both(q, k, cos, sin, position_ids=torch.randint(0, 60, (2, 37), dtype=torch.int32), **how)
        both(q[:1], k[:1], cos, sin, cu_seqlens=torch.tensor([0, 7, 7, 37], dtype=torch.int32), **how)
    cos, sin = tables(37, 11, torch.float64 if dtype == torch.float64 else torch.float32)
    both(q, k, cos, sin, rotary_dim=22, rotary_offset=5, **how)
    both(
        q.transpose(1, 2).contiguous(),
        k.transpose(1, 2).contiguous(),
        cos,
        sin,
        rotary_dim=22,
        heads_first=False,
        **how,
    )


def test_rows_that_are_not_there():
    q, (cos, sin) = torch.randn(1, 2, 3, 64, device="cuda"), (t.cuda() for t in tables(8, 32))
    got = rotate(q, None, cos, sin, position_ids=torch.tensor([7, 8, -1], device="cuda"))
    assert not got[:, :, 0].isnan().any() and got[:, :, 1:].isnan().all()
    with pytest.raises(RotaryError, match="position 8 is not in the table"):
        rotate(q, None, cos, sin, offset=6)
    with pytest.raises(RotaryError, match="cos is on cpu"):
        rotate(q, None, cos.cpu(), sin)
    with pytest.raises(RotaryError, match="q and k share memory"):
        rotate_(q[:, :2], q[:, 1:], cos[:3], sin[:3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck_and_gradients(dtype):
    cos, sin = (t.cuda() for t in tables(5, 8))
    how = (cos, sin, None, None, 0, 0, False, True, None, 0)
    q = torch.randn(2, 3, 5, 16, dtype=dtype, device="cuda", requires_grad=True)
    torch.library.opcheck(torch.ops.rotary.rotate.default, (q, *how), test_utils=EVERY_TEST)
    torch.library.opcheck(torch.ops.rotary.rotate_pair.default, (q, q[:, :1].detach(), *how), test_utils=EVERY_TEST)
    weight = torch.randn_like(q)
    (gradient,) = torch.autograd.grad(rotate(q, None, cos, sin), q, weight)
    close(gradient.cpu(), expected(weight.cpu(), cos.cpu(), sin.cpu(), inverse=True))


def test_compiled():
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, cos, sin: rotate(q * 2, k, cos, sin), fullgraph=True, dynamic=True)
    for length in (5, 9):
        q, k = torch.randn(2, 3, length, 64, device="cuda"), torch.randn(2, 1, length, 64, device="cuda")
        cos, sin = (t.cuda() for t in tables(length, 32))
        torch.testing.assert_close(compiled(q, k, cos, sin), rotate(q * 2, k, cos, sin))


def test_graph():
    rotary = RotaryEmbedding(128).cuda()
    q, k = torch.randn(1, 8, 1, 128, device="cuda"), torch.randn(1, 2, 1, 128, device="cuda")
    ids = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
    cos, sin = (t.cuda().bfloat16() for t in tables(1, 64))
    rotary(q, k, ids), rotate(q, k, cos, sin)  # Kernels are loaded before anything is recorded.
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        own, foreign = rotary(q, k, ids), rotate(q, k, cos, sin)
    for position in (0, 3, 4000):
        ids.fill_(position)
        q.normal_()
        graph.replay()
        assert torch.equal(own[0], rotary(q, k, offset=position)[0])
        assert torch.equal(foreign[0], rotate(q, k, cos, sin)[0])


def test_streams():
    cos, sin = (t.cuda() for t in tables(4096, 64))
    wanted = rotate(torch.ones(1, 32, 4096, 128, device="cuda"), None, cos, sin)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    for _ in range(20):
        with torch.cuda.stream(stream):
            x = torch.zeros(1, 32, 4096, 128, device="cuda")
            for _ in range(10):
                x += 0.1
            x.fill_(1)
            got = rotate_(x, None, cos, sin)
        stream.synchronize()
        assert torch.equal(got, wanted)


def test_autocast():
    cos, sin = (t.cuda() for t in tables(5, 8))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = rotate(torch.randn(1, 2, 5, 16, device="cuda") @ torch.randn(16, 16, device="cuda"), None, cos, sin)
    assert y.dtype == torch.bfloat16


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_another_gpu():
    q, (cos, sin) = torch.randn(1, 2, 5, 16), tables(5, 8)
    assert torch.equal(
        rotate(q.to("cuda:1"), None, cos.to("cuda:1"), sin.to("cuda:1")).cpu(), rotate(q, None, cos, sin)
    )


def test_embedding_and_vllm():
    rotary = RotaryEmbedding(64).to("cuda", torch.bfloat16)
    q = torch.randn(2, 4, 9, 64)
    assert torch.equal(rotary(q.cuda(), offset=5).cpu(), rotary(q, offset=5))
    ids = torch.randint(0, 4096, (2, 9))
    assert torch.equal(rotary(q.cuda(), position_ids=ids.cuda()).cpu(), rotary(q, position_ids=ids))
    assert torch.equal(rotary(q.cuda(), offset=9000).cpu(), rotary(q, offset=9000))  # Tables grow.
    for dtype in (torch.float32, torch.bfloat16):
        cache = torch.cat(tables(40, 32, dtype), -1)
        query, key = torch.randn(7, 256, dtype=dtype), torch.randn(7, 128, dtype=dtype)
        on_gpu = [x.cuda() for x in (query, key)]
        positions = torch.randint(0, 40, (7,))
        vllm.rotary_embedding(positions, query, key, 64, cache, True)
        vllm.rotary_embedding(positions.cuda(), *on_gpu, 64, cache.cuda(), True)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(on_gpu, (query, key)))
