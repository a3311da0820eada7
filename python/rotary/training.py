"""Training: `roformer train` from Python."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from . import _rotary
from .flags import flags
from .progress import Line
from .table import Table

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


@dataclass(frozen=True)
class Trained:
    """What came of a run."""

    folder: Path
    """The folder of the run; `resume=True` goes on there if steps are left."""
    model: Path
    """The folder of the best model, or of the last where nothing was evaluated: for `Pipeline`, and for transformers."""
    steps: int
    """Steps in all."""
    seconds: float
    """Seconds of training, those before a break included."""
    parameters: int
    """Numbers that were trained."""
    best: dict[str, Any] | None
    """The best evaluation: its step and loss."""
    last: dict[str, Any] | None
    """The last evaluation."""
    ended_early: bool
    """Whether it ended because evaluations got no better."""

    @property
    def metrics(self) -> Table:
        """A row for every tenth step and every evaluation."""
        lines = (self.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return Table(json.loads(line) for line in lines)


def train(
    out: str | os.PathLike[str],
    data: Paths | None = None,
    *,
    resume: bool = False,
    eval_data: Paths | None = None,
    from_: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    tokenizer: str | os.PathLike[str] | None = None,
    vocab_size: int | None = None,
    device: str = "auto",
    dtype: str | None = None,
    threads: int | None = None,
    plot: bool = False,
    progress: bool | Callable[[dict[str, Any]], Any] = False,
    **settings: Any,
) -> Trained:
    """Trains a model on text, as `roformer train` does: the names are those of its flags, and so are the defaults.

    `data` are files and folders of text or JSON Lines. `settings` are `task` (causal, masked, classification, similarity or sequences),
    `steps`, `layers`, `width`, `heads`, `block`, `batch`, `lr`, `seed` and all others of `python -m rotary train --help`, with
    `_` for `-`; `from_` is `--from`. `progress` is True for a line on stderr, or a function that is called with a dict after
    every step and evaluation.

    A run can be stopped with Ctrl-C at any moment: it is saved, and `train(out, resume=True)` goes on to the same bits.

    >>> import tempfile, pathlib, rotary
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "text.txt").write_text("the cat sat on the mat. " * 50)
    >>> run = rotary.train(folder / "run", folder / "text.txt", steps=20, layers=1, width=32, heads=2, block=16, device="cpu")
    >>> run.steps, run.model.name, run.metrics[0]["step"]
    (20, 'best', 1)
    >>> len(rotary.Pipeline(run.model, device="cpu").generate("the", max_tokens=8)) > 0
    True
    """
    given = {
        "out": out,
        "data": data,
        "resume": resume,
        "eval_data": eval_data,
        "from_": from_,
        "config": config,
        "tokenizer": tokenizer,
        "vocab_size": vocab_size,
        "device": device,
        "dtype": dtype,
        "threads": threads,
        "plot": plot,
        **settings,
    }
    told = _shown() if progress is True else progress or None
    ended = json.loads(_rotary.train(flags(given), told))
    if warning := ended.pop("warning"):
        warnings.warn(warning, RuntimeWarning, stacklevel=2)
    folder = Path(ended.pop("folder"))
    model = folder / ("best" if ended["best"] else "last")
    return Trained(folder=folder, model=model, **ended)


def _shown() -> Callable[[dict[str, Any]], None]:
    line = Line()

    def show(event: dict[str, Any]) -> None:
        if "validation_loss" in event:
            best = ", the best so far" if event["is_best"] else ""
            line.show(f"step {event['step']}: validation loss {event['validation_loss']:.4f}{best}", True)
        else:
            line.show(f"step {event['step']}: loss {event['loss']:.4f}, {event['tokens_s']:.0f} tokens/s")

    return show
