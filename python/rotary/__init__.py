"""Rotary position embedding: the kernels and the models of the Rust crates `rope` and `roformer`."""

from ._rotary import VERSION as __version__
from ._rotary import Rope, RotaryError

__all__ = ["Rope", "RotaryError", "__version__"]
