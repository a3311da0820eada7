"""Random small models of each family, drawn from a seed: what `families.py` evaluates."""

from dataclasses import dataclass, replace

import numpy

ENCODER_HEADS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)


@dataclass(frozen=True)
class Case:
    name: str
    family: str  # the classes are family + Config and, but for some, family + head
    head: str
    config: dict  # fields of the configuration
    batch: int
    length: int
    pad: str | None  # "right", "left", or none
    types: bool  # whether segments are given
    choices: int | None = None


def bert(random):
    """Sizes without a pattern; every activation; one segment or several."""
    heads = int(random.integers(1, 5))
    width = heads * int(random.integers(1, 10))
    return {
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_hidden_layers": int(random.integers(1, 4)),
        "intermediate_size": int(random.integers(5, 60)),
        "vocab_size": int(random.integers(20, 90)),
        "type_vocab_size": int(random.integers(1, 4)),
        "max_position_embeddings": int(random.integers(24, 40)),
        "hidden_act": str(random.choice(["gelu", "gelu_new", "relu", "silu"])),
        "layer_norm_eps": float(random.choice([1e-12, 1e-5])),
        "num_labels": int(random.integers(1, 5)),
        "pad_token_id": 0,
    }


def roberta(random):
    return bert(random) | {"pad_token_id": int(random.integers(0, 3))}


def sizes(random, even=False):
    """Sizes without a pattern of models with a rotary embedding: heads of an even width."""
    heads = int(random.integers(1, 5))
    return {
        "hidden_size": heads * 2 * int(random.integers(1, 6)),
        "num_attention_heads": heads,
        "num_hidden_layers": int(random.integers(1, 5)),
        "intermediate_size": int(random.integers(5, 60)),
        "vocab_size": int(random.integers(20, 90)),
        "num_labels": int(random.integers(1, 5)),
        "pad_token_id": int(random.integers(0, 3)),
    }


def flag(random):
    return bool(random.integers(0, 2))


def activation(random):
    return str(random.choice(["gelu", "gelu_pytorch_tanh", "relu", "silu"]))


def layer_types(random, config):
    kinds = ["full_attention", "sliding_attention"]
    return [str(random.choice(kinds)) for _ in range(config["num_hidden_layers"])]


def modernbert(random):
    config = sizes(random) | {
        "hidden_activation": activation(random),
        "classifier_activation": activation(random),
        "classifier_pooling": str(random.choice(["cls", "mean"])),
        "local_attention": int(random.integers(2, 12)),
        "max_position_embeddings": 64,
        "bos_token_id": None,
        "eos_token_id": None,
        "cls_token_id": None,
        "sep_token_id": None,
    }
    for field in ["norm_bias", "attention_bias", "mlp_bias", "decoder_bias", "classifier_bias"]:
        config[field] = flag(random)
    if flag(random):
        config["layer_types"] = layer_types(random, config)
    if flag(random):
        config |= {"rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 20000.0},
            "sliding_attention": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0},
        }}
    return config


def nomic(random):
    config = sizes(random) | {"type_vocab_size": int(random.integers(1, 4)), "hidden_act": activation(random)}
    if flag(random):
        config["head_dim"] = 2 * int(random.integers(1, 8))
    return config | {"max_position_embeddings": 64}


def grouped(random, config):
    """Heads that share keys, and a width of heads that does not follow from the others."""
    heads = config["num_attention_heads"]
    shared = [number for number in range(1, heads + 1) if heads % number == 0]
    config["num_key_value_heads"] = int(random.choice(shared))
    return config | ({"head_dim": 2 * int(random.integers(1, 8))} if flag(random) else {})


def llama(random):
    config = grouped(random, sizes(random)) | {"hidden_act": activation(random), "max_position_embeddings": 64}
    config |= {"attention_bias": flag(random), "mlp_bias": flag(random), "tie_word_embeddings": flag(random)}
    return config | {"bos_token_id": None, "eos_token_id": None}


def eurobert(random):
    return llama(random) | {"classifier_pooling": str(random.choice(["late", "mean", "bos"]))}


def qwen3(random):
    config = llama(random)
    config.pop("mlp_bias")
    config |= {"use_sliding_window": True, "sliding_window": int(random.integers(1, 12))}
    return config | {"layer_types": layer_types(random, config)}


def mistral(random):
    config = llama(random)
    for field in ["attention_bias", "mlp_bias"]:
        config.pop(field)
    return config | {"sliding_window": int(random.integers(1, 12))}


