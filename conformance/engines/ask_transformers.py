"""transformers: the rotary module of each model type and the function beside its attention."""

import importlib

import torch
import transformers
from kit import run
from transformers import AutoConfig

transformers.logging.set_verbosity_error()
MODULES = {}


def module_of(case):
    """One module for each configuration, so that what a case leaves behind is there for the next call."""
    if case.name not in MODULES:
        config = AutoConfig.for_model(**case.config)
        kind = case.config["model_type"].removesuffix("_text")
        source = importlib.import_module(f"transformers.models.{kind}.modeling_{kind}")
        names = [name for name in vars(source) if name.endswith("RotaryEmbedding") and "Vision" not in name]
        own = [name for name in names if getattr(source, name).__module__ == source.__name__]
        text = [name for name in own if "Text" in name] or own
        MODULES[case.name] = getattr(source, text[0])(config), source
    return MODULES[case.name]


def turn(case, positions, q, k):
    rope = case.rope
    module, source = module_of(case)
    name = "apply_rotary_pos_emb_interleave" if rope.pairing == "interleaved_to_half" else "apply_rotary_pos_emb"
    apply = getattr(source, name)
    ids = torch.from_numpy(positions)[..., None, :]
    with torch.no_grad():
        cos, sin = module(q, ids)
        first, last = rope.rotary_offset, rope.rotary_offset + rope.rotary_dim
        turned = apply(*(x[..., first:last] for x in (q, k)), cos, sin)
        return tuple(torch.cat((x[..., :first], y, x[..., last:]), dim=-1) for x, y in zip((q, k), turned))


if __name__ == "__main__":
    run(turn, ["transformers", "torch"])
