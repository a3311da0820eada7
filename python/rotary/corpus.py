"""The vectors of a corpus: Parquet in, Parquet out, in pieces that any engine can hand to its workers.

A piece is a range of rows of a file. Its rows come out as one file, with all their columns, the column of vectors and a column that
says why a row has none; the file takes its name when it is whole. So a piece that is done twice is there once, a worker that is
killed leaves nothing behind, and what is done already is not done again. A text has the same vector to the bit in whatever piece
it is, so that neither the engine nor the number of workers changes a byte.

`rotary.ray`, `rotary.spark` and `rotary.daft` hand pieces to the workers of those engines; `embed_parquet` here is one process.
"""

from __future__ import annotations

import functools
import glob
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._rotary import VERSION, RotaryError
from .pipeline import Pipeline

if TYPE_CHECKING:
    import numpy
    import pyarrow

PIECE = 16384
"""Rows of a piece, where nothing else is said."""

_MANIFEST = "corpus.json"
_FAILED = b"rotary.failed"


@dataclass(frozen=True)
class Settings:
    """What decides the vectors, and where they stand."""

    model: str
    """A folder, or a name on the hub, as every worker finds it."""
    column: str = "text"
    """The column of texts."""
    vectors: str = "vector"
    """The column that vectors come to: lists of float32, or null."""
    errors: str = "error"
    """The column that says why a row has no vector; null where it has one."""
    device: str = "cpu"
    dtype: str = "f32"
    max_tokens: int | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    pooling: str | None = None
    normalize: bool = False
    dimensions: int | None = None
    threads: int = 1
    """The threads of a worker; they change no bit."""

    def __post_init__(self) -> None:
        # What is wrong whatever the model is, before any worker is started.
        for name in "max_tokens", "dimensions", "threads":
            at_least_one(name, getattr(self, name))
        if self.prompt is not None and self.prompt_name is not None:
            raise RotaryError("prompt and prompt_name are both given; expected one of them")


@dataclass(frozen=True)
class Piece:
    """Some rows of a file."""

    number: int
    file: str
    first: int
    rows: int
    out: str
    """The file that they come out as."""


@dataclass(frozen=True)
class Report:
    """What is in the folder of a corpus when all pieces are done."""

    rows: int
    failed: int
    """Rows without a vector, each with its reason in the column of errors."""
    pieces: int
    kept: int
    """Pieces that were there already, and were not done again."""
    folder: Path


