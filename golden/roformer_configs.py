"""The models and inputs that `roformer.py` evaluates."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    name: str
    head: str  # the model class is RoFormer + head
    config: dict  # fields of the configuration that are not the default
    length: int
    batch: int = 1
    choices: int | None = None
    pad: str | None = None  # "right", "left", or "none" for a mask of ones
    types: bool = False  # give token types
    prefill: int | None = None  # tokens of the first call, then one per call
    encoder: int | None = None  # length of the encoder states
    encoder_pad: bool = False
    table_rows: int | None = None  # rows of the position table, if not as configured


CASES = []


def case(name, head, shape, length, batch=1, **rest):
    """`shape`: hidden size, heads, layers, intermediate size, vocabulary size."""
    names = ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size")
    own = {f: rest.pop(f) for f in list(rest) if f in Case.__dataclass_fields__}
    config = dict(zip(names, shape, strict=True)) | {"max_position_embeddings": 128} | rest
    CASES.append(Case(name, head, config, length, batch, **own))


MODEL, MLM, CAUSAL = "Model", "ForMaskedLM", "ForCausalLM"
SEQUENCE, TOKEN = "ForSequenceClassification", "ForTokenClassification"
QA, CHOICE = "ForQuestionAnswering", "ForMultipleChoice"
DECODER = {"is_decoder": True}
CROSS = {"is_decoder": True, "add_cross_attention": True}

# The bare encoder: head sizes 4, 6, 8, 16, 24, 32, and 2; every length.
case("model-h16-d4", MODEL, (16, 4, 1, 37, 60), 5)
case("model-h24-d6", MODEL, (24, 4, 2, 50, 61), 7, 2)
case("model-h32-d8", MODEL, (32, 4, 2, 96, 70), 17)
case("model-h48-d16", MODEL, (48, 3, 3, 37, 80), 17)
case("model-h72-d24", MODEL, (72, 3, 2, 50, 90), 7)
case("model-h96-d32", MODEL, (96, 3, 2, 96, 100), 5)
case("model-h32-d32-one-head", MODEL, (32, 1, 2, 67, 64), 7)
case("model-h20-d4-five-heads", MODEL, (20, 5, 2, 33, 64), 7)
case("model-h96-d16-six-heads", MODEL, (96, 6, 4, 131, 200), 17)
case("model-h16-d2", MODEL, (16, 8, 1, 31, 64), 5)
case("model-one-token", MODEL, (32, 2, 2, 50, 64), 1)
case("model-two-tokens", MODEL, (32, 2, 2, 50, 64), 2, 3)
case("model-length-33", MODEL, (40, 5, 3, 50, 150), 33)
case("model-length-70", MODEL, (48, 2, 4, 96, 120), 70)
case("model-beyond-table", MODEL, (32, 4, 2, 50, 64), 70, max_position_embeddings=32, table_rows=70)
case("model-exact-table", MODEL, (32, 4, 1, 50, 64), 17, max_position_embeddings=17)

# Activations.
for act in ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"):
    case(f"act-{act}", MODEL, (32, 2, 2, 50, 64), 5, hidden_act=act)
    case(f"act-{act}-mlm", MLM, (24, 2, 1, 37, 61), 5, hidden_act=act)

# Factorised embeddings, rotated values, epsilon, token types.
case("factorised-down", MODEL, (48, 3, 2, 50, 90), 7, embedding_size=12)
case("factorised-up", MODEL, (24, 2, 2, 37, 90), 7, embedding_size=40)
case("factorised-mlm", MLM, (48, 4, 2, 50, 90), 7, 2, embedding_size=20, types=True)
case("factorised-rotary-value", MODEL, (32, 4, 2, 50, 64), 17, embedding_size=16, rotary_value=True)
case("rotary-value", MODEL, (48, 3, 2, 50, 90), 17, rotary_value=True)
case("rotary-value-d6", MODEL, (36, 6, 3, 41, 64), 7, 2, rotary_value=True)
case("rotary-value-right", MODEL, (32, 2, 2, 50, 64), 7, 3, pad="right", rotary_value=True)
case("rotary-value-left", MODEL, (32, 2, 2, 50, 64), 7, 3, pad="left", rotary_value=True)
case("epsilon-1e-5", MODEL, (32, 2, 2, 50, 64), 7, layer_norm_eps=1e-5)
case("epsilon-1e-5-mlm", MLM, (32, 2, 2, 50, 64), 5, layer_norm_eps=1e-5, embedding_size=16)
for count in (1, 2, 3):
    case(f"types-{count}", MODEL, (32, 2, 1, 37, 64), 7, 2, type_vocab_size=count, types=True)
    case(f"types-{count}-absent", MODEL, (32, 2, 1, 37, 64), 5, type_vocab_size=count)

# Padding of the encoder.
case("pad-right", MODEL, (48, 3, 2, 50, 90), 17, 3, pad="right")
case("pad-left", MODEL, (48, 3, 2, 50, 90), 17, 3, pad="left")
case("pad-none", MODEL, (32, 2, 2, 50, 64), 7, 2, pad="none")
case("pad-right-one-row", MODEL, (32, 2, 2, 50, 64), 5, pad="right")
case("pad-left-types", MODEL, (24, 4, 2, 37, 64), 7, 3, pad="left", types=True, pad_token_id=5)
case("pad-right-long", MODEL, (32, 4, 2, 50, 64), 33, 2, pad="right", types=True)

# Heads.
case("mlm", MLM, (48, 3, 2, 96, 90), 7, 2, types=True)
case("mlm-right", MLM, (32, 4, 2, 50, 64), 17, 2, pad="right")
case("mlm-left", MLM, (32, 4, 2, 50, 64), 7, 2, pad="left")
case("mlm-one-token", MLM, (16, 2, 1, 37, 200), 1, 2)
case("mlm-untied", MLM, (32, 4, 2, 50, 64), 5, tie_word_embeddings=False)
for labels in (1, 2, 5):
    case(f"sequence-{labels}", SEQUENCE, (32, 2, 2, 50, 64), 7, 2, num_labels=labels)
case("sequence-right", SEQUENCE, (48, 4, 2, 37, 90), 17, 3, pad="right", types=True, num_labels=3)
case("sequence-relu", SEQUENCE, (32, 2, 1, 50, 64), 5, hidden_act="relu", embedding_size=16)
case("token-2", TOKEN, (32, 2, 2, 50, 64), 7, 2)
case("token-9-right", TOKEN, (48, 4, 2, 37, 90), 17, 2, pad="right", num_labels=9)
case("qa", QA, (32, 2, 2, 50, 64), 17, 2, types=True)
case("qa-right", QA, (24, 4, 2, 37, 64), 7, 3, pad="right", types=True)
case("choice-4", CHOICE, (32, 2, 2, 50, 64), 5, 2, choices=4)
case("choice-2-left", CHOICE, (24, 2, 2, 37, 64), 7, 2, choices=2, pad="left", types=True)
case("choice-3-right", CHOICE, (24, 2, 2, 37, 64), 7, 2, choices=3, pad="right")
case("choice-first", CHOICE, (24, 2, 1, 37, 64), 7, 1, choices=3, summary_type="first")
case("choice-mean-right", CHOICE, (24, 2, 1, 37, 64), 7, 1, choices=3, pad="right", summary_type="mean")
summary = {"summary_use_proj": True, "summary_activation": "tanh"}
case("choice-projected", CHOICE, (24, 2, 1, 37, 64), 5, 2, choices=2, **summary)

# Decoders, in one call and with a cache.
case("causal-model", MODEL, (32, 4, 2, 50, 64), 17, **DECODER)
case("causal", CAUSAL, (48, 3, 2, 50, 90), 7, 2, **DECODER)
case("causal-one-token", CAUSAL, (32, 2, 2, 50, 64), 1, **DECODER)
case("causal-length-33", CAUSAL, (32, 4, 2, 37, 60), 33, **DECODER)
case("causal-right", CAUSAL, (32, 2, 2, 50, 64), 7, 3, pad="right", **DECODER)
case("causal-left", CAUSAL, (32, 2, 2, 50, 64), 7, 3, pad="left", **DECODER)
case("causal-rotary-value", CAUSAL, (32, 4, 2, 50, 64), 7, rotary_value=True, **DECODER)
case("causal-bidirectional", CAUSAL, (32, 4, 2, 50, 64), 5)  # is_decoder is false: no causal mask
case("cache", CAUSAL, (32, 4, 2, 50, 64), 9, prefill=5, **DECODER)
case("cache-from-one", CAUSAL, (48, 2, 3, 37, 60), 7, 2, prefill=1, **DECODER)
case("cache-rotary-value", CAUSAL, (32, 2, 2, 50, 64), 9, 2, prefill=4, rotary_value=True, **DECODER)
case("cache-left", CAUSAL, (32, 2, 2, 50, 64), 9, 3, prefill=6, pad="left", **DECODER)
case("cache-factorised-types", CAUSAL, (32, 4, 2, 50, 64), 7, 2, prefill=3, types=True, embedding_size=12, **DECODER)
case("cache-long", CAUSAL, (24, 4, 2, 37, 60), 33, prefill=17, **DECODER)
case("cross", CAUSAL, (32, 4, 2, 50, 64), 7, 2, encoder=5, **CROSS)
case("cross-masked", CAUSAL, (32, 4, 2, 50, 64), 5, 3, encoder=7, encoder_pad=True, **CROSS)
case("cross-model", MODEL, (48, 3, 2, 37, 64), 7, encoder=11, rotary_value=True, **CROSS)
case("cross-masked-right", CAUSAL, (24, 2, 2, 37, 64), 7, 3, encoder=4, encoder_pad=True, pad="right", **CROSS)
case("cross-unused", CAUSAL, (32, 4, 1, 50, 64), 5, **CROSS)  # no encoder states given
case("cross-cache", CAUSAL, (32, 4, 2, 50, 64), 7, 2, prefill=4, encoder=5, **CROSS)
padded = {"encoder_pad": True, "pad": "left"}
case("cross-cache-masked", CAUSAL, (24, 2, 2, 37, 64), 7, 3, prefill=3, encoder=6, **padded, **CROSS)

BASE = {"vocab_size": 1000}
BASE_LENGTH, BASE_TOKENS = 24, 4

TINY = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 48,
}
TINY_LENGTH = 9
