"""`rotary.compat.flash_attn` and `rotary.compat.vllm` against their formulas, stated here in plain torch."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import close, expected, tables  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.compat import flash_attn, vllm  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("offsets", [0, 7, torch.tensor([3, 0, 11])])
def test_apply_rotary_emb(dtype, interleaved, inplace, offsets):
    cos, sin = tables(30, 4, dtype)
    x = torch.randn(3, 9, 2, 12, dtype=dtype, requires_grad=True)
    rows = (offsets[:, None] if isinstance(offsets, torch.Tensor) else offsets) + torch.arange(9)
    beside = [table.float()[rows].unsqueeze(-2) for table in (cos, sin)]
    given = x * 1 if inplace else x
    out = flash_attn.apply_rotary_emb(given, cos, sin, interleaved, inplace, offsets)
    assert (out.data_ptr() == given.data_ptr()) == inplace
    close(out, expected(x.detach(), *beside, interleaved=interleaved))
    weight = torch.randn_like(out)
    (gradient,) = torch.autograd.grad(out, x, weight)
    close(gradient, expected(weight, *beside, interleaved=interleaved, inverse=True))


@pytest.mark.parametrize("offsets", [0, 2, torch.tensor([1, 0, 5])])
def test_packed(offsets):
    cos, sin = tables(30, 4)
    ends = torch.tensor([0, 4, 4, 9], dtype=torch.int32)
    x = torch.randn(9, 2, 8)
    start = offsets if isinstance(offsets, torch.Tensor) else torch.full((3,), offsets)
    rows = torch.cat([start[i] + torch.arange(int(ends[i + 1] - ends[i])) for i in range(3)])
    got = flash_attn.apply_rotary_emb(x, cos, sin, seqlen_offsets=offsets, cu_seqlens=ends, max_seqlen=5)
    close(got, expected(x, cos[rows][:, None], sin[rows][:, None]))


@pytest.mark.parametrize("grad", [False, True])
def test_fused(grad):
    cos, sin = tables(9, 4)
    cos_k, sin_k = tables(9, 4, seed=1)
    base = torch.randn(2, 9, 3, 2, 8, requires_grad=grad)
    for other in (False, True):
        qkv = base * 1
        keys = (cos_k, sin_k) if other else (cos, sin)
        out = flash_attn.apply_rotary_emb_qkv_(qkv, cos, sin, *(keys if other else ()))
        assert out is qkv
        close(out.detach()[:, :, 0], expected(base.detach()[:, :, 0], cos[:, None], sin[:, None]))
        close(out.detach()[:, :, 1], expected(base.detach()[:, :, 1], keys[0][:, None], keys[1][:, None]))
        assert torch.equal(out[:, :, 2], base[:, :, 2])
        if grad:
            (gradient,) = torch.autograd.grad(out.sum(), base)
            ones = torch.ones(2, 9, 2, 8)
            close(gradient[:, :, 1], expected(ones, keys[0][:, None], keys[1][:, None], inverse=True))
            assert torch.equal(gradient[:, :, 2], ones)
    heads = torch.randn(2, 9, 4 + 2 * 2, 8)
    before = heads.clone()
    flash_attn.apply_rotary_emb_qkv_(heads, cos, sin, num_heads_q=4)
    close(heads[:, :, :6], expected(before[:, :, :6], cos[:, None], sin[:, None]))
    assert torch.equal(heads[:, :, 6:], before[:, :, 6:])
    kv = torch.randn(2, 9, 2, 2, 8)
    before = kv.clone()
    flash_attn.apply_rotary_emb_kv_(kv, cos, sin)
    close(kv[:, :, 0], expected(before[:, :, 0], cos[:, None], sin[:, None]))
    assert torch.equal(kv[:, :, 1], before[:, :, 1])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("scale_base", [None, 512])
def test_module(interleaved, scale_base):
    module = flash_attn.RotaryEmbedding(8, interleaved=interleaved, scale_base=scale_base)
    assert module.state_dict() == {}
    inv_freq = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    angles = torch.arange(9.0, dtype=torch.float64)[:, None] * inv_freq
    scale = torch.ones(9, 4, dtype=torch.float64)
    if scale_base:
        zeta = (torch.arange(0, 8, 2, dtype=torch.float64) + 0.4 * 8) / (1.4 * 8)
        scale = zeta ** ((torch.arange(9.0, dtype=torch.float64) - 9 // 2) / scale_base)[:, None]
    tables_q = [(f * scale)[:, None] for f in (angles.cos(), angles.sin())]
    tables_k = [(f / scale)[:, None] for f in (angles.cos(), angles.sin())]
    qkv = torch.randn(2, 9, 3, 2, 12)
    q, k = qkv[:, :, 0].clone(), qkv[:, :, 1].clone()

    def near(got, want):
        # The angles, up to 9, are float32's.
        assert (got - want).abs().max() < 9 * 2 * torch.finfo(torch.float32).eps * want.abs().max()

    out = module(qkv.clone())
    near(out[:, :, 0], expected(q, *tables_q, interleaved=interleaved))
    near(out[:, :, 1], expected(k, *tables_k, interleaved=interleaved))
    out_q, out_kv = module(q.clone(), qkv[:, :, 1:].clone())
    near(out_q, expected(q, *tables_q, interleaved=interleaved))
    near(out_kv[:, :, 0], expected(k, *tables_k, interleaved=interleaved))
    if not scale_base:
        step = module(qkv[:, 4:5].clone(), seqlen_offset=4)
        near(step[:, :, 0], expected(q, *tables_q, interleaved=interleaved)[:, 4:5])
        later = module(qkv[:, :3].clone(), seqlen_offset=torch.tensor([6, 2]))
        near(later[1, :, 0], expected(q[1, :3], tables_q[0][2:5], tables_q[1][2:5], interleaved=interleaved))


def test_refused():
    cos, sin = tables(9, 4)
    for words, call in {
        "x has 3 axes": lambda: flash_attn.apply_rotary_emb(torch.randn(9, 2, 8), cos, sin),
        "x has 4 axes": lambda: flash_attn.apply_rotary_emb(
            torch.randn(1, 9, 2, 8), cos, sin, cu_seqlens=torch.tensor([0, 9])
        ),
        "seqlen_offsets has shape": lambda: flash_attn.apply_rotary_emb(
            torch.randn(1, 9, 2, 8), cos, sin, seqlen_offsets=torch.zeros(2)
        ),
        "qkv has shape": lambda: flash_attn.apply_rotary_emb_qkv_(torch.randn(1, 9, 2, 8), cos, sin),
        "qkv has 5 heads": lambda: flash_attn.apply_rotary_emb_qkv_(torch.randn(1, 9, 5, 8), cos, sin, num_heads_q=2),
        "kv has shape": lambda: flash_attn.apply_rotary_emb_kv_(torch.randn(1, 9, 3, 2, 8), cos, sin),
        "position 9 is not": lambda: flash_attn.apply_rotary_emb(torch.randn(1, 9, 2, 8), cos, sin, seqlen_offsets=1),
        "cos_sin_cache has shape": lambda: vllm.rotary_embedding(
            torch.arange(3), torch.randn(3, 16), None, 8, torch.randn(9), True
        ),
        "query has shape": lambda: vllm.rotary_embedding(
            torch.arange(3), torch.randn(3, 17), None, 8, torch.randn(9, 8), True
        ),
        "key has shape": lambda: vllm.rotary_embedding(
            torch.arange(3), torch.randn(3, 16), torch.randn(2, 16), 8, torch.randn(9, 8), True
        ),
    }.items():
        with pytest.raises(RotaryError, match=words):
            call()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_neox", [False, True])
@pytest.mark.parametrize("shape", [(7,), (2, 7)])
def test_vllm(dtype, is_neox, shape):
    cos, sin = tables(40, 4, dtype)
    cache = torch.cat([cos, sin], -1)
    positions = torch.randint(0, 40, shape)
    for apart in (False, True):
        query, key = torch.randn(*shape, 3, 16, dtype=dtype), torch.randn(*shape, 1, 16, dtype=dtype)
        beside = [table.float()[positions].unsqueeze(-2) for table in (cos, sin)]
        wanted = [expected(x, *beside, interleaved=not is_neox) for x in (query, key)]
        q, k = (query.clone(), key.clone()) if apart else (query.flatten(-2).clone(), key.flatten(-2).clone())
        assert vllm.rotary_embedding(positions, q, k, 16, cache, is_neox) is None
        close(q.view_as(query), wanted[0])
        close(k.view_as(key), wanted[1])
        q = query.clone()
        vllm.rotary_embedding(positions, q, None, 16, cache, is_neox)
        close(q, wanted[0])
