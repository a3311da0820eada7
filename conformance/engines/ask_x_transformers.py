"""x-transformers: `RotaryEmbedding` and `apply_rotary_pos_emb`. Neighbours, a base, a part of the head, linear interpolation."""

import torch
from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

from kit import run


def turn(case, positions, q, k):
    rope, rule = case.rope, case.parameters["rope_type"]
    if rope.pairing != "interleaved" or rope.rotary_offset or rule not in ("default", "linear"):
        raise NotImplementedError
    factor = case.parameters.get("factor", 1.0)
    module = RotaryEmbedding(rope.rotary_dim, base=case.parameters["rope_theta"], interpolation_factor=factor)
    freqs, scale = module(torch.from_numpy(positions))
    return apply_rotary_pos_emb(q, freqs, scale), apply_rotary_pos_emb(k, freqs, scale)


if __name__ == "__main__":
    run(turn, ["x-transformers", "torch"])
