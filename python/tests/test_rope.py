"""What a configuration means."""

import copy
import json
import math

import numpy
import pytest

import rotary
from rotary import Rope, RotaryError

LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
GEMMA = {
    "model_type": "gemma3_text",
    "head_dim": 64,
    "num_attention_heads": 4,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
}


class AutoConfig:
    """An object as transformers has them."""

    def to_dict(self):
        return {**LLAMA, "dtype": float}


def test_a_configuration_is_read_however_it_comes(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    ropes = [Rope.from_hf(config) for config in (LLAMA, AutoConfig(), tmp_path, str(tmp_path / "config.json"))]
    assert all(rope == ropes[0] for rope in ropes)
    rope = ropes[0]
    assert (rope.head_dim, rope.rotary_dim, rope.pairs, rope.base, rope.pairing) == (128, 128, 64, 5e5, "half")
    assert (rope.rule, rope.axes, rope.attention_factor, rope.rotary_offset) == ("default", 1, 1.0, 0)
    assert rope == Rope(128, base=5e5) and rope != Rope(128)
    assert rotary.Rope.from_hf(LLAMA, pairing="interleaved").pairing == "interleaved"


def test_layers_of_several_types():
    layers = Rope.layers_from_hf(GEMMA)
    assert {name: rope.base for name, rope in layers.items()} == {"full_attention": 1e6, "sliding_attention": 1e4}
    assert Rope.from_hf(GEMMA, "sliding_attention") == layers["sliding_attention"]
    with pytest.raises(RotaryError, match="full_attention"):
        Rope.from_hf(GEMMA)
    with pytest.raises(RotaryError, match="sideways"):
        Rope.from_hf(GEMMA, "sideways")


def test_frequencies_and_tables_are_the_formula():
    rope = Rope(16, base=500.0)
    theta = numpy.array([500.0 ** (-2 * j / 16) for j in range(8)])
    assert numpy.allclose(rope.inv_freq(), theta, rtol=1e-15, atol=0)
    # At this position the product itself is off by less than 2^-33.
    positions = range(100_000, 100_010)
    angles = numpy.array(positions)[:, None] * theta
    for dtype, kind, error in (("f32", numpy.float32, 2**-24), ("f64", numpy.float64, 2**-32)):
        cos, sin = rope.tables(positions, dtype=dtype)
        assert cos.dtype == kind and cos.shape == (10, 8)
        assert abs(cos - numpy.cos(angles)).max() < error and abs(sin - numpy.sin(angles)).max() < error
    listed = rope.tables(list(positions))
    assert all((a == b).all() for a, b in zip(listed, rope.tables(numpy.array(positions))))
    assert abs(listed[0] - cos).max() < 2**-24
    assert rope.tables(3)[0].shape == rope.tables(range(0, 6, 2))[0].shape == (3, 8)
    assert rope.tables(range(5, 2))[0].shape == (0, 8)


def test_tables_are_not_copied_and_outlive_their_rope():
    cos, _ = Rope(4).tables(5)
    assert cos.base is not None and cos.flags.writeable
    assert cos[0].tolist() == [1.0, 1.0]


def test_tables_are_tensors_where_asked():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    cos, sin = Rope(4).tables(5, dtype="f64", to="torch")
    assert cos.dtype == torch.float64 and torch.equal(sin, torch.from_numpy(Rope(4).tables(5, dtype="f64")[1]))


def test_a_copy_is_itself():
    rope = Rope(4)
    assert copy.copy(rope) is rope and copy.deepcopy({"rope": rope})["rope"] is rope


def test_rules_by_hand():
    rope = Rope(64, rotary_dim=32, base=1e6, scaling={"rope_type": "yarn", "factor": 4.0}, max_position_embeddings=4096)
    assert rope.rule == "yarn" and rope.rotary_dim == 32
    assert math.isclose(rope.attention_factor, 0.1 * math.log(4) + 1)
    assert rope.tables(1)[0][0, 0] == numpy.float32(rope.attention_factor)
    slow = Rope(64, scaling={"rope_type": "linear", "factor": 4}).inv_freq()
    assert numpy.allclose(slow * 4, Rope(64).inv_freq(), rtol=1e-15, atol=0)


def test_keys_are_moved():
    rope, other = Rope(8), Rope(8, base=500.0)
    (cos, sin), x = rope.rerotation([10, 11], [3, 5], other), numpy.array([0.3, -1.0, 2.0, 0.5])
    start, end = rope.tables([10, 11], dtype="f64"), other.tables([3, 5], dtype="f64")
    turned = x * (start[0] + 1j * start[1])
    assert abs(turned * (cos + 1j * sin) - x * (end[0] + 1j * end[1])).max() < 1e-6


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: Rope(3), RotaryError, "even number"),
        (lambda: Rope(-4), RotaryError, "head_dim is -4"),
        (lambda: Rope("4"), TypeError, "integer"),
        (lambda: Rope(4, base=math.nan), RotaryError, "base is NaN"),
        (lambda: Rope(4, pairing="odd"), RotaryError, "interleaved, half"),
        (lambda: Rope(4, angles="f16"), RotaryError, "exact or f32"),
        (lambda: Rope(4, scaling={"rope_type": "sideways"}), RotaryError, "sideways"),
        (lambda: Rope(4).tables([math.nan]), RotaryError, "NaN"),
        (lambda: Rope(4).tables("abc"), TypeError, "positions"),
        (lambda: Rope(4).tables(-1), RotaryError, "positions is -1"),
        (lambda: Rope(4).tables(2, dtype="f16"), RotaryError, "f32 or f64"),
        (lambda: Rope(4).tables(2, to="jax"), RotaryError, "numpy or torch"),
        (lambda: Rope(4).tables(2**50), RotaryError, "fewer positions"),
        (lambda: Rope(4).rerotation([1], [1, 2]), RotaryError, None),
        (lambda: Rope(4).rerotation([1], [1], Rope(8)), RotaryError, None),
        (lambda: Rope(2**70), RotaryError, "2\\^63"),
        (lambda: Rope(4).tables(range(2**63, 2**63 + 2)), RotaryError, "2\\^63"),
        (lambda: Rope(4).tables(range(0, 2**40, 2)), RotaryError, "at most"),
        (lambda: Rope(4).rerotation(range(-(2**63), 2**63 - 1), [1]), RotaryError, "at most"),
        (lambda: Rope(4).inv_freq(-1), RotaryError, "sequence_length is -1"),
        (lambda: Rope.from_hf("-"), RotaryError, "expected a path"),
        (lambda: Rope.from_hf(3), TypeError, "of type int"),
        (lambda: Rope.from_hf({}), RotaryError, None),
        (lambda: Rope.from_hf("/nowhere/config.json"), RotaryError, "/nowhere"),
        (lambda: Rope.from_hf({"model_type": "bert"}), RotaryError, None),
    ],
)
def test_what_cannot_be_is_said(make, kind, says):
    with pytest.raises(kind, match=says):
        make()
    assert issubclass(RotaryError, ValueError)
