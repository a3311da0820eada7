"""The rotary embedding of a live model of transformers, as a function that can be asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .. import _rotary

# Parts with positions of their own, which the configuration of the text does not describe.
_OTHER_PARTS = ("vision", "visual", "audio", "image")


def rotation(model: Any) -> Callable[..., Any]:
    """The model's rotary module and the function beside its attention, as one function `(config, positions, q, k)`."""
    found = [
        module
        for path, module in model.named_modules()
        if type(module).__name__.endswith("RotaryEmbedding") and not any(part in path.lower() for part in _OTHER_PARTS)
    ]
    if not found:
        raise _rotary.RotaryError("the model has no rotary module; expected one whose class ends in RotaryEmbedding")
    return module_rotation(found[0])


def module_rotation(module: Any) -> Callable[..., Any]:
    """The same of a rotary module alone."""
    source = sys.modules[type(module).__module__]
    apply = _function(source, module)

    def turn(_config: Any, positions: Any, q: Any, k: Any, layer_type: str | None = None) -> tuple[Any, Any]:
        import torch

        ids = positions[..., None, :]  # [1, length], or [3, 1, length]
        with torch.no_grad():
            table = module(q, ids, layer_type) if layer_type is not None else module(q, ids)
            if not isinstance(table, (tuple, list)):
                raise NotImplementedError("a table that is not cosines and sines")
            cos, sin = table
            # What turns comes first in the head, and models differ in whether their function or their attention cuts it off.
            dim = cos.shape[-1] * (2 if cos.shape[-1] * 2 <= q.shape[-1] and _is_half_table(source) else 1)
            turned = apply(q[..., :dim], k[..., :dim], cos, sin)
            q, k = (torch.cat((new, old[..., dim:]), dim=-1) for new, old in zip(turned, (q, k)))
        return q, k

    return turn


def _function(source: Any, module: Any) -> Callable[..., Any]:
    """The function that turns q and k by the module's cosines and sines."""
    interleave = getattr(source, "apply_rotary_pos_emb_interleave", None)
    if interleave is not None and getattr(module.config, "rope_interleave", True):
        return interleave
    for name in ("apply_multimodal_rotary_pos_emb", "apply_rotary_pos_emb"):
        function = getattr(source, name, None)
        if function is not None:
            return function
    raise NotImplementedError(f"{source.__name__} has no apply_rotary_pos_emb")


def _is_half_table(source: Any) -> bool:
    """Whether the module returns one cosine for each pair, as gpt-oss does, and not one for each feature."""
    return source.__name__.rsplit(".", 1)[-1] in ("modeling_gpt_oss", "modeling_openai_privacy_filter")
