"""Random configurations of every rotary model type: transformers' frequencies beside ours.

    python golden/rope_sweep.py                     # 1,000 configurations, seed 1
    python golden/rope_sweep.py --count 5000 --seed 7
    python golden/rope_sweep.py --write --count 6000  # the sample in rope/sweep.json

Fields are present or absent, under version 4's names or version 5's, in every rule, in flat or nested text
configurations. transformers' own classes are run on each; ours are asked through the example `config_lines` of the
crate `rope`, all lines in one process. A difference is another number of layer types or features that turn, a
frequency (in f32 on both sides) off by more than 1e-6, an attention factor off by more than 1e-9, or a refusal of ours where transformers
computes ordinary numbers. What transformers cannot use, ours may refuse or read.
"""

import argparse
import copy
import importlib
import json
import math
import random
import subprocess
import warnings
from collections import Counter
from pathlib import Path

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

import manifest

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "cargo run --quiet --release -p rope --example config_lines".split()

# Types with a rotary module of their own that no one rope describes.
LEFT_OUT = {
    "blt": "four models, each with a configuration and a rope of its own",
    "esmfold2": "positions in space, three axes",
    "efficientloftr": "positions of an image",
    "eomt_dinov3": "positions of an image",
    "llama4_vision_model": "positions of an image",
    "dinov3_vit": "positions of an image",
    "vjepa2": "positions of a film",
    "sapiens2": "positions of an image",
}
# Classes without a rotary module: a table of sines, or none of their own.
TABLES = {"roformer": 10000.0, "gptj": 10000.0, "codegen": 10000.0}
# The module of a type whose file has several.
MODULES = {
    "qwen2_5_omni_text": "Qwen2_5OmniRotaryEmbedding",
    "qwen2_5_omni_talker": "Qwen2_5OmniRotaryEmbedding",
    "qwen2_5_omni_dit": "Qwen2_5OmniDiTRotaryEmbedding",
    "qwen3_omni_moe_text": "Qwen3OmniMoeThinkerTextRotaryEmbedding",
    "qwen3_omni_moe_talker_text": "Qwen3OmniMoeTalkerRotaryEmbedding",
    "qwen3_omni_moe_talker_code_predictor": "Qwen3OmniMoeRotaryEmbedding",
    "evolla": "EvollaRotaryEmbedding",
    "EvollaModel": "EvollaRotaryEmbedding",
    "deepseek_ocr2_encoder": "DeepseekOcr2VisionRotaryEmbedding",
    "granite4_vision_text": "transformers.models.granite.modeling_granite.GraniteRotaryEmbedding",
}
# What transformers makes of these does not run in a model, or was not meant:
# - a head of odd width that turns whole, or more features than a head has (`theirs` leaves those out);
# - zamba2 with a `head_dim` of null: its attention has no width then;
# - mistral4 with `rope_scaling`, a `head_dim` or the default rule: its class then turns more features than the slice has;
# - a rotary dimension of 3 under YaRN (one value of the ramp is used for two pairs), or below 3 under the dynamic rule.
# Ours refuses, and transformers does not: keys in a rope dictionary that no rule reads; `high_freq_factor` below
# `low_freq_factor`; `short_mscale` and `long_mscale` that differ (Phi-3.5-MoE); sections that do not add up to the pairs.
# None of these is drawn.

# Fields without which these classes make no rotary embedding, or no model.
NEEDED = {
    "esm": {"position_embedding_type": "rotary"},
    "granitemoehybrid": {"position_embedding_type": "rope"},
    "zamba2": {"use_mem_rope": True},
}


# ----------------------------------------------------------- what transformers does


def text_part(whole):
    """The configuration that the language model is made from."""
    if whole.model_type == "pi0":
        return whole.vlm_config.get_text_config()
    return whole.get_text_config()


def rotary_class(text):
    if text.model_type in MODULES and "." in MODULES[text.model_type]:
        module, _, name = MODULES[text.model_type].rpartition(".")
        return getattr(importlib.import_module(module), name)
    module = importlib.import_module(type(text).__module__.replace("configuration_", "modeling_"))
    names = [n for n in vars(module) if n.endswith("RotaryEmbedding") and "Vision" not in n]
    names = [n for n in names if vars(module)[n].__module__ == module.__name__]
    if text.model_type in MODULES:
        names = [MODULES[text.model_type]]
    return vars(module)[names[0]] if len(names) == 1 else None


