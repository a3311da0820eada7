"""What the judge found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Report:
    """Every verdict, and what is wrong. Prints as lines of text."""

    def __init__(self, data: str, text: str, page: str) -> None:
        self.data: dict[str, Any] = json.loads(data)
        """All of it, as `roformer conform judge --json` prints it."""
        self._text, self._page = text, page

    @property
    def ok(self) -> bool:
        """Whether nothing that was answered is wrong, and something was answered."""
        return self.data["ok"]

    @property
    def mistakes(self) -> list[str]:
        """What is wrong, the largest part first: the names of mistakes, `a or b` where the answers cannot tell them apart."""
        found = [finding["explanations"] for finding in self.data["findings"]]
        return [" or ".join(" + ".join(names) for names in either) for either in found if either]

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<report: {self.data['right']} right, {self.data['wrong']} wrong, {self.data['missing']} not answered>"

    def _repr_html_(self) -> str:
        return self._page

    def page(self, path: str | os.PathLike[str]) -> None:
        """Writes it as one page."""
        Path(path).write_text(self._page, encoding="utf-8")

    def check(self) -> None:
        """Raises AssertionError with the report if anything is wrong, or nothing was answered."""
        if not self.ok:
            raise AssertionError(f"not right\n{self._text}")
