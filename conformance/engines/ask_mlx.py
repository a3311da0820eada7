"""MLX on the CPU: `mx.fast.rope`, token by token at its offset. Both pairings, a part of the head, a base, a scale."""

import mlx.core as mx
import numpy

from kit import run

KINDS = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}


def give(values, dtype):
    return mx.array(values).astype(KINDS[dtype])


def take(array):
    kind = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16"}[array.dtype]
    bits = mx.uint32 if kind == "F32" else mx.uint16
    return kind, array.shape, numpy.array(mx.view(mx.contiguous(array), bits)).tobytes()


def turn(case, positions, q, k):
    rope, rule = case.rope, case.parameters["rope_type"]
    known = rule in ("default", "linear") and rope.pairing in ("half", "interleaved")
    if positions.ndim > 1 or not known or rope.rotary_offset or positions.max() >= 2**31:
        raise NotImplementedError
    settings = {
        "traditional": rope.pairing == "interleaved",
        "base": case.parameters["rope_theta"],
        "scale": 1.0 / case.parameters.get("factor", 1.0),
    }

    def rotate(x):
        tokens = [
            mx.fast.rope(x[:, :, token : token + 1], rope.rotary_dim, offset=int(at), **settings)
            for token, at in enumerate(positions)
        ]
        return mx.concatenate(tokens, axis=2)

    return rotate(q), rotate(k)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    run(turn, ["mlx"], give=give, take=take)
