"""Daft: corpora over its workers. Needs `pip install daft pyarrow`.

`embed` gives a frame its columns of vectors and errors; `embed_parquet` is Parquet to Parquet, goes on where it stopped, and gives
the bytes of one process.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from . import corpus
from ._rotary import RotaryError

if TYPE_CHECKING:
    from daft import DataFrame, Series

TRIES = 4
"""How often pieces are asked for: Daft ends when a process of its workers is lost, and what is done stays done."""


def embed(frame: DataFrame, model: str | os.PathLike[str], *, workers: int = 1, **settings: Any) -> DataFrame:
    """The frame with the columns `vector` and `error` behind its own, by so many workers. The keywords are the fields of
    `rotary.corpus.Settings`."""
    daft = _daft()
    corpus.at_least_one("workers", workers)
    chosen = corpus.Settings(os.fspath(model), **settings)
    corpus.check(chosen, frame.column_names)
    kind = daft.DataType
    pair = kind.struct({"vector": kind.list(kind.float32()), "error": kind.string()})

    @daft.cls(max_concurrency=workers)
    class Embed:
        @daft.method.batch(return_dtype=pair)
        def rows(self, texts: Series) -> list[dict[str, Any]]:
            vectors, errors = corpus.embedder(chosen).rows(texts.to_pylist())
            return [{"vector": vector, "error": error} for vector, error in zip(vectors, errors)]

    made = "__rotary"
    found = frame.with_column(made, Embed().rows(daft.col(chosen.column)))
    added = {chosen.vectors: daft.col(made)["vector"], chosen.errors: daft.col(made)["error"]}
    return found.with_columns(added).exclude(made)


def embed_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    workers: int = 2,
    rows: int = corpus.PIECE,
    **settings: Any,
) -> corpus.Report:
    """Embeds a corpus with so many processes. Paths must mean the same on all machines. When a process is lost, the pieces that are
    left are asked for again, a few times; a call that was broken off goes on where it stopped."""
    daft = _daft()
    corpus.at_least_one("workers", workers)
    chosen = corpus.Settings(os.fspath(model), **settings)
    pieces, left = corpus.plan(source, out, chosen, rows)
    kind = daft.DataType

    @daft.cls(max_concurrency=workers, use_process=True)
    class Pieces:
        @daft.method.batch(return_dtype=kind.int64(), batch_size=1)
        def rows(self, listed: Series) -> list[int]:
            return [corpus.embedder(chosen).piece(corpus.Piece(**json.loads(piece))) for piece in listed.to_pylist()]

    undone = left
    for turn in range(TRIES):
        if not undone:
            break
        frame = daft.from_pydict({"piece": [json.dumps(asdict(piece)) for piece in undone]})
        try:
            frame.select(Pieces().rows(daft.col("piece")).alias("rows")).collect()
        except Exception:
            before, undone = undone, [piece for piece in undone if not os.path.exists(piece.out)]
            # What fails without having done anything fails again.
            if turn + 1 == TRIES or len(undone) == len(before):
                raise
        else:
            break
    return corpus.finish(pieces, left, out)


def _daft() -> Any:
    try:
        import daft
    except ImportError:
        raise RotaryError("daft is not installed; expected it: pip install daft pyarrow") from None
    return daft
