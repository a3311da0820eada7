"""Settings as the flags of a command, which reads and checks them."""

from __future__ import annotations

import numbers
import os
from typing import Any


def flags(settings: dict[str, Any]) -> list[str]:
    """The flags of settings by name. What is None or False is not given; of a list, each.

    >>> flags({"eval_data": ["a.txt", "b.txt"], "lr": 0.001, "plot": True, "seed": None})
    ['--eval-data=a.txt', '--eval-data=b.txt', '--lr=0.001', '--plot']
    """
    found: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            found.append(flag)
            continue
        values = value if isinstance(value, (list, tuple)) else [value]
        found.extend(f"{flag}={_text(name, each)}" for each in values)
    return found


def _text(name: str, value: Any) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, (str, numbers.Real)) or isinstance(value, bool):
        raise TypeError(f"{name.rstrip('_')} is of type {type(value).__name__}; expected text or a number")
    return str(value)
