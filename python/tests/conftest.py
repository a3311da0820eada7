"""The models that tests run, and the command that they are compared with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
