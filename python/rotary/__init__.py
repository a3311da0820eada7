"""Rotary position embedding: what a configuration means, exactly; and rotary models that embed, rank, classify, fill, answer,
generate, train and are compared.

>>> import rotary
>>> rope = rotary.Rope.from_hf({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32})
>>> rope.head_dim, rope.pairing
(128, 'half')
"""

from ._rotary import VERSION as __version__
from ._rotary import Rope, RotaryError
from .inspection import Inspection, advice, inspect
from .pipeline import Pipeline

__all__ = ["Inspection", "Pipeline", "Rope", "RotaryError", "__version__", "advice", "inspect"]
