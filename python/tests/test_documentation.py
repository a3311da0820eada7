"""The examples in what is documented, run."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import rotary

# Others have tests of their own, because what they need may not be there.
MODULES = [module.name for module in pkgutil.iter_modules(rotary.__path__) if "torch" not in module.name]


@pytest.mark.parametrize("name", [name for name in MODULES if name not in ("__main__", "_rotary", "compat")])
def test_examples_of_modules(name):
    failed, _ = doctest.testmod(importlib.import_module(f"rotary.{name}"))
    assert failed == 0


def test_examples_of_the_package_and_its_compiled_part():
    examples, runner = 0, doctest.DocTestRunner()
    documented = [rotary, rotary.Rope, *vars(rotary.Rope).values()]
    for item in documented:
        text = getattr(item, "__doc__", None) or getattr(getattr(item, "__func__", None), "__doc__", None)
        if text:
            name = getattr(item, "__name__", "?")
            test = doctest.DocTestParser().get_doctest(text, {"rotary": rotary}, name, None, 0)
            examples += len(test.examples)
            runner.run(test)
    assert examples > 8 and runner.failures == 0


README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize("title", ["What a configuration means", "Models on texts", "Corpora", "Train and compare"])
def test_examples_of_the_readme(title, monkeypatch):
    section = README.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    # A fence is no output.
    text = "\n".join(line for line in section.splitlines() if not line.startswith("```"))
    monkeypatch.chdir(README.parents[1])
    test = doctest.DocTestParser().get_doctest(text, {"rotary": rotary}, title, str(README), 0)
    assert test.examples and doctest.DocTestRunner().run(test).failed == 0
