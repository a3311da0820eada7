"""Rotary position embedding: what a configuration means, exactly; and rotary models that embed, rank, classify, fill, answer,
generate, train and are compared.

>>> import rotary
>>> rope = rotary.Rope.from_hf({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32})
>>> rope.head_dim, rope.pairing
(128, 'half')
"""

from ._rotary import VERSION as __version__
from ._rotary import Rope, RotaryError
from .checking import Check, Finding, check
from .comparison import Comparison, compare
from .inspection import Inspection, advice, inspect
from .picture import Picture, plot
from .pipeline import Pipeline
from .projection import permute_projection
from .results import Answer, Guess, Label, Paraphrase, Ranked, Token
from .table import Table
from .training import Trained, train

__all__ = [
    "Answer",
    "Check",
    "Comparison",
    "Finding",
    "Guess",
    "Inspection",
    "Label",
    "Paraphrase",
    "Picture",
    "Pipeline",
    "Ranked",
    "Rope",
    "RotaryError",
    "Table",
    "Token",
    "Trained",
    "__version__",
    "advice",
    "check",
    "compare",
    "inspect",
    "permute_projection",
    "plot",
    "train",
]
