"""rotary-embedding-torch: `rotate_queries_or_keys`, the function of its README. Neighbours, a base, linear interpolation."""

import torch
from rotary_embedding_torch import RotaryEmbedding

from kit import run

MOST = 32768


def turn(case, positions, q, k):
    rope, rule = case.rope, case.parameters["rope_type"]
    repeated = len(set(positions.flatten())) < positions.size
    if repeated or rope.pairing != "interleaved" or rope.rotary_offset or rule not in ("default", "linear") or positions.max() >= MOST:
        raise NotImplementedError
    factor = case.parameters.get("factor", 1.0)
    module = RotaryEmbedding(rope.rotary_dim, theta=case.parameters["rope_theta"], interpolate_factor=factor)
    # It counts from 0: a sequence with our tokens in their places.
    length = int(positions.max()) + 1

    def rotate(x):
        whole = torch.zeros(*x.shape[:2], length, x.shape[-1], dtype=x.dtype)
        whole[:, :, positions] = x
        return module.rotate_queries_or_keys(whole)[:, :, positions]

    return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["rotary-embedding-torch", "torch"])
