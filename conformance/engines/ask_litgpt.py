"""LitGPT: `build_rope_cache` with the settings that its configurations have, and `apply_rope`."""

import torch
from litgpt.model import apply_rope, apply_rope_interleave, build_rope_cache

from kit import run

MOST = 200_000


def turn(case, positions, q, k):
    rope, parameters = case.rope, case.parameters
    rule = parameters["rope_type"]
    if positions.ndim > 1 or positions.max() >= MOST or rope.pairing == "interleaved" or rope.rotary_offset:
        raise NotImplementedError
    more = {}
    if rule == "linear":
        more["condense_ratio"] = parameters["factor"]
    elif rule == "llama3":
        more["extra_config"] = {
            "factor": parameters["factor"],
            "low_freq_factor": parameters["low_freq_factor"],
            "high_freq_factor": parameters["high_freq_factor"],
            "original_max_seq_len": parameters["original_max_position_embeddings"],
        }
    elif rule == "yarn":
        more["extra_config"] = {
            "factor": parameters["factor"],
            "beta_fast": parameters.get("beta_fast", 32.0),
            "beta_slow": parameters.get("beta_slow", 1.0),
            "original_max_seq_len": parameters["original_max_position_embeddings"],
        } | {key: parameters[key] for key in ("mscale", "mscale_all_dim", "truncate") if key in parameters}
        if "attention_factor" in parameters:
            raise NotImplementedError
    elif rule != "default":
        raise NotImplementedError
    length, dim = int(positions.max()) + 1, rope.rotary_dim
    cos, sin = build_rope_cache(length, dim, base=parameters["rope_theta"], **more)
    cos, sin = (table[torch.from_numpy(positions)][None] for table in (cos, sin))
    apply = apply_rope_interleave if rope.pairing == "interleaved_to_half" else apply_rope
    return tuple(torch.cat((apply(x[..., :dim], cos, sin), x[..., dim:]), dim=-1) for x in (q, k))


if __name__ == "__main__":
    run(turn, ["litgpt", "torch"])