def is_rotary(text):
    if text.model_type in TABLES:
        return True
    if text.model_type in LEFT_OUT or text.default_rope_type != "default":
        return False
    # Parts of a model without a rope share a file with parts that have one.
    if text.model_type != "esm" and not hasattr(text, "rope_parameters"):
        return False
    try:
        return rotary_class(text) is not None
    except (ImportError, AttributeError):
        return False


def theirs(config, seq_len):
    """What transformers makes of a configuration: for each layer type its rotary features, factor and frequencies."""
    text = text_part(CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config)))
    if text.model_type in TABLES:
        head_dim = text.hidden_size // text.num_attention_heads
        dim = head_dim if text.model_type == "roformer" else text.rotary_dim
        if dim > head_dim:
            raise ValueError("more features to turn than a head has: the model does not run")
        return {None: (1.0, (1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim))).tolist())}
    module = rotary_class(text)(text)
    found = {}
    for name, buffer in module.named_buffers():
        if not name.endswith("inv_freq") or name.endswith("original_inv_freq"):
            continue
        prefix = name.removesuffix("inv_freq")
        layer_type = prefix.removesuffix("_") or None
        factor = getattr(module, f"{prefix}attention_scaling", 1.0)
        rule = getattr(module, "rope_type", "default")
        rule = rule[layer_type] if isinstance(rule, dict) else rule
        values = buffer
        if seq_len is not None and rule in ("dynamic", "longrope"):
            values, factor = longer(module, text, rule, seq_len, layer_type)
        head = width(text, layer_type)
        if 2 * len(values) > head or head % 2 and 2 * len(values) == head - 1:
            raise ValueError("more features to turn than a head has, or all but one of an odd head: the model does not run")
        if rule == "yarn" and len(values) == 2 and int(head * part(text, layer_type)) == 3:
            raise ValueError("a ramp of one value for two pairs")
        if rule == "dynamic" and int(head * part(text, layer_type)) < 3:
            raise ValueError("an exponent of d/(d−2) that divides by nothing, or turns the rule around")
        values = values.float().tolist()
        if text.model_type == "ernie4_5_vl_moe_text":
            # Kept in another order, in which its forward pass puts them back.
            values.sort(reverse=True)
        found[layer_type] = (float(factor), values)
    return found


def width(text, layer_type):
    layer = text
    if layer_type is not None:
        try:
            layer = text.per_layer_config[layer_type]
        except (ValueError, KeyError, AttributeError):  # every layer has the same shape
            pass
    return getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads


def part(text, layer_type):
    parameters = text.rope_parameters if layer_type is None else text.rope_parameters[layer_type]
    return parameters.get("partial_rotary_factor", 1.0)


def longer(module, text, rule, seq_len, layer_type):
    """The frequencies for a sequence of `seq_len` tokens, by the class's own rule where it has one."""
    arguments = {"seq_len": seq_len} | ({"layer_type": layer_type} if layer_type else {})
    return ROPE_INIT_FUNCTIONS[rule](text, **arguments)


# -------------------------------------------------------------------- configurations


def kinds():
    """Every type whose text part is rotary, with the field that holds its text part."""
    for kind in CONFIG_MAPPING_NAMES:
        try:
            whole = CONFIG_MAPPING[kind].from_dict({"model_type": kind})
            text = text_part(whole)
        except Exception:  # some classes cannot be made without a configuration: those are no text models
            continue
        if not is_rotary(text):
            continue
        section = None
        if text is not whole:
            names = [name for name in getattr(type(whole), "sub_configs", {}) if getattr(whole, name, None) is text]
            section = names[0] if names else "?"
        yield kind, text, section


BASES = [10000, 10000.0, 500000.0, 1000000, 25000.5, 100.0, 160000.0, 5e6, 999999.4420358813, 1234.5]
DIMS = [32, 48, 64, 80, 96, 100, 128, 192, 256, 20, 30, 44]
PARTS = [0.25, 0.5, 0.4, 0.75, 1.0, 0.1, 0.334, 0.9]
LENGTHS = [512, 1000, 2048, 4096, 8192, 32768, 131072, 1048576]


