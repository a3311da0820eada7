"""What the rotary embedding of a configuration does: what `roformer inspect` says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from . import _rotary

Config = Any
"""A path to a `config.json` or its folder, the name of a model on the hub, a dict, or an object with `to_dict()`."""


class Inspection(dict[str, Any]):
    """What a configuration does: a dict with what `roformer inspect --json` prints, which prints as the page for people."""

    def __init__(self, values: dict[str, Any], page: str) -> None:
        super().__init__(values)
        self._page = page

    def __str__(self) -> str:
        return self._page


def inspect(
    config: Config,
    context: int | None = None,
    *,
    pairing: str | None = None,
    allow_unknown: Sequence[str] = (),
) -> Inspection:
    """What the rotary embedding of a configuration does: its rule, frequencies and warnings; printed, also which pairs never
    complete a turn in training, and where precision gives out. With `context`, for sequences of so many tokens.

    >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "rope_theta": 10000.0}
    >>> found = inspect(config)
    >>> found["pairing"], found["inv_freq"]
    ('half', [1.0, 0.1, 0.01, 0.001])
    >>> print(str(found).splitlines()[1])
    pairing      half: features j and j + d/2 turn together
    """
    values, page = _rotary.inspection(config, context, pairing, list(allow_unknown))
    return Inspection(json.loads(values), page)


def advice(
    config: Config,
    context: int,
    *,
    pairing: str | None = None,
    allow_unknown: Sequence[str] = (),
) -> dict[str, Any]:
    """What each rule for longer contexts would do at `context` tokens, a verdict in words, and the settings to paste for
    transformers, vLLM and llama.cpp. Of a model whose layers differ, a dict by layer type.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096}
    >>> found = advice(config, 16384)
    >>> [rule["name"] for rule in found["candidates"]]
    ["the model's own rule", 'linear', 'NTK-aware', 'YaRN', 'dynamic NTK']
    >>> found["settings"][2]["tool"]
    'vLLM'
    """
    layers: dict[str, Any] = json.loads(_rotary.advice(config, context, pairing, list(allow_unknown)))
    alike: dict[str, Any] | None = layers.get("")
    return layers if alike is None else alike
