"""Whether a model turns as its configuration says: with modules as torch has them, and with torch's own."""

import numpy
import pytest

import rotary

LLAMA = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "rope_theta": 5e5}
GEMMA = {"model_type": "gemma3_text", "head_dim": 64, "num_attention_heads": 4}


class Config:
    def __init__(self, values):
        self.values = values

    def to_dict(self):
        return self.values


class Module:
    """As much of a module as is looked at."""

    def __init__(self, **held):
        self._buffers = {name: value for name, value in held.items() if hasattr(value, "tolist")}
        self.__dict__.update(held)


class Model(Module):
    def __init__(self, config, **modules):
        super().__init__()
        self.config, self.modules = Config(config), modules

    def named_modules(self):
        return [("", self), *self.modules.items()]


def frequencies(base, pairs=32):
    return (base ** (-numpy.arange(pairs) / pairs)).astype("f4")


def test_a_model_as_it_should_be():
    model = Model(LLAMA, rotary_emb=Module(inv_freq=frequencies(5e5), attention_scaling=1.0))
    found = rotary.check(model)
    assert found.ok and [finding.name for finding in found] == ["rotary_emb.inv_freq", "rotary_emb.attention_scaling"]


def test_what_is_wrong_is_named():
    model = Model(
        LLAMA,
        **{
            "layers.0.rotary_emb": Module(inv_freq=frequencies(5e5), attention_scaling=1.5),
            "layers.1.rotary_emb": Module(inv_freq=frequencies(1e4)),
            "layers.2.rotary_emb": Module(inv_freq=frequencies(5e5, 16)),
            "layers.3.rotary_emb": Module(inv_freq=frequencies(5e5).astype("f2")),
            "layers.4.rotary_emb": Module(inv_freq=frequencies(5e5) * numpy.float32("nan")),
            "vision.rotary_emb": Module(inv_freq=frequencies(100)),
        },
    )
    found = rotary.check(model)
    assert not found.ok
    problems = {finding.name: finding.problem for finding in found.problems}
    assert "is 1.5; expected 1" in problems["layers.0.rotary_emb.attention_scaling"]
    assert "base 10000 without a rule" in problems["layers.1.rotary_emb.inv_freq"]
    assert "has 16 frequencies; expected 32" in problems["layers.2.rotary_emb.inv_freq"]
    assert "float16" in problems["layers.3.rotary_emb.inv_freq"]
    assert "nan" in problems["layers.4.rotary_emb.inv_freq"]
    assert len(problems) == 5 and "layers.0.rotary_emb.inv_freq: as the configuration says" in str(found)


def test_layers_of_several_types():
    local, whole = frequencies(1e4), frequencies(1e6)
    held = {"sliding_attention_inv_freq": local, "full_attention_inv_freq": whole}
    assert rotary.check(Model(GEMMA, rotary_emb=Module(**held))).ok
    swapped = {"sliding_attention_inv_freq": whole, "full_attention_inv_freq": local}
    found = rotary.check(Model(GEMMA, rotary_emb=Module(**swapped)))
    assert [finding.layer_type for finding in found.problems] == ["sliding_attention", "full_attention"]
    # Modules of their own, whose names do not say which they are.
    found = rotary.check(Model(GEMMA, one=Module(inv_freq=local), two=Module(inv_freq=whole)))
    assert found.ok and [finding.layer_type for finding in found] == ["sliding_attention", "full_attention"]


def test_what_cannot_be_checked_is_said():
    with pytest.raises(TypeError, match="of type int"):
        rotary.check(3)
    with pytest.raises(rotary.RotaryError, match="holds no inv_freq"):
        rotary.check(Model(LLAMA))
    with pytest.raises(rotary.RotaryError, match="without rotary"):
        rotary.check(Model({"model_type": "bert"}))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 512}},
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}},
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
    ],
)
def test_models_of_transformers(settings):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "vocab_size": 10}
    config = transformers.LlamaConfig(**sizes, max_position_embeddings=1024, **settings)
    model = transformers.LlamaModel(config)
    found = rotary.check(model)
    assert found.ok and len(found) == 2, str(found)
    model.rotary_emb.inv_freq = model.rotary_emb.inv_freq.to(torch.bfloat16)
    model.rotary_emb.original_inv_freq = model.rotary_emb.inv_freq
    assert "bfloat16" in rotary.check(model).problems[0].problem
