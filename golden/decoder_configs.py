"""The models and inputs that `decoder.py` evaluates."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    family: str  # the classes are family + Config, + ForCausalLM and + Model
    config: dict  # fields of the configuration
    length: int
    batch: int = 1
    pad: str | None = None  # "right", "left", or "none" for a mask of ones
    prefill: int | None = None  # tokens of the first call, then one per call
    head: bool = True  # a language model, or the bare model


CASES = []


def case(name, family, shape, length, batch=1, **rest):
    """`shape`: hidden size, heads, heads of keys and values, layers, intermediate size, vocabulary size."""
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "num_hidden_layers")
    names += ("intermediate_size", "vocab_size")
    own = {f: rest.pop(f) for f in list(rest) if f in Case.__dataclass_fields__}
    config = dict(zip(names, shape, strict=True)) | {"max_position_embeddings": 64, "rms_norm_eps": 1e-5} | rest
    CASES.append(Case(name, family, config, length, batch, **own))


def rule(rope_type, theta=10000.0, **fields):
    return {"rope_type": rope_type, "rope_theta": theta} | fields


LLAMA, MISTRAL, QWEN2, QWEN3 = "Llama", "Mistral", "Qwen2", "Qwen3"
# MiniMind is not in transformers: its older form is Llama's, its newer one Qwen3's, with frequencies of its own.
MINIMIND, MINIMIND3 = "MiniMind", "MiniMind3"

# Heads: all their own, in groups, one for all; widths of 4, 6, 8, 16, 24 and 2.
case("llama-d8", LLAMA, (32, 4, 4, 2, 40, 50), 7)
case("llama-grouped", LLAMA, (32, 4, 2, 2, 37, 50), 17)
case("llama-one-key-head", LLAMA, (48, 6, 1, 2, 50, 61), 9, 2)
case("llama-six-heads-in-threes", LLAMA, (36, 6, 2, 3, 33, 40), 7)
case("llama-d16-one-head", LLAMA, (16, 1, 1, 2, 19, 33), 5)
case("llama-one-token", LLAMA, (32, 4, 2, 2, 40, 50), 1)
case("llama-no-layers", LLAMA, (16, 2, 2, 0, 20, 30), 4)
case("llama-long", LLAMA, (16, 2, 1, 2, 24, 30), 150, max_position_embeddings=256)
case("llama-wide-head", LLAMA, (24, 4, 2, 2, 40, 50), 9, head_dim=16)
case("llama-narrow-head", LLAMA, (42, 3, 3, 2, 31, 50), 9, head_dim=6)
case("llama-tied", LLAMA, (32, 4, 2, 2, 40, 50), 9, tie_word_embeddings=True)
case("llama-biases", LLAMA, (32, 4, 2, 2, 40, 50), 9, attention_bias=True, mlp_bias=True)
case("llama-bare", LLAMA, (32, 4, 2, 2, 40, 50), 9, head=False)
case("llama-eps", LLAMA, (32, 4, 4, 1, 40, 50), 7, rms_norm_eps=0.1)

# Batches and padding.
case("llama-batch", LLAMA, (32, 4, 2, 2, 40, 50), 11, 3)
case("llama-right", LLAMA, (32, 4, 2, 2, 40, 50), 11, 3, pad="right")
case("llama-left", LLAMA, (32, 4, 2, 2, 40, 50), 11, 3, pad="left")
case("llama-ones", LLAMA, (32, 4, 2, 2, 40, 50), 6, 2, pad="none")

# A cache.
case("llama-cache", LLAMA, (32, 4, 2, 2, 40, 50), 12, prefill=5)
case("llama-cache-from-one", LLAMA, (32, 4, 1, 2, 40, 50), 9, 2, prefill=1)
case("llama-cache-left", LLAMA, (32, 4, 2, 2, 40, 50), 12, 3, pad="left", prefill=7)

# Rules.
case("llama-theta", LLAMA, (64, 4, 2, 2, 50, 40), 40, rope_parameters=rule("default", 1e6))
case("llama-linear", LLAMA, (32, 2, 1, 2, 40, 40), 40, rope_parameters=rule("linear", factor=4.0))
case("llama-llama3", LLAMA, (64, 2, 1, 2, 50, 40), 40, max_position_embeddings=256, rope_parameters=rule(
    "llama3", 500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32))
case("llama-yarn", LLAMA, (64, 2, 2, 2, 50, 40), 40, max_position_embeddings=128, rope_parameters=rule(
    "yarn", factor=4.0, original_max_position_embeddings=32))
case("llama-dynamic-short", LLAMA, (32, 2, 1, 2, 40, 40), 20, max_position_embeddings=24,
     rope_parameters=rule("dynamic", factor=2.0))
case("llama-dynamic-long", LLAMA, (32, 2, 1, 2, 40, 40), 40, max_position_embeddings=24,
     rope_parameters=rule("dynamic", factor=2.0))
case("llama-dynamic-cache", LLAMA, (32, 2, 1, 2, 40, 40), 34, max_position_embeddings=24, prefill=20,
     rope_parameters=rule("dynamic", factor=2.0))
LONG = dict(short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 2.0, 3.5, 6.0], original_max_position_embeddings=16)
case("llama-longrope-short", LLAMA, (32, 4, 2, 2, 40, 40), 16, rope_parameters=rule("longrope", **LONG))
case("llama-longrope-long", LLAMA, (32, 4, 2, 2, 40, 40), 30, rope_parameters=rule("longrope", **LONG))

# The other models.
case("mistral", MISTRAL, (32, 4, 2, 2, 40, 50), 17, sliding_window=None)
case("mistral-cache", MISTRAL, (32, 4, 2, 2, 40, 50), 12, 2, sliding_window=None, head_dim=12, prefill=6)
# A window changes nothing as long as the text fits into it.
case("mistral-window", MISTRAL, (32, 4, 2, 2, 40, 50), 9, sliding_window=9)
case("mistral-window-cache", MISTRAL, (32, 4, 2, 2, 40, 50), 9, 2, sliding_window=9, prefill=5)
case("qwen2-window-cache", QWEN2, (32, 4, 2, 2, 40, 50), 9, prefill=4, use_sliding_window=True, sliding_window=9,
     max_window_layers=1)
case("qwen2", QWEN2, (32, 4, 2, 2, 40, 50), 17, rope_parameters=rule("default", 1e6))
case("qwen2-tied-right", QWEN2, (32, 4, 1, 2, 40, 50), 11, 3, pad="right", tie_word_embeddings=True)
case("qwen2-cache", QWEN2, (32, 4, 4, 2, 40, 50), 12, prefill=5)
case("qwen2-yarn", QWEN2, (64, 4, 2, 2, 40, 50), 40, rope_parameters=rule(
    "yarn", 1e6, factor=4.0, original_max_position_embeddings=32), max_position_embeddings=128)
case("qwen3", QWEN3, (32, 4, 2, 2, 40, 50), 17, head_dim=16, rope_parameters=rule("default", 1e6))
case("qwen3-tied-left", QWEN3, (32, 4, 1, 2, 40, 50), 11, 3, pad="left", head_dim=8, tie_word_embeddings=True)
case("qwen3-biases-cache", QWEN3, (32, 4, 2, 2, 40, 50), 12, prefill=5, head_dim=12, attention_bias=True)
case("qwen3-bare", QWEN3, (32, 4, 2, 2, 40, 50), 9, head_dim=16, head=False)
case("minimind", MINIMIND, (64, 8, 2, 2, 50, 60), 17, inference_rope_scaling=False, max_position_embeddings=32768)
case("minimind-yarn", MINIMIND, (64, 2, 1, 2, 50, 60), 60, inference_rope_scaling=True, max_position_embeddings=32768)
case("minimind-unstretched", MINIMIND, (64, 2, 1, 2, 50, 60), 9, inference_rope_scaling=True,
     max_position_embeddings=2048)
case("minimind3", MINIMIND3, (64, 8, 4, 2, 50, 60), 17, 2, pad="right", inference_rope_scaling=False,
     max_position_embeddings=32768)
case("minimind3-yarn-cache", MINIMIND3, (64, 4, 2, 2, 50, 60), 30, prefill=20, inference_rope_scaling=True,
     max_position_embeddings=32768, head_dim=32)

TINY = {"hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 24, "vocab_size": 40, "max_position_embeddings": 64}  # fmt: skip
# Folders as transformers saves them: family, fields, whether there is a head.
FILES = {
    "tiny-llama": (LLAMA, {}, True),
    "tiny-llama-bare": (LLAMA, {}, False),
    "tiny-qwen2": (QWEN2, {"tie_word_embeddings": True, "rope_parameters": rule("default", 1e6)}, True),
    "tiny-qwen3": (QWEN3, {"head_dim": 8}, True),
}
TINY_LENGTH = 9
