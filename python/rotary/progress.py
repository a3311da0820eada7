"""How far work has come: for a callback, or for a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable


class Line:
    """One line on stderr that is written again as work goes on."""

    def __init__(self) -> None:
        self._last = 0.0

    def show(self, text: str, is_last: bool = False) -> None:
        now = time.monotonic()
        # Faster than anyone reads is slower for everyone.
        if is_last or now - self._last > 0.1:
            self._last = now
            print(f"\r{text}\x1b[K", end="\n" if is_last else "", file=sys.stderr, flush=True)


def texts(progress: bool | Callable[[int, int], None]) -> Callable[[int, int], None] | None:
    """What is called with how many texts are done, and how many there are."""
    if progress is not True:
        return progress or None
    line = Line()
    return lambda done, total: line.show(f"{done} of {total} texts", done == total)


def files(progress: bool | Callable[..., None]) -> Callable[[str, int, int | None], None] | None:
    """What is called with a file's name, its bytes that are here, and all of its bytes where they are known."""
    if progress is not True:
        return progress or None
    line = Line()

    def show(file: str, done: int, total: int | None) -> None:
        of = f" of {total / 1e6:.1f}" if total else ""
        line.show(f"downloading {file}: {done / 1e6:.1f}{of} MB", done == total)

    return show
