"""The kit in tests of pytest: the fixture `rope_case` is one case and one type at a time.

    import pytest

    @pytest.mark.rope_conformance(tags=["default", "half"], dtypes=["f32", "bf16"])
    def test_rope(rope_case):
        rope_case.check(my_rope)          # (config, positions, q, k) -> (q, k)

Each case is a test of its own, and at the end the summary says in a few lines what is wrong with all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

_MARK = "rope_conformance"


class RopeCase:
    """One case in one type."""

    def __init__(self, case: Any, dtype: str, answers: dict[str, dict[str, Any]]) -> None:
        self.case, self.dtype, self._answers = case, dtype, answers

    def check(self, rope: Callable[..., Any], arrays: str = "torch") -> None:
        """Fails the test if the function is wrong, with the name of the mistake; skips it if it does not do such a case."""
        from .. import _rotary
        from . import Report
        from ._tensors import pack

        answer = self.case.ask(rope, self.dtype, arrays)
        if answer is None:
            pytest.skip("not answered")
        tensors = {f"{self.case.name}.{self.dtype}.{side}": tensor for side, tensor in zip("qk", answer)}
        name = getattr(rope, "__qualname__", type(rope).__name__)
        self._answers.setdefault(name, {}).update(tensors)
        text = self.case.file([self.case.name])
        report = Report(*_rotary.conformance_judge(text, pack(tensors), name))
        if not report.ok:
            pytest.fail(str(report), pytrace=False)


def pytest_configure(config: Any) -> None:
    words = "rope_conformance(tags=..., dtypes=..., config=...): which cases the fixture rope_case is"
    config.addinivalue_line("markers", words)
    config._rope_answers = {}


def pytest_generate_tests(metafunc: Any) -> None:
    if "rope_case" not in metafunc.fixturenames:
        return
    from . import DTYPES, cases

    mark = metafunc.definition.get_closest_marker(_MARK)
    chosen = {"tags": (), "config": None, "dtypes": DTYPES} | (mark.kwargs if mark else {})
    asked = [(case, dtype) for case in cases(chosen["tags"], chosen["config"]) for dtype in chosen["dtypes"]]
    metafunc.parametrize("rope_case", asked, indirect=True, ids=[f"{case.name}-{dtype}" for case, dtype in asked])


@pytest.fixture
def rope_case(request: Any) -> RopeCase:
    """A case of the conformance kit in one type, see `rotary.conformance.plugin`."""
    return RopeCase(*request.param, request.config._rope_answers)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    from .. import _rotary
    from . import Report, cases
    from ._tensors import pack

    for name, answers in config._rope_answers.items():
        # Cases of somebody's own configuration have said what is wrong with them.
        known = cases()
        chosen = [case.name for case in known if any(key.startswith(f"{case.name}.") for key in answers)]
        if not chosen:
            continue
        mine = {key: value for key, value in answers.items() if key.rsplit(".", 2)[0] in chosen}
        report = Report(*_rotary.conformance_judge(known[0].file(chosen), pack(mine), name))
        if not report.ok:
            terminalreporter.section(f"rotary embedding: {name}")
            terminalreporter.line(str(report).split("\n\n", 1)[-1].rstrip())
