"""Models on texts."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Union, overload

from . import _rotary
from . import progress as _progress
from .results import Answer, Guess, Label, Paraphrase, Ranked, Token

if TYPE_CHECKING:
    import numpy

Progress = Union[bool, Callable[[int, int], Any]]
"""True for a line on stderr, or a function of how many texts are done and how many there are."""

T = TypeVar("T")

# A str is a sequence of str to type checkers, which therefore see two ways to read one: the first is meant.


class Pipeline:
    """A model with its tokenizer: text in, answers out.

    `model` is a folder, or a name on the hub, which is looked for in the local cache and downloaded if need be. `device` is
    "cpu", "cuda", "cuda:N" or "auto" (a GPU if one can be used); `dtype` is what it computes in: "f32", "bf16", "int8" (on the
    CPU), "tf32" (on a GPU) or "auto" ("bf16" where there are instructions for it). Texts are cut to `max_tokens` tokens, or where
    a folder of sentence-transformers says so, or not at all.

    Every task takes one text and gives its result, or a list of texts and gives a list. Python runs on while they compute, so
    that several threads can use models at once, and Ctrl-C is heard.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        device: str = "auto",
        dtype: str = "f32",
        revision: str | None = None,
        max_tokens: int | None = None,
        progress: bool | Callable[[str, int, int | None], Any] = False,
    ) -> None:
        name = os.fspath(model)
        if not isinstance(name, str):
            raise TypeError(f"the model is of type {type(name).__name__}; expected a path or a name")
        told = _progress.files(progress)
        self._pipeline = _rotary.Pipeline(name, device, dtype, revision, max_tokens, told)
        self._name = name

    def __repr__(self) -> str:
        return f"Pipeline({self._name!r})"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._pipeline.dimensions(_vectors())

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
        self._warn()
        return rows[0] if isinstance(texts, str) else rows

    @overload
    def similarity(  # type: ignore[overload-overlap]
        self,
        a: str,
        b: str,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        progress: Progress = False,
    ) -> float: ...
    @overload
    def similarity(
        self,
        a: Sequence[str],
        b: Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        progress: Progress = False,
    ) -> list[float]: ...

    def similarity(
        self,
        a: str | Sequence[str],
        b: str | Sequence[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        progress: Progress = False,
    ) -> Any:
        """How alike two texts are, or each of some texts and its counterpart: the cosine of their vectors, or what the model's
        folder has in its place."""
        vectors = _vectors(prompt_name, prompt, dimensions)
        scores = self._pipeline.similarity(_pairs(a, b), vectors, _progress.texts(progress))
        return _like(a, scores)

    def rank(
        self,
        query: str,
        texts: Sequence[str],
        *,
        top_k: int | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        dimensions: int | None = None,
        progress: Progress = False,
    ) -> list[Ranked]:
        """Texts by how near they are to a query, the nearest first; all of them, or the first `top_k`.

        A cross-encoder reads the query with each text; other models compare vectors, with the folder's prompts for queries and
        for documents. `prompt` and `prompt_name` are about the query alone."""
        vectors, listed = _vectors(prompt_name, prompt, dimensions), _texts(texts)
        if top_k is not None and top_k < 0:
            raise _rotary.RotaryError(f"top_k is {top_k}; expected a number that is not negative")
        ranked = self._pipeline.rank(query, listed, vectors, _progress.texts(progress))
        return [Ranked(place, score, listed[place]) for place, score in ranked[:top_k]]

    @overload
    def fill_mask(self, texts: str, *, top_k: int = 5, progress: Progress = False) -> list[Guess]: ...  # type: ignore[overload-overlap]
    @overload
    def fill_mask(
        self, texts: Sequence[str], *, top_k: int = 5, progress: Progress = False
    ) -> list[list[Guess]]: ...

    def fill_mask(
        self, texts: str | Sequence[str], *, top_k: int = 5, progress: Progress = False
    ) -> Any:
        """The likeliest tokens behind the one mask of a text."""
        found = self._pipeline.fill_mask(_listed(texts), top_k, _progress.texts(progress))
        return _like(texts, [[Guess(*guess) for guess in guesses] for guesses in found])

    @overload
    def classify(  # type: ignore[overload-overlap]
        self, texts: str, pairs: str | None = None, *, progress: Progress = False
    ) -> list[Label] | list[Token]: ...
    @overload
    def classify(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, progress: Progress = False
    ) -> list[list[Label]] | list[list[Token]]: ...

    def classify(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        *,
        progress: Progress = False,
    ) -> Any:
        """All labels of a text, the likeliest first; of a model that labels tokens, its tokens, each with its likeliest label.

        `pairs` are second texts, for models that were trained on two."""
        told = _progress.texts(progress)
        if not self._pipeline.labels_tokens():
            given = _listed(texts) if pairs is None else _pairs(texts, pairs)
            found = self._pipeline.classify(given, told)
            self._warn()
            return _like(texts, [[Label(*label) for label in labels] for labels in found])
        if pairs is not None:
            raise _rotary.RotaryError("the pair is given to a model that labels tokens; expected a text alone")
        listed = _listed(texts)
        labelled = zip(listed, self._pipeline.classify_tokens(listed, told))
        tokens = [[Token(text[token[2] : token[3]], *token) for token in row] for text, row in labelled]
        self._warn()
        return _like(texts, tokens)

    @overload
    def answer(self, questions: str, contexts: str, *, progress: Progress = False) -> Answer: ...  # type: ignore[overload-overlap]
    @overload
    def answer(
        self, questions: Sequence[str], contexts: Sequence[str], *, progress: Progress = False
    ) -> list[Answer]: ...

    def answer(
        self, questions: str | Sequence[str], contexts: str | Sequence[str], *, progress: Progress = False
    ) -> Any:
        """The part of a context that answers a question; of questions, each with its context."""
        found = self._pipeline.answer(_pairs(questions, contexts), _progress.texts(progress))
        return _like(questions, [Answer(*answer) for answer in found])

    def generate(
        self,
        prompt: str,
        *,
        max_tokens: int = 128,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 0.95,
        seed: int = 0,
    ) -> str:
        """What follows a text; of RoFormer-Sim another text that says the same, and of a model with an encoder, such as T5, what
        it was trained to write. The same seed gives the same text; at temperature 0 the likeliest token is always taken."""
        return self._pipeline.generate(prompt, _how(max_tokens, temperature, top_k, top_p, seed)).all()

    def stream(
        self,
        prompt: str,
        *,
        max_tokens: int = 128,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 0.95,
        seed: int = 0,
    ) -> Iterator[str]:
        """What `generate` gives, piece by piece as it comes. The work ends when the iterator is given up."""
        return self._pipeline.generate(prompt, _how(max_tokens, temperature, top_k, top_p, seed))

    def paraphrase(
        self,
        text: str,
        count: int = 5,
        *,
        max_tokens: int = 128,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 0.95,
        seed: int = 0,
    ) -> list[Paraphrase]:
        """Up to `count` different texts that say the same, the nearest first. For RoFormer-Sim."""
        how = _how(max_tokens, temperature, top_k, top_p, seed)
        return [Paraphrase(*found) for found in self._pipeline.paraphrase(text, count, how)]

    def _warn(self) -> None:
        if warning := self._pipeline.warning():
            warnings.warn(warning, RuntimeWarning, stacklevel=3)


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


def _how(max_tokens: int, temperature: float, top_k: int, top_p: float, seed: int) -> dict[str, object]:
    return {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "seed": seed,
    }


def _texts(texts: Sequence[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError("the texts are a str; expected a list of them")
    listed = list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"text {place} is of type {type(text).__name__}; expected str")
    return listed


def _listed(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else _texts(texts)


def _pairs(a: str | Sequence[str], b: str | Sequence[str]) -> list[tuple[str, str]]:
    if isinstance(a, str) != isinstance(b, str):
        raise TypeError("one is a str and the other a list; expected two texts, or two lists of them")
    first, second = _listed(a), _listed(b)
    if len(first) != len(second):
        expected = "as many of the one as of the other"
        raise _rotary.RotaryError(f"the numbers of texts are {len(first)} and {len(second)}; expected {expected}")
    return list(zip(first, second))


def _like(texts: str | Sequence[str], results: list[T]) -> Any:
    """One result for one text."""
    return results[0] if isinstance(texts, str) else results
