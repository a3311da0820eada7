"""`rotary.torch.RotaryEmbedding`."""

import copy
import io
import json

import pytest

torch = pytest.importorskip("torch")

from torch_cases import close, expected  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.torch import RotaryEmbedding  # noqa: E402


def exact(positions, dim, base=10_000.0):
    """Cosines and sines in float64, which is exact enough near 0."""
    inv_freq = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angles = torch.as_tensor(positions).double()[..., None] * inv_freq
    return angles.cos(), angles.sin()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers(dtype):
    rotary = RotaryEmbedding(32)
    q, k = torch.randn(2, 4, 6, 32).to(dtype), torch.randn(2, 2, 6, 32).to(dtype)
    for got, x in zip(rotary(q, k), (q, k)):
        close(got, expected(x, *exact(range(6), 32)))
    close(rotary(q, offset=7), expected(q, *exact(range(7, 13), 32)))
    ids = torch.tensor([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])
    close(rotary(q, position_ids=ids), expected(q, *(rows[:, None] for rows in exact(ids, 32))))
    same = q.clone()
    assert rotary(same, in_place=True) is same
    assert torch.equal(same, rotary(q))


def test_partly_and_interleaved():
    rotary = RotaryEmbedding(20, rotary_dim=16, rotary_offset=3, interleaved=True, base=500.0)
    x = torch.randn(1, 5, 2, 20)
    cos, sin = exact(range(5), 16, 500.0)
    close(rotary(x, heads_first=False), expected(x, cos[:, None], sin[:, None], interleaved=True, rotary_offset=3))


def test_tables_grow():
    rotary = RotaryEmbedding(8, max_positions=4)
    x = torch.randn(1, 1, 3, 8)
    close(rotary(x, offset=1000), expected(x, *exact(range(1000, 1003), 8)))
    close(rotary(x, position_ids=torch.tensor([5000, 1, 0])), expected(x, *exact([5000, 1, 0], 8)))
    with pytest.raises(RotaryError, match="position -1"):
        rotary(x, offset=-1)


def test_far_positions_are_exact():
    # A product of float32 numbers is off by 0.01 and more here.
    rotary = RotaryEmbedding(128, max_positions=1_000_003)
    x = torch.randn(1, 1, 2, 128)
    close(rotary(x, offset=1_000_001), expected(x, *exact([1_000_001, 1_000_002], 128)))


def test_from_config(tmp_path):
    config = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "rope_theta": 1234.0}
    (tmp_path / "config.json").write_text(json.dumps(config))
    x = torch.randn(1, 4, 5, 64)
    wanted = expected(x, *exact(range(5), 64, 1234.0))
    for source in (config, tmp_path, str(tmp_path / "config.json")):
        close(RotaryEmbedding.from_config(source)(x), wanted)
    transformers = pytest.importorskip("transformers")
    source = transformers.LlamaConfig(
        hidden_size=256, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 1234.0}
    )
    close(RotaryEmbedding.from_config(source)(x), wanted)
    with pytest.raises(RotaryError, match="config is a int"):
        RotaryEmbedding.from_config(3)
    with pytest.raises(RotaryError, match="rope_type"):
        RotaryEmbedding(64, scaling={"rope_type": "nonsense"})


def test_rules_that_change_with_the_length():
    transformers = pytest.importorskip("transformers")
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    config = transformers.LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=16, rope_parameters=rope
    )
    module = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)
    rotary = RotaryEmbedding.from_config(config)
    x = torch.randn(1, 2, 40, 32)
    for length in (16, 40):
        ids = torch.arange(length)[None]
        cos, sin = module(x, ids)
        got = rotary(x[:, :, :length], sequence_length=length)
        # transformers forms its angles in float32.
        wanted = expected(x[:, :, :length], cos[0, :, :16], sin[0, :, :16])
        assert (got - wanted).abs().max() < 40 * 2 * torch.finfo(torch.float32).eps * x.abs().max()


def test_casts_copies_and_files():
    rotary = RotaryEmbedding(16, base=777.0)
    x = torch.randn(1, 2, 3, 16)
    wanted = rotary(x)
    assert rotary.state_dict() == {}
    assert torch.equal(rotary.to(torch.bfloat16)(x), wanted)
    assert torch.equal(rotary.half().double()(x), wanted)
    file = io.BytesIO()
    torch.save(rotary, file)
    assert len(file.getvalue()) < 10_000
    file.seek(0)
    for other in (copy.deepcopy(rotary), torch.load(file, weights_only=False)):
        assert torch.equal(other(x), wanted)
    module = torch.nn.Sequential(rotary)
    module.load_state_dict(module.state_dict())


def test_learned_frequencies():
    rotary = RotaryEmbedding(8, learnable=True)
    fixed = RotaryEmbedding(8)
    q, k = torch.randn(2, 2, 5, 8, dtype=torch.float64), torch.randn(2, 1, 5, 8, dtype=torch.float64)
    assert (rotary(q, k)[1] - fixed(q, k)[1]).abs().max() < 1e-6  # The parameter is float32.
    rotary.inv_freq.data = rotary.inv_freq.data.double()

    def of(inv_freq):
        return torch.func.functional_call(rotary, {"inv_freq": inv_freq}, (q, k), {"offset": 3})

    assert torch.autograd.gradcheck(of, (rotary.inv_freq.detach().requires_grad_(),))
    assert list(rotary.state_dict()) == ["inv_freq"]


def test_compiled():
    rotary = RotaryEmbedding(16)
    compiled = torch.compile(lambda q, k, offset: rotary(q, k, offset=offset), fullgraph=True, dynamic=True)
    for length, offset in [(5, 0), (7, 3), (1, 12)]:
        q, k = torch.randn(2, 4, length, 16), torch.randn(2, 2, length, 16)
        for got, want in zip(compiled(q, k, offset), rotary(q, k, offset=offset)):
            assert torch.equal(got, want)
