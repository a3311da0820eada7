"""`rotary.compat.lucidrains` against rotary-embedding-torch where that is installed, and against its formula."""

import pytest

torch = pytest.importorskip("torch")

from torch_cases import close, expected  # noqa: E402

from rotary import RotaryError  # noqa: E402
from rotary.compat import lucidrains  # noqa: E402

EPS = torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("seq_dim", [-2, -3])
def test_formula(dtype, seq_dim):
    angles = torch.rand(5, 4)
    freqs = angles.repeat_interleave(2, -1)
    cos, sin = angles.cos(), angles.sin()
    for shape in [(2, 3, 5, 12), (3, 5, 12), (2, 2, 3, 5, 12)] + ([(5, 12)] if seq_dim == -2 else []):
        t = torch.randn(shape).to(dtype)
        t = t if seq_dim == -2 else t.transpose(-2, -3)
        beside = (cos, sin) if seq_dim == -2 else (cos[:, None], sin[:, None])
        got = lucidrains.apply_rotary_emb(freqs, t, 2, seq_dim=seq_dim)
        close(got, expected(t, *beside, interleaved=True, rotary_offset=2))
        if seq_dim == -3:
            close(lucidrains.apply_rotary_emb(freqs[:, None], t, 2, seq_dim=-3, freqs_seq_dim=0), got.double())
    more = torch.cat([torch.rand(3, 8), freqs])  # The last rows are taken.
    t = torch.randn(2, 3, 5, 8)
    close(lucidrains.apply_rotary_emb(more, t), expected(t, cos, sin, interleaved=True))


def test_refused():
    t = torch.randn(1, 1, 5, 8)
    module, xpos = lucidrains.RotaryEmbedding(8), lucidrains.RotaryEmbedding(8, use_xpos=True)
    for words, call in {
        "freqs has 10 columns": lambda: lucidrains.apply_rotary_emb(torch.rand(5, 10), t),
        "seq_dim is -4": lambda: lucidrains.apply_rotary_emb(torch.rand(5, 8), t, seq_dim=0),
        "freqs_for is 'x'": lambda: lucidrains.RotaryEmbedding(8, freqs_for="x"),
        "interpolate_factor is 0.5": lambda: lucidrains.RotaryEmbedding(8, interpolate_factor=0.5),
        "use_xpos is True": lambda: xpos.rotate_queries_or_keys(t),
        "use_xpos is False": lambda: module.rotate_queries_and_keys(t, t),
        "no more queries than keys": lambda: module.rotate_queries_with_cached_keys(t, t[:, :, :2]),
    }.items():
        with pytest.raises(RotaryError, match=words):
            call()


def near(got, want, angle):
    assert got.shape == want.shape
    # Both round the angle, and its cosine, in float32.
    assert (got - want).abs().max() <= (angle + 4) * 2 * EPS * want.abs().max()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"theta": 500},
        {"interpolate_factor": 2.0},
        {"theta_rescale_factor": 3.0},
        {"freqs_for": "constant", "num_freqs": 4},
        {"seq_before_head_dim": True},
        {"learned_freq": True},
    ],
)
def test_module(settings):
    theirs = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(8, **settings)
    ours = lucidrains.RotaryEmbedding(8, **settings)
    ours.load_state_dict(theirs.state_dict())
    t = torch.randn(2, 3, 6, 12) if not settings.get("seq_before_head_dim") else torch.randn(2, 6, 3, 12)
    k = torch.randn_like(t)
    near(ours.rotate_queries_or_keys(t), theirs.rotate_queries_or_keys(t), 6)
    near(ours.rotate_queries_or_keys(t, offset=20), theirs.rotate_queries_or_keys(t, offset=20), 26)
    last = t[..., -2:, :] if not settings.get("seq_before_head_dim") else t[:, -2:]
    for got, want in zip(
        ours.rotate_queries_with_cached_keys(last, k), theirs.rotate_queries_with_cached_keys(last, k)
    ):
        near(got, want, 6)
    if settings.get("learned_freq"):
        gradients = []
        for module in (ours, theirs):
            module.rotate_queries_or_keys(t).square()[..., 0].sum().backward()
            gradients.append(module.freqs.grad)
        torch.testing.assert_close(*gradients, rtol=0, atol=100 * EPS * gradients[1].abs().max().item())


def test_xpos():
    theirs = pytest.importorskip("rotary_embedding_torch").RotaryEmbedding(8, use_xpos=True)
    ours = lucidrains.RotaryEmbedding(8, use_xpos=True)
    q, k = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 6, 8)
    for got, want in zip(ours.rotate_queries_and_keys(q, k), theirs.rotate_queries_and_keys(q, k)):
        near(got, want, 6)


def test_images():
    theirs = pytest.importorskip("rotary_embedding_torch")
    for settings in ({"freqs_for": "pixel", "max_freq": 16}, {}):
        one, other = lucidrains.RotaryEmbedding(4, **settings), theirs.RotaryEmbedding(4, **settings)
        freqs = one.get_axial_freqs(3, 5)
        near(freqs, other.get_axial_freqs(3, 5).detach(), 30)
        t = torch.randn(2, 4, 3, 5, 10)
        near(lucidrains.apply_rotary_emb(freqs, t), theirs.apply_rotary_emb(freqs, t), 30)
