"""What a configuration does."""

import json
import subprocess
import sys

import pytest

import rotary

CONFIG = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096}


def test_inspect_says_what_the_command_says(tmp_path, command, objects):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    assert dict(rotary.inspect(CONFIG)) == objects("inspect", path)[0]
    for flags, context in ([], None), (["--context", "32768"], 32768):
        assert str(rotary.inspect(CONFIG, context)) == command("inspect", path, *flags).stdout


def test_advice_by_layer_type():
    found = rotary.advice(CONFIG, 32768)
    assert (found["trained"], found["context"]) == (4096, 32768)
    gemma = {"model_type": "gemma3_text", "head_dim": 64, "num_attention_heads": 4}
    assert set(rotary.advice(gemma, 1 << 20)) == {"full_attention", "sliding_attention"}


def test_what_cannot_be_is_said():
    with pytest.raises(rotary.RotaryError, match="context is 0"):
        rotary.advice(CONFIG, 0)
    with pytest.raises(rotary.RotaryError, match="context is -1"):
        rotary.inspect(CONFIG, -1)
    with pytest.raises(rotary.RotaryError, match="does not turn"):
        rotary.advice({"model_type": "bert"}, 4096)
    with pytest.raises(TypeError):
        rotary.inspect(CONFIG, "long")
    with pytest.raises(rotary.RotaryError, match="mystery"):
        rotary.inspect({**CONFIG, "rope_scaling": {"rope_type": "linear", "factor": 2.0, "mystery": 1}})


def test_numpy_is_not_needed():
    without = "import sys; sys.modules['numpy'] = None; import rotary; "
    shown = f"print(rotary.inspect({CONFIG}))"
    done = subprocess.run([sys.executable, "-c", without + shown], capture_output=True, text=True)
    assert done.stdout.startswith("model type   llama"), done.stderr
    asked = "rotary.Rope(4).tables(2)"
    done = subprocess.run([sys.executable, "-c", without + asked], capture_output=True, text=True)
    assert "pip install numpy" in done.stderr