def phi3(random):
    config = llama(random)
    for field in ["attention_bias", "mlp_bias", "head_dim"]:
        config.pop(field, None)
    pairs = config["hidden_size"] // config["num_attention_heads"] // 2
    config |= {"sliding_window": int(random.integers(1, 12)) if flag(random) else None}
    if flag(random):
        factors = lambda: [float(random.uniform(1, 4)) for _ in range(pairs)]
        config |= {"original_max_position_embeddings": 8, "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": factors(), "long_factor": factors(),
            "original_max_position_embeddings": 8,
        }}
    return config


def llama4(random):
    """Layers of each kind, pieces and growth within short texts."""
    config = llama(random)
    config.pop("mlp_bias")
    layers = config["num_hidden_layers"]
    config |= {
        "head_dim": 2 * int(random.integers(1, 8)),
        "intermediate_size_mlp": config["intermediate_size"],
        "moe_layers": [],
        "no_rope_layer_interval": int(random.integers(1, 4)),
        "attention_chunk_size": int(random.integers(1, 12)),
        "floor_scale": int(random.integers(1, 8)),
        "attn_scale": float(random.choice([0.1, 0.7])),
        "attn_temperature_tuning": bool(random.integers(0, 4)),
        "use_qk_norm": bool(random.integers(0, 3)),
    }
    if flag(random):
        config["no_rope_layers"] = [int(random.integers(0, 2)) for _ in range(layers)]
    if flag(random):
        kinds = ["full_attention", "chunked_attention"]
        config["layer_types"] = [str(random.choice(kinds)) for _ in range(layers)]
    if flag(random):
        config["rope_parameters"] = {"rope_type": "yarn", "rope_theta": 20000.0, "factor": 4.0,
                                     "original_max_position_embeddings": 16}
    return config


def glm4(random):
    config = llama(random)
    config.pop("mlp_bias")
    config["head_dim"] = 4 * int(random.integers(1, 5))
    return config


def gemma(random):
    config = llama(random)
    for field in ["mlp_bias", "hidden_act"]:
        config.pop(field)
    config["head_dim"] = 2 * int(random.integers(1, 8))
    config |= {"hidden_activation": activation(random), "query_pre_attn_scalar": int(random.integers(2, 30))}
    config |= {"sliding_window": int(random.integers(2, 12)), "layer_types": layer_types(random, config)}
    return config | {"attn_logit_softcapping": None, "final_logit_softcapping": None}


def gemma2(random):
    caps = {"attn_logit_softcapping": 0.7, "final_logit_softcapping": 0.9}
    return gemma(random) | (caps if flag(random) else {})


def gemma3(random):
    return gemma(random) | {"final_logit_softcapping": 1.5 if flag(random) else None,"use_bidirectional_attention": flag(random)}


def gpt(random):
    config = sizes(random)
    return {
        "n_embd": config["hidden_size"],
        "n_head": config["num_attention_heads"],
        "n_layer": config["num_hidden_layers"],
        "n_inner": config["intermediate_size"] if flag(random) else None,
        "n_positions": int(random.integers(24, 40)),
        "activation_function": str(random.choice(["gelu", "gelu_new", "relu", "silu"])),
        "tie_word_embeddings": flag(random),
        "bos_token_id": None,
        "eos_token_id": None,
    } | {field: config[field] for field in ["vocab_size", "num_labels", "pad_token_id"]}


