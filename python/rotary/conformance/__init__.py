"""Is that rotary embedding right? Cases with exact values for anybody's, and the name of the mistake where it is not.

A function `(config, positions, q, k) -> (q, k)` is asked every case, or those with some tags, and judged:

>>> from rotary import conformance
>>> def rope(config, positions, q, k):                              # Llama's form, in float64
...     dim, base = q.shape[-1], config["rope_theta"]
...     angle = positions[:, None].double() * base ** (-torch.arange(0, dim, 2).double() / dim)
...     cos, sin = angle.cos(), angle.sin()
...     def turn(x):
...         a, b = x.double().chunk(2, dim=-1)
...         return torch.cat((a * cos + b * sin, b * cos - a * sin), -1).to(x.dtype)    # the signs are exchanged
...     return turn(q), turn(k)
>>> report = conformance.judge(rope, tags=["default", "half", "base"], dtypes=["f32"])   # doctest: +SKIP
>>> report.mistakes                                                 # doctest: +SKIP
['turned-backwards']

`judge_model` does the same with a live model of transformers. In tests of pytest the fixture `rope_case` is one case at a time, see
`rotary.conformance.plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .. import _rotary
from ._case import Case, read
from ._report import Report
from ._tensors import pack
from ._transformers import rotation

__all__ = ["Case", "Report", "cases", "judge", "judge_model"]

DTYPES = ("f32", "f16", "bf16")


def cases(tags: Iterable[str] = (), config: Any = None) -> list[Case]:
    """The cases with all of these tags; of a configuration, if one is given, in place of the small set.

    Tags are the rule (`default`, `linear`, `dynamic`, `yarn`, `longrope`, `llama3`, `proportional`), the pairing (`half`,
    `interleaved`, `interleaved_to_half`), and `base`, `partial`, `mrope`, `long`, `state`, `cache`.
    """
    return read(*_rotary.conformance_cases(list(tags), config))


def judge(
    rope: Callable[..., Any],
    *,
    tags: Iterable[str] = (),
    config: Any = None,
    dtypes: Iterable[str] = DTYPES,
    arrays: str = "torch",
    title: str = "Rotary embedding",
) -> Report:
    """Asks a function every case and judges what it returns.

    `rope(config, positions, q, k)` gets the dictionary of a config.json, the positions, `[length]` or for M-RoPE
    `[3, length]`, and q and k, `[1, heads, length, head_dim]`; it returns the two turned. A case for which it raises
    `NotImplementedError` counts as not answered. `arrays` says what it gets: tensors of "torch", or arrays of "numpy", which
    has no bfloat16.
    """
    return judge_cases(rope, cases(tags, config), dtypes=dtypes, arrays=arrays, title=title)


def judge_cases(
    rope: Callable[..., Any],
    chosen: list[Case],
    *,
    dtypes: Iterable[str] = DTYPES,
    arrays: str = "torch",
    title: str = "Rotary embedding",
) -> Report:
    """The same for cases that were chosen already."""
    dtypes = [dtype for dtype in dtypes if arrays == "torch" or dtype != "bf16"]
    answers: dict[str, Any] = {}
    for case in chosen:
        for dtype in dtypes:
            answer = case.ask(rope, dtype, arrays)
            if answer is not None:
                answers[f"{case.name}.{dtype}.q"], answers[f"{case.name}.{dtype}.k"] = answer
    text = chosen[0].file([case.name for case in chosen]) if chosen else ""
    return Report(*_rotary.conformance_judge(text, pack(answers), title))


def judge_model(model: Any, config: Any = None, *, dtypes: Iterable[str] = DTYPES) -> Report:
    """Judges the rotary embedding of a live model of transformers: its own modules and functions, on cases of its configuration,
    within the trained length and beyond."""
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise _rotary.RotaryError("the model has no config; expected one, or the configuration as an argument")
    chosen = cases(config=config)
    turn = rotation(model)
    return judge_cases(turn, chosen, dtypes=dtypes, title=f"Rotary embedding of {type(model).__name__}")
