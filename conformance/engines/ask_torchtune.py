"""torchtune: its base class (neighbours), Llama 3's scaling (neighbours), and the classes of Qwen2 and Phi-3 (halves)."""

import torch
from torchtune.models.llama3_1 import Llama3ScaledRoPE
from torchtune.models.phi3 import Phi3RotaryPositionalEmbeddings
from torchtune.models.qwen2 import Qwen2RotaryPositionalEmbeddings
from torchtune.modules import RotaryPositionalEmbeddings

from kit import run

MOST = 200_000


def turn(case, positions, q, k):
    rope, rule = case.rope, case.parameters["rope_type"]
    if rope.rotary_dim != rope.head_dim or positions.ndim > 1 or positions.max() >= MOST:
        raise NotImplementedError
    size = {"dim": rope.head_dim, "max_seq_len": int(positions.max()) + 1, "base": case.parameters["rope_theta"]}
    if rule == "default" and rope.pairing == "interleaved":
        module = RotaryPositionalEmbeddings(**size)
    elif rule == "default" and rope.pairing == "half":
        module = (Phi3RotaryPositionalEmbeddings if case.name == "base-half" else Qwen2RotaryPositionalEmbeddings)(**size)
    elif rule == "llama3":
        # It pairs neighbours: halves are brought into that order, as the converter of checkpoints does, and back.
        parameters = case.parameters
        module = Llama3ScaledRoPE(
            **size,
            scale_factor=parameters["factor"],
            low_freq_factor=parameters["low_freq_factor"],
            high_freq_factor=parameters["high_freq_factor"],
            old_context_len=parameters["original_max_position_embeddings"],
        )
    else:
        raise NotImplementedError
    ids = torch.from_numpy(positions)[None]
    permuted = rule == "llama3" and rope.pairing == "half"

    def rotate(x):
        x = x.transpose(1, 2)  # [batch, length, heads, features]
        if permuted:
            x = torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)
        x = module(x, input_pos=ids)
        if permuted:
            x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
        return x.transpose(1, 2)

    return rotate(q), rotate(k)


if __name__ == "__main__":
    run(turn, ["torchtune", "torch"])