class Draw:
    """One random configuration of a type."""

    def __init__(self, rng, kind, text, section):
        self.rng, self.kind, self.text, self.section = rng, kind, text, section
        self.head_dim = None

    def maybe(self, chance):
        return self.rng.random() < chance

    def one(self, values):
        return self.rng.choice(values)

    def config(self):
        fields = self.sizes() | self.top()
        fields |= self.dictionaries(self.layer_types(fields))
        if self.maybe(0.05):
            fields["rope_scaling"] = fields.get("rope_scaling", None)
        fields |= NEEDED.get(self.text.model_type, {})
        if self.text.model_type == "mistral4":
            fields.pop("head_dim", None)
            fields.pop("rope_scaling", None)
            rope = fields.get("rope_parameters") or {}
            if rope.get("rope_type", rope.get("type", "default")) == "default":
                fields.pop("rope_parameters", None)
        if self.section is None:
            return {"model_type": self.kind} | fields
        if self.maybe(0.8):
            fields = {"model_type": self.text.model_type} | fields
        inner = fields
        whole = {"model_type": self.kind}
        if self.section == "?":
            return self.nested(whole, inner)
        return whole | {self.section: inner}

    def nested(self, whole, inner):
        """Types whose text part is deeper down."""
        if self.kind == "pi0":
            return whole | {"vlm_config": {"model_type": "paligemma", "text_config": inner}}
        if self.kind in ("qwen2_5_omni", "qwen3_omni_moe"):
            return whole | {"thinker_config": {"text_config": inner}}
        return whole

    def field(self, name):
        """A field under its own name, or the one that the class has for it."""
        own = (getattr(type(self.text), "attribute_map", None) or {}).get(name)
        return own if own is not None and self.maybe(0.8) else name

    def sizes(self):
        fields = {}
        heads = self.one([4, 8, 12, 16, 32])
        dim = self.one(DIMS)
        if self.text.model_type == "zamba2":
            heads = self.one([4, 8, 16, 32])
        if self.maybe(0.85):
            fields[self.field("hidden_size")] = heads * dim
            fields[self.field("num_attention_heads")] = heads
        elif self.maybe(0.5):
            # Fewer heads than the class's, of its width: the width of a head follows.
            fields[self.field("num_attention_heads")] = self.one([4, 8, 16])
        latent = hasattr(self.text, "qk_rope_head_dim")
        if latent and self.maybe(0.6):
            fields["qk_rope_head_dim"] = self.one([16, 32, 64, 128])
        if self.maybe(0.1 if latent else 0.35):
            fields[self.field("head_dim")] = self.one(DIMS)
        elif not latent and self.text.model_type != "zamba2" and self.maybe(0.03):
            fields["head_dim"] = None
        if hasattr(self.text, "global_head_dim") and self.maybe(0.5):
            fields["global_head_dim"] = self.one(DIMS)
        if self.maybe(0.8):
            fields[self.field("max_position_embeddings")] = self.one(LENGTHS)
        if hasattr(self.text, "num_hidden_layers") and self.maybe(0.3):
            fields[self.field("num_hidden_layers")] = 4
        return fields

    def top(self):
        fields = {}
        neox = hasattr(self.text, "rotary_pct") or self.text.model_type.startswith("gpt_neox")
        if self.maybe(0.6):
            fields["rope_theta"] = self.one(BASES)
        if neox and self.maybe(0.6):
            fields["rotary_emb_base"] = self.one(BASES)
        if neox and self.maybe(0.6):
            fields["rotary_pct"] = self.one(PARTS)
        if self.maybe(0.3):
            fields["partial_rotary_factor"] = self.one(PARTS)
        if self.maybe(0.08):
            fields["original_max_position_embeddings"] = self.one(LENGTHS)
        for name in ("rope_local_base_freq", "global_rope_theta", "local_rope_theta"):
            if self.maybe(0.15):
                fields[name] = self.one(BASES)
        if self.text.model_type in ("gptj", "codegen", "minimax_m2") and self.maybe(0.7):
            fields["rotary_dim"] = self.one([16, 20, 32])
        return fields

    def layer_types(self, fields):
        """The layer types that the class gives ropes of their own, if it does."""
        own = getattr(self.text, "rope_parameters", None) or {}
        labels = getattr(self.text, "_rope_type_labels", None) or getattr(self.text, "layer_types", None) or ()
        return sorted({key for key in own if key in labels}) or (
            sorted(set(labels)) if isinstance(own, dict) and own and all(isinstance(v, dict) for v in own.values()) else []
        )

    def dictionaries(self, layer_types):
        if self.maybe(0.25):
            return {}
        key = "rope_parameters" if self.maybe(0.5) else "rope_scaling"
        if layer_types and self.maybe(0.7):
            value = {layer: self.rope(nested=True) for layer in layer_types}
        else:
            value = self.rope()
        fields = {key: value}
        if self.maybe(0.05):
            fields["rope_parameters" if key == "rope_scaling" else "rope_scaling"] = self.one([{}, None, self.rope()])
        return fields

    def rope(self, nested=False):
        rule = self.one(["default", "linear", "dynamic", "yarn", "yarn", "longrope", "llama3", "proportional"])
        named = self.rng.random()
        names = {"rope_type": rule} if named < 0.6 else {"type": rule} if named < 0.9 else {"type": rule, "rope_type": rule}
        if rule == "default" and self.maybe(0.3):
            names = {}
        rope = dict(names)
        if self.maybe(0.5) or rule in ("llama3",) and self.maybe(0.8):
            rope["rope_theta"] = self.one(BASES)
        if self.maybe(0.25) or rule == "proportional" and self.maybe(0.5):
            rope["partial_rotary_factor"] = self.one(PARTS)
        if rule in ("linear", "dynamic", "yarn", "llama3") or rule in ("longrope", "proportional") and self.maybe(0.4):
            rope["factor"] = self.one([1.0, 2, 4.0, 8.0, 2.5, 16, 40.0, 0.5])
        if rule in ("yarn", "longrope", "llama3") and self.maybe(0.7):
            rope["original_max_position_embeddings"] = self.one(LENGTHS)
        if rule == "yarn":
            for key, values in [("beta_fast", [32, 16.0, 64.0, 0, None, 1.0]), ("beta_slow", [1, 2.0, 0.5, 0, None, 64]),
                                ("mscale", [1.0, 0.707, 0, 2]), ("mscale_all_dim", [1.0, 0.5, 0]),
                                ("attention_factor", [1.0, 0.8, 1.25, None]), ("truncate", [True, False])]:
                if self.maybe(0.3):
                    rope[key] = self.one(values)
            if self.maybe(0.05):
                rope["factor"] = None
        if rule == "longrope":
            rope["short_factor"], rope["long_factor"] = "short", "long"  # filled in when the width is known
            if self.maybe(0.3):
                rope["attention_factor"] = self.one([1.0, 1.19, None])
        if rule == "llama3":
            rope["low_freq_factor"], rope["high_freq_factor"] = self.one([(1.0, 4.0), (1, 8), (2.0, 4.0), (0.125, 0.5)])
        return rope


