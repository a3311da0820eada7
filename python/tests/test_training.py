"""Training and comparing."""

import pytest

import rotary
from rotary import RotaryError


def test_a_run_has_what_the_command_s_has(tmp_path, text, small, command):
    told = []
    run = rotary.train(tmp_path / "here", text, steps=30, eval_every=10, seed=3, progress=told.append, **small)
    flags = [word for name, value in small.items() for word in (f"--{name}", str(value))]
    flags += ["--steps", "30", "--eval-every", "10", "--seed", "3"]
    done = command("train", "--data", text, "--out", tmp_path / "there", *flags)
    assert done.returncode == 0, done.stderr
    for name in ("best", "last"):
        weights = [(tmp_path / side / name / "model.safetensors").read_bytes() for side in ("here", "there")]
        assert weights[0] == weights[1]
    assert (run.steps, run.model, run.ended_early) == (30, tmp_path / "here" / "best", False)
    assert [event["step"] for event in told if "tokens_s" in event] == list(range(1, 31))
    evaluations = [event for event in told if "validation_loss" in event]
    assert [event["step"] for event in evaluations] == [10, 20, 30]
    assert run.best["loss"] == min(event["validation_loss"] for event in evaluations)
    assert run.metrics.column("step") == [1, 10, 10, 20, 20, 30, 30]
    assert run.metrics[-1]["validation_loss"] == run.last["loss"]


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"data": None}, RotaryError, "data"),
        ({"data": "/nowhere.txt"}, RotaryError, "/nowhere.txt"),
        ({"lr": float("nan")}, RotaryError, "lr"),
        ({"lr": -1}, RotaryError, "lr is -1"),
        ({"learning_rate": 1}, RotaryError, "learning_rate"),
        ({"steps": "many"}, RotaryError, "steps"),
        ({"task": "juggling"}, RotaryError, "task is"),
        ({"steps": {}}, TypeError, "steps is of type dict"),
        ({"heads": 5}, RotaryError, "heads"),
        ({"resume": True}, RotaryError, "resume"),
        ({"dtype": "int8"}, RotaryError, "dtype is int8"),
    ],
)
def test_what_cannot_be_trained_is_said(tmp_path, text, small, options, kind, says):
    with pytest.raises(kind, match=says) as raised:
        rotary.train(tmp_path / "run", **{"data": text, **small, **options})
    assert "--" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_comparison_is_a_table_and_goes_on_where_it_stopped(tmp_path):
    options = {"out": tmp_path / "out", "seeds": 2, "steps": 4, "train_length": 4, "test_lengths": [4, 8], "device": "cpu"}

    def stop(part, finished, runs):
        if finished == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rotary.compare(["rotary", "none"], ["copy"], progress=stop, **options)
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.json") if path.parent.name == "runs"}
    assert len(kept) >= 3
    again = []
    found = rotary.compare(["rotary", "none"], ["copy"], progress=lambda *progress: again.append(progress), **options)
    assert again[-1][1] == again[-1][2]
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items()), "not made again"
    assert set(found.runs.column("encoding")) == {"rotary", "none"} and set(found.runs.column("task")) == {"copy"}
    assert len(found.runs) == 6, "two encodings and the first again, two seeds each"
    assert {row["measure"] for row in found.verdicts} >= {"in range", "beyond"}
    assert found.report.exists() and "copy" in str(found.runs) and "<td>copy</td>" in found.runs._repr_html_()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"encodings": ["sideways"]}, RotaryError, "sideways"),
        ({"tasks": ["juggling"]}, RotaryError, "juggling"),
        ({"encodings": "rotary"}, TypeError, "expected a list"),
        ({"seeds": 1}, RotaryError, "seeds"),
        ({"budget": 3}, RotaryError, "the budget of seeds is 3"),
        ({"preset": "slow"}, RotaryError, "preset"),
        ({"data": "/nowhere.txt"}, RotaryError, "/nowhere.txt"),
    ],
)
def test_what_cannot_be_compared_is_said(tmp_path, options, kind, says):
    with pytest.raises(kind, match=says):
        rotary.compare(**{"out": tmp_path / "out", "device": "cpu", **options})


def test_a_table_is_a_frame_of_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = rotary.Table([{"a": 1}, {"a": 2, "b": 3.0}]).to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["a"].tolist() == [1, 2]
