"""The compiled part."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, final, overload

import numpy

VERSION: str

class RotaryError(ValueError): ...

@final
class Numbers:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Pairing = Literal["interleaved", "half", "interleaved_to_half"]
_Angles = Literal["exact", "f32"]

@final
class Rope:
    """A rotary position embedding: which features turn, in which pairs, and how fast."""

    def __new__(
        cls,
        head_dim: int,
        *,
        base: float = 10_000.0,
        pairing: _Pairing = "half",
        rotary_dim: int | None = None,
        rotary_offset: int = 0,
        scaling: dict[str, Any] | None = None,
        max_position_embeddings: int | None = None,
        angles: _Angles = "exact",
    ) -> Rope: ...
    @staticmethod
    def from_hf(
        config: Any, layer_type: str | None = None, *, pairing: _Pairing | None = None, angles: _Angles = "exact"
    ) -> Rope: ...
    @staticmethod
    def from_json(config: str, layer_type: str | None = None) -> Rope: ...
    @staticmethod
    def layers_from_hf(
        config: Any, *, pairing: _Pairing | None = None, angles: _Angles = "exact"
    ) -> dict[str | None, Rope | None]: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def rotary_dim(self) -> int: ...
    @property
    def rotary_offset(self) -> int: ...
    @property
    def pairs(self) -> int: ...
    @property
    def pairing(self) -> str: ...
    @property
    def base(self) -> float: ...
    @property
    def rule(self) -> str: ...
    @property
    def axes(self) -> int: ...
    @property
    def attention_factor(self) -> float: ...
    def inv_freq(self, sequence_length: int | None = None) -> numpy.ndarray: ...
    @overload
    def tables(
        self,
        positions: Any,
        *,
        sequence_length: int | None = None,
        dtype: Literal["f32", "f64"] = "f32",
        to: Literal["numpy"] = "numpy",
    ) -> tuple[numpy.ndarray, numpy.ndarray]: ...
    @overload
    def tables(
        self,
        positions: Any,
        *,
        sequence_length: int | None = None,
        dtype: Literal["f32", "f64"] = "f32",
        to: Literal["torch"],
    ) -> tuple[Any, Any]: ...
    def rerotation(
        self,
        from_positions: Any,
        to_positions: Any,
        target: Rope | None = None,
        *,
        sequence_length: int | None = None,
        target_length: int | None = None,
    ) -> tuple[numpy.ndarray, numpy.ndarray]: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...
    def __copy__(self) -> Rope: ...
    def __deepcopy__(self, _memo: Any) -> Rope: ...

def projection_order(
    heads: int, head_dim: int, rotary_dim: int, rotary_offset: int, from_pairing: str, to_pairing: str
) -> list[int]: ...
def inspection(
    config: Any, context: int | None = None, pairing: str | None = None, allow_unknown: Sequence[str] = ...
) -> tuple[str, str]: ...
def advice(
    config: Any, context: int, pairing: str | None = None, allow_unknown: Sequence[str] = ...
) -> str: ...
def plot(
    figure: str,
    config: Any,
    layer_type: str | None,
    dim: int,
    base: float,
    context: int | None,
    trained: int | None,
    name: str,
    width: int | None,
    dark: bool,
) -> bytes: ...

_Progress = Callable[[int, int], Any] | None

@final
class Pipeline:
    def __new__(
        cls,
        model: str,
        device: str,
        dtype: str,
        revision: str | None,
        max_tokens: int | None,
        progress: Callable[[str, int, int | None], Any] | None,
    ) -> Pipeline: ...
    def dimensions(self, vectors: dict[str, object]) -> int: ...
    def warning(self) -> str | None: ...
    def embed(self, texts: list[str], vectors: dict[str, object], progress: _Progress) -> numpy.ndarray: ...
    def similarity(
        self, pairs: list[tuple[str, str]], vectors: dict[str, object], progress: _Progress
    ) -> list[float]: ...
    def rank(
        self, query: str, texts: list[str], vectors: dict[str, object], progress: _Progress
    ) -> list[tuple[int, float]]: ...
    def fill_mask(
        self, texts: list[str], top_k: int, progress: _Progress
    ) -> list[list[tuple[str, int, float, str]]]: ...
    def labels_tokens(self) -> bool: ...
    def classify(
        self, texts: list[str] | list[tuple[str, str]], progress: _Progress
    ) -> list[list[tuple[str, float]]]: ...
    def classify_tokens(
        self, texts: list[str], progress: _Progress
    ) -> list[list[tuple[str, float, int, int]]]: ...
    def answer(
        self, questions: list[tuple[str, str]], progress: _Progress
    ) -> list[tuple[str, float, int, int]]: ...
    def generate(self, text: str, how: dict[str, object]) -> Stream: ...
    def paraphrase(self, text: str, count: int, how: dict[str, object]) -> list[tuple[str, float]]: ...

@final
class Stream(Iterator[str]):
    def __iter__(self) -> Stream: ...
    def __next__(self) -> str: ...
    def all(self) -> str: ...

def train(flags: list[str], progress: Callable[[dict[str, Any]], Any] | None) -> str: ...
def compare(flags: list[str], progress: Callable[[float, int, int], Any] | None) -> str: ...
def command(arguments: list[str]) -> int: ...
def conformance_cases(tags: list[str] = ..., config: object | None = None) -> tuple[str, bytes, bytes]: ...
def conformance_judge(cases: str, answers: bytes, title: str) -> tuple[str, str, str]: ...