class Embedder:
    """A model that gives tables a column of vectors. Made once by each worker."""

    def __init__(self, settings: Settings) -> None:
        # Read when the first model is made. Engines start as many workers as there are cores.
        os.environ.setdefault("RAYON_NUM_THREADS", str(settings.threads))
        self.settings = settings
        self._pipeline = Pipeline(
            settings.model, device=settings.device, dtype=settings.dtype, max_tokens=settings.max_tokens
        )
        self._how = {
            "prompt": settings.prompt,
            "prompt_name": settings.prompt_name,
            "pooling": settings.pooling,
            "normalize": settings.normalize,
            "dimensions": settings.dimensions,
        }
        # What no text can be embedded with is an error here, and not one of every row.
        self._pipeline.embed([], **self._how)

    def rows(self, texts: Sequence[Any]) -> tuple[list[numpy.ndarray | None], list[str | None]]:
        """For each text its vector, or None and why."""
        vectors: list[numpy.ndarray | None] = [None] * len(texts)
        errors: list[str | None] = [
            None if isinstance(text, str) else f"the text is {'null' if text is None else type(text).__name__}; expected text"
            for text in texts
        ]
        usable = [place for place, error in enumerate(errors) if error is None]
        try:
            found: Iterable[numpy.ndarray] = self._pipeline.embed([texts[place] for place in usable], **self._how)
            for place, vector in zip(usable, found):
                vectors[place] = vector
        except RotaryError:
            # One of them cannot be read. Alone each has the bits that it has among others.
            for place in usable:
                try:
                    vectors[place] = self._pipeline.embed(texts[place], **self._how)
                except RotaryError as error:
                    errors[place] = str(error)
        return vectors, errors

    def table(self, table: pyarrow.Table) -> pyarrow.Table:
        """The table with the columns of vectors and errors behind its own."""
        arrow = _arrow()
        check(self.settings, table.column_names)
        vectors, errors = self.rows(table.column(self.settings.column).to_pylist())
        table = table.append_column(self.settings.vectors, self._lists(vectors))
        return table.append_column(self.settings.errors, arrow.array(errors, arrow.string()))

    def _lists(self, vectors: list[numpy.ndarray | None]) -> pyarrow.Array:
        import numpy

        arrow = _arrow()
        found = [vector for vector in vectors if vector is not None]
        numbers = numpy.concatenate(found) if found else numpy.zeros(0, numpy.float32)
        ends, end = [], 0
        for vector in vectors:
            ends.append(end if vector is not None else None)
            end += 0 if vector is None else len(vector)
        offsets = arrow.array([*ends, end], arrow.int32())
        return arrow.ListArray.from_arrays(offsets, arrow.array(numbers, arrow.float32()))

    def piece(self, piece: Piece) -> int:
        """Does a piece, unless it is done. Gives its rows."""
        import pyarrow.parquet as parquet

        out = Path(piece.out)
        if not out.exists():
            table = self.table(_read(piece))
            failed = len(table) - table.column(self.settings.errors).null_count
            metadata = {**(table.schema.metadata or {}), _FAILED: str(failed).encode()}
            partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
            parquet.write_table(table.replace_schema_metadata(metadata), partial)
            os.replace(partial, out)
        return piece.rows


def at_least_one(name: str, number: int | None) -> None:
    """Refuses a number that is given and is less."""
    if number is not None and number < 1:
        raise RotaryError(f"{name} is {number}; expected at least 1")


def check(settings: Settings, names: Sequence[str]) -> None:
    """Whether a table of these columns has the texts, and room for what is added."""
    if settings.column not in names:
        raise RotaryError(f"the column {settings.column!r} is not there; expected one of {', '.join(names)}")
    for name in settings.vectors, settings.errors:
        if name in names:
            raise RotaryError(f"the column {name!r} is there already; expected another name for what is added")


@functools.lru_cache(maxsize=2)
def embedder(settings: Settings) -> Embedder:
    """The model of these settings, made once in a process."""
    return Embedder(settings)


def plan(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    settings: Settings,
    rows: int = PIECE,
) -> tuple[list[Piece], list[Piece]]:
    """All pieces of a corpus, and those that are still to do. The folder is made, or is that of the same corpus and model:
    another's is refused."""
    at_least_one("rows", rows)
    files = _files(source)
    counts = [_count(file, settings) for file in files]
    folder = Path(out)
    asked = {
        "version": VERSION,
        "settings": {name: value for name, value in asdict(settings).items() if name != "threads"},
        "rows": rows,
        "files": [[os.path.abspath(file), count] for file, count in zip(files, counts)],
    }
    folder.mkdir(parents=True, exist_ok=True)
    manifest = folder / _MANIFEST
    if manifest.exists():
        _same(manifest, asked)
    else:
        partial = folder / f".{_MANIFEST}.{os.getpid()}.partial"
        partial.write_text(json.dumps(asked, indent=1))
        os.replace(partial, manifest)
    pieces: list[Piece] = []
    for file, count in zip(files, counts):
        for first in range(0, count, rows):
            name = f"part-{len(pieces):06}.parquet"
            pieces.append(
                Piece(len(pieces), os.path.abspath(file), first, min(rows, count - first), os.path.abspath(folder / name))
            )
    left = [piece for piece in pieces if not os.path.exists(piece.out)]
    return pieces, left


