"""Models on texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _rotary, progress as _progress

if TYPE_CHECKING:
    import numpy

Progress = bool | Callable[[int, int], None]
"""True for a line on stderr, or a function of how many texts are done and how many there are."""


class Pipeline:
    """A model with its tokenizer: text in, answers out.

    `model` is a folder, or a name on the hub, which is looked for in the local cache and downloaded if need be. `device` is
    "cpu", "cuda", "cuda:N" or "auto" (a GPU if one can be used); `dtype` is what it computes in: "f32", "bf16", "int8" (on the
    CPU), "tf32" (on a GPU) or "auto" (the fastest that keeps 8 bits of precision). Texts are cut to `max_tokens` tokens, or
    where a folder of sentence-transformers says so, or not at all.

    Every task takes one text and gives its result, or a list of texts and gives a list. Python runs on while they compute, and
    Ctrl-C is heard.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "f32",
        revision: str | None = None,
        max_tokens: int | None = None,
        progress: bool | Callable[[str, int, int | None], None] = False,
    ) -> None:
        name = os.fspath(model)
        told = _progress.files(progress)
        self._pipeline = _rotary.Pipeline(name, device, dtype, revision, max_tokens, told)

    def embed(
        self,
        texts: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        pooling: str | None = None,
        normalize: bool = False,
        progress: Progress = False,
    ) -> numpy.ndarray:
        """The vectors of texts, an array `[texts, dimensions]` of float32; of one text, `[dimensions]`.

        A folder of sentence-transformers says itself how vectors are made; what is given here goes before. `pooling` is one of
        cls, mean, max, mean-sqrt, weighted, last and pooler.
        """
        vectors = _vectors(prompt_name, prompt, dimensions, pooling, normalize)
        rows = self._pipeline.embed(_listed(texts), vectors, _progress.texts(progress))
        return rows[0] if isinstance(texts, str) else rows


def _vectors(
    prompt_name: str | None = None,
    prompt: str | None = None,
    dimensions: int | None = None,
    pooling: str | None = None,
    normalize: bool = False,
) -> dict[str, object]:
    if prompt is not None and prompt_name is not None:
        raise _rotary.RotaryError("prompt and prompt_name are both given; expected one of them")
    return {
        "prompt_name": prompt_name,
        "prompt": prompt,
        "dimensions": dimensions,
        "pooling": pooling,
        "normalize": normalize,
    }


def _listed(texts: str | Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        return [texts]
    listed = list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"text {place} is of type {type(text).__name__}; expected str")
    return listed
