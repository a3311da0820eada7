"""Ctrl-C: heard while work that would take hours goes on, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time

import pytest

import rotary


def interrupted(program, *arguments):
    """Runs a program that prints a line and then works for long; sends Ctrl-C. Gives what it printed."""
    words = [sys.executable, "-u", "-c", program, *map(str, arguments)]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    running.stdout.readline()
    time.sleep(0.3)
    os.kill(running.pid, signal.SIGINT)
    return running.communicate(timeout=300)


CAUGHT = """
import signal, sys, time, rotary
# Whoever runs these tests in the background had it ignored, and what they start too.
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    {work}
except KeyboardInterrupt:
    print("caught")
"""


def test_embed_is_left(sentences):
    work = """pipeline = rotary.Pipeline(sys.argv[1], device="cpu")
    print("begun")
    pipeline.embed(["The weather is lovely today. " * 20] * 1_000_000)"""
    out, error = interrupted(CAUGHT.format(work=work), sentences / "mean")
    assert out == "caught\n", error


def test_training_is_saved_and_resumed_to_the_same_bits(tmp_path, text, small):
    options = {"steps": 400, "eval_every": 100, **small}
    work = f"""print("begun")
    rotary.train(sys.argv[1], sys.argv[2], **{ {**options, "steps": 1_000_000}!r})"""
    out, error = interrupted(CAUGHT.format(work=work), tmp_path / "stopped", text)
    assert out == "caught\n", error

    def stop(event):
        if event["step"] == 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotary.train(tmp_path / "broken", text, progress=stop, **options)
    resumed = rotary.train(tmp_path / "broken", resume=True, device="cpu")
    whole = rotary.train(tmp_path / "whole", text, **options)
    assert resumed.steps == whole.steps == 400
    weights = [(run.folder / "last" / "model.safetensors").read_bytes() for run in (resumed, whole)]
    assert weights[0] == weights[1]
