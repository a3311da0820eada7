"""Pictures of what rotary embedding does: those of `roformer plot`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import _rotary


class Picture:
    """A picture that a notebook shows, and that `save` writes."""

    def __init__(self, drawn: tuple[Any, ...]) -> None:
        self._drawn = drawn
        self._svg = self._rendered("picture.svg", None).decode()

    def _rendered(self, name: str, width: int | None) -> bytes:
        figure, config, layer_type, dim, base, number, trained, dark = self._drawn
        return _rotary.plot(figure, config, layer_type, dim, base, number, trained, name, width, dark)

    def save(self, path: str | os.PathLike[str], *, width: int | None = None) -> Path:
        """Writes it as .svg or .png, by its name; of rotation also as a .gif that moves. `width` is in pixels."""
        path = Path(path)
        path.write_bytes(self._rendered(path.name, width))
        return path

    def _repr_svg_(self) -> str:
        return self._svg

    def __repr__(self) -> str:
        return f"<a picture of {self._drawn[0]}: shown by a notebook, written by save(path)>"


def plot(
    figure: str,
    config: Any = None,
    *,
    layer_type: str | None = None,
    dim: int = 128,
    base: float = 10_000.0,
    context: int | None = None,
    trained: int | None = None,
    dark: bool = False,
) -> Picture:
    """Draws the rotary embedding of a configuration, or of heads with `dim` features and a base.

    `figure` is "decay" (how scores fall with the distance), "wavelengths" (how many positions a turn of each pair takes, and
    what rules for longer contexts do to it), "rotation" (pairs as clocks), "scores" (all positions with all, beside ALiBi and T5)
    or "table" (cosines and sines). `context` is how far it looks: the furthest distance, the target length, the position, or how
    many positions. `trained` is the length of training, for wavelengths.

    >>> picture = plot("decay", dim=64, context=512)
    >>> picture._repr_svg_().startswith("<svg")
    True
    """
    return Picture((figure, config, layer_type, dim, base, context, trained, dark))
