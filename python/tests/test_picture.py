"""Pictures."""

import json

import pytest

import rotary

CONFIG = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "max_position_embeddings": 512}


def test_pictures_are_the_command_s(tmp_path, command):
    for figure, flag in ("decay", "--reach"), ("table", "--length"), ("rotation", "--position"), ("scores", "--length"):
        path = tmp_path / f"{figure}.svg"
        assert command("plot", figure, "--dim", 64, flag, 32, "-o", path).returncode == 0
        picture = rotary.plot(figure, dim=64, context=32)
        assert picture._repr_svg_() == path.read_text(), figure
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    drawn = tmp_path / "waves.svg"
    assert command("plot", "wavelengths", "--config", path, "--context", 4096, "-o", drawn).returncode == 0
    picture = rotary.plot("wavelengths", CONFIG, context=4096)
    assert picture._repr_svg_() == drawn.read_text()
    assert picture.save(tmp_path / "waves.png", width=400).read_bytes().startswith(b"\x89PNG")
    assert "wavelengths" in repr(picture)


def test_what_cannot_be_drawn_is_said(tmp_path):
    with pytest.raises(rotary.RotaryError, match="figure is"):
        rotary.plot("juggling")
    with pytest.raises(rotary.RotaryError):
        rotary.plot("decay", dim=3)
    with pytest.raises(rotary.RotaryError):
        rotary.plot("decay", base=float("nan"))
    with pytest.raises(rotary.RotaryError, match="context is -1"):
        rotary.plot("decay", context=-1)
    with pytest.raises(rotary.RotaryError, match="moves"):
        rotary.plot("decay").save(tmp_path / "decay.gif")
