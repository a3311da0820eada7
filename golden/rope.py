"""Makes the reference data for rotary position embeddings in `rope/`.

    python golden/rope.py

Frequencies and rotations come from transformers' own code, run on the
configurations in `rope_configs.py`. The tables come from mpmath at 300 bits.
See README.md for the files that are written.
"""

import copy
import functools
import importlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import mpmath
import safetensors.torch
import torch
import transformers
from mpmath import mp, mpf
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.gptj import modeling_gptj
from transformers.models.roformer import modeling_roformer

import manifest
import rope_configs as configs
from rope_exact import exact_frequencies

SEED = 20240229
OUT = Path(__file__).resolve().parent / "rope"
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
Q_HEADS = 3


# ------------------------------------------------------------------ frequencies


@dataclass
class Rope:
    """What transformers makes of one configuration, layer type and length."""

    rope_type: str
    head_dim: int
    inv_freq: torch.Tensor | None
    attention_factor: float
    params: dict  # the resolved rope parameters
    max_positions: int
    module: torch.nn.Module | None = None  # the model's rotary embedding

    @property
    def rotary_dim(self):
        return 0 if self.inv_freq is None else 2 * len(self.inv_freq)


def text_config(config):
    """The transformers configuration of the language model in `config`."""
    whole = CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config))
    return whole.get_text_config()


def modeling(text):
    """The modeling module that belongs to a configuration object."""
    return importlib.import_module(type(text).__module__.replace("configuration_", "modeling_"))


def rotary_embedding(text):
    """The one rotary embedding of the language model, built from its configuration."""
    module = modeling(text)
    names = [n for n in vars(module) if n.endswith("RotaryEmbedding") and "Vision" not in n]
    (name,) = [n for n in names if vars(module)[n].__module__ == module.__name__]
    return vars(module)[name](text)


def power_law(theta, dim):
    return 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))


