"""One case: a configuration, positions, q and k, and a function that is asked what becomes of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._tensors import unpack


@dataclass(frozen=True)
class Case:
    """A question: this model, these positions; how are q and k turned?"""

    name: str
    tags: list[str]
    isolates: str
    """What goes wrong here and not elsewhere."""
    config: dict[str, Any]
    layer_type: str | None
    positions: list[list[int]]
    """A row for each axis."""
    before: int | None
    """A sequence of this length goes through first, and is to leave no trace."""
    calls: list[int] | None
    """The tokens come in so many calls, and keys count as the cache has them at the end: no function is asked that."""
    resolved: dict[str, Any]
    """What the configuration comes to: frequencies, pairing, attention factor."""
    _lines: dict[str, str]
    _inputs: dict[str, tuple[str, list[int], bytes]]

    def __repr__(self) -> str:
        return f"<case {self.name}: {self.isolates}>"

    def file(self, names: list[str]) -> str:
        """The text of a cases.json with these cases."""
        return self._lines[""] + ",".join(self._lines[name] for name in names) + "]}"

    def inputs(self, dtype: str = "f32", arrays: str = "torch") -> tuple[Any, Any]:
        """q and k before they are turned. They are exact in every type."""
        q, k = (self._array(side, dtype, arrays) for side in "qk")
        return q, k

    def _array(self, side: str, dtype: str, arrays: str) -> Any:
        import numpy

        _, shape, data = self._inputs[f"{self.name}.{side}"]
        values = numpy.frombuffer(data, dtype="<f4").reshape(shape).copy()
        if arrays == "numpy":
            return values.astype({"f64": "float64", "f32": "float32", "f16": "float16"}[dtype])
        import torch

        kinds = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        return torch.from_numpy(values).to(kinds[dtype])

    def ask(self, rope: Callable[..., Any], dtype: str = "f32", arrays: str = "torch") -> tuple[Any, Any] | None:
        """What a function makes of q and k; None if it says that it does not do such a case."""
        if self.calls is not None:
            return None
        try:
            if self.before is not None:
                last = [[self.before - 1] for _ in self.positions]
                q, k = (x[:, :, :1] for x in self.inputs(dtype, arrays))
                self._call(rope, last, q, k, arrays)
            return self._call(rope, self.positions, *self.inputs(dtype, arrays), arrays)
        except NotImplementedError:
            return None

    def _call(self, rope: Callable[..., Any], positions: list[list[int]], q: Any, k: Any, arrays: str) -> Any:
        import numpy

        ids: Any = numpy.array(positions if len(positions) > 1 else positions[0], dtype=numpy.int64)
        if arrays == "torch":
            import torch

            ids = torch.from_numpy(ids)
        config = copy.deepcopy(self.config)
        more = {} if self.layer_type is None else {"layer_type": self.layer_type}
        answer = rope(config, ids, q, k, **more)
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise TypeError(f"the function returned {type(answer).__name__}; expected the two of q and k")
        return tuple(answer)


def read(text: str, inputs: bytes, _expected: bytes) -> list[Case]:
    """The cases of a folder's files."""
    file, tensors = json.loads(text), unpack(inputs)
    lines = {case["name"]: json.dumps(case) for case in file["cases"]}
    lines[""] = json.dumps({"format": file["format"], "version": file["version"]})[:-1] + ', "cases": ['
    return [
        Case(
            name=case["name"],
            tags=case["tags"],
            isolates=case["isolates"],
            config=case["config"],
            layer_type=case.get("layer_type"),
            positions=case["positions"],
            before=case.get("before"),
            calls=case.get("calls"),
            resolved=case["rope"],
            _lines=lines,
            _inputs=tensors,
        )
        for case in file["cases"]
    ]
