"""Rotary position embedding for PyTorch: `rotate`, `rotate_` and the module `RotaryEmbedding`.

On the CPU in float32, float64, float16 and bfloat16, on NVIDIA GPUs in float32, float16 and bfloat16, and with the same numbers in
plain torch on anything else. The operations are torch's own kind (`torch.ops.rotary.*`): gradients, gradients of gradients,
`torch.compile(fullgraph=True)`, CUDA graphs.
"""

from ._embedding import RotaryEmbedding
from ._rotate import rotate, rotate_

__all__ = ["RotaryEmbedding", "rotate", "rotate_"]
