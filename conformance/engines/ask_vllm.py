"""vLLM: `get_rope` with the rope dictionary of a configuration, as its models call it, and `forward_native`."""

import torch
from kit import run
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope

MOST = 200_000


def turn(case, positions, q, k):
    rope, config, parameters = case.rope, case.config, dict(case.parameters)
    if rope.pairing == "interleaved_to_half" or rope.rotary_offset or positions.max() >= MOST:
        raise NotImplementedError
    parameters.setdefault("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    # As its configuration does for Phi-3, whose file names the length outside of the dictionary.
    if "original_max_position_embeddings" in config:
        parameters["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    capacity = max(config["max_position_embeddings"], int(positions.max()) + 1)
    if parameters["rope_type"] == "default":
        capacity = int(positions.max()) + 1
    capacity = min(capacity, MOST) if parameters["rope_type"] != "longrope" else capacity
    try:
        module = get_rope(
            rope.head_dim,
            max_position=capacity,
            is_neox_style=rope.pairing == "half",
            rope_parameters=parameters,
            dtype=q.dtype,
        )
    except (ValueError, KeyError, AssertionError) as error:
        raise NotImplementedError from error
    ids = torch.from_numpy(positions)

    def flat(x):  # [tokens, heads · features]
        return x[0].transpose(0, 1).flatten(1).contiguous()

    turned = module.forward_native(ids, flat(q), flat(k))
    return tuple(
        y.unflatten(-1, (x.shape[1], x.shape[3])).transpose(0, 1)[None].to(x.dtype) for x, y in zip((q, k), turned)
    )


if __name__ == "__main__":
    with set_current_vllm_config(VllmConfig()):
        run(turn, ["vllm", "torch"])