def without_rotary_embedding(config):
    """Models that keep a table of sines and no rotary embedding module, or that transformers lacks."""
    kind = config["model_type"]
    if kind == "minimind":
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        theta = config["rope_theta"]
        inv_freq = power_law(theta, head_dim)
        max_positions = config["max_position_embeddings"]
    else:
        text, theta = text_config(config), 10000.0
        head_dim, max_positions = text.hidden_size // text.num_attention_heads, text.max_position_embeddings
        if kind == "roformer":
            # The table is made in f64; its frequencies are given here rounded to f32.
            inv_freq = torch.tensor([10000 ** (-2 * j / head_dim) for j in range(head_dim // 2)], dtype=torch.float32)
            sines = roformer_table((1,), head_dim)[0, : head_dim // 2]
            assert torch.allclose(torch.sin(inv_freq), sines, rtol=2e-7, atol=0)
        else:
            inv_freq = power_law(10000, text.rotary_dim)
            table = modeling(text).create_sinusoidal_positions(2, text.rotary_dim)
            assert torch.equal(table[1], torch.cat([inv_freq.sin(), inv_freq.cos()]))
    params = {"rope_type": "default", "rope_theta": theta}
    return Rope("default", head_dim, inv_freq, 1.0, params, max_positions)


def resolve(config, layer_type=None, seq_len=None):
    if config["model_type"] in ("minimind", "roformer", "gptj", "codegen"):
        return without_rotary_embedding(config)
    text = text_config(config)
    layer = text
    if layer_type is not None:
        try:
            layer = text.per_layer_config[layer_type]
        except ValueError:  # every layer has the same shape
            pass
    head_dim = getattr(layer, "head_dim", None) or layer.hidden_size // layer.num_attention_heads
    params = text.rope_parameters if layer_type is None else text.rope_parameters[layer_type]
    if params is None:
        return Rope("nope", head_dim, None, 1.0, {}, text.max_position_embeddings)

    module = rotary_embedding(text)
    prefix = "" if layer_type is None else f"{layer_type}_"
    rope_type = module.rope_type if layer_type is None else module.rope_type[layer_type]
    inv_freq, factor = getattr(module, f"{prefix}inv_freq"), getattr(module, f"{prefix}attention_scaling")
    if seq_len is not None:
        inv_freq, factor = ROPE_INIT_FUNCTIONS[rope_type](text, seq_len=seq_len, layer_type=layer_type)
    return Rope(rope_type, head_dim, inv_freq, float(factor), dict(params), text.max_position_embeddings, module)


def expand(cases):
    """Every (name, config, layer type, length) that a list of cases asks for."""
    for case in cases:
        for layer_type in case.layers:
            for seq_len in case.seq_lens:
                parts = [case.name]
                if len(case.layers) > 1:
                    parts.append(layer_type.removesuffix("_attention"))
                if len(case.seq_lens) > 1:
                    parts.append("init" if seq_len is None else f"len{seq_len}")
                yield "/".join(parts), case.config, layer_type, seq_len


def describe(name, config, layer_type, seq_len, rope):
    return {
        "name": name,
        "config": config,
        "layer_type": layer_type,
        "seq_len": seq_len,
        "rope_type": rope.rope_type,
        "head_dim": rope.head_dim,
        "rotary_dim": rope.rotary_dim,
        "attention_factor": rope.attention_factor,
    }


def make_frequencies():
    rows, worst = [], defaultdict(float)
    for name, config, layer_type, seq_len in expand(configs.FREQUENCY_CASES):
        rope = resolve(config, layer_type, seq_len)
        values = None
        if rope.inv_freq is not None:
            assert rope.inv_freq.dtype == torch.float32 and torch.isfinite(rope.inv_freq).all(), name
            values = rope.inv_freq.tolist()
            worst[rope.rope_type] = max(worst[rope.rope_type], compare(name, rope, exact_frequencies(rope, seq_len)))
        rows.append(describe(name, config, layer_type, seq_len, rope) | {"inv_freq": values})
    write_cases("frequencies.json", rows)
    distinct = len({json.dumps(r["config"], sort_keys=True) for r in rows})
    print(f"frequencies: {len(rows)} cases, {distinct} configurations, {dict(Counter(r['rope_type'] for r in rows))}")
    for rope_type, error in sorted(worst.items()):
        print(f"  {rope_type:12} within {error:.1e} of the exact frequencies")


# ----------------------------------------------------------------------- tables


def compare(name, rope, exact):
    """The largest relative difference of transformers' f32 frequencies from the exact ones."""
    worst = 0.0
    for got, want in zip(rope.inv_freq.tolist(), exact, strict=True):
        worst = max(worst, float(abs(got - want) / want) if want else abs(got))
    assert worst < 3e-6, f"{name}: frequencies differ by {worst:.2e}"
    return worst


def make_tables():
    rows = []
    for name, config, layer_type, seq_len in expand(configs.TABLE_CASES):
        rope = resolve(config, layer_type, seq_len)
        exact = exact_frequencies(rope, seq_len)
        error = compare(name, rope, exact)
        pairs = sorted({*range(0, len(exact), 4), len(exact) - 1})
        angles = [[position * exact[i] for i in pairs] for position in configs.TABLE_POSITIONS]
        rows.append(
            describe(name, config, layer_type, seq_len, rope)
            | {
                "positions": configs.TABLE_POSITIONS,
                "inv_freq": [[float(f), float(f - mpf(float(f)))] for f in exact],
                "pairs": pairs,
                "cos": [[float(mp.cos(a)) for a in row] for row in angles],
                "sin": [[float(mp.sin(a)) for a in row] for row in angles],
            }
        )
        print(f"table {name}: {len(exact)} frequencies, transformers' f32 within {error:.1e}")
    write_cases("tables.json", rows)


# -------------------------------------------------------------------- rotations


def roformer_table(positions, dim):
    """RoFormer's own table, [sin | cos] by row, at these positions only.

    The model fills its table for the positions `range(rows)`, one value at a
    time, so `range` is replaced to have it fill just the rows asked for.
    """
    embedding = modeling_roformer.RoFormerSinusoidalPositionalEmbedding(len(positions), dim)
    assert len(positions) != dim
    rows = lambda n: positions if n == len(positions) else range(n)  # noqa: E731
    with mock.patch.object(modeling_roformer, "range", rows, create=True):
        return embedding.create_weight()


@functools.cache
def gptj_table(positions, dim):
    """Rows of GPT-J's own table, [sin | cos]."""
    return modeling_gptj.create_sinusoidal_positions(max(positions) + 1, dim)[list(positions)].clone()


def rotate_roformer(spec, rope, q, k):
    table = roformer_table(tuple(configs.POSITIONS), rope.head_dim)
    turn = modeling_roformer.RoFormerSelfAttention.apply_rotary_position_embeddings
    sin, cos = table.chunk(2, dim=-1)
    return cos, sin, *turn(table[None, None].to(q.dtype), q, k)


def rotate_gptj(spec, rope, q, k):
    sin, cos = gptj_table(tuple(configs.POSITIONS), rope.rotary_dim).chunk(2, dim=-1)

    def turn(x):  # the model keeps heads after positions
        x = x.transpose(1, 2)
        turned = modeling_gptj.apply_rotary_pos_emb(
            x[..., : rope.rotary_dim], sin[None].to(x.dtype), cos[None].to(x.dtype)
        )
        return torch.cat([turned, x[..., rope.rotary_dim :]], dim=-1).transpose(1, 2)

    return cos, sin, turn(q), turn(k)


def rotate_module(spec, rope, q, k):
    positions = torch.tensor(configs.MROPE_POSITIONS if spec.kind == "mrope" else configs.POSITIONS)
    ids = positions[..., None, :]  # [1, len] or [3, 1, len]
    cos, sin = rope.module(q, ids)
    cos32, sin32 = rope.module(q.float(), ids)
    assert cos.dtype == (q.dtype if spec.table == "input" else torch.float32)
    # The rotated width first, then the rest of the head as it is.
    dim = rope.rotary_dim
    turned = getattr(modeling(rope.module.config), spec.apply)(q[..., :dim], k[..., :dim], cos, sin)
    q_rot, k_rot = (torch.cat([t, x[..., dim:]], dim=-1) for t, x in zip(turned, (q, k)))
    # Each value stands twice in a row: side by side, or half a row apart.
    side_by_side = torch.equal(cos32[..., 0::2], cos32[..., 1::2])
    assert side_by_side or torch.equal(*cos32.chunk(2, dim=-1))
    keep = slice(0, dim, 2) if side_by_side else slice(0, dim // 2)
    cos32, sin32 = cos32[0, :, keep], sin32[0, :, keep]
    if spec.kind == "plain":
        angles = positions[:, None].float() * rope.inv_freq
        assert torch.equal(cos32, angles.cos() * rope.attention_factor)
        assert torch.equal(sin32, angles.sin() * rope.attention_factor)
    return cos32, sin32, q_rot, k_rot


def check_rotation(spec, rope, cos, sin, x, turned):
    """The largest error against a rotation in f64 with the same cosines, over the type's epsilon."""
    dim, eps = rope.rotary_dim, torch.finfo(x.dtype).eps
    halves = slice(0, dim // 2), slice(dim // 2, dim)
    evens = slice(0, dim, 2), slice(1, dim, 2)
    source = halves if spec.pairing == "half" else evens
    target = evens if spec.pairing == "interleaved" else halves
    a, b = (x[..., s].double() for s in source)
    cos, sin = cos.double(), sin.double()
    want = a * cos - b * sin, b * cos + a * sin
    error = max((turned[..., t].double() - w).abs().max().item() for t, w in zip(target, want))
    assert torch.equal(turned[..., dim:], x[..., dim:])
    return error / (eps * x.abs().max().item())


def make_rotations():
    rows, tensors = [], {}
    for index, spec in enumerate(configs.ROTATIONS):
        positions = configs.MROPE_POSITIONS if spec.kind == "mrope" else configs.POSITIONS
        rotate = {"roformer": rotate_roformer, "gptj": rotate_gptj}.get(spec.config["model_type"], rotate_module)
        # The modules take the longest position so far as the length, and choose their frequencies by it.
        seq_len = 1 + max(configs.POSITIONS)
        rule = resolve(spec.config).rope_type
        worst = 0.0
        for dtype in spec.dtypes:
            rope = resolve(spec.config, None, seq_len if rule in ("dynamic", "longrope") else None)
            generator = torch.Generator().manual_seed(SEED + index)
            shape = len(configs.POSITIONS), rope.head_dim
            q = torch.randn(1, Q_HEADS, *shape, generator=generator).to(DTYPES[dtype])
            k = torch.randn(1, spec.k_heads, *shape, generator=generator).to(DTYPES[dtype])
            cos, sin, q_rot, k_rot = rotate(spec, rope, q, k)
            assert q_rot.dtype == q.dtype and q_rot.shape == q.shape and k_rot.shape == k.shape
            assert cos.shape == sin.shape == (len(configs.POSITIONS), rope.rotary_dim // 2)
            worst = max(worst, *(check_rotation(spec, rope, cos, sin, *xy) for xy in ((q, q_rot), (k, k_rot))))
            name = f"{spec.name}-{dtype}"
            values = {"q": q, "k": k, "q_rot": q_rot, "k_rot": k_rot, "cos": cos, "sin": sin}
            tensors |= {f"{name}.{part}": t.contiguous().clone() for part, t in values.items()}
            rows.append(
                describe(name, spec.config, None, seq_len, rope)
                | {
                    "dtype": dtype,
                    "pairing": spec.pairing,
                    "kind": spec.kind,
                    "positions": positions,
                    "q_heads": Q_HEADS,
                    "k_heads": spec.k_heads,
                    "table_dtype": dtype if spec.table == "input" else "f32",
                    "math_dtype": dtype if spec.math == "input" else "f32",
                }
            )
        assert worst < 4, f"{spec.name}: {worst}"
        print(f"rotation {spec.name}: {spec.pairing}, at most {worst:.2f} epsilon from f64")
    write_cases("rotations.json", rows)
    (OUT / "rotations.safetensors").write_bytes(safetensors.torch.save(tensors))


# ------------------------------------------------------------------------ files


def write_cases(name, rows):
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names), [n for n, count in Counter(names).items() if count > 1]
    lines = ",\n".join(json.dumps(row, allow_nan=False, separators=(",", ":")) for row in rows)
    (OUT / name).write_text(f'{{"cases":[\n{lines}\n]}}\n')


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    mp.prec = 300
    OUT.mkdir(exist_ok=True)
    make_frequencies()
    make_rotations()
    make_tables()
    manifest.update("rope", mpmath=mpmath.__version__, seed=SEED)


if __name__ == "__main__":
    main()
