"""Rows of a table."""

from __future__ import annotations

from typing import Any


class Table(list[dict[str, Any]]):
    """A list of dicts, one for each row.

    >>> table = Table([{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.25}])
    >>> table.column("loss")
    [2.5, 1.25]
    >>> print(table)
    step  loss
    1     2.5
    2     1.25
    """

    def column(self, name: str) -> list[Any]:
        """The values of a column; None where a row has none."""
        return [row.get(name) for row in self]

    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(name for row in self for name in row))

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` of it."""
        import pandas  # type: ignore[import-untyped,unused-ignore]

        return pandas.DataFrame(list(self), columns=self.columns())

    def __str__(self) -> str:
        names = self.columns()
        cells = [names, *([_cell(row.get(name)) for name in names] for row in self)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(names))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        names = self.columns()
        head = "".join(f"<th>{_escaped(name)}</th>" for name in names)
        rows = ("".join(f"<td>{_escaped(_cell(row.get(name)))}</td>" for name in names) for row in self)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
