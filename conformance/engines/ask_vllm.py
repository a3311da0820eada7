"""vLLM: `get_rope` with the rope dictionary of a configuration, as its models call it, and `forward_native`."""

from types import SimpleNamespace
from unittest import mock

import torch
from kit import run
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope, phi3_long_rope_scaled_rope

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
    if parameters["rope_type"] == "dynamic":
        # A server that is to read more than was trained: factor times as much. vLLM has one table for all lengths.
        parameters["max_trained_positions"] = config["max_position_embeddings"]
        capacity = int(parameters["factor"] * config["max_position_embeddings"])
        if positions.max() >= capacity:
            raise NotImplementedError
    capacity = min(capacity, MOST) if parameters["rope_type"] != "longrope" else capacity
    # LongRoPE asks for the length that the server was started with: what the model can read, unless somebody sets less.
    served = SimpleNamespace(model_config=SimpleNamespace(max_model_len=config["max_position_embeddings"]))
    server = mock.patch.object(phi3_long_rope_scaled_rope, "get_current_vllm_config", lambda: served)
    try:
        with server:
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

    rotate = getattr(module, "forward_native", module.forward)
    turned = rotate(ids, flat(q), flat(k))
    return tuple(
        y.unflatten(-1, (x.shape[1], x.shape[3])).transpose(0, 1)[None].to(x.dtype) for x, y in zip((q, k), turned)
    )


if __name__ == "__main__":
    with set_current_vllm_config(VllmConfig(device_config=DeviceConfig("cpu"))):
        run(turn, ["vllm", "torch"])
