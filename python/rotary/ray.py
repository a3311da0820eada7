"""Ray: corpora over its workers, and comparisons over its machines. Needs `pip install "ray[data]" pyarrow`.

`Embed` is a class for `map_batches` of any dataset; `embed_parquet` is Parquet to Parquet, goes on where it stopped, and gives the
bytes of one process; `compare` makes the shards of a comparison as tasks.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import corpus
from ._rotary import RotaryError
from .comparison import Comparison
from .comparison import compare as _compare
from .flags import flags

if TYPE_CHECKING:
    import pyarrow

LOSSES = 4
"""How many times a piece is tried again when its actor is lost: what ends them all is the piece."""


class Embed:
    """The vectors of a batch: for `map_batches` with `batch_format="pyarrow"`.

    dataset.map_batches(
        rotary.ray.Embed, fn_constructor_kwargs={"model": "..."}, batch_format="pyarrow", concurrency=2)

    Columns are kept; `vector` and `error` come behind them. The keywords are the fields of `rotary.corpus.Settings`.
    """

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self._embedder = corpus.Embedder(corpus.Settings(os.fspath(model), **settings))

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        return self._embedder.table(batch)


class _Worker:
    """An actor that does pieces."""

    def __init__(self, settings: corpus.Settings) -> None:
        self._settings = settings

    def ready(self) -> None:
        corpus.embedder(self._settings)

    def piece(self, piece: corpus.Piece) -> int:
        return corpus.embedder(self._settings).piece(piece)


def embed_parquet(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    model: str | os.PathLike[str],
    *,
    workers: int = 2,
    rows: int = corpus.PIECE,
    **settings: Any,
) -> corpus.Report:
    """Embeds a corpus with so many workers. Paths must mean the same on all machines. Ray starts a worker that is lost
    again, with the piece that it had; a call that was broken off goes on where it stopped."""
    ray = _ray()
    corpus.at_least_one("workers", workers)
    chosen = corpus.Settings(os.fspath(model), **settings)
    pieces, left = corpus.plan(source, out, chosen, rows)
    if left:
        # Actors, and no dataset: nothing goes through Ray but the places of pieces, and its workers need not import what datasets do.
        kind = ray.remote(num_cpus=chosen.threads, max_restarts=-1, max_task_retries=LOSSES)(_Worker)
        actors = [kind.remote(chosen) for _ in range(min(workers, len(left)))]
        try:
            _hand_out(ray, actors, left)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
    return corpus.finish(pieces, left, out)


def _hand_out(ray: Any, actors: list[Any], left: list[corpus.Piece]) -> None:
    """Gives each actor a piece at a time, from when it has begun: one that no machine has room for yet holds nobody up."""
    # The last of a list is the cheapest to take.
    undone, waiting = left[::-1], {actor.ready.remote(): (actor, False) for actor in actors}
    done = 0
    while done < len(left):
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        actor, was_piece = waiting.pop(ready)
        ray.get(ready)
        done += was_piece
        if undone:
            waiting[actor.piece.remote(undone.pop())] = actor, True


def compare(
    encodings: Sequence[str] = (),
    tasks: Sequence[str] = (),
    *,
    shards: int,
    out: str | os.PathLike[str] = "comparison",
    cpus: int = 1,
    **settings: Any,
) -> Comparison:
    """`rotary.compare` in so many shards, each a task of Ray with so many CPUs; then they are put together to the bytes of one
    machine. The other settings are those of `rotary.compare`, except `device`: shards are made on CPUs.

    The shards' folders are kept beside `out`, as `out-shards`: a call that was broken off makes only those that are missing.
    """
    ray = _ray()
    corpus.at_least_one("shards", shards)
    for name in "device", "threads", "progress":
        if name in settings:
            raise TypeError(f"{name} is given; expected none: shards run on CPUs, with `cpus` threads")
    folder = Path(out)
    parts = folder.with_name(folder.name + "-shards")
    given = flags({"encodings": list(encodings), "tasks": list(tasks), **settings, "device": "cpu"})
    task = ray.remote(num_cpus=cpus, max_retries=5)(_shard)
    numbers = [number for number in range(1, shards + 1) if not (parts / f"{number}-of-{shards}").exists()]
    waiting = {task.remote(given, number, shards, cpus): number for number in numbers}
    while waiting:
        ready, _ = ray.wait(list(waiting), num_returns=1)
        number = waiting.pop(ready[0])
        _keep(parts / f"{number}-of-{shards}", ray.get(ready[0]))
    merge = [str(parts / f"{number}-of-{shards}") for number in range(1, shards + 1)]
    return _compare(encodings, tasks, out=out, device="cpu", merge=merge, **settings)


def _shard(given: list[str], number: int, shards: int, cpus: int) -> dict[str, bytes]:
    """Makes a shard on whatever machine this is. Gives its files."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "shard"
        words = [f"--shard={number}/{shards}", f"--out={out}", f"--threads={cpus}"]
        done = subprocess.run([sys.executable, "-m", "rotary", "compare", *given, *words], capture_output=True, text=True)
        if done.returncode:
            raise RotaryError(f"shard {number}/{shards}: {done.stderr.strip().splitlines()[-1]}")
        files = (path for path in out.rglob("*") if path.is_file())
        return {str(path.relative_to(out)): path.read_bytes() for path in files}


def _keep(folder: Path, files: dict[str, bytes]) -> None:
    """Writes a shard's folder, which has its name when it is whole."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    for name, content in files.items():
        path = partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    os.rename(partial, folder)


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise RotaryError('ray is not installed; expected it: pip install "ray[data]" pyarrow') from None
    return ray