def fill_lists(config, rng):
    """Gives LongRoPE's lists the length that the class's own width asks for."""
    if '"short"' not in json.dumps(config):
        return config
    # The width is found by the rule that has the same one and needs no lists.
    plain = copy.deepcopy(config)
    for rope in longropes(plain):
        rope.update({key: "linear" for key in ("rope_type", "type") if key in rope} | {"factor": 1.0})
        del rope["short_factor"], rope["long_factor"]
    try:
        counts = {layer_type: len(values) for layer_type, (_, values) in theirs(plain, None).items()}
    except Exception:  # transformers will not take the longer one either
        counts = {None: rng.choice([16, 32, 64])}
    for layer_type, rope in longropes(config, named=True):
        # One without layer types, for a class that has them, is for those of full attention.
        layer_type = layer_type or "full_attention"
        count = counts.get(layer_type) or counts.get(None)
        if count is None:
            # No layer of the model is of this type.
            rope.update({key: "default" for key in ("rope_type", "type") if key in rope})
            del rope["short_factor"], rope["long_factor"]
            continue
        for key, top in (("short_factor", 1.5), ("long_factor", 20.0)):
            rope[key] = [round(1 + (top - 1) * i / max(count - 1, 1), 3) for i in range(count)]
    return config


def longropes(value, named=False, name=None):
    """The LongRoPE dictionaries of a configuration, with the layer types that they stand under."""
    if not isinstance(value, dict):
        return
    if value.get("short_factor") == "short":
        yield (name, value) if named else value
        return
    for key, inner in value.items():
        is_layer = key.endswith("_attention") or key in ("main", "compress", "hybrid", "hybrid_sliding")
        yield from longropes(inner, named, key if is_layer else None)


def draw(count, seed):
    """Configurations, every type in turn."""
    rng = random.Random(seed)
    every = list(kinds())
    order = []
    for _ in range(count):
        order = order or rng.sample(every, len(every))
        config = fill_lists(Draw(rng, *order.pop()).config(), rng)
        yield config, rng.choice([None, None, 1, 3000, 70000, 2000000])


