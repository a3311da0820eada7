"""Projections under another pairing: the scores stay what they were."""

import numpy
import pytest

import rotary


def turned(x, rope, position, pairing):
    cos, sin = (values[0] for values in rope.tables([position], dtype="f64"))
    pairs = (x[0::2], x[1::2]) if pairing == "interleaved" else (x[: x.size // 2], x[x.size // 2 :])
    return numpy.stack([pairs[0] * cos - pairs[1] * sin, pairs[0] * sin + pairs[1] * cos])


def test_scores_stay_what_they_were():
    numbers = numpy.random.default_rng(1)
    heads, dim, rope = 3, 8, rotary.Rope(8)
    query, key, x, y = (numbers.normal(size=shape) for shape in [(24, 5), (24, 5), (5,), (5,)])
    options = {"from_pairing": "interleaved", "to_pairing": "half"}
    permuted = [rotary.permute_projection(weight, heads, **options) for weight in (query, key)]
    for head in range(heads):
        rows = slice(head * dim, (head + 1) * dim)
        scores = [
            (turned(q[rows] @ x, rope, 11, pairing) * turned(k[rows] @ y, rope, 4, pairing)).sum()
            for q, k, pairing in ((query, key, "interleaved"), (*permuted, "half"))
        ]
        assert scores[0] == pytest.approx(scores[1], rel=1e-12)
    back = rotary.permute_projection(permuted[0], heads, from_pairing="half", to_pairing="interleaved")
    assert (back == query).all()


def test_only_the_features_that_turn_are_moved():
    options = {"from_pairing": "interleaved", "to_pairing": "half", "rotary_dim": 4, "rotary_offset": 2}
    assert rotary.permute_projection(numpy.arange(8), 1, **options).tolist() == [0, 1, 2, 4, 3, 5, 6, 7]


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    weight = torch.arange(12, dtype=torch.bfloat16).reshape(6, 2)
    permuted = rotary.permute_projection(weight, 1, from_pairing="interleaved", to_pairing="half")
    assert permuted.dtype == torch.bfloat16 and permuted[:, 0].tolist() == [0, 4, 8, 2, 6, 10]


@pytest.mark.parametrize(
    ("weight", "heads", "options", "kind"),
    [
        ([1, 2], 1, {}, TypeError),
        (numpy.zeros(6), 4, {}, rotary.RotaryError),
        (numpy.zeros(6), 0, {}, rotary.RotaryError),
        (numpy.zeros(6), 2, {}, rotary.RotaryError),
        (numpy.zeros(8), 2, {"rotary_dim": 8}, rotary.RotaryError),
        (numpy.zeros(8), 2, {"rotary_offset": -1}, rotary.RotaryError),
        (numpy.zeros(8), 2, {"from_pairing": "odd"}, rotary.RotaryError),
    ],
)
def test_what_cannot_be_permuted_is_said(weight, heads, options, kind):
    with pytest.raises(kind):
        rotary.permute_projection(weight, heads, **{"from_pairing": "interleaved", "to_pairing": "half", **options})
