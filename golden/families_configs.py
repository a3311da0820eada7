"""Random small models of each family, drawn from a seed: what `families.py` evaluates."""

from dataclasses import dataclass

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
    family: str  # the classes are family + Config and family + head
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


FAMILIES = {
    "Bert": (bert, ENCODER_HEADS),
    "Roberta": (roberta, ENCODER_HEADS),
    "XLMRoberta": (roberta, ENCODER_HEADS),
    "Camembert": (roberta, ENCODER_HEADS),
}


def draw(family, number):
    """Case `number` of a family."""
    make, heads = FAMILIES[family]
    random = numpy.random.default_rng([number, *family.encode()])
    head = heads[number % len(heads)]
    config = make(random)
    if head == "ForQuestionAnswering":
        config["num_labels"] = 2
    return Case(
        name=f"{family.lower()}-{number}",
        family=family,
        head=head,
        config=config,
        batch=int(random.integers(1, 4)),
        length=int(random.integers(1, 20)),
        pad=[None, "right", "left"][int(random.integers(0, 3))],
        types=bool(random.integers(0, 2)) and config.get("type_vocab_size", 1) > 1,
        choices=int(random.integers(2, 4)) if head == "ForMultipleChoice" else None,
    )


SIZES = {"hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 14}
SIZES |= {"vocab_size": 17, "max_position_embeddings": 12, "type_vocab_size": 2, "num_labels": 3}

# Folders: the family, the head, and the rows of its table of positions, for texts of 40 tokens.
FILES = {"tiny-bert": ("Bert", "ForMaskedLM", 40), "tiny-roberta": ("Roberta", "Model", 42)}


def gradient_cases():
    """Two models of each family whose gradients are compared, with different heads."""
    for family, heads in {
        "Bert": ("ForMaskedLM", "ForSequenceClassification"),
        "Roberta": ("ForMaskedLM", "ForSequenceClassification"),
        "XLMRoberta": ("ForMaskedLM", "ForTokenClassification"),
        "Camembert": ("ForSequenceClassification", "ForTokenClassification"),
    }.items():
        for head in heads:
            name = f"{family.lower()}-{head}-gradients"
            yield Case(name, family, head, SIZES, batch=2, length=6, pad=None, types=family == "Bert")
