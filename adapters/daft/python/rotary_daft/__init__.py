"""Vectors of texts as native functions of Daft: no Python runs per batch.

    import daft, rotary_daft
    frame.with_column("vector", rotary_daft.embed(daft.col("text"), "a folder, or a name on the hub"))

Needs `daft` 0.7 or newer, and nothing of the package `rotary`, whose `Pipeline.embed` gives the same vectors to the bit.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
import weakref
from typing import Any

import daft

__all__ = ["embed", "embed_with_errors", "load"]


def embed(texts: daft.Expression, model: str | os.PathLike[str], **settings: Any) -> daft.Expression:
    """The vectors of a column of texts: lists of float32, null for a null text. A text that cannot be read ends the query.

    `model` is a folder, or a name on the hub, as every worker finds it. The settings are `dtype`, `max_tokens`, `prompt`,
    `prompt_name`, `pooling`, `normalize` and `dimensions`, as `rotary.Pipeline` and its `embed` take them. The model is read when
    the query runs, by each process once: what does not fit it is said then.
    """
    return _call("rotary_embed", texts, _settings(model, **settings))


def embed_with_errors(texts: daft.Expression, model: str | os.PathLike[str], **settings: Any) -> daft.Expression:
    """What `embed` gives, as a struct of `vector` and `error`, which says why a row has no vector: no text ends the query."""
    return _call("rotary_embed_with_errors", texts, _settings(model, **settings))


def load() -> None:
    """Loads `rotary_embed` and `rotary_embed_with_errors` into Daft's current session, where they are not there yet. `embed` does so
    itself. On Ray it is to be called before the first query of any kind: workers load what is loaded then."""
    session = daft.current_session()
    if session not in _LOADED:
        with warnings.catch_warnings():
            # That Daft may change its interface is for the author of an extension to know.
            warnings.filterwarnings("ignore", message="Native extensions are experimental")
            # It finds the library beside this file.
            session.load_extension(sys.modules[__name__])
        _LOADED.add(session)


_LOADED: weakref.WeakSet[daft.Session] = weakref.WeakSet()


def _call(name: str, texts: daft.Expression, settings: dict[str, Any]) -> daft.Expression:
    if not isinstance(texts, daft.Expression):
        raise TypeError(f'the texts are of type {type(texts).__name__}; expected an expression, such as daft.col("text")')
    load()
    return daft.get_function(name, texts, daft.lit(json.dumps(settings)))


def _settings(
    model: str | os.PathLike[str],
    *,
    dtype: str = "f32",
    max_tokens: int | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    pooling: str | None = None,
    normalize: bool = False,
    dimensions: int | None = None,
) -> dict[str, Any]:
    """What is given, under the names that the library reads. Arguments that do not exist are refused by Python itself."""
    name = os.fspath(model)
    if not isinstance(name, str):
        raise TypeError(f"the model is of type {type(name).__name__}; expected a path or a name")
    given = {
        "model": name,
        "dtype": dtype,
        "max_tokens": max_tokens,
        "prompt": prompt,
        "prompt_name": prompt_name,
        "pooling": pooling,
        "normalize": normalize,
        "dimensions": dimensions,
    }
    return {key: value for key, value in given.items() if value is not None}
