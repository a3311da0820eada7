"""The native functions on Daft's workers on Ray, where Ray is installed: other processes, which load the library themselves."""

import json
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from rotary import Pipeline

SIM = Path(__file__).parents[3] / "examples" / "models" / "tiny-sim"

# In a process of its own: a process has one runner for its life.
PROGRAM = """
import json, sys
import daft, ray, rotary_daft

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
daft.set_runner_ray()
rotary_daft.load()
texts, model = json.loads(sys.argv[1])
frame = daft.from_pydict({"id": list(range(len(texts))), "text": texts}).into_partitions(3)
found = frame.with_column("vector", rotary_daft.embed(daft.col("text"), model)).sort("id").to_pydict()
print(json.dumps([found["id"], found["vector"]]))
try:
    frame.select(rotary_daft.embed(daft.col("text"), "/nowhere")).collect()
except Exception as error:
    print("/nowhere" in str(error))
"""


def test_workers_of_ray_load_the_library():
    pytest.importorskip("ray")
    texts = [None if id % 29 == 0 else f"今天天气 {id}" for id in range(300)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([texts, str(SIM)])], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *_, rows, is_named = done.stdout.splitlines()
    ids, vectors = json.loads(rows)
    assert ids == list(range(300)) and is_named == "True"
    assert [id for id, vector in enumerate(vectors) if vector is None] == [id for id in ids if texts[id] is None]
    found = numpy.array([vector for vector in vectors if vector is not None], "f4")
    exact = Pipeline(SIM, device="cpu").embed([text for text in texts if text is not None])
    assert found.tobytes() == exact.tobytes()
