"""Whether a model of torch turns as its configuration says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import _rotary
from .inspection import inspect

# Frequencies are made in float32 by a power, a division and perhaps a blend: sixteen roundings are generous.
_TOLERANCE = 16 * 2.0**-24

# Parts with positions of their own, which the configuration of the text does not describe.
_OTHER_PARTS = ("vision", "visual", "audio", "image")


@dataclass(frozen=True)
class Finding:
    """What was found of one buffer of frequencies, or of one attention factor."""

    name: str
    """The buffer's or the attribute's name in the model."""
    layer_type: str | None
    """The layer type that it was compared with."""
    problem: str | None
    """What is wrong; None if nothing is."""

    def __str__(self) -> str:
        return f"{self.name}: {self.problem or 'as the configuration says'}"


class Check(list[Finding]):
    """The findings of a model. Prints as a line for each."""

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def problems(self) -> list[Finding]:
        """What is wrong."""
        return [finding for finding in self if finding.problem]

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self)


def check(model: Any, config: Any = None) -> Check:
    """Compares the frequencies and attention factors that a live model holds with what its configuration means, and says which
    are wrong: rounded to bfloat16, those of another base, of a rule that was not applied, or of none.

    `model` is a module of torch; its buffers named `inv_freq` are looked at, and those named after a layer type, as in
    `sliding_attention_inv_freq`. The configuration is the model's own, if none is given.

        >>> found = rotary.check(model)                                # doctest: +SKIP
        >>> print(found)                                               # doctest: +SKIP
        model.rotary_emb.inv_freq: as the configuration says
        model.rotary_emb.attention_scaling: as the configuration says
    """
    if not hasattr(model, "named_modules"):
        raise TypeError(f"the model is of type {type(model).__name__}; expected a module of torch")
    config = getattr(model, "config", None) if config is None else config
    if config is None:
        raise _rotary.RotaryError("the model has no config; expected one, or the configuration as an argument")
    meant = _meant(config)
    found = Check()
    for path, module in model.named_modules():
        if any(part in path.lower() for part in _OTHER_PARTS):
            continue
        for name, layer_type, values in _held(module):
            types = [layer_type] if layer_type in meant else list(meant)
            full = f"{path}.{name}" if path else name
            nearest, problem = _nearest(values, {kind: meant[kind] for kind in types})
            found.append(Finding(full, nearest, problem))
            scaling = name.replace("original_", "").replace("inv_freq", "attention_scaling")
            factor = getattr(module, scaling, None)
            if isinstance(factor, (int, float)):
                expected = meant[nearest]["attention_factor"]
                wrong = abs(factor - expected) > _TOLERANCE * expected
                problem = f"is {factor:.7g}; expected {expected:.7g}" if wrong else None
                found.append(Finding(f"{path}.{scaling}" if path else scaling, nearest, problem))
    if not found:
        raise _rotary.RotaryError("the model holds no inv_freq; expected a module of torch that does")
    return found


def _meant(config: Any) -> dict[str | None, dict[str, Any]]:
    """What the configuration means, by layer type."""
    seen = inspect(config)
    layers = seen.get("layer_types", {None: seen})
    turning = {name: layer for name, layer in layers.items() if layer and layer["inv_freq"] is not None}
    if not turning:
        raise _rotary.RotaryError("the configuration is of a model without rotary embedding; expected one that turns")
    return turning


def _held(module: Any) -> Iterator[tuple[str, str | None, Any]]:
    """The frequencies that a module itself holds: the attribute's name, the layer type in it, the tensor."""
    names = dict.fromkeys([*getattr(module, "_buffers", {}), *vars(module)])
    for name in names:
        if not name.endswith("inv_freq") or "original" in name:
            continue
        # Of a rule that changes with the length, what is held for now; the other is what the module began with.
        first = name.replace("inv_freq", "original_inv_freq")
        changes = getattr(module, "rope_type", None) in ("dynamic", "longrope")
        chosen = first if changes and getattr(module, first, None) is not None else name
        values = getattr(module, chosen, None)
        if hasattr(values, "tolist"):
            yield chosen, name.removesuffix("inv_freq").rstrip("_") or None, values


def _nearest(values: Any, meant: dict[str | None, dict[str, Any]]) -> tuple[str | None, str | None]:
    """The layer type whose frequencies these are, or are nearest to, and what is wrong with them."""
    kind = str(getattr(values, "dtype", "")).removeprefix("torch.")
    if "meta" in str(getattr(values, "device", "")):
        return next(iter(meant)), "is on the device meta and holds no numbers"
    got = [float(value) for value in values.reshape(-1).tolist()]
    wrong = {name: _wrong(got, layer["inv_freq"]) for name, layer in meant.items()}
    nearest = min(wrong, key=lambda name: wrong[name][0])
    distance, words = wrong[nearest]
    if distance <= _TOLERANCE:
        return nearest, None
    if kind in ("bfloat16", "float16") and distance < 0.5:
        return nearest, f"is held in {kind}, off by up to {distance:.1e}; expected float32, with its 24 bits"
    return nearest, words + _guess(got)


def _wrong(got: list[float], expected: list[float]) -> tuple[float, str]:
    """The largest relative difference, and what to say of it."""
    if len(got) != len(expected):
        return float("inf"), f"has {len(got)} frequencies; expected {len(expected)}"
    differences = [abs(a - b) / b if b else abs(a) for a, b in zip(got, expected)]
    # What is not a number is further than any.
    differences = [difference if difference == difference else float("inf") for difference in differences]
    pair = max(range(len(got)), key=differences.__getitem__)
    return differences[pair], f"of pair {pair} is {got[pair]:.7g}; expected {expected[pair]:.7g}"


def _guess(got: list[float]) -> str:
    """Where the frequencies may come from: a base without a rule has a constant ratio."""
    if len(got) < 3 or got[0] != 1.0 or not 0.0 < got[1] < 1.0:
        return ""
    ratio = got[1]
    is_plain = all(abs(value / ratio**place - 1.0) < 1e-3 for place, value in enumerate(got))
    return f" (these are the frequencies of base {ratio ** -len(got):.5g} without a rule)" if is_plain else ""
