"""Liger: `LigerRopeFunction`, its Triton kernel, in Triton's interpreter on the CPU. Cosines and sines are transformers': of f32 angles here."""

import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
from kit import run
from liger_kernel.ops.rope import LigerRopeFunction


def turn(case, positions, q, k):
    rope = case.rope
    if positions.ndim > 1 or rope.pairing != "half" or rope.rotary_dim != rope.head_dim:
        raise NotImplementedError
    angles = torch.from_numpy(positions)[:, None].double() * torch.tensor(rope.inv_freq, dtype=torch.float64)
    angles = torch.cat((angles, angles), dim=-1)[None]
    cos, sin = ((rope.attention_factor * wave(angles)).to(q.dtype) for wave in (torch.cos, torch.sin))
    return LigerRopeFunction.apply(q.clone(), k.clone(), cos, sin)


if __name__ == "__main__":
    run(turn, ["liger-kernel", "triton", "torch"], dtypes=("f32", "f16"))
