"""torchtitan: `ComplexRoPE` (neighbours) and `CosSinRoPE` (halves), with Llama's and YaRN's scaling.

YaRN's attention factor is left to the softmax scale by design, and said so in its source; it is multiplied here, so that what is
judged is what the class says that it does.
"""

import torch
from torchtitan.models.common.rope import ComplexRoPE, CosSinRoPE

from kit import run

MOST = 200_000


def turn(case, positions, q, k):
    rope, parameters = case.rope, case.parameters
    rule = parameters["rope_type"]
    if positions.ndim > 1 or positions.max() >= MOST or rope.rotary_dim != rope.head_dim:
        raise NotImplementedError
    kind = {"half": CosSinRoPE, "interleaved": ComplexRoPE}.get(rope.pairing)
    if kind is None or rule not in ("default", "llama3", "yarn"):
        raise NotImplementedError
    settings = {"dim": rope.head_dim, "max_seq_len": int(positions.max()) + 1, "theta": parameters["rope_theta"]}
    permuted = False
    if rule == "llama3":
        # Only the class of neighbours has it; halves are brought into that order, as checkpoints are, and back.
        permuted, kind = rope.pairing == "half", ComplexRoPE
        settings |= {"scaling": "llama", "scaling_factor": parameters["factor"]}
        settings |= {key: parameters[key] for key in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")}
    if rule == "yarn":
        settings |= {"scaling": "yarn", "rope_factor": parameters["factor"], "truncate": parameters.get("truncate", True)}
        settings["original_seq_len"] = parameters["original_max_position_embeddings"]
    module = kind(kind.Config(**settings))

    def order(x, into):
        if not permuted:
            return x
        if into:
            return torch.stack(x.chunk(2, dim=-1), dim=-1).flatten(-2)
        return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)

    ids = torch.from_numpy(positions)[None]
    turned = module(*(order(x, True).transpose(1, 2) for x in (q, k)), ids)
    factor = rope.attention_factor if rule == "yarn" else 1.0
    return tuple((order(x.transpose(1, 2), False).float() * factor).to(x.dtype) for x in turned)


if __name__ == "__main__":
    run(turn, ["torchtitan", "torch"])
