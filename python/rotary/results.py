"""What models give, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guess:
    """A token that may stand behind a mask."""

    token: str
    """The token, as the vocabulary has it."""
    id: int
    """Its number in the vocabulary."""
    score: float
    """Its probability."""
    text: str
    """The text with the token in place of the mask."""


@dataclass(frozen=True, slots=True)
class Label:
    """A label of a text."""

    label: str
    """The name that the model's configuration gives it."""
    score: float
    """Its probability; the model's number itself for a regression."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text, with its likeliest label."""

    text: str
    """The part of the text."""
    label: str
    """The name that the model's configuration gives the label."""
    score: float
    """Its probability."""
    start: int
    """Where it begins in the text, in characters."""
    end: int
    """Where it ends."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A text and how near it is to a query."""

    index: int
    """Which of the texts."""
    score: float
    """The similarity with the query, or what a cross-encoder says of the two."""
    text: str
    """The text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The part of a context that answers a question."""

    answer: str
    """The answer."""
    score: float
    """The probability of its start times that of its end."""
    start: int
    """Where it begins in the context, in characters."""
    end: int
    """Where it ends."""


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """Another text that says the same."""

    text: str
    """The text."""
    score: float
    """How near it is to the original."""
