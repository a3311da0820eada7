"""KerasHub: `keras_hub.layers.RotaryEmbedding` on the backend of torch. Halves; linear, dynamic, yarn."""

import os
os.environ["KERAS_BACKEND"] = "torch"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import torch
from keras_hub.layers import RotaryEmbedding

from kit import run

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def turn(case, positions, q, k):
    rope, parameters = case.rope, case.parameters
    rule = parameters["rope_type"]
    if positions.ndim > 1 or rope.pairing != "half" or rope.rotary_offset or rule not in ("default", "linear", "dynamic", "yarn"):
        raise NotImplementedError
    if "attention_factor" in parameters:
        raise NotImplementedError
    settings = {"max_wavelength": parameters["rope_theta"], "scaling_factor": parameters.get("factor", 1.0)}
    settings["rope_type"] = "linear" if rule == "default" else rule
    if rule == "yarn":
        settings["original_max_position_embeddings"] = parameters["original_max_position_embeddings"]
        settings["truncate"] = parameters.get("truncate", True)
    layer = RotaryEmbedding(**settings, dtype=NAMES[q.dtype])
    dim, ids = rope.rotary_dim, torch.from_numpy(positions)

    def rotate(x):
        turned = layer(x[..., :dim].transpose(1, 2), positions=ids).transpose(1, 2)
        return torch.cat((turned.to(x.dtype), x[..., dim:]), dim=-1)

    with torch.no_grad():
        return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["keras-hub", "keras", "torch"])
