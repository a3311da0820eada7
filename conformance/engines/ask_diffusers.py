"""Diffusers: `get_1d_rotary_pos_embed` and `apply_rotary_emb`. Both pairings, a base, linear interpolation."""

import torch
from diffusers.models.embeddings import apply_rotary_emb, get_1d_rotary_pos_embed

from kit import run


def turn(case, positions, q, k):
    rope, rule = case.rope, case.parameters["rope_type"]
    if positions.ndim > 1 or rope.pairing == "interleaved_to_half" or rope.rotary_offset or rule not in ("default", "linear"):
        raise NotImplementedError
    neighbours, dim = rope.pairing == "interleaved", rope.rotary_dim
    table = get_1d_rotary_pos_embed(
        dim,
        torch.from_numpy(positions),
        theta=case.parameters["rope_theta"],
        linear_factor=case.parameters.get("factor", 1.0),
        use_real=True,
        repeat_interleave_real=neighbours,
    )
    way = -1 if neighbours else -2
    turned = (apply_rotary_emb(x[..., :dim], table, use_real_unbind_dim=way) for x in (q, k))
    return tuple(torch.cat((new, old[..., dim:]), dim=-1) for new, old in zip(turned, (q, k)))


if __name__ == "__main__":
    run(turn, ["diffusers", "torch"])
