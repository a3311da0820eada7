"""The models and inputs that `variants.py` evaluates."""

from dataclasses import dataclass

import roformer_configs
from roformer_configs import CAUSAL, CHOICE, DECODER, MLM, MODEL, QA, SEQUENCE, TOKEN


@dataclass(frozen=True, kw_only=True)
class Case(roformer_configs.Case):
    variant: str  # "v2", "sim" or "gpt"
    reach: str = "all"  # what a token attends to: "all", "prefix" or "causal"
    targets: tuple = ()  # for "prefix": where the second text begins in each row


CASES = []


def case(name, head, shape, length, batch=1, **rest):
    """`shape`: hidden size, heads, layers, intermediate size, vocabulary size."""
    names = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")
    own = {f: rest.pop(f) for f in list(rest) if f in Case.__dataclass_fields__}
    config = dict(zip(names, shape, strict=True)) | {"max_position_embeddings": 128} | rest
    own["variant"] = name.split("-")[0]
    if own.get("reach") == "prefix":
        own.setdefault("targets", (own.get("prefill"),) * batch)
    CASES.append(Case(name, head, config, length, batch, **own))


# RoFormerV2: no biases, no weights in the norms; relu.
V2 = {"use_bias": False, "norm_type": "rms_norm", "hidden_act": "relu"}
case("v2-h16-d4", MODEL, (16, 4, 1, 37, 60), 5, **V2)
case("v2-h24-d6", MODEL, (24, 4, 2, 50, 61), 7, 2, **V2)
case("v2-h48-d16", MODEL, (48, 3, 3, 37, 80), 17, **V2)
case("v2-gelu", MODEL, (32, 1, 2, 67, 64), 7, **V2 | {"hidden_act": "gelu"})
case("v2-right", MODEL, (36, 6, 2, 41, 64), 17, 3, pad="right", **V2)
case("v2-left", MODEL, (32, 2, 2, 50, 64), 7, 3, pad="left", **V2)
case("v2-types", MODEL, (32, 2, 1, 37, 64), 7, 2, types=True, **V2)
case("v2-rotary-value", MODEL, (48, 3, 2, 50, 90), 17, 2, rotary_value=True, **V2)
case("v2-factorised", MODEL, (48, 4, 2, 50, 90), 7, embedding_size=20, **V2)
case("v2-epsilon", MODEL, (32, 4, 2, 50, 64), 7, layer_norm_eps=0.01, **V2)
case("v2-mlm", MLM, (48, 3, 2, 96, 90), 7, 2, types=True, **V2)
case("v2-mlm-gelu", MLM, (24, 2, 1, 37, 61), 5, **V2 | {"hidden_act": "gelu"})
case("v2-mlm-right", MLM, (40, 5, 2, 50, 64), 17, 2, pad="right", **V2)
case("v2-mlm-untied", MLM, (32, 4, 2, 50, 64), 5, tie_word_embeddings=False, **V2)
case("v2-mlm-biases", MLM, (32, 4, 2, 50, 64), 5, **V2 | {"use_bias": True})
case("v2-mlm-layer-norm", MLM, (32, 4, 2, 50, 64), 5, **V2 | {"norm_type": "layer_norm"})
case("v2-sequence-3-right", SEQUENCE, (48, 4, 2, 37, 90), 17, 3, pad="right", types=True, num_labels=3, **V2)
case("v2-token-5", TOKEN, (32, 2, 2, 50, 64), 7, 2, num_labels=5, **V2)
case("v2-qa-right", QA, (24, 4, 2, 37, 64), 7, 3, pad="right", types=True, **V2)
case("v2-choice-3", CHOICE, (24, 2, 1, 37, 64), 5, 2, choices=3, **V2)
case("v2-causal-lm", CAUSAL, (32, 4, 2, 50, 64), 7, 2, pooler_activation="linear", **V2)

# RoFormer-Sim as an encoder: sentence vectors from the pooler.
LINEAR = {"pooler_activation": "linear"}
case("sim-right", CAUSAL, (48, 3, 2, 50, 90), 17, 3, pad="right", **LINEAR)
case("sim-tanh-right", CAUSAL, (32, 2, 2, 50, 64), 7, 2, pad="right")
case("sim-types", CAUSAL, (24, 4, 2, 37, 61), 7, 2, types=True, **LINEAR)
case("sim-factorised", CAUSAL, (32, 4, 2, 50, 64), 5, embedding_size=12, **LINEAR)
case("sim-decoder-right", CAUSAL, (32, 4, 2, 50, 64), 9, 3, pad="right", **LINEAR, **DECODER)

# RoFormer-Sim as a generator: types 0 and then 1, in one call and with a cache.
PREFIX = {"reach": "prefix"} | LINEAR | DECODER
case("sim-prefix", CAUSAL, (48, 3, 2, 50, 90), 17, 2, targets=(6, 11), **PREFIX)
case("sim-prefix-right", CAUSAL, (24, 4, 2, 37, 61), 9, 3, pad="right", targets=(5, 4, 1), **PREFIX)
case("sim-steps", CAUSAL, (32, 4, 2, 50, 64), 9, prefill=5, **PREFIX)
case("sim-steps-batch", CAUSAL, (36, 6, 2, 41, 61), 11, 2, prefill=4, **PREFIX)
case("sim-steps-left", CAUSAL, (32, 2, 2, 50, 64), 9, 3, prefill=7, pad="left", **PREFIX)
case("sim-steps-long", CAUSAL, (24, 4, 2, 37, 60), 33, prefill=17, **PREFIX)
case("sim-steps-rotary-value", CAUSAL, (48, 2, 3, 37, 60), 7, 2, prefill=2, rotary_value=True, **PREFIX)
case("v2-steps", CAUSAL, (32, 4, 2, 50, 64), 9, 2, prefill=4, **PREFIX, **V2)

# RoFormer-GPT: causal from the first token.
GPT = {"reach": "causal"} | DECODER
case("gpt", CAUSAL, (48, 3, 2, 50, 90), 7, 2, **GPT)
case("gpt-right", CAUSAL, (24, 4, 2, 37, 61), 17, 2, pad="right", **GPT)
case("gpt-steps", CAUSAL, (32, 4, 2, 50, 64), 9, prefill=5, **GPT)
case("gpt-steps-from-one", CAUSAL, (36, 6, 2, 41, 61), 7, 2, prefill=1, **GPT)
case("gpt-steps-left", CAUSAL, (32, 2, 2, 50, 64), 9, 3, prefill=7, pad="left", **GPT)
case("gpt-steps-rotary-value", CAUSAL, (32, 2, 2, 50, 64), 9, 2, prefill=4, rotary_value=True, **GPT)

# Continued greedily: the case that gives model and reach, the first text, and the number of tokens.
GREEDY = [
    ("sim-steps", [2, 31, 17, 44, 3], 8),
    ("sim-steps-batch", [2, 53, 38, 59, 48, 34, 3], 8),
    ("gpt-steps", [2, 63, 5, 30, 57], 8),
]

TINY_V2 = roformer_configs.TINY | V2
TINY_SIM = roformer_configs.TINY | LINEAR
TINY_LENGTH = 9