def gptj(random):
    config = gpt(random)
    dim = config["n_embd"] // config["n_head"]
    return config | {"rotary_dim": 2 * int(random.integers(1, dim // 2 + 1)), "tie_word_embeddings": False}


def neox(random):
    config = sizes(random) | {"hidden_act": activation(random), "max_position_embeddings": 64}
    config |= {"use_parallel_residual": flag(random), "attention_bias": flag(random)}
    config |= {"tie_word_embeddings": flag(random), "bos_token_id": None, "eos_token_id": None}
    # Heads of 8 and more features, so that a part of them can turn.
    config["hidden_size"] = config["num_attention_heads"] * 8 * int(random.integers(1, 3))
    return config | {"rotary_pct": float(random.choice([0.25, 0.5, 1.0])), "rotary_emb_base": 5000}


def mpt(random):
    config = sizes(random)
    return {
        "d_model": config["hidden_size"],
        "n_heads": config["num_attention_heads"],
        "n_layers": config["num_hidden_layers"],
        "max_seq_len": 64,
        "tie_word_embeddings": flag(random),
        "attn_config": {"softmax_scale": 0.3 if flag(random) else None},
    } | {field: config[field] for field in ["vocab_size", "num_labels", "pad_token_id"]}


def t5(random):
    """Few buckets, so that the distances of short texts share some; a width of heads that follows from nothing."""
    buckets = int(random.integers(4, 20))
    return {
        "d_model": int(random.integers(3, 40)),
        "d_kv": int(random.integers(1, 12)),
        "d_ff": int(random.integers(5, 60)),
        "num_heads": int(random.integers(1, 5)),
        "num_layers": int(random.integers(1, 5)),
        "vocab_size": int(random.integers(20, 90)),
        "relative_attention_num_buckets": buckets,
        "relative_attention_max_distance": buckets // 2 + int(random.integers(1, 20)),
        "feed_forward_proj": str(random.choice(["relu", "gelu", "gated-gelu", "gated-silu", "gelu_new"])),
        "layer_norm_epsilon": float(random.choice([1e-6, 1e-5])),
        "num_labels": int(random.integers(1, 5)),
        "pad_token_id": int(random.integers(0, 3)),
        "num_decoder_layers": int(random.integers(1, 5)),
        "tie_word_embeddings": flag(random),
    }


# Classes of T5 that have a decoder.
T5_WRITERS = ("ForConditionalGeneration", "Model")

def deberta(random):
    """Every setting of its attention; sizes as BERT's."""
    config = bert(random) | {"type_vocab_size": int(random.integers(0, 3)), "pad_token_id": int(random.integers(0, 3))}
    if flag(random):
        config["embedding_size"] = int(random.integers(3, 30))
    config |= {
        "relative_attention": bool(random.integers(0, 5)),
        "pos_att_type": [["c2p", "p2c"], "p2c|c2p", ["c2p"], ["p2c"], [], None][int(random.integers(0, 6))],
        "max_relative_positions": int(random.choice([-1, 4, 7, 15])),
        "position_buckets": int(random.choice([-1, 3, 4, 5])),
        "norm_rel_ebd": str(random.choice(["none", "layer_norm"])),
        "pooler_hidden_act": str(random.choice(["gelu", "tanh", "relu"])),
        "layer_norm_eps": float(random.choice([1e-7, 1e-5])),
        "tie_word_embeddings": bool(random.integers(0, 4)),
        "share_att_key": flag(random),
        "position_biased_input": flag(random),
        "conv_kernel_size": int(random.choice([0, 0, 1, 3, 5])),
        "conv_act": str(random.choice(["gelu", "tanh", "relu"])),
        # The newer head scores by word embeddings of the model's width.
        "legacy": "embedding_size" in config or flag(random),
    }
    return config


def xlnet(random):
    """Sizes as BERT's, of an even width; distances that are clamped within the text and beyond it."""
    heads, features = int(random.integers(1, 5)), int(random.integers(1, 10))
    return {
        "d_model": heads * features * (1 + heads * features % 2),
        "n_head": heads,
        "n_layer": int(random.integers(1, 4)),
        "d_inner": int(random.integers(5, 60)),
        "vocab_size": int(random.integers(20, 90)),
        "ff_activation": str(random.choice(["gelu", "gelu_new", "relu", "silu"])),
        "layer_norm_eps": float(random.choice([1e-12, 1e-5])),
        "clamp_len": int(random.choice([-1, 0, 2, 5, 40])),
        "mem_len": [None, 0, 7][int(random.integers(0, 3))],
        "summary_type": str(random.choice(["last", "first", "mean", "cls_index"])),
        "summary_activation": str(random.choice(["tanh", "gelu", "relu"])),
        "tie_word_embeddings": flag(random),
        "num_labels": int(random.integers(1, 5)),
        "pad_token_id": int(random.integers(0, 3)),
    }


DECODER_HEADS = ("ForCausalLM", "Model", "ForSequenceClassification", "ForTokenClassification")
GPT_HEADS = DECODER_HEADS + ("ForQuestionAnswering",)

FAMILIES = {
    "Bert": (bert, ENCODER_HEADS),
    "Roberta": (roberta, ENCODER_HEADS),
    "XLMRoberta": (roberta, ENCODER_HEADS),
    "Camembert": (roberta, ENCODER_HEADS),
    "ModernBert": (modernbert, ENCODER_HEADS),
    "NomicBert": (nomic, ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    "EuroBert": (eurobert, ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification")),
    "GPT2": (gpt, ("LMHeadModel",) + GPT_HEADS[1:]),
    "GPTJ": (gptj, ("ForCausalLM", "Model", "ForSequenceClassification", "ForQuestionAnswering")),
    "GPTNeoX": (neox, GPT_HEADS),
    "Mistral": (mistral, DECODER_HEADS),
    "Qwen3": (qwen3, DECODER_HEADS),
    "Phi3": (phi3, DECODER_HEADS),
    "Glm4": (glm4, DECODER_HEADS),
    "Gemma2": (gemma2, DECODER_HEADS),
    "Mpt": (mpt, GPT_HEADS),
    "Gemma3": (gemma3, ("ForCausalLM", "TextModel", "TextForSequenceClassification")),
    "T5": (t5, ("EncoderModel", "ForConditionalGeneration", "ForTokenClassification") + T5_WRITERS),
    "DebertaV2": (deberta, ENCODER_HEADS),
    "XLNet": (xlnet, tuple({"ForMaskedLM": "LMHeadModel"}.get(head, head) for head in ENCODER_HEADS)),
    "Llama4": (llama4, ("ForCausalLM", "TextModel")),
}
# Where the configuration's class is not the family's name.
CONFIGS = {"Gemma3": "Gemma3TextConfig", "Llama4": "Llama4TextConfig"}


def class_of(family, head):
    """The class of a head, where a family has another name for it."""
    return family + ("ForQuestionAnsweringSimple" if (family, head) == ("XLNet", "ForQuestionAnswering") else head)


def is_masked(family, head):
    """Whether a head says the tokens at their own places."""
    return head == "ForMaskedLM" or (family, head) == ("XLNet", "LMHeadModel")


def draw(family, number):
    """Case `number` of a family."""
    make, heads = FAMILIES[family]
    random = numpy.random.default_rng([number, *family.encode()])
    head = heads[number % len(heads)]
    config = make(random)
    if head == "ForQuestionAnswering":
        config["num_labels"] = 2
    pad = [None, "right", "left"][int(random.integers(0, 3))]
    if family == "ModernBert" and head == "ForMultipleChoice":
        # Its mean asks for a mask.
        pad = pad or "right"
    if family == "DebertaV2" and head in ("ForSequenceClassification", "ForMultipleChoice") and pad:
        # Its pooler reads the first token: as padding, one that looks at padding alone.
        pad = "right"
    if family == "XLNet" and head in ("ForSequenceClassification", "ForMultipleChoice") and pad:
        # What it reads of a text counts padding, which looks at itself there.
        pad = {"first": "right", "mean": None}.get(config["summary_type"], "left")
    return Case(
        name=f"{family.lower()}-{number}",
        family=family,
        head=head,
        config=config,
        batch=int(random.integers(1, 4)),
        length=int(random.integers(1, 20)),
        pad=pad,
        types=flag(random) and (family == "XLNet" or config.get("type_vocab_size", 1) > 1),
        choices=int(random.integers(2, 4)) if head == "ForMultipleChoice" else None,
    )


SIZES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 14}
SIZES |= {"vocab_size": 17, "max_position_embeddings": 12, "type_vocab_size": 2, "num_labels": 3}

T5_SIZES = {"d_model": 12, "d_kv": 5, "d_ff": 14, "num_heads": 3, "num_layers": 2, "vocab_size": 17}
T5_SIZES |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10, "feed_forward_proj": "gated-gelu"}
DEBERTA_SIZES = SIZES | {
    "max_position_embeddings": 40, "relative_attention": True, "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 5, "norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False,
    "type_vocab_size": 0, "legacy": False,
}
XLNET_SIZES = {"d_model": 12, "n_head": 3, "n_layer": 2, "d_inner": 14, "vocab_size": 17, "mem_len": None}

# Folders: the family, the head, and the configuration, for texts of 40 tokens.
FILES = {
    "tiny-bert": ("Bert", "ForMaskedLM", SIZES | {"max_position_embeddings": 40}),
    "tiny-roberta": ("Roberta", "Model", SIZES | {"max_position_embeddings": 42}),
    "tiny-deberta": ("DebertaV2", "ForMaskedLM", DEBERTA_SIZES),
    "tiny-xlnet": ("XLNet", "LMHeadModel", XLNET_SIZES),
    "tiny-t5-encoder": ("T5", "EncoderModel", T5_SIZES),
    "tiny-t5": ("T5", "ForConditionalGeneration", T5_SIZES | {"num_decoder_layers": 3, "decoder_start_token_id": 0}),
}


# T5's buckets and the distance from which on all share the last: its own, multiples of nothing, powers of two at bounds.
BUCKETS = [(32, 128), (32, 256), (64, 128), (16, 64), (8, 20), (9, 6), (4, 3), (5, 40), (33, 100), (7, 150), (20, 31), (12, 96)]


def small(config):
    """The same model with less to store."""
    limits = {"num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "intermediate_size": 12, "n_inner": 12, "vocab_size": 19}
    limits |= {"num_layers": 2, "d_ff": 12, "d_inner": 12, "intermediate_size_mlp": 12}
    least = {field: min(config[field], most) for field, most in limits.items() if config.get(field)}
    kinds = {field: config[field][:2] for field in ("layer_types", "no_rope_layers") if field in config}
    return config | least | kinds | {"num_labels": max(2, config["num_labels"])}


# What those models have that are compared by their gradients, where chance might leave it out.
DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm"}
GEMMA2 = {"attn_logit_softcapping": 0.7, "final_logit_softcapping": 0.9}
GEMMA3 = {"final_logit_softcapping": None}
LLAMA4 = {"num_hidden_layers": 2, "no_rope_layers": [1, 0], "attn_temperature_tuning": True, "floor_scale": 2}
GRADIENTS = {"DebertaV2": [
    DEBERTA | {"share_att_key": True, "position_buckets": 4, "max_relative_positions": 7, "conv_kernel_size": 0},
    DEBERTA | {"share_att_key": False, "position_buckets": -1, "position_biased_input": True, "conv_kernel_size": 3},
], "XLNet": [{"clamp_len": 4, "summary_type": "last"}, {"clamp_len": -1}], "Llama4": [
    LLAMA4 | {"use_qk_norm": True, "attention_chunk_size": 4},
    LLAMA4 | {"use_qk_norm": False, "layer_types": ["full_attention", "chunked_attention"], "attention_chunk_size": 3},
], "Gemma2": [
    # A language model twice, and both classifiers, whose scores are not capped.
    GEMMA2, GEMMA2, GEMMA2, {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 1.7},
], "Gemma3": [GEMMA3, GEMMA3 | {"final_logit_softcapping": 1.5}]}


# A T5 with its decoder: a gate and tied outputs, which are scaled; neither, fewer layers that read, another first token.
SEQUENCES = [
    T5_SIZES | {"num_decoder_layers": 1, "pad_token_id": 0, "decoder_start_token_id": 0},
    T5_SIZES | {"num_layers": 1, "num_decoder_layers": 2, "feed_forward_proj": "relu", "pad_token_id": 1,
                "decoder_start_token_id": 2, "tie_word_embeddings": False},
]


def gradient_cases():
    """Two models or more of each family whose gradients are compared, with different heads."""
    for family, heads in {
        "Bert": ("ForMaskedLM", "ForSequenceClassification"),
        "Roberta": ("ForMaskedLM", "ForSequenceClassification"),
        "XLMRoberta": ("ForMaskedLM", "ForTokenClassification"),
        "Camembert": ("ForSequenceClassification", "ForTokenClassification"),
    }.items():
        for head in heads:
            name = f"{family.lower()}-{head}-gradients"
            yield Case(name, family, head, SIZES, batch=2, length=6, pad=None, types=family == "Bert")
    # Of the others the first models that are drawn and have a loss.
    for family in list(FAMILIES)[4:]:
        more, count = GRADIENTS.get(family, [{}, {}]), 0
        for number in range(500, 600):
            case = draw(family, number)
            is_trained = "LM" in case.head or "ForSequence" in case.head or "ForToken" in case.head
            if not is_trained or count == len(more):
                continue
            config = small(case.config) | more[count]
            count += 1
            types = family == "XLNet"
            yield replace(case, name=f"{case.name}-gradients", config=config, batch=2, length=9, pad=None, types=types)
    for number, (config, pad) in enumerate(zip(SEQUENCES, ("right", "left"))):
        name, head = f"t5-{number}-sequences-gradients", "ForConditionalGeneration"
        yield Case(name, "T5", head, config, batch=3, length=9, pad=pad, types=False)