def finish(pieces: list[Piece], left: list[Piece], out: str | os.PathLike[str]) -> Report:
    """What came of it, from the files themselves: every row is there once, or it is an error."""
    import pyarrow.parquet as parquet

    rows = failed = 0
    for piece in pieces:
        metadata = parquet.read_metadata(piece.out)
        if metadata.num_rows != piece.rows:
            raise RotaryError(f"{piece.out} has {metadata.num_rows} rows; expected {piece.rows}: remove it and go on")
        rows += metadata.num_rows
        failed += int((metadata.metadata or {}).get(_FAILED, b"0"))
    for stale in Path(out).glob(".*.partial"):
        stale.unlink(missing_ok=True)
    return Report(rows, failed, len(pieces), len(pieces) - len(left), Path(out))


def embed_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    rows: int = PIECE,
    progress: Callable[[int, int], Any] | None = None,
    **settings: Any,
) -> Report:
    """Embeds a corpus in this process: what the engines do with many. `source` is a Parquet file, a folder or pattern of them, or
    a list; `settings` are the fields of `Settings`. Called again it goes on where it stopped."""
    chosen = Settings(os.fspath(model), **settings)
    pieces, left = plan(source, out, chosen, rows)
    for done, piece in enumerate(left):
        embedder(chosen).piece(piece)
        if progress:
            progress(done + 1, len(left))
    return finish(pieces, left, out)


def _files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    listed = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    files: list[str] = []
    for each in map(os.fspath, listed):
        if os.path.isdir(each):
            found = sorted(glob.glob(os.path.join(glob.escape(each), "*.parquet")))
        else:
            found = [each] if os.path.exists(each) else sorted(glob.glob(each))
        if not found:
            raise RotaryError(f"{each!r} has no Parquet files; expected a file, a folder of .parquet files, or a pattern")
        files.extend(found)
    return files


def _count(file: str, settings: Settings) -> int:
    """The rows of a file, whose columns are checked."""
    arrow = _arrow()
    import pyarrow.parquet as parquet

    try:
        with parquet.ParquetFile(file) as opened:
            names, rows = opened.schema_arrow.names, opened.metadata.num_rows
    except (OSError, arrow.ArrowException) as error:
        raise RotaryError(f"{file} cannot be read: {error}; expected a Parquet file") from None
    check(settings, names)
    return rows


def _same(manifest: Path, now: dict[str, Any]) -> None:
    """Whether the folder was begun for what is asked now."""
    try:
        before = json.loads(manifest.read_text())
        settings = dict(before["settings"])
    except (ValueError, TypeError, KeyError):
        raise RotaryError(f"{manifest} says nothing of a corpus; expected a folder of its own for each") from None
    folder = manifest.parent
    for name in "version", "rows", "files":
        if before.get(name) != now[name]:
            raise RotaryError(f"{folder} holds another corpus: its {name} are others; expected a folder of its own for each")
    for name, value in now["settings"].items():
        if settings.get(name) != value:
            there = settings.get(name)
            raise RotaryError(f"{folder} was begun with {name} {there!r}, now {value!r}; expected a folder of its own for each")


def _read(piece: Piece) -> pyarrow.Table:
    """The rows of a piece. Row groups that have none of them are not read."""
    arrow = _arrow()
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(piece.file) as file:
        groups, start, first = [], 0, None
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            if end > piece.first and start < piece.first + piece.rows:
                groups.append(group)
                first = start if first is None else first
            start = end
        found, place = [], first or 0
        for batch in file.iter_batches(batch_size=PIECE, row_groups=groups):
            low, high = max(piece.first - place, 0), min(piece.first + piece.rows - place, len(batch))
            if low < high:
                found.append(batch.slice(low, high - low))
            place += len(batch)
            if place >= piece.first + piece.rows:
                break
        return arrow.Table.from_batches(found, file.schema_arrow)


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise RotaryError("pyarrow is not installed; expected it for Parquet: pip install pyarrow") from None
    return pyarrow
