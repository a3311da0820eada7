"""SGLang: `get_rope` with the rope dictionary of a configuration, as its models call it, and `forward_native`."""

import sys
from types import ModuleType

import torch
from kit import run

# Without a GPU its constructor asks vLLM for a kernel, which `forward_native` does not call.
for name in ("vllm", "vllm._custom_ops"):
    sys.modules[name] = ModuleType(name)
sys.modules["vllm._custom_ops"].rotary_embedding = None

from sglang.srt.layers.rotary_embedding import get_rope  # noqa: E402

MOST = 200_000


def turn(case, positions, q, k):
    rope, config, parameters = case.rope, case.config, dict(case.parameters)
    if rope.pairing == "interleaved_to_half" or rope.rotary_offset or positions.max() >= MOST:
        raise NotImplementedError
    if "original_max_position_embeddings" in config:
        parameters["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    capacity = config["max_position_embeddings"]
    if parameters["rope_type"] == "default":
        capacity = int(positions.max()) + 1
    elif parameters["rope_type"] == "dynamic" and positions.max() >= parameters["factor"] * capacity:
        raise NotImplementedError  # its table ends at factor times the trained length
    plain = parameters["rope_type"] == "default" and "mrope_section" not in parameters
    try:
        module = get_rope(
            rope.head_dim,
            rotary_dim=rope.head_dim,
            max_position=capacity,
            base=parameters["rope_theta"],
            is_neox_style=rope.pairing == "half",
            rope_scaling=None if plain else parameters,
            dtype=q.dtype,
            partial_rotary_factor=parameters.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0)),
        )
    except (ValueError, KeyError, AssertionError) as error:
        raise NotImplementedError from error
    ids = torch.from_numpy(positions)

    def flat(x):  # [tokens, heads · features]
        return x[0].transpose(0, 1).flatten(1).contiguous()

    rotate = getattr(module, "forward_native", None) or module.forward
    turned = rotate(ids, flat(q), flat(k))
    return tuple(
        y.unflatten(-1, (x.shape[1], x.shape[3])).transpose(0, 1)[None].to(x.dtype) for x, y in zip((q, k), turned)
    )


if __name__ == "__main__":
    run(turn, ["sglang", "torch"])
