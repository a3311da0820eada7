"""The models that tests run, and the command that they are compared with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# No test asks the hub, and all run on the CPU unless a GPU is named, whatever the machine has.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.fixture(scope="session")
def sentences():
    """Folders of sentence-transformers with small models."""
    return GOLDEN / "sentence-transformers"


@pytest.fixture(scope="session")
def command():
    """Runs the command line. Gives what it printed, and its exit code."""

    def run(*arguments, **options):
        words = [sys.executable, "-m", "rotary", *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=300, **options)

    return run


@pytest.fixture(scope="session")
def objects(command):
    """Runs a command with --json. Gives the objects that it printed."""

    def run(*arguments):
        done = command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


WORDS = "the a cat dog bird sat ran slept on under near mat tree house red blue old young".split()


def sentence(number):
    """A sentence that is made up; the same for the same number."""
    pick = [(number * 7 + place * (3 + number % 5)) % len(WORDS) for place in range(6)]
    return " ".join(WORDS[place] for place in pick)


SMALL = {"layers": 1, "width": 32, "heads": 2, "block": 16, "batch": 4, "device": "cpu"}


@pytest.fixture(scope="session")
def small():
    """Settings of a network small enough to be trained in a test."""
    return dict(SMALL)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A file of text that is made up."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(sentence(number) for number in range(300)))
    return path


@pytest.fixture(scope="session")
def models(tmp_path_factory, text):
    """Models of each task, trained for a moment: causal, masked, classification."""
    import rotary

    folder = tmp_path_factory.mktemp("models")
    labelled = folder / "labelled.jsonl"
    rows = [{"text": sentence(number), "label": ["good", "bad"][number % 2]} for number in range(60)]
    labelled.write_text("\n".join(json.dumps(row) for row in rows))
    options = {"steps": 12, "warmup": 2, "tokenizer": "wordpiece", "vocab_size": 60, **SMALL}
    return {
        task: rotary.train(folder / task, data, task=task, **options).model
        for task, data in (("causal", text), ("masked", text), ("classification", labelled))
    }


@pytest.fixture(scope="session")
def examples():
    """Small models of every kind."""
    return GOLDEN.parent / "examples" / "models"
