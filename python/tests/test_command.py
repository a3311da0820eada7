"""`python -m rotary` is the command line, with its exit codes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import rotary


def test_it_prints_and_returns_as_the_command_does(command, tmp_path):
    shown = command("--version")
    assert (shown.returncode, shown.stdout) == (0, f"roformer {rotary.__version__}\n")
    assert "Usage: roformer" in command("--help").stdout
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8}')
    assert command("inspect", tmp_path).stdout.startswith("model type   llama")
    refused = command("inspect", tmp_path / "nowhere.json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("roformer: ") and len(refused.stderr.splitlines()) == 1
    assert command("juggle").returncode == 2
    assert command("generate", "--model", tmp_path, "x").returncode == 2


def test_it_is_a_script(tmp_path):
    for name in ("rotary", "roformer"):
        script = Path(sys.executable).with_name(name)
        done = subprocess.run([script, "--version"], capture_output=True, text=True)
        assert done.stdout == f"roformer {rotary.__version__}\n"


def test_ctrl_c_ends_it_or_is_caught(tmp_path, text, small):
    words = [sys.executable, "-m", "rotary", "train", "--data", text, "--out", tmp_path / "run", "--steps", "1000000"]
    words += [word for name, value in small.items() for word in (f"--{name}", str(value))]
    for stop, code in ((signal.SIGINT, 130),):
        running = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
        running.stderr.readline()
        time.sleep(0.5)
        os.kill(running.pid, stop)
        _, error = running.communicate(timeout=60)
        assert running.returncode == code and "--resume" in error
    # A command that has nothing to save is ended by the signal itself.
    running = subprocess.Popen([sys.executable, "-m", "rotary", "inspect", "-"], stdin=subprocess.PIPE)
    time.sleep(1)
    os.kill(running.pid, signal.SIGINT)
    assert running.wait(timeout=60) == -signal.SIGINT