# ------------------------------------------------------------------------ comparison


def ask(cases):
    """Our answers, in order."""
    lines = "".join(json.dumps({"config": config, "seq_len": seq_len}) + "\n" for config, seq_len in cases)
    done = subprocess.run(COMMAND, input=lines, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def is_ordinary(found):
    numbers = [x for factor, values in found.values() for x in [factor, *values]]
    return bool(found) and all(values for _, values in found.values()) and all(
        math.isfinite(x) and abs(x) < 1e30 for x in numbers
    )


def difference(found, answer):
    """What differs, in words, or None."""
    if "error" in answer:
        return f"refused: {answer['error']}"
    layers = {layer["layer_type"]: layer for layer in answer["layers"]}
    for layer_type, (factor, values) in found.items():
        layer = layers.get(layer_type)
        if layer is None:
            return f"layer types {list(found)} / {list(layers)}"
        if layer["inv_freq"] is None:
            return f"{layer_type}: read as not rotary"
        if len(layer["inv_freq"]) != len(values):
            return f"{layer_type}: {2 * len(values)} / {2 * len(layer['inv_freq'])} features turn"
        if abs(layer["attention_factor"] - factor) > 1e-9 * abs(factor):
            return f"{layer_type}: attention factor {factor} / {layer['attention_factor']}"
        for pair, (a, b) in enumerate(zip(values, layer["inv_freq"])):
            if abs(a - b) > 1e-6 * abs(a) + 1e-37:
                return f"{layer_type}: frequency {pair} is {a} / {b}"
    return None


# ---------------------------------------------------------------------------- sample

# Configurations with more pairs than this are left out of the sample: it is to stay small.
SAMPLE_PAIRS = 16


def write_sample(count, seed):
    """One configuration of each type that has few pairs, in the form of rope/frequencies.json."""
    rows, seen = [], set()
    for config, seq_len in draw(count, seed):
        if config["model_type"] in seen:
            continue
        try:
            found = theirs(config, seq_len)
        except Exception:
            continue
        if not is_ordinary(found) or max(len(values) for _, values in found.values()) > SAMPLE_PAIRS:
            continue
        seen.add(config["model_type"])
        for layer_type, (factor, values) in found.items():
            name = config["model_type"] + (f"/{layer_type}" if layer_type else "")
            rows.append({
                "name": name, "config": config, "layer_type": layer_type, "seq_len": seq_len,
                "rotary_dim": 2 * len(values), "attention_factor": factor, "inv_freq": values,
            })  # fmt: skip
    lines = ",\n".join(json.dumps(row, allow_nan=False, separators=(",", ":")) for row in rows)
    (ROOT / "golden" / "rope" / "sweep.json").write_text(f'{{"cases":[\n{lines}\n]}}\n')
    manifest.update("rope")
    print(f"{len(rows)} cases of {len(seen)} types")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--show", type=int, default=40, help="differences to print")
    arguments.add_argument("--write", action="store_true", help="write the sample in rope/sweep.json instead")
    given = arguments.parse_args()
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if given.write:
        return write_sample(given.count, given.seed)
    cases, results = [], []
    refused = Counter()
    for config, seq_len in draw(given.count, given.seed):
        try:
            found = theirs(config, seq_len)
        except Exception as error:
            found = None
            refused[type(error).__name__] += 1
        cases.append((config, seq_len))
        results.append(found)
    types, compared, differences = set(), 0, []
    ours_reads = 0
    for (config, seq_len), found, answer in zip(cases, results, ask(cases), strict=True):
        if found is None or not is_ordinary(found):
            ours_reads += "error" not in answer
            continue
        compared += 1
        types.add(config["model_type"])
        what = difference(found, answer)
        if what is not None:
            differences.append((config["model_type"], what, config, seq_len))
    for kind, what, config, seq_len in differences[: given.show]:
        print(f"{kind}: {what}\n    {json.dumps(config)[:1500]} at {seq_len}")
    by = Counter(kind for kind, *_ in differences)
    print(f"seed {given.seed}: {given.count} configurations, {compared} that transformers computes, of {len(types)} types")
    print(f"transformers refuses {sum(refused.values())} ({dict(refused)}), {ours_reads} of the others are read by ours")
    print(f"{len(differences)} differences {dict(by.most_common(30))}")
    raise SystemExit(bool(differences))


if __name__ == "__main__":
    main()
