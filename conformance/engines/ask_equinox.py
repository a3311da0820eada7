"""Equinox: `RotaryPositionalEmbedding`. Halves, a base; it counts from 0."""

import equinox.nn
import jax
import jax.numpy as jnp
import numpy

from kit import run

KINDS = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16}
MOST = 32768


def give(values, dtype):
    return jnp.asarray(values, dtype=KINDS[dtype])


def take(array):
    kind = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[str(array.dtype)]
    return kind, array.shape, numpy.asarray(array).tobytes()


def turn(case, positions, q, k):
    rope = case.rope
    whole = rope.rotary_dim == rope.head_dim and rope.pairing == "half" and case.parameters["rope_type"] == "default"
    if positions.ndim > 1 or not whole or positions.max() >= MOST or len(set(positions)) < len(positions):
        raise NotImplementedError
    module = equinox.nn.RotaryPositionalEmbedding(rope.head_dim, case.parameters["rope_theta"], q.dtype)

    def rotate(x):
        sequence = jnp.zeros((x.shape[1], int(positions.max()) + 1, x.shape[-1]), x.dtype).at[:, positions].set(x[0])
        return jax.vmap(module)(sequence)[None, :, positions]

    return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["equinox", "jax"], give=give, take=take)
