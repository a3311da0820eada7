"""transformers: the rotary module of each model type and the function beside its attention, on the full set.

RoFormer, GPT-J and CodeGen have a table of sines and cosines in place of a module.
"""

import copy
import importlib

import torch
import transformers
from kit import run
from transformers import CONFIG_MAPPING

transformers.logging.set_verbosity_error()
MODULES = {}


def source_of(case):
    """The configuration of a case's language model, and the Python module that has its functions."""
    if case.config["model_type"] not in CONFIG_MAPPING:
        raise NotImplementedError  # MiniMind is not one of theirs
    config = CONFIG_MAPPING[case.config["model_type"]].from_dict(copy.deepcopy(case.config)).get_text_config()
    return config, importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))


def module_of(case):
    """One module for each case, so that what a call leaves behind is there for the next one."""
    if case.name not in MODULES:
        config, source = source_of(case)
        names = [name for name in vars(source) if name.endswith("RotaryEmbedding") and "Vision" not in name]
        own = [name for name in names if getattr(source, name).__module__ == source.__name__]
        text = [name for name in own if "Text" in name] or own
        MODULES[case.name] = getattr(source, text[0])(config) if text else table_of(case, source), source
    return MODULES[case.name]


def table_of(case, source):
    """The rows of a model that has no module: sines, then cosines."""
    rows, dim = case.rope.sequence_length, case.rope.rotary_dim
    if hasattr(source, "create_sinusoidal_positions"):
        return source.create_sinusoidal_positions(rows, dim)
    return source.RoFormerSinusoidalPositionalEmbedding(rows, dim).create_weight()


def turn(case, positions, q, k):
    module, source = module_of(case)
    ids = torch.from_numpy(positions)
    first, last = case.rope.rotary_offset, case.rope.rotary_offset + case.rope.rotary_dim
    with torch.no_grad():
        slices = (x[..., first:last] for x in (q, k))
        if torch.is_tensor(module):
            turned = by_table(source, module[ids].to(q.dtype), *slices)
        else:
            turned = by_module(case, module, source, ids, *slices)
        return tuple(torch.cat((x[..., :first], y, x[..., last:]), dim=-1) for x, y in zip((q, k), turned))


def by_module(case, module, source, ids, q, k):
    ids = ids[..., None, :]  # [1, length], or [3, 1, length]
    table = module(q, ids) if case.layer_type is None else module(q, ids, case.layer_type)
    if torch.is_tensor(table):  # complex numbers; Llama 4 has tokens before heads
        swap = source.__name__.endswith("llama4")
        turned = source.apply_rotary_emb(*(x.transpose(1, 2) if swap else x for x in (q, k)), table)
        return tuple(x.transpose(1, 2) if swap else x for x in turned)
    interleave = case.rope.pairing == "interleaved_to_half"
    apply = getattr(source, "apply_rotary_pos_emb_interleave" if interleave else "apply_rotary_pos_emb")
    try:
        return apply(q, k, *table)
    except TypeError:  # newer ones turn one at a time
        return apply(q, *table), apply(k, *table)


def by_table(source, rows, q, k):
    if hasattr(source, "RoFormerSelfAttention"):
        return source.RoFormerSelfAttention.apply_rotary_position_embeddings(rows, q, k)
    sin, cos = rows[None].chunk(2, dim=-1)
    return tuple(source.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2) for x in (q, k))


if __name__ == "__main__":
    run(turn, ["transformers", "torch"])
