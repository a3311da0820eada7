"""The examples of rotary.torch's documentation, run."""

import doctest
import importlib
import pathlib
import re

import pytest

pytest.importorskip("torch")


@pytest.mark.parametrize("name", ["_rotate", "_embedding"])
def test_docstrings(name):
    module = importlib.import_module(f"rotary.torch.{name}")
    failed, tried = doctest.testmod(
        module, optionflags=doctest.ELLIPSIS, extraglobs={"RotaryEmbedding": getattr(module, "RotaryEmbedding", None)}
    )
    assert tried and not failed


@pytest.mark.parametrize("section, needs", [("Is my own rotary embedding right?", "torch"), ("PyTorch", "torch"), ("Drop-ins", "transformers")])
def test_readme(section, needs):
    pytest.importorskip(needs)
    text = (pathlib.Path(__file__).parent.parent / "README.md").read_text()
    found = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", found[1], re.MULTILINE | re.DOTALL))
    test = doctest.DocTestParser().get_doctest(code, {}, section, "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert test.examples and not runner.failures
