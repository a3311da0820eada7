"""Comparisons of position encodings: `roformer compare` from Python."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _rotary
from .flags import flags
from .progress import Line
from .table import Table


@dataclass(frozen=True)
class Comparison:
    """What a comparison found."""

    runs: Table
    """A row for every run: task, encoding, seed, rate, and the mean of what it reached in range and beyond."""
    verdicts: Table
    """A row for every encoding, task and measure against the first encoding: the verdict, the mean difference and its
    interval of 95 %, the size of the effect, the p-value after Holm's correction, the seeds."""
    left_out: list[dict[str, str]]
    """Encodings that the attention could not carry, and why."""
    folder: Path
    """The folder with report.html and results.json."""

    @property
    def report(self) -> Path:
        """The report: one page that needs nothing else."""
        return self.folder / "report.html"

    def to_pandas(self) -> Any:
        """The runs as a `pandas.DataFrame`."""
        return self.runs.to_pandas()


def compare(
    encodings: Sequence[str] = (),
    tasks: Sequence[str] = (),
    *,
    out: str | os.PathLike[str] = "comparison",
    seeds: int | None = None,
    budget: int | None = None,
    preset: str = "quick",
    train_length: int | None = None,
    test_lengths: Sequence[int] = (),
    steps: int | None = None,
    size: str | None = None,
    attention: str = "softmax",
    features: str = "elu",
    sweep: bool = False,
    data: str | os.PathLike[str] | None = None,
    merge: Sequence[str | os.PathLike[str]] = (),
    overwrite: bool = False,
    threads: int | None = None,
    device: str = "auto",
    dtype: str | None = None,
    progress: bool | Callable[[float, int, int], Any] = False,
) -> Comparison:
    """Compares position encodings: the same small Transformer trained with each, over several seeds, as `roformer compare` does.
    The names are those of its flags, and so are the defaults. The first encoding is compared with each of the others.

    Seeds are added where a comparison is undecided, to the work of `budget` of each; `seeds` is a number of each in place of that.
    `merge` are the folders of all shards of the comparison, which are put together in place of runs.
    `progress` is True for a line on stderr, or a function of the part that is done, the runs that are, and all runs. After
    Ctrl-C the same call goes on where it stopped.
    """
    for name, listed in ("encodings", encodings), ("tasks", tasks):
        if isinstance(listed, str):
            raise TypeError(f"{name} is a str; expected a list of them")
    given = {
        "encodings": list(encodings),
        "tasks": list(tasks),
        "out": out,
        "seeds": seeds,
        "budget": budget,
        "preset": preset,
        "train_length": train_length,
        "test_lengths": list(test_lengths),
        "steps": steps,
        "size": size,
        "attention": attention,
        "features": features,
        "sweep": sweep,
        "data": data,
        "merge": list(merge),
        "overwrite": overwrite,
        "threads": threads,
        "device": device,
        "dtype": dtype,
    }
    told = _shown() if progress is True else progress or None
    found = json.loads(_rotary.compare(flags(given), told))
    runs, verdicts = (_ordered(found[name], columns) for name, columns in (("runs", _RUNS), ("verdicts", _VERDICTS)))
    return Comparison(runs, verdicts, found["left_out"], Path(out))


_RUNS = ("task", "encoding", "is_again", "seed", "rate", "in_range", "beyond", "parameters")
_VERDICTS = ("task", "encoding", "is_again", "measure", "verdict", "mean", "low", "high", "effect", "p_holm", "seeds", "not_judged")


def _ordered(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> Table:
    return Table({name: row[name] for name in columns} for row in rows)


def _shown() -> Callable[[float, int, int], None]:
    line = Line()

    def show(part: float, finished: int, runs: int) -> None:
        line.show(f"{finished} of {runs} runs, {part:.0%}", finished == runs)

    return show
