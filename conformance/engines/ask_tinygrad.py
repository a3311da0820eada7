"""tinygrad: `precompute_freqs_cis` and `apply_rope` of its language models. Halves, a base, the first part of the head."""

from tinygrad import Tensor, dtypes
from tinygrad.llm.model import apply_rope, precompute_freqs_cis

from kit import from_numpy, run

MOST = 32768


def give(values, dtype):
    return Tensor(values).cast({"f32": dtypes.float32, "f16": dtypes.float16}[dtype])


def turn(case, positions, q, k):
    rope = case.rope
    known = rope.pairing == "half" and case.parameters["rope_type"] == "default" and not rope.rotary_offset
    if positions.ndim > 1 or not known or positions.max() >= MOST:
        raise NotImplementedError
    dim = rope.rotary_dim
    table = precompute_freqs_cis(dim, int(positions.max()) + 1, case.parameters["rope_theta"])[Tensor(positions)]
    # As its attention does; the model casts what comes back to the type of the weights.
    turned = (apply_rope(x[..., :dim], table).cast(x.dtype).cat(x[..., dim:], dim=-1) for x in (q, k))
    return tuple(x.numpy() for x in turned)


if __name__ == "__main__":
    run(turn, ["tinygrad"], dtypes=("f32", "f16"), give=give, take=from_numpy)
